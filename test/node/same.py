"""One table of what manifests lead to, wherever they are applied: as processes, in Docker, on a real cluster.

A case is a file of the folder same/, run in a namespace of its own that has the file's name. Its steps:

  apply: [OBJECT, ...]      as `kubectl apply` does
  kubectl: COMMAND          or a list of them; `fails: TEXT` beside it where the command has to fail with that text
  see: {WHAT: EXPECTED}     waits until all of it is to be seen at once

WHAT is RESOURCE/NAME, `RESOURCE` or `RESOURCE label=value` for a list, or the words of a kubectl command whose output counts.
EXPECTED names what matters of an object; the rest of it may be anything:

  null             it is not there
  ~TEXT            a regular expression for all of it
  $NAME            what was found under this name before, or from now on; !$NAME is something else than that
  a map            for a list of named things (conditions, containers, env): those that are named
  a list           as many as there are, each as expected, in any order
  {count: N, each: EXPECTED}        a list of many that are alike
  a text for a condition            its status, and its reason if there is a second word

`same.py KUBECONFIG [CASE]...` runs cases against any cluster that has the image box:1 and volumes for claims.
"""

import concurrent.futures
import json
import pathlib
import re
import shlex
import subprocess
import sys
import time

import yaml

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE.parent / "hub"), str(HERE.parent / "fault")]

from hubs import PATIENCE, tool  # noqa: E402
from kube import Kube, Login, Refused  # noqa: E402

CASES = {file.stem: file for file in sorted((HERE / "same").glob("*.yaml"))}
SIDE_BY_SIDE = 8  # cases; most of their time they wait
LONG = 3 * PATIENCE  # a real cluster on a busy machine takes its time
GROUPS = {"pods": "api/v1", "services": "api/v1", "configmaps": "api/v1", "persistentvolumeclaims": "api/v1", "events": "api/v1",
          "deployments": "apis/apps/v1", "replicasets": "apis/apps/v1", "statefulsets": "apis/apps/v1", "controllerrevisions": "apis/apps/v1",
          "jobs": "apis/batch/v1", "cronjobs": "apis/batch/v1", "endpointslices": "apis/discovery.k8s.io/v1"}


# ---------------------------------------------------------------------------------------------
# What is expected

class Judge:
    """Compares what is found with what is expected. Fills in names that are used for the first time; passes over differences
    that are known, and tells which of those it met."""

    def __init__(self, known=()):
        self.names = {}
        self.known = known  # regular expressions
        self.met = set()

    def tell(self, path, text):
        met = {one for one in self.known if re.search(one, f"{path}: {text}", re.S)}
        self.met |= met
        return [] if met else [f"{path}: {text}"]

    def differences(self, expected, found, path=""):
        if isinstance(expected, dict) and isinstance(found, list):
            if "each" in expected:
                wrong = [] if len(found) == expected["count"] else self.tell(path, f"{len(found)} of them, not {expected['count']}")
                return wrong + [d for n, one in enumerate(found) for d in self.differences(expected["each"], one, f"{path}[{n}]")]
            found = {one.get("type", one.get("name")): one for one in found}
        if isinstance(expected, dict):
            if not isinstance(found, dict):
                return self.tell(path, found)
            return [d for key, value in expected.items() for d in self.differences(value, found.get(key), f"{path}.{key}")]
        if isinstance(expected, list):
            return self.list_differences(expected, found, path)
        if isinstance(found, dict) and "status" in found and isinstance(expected, (str, bool)):  # a condition
            found = " ".join([found["status"], found.get("reason", "")][:len(str(expected).split())])
        if isinstance(expected, bool) and isinstance(found, str):
            expected = str(expected)
        if isinstance(expected, str) and re.fullmatch(r"!?\$\w+", expected):
            return self.name_differences(expected, found, path)
        if isinstance(expected, str) and expected.startswith("~"):
            good = isinstance(found, str) and re.fullmatch(expected[1:], found, re.S)
        else:
            good = expected == found
        return [] if good else self.tell(path, f"{found!r}, not {expected!r}")

    def list_differences(self, expected, found, path):
        found = [] if found is None else list(found)
        if not isinstance(found, list) or len(found) != len(expected):
            return self.tell(path, f"{len(found)} of them, not {len(expected)}: {json.dumps(found)[:300]}")
        for number, one in enumerate(expected):
            tried = []
            for other in found:
                before = dict(self.names)
                wrong = self.differences(one, other, f"{path}[{number}]")
                if not wrong:
                    found.remove(other)
                    break
                self.names = before
                tried.append(wrong)
            else:
                return min(tried, key=len)
        return []

    def name_differences(self, expected, found, path):
        name = expected.lstrip("!$")
        if expected.startswith("!"):
            return self.tell(path, f"{found!r} as before") if found is None or found == self.names.get(name) else []
        if found is None or self.names.setdefault(name, found) != found:
            return self.tell(path, f"{found!r}, not {self.names.get(name)!r}")
        return []


# ---------------------------------------------------------------------------------------------
# Cases

class Case:
    """One run of one case on one cluster."""

    def __init__(self, name, kubeconfig, known=()):
        self.name = name
        self.kubeconfig = kubeconfig
        self.kube = Kube(Login(kubeconfig))
        self.judge = Judge(known)

    def run(self):
        steps = yaml.safe_load(CASES[self.name].read_text())
        self.kubectl("create namespace " + self.name, within=False)
        for number, step in enumerate(steps):
            try:
                self.take(step)
            except AssertionError as wrong:
                if not self.judge.tell(f"step {number + 1}", wrong):
                    return  # a step that is known to fail ends the case
                raise AssertionError(f"{self.name}, step {number + 1}: {wrong}\n{self.state()}") from None

    def take(self, step):
        if "apply" in step:
            for one in step["apply"]:
                if one["kind"] != "Namespace":
                    one["metadata"].setdefault("namespace", self.name)
            self.kubectl("apply -f -", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": step["apply"]}), within=False)
        elif "kubectl" in step:
            for command in step["kubectl"] if isinstance(step["kubectl"], list) else [step["kubectl"]]:
                self.kubectl(command, fails=step.get("fails"))
        else:
            self.see(step["see"], LONG)

    def see(self, expected, seconds):
        until = time.monotonic() + seconds
        while wrong := self.wrong(expected):
            if time.monotonic() > until:
                raise AssertionError("\n".join(wrong))
            time.sleep(0.2)

    def wrong(self, expected):
        """Differences of the first thing that has some."""
        before = dict(self.judge.names)
        for what, of_it in expected.items():
            said = re.sub(r"\$(\w+)", lambda m: self.judge.names.get(m[1], m[0]), what)
            wrong = self.judge.differences(of_it, self.look(said), what)
            if wrong:
                self.judge.names = before
                return wrong
        return []

    def look(self, what):
        resource, name, selector = re.fullmatch(r"(\w+)(?:/(\S+)| (\S+=\S+))?", what).groups() if self.is_object(what) else (None,) * 3
        if resource is None:
            return self.kubectl(what, quiet=True)
        if "$" in (selector or ""):  # a name that nothing was found for
            return []
        path = f"/{GROUPS[resource]}/namespaces/{self.name}/{resource}" + (f"/{name}" if name else f"?labelSelector={selector or ''}")
        try:
            found = self.kube.ask("GET", path)
        except Refused as refused:
            if refused.code == 404:
                return None
            raise
        return found if name else found["items"]

    @staticmethod
    def is_object(what):
        return re.split(r"[/ ]", what)[0] in GROUPS

    def kubectl(self, command, input=None, fails=None, quiet=False, within=True):
        """What it prints; with `quiet`, also when it fails."""
        words = [tool_path("kubectl"), "--kubeconfig", self.kubeconfig, *(["-n", self.name] if within else []), *shlex.split(command)]
        done = subprocess.run(words, input=input, text=True, capture_output=True, timeout=LONG)
        if fails is not None:
            wrong = self.judge.differences(fails, done.stderr.strip(), command)
            if done.returncode == 0 or wrong:
                raise AssertionError(f"{command}: {done.returncode}, {wrong}")
        elif done.returncode != 0 and not quiet:
            raise AssertionError(f"{command}: {done.stderr}")
        return done.stdout if done.returncode == 0 else done.stdout + done.stderr

    def state(self):
        """For whoever looks into a failure."""
        pods = self.look("pods")
        told = [{"name": p["metadata"]["name"], **{k: v for k, v in p.get("status", {}).items() if k != "conditions"}} for p in pods]
        return self.kubectl("get deploy,rs,sts,job,cronjob,pod,svc,endpointslice,pvc -o wide", quiet=True) + yaml.safe_dump(told)[:6000]


PATHS = {}


def tool_path(name):
    if name not in PATHS:
        PATHS[name] = tool("which", name)
    return PATHS[name]


class Table:
    """All cases on one cluster, several at a time. They begin at once; `result` waits for one of them. Differences that are
    `known` ({case: {regular expression: why}}) are passed over, but they must be there, unless it says "at times"."""

    def __init__(self, kubeconfig, cases=CASES, known=None):
        tool_path("kubectl")
        self.kubeconfig = kubeconfig
        self.known = known or {}
        self.seconds = {}
        self.pool = concurrent.futures.ThreadPoolExecutor(SIDE_BY_SIDE)
        self.cases = {name: self.pool.submit(self.run, name) for name in cases}

    def run(self, name):
        begin = time.monotonic()
        known = self.known.get(name, {})
        case = Case(name, self.kubeconfig, known)
        try:
            case.run()
        finally:
            self.seconds[name] = time.monotonic() - begin
        gone = {one for one, why in known.items() if not why.startswith("at times")} - case.judge.met
        if gone:
            raise AssertionError(f"these differences are gone, take them out of the list: {sorted(gone)}")

    def result(self, name):
        self.cases[name].result()

    def end(self):
        self.pool.shutdown(cancel_futures=True)


def add_cases(test_class):
    """A test for each case of the table that the class has."""
    for name in CASES:
        setattr(test_class, f"test_{name.replace('-', '_')}", lambda self, name=name: self.table.result(name))


def main():
    table = Table(sys.argv[1], sys.argv[2:] or CASES)
    bad = 0
    for name in table.cases:
        try:
            table.result(name)
            print(f"ok   {name} ({table.seconds[name]:.1f} s)", flush=True)
        except Exception as wrong:
            bad += 1
            print(f"FAIL {name} ({table.seconds[name]:.1f} s)\n{wrong}", flush=True)
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
