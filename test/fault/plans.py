"""The plans: what goes wrong, when, and what difference it may honestly make."""

import dataclasses
import re
import time

import workload


@dataclasses.dataclass
class Plan:
    name: str
    rules: tuple = ()  # of the proxy, from before the operator starts
    after: dict = dataclasses.field(default_factory=dict)  # step -> mischief(run)
    json_only: bool = False  # the proxy looks into watches
    page: int = 0  # objects on a page of a list
    patience: float = 150.0  # seconds for a step: others may need the machine, too
    more: frozenset = frozenset()  # refs that may honestly be made or deleted more or less often (O2)
    why: str = ""  # the reason for that

    @property
    def family(self):
        return self.name.partition("/")[0]


REFERENCE = Plan("reference")

WRITES = ["create", "update", "patch", "delete"]
READS = ["get", "list", "watch"]

# What the operator makes for each object of the workload.
CHILDREN_OF = {
    "modelapis/llm": {"deployments/modelapi-llm", "services/modelapi-llm", "configmaps/litellm-config-llm",
                      "secrets/modelapi-llm-key"},
    "mcpservers/echo": {"deployments/mcpserver-echo", "services/mcpserver-echo"},
    "agents/boss": {"deployments/agent-boss", "services/agent-boss", "configmaps/agent-boss"},
    "modelapis/local": {"deployments/modelapi-local", "services/modelapi-local"},
    "mcpservers/clock": {"deployments/mcpserver-clock", "services/mcpserver-clock"},
    "agents/worker": {"deployments/agent-worker", "services/agent-worker", "configmaps/agent-worker"},
}
# Those whose recreation is heard of late, one of each kind.
RECREATED = ("modelapis/llm", "mcpservers/echo", "agents/boss")
BRIEF = {"modelapis": {"deployments/modelapi-brief", "services/modelapi-brief", "configmaps/litellm-config-brief",
                       "secrets/modelapi-brief-key"},
         "mcpservers": {"deployments/mcpserver-brief", "services/mcpserver-brief"},
         "agents": {"deployments/agent-brief", "services/agent-brief", "configmaps/agent-brief"}}


def text(point):
    verb, resource, name, subresource, number = point
    return f"{verb} {resource}/{name or '*'}{'/' + subresource if subresource else ''} #{number + 1}"


def at(point, **rest):
    verb, resource, name, subresource, number = point
    return dict(rest, verbs=[verb], resource=resource, name=name, subresource=subresource, effective=True, skip=number,
                times=1)


# ---------------------------------------------------------------------------------------------
# S1: killed right after a write

def kills(points):
    """Every write that changed something; of events, which are told beside the rest, every tenth."""
    chosen = [p for p in points if p[1] != "events" or p[4] % 10 == 0]
    return [Plan(f"S1/{when}/{text(point)}", rules=(at(point, action=f"stop-{when}"),))
            for point in chosen for when in ("before", "after")]


# ---------------------------------------------------------------------------------------------
# S3: what nobody saw

# What is changed and changed back: ref -> (the change, the way back); None: as it was
CHANGES = {
    "modelapis/llm": ({"spec": {"proxyConfig": {"models": ["z"]}}}, {"spec": {"proxyConfig": {"models": ["a", "b/*"]}}}),
    "mcpservers/echo": ({"spec": {"config": {"tools": {"fromString": "x = 1"}}}}, workload.ECHO),
    "agents/boss": ({"spec": {"modelAPI": "nowhere"}}, {"spec": {"modelAPI": "llm"}}),
    "deployments/agent-boss": ({"spec": {"replicas": 5}}, {"spec": {"replicas": 2}}),
    "services/agent-boss": ({"spec": {"selector": {"agent": "nobody"}}}, {"spec": {"selector": {"agent": "boss"}}}),
    "configmaps/agent-boss": ({"data": {"instructions": "Be rude."}}, {"data": {"instructions": "Be kind."}}),
    "secrets/creds": (workload.secret("other"), workload.secret("first")),
}


def come_and_go(kube, ns, ref):
    """Something of the kind is made and deleted."""
    resource, _ = ref.split("/")
    content = workload.OBJECTS.get(ref) or next(c for r, _, c in workload.BEFORE if r == resource)
    kube.create(resource, ns, "brief", content)
    kube.delete(resource, ns, "brief")


def change_and_back(kube, ns, ref):
    resource, name = ref.split("/")
    for patch in CHANGES[ref]:
        kube.merge(resource, ns, name, patch)


def go_and_come(kube, ns, ref):
    """The same content under a new uid."""
    resource, name = ref.split("/")
    old = kube.get(resource, ns, name)
    kube.delete(resource, ns, name)
    kept = {k: v for k, v in old.items() if k not in ("metadata", "status")}
    for assigned in ("clusterIP", "clusterIPs"):
        kept.get("spec", {}).pop(assigned, None)
    metadata = {k: old["metadata"][k] for k in ("labels", "annotations", "ownerReferences") if k in old["metadata"]}
    # Children as the operator itself makes them: what another manager made would stay that manager's.
    manager = "" if workload.is_object(ref) else "cadre"
    kube.create(resource, ns, name, dict(kept, metadata=metadata), manager)


PATTERNS = {"created+deleted": come_and_go, "updated+reverted": change_and_back, "deleted+recreated": go_and_come}
HELD_SECONDS = 0.7  # in which the rest of the world goes on


def unseen(ref, pattern, how):
    resource = ref.split("/")[0]

    def mischief(run):
        if not run.proxy.hold(resource):
            raise AssertionError(f"nobody watches {resource}")
        PATTERNS[pattern](run.kube, run.ns, ref)
        until = time.monotonic() + HELD_SECONDS
        while time.monotonic() < until:
            run.play(run.look()[1])
            time.sleep(0.1)
        if how == "gone":  # the server has forgotten where the watch was: the picture is drawn anew
            run.proxy.rules({"verbs": ["watch"], "resource": resource, "initial": False, "perObject": True, "times": 1,
                             "action": "answer", "code": 410, "reason": "Expired"})
            run.proxy.release(resource, "cut")
        else:
            run.proxy.release(resource, "last")

    return mischief


def unobserved():
    for ref in CHANGES:
        for pattern in PATTERNS:
            for how in ("last", "gone"):
                more, why = frozenset(), ""
                if pattern == "created+deleted" and ref in CHILDREN_OF:
                    more, why = BRIEF[ref.split("/")[0]], "the brief object may be seen or not"
                if pattern == "deleted+recreated":
                    more, why = CHILDREN_OF.get(ref, set()) | {ref}, "it or its owner is deleted by the user: made again"
                yield Plan(f"S3/{how}/{pattern} {ref}", after={"create": unseen(ref, pattern, how)}, json_only=how == "last",
                           more=frozenset(more), why=why)


def late_garbage(resource, owner, how):
    """The owner is deleted and made again; that the old children went is heard when all else is done."""
    def mischief(run):
        run.proxy.hold(resource)
        go_and_come(run.kube, run.ns, owner)
        until = time.monotonic() + 10
        while time.monotonic() < until:
            run.tend()
            if not run.play(run.look()[1]) and run.settled():
                break
        run.proxy.release(resource, how)
    return mischief


def heard_late():
    for owner in RECREATED:
        children = CHILDREN_OF[owner]
        for resource in sorted({ref.split("/")[0] for ref in children}):
            for how in ("last", "cut"):
                yield Plan(f"S3/late/{how}/{resource} of {owner}, which is deleted+recreated", json_only=how == "last",
                           after={"create": late_garbage(resource, owner, how)}, more=frozenset(children),
                           why="its owner is deleted by the user: made again")


# ---------------------------------------------------------------------------------------------
# S5: conflicts and lost answers

def conflicts():
    conflict = {"action": "answer", "code": 409, "reason": "Conflict", "perObject": True}
    yield Plan("S5/conflict/the first update of each object", rules=(dict(conflict, verbs=["update", "patch"], times=1),))
    yield Plan("S5/conflict/three updates of each object", rules=(dict(conflict, verbs=["update", "patch"], times=3),))
    yield Plan("S5/conflict/the first status of each object",
               rules=(dict(conflict, verbs=["update", "patch"], subresource="status", times=1),))
    yield Plan("S5/conflict/the first update of each child",
               rules=(dict(conflict, verbs=["update", "patch"], subresource="", times=1),))
    yield Plan("S5/conflict/every second update", rules=tuple(
        dict(conflict, verbs=["update", "patch"], skip=n, times=1) for n in range(0, 10, 2)))
    yield Plan("S5/conflict/the first delete of each object", rules=(dict(conflict, verbs=["delete"], times=1),))


def lost_answers(points):
    """Of each write to a child, and of the first status of each object."""
    for point in points:
        if point[1] != "events" and (point[3] == "" or point[4] == 0):
            yield Plan(f"S5/lost/{text(point)}", rules=(at(point, action="lose"),))
    yield Plan("S5/lost/the first answer for each object",
               rules=({"verbs": WRITES, "perObject": True, "times": 1, "action": "lose"},))
    yield Plan("S5/lost/two answers for each object",
               rules=({"verbs": WRITES, "perObject": True, "times": 2, "action": "lose"},))


# ---------------------------------------------------------------------------------------------
# S6: an API server in trouble

def trouble():
    answers = {"429": {"code": 429, "reason": "TooManyRequests", "retryAfter": 1},
               "500": {"code": 500, "reason": "InternalError"},
               "503": {"code": 503, "reason": "ServiceUnavailable"},
               "503 with Retry-After": {"code": 503, "reason": "ServiceUnavailable", "retryAfter": 1},
               "504": {"code": 504, "reason": "Timeout"}}
    for name, said in answers.items():
        for what, verbs in (("writes", WRITES), ("reads", READS)):
            yield Plan(f"S6/{name}/the first two {what} of each object",
                       rules=(dict(said, verbs=verbs, perObject=True, times=2, action="answer"),))
    for what, verbs in (("writes", WRITES), ("reads", READS)):
        yield Plan(f"S6/timeout/the first of the {what} of each object, cut after a second",
                   rules=({"verbs": verbs, "perObject": True, "times": 1, "action": "hang", "millis": 1000},))
        yield Plan(f"S6/timeout/one of the {what}, never answered",
                   rules=({"verbs": verbs, "resource": "deployments", "times": 1, "action": "hang"},))
        yield Plan(f"S6/truncated/the first of the {what} of each object",
                   rules=({"verbs": verbs, "perObject": True, "times": 1, "action": "truncate"},))
    yield Plan("S6/truncated/events of watches, as JSON", json_only=True,
               rules=({"verbs": ["watch"], "perObject": True, "times": 2, "action": "truncate"},))
    stale = {"more": frozenset().union(*CHILDREN_OF.values()),
             "why": "until it hears of it the operator takes a deleted owner for alive, and makes what was collected"}
    yield Plan("S6/gone/every watch, as an answer", **stale, after={
        step: ended("cut", {"verbs": ["watch"], "initial": False, "perObject": True, "times": 1, "action": "answer",
                            "code": 410, "reason": "Expired"}) for step in ("create", "back")})
    yield Plan("S6/gone/every watch, as an event", json_only=True, **stale, after={s: ended("gone") for s in ("create", "back")})
    yield Plan("S6/cut/every watch", **stale, after={s: ended("cut") for s in ("create", "edit", "back")})
    yield Plan("S6/bookmarks/only, for a while", json_only=True, after={"create": only_bookmarks})
    yield Plan("S6/slow/every piece of a watch, and every answer", **stale,
               rules=({"verbs": READS, "action": "slow", "millis": 150},))
    refuse = {"verbs": ["watch"], "initial": True, "action": "answer", "code": 400, "reason": "BadRequest"}
    yield Plan("S6/pages/of one object, slow", page=1, rules=(refuse, {"verbs": ["list"], "action": "slow", "millis": 200}))
    yield Plan("S6/pages/that expire", page=1, rules=(
        refuse, {"verbs": ["list"], "perObject": True, "skip": 1, "times": 2, "action": "answer", "code": 410,
                 "reason": "Expired"}))
    yield Plan("S6/slow/the first list takes longer than anybody waits", **stale,
               rules=({"verbs": ["watch"], "initial": True, "perObject": True, "times": 1, "action": "slow", "millis": 12000},))


def ended(how, *rules):
    def mischief(run):
        if rules:
            run.proxy.rules(*rules)
        if not run.proxy.release("", how):
            raise AssertionError("nobody watches")
    return mischief


def only_bookmarks(run):
    """The user edits while watches bring nothing but bookmarks, of where they were; then they are cut."""
    run.proxy.hold("", "bookmarks")
    change_and_back(run.kube, run.ns, "modelapis/llm")
    go_and_come(run.kube, run.ns, "secrets/creds")
    until = time.monotonic() + 1
    while time.monotonic() < until:
        time.sleep(0.1)
    run.proxy.release("", "cut")


# ---------------------------------------------------------------------------------------------

def all_plans(reference):
    return [*kills(reference.points), *unobserved(), *heard_late(), *conflicts(), *lost_answers(reference.points), *trouble()]


# Alarms that are right, and why they are no defect: (plan, alarm, reason).
EXPLAINED = [
    (r"^S[56]/", r"^O6: the operator ended by itself with 1: cadre: (making|reading) the Secret cadre-hash-key: ",
     "at its start it cannot do without its key: it says so, ends, and is started again"),
]


def explanation(plan, alarm):
    """Why an alarm is no defect; None: it may be one."""
    if alarm.startswith("O2: ") and alarm.removeprefix("O2: ").partition(":")[0] in plan.more:
        return plan.why
    return next((why for p, a, why in EXPLAINED if re.search(p, plan.name) and re.search(a, alarm)), None)
