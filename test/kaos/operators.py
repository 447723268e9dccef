"""What the tests of KAOS share: a real control plane with deploy/ applied to it, and `cadre operator` beside it.

The operator runs on this machine with the arguments of its Deployment and as its ServiceAccount, so it may do
what deploy/ allows it and no more. kwok plays the pods: they are Ready as soon as they are admitted.
"""

import base64
import collections
import itertools
import json
import os
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "test/cluster"))

from support import tool, wait_until

CADRE = pathlib.Path(os.environ.get("CADRE_BUILD_DIR", ROOT / "build/dev")) / "apps/cadre/cadre"
SYSTEM = "kaos-system"
DEPLOYMENT = ACCOUNT = "kaos-operator-controller-manager"
PATIENCE = 60  # seconds; a busy machine needs some of them

# Where the API has the kinds that tests look at.
PATHS = {
    "agent": "apis/kaos.tools/v1alpha1/{}/agents",
    "modelapi": "apis/kaos.tools/v1alpha1/{}/modelapis",
    "mcpserver": "apis/kaos.tools/v1alpha1/{}/mcpservers",
    "deployment": "apis/apps/v1/{}/deployments",
    "replicaset": "apis/apps/v1/{}/replicasets",
    "service": "api/v1/{}/services",
    "configmap": "api/v1/{}/configmaps",
    "secret": "api/v1/{}/secrets",
    "pod": "api/v1/{}/pods",
    "lease": "apis/coordination.k8s.io/v1/{}/leases",
}
CHILDREN = ("deployment", "service", "configmap", "secret")
OURS = ("agent", "modelapi", "mcpserver")

# One request that changed something, as the audit log has it.
Write = collections.namedtuple("Write", "user verb resource subresource namespace name code time")


class Failed(AssertionError):
    pass


def run(*argv, fails=False, **options):
    """Runs a program; returns its stdout, or its stderr where it has to fail."""
    done = subprocess.run([str(a) for a in argv], text=True, capture_output=True, timeout=240, **options)
    if (done.returncode != 0) != fails:
        raise Failed(f"{' '.join(map(str, argv))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stderr if fails else done.stdout


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Kaos:
    """A cluster with what deploy/ has."""

    def __init__(self, suffix, install=None):
        self.name = f"test-{os.getpid()}-{suffix}"
        unittest.addModuleCleanup(tool, "down", "--name", self.name)
        self.kubeconfig = tool("up", "control", "--name", self.name, "--audit", "--for-pid", os.getpid())
        self.dir = pathlib.Path(self.kubeconfig).parent
        self.env = dict(
            os.environ,
            KUBECONFIG=self.kubeconfig,
            PATH=f"{pathlib.Path(tool('which', 'kubectl')).parent}:{os.environ['PATH']}",
        )
        work = tempfile.TemporaryDirectory()
        unittest.addModuleCleanup(work.cleanup)
        self.work = pathlib.Path(work.name)
        config = json.loads(self.kubectl("config", "view", "--raw", "--minify", "-o", "json"))
        self.server = config["clusters"][0]["cluster"]
        self.token = config["users"][0]["user"]["token"]
        self.trust = ssl.create_default_context(
            cadata=base64.b64decode(self.server["certificate-authority-data"]).decode()
        )
        self.numbers = itertools.count(1)
        (install or Kaos.install)(self)

    # -- what users do

    def install(self):
        self.kubectl("apply", "-f", ROOT / "deploy/install.yaml")
        self.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")

    def kubectl(self, *argv, **options):
        return run("kubectl", *argv, env=self.env, **options)

    def cadre(self, *argv):
        """What it prints, and its exit code."""
        done = subprocess.run([CADRE, *map(str, argv)], text=True, capture_output=True, timeout=120, env=self.env)
        if done.stderr:
            raise Failed(f"cadre {' '.join(map(str, argv))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout, done.returncode

    def namespace(self, **labels):
        name = f"n{next(self.numbers)}"
        self.kubectl(
            "create",
            "-f",
            "-",
            input=json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}),
        )
        return name

    def apply(self, ns, manifests):
        self.kubectl("apply", "-n", ns, "-f", "-", input=manifests)

    def ready(self, ns, *objects):
        self.kubectl("wait", "-n", ns, "--for=condition=Ready", f"--timeout={PATIENCE}s", *objects)

    # -- what is there, asked without the cost of a kubectl

    def ask(self, path):
        request = urllib.request.Request(
            f"{self.server['server']}/{path}", headers={"Authorization": f"Bearer {self.token}"}
        )
        try:
            with urllib.request.urlopen(request, context=self.trust, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise

    def get(self, ns, kind, name):
        return self.ask(f"{PATHS[kind].format(f'namespaces/{ns}')}/{name}")

    def list(self, ns, kind):
        return self.ask(PATHS[kind].format(f"namespaces/{ns}"))["items"]

    def condition(self, ns, kind, name, type):
        """That of the object's present generation, or nothing."""
        is_ = self.get(ns, kind, name)
        for one in is_.get("status", {}).get("conditions", ()):
            if one["type"] == type and one["observedGeneration"] == is_["metadata"]["generation"]:
                return one
        return {}

    def until(self, condition, what):
        """Waits, and tells what was waited for in vain."""
        if not wait_until(condition, PATIENCE):
            raise Failed(f"in vain: {what() if callable(what) else what}")

    def until_condition(self, ns, kind, name, type, **wanted):
        self.until(
            lambda: wanted.items() <= self.condition(ns, kind, name, type).items(),
            lambda: f"{type} of {kind}/{name} is {self.condition(ns, kind, name, type)}, not {wanted}",
        )

    def children(self, ns):
        """What the operator made, by kind and name."""
        return {
            f"{kind}/{one['metadata']['name']}": one
            for kind in CHILDREN
            for one in self.list(ns, kind)
            if one["metadata"].get("labels", {}).get("app.kubernetes.io/managed-by") == "cadre"
        }

    def revisions(self, ns):
        """How often each Deployment has rolled its pods."""
        found = collections.Counter()
        for one in self.list(ns, "replicaset"):
            found[one["metadata"]["ownerReferences"][0]["name"]] += 1
        return found

    def rolled_out(self, ns, name):
        is_ = self.get(ns, "deployment", name)
        if not is_:
            return False
        wanted, status = is_["spec"]["replicas"], is_.get("status", {})
        return status.get("observedGeneration") == is_["metadata"]["generation"] and wanted == status.get(
            "updatedReplicas", 0
        ) == status.get("replicas", 0) == status.get("availableReplicas", 0)

    # -- what was done

    def mark(self):
        return os.path.getsize(self.dir / "audit.log")

    def requests(self, since=0):
        with open(self.dir / "audit.log", "rb") as log:
            log.seek(since)
            return [json.loads(line) for line in log if line.endswith(b"\n")]

    def writes(self, since=0, account=ACCOUNT):
        """What a ServiceAccount of the system namespace wrote, its lease aside."""
        found = []
        for one in self.requests(since):
            on = one.get("objectRef", {})
            if (
                one["user"]["username"] == f"system:serviceaccount:{SYSTEM}:{account}"
                and one["verb"] not in ("get", "list", "watch")
                and (on.get("resource"), on.get("name")) != ("leases", "cadre-operator")
                and on.get("subresource") != "proxy"  # a question to a Service, passed on
            ):
                found.append(
                    Write(
                        account,
                        one["verb"],
                        on.get("resource"),
                        on.get("subresource"),
                        on.get("namespace"),
                        on.get("name"),
                        one["responseStatus"]["code"],
                        one["stageTimestamp"],
                    )
                )
        return found

    def forbidden(self, since=0):
        """What was refused to ServiceAccounts of the system namespace."""
        return [
            f"{one['user']['username']}: {one['verb']} {one['requestURI']}"
            for one in self.requests(since)
            if one["user"]["username"].startswith(f"system:serviceaccount:{SYSTEM}:")
            and one["responseStatus"].get("code") == 403
            # In its pod it would not ask the API server for the way to a Service.
            and not one["requestURI"].endswith("/proxy/mcp")
        ]


class Operator:
    """`cadre operator`, as its Deployment has it but on this machine, logged in as a ServiceAccount."""

    def __init__(self, kaos, account=ACCOUNT):
        self.kaos = kaos
        self.account = account
        self.log = kaos.work / f"{account}.log"
        self.config = kaos.work / f"{account}.kubeconfig"
        token = kaos.kubectl("create", "token", account, "-n", SYSTEM, "--duration=2h").strip()
        self.config.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "it",
                    "clusters": [{"name": "it", "cluster": kaos.server}],
                    "users": [{"name": "it", "user": {"token": token}}],
                    "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
                }
            )
        )
        pod = kaos.get(SYSTEM, "deployment", DEPLOYMENT)["spec"]["template"]["spec"]
        (self.container,) = pod["containers"]
        self.process = None
        unittest.addModuleCleanup(self.kill)

    def start(self):
        ports = {}

        def on_loopback(flag):
            which = re.match(r"--([a-z-]+)-bind-address=:\d+$", flag)
            if not which:
                return flag
            ports[which[1]] = free_port()
            return f"--{which[1]}-bind-address=127.0.0.1:{ports[which[1]]}"

        arguments = [on_loopback(flag) for flag in self.container["args"]]
        self.metrics_port, self.health_port = ports["metrics"], ports["health-probe"]
        self.process = subprocess.Popen(
            [CADRE, *arguments, f"--kubeconfig={self.config}"],
            env=dict(os.environ, SYSTEM_NAMESPACE=SYSTEM),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.pump = threading.Thread(target=self.keep_log, daemon=True)
        self.pump.start()
        return self

    def keep_log(self):
        """As it is, and as `kubectl logs` finds it."""
        with self.process.stderr, open(self.log, "a") as log, open(self.kaos.dir / "logs/pods.log", "a") as pods:
            for line in self.process.stderr:
                for file, text in (
                    (log, line),
                    (pods, f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} stderr F {line}"),
                ):
                    file.write(text)
                    file.flush()

    def until_ready(self):
        self.kaos.until(self.is_ready, lambda: f"the operator is not ready:\n{self.log.read_text()}")
        return self

    def is_ready(self):
        try:
            return self.http(self.health_port, "/readyz") is not None
        except urllib.error.HTTPError:
            return False

    def http(self, port, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError:
            raise
        except OSError:
            return None

    def leads(self):
        return self.metrics().get('leader_election_master_status{name="cadre-operator"}') == 1

    def metrics(self):
        """The series and their values, as a scraper reads them."""
        text = self.http(self.metrics_port, "/metrics") or ""
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        return {series: float(value) for series, _, value in (line.rpartition(" ") for line in lines)}

    def send(self, signal_number):
        os.kill(self.process.pid, signal_number)

    def stop(self):
        self.send(signal.SIGTERM)
        if self.process.wait(PATIENCE) != 0:
            raise Failed(f"the operator ended with {self.process.returncode}:\n{self.log.read_text()}")
        self.pump.join()

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.pump.join()


class KaosTest(unittest.TestCase):
    """Every test also holds that the permissions of deploy/ suffice: nothing was refused to the operator."""

    kaos = None  # a module's setUpModule sets them
    operator = None
    judged = 0  # up to here of the audit

    def setUp(self):
        self.addCleanup(self.judge)

    def judge(self):
        self.assertIsNone(self.operator.process.poll(), "the operator has ended")
        since, KaosTest.judged = KaosTest.judged, self.kaos.mark()
        self.assertEqual(self.kaos.forbidden(since), [])

    def background(self, *argv):
        """A program that goes on while the test does other things."""
        process = subprocess.Popen(
            [str(a) for a in argv],
            text=True,
            env=self.kaos.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

        def end():
            if process.poll() is None:
                process.kill()
            process.communicate()

        self.addCleanup(end)
        return process
