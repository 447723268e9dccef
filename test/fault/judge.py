"""Pure functions: what a state is, where two differ, and what the oracles say of a run."""

import collections

from kube import OURS, RESOURCES
from workload import FOREIGN, ITS_OWN

# The server's or the clock's, in every object.
METADATA = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "selfLink")
TIMES = ("lastTransitionTime", "lastUpdateTime")
UID = "uid"


def normal(ref, item, ns):
    """An object as paths and values, without what differs by nature."""
    generation = item["metadata"].get("generation")
    item = dict(item, metadata={k: v for k, v in item["metadata"].items() if k not in METADATA})
    for named in ("apiVersion", "kind"):  # which lists leave out
        item.pop(named, None)
    flat = {}

    def walk(path, value):
        key = path[-1] if path else ""
        if key in TIMES:
            return
        if key == "observedGeneration":  # what counts is that it is the object's
            value = "the object's" if value == generation else value
        if key == UID:
            value = "a uid"
        if key == "conditions" and isinstance(value, list):
            value = {c.get("type", str(i)): c for i, c in enumerate(value)}
        if isinstance(value, dict) and value:
            for k, v in value.items():
                walk((*path, k), v)
        elif isinstance(value, list) and value:
            for i, v in enumerate(value):
                walk((*path, str(i)), v)
        else:
            # Names of marks hold the owner's uid, and texts the namespace.
            flat["/".join(path)] = value.replace(ns, "NS") if isinstance(value, str) else value

    walk((), item)
    return flat


def normal_state(state, ns):
    """`state`: ref -> object, as listed."""
    return {ref: normal(ref, item, ns) for ref, item in state.items() if ref not in FOREIGN and ref not in ITS_OWN}


def differences(wanted, found, masked=frozenset()):
    """Lines: what is missing, what is extra, what differs."""
    lines = [f"{ref} is missing" for ref in sorted(wanted.keys() - found.keys())]
    lines += [f"{ref} is extra" for ref in sorted(found.keys() - wanted.keys())]
    for ref in sorted(wanted.keys() & found.keys()):
        ours, theirs = wanted[ref], found[ref]
        for path in sorted(ours.keys() | theirs.keys()):
            if (ref, path) not in masked and ours.get(path, "nothing") != theirs.get(path, "nothing"):
                lines.append(f"{ref} {path}: {short(theirs.get(path, 'nothing'))}, not {short(ours.get(path, 'nothing'))}")
    return lines


def short(value):
    text = str(value)
    return text if len(text) < 160 else text[:150] + f"... ({len(text)})"


def mask_of(one, other):
    """Paths of objects that differ between two runs in which nothing went wrong."""
    return {(ref, path) for ref in one.keys() & other.keys() for path in one[ref].keys() | other[ref].keys()
            if one[ref].get(path, "nothing") != other[ref].get(path, "nothing")}


def effective(record):
    return [write for write in record if write["effective"]]


def counts(record):
    """(ref, verb) -> how often the operator made or deleted it. Events are told, not kept."""
    return collections.Counter((f"{w['resource']}/{w['name']}", w["verb"]) for w in effective(record)
                               if w["verb"] in ("create", "delete") and w["resource"] != "events")


def points(record):
    """Each effective write by what identifies it in another run: what it was, and the how-manieth of its sort."""
    seen, found = collections.Counter(), []
    for write in effective(record):
        sort = (write["verb"], write["resource"], write["name"], write["subresource"])
        if write["resource"] == "events":
            sort = ("create", "events", "", "")  # their names hold a hash
        found.append((*sort, seen[sort]))
        seen[sort] += 1
    return found


def health(state, phases):
    """O6: every object's status speaks of what it is now, and is what is expected."""
    said = []
    for ref, phase in phases.items():
        item = state.get(ref)
        if not item:
            said.append(f"{ref} is missing")
            continue
        status, generation = item.get("status", {}), item["metadata"]["generation"]
        if status.get("observedGeneration") != generation:
            said.append(f"{ref}: observedGeneration {status.get('observedGeneration')}, generation {generation}")
        for condition in status.get("conditions", []):
            if condition.get("observedGeneration", generation) != generation:
                said.append(f"{ref}: condition {condition['type']} is of generation {condition['observedGeneration']}")
        if status.get("phase") != phase or status.get("ready", False) != (phase == "Ready"):
            said.append(f"{ref}: phase {status.get('phase')}, ready {status.get('ready')}, not {phase}: "
                        f"{status.get('message')}")
    return said


def update_summary(wanted, found):
    """O2: creates and deletes of each object are as often as in a reference. `wanted`: several counts, any of which
    is right."""
    said = []
    for key in sorted(set().union(found, *wanted)):
        allowed = sorted({count[key] for count in wanted})
        if found[key] not in allowed:
            said.append(f"{key[0]}: {found[key]} x {key[1]}, not {' or '.join(map(str, allowed))}")
    return said


def strangers(record):
    """Part of O1: nothing is written that no snapshot would show."""
    return sorted({f"{w['resource']} is written" for w in effective(record)
                   if w["resource"] not in RESOURCES and w["resource"] != "events"})


def leftovers(state):
    """O9: what must be gone."""
    return sorted(f"{ref} is left" for ref in state if ref not in FOREIGN and ref not in ITS_OWN)


def touched(before, after):
    """O9: foreign objects that are not what they were. The Secret `creds` is edited by the user of the workload."""
    def mark(item):
        return item and (item["metadata"]["uid"], item["metadata"]["resourceVersion"])
    return sorted(f"{ref} was touched" for ref in FOREIGN - {"secrets/creds"} if mark(before.get(ref)) != mark(after.get(ref)))


def orphans(state):
    """Children whose owner is gone: what a garbage collector deletes."""
    uids = {item["metadata"]["uid"] for ref, item in state.items() if ref.split("/")[0] in OURS}
    for ref, item in state.items():
        owners = item["metadata"].get("ownerReferences", [])
        if owners and not any(owner["uid"] in uids for owner in owners):
            yield ref, item["metadata"]["uid"]
