"""What plans run in: a real API server, the fault proxy, an operator that knows of neither."""

import base64
import ctypes
import itertools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import zlib

import judge
import workload
from kube import OURS, RESOURCES, Kube, Login, Refused
from mirror import Mirror

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/cluster.d"))

from base import CACHE, Failure, locked, run, wait_for  # noqa: E402
from build import go_program  # noqa: E402

TOOL = ROOT / "tools/cluster"
POLL = 0.1
SETTLED = 1.0  # seconds without a write that end a step of a reference run


def go(*argv, folder=ROOT / "test/fault/proxy"):
    env = dict(os.environ, CGO_ENABLED="0", GOTOOLCHAIN="local", GOWORK="off",
               GOFLAGS="-trimpath -buildvcs=false -mod=readonly")
    env.pop("GOROOT", None)
    return run("nice", go_program(), *argv, cwd=folder, env=env)


def build_proxy():
    """Into the user's cache, like the parts of the cluster; Go knows by itself what is up to date. A checkout has
    a file of its own, since another one may build another proxy at the same time."""
    folder = CACHE / "fault" / f"{zlib.crc32(str(ROOT).encode()):08x}"
    with locked(folder / ".lock"):
        go("build", "-ldflags=-s -w", "-o", f"{folder}/proxy", ".")
    return folder / "proxy"


class Lab:
    """A cluster with the kinds installed, gone afterwards and when this process dies."""

    def __init__(self, program, level="api"):
        self.program, self.level = pathlib.Path(program), level
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cadre-fault-"))
        self.name = f"fault-{os.getpid()}-{self.folder.name[-4:]}".lower().replace("_", "x")
        self.numbers = itertools.count(1)
        self.mirror = None
        self.lock = threading.Lock()

    def __enter__(self):
        try:
            self.proxy = build_proxy()
            kubeconfig = run(TOOL, "up", self.level, "--name", self.name, "--for-pid", os.getpid()).strip()
            self.login = Login(kubeconfig)
            kubectl = run(TOOL, "which", "kubectl").strip()
            run(kubectl, f"--kubeconfig={kubeconfig}", "apply", "--server-side", "-f", ROOT / "deploy/crds.yaml")
            run(kubectl, f"--kubeconfig={kubeconfig}", "wait", "--for=condition=Established", "--timeout=30s", "crd",
                *(f"{resource}.kaos.tools" for resource in OURS))
            if not wait_for(self.serves, 30):
                raise Failure("the API server does not serve the kinds")
            self.mirror = Mirror(self.login)
            return self
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):
        if self.mirror:
            self.mirror.end()
        run(TOOL, "down", "--name", self.name)
        shutil.rmtree(self.folder, ignore_errors=True)

    def serves(self):
        """A kind that is established may still be without its storage."""
        kube = Kube(self.login)
        try:
            return all(kube.list(resource, "default") == [] for resource in OURS)
        except Refused as refused:
            if refused.code not in (404, 429):
                raise
            return False
        finally:
            kube.close()

    def namespace(self, prefix):
        with self.lock:
            return f"{prefix}-{next(self.numbers)}"


class Proxy:
    def __init__(self, lab, folder, json_only=False, page=0):
        ca = folder / "upstream.pem"
        ca.write_text(lab.login.ca)
        argv = [lab.proxy, "-upstream", lab.login.server, "-ca", ca]
        argv += ["-json"] if json_only else []
        argv += ["-page", page] if page else []
        self.process = subprocess.Popen([str(a) for a in argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=dict(os.environ, FAULT_PROXY_TOKEN=lab.login.token))
        told = json.loads(self.process.stdout.readline())
        self.control = told["control"]
        self.kubeconfig = folder / "kubeconfig"
        data = base64.b64encode(told["ca"].encode()).decode()
        self.kubeconfig.write_text(
            "apiVersion: v1\nkind: Config\ncurrent-context: fault\n"
            f"clusters:\n- name: fault\n  cluster: {{server: '{told['server']}', certificate-authority-data: {data}}}\n"
            "contexts:\n- name: fault\n  context: {cluster: fault, user: fault}\n"
            f"users:\n- name: fault\n  user: {{token: '{lab.login.token}'}}\n")

    def ask(self, method, path, body=None):
        request = urllib.request.Request(self.control + path, method=method,
                                         data=None if body is None else json.dumps(body).encode())
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=30) as answer:
            return json.loads(answer.read())

    def rules(self, *rules):
        self.ask("PUT", "/rules", rules)

    def state(self):
        return self.ask("GET", "/state")

    def record(self):
        return self.ask("GET", "/record")

    def hold(self, resource="", mode="silent"):
        return self.ask("POST", f"/hold?resource={resource}&mode={mode}")

    def release(self, resource="", how="last"):
        return self.ask("POST", f"/release?resource={resource}&how={how}")

    def open(self):
        self.ask("POST", "/open")

    def end(self):
        self.process.stdin.close()
        self.process.wait(timeout=20)
        self.process.stdout.close()


LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


def die_with_parent():
    """Called in a child: however this program ends, nothing it started outlives it."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Operator:
    """`cadre operator`; any other one that takes a kubeconfig would do."""

    def __init__(self, lab, proxy, ns, log):
        self.argv = [lab.program, "operator", "--kubeconfig", proxy.kubeconfig, "--watch-namespaces", ns,
                     "--kaos-system-namespace", ns, "--kaos-cluster-domain", "cluster.local",
                     "--metrics-bind-address", "0", "--health-probe-bind-address", "0", "--log-level", "debug"]
        self.log, self.process = log, None
        self.start()

    def start(self):
        with open(self.log, "a") as log:
            log.write("=== start\n")
            log.flush()
            self.process = subprocess.Popen([str(a) for a in self.argv], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            preexec_fn=die_with_parent)

    def ended(self):
        """Its exit code when it ended by itself, else None."""
        return self.process.poll()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        """Tells whether it ended as it should: 0 after SIGTERM."""
        if self.process.poll() is not None:
            return True  # told before
        self.process.terminate()
        try:
            return self.process.wait(timeout=20) == 0
        except subprocess.TimeoutExpired:
            self.kill()
            return False


class Reference:
    """What runs without faults look like."""

    def __init__(self, runs):
        one, other = runs
        self.states, self.masked = one.states, {}
        for step in one.states:
            if one.states[step].keys() != other.states[step].keys():
                raise Failure(f"two reference runs differ after {step}: "
                              f"{sorted(one.states[step].keys() ^ other.states[step].keys())}")
            self.masked[step] = judge.mask_of(one.states[step], other.states[step])
        # What was changed and changed back is as it was: else a run was looked at too early, or remembers.
        if odd := judge.differences(one.states["create"], one.states["back"], self.masked["create"]):
            raise Failure("after back it is not as after create:\n" + "\n".join(odd))
        self.counts = [judge.counts(run.record) for run in runs]
        both = set(judge.points(other.record))
        self.points = [point for point in judge.points(one.record) if point in both]


class Run:
    """One plan: the workload once, in a namespace, with a proxy and an operator of its own. Afterwards `alarms` has
    what the oracles say, `states` what there was after each step, `record` what the operator wrote."""

    def __init__(self, lab, plan, reference=None, quiet=2.0):
        self.lab, self.plan, self.reference, self.quiet = lab, plan, reference, quiet
        self.alarms, self.states, self.record = [], {}, []
        self.kills = self.exits = 0
        self.seconds = 0.0
        self.ns = lab.namespace("fault")
        self.kube = Kube(lab.login)
        self.folder = lab.folder / self.ns
        self.folder.mkdir()
        self.log = self.folder / "operator.log"

    def alarm(self, oracle, lines):
        self.alarms += [f"{oracle}: {line}" for line in lines]

    def go(self):
        begin = time.monotonic()
        self.proxy = Proxy(self.lab, self.folder, self.plan.json_only, self.plan.page)
        self.operator = None
        try:
            self.kube.ask("POST", "/api/v1/namespaces", {"metadata": {"name": self.ns}})
            for resource, name, content in workload.BEFORE:
                self.kube.create(resource, self.ns, name, content)
            self.foreign = self.snapshot()
            self.proxy.rules(*self.plan.rules)
            self.operator = Operator(self.lab, self.proxy, self.ns, self.log)
            for step in workload.STEPS:
                self.step(step)
            self.verdict()
        except Exception as failure:  # one plan that cannot be run must not hide the others
            self.alarm("harness", [f"{type(failure).__name__}: {failure}"])
        finally:
            if self.operator:
                self.proxy.open()
                if not self.operator.stop():
                    self.alarm("O6", ["the operator did not stop as it should"])
            self.proxy.end()
            self.clear()
            self.kube.close()
            self.seconds = time.monotonic() - begin
        return self

    def clear(self):
        """Gives back what is scarce in a cluster: addresses of Services."""
        try:
            for item in self.kube.list("services", self.ns):
                self.kube.delete("services", self.ns, item["metadata"]["name"])
        except (OSError, Refused) as failure:
            self.alarm("harness", [f"clearing up: {failure}"])

    # --- the world around the operator

    def snapshot(self):
        return {f"{resource}/{item['metadata']['name']}": item
                for resource in RESOURCES for item in self.kube.list(resource, self.ns)
                if item["metadata"]["name"] != "kube-root-ca.crt"}

    def look(self):
        """The same as it was a moment ago, and how often it has changed until then."""
        changes, state = self.lab.mirror.look(self.ns)
        return changes, {ref: item for ref, item in state.items() if ref != "configmaps/kube-root-ca.crt"}

    def play(self, state):
        """What a Deployment controller, kubelets and a garbage collector would do, where there are none. Tells
        whether there was something to do."""
        if self.lab.level != "api":
            return False
        busy = False
        for ref, uid in judge.orphans(state):
            resource, name = ref.split("/")
            self.kube.delete(resource, self.ns, name, uid)
            busy = True
        for ref, item in state.items():
            if not ref.startswith("deployments/") or ref in workload.FOREIGN:
                continue
            wanted, generation = item["spec"]["replicas"], item["metadata"]["generation"]
            counts = {k: wanted for k in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")}
            status = dict(counts, observedGeneration=generation)
            if all(item["status"].get(k, 0) == v for k, v in status.items()):
                continue
            busy = True
            try:
                self.kube.merge("deployments", self.ns, item["metadata"]["name"], {"status": status}, "status")
            except Refused as refused:
                if refused.code not in (404, 409):
                    raise
        return busy

    def tend(self):
        """Kills the operator where the proxy stopped it, and starts it again; also where it ended by itself."""
        state = self.proxy.state()
        if state["stopped"]:
            self.operator.kill()
            self.kills += 1
            self.proxy.open()
            self.operator.start()
        elif (code := self.operator.ended()) is not None:
            self.exits += 1
            self.alarm("O6", [f"the operator ended by itself with {code}: {last_line(self.log)}"])
            if self.exits > 20:
                raise Failure("the operator ends again and again")
            self.operator.start()
        return state

    # --- the steps

    def step(self, name):
        actions, phases = workload.STEPS[name]
        for action in actions:
            workload.do(self.kube, self.ns, action)
        if name == "delete":
            return self.finish()
        self.converge(name, phases)
        # The plan's own mischief, where it is more than rules; afterwards all is as before it.
        if mischief := self.plan.after.get(name):
            mischief(self)
            self.converge(name, phases)
        if name == "recreate":
            self.stay_quiet()

    def converge(self, step, phases):
        """Waits until all is as in the reference (without one: as the phases say, and nothing is written any more)."""
        until = time.monotonic() + self.plan.patience
        seen = None
        while True:
            self.tend()
            changes, state = self.look()
            late = time.monotonic() > until
            if changes != seen or late:
                busy = self.play(state)
                seen = None if busy else changes  # what is done for others may be refused: once more
                if late or not (busy or any(self.wrong(step, phases, state))):
                    calm = self.reference or self.settled()
                    state = self.snapshot()
                    wrong, sick = self.wrong(step, phases, state)
                    if late or not (wrong or sick or self.play(state) or not calm):
                        self.alarm("O1", [f"after {step}: {line}" for line in wrong[:8]])
                        self.alarm("O6", [f"after {step}: {line}" for line in sick[:8]])
                        self.states[step] = judge.normal_state(state, self.ns)
                        return
                    seen = None
            time.sleep(POLL)

    def wrong(self, step, phases, state):
        """What O1 and O6 say of a state."""
        sick = judge.health(state, phases)
        if not self.reference:
            return [], sick
        found = judge.normal_state(state, self.ns)
        return judge.differences(self.reference.states[step], found, self.reference.masked[step]), sick

    def settled(self):
        """Nothing is written any more."""
        writes, since = -1, time.monotonic()
        while time.monotonic() - since < SETTLED:
            now = self.proxy.state()["writes"]
            if writes not in (-1, now):
                return False
            writes = now
            time.sleep(POLL)
        return True

    def stay_quiet(self):
        """O8: no write at all for a while. What is under way may end first: events are told behind the rest."""
        until = time.monotonic() + self.plan.patience
        while not self.settled():
            if time.monotonic() > until:
                self.alarm("O8", ["writes never end"])
                return
        before, until = self.tend()["writes"], time.monotonic() + self.quiet
        while time.monotonic() < until:
            time.sleep(POLL)
        if self.tend()["writes"] != before:
            writes = self.proxy.record()[before:]
            self.alarm("O8", sorted({f"{w['verb']} {w['resource']}/{w['name']} {w['subresource']} in a quiet time"
                                     for w in writes}))

    def finish(self):
        """O9, and that nothing comes back."""
        until = time.monotonic() + self.plan.patience
        while True:
            self.tend()
            _, state = self.look()
            busy = self.play(state)
            late = time.monotonic() > until
            if late or (not busy and not judge.leftovers(state) and self.settled()):
                left = judge.leftovers(self.snapshot())
                if late or not left:
                    return self.alarm("O9", left)
            time.sleep(POLL)

    def verdict(self):
        self.record = self.proxy.record()
        state = self.proxy.state()
        self.alarm("O1", judge.strangers(self.record))
        self.alarm("O9", judge.touched(self.foreign, self.snapshot()))
        if self.reference:
            self.alarm("O2", judge.update_summary(self.reference.counts, judge.counts(self.record)))
        if state["idle"]:
            self.alarm("harness", ["a fault never happened"])


def last_line(log):
    lines = log.read_text(errors="replace").splitlines()
    return lines[-1] if lines else "it said nothing"


def refer(lab, plan):
    """Two runs in which nothing goes wrong."""
    runs = [Run(lab, plan).go() for _ in range(2)]
    alarms = [alarm for run in runs for alarm in run.alarms]
    if alarms:
        raise Failure("a run without faults is not as it should be:\n" + "\n".join(alarms))
    return Reference(runs)


def program():
    """What was built: CADRE_BUILD_DIR is what tools/test says."""
    folder = pathlib.Path(os.environ.get("CADRE_BUILD_DIR") or ROOT / "build/dev")
    found = folder / "apps/cadre/cadre"
    if not found.exists():
        raise Failure(f"there is no {found}: build it first")
    return found
