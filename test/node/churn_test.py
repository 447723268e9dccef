"""Pods come and go on `cadre up` for a while (CADRE_CHURN_SECONDS): Deployments are scaled and rolled, Jobs run, people look into
pods and ask Services, pods are killed. Memory, open files and threads stay as they are, and in the end nothing is left."""

import contextlib
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import tempfile
import time
import unittest
import urllib.request

import boxes
from dockers import Engine, enter_own_network, with_docker
from ups import PATIENCE, UpCase, tool, wait_until

SECONDS = float(os.environ.get("CADRE_CHURN_SECONDS", "20"))
# From the second quarter to the last one: a tenth of the memory or this much, and these counts. In a short time memory is
# still being warmed up, which says nothing.
MORE_MEMORY, MORE_FILES, MORE_THREADS = 4 << 20, 10, 1
MEMORY_COUNTS_FROM = 600  # seconds

WEB = {"containers": [{
    "name": "web", "image": "box:1", "command": ["sh", "-c", "echo serving; echo hello > /page/text; exec httpd -f -vv -p $POD_IP:8080 -h /page"],
    "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
    "readinessProbe": {"httpGet": {"path": "/text", "port": 8080}, "periodSeconds": 1},
    "livenessProbe": {"exec": {"command": ["cat", "/page/text"]}, "periodSeconds": 1, "timeoutSeconds": 10},
    "volumeMounts": [{"name": "page", "mountPath": "/page"}]}],
    "volumes": [{"name": "page", "emptyDir": {}}], "terminationGracePeriodSeconds": 1}
THINGS = [
    {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}}, "spec": WEB}}},
    {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
     "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}}]


class ChurnCase(UpCase):
    def sample(self):
        """Bytes that are its own, open files, threads, and children that nobody has buried."""
        own = pathlib.Path("/proc") / str(self.process.pid)
        memory = next(int(line.split()[1]) << 10 for line in (own / "smaps_rollup").read_text().splitlines() if line.startswith("Pss:"))
        return memory, len(list((own / "fd").iterdir())), len(list((own / "task").iterdir())), len(self.dead())

    def dead(self):
        """Which those children are: number, name, group."""
        tasks = (pathlib.Path("/proc") / str(self.process.pid) / "task").iterdir()
        found = []
        for child in [c for task in tasks for c in (task / "children").read_text().split()]:
            with contextlib.suppress(OSError):
                name, _, rest = pathlib.Path(f"/proc/{child}/stat").read_text().rpartition(")")
                if rest.split()[0] == "Z":
                    found.append((name.replace("(", ""), rest.split()[2]))
        return found

    # ---- What happens

    def scale(self):
        self.kubectl(self, "scale", "deploy/web", f"--replicas={self.chance.randint(1, 4)}")

    def roll(self):
        self.kubectl(self, "patch", "deploy/web", "-p",
                     json.dumps({"spec": {"template": {"metadata": {"annotations": {"number": str(self.number)}}}}}))

    def work(self):
        name = f"job-{self.number}"
        self.kubectl(self, "create", "job", name, "--image=box:1", "--", "sh", "-c", "echo done; exit $((RANDOM % 2))")
        self.kubectl(self, "wait", f"job/{name}", "--for=jsonpath={.status.startTime}", f"--timeout={PATIENCE}s")
        self.kubectl(self, "delete", f"job/{name}")

    def look_into(self):
        self.on_a_pod("exec", "{}", "--", "cat", "/page/text")
        self.on_a_pod("exec", "{}", "--", "timeout", "1", "sleep", "10")

    def follow(self):
        """Somebody who goes away in the middle."""
        for pod in self.pods()[:1]:
            with subprocess.Popen([tool("which", "kubectl"), "--kubeconfig", self.kubeconfig, "logs", "-f", pod["metadata"]["name"]],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as follow:
                follow.stdout.readline()
                follow.kill()

    def ask(self):
        address = self.kubectl(self, "get", "svc", "web", "-o", "jsonpath={.spec.clusterIP}")
        for _ in range(20):
            try:
                urllib.request.urlopen(f"http://{address}/text", timeout=PATIENCE).read()
            except OSError:
                pass  # nobody is ready just now

    def delete(self):
        self.on_a_pod("delete", "pod", "{}", "--wait=false")

    def kill(self):
        """The program of a pod."""
        for pod in self.pods()[:1]:
            self.kill_program(pod)

    def on_a_pod(self, *argv):
        """What may fail: pods go at any time."""
        for pod in self.chance.sample(self.pods(), 1) if self.pods() else []:
            subprocess.run([tool("which", "kubectl"), "--kubeconfig", self.kubeconfig, *(a.format(pod["metadata"]["name"]) for a in argv)],
                           capture_output=True, timeout=PATIENCE)

    # ---- The test

    def churn(self):
        self.chance = random.Random(os.environ.get("SEED", "1"))
        self.up("--port", "0")
        self.apply(*THINGS)
        self.ready(2)
        samples, self.number, begin = [], 0, time.monotonic()
        while time.monotonic() - begin < SECONDS:
            self.number += 1
            self.chance.choice([self.scale, self.roll, self.work, self.look_into, self.follow, self.ask, self.delete, self.kill])()
            samples.append(self.sample())
        self.kubectl(self, "scale", "deploy/web", "--replicas=2")
        self.ready(2)
        wait_until(lambda: not self.dead(), PATIENCE)
        self.assertEqual(self.dead(), [], "somebody is left unburied")
        quarter = max(1, len(samples) // 4)
        then, now = ([statistics.median(column) for column in zip(*part)] for part in (samples[quarter:2 * quarter], samples[-quarter:]))
        said = f"{self.number} things in {SECONDS:.0f} s; memory, files, threads, dead: {then} in the second quarter, {now} in the last"
        print(said, flush=True)
        if SECONDS >= MEMORY_COUNTS_FROM:
            self.assertLess(now[0], then[0] + max(then[0] / 10, MORE_MEMORY), said)
        self.assertLessEqual(now[1], then[1] + MORE_FILES, said)
        self.assertLessEqual(now[2], then[2] + MORE_THREADS, said)
        self.kubectl(self, "delete", "deploy/web", "svc/web")
        self.wait_for(lambda: self.pods() == [], "all pods are gone")


@unittest.skipUnless(boxes.BUSYBOX, "busybox is not installed: `tools/install cluster`")
class ProcessChurnTest(ChurnCase):
    def kill_program(self, pod):
        """Held before it is looked at: a number may have come to mean another process, and that must not be killed."""
        states = sorted((self.data / "runs" / pod["metadata"]["uid"] / "web").glob("*/state.json"))
        try:
            number = json.loads(states[-1].read_text())["pid"]
            handle = os.pidfd_open(number)
        except (IndexError, KeyError, OSError, ValueError):
            return  # it has not begun, or has ended
        try:
            if set(self.ancestors(number)) & set(self.processes()):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        except OSError:
            pass  # it ends by itself just now
        finally:
            os.close(handle)

    @staticmethod
    def ancestors(number):
        while number > 1:
            number = int(pathlib.Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1])
            yield number

    def test_pods_come_and_go(self):
        boxes.put_into(self.data / "images")
        self.churn()
        self.wait_for(lambda: self.processes() == [] and list((self.data / "runs").iterdir()) == [], "nothing runs")


@with_docker
class DockerChurnTest(ChurnCase):
    runtime = "docker"

    def kill_program(self, pod):
        container = pod["status"].get("containerStatuses", [{}])[0].get("containerID", "").removeprefix("docker://")
        if container:
            self.engine.ask("POST", f"/containers/{container}/kill?signal=KILL")

    def test_pods_come_and_go(self):
        enter_own_network(type(self))
        folder = tempfile.TemporaryDirectory(prefix="cadre-docker-")
        self.addClassCleanup(folder.cleanup)
        self.engine = Engine(folder.name)
        self.addClassCleanup(self.engine.stop)
        self.engine.load("box")
        os.environ["DOCKER_HOST"] = f"unix://{self.engine.socket}"
        self.addClassCleanup(os.environ.pop, "DOCKER_HOST")
        self.churn()
        self.wait_for(lambda: self.engine.containers() == [], "nothing runs")


if __name__ == "__main__":
    unittest.main()
