"""`cadre up` with pods that are containers, by a Docker of the test's own."""

import concurrent.futures
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request

from dockers import Engine, enter_own_network, with_docker
from ups import CADRE, PATIENCE, ROOT, UpCase, tool, wait_until

KILLS = int(os.environ.get("CADRE_KILLS", "4"))
# What a server says to a request, at HOST PORT.
ASK = """ask() { bash -c 'exec 3<> /dev/tcp/$0/$1 && printf "GET /text HTTP/1.0\\r\\n\\r\\n" >&3 && timeout 5 cat <&3 | grep hello' $1 $2; }; """
WEB = "exec httpd -f -vv -p 8080 -h /page"


def deployment(replicas=3, command=WEB, image="box:1", **container):
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "terminationGracePeriodSeconds": 5,
                    "volumes": [{"name": "page", "configMap": {"name": "page"}}, {"name": "scratch", "emptyDir": {}}],
                    "initContainers": [{"name": "first", "image": image, "command": ["sh", "-c", "echo made > /scratch/file"],
                                        "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]}],
                    "containers": [{
                        "name": "web", "image": image, "command": ["sh", "-c", f"echo serving as $NAME at $POD_IP; {command}"],
                        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                                {"name": "NAME", "valueFrom": {"secretKeyRef": {"name": "names", "key": "mine"}}}],
                        "volumeMounts": [{"name": "page", "mountPath": "/page"}, {"name": "scratch", "mountPath": "/scratch"}],
                        "startupProbe": {"exec": {"command": ["grep", "made", "/scratch/file"]}, "periodSeconds": 1},
                        "readinessProbe": {"httpGet": {"path": "/text", "port": 8080}, "periodSeconds": 1},
                        "livenessProbe": {"tcpSocket": {"port": 8080}}, **container}]}}}}


THINGS = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "page"}, "data": {"text": "hello"}},
          {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "names"}, "stringData": {"mine": "jane"}}]


def job(name, command, **container):
    words = command if isinstance(command, list) else ["sh", "-c", command]
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"backoffLimit": 0, "template": {
        "metadata": {"labels": {"app": name}}, "spec": {
            "restartPolicy": "Never", "volumes": [{"name": "scratch", "emptyDir": {}}], "containers": [
                {"name": "work", "image": "box:1", "command": words, **container}]}}}}


def pod(name, command, labels=None, ns="default", **container):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": ns, "labels": labels or {"app": name}},
            "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "work", "image": "box:1", "command": ["sh", "-c", command], **container}]}}


def policy(name, app, **spec):
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": name},
            "spec": {"podSelector": {"matchLabels": {"app": app}}, **spec}}


@with_docker
class DockerTest(UpCase):
    runtime = "docker"

    @classmethod
    def setUpClass(cls):
        enter_own_network(cls)
        folder = tempfile.TemporaryDirectory(prefix="cadre-docker-")
        cls.addClassCleanup(folder.cleanup)
        cls.engine = Engine(folder.name)
        cls.addClassCleanup(lambda: cls.engine.stop())
        cls.engine.load("box")
        before = os.environ.get("DOCKER_HOST")
        os.environ["DOCKER_HOST"] = f"unix://{cls.engine.socket}"
        cls.addClassCleanup(lambda: os.environ.pop("DOCKER_HOST") if before is None else os.environ.update(DOCKER_HOST=before))

    def down(self):
        super().down()
        self.assertEqual(([c["Names"] for c in self.engine.containers()], self.engine.networks()), ([], []), "something is left")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate(timeout=PATIENCE)

    def running(self):
        """The containers that run, without those that hold networks."""
        return sorted(c["Id"] for c in self.engine.containers() if c["State"] == "running" and "dev.cadre.container" in c["Labels"])

    @staticmethod
    def text(pod, path="text"):
        with urllib.request.urlopen(f"http://{pod['status']['podIP']}:8080/{path}", timeout=PATIENCE) as answer:
            return answer.read().decode()

    def wait_job(self, name, condition="Complete"):
        self.kubectl(self, "wait", f"job/{name}", f"--for=condition={condition}", f"--timeout={PATIENCE}s")

    @staticmethod
    def runs(pods):
        return sorted((p["metadata"]["uid"], p["status"]["podIP"], c["containerID"], c["restartCount"], c["state"]["running"]["startedAt"])
                      for p in pods for c in p["status"]["containerStatuses"])

    def test_people_can_talk_with_what_runs(self):
        self.up()
        self.apply(*THINGS, deployment())
        pod = self.ready(3)[0]
        name = pod["metadata"]["name"]
        much = os.urandom(1 << 20)
        for program in ([CADRE, "exec"], [tool("which", "kubectl"), "exec"]):
            def run(*argv, **options):
                return subprocess.run([*program, "--kubeconfig", self.kubeconfig, *argv], capture_output=True, timeout=PATIENCE, **options)
            done = run(name, "--", "sh", "-c", "hostname; echo wrong >&2; exit 3")
            self.assertEqual((done.returncode, done.stdout), (3, f"{name}\n".encode()), done.stderr)
            self.assertIn(b"wrong", done.stderr)
            done = run("-i", name, "--", "cat", input=much)
            self.assertEqual((done.returncode, done.stdout == much), (0, True), done.stderr)
        forward = subprocess.Popen([CADRE, "port-forward", "--kubeconfig", self.kubeconfig, name, ":8080"], text=True,
                                   stdout=subprocess.PIPE)
        self.addCleanup(forward.communicate, timeout=PATIENCE)
        self.addCleanup(forward.kill)
        with urllib.request.urlopen(f"http://{forward.stdout.readline().split()[0]}/text", timeout=PATIENCE) as answer:
            self.assertEqual(answer.read(), b"hello")

    def test_pods_reach_the_api(self):
        self.up()
        self.check_pods_reach_the_api("box:1")
        # Also when there is another one.
        self.kill()
        self.up()
        self.kubectl(self, "delete", "pod", "asks", "has-none", "--now")
        self.kubectl(self, "delete", "service", "web")
        self.check_pods_reach_the_api("box:1")

    def test_the_demo_uses_containers(self):
        if not shutil.which("docker"):
            self.skipTest("the demo gives its image to Docker by its client")
        done = subprocess.run([ROOT / "tools/demo", "--no-build"], text=True, capture_output=True, timeout=2 * PATIENCE,
                              env={**os.environ, "CI": "true"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("pods run as containers", done.stderr)
        self.assertEqual(done.stdout.count("Hello from hello-"), 3, done.stdout)

    def test_pods_run_and_outlive_a_kill(self):
        self.up()
        self.apply(*THINGS, deployment())
        pods = self.ready(3)
        self.assertEqual({self.text(pod) for pod in pods}, {"hello"})
        self.assertEqual(len({pod["status"]["podIP"] for pod in pods}), 3)
        self.assertEqual({pod["status"]["podIP"].rsplit(".", 2)[0] for pod in pods}, {"10.213"})
        name = pods[0]["metadata"]["name"]
        self.assertEqual(self.kubectl(self, "logs", name).splitlines()[0], f"serving as jane at {pods[0]['status']['podIP']}")

        # Killed, and there again: the same containers, none twice, and of their logs no line is missing.
        before, containers = self.runs(pods), self.running()
        self.kill()
        for number in range(20):
            with self.assertRaises(urllib.error.HTTPError):
                self.text(pods[0], f"none{number}")
        self.up()
        self.assertEqual(self.runs(self.ready(3)), before)
        self.assertEqual(self.running(), containers)
        def seen():
            lines = self.kubectl(self, "logs", name).splitlines()
            return [sum(line.endswith(f"url:/none{n}") for line in lines) for n in range(20)]
        self.wait_for(lambda: seen() == [1] * 20, "its log has each line once")
        self.assertEqual(self.kubectl(self, "logs", name).count("serving as jane"), 1)

        # Files follow their ConfigMap.
        self.kubectl(self, "patch", "cm", "page", "--type=merge", "-p", '{"data": {"text": "changed"}}')
        self.wait_for(lambda: {self.text(pod) for pod in pods} == {"changed"}, "the file has changed")

        # One that dies comes again, as the same pod at the same address.
        first = pods[0]["status"]["containerStatuses"][0]["containerID"].removeprefix("docker://")
        self.engine.ask("POST", f"/containers/{first}/kill?signal=KILL")
        def again():
            pod = next(p for p in self.pods() if p["metadata"]["uid"] == pods[0]["metadata"]["uid"])
            return pod if pod["status"]["containerStatuses"][0]["restartCount"] == 1 and pod["status"]["containerStatuses"][0]["ready"] else None
        self.wait_for(again, "it was started again")
        ended = again()["status"]["containerStatuses"][0]["lastState"]["terminated"]
        self.assertEqual((ended["exitCode"], ended["reason"]), (137, "Error"))
        self.assertEqual(again()["status"]["podIP"], pods[0]["status"]["podIP"])
        self.assertIn("serving as jane", self.kubectl(self, "logs", name, "--previous"))

        # None, and nothing is left of them.
        self.kubectl(self, "delete", "deploy/web")
        self.wait_for(lambda: self.pods() == [] and self.engine.containers() == [], "they are gone")
        self.assertEqual(list((self.data / "docker/runs").iterdir()), [])

    def test_what_goes_wrong_is_told_as_everywhere(self):
        self.up()
        self.apply(job("good", "echo out; echo err >&2; id -u; hostname"), job("bad", "exit 3"), job("none", ["no-such-program"]),
                   job("user", ["sh", "-c", "id -u; id -g"], securityContext={"runAsUser": 1234, "runAsGroup": 4321}),
                   job("large", "yes 0123456789012345678901234567890123456789 | head -c 30000000; echo; echo end"),
                   job("closed", "! touch /file", securityContext={"readOnlyRootFilesystem": True}),
                   job("hungry", "x=x; while :; do x=$x$x; done", resources={"limits": {"memory": "32Mi"}}),
                   job("writer", "echo text > /scratch/file && cat /scratch/file", securityContext={"runAsUser": 1234},
                       volumeMounts=[{"name": "scratch", "mountPath": "/scratch"}]),
                   job("missing", "true", image="none.invalid/none:1"), job("never", "true", image="none:1", imagePullPolicy="Never"))
        for name in "good", "user", "large", "closed", "writer":
            self.wait_job(name)
        for name in "bad", "none", "hungry":
            self.wait_job(name, "Failed")
        self.assertEqual(sorted(self.kubectl(self, "logs", "job/good").split()),
                         sorted(["out", "err", "0", self.pods("app=good")[0]["metadata"]["name"]]))
        self.assertEqual(self.kubectl(self, "logs", "job/user").split(), ["1234", "4321"])
        def ended(name):
            return self.pods(f"app={name}")[0]["status"]["containerStatuses"][0]["state"]["terminated"]
        self.assertEqual((ended("bad")["exitCode"], ended("bad")["reason"]), (3, "Error"))
        self.assertEqual((ended("none")["exitCode"], ended("none")["reason"]), (128, "StartError"))
        self.assertIn("no-such-program", ended("none")["message"])
        self.assertEqual((ended("hungry")["exitCode"], ended("hungry")["reason"]), (137, "OOMKilled"))
        self.assertEqual(self.kubectl(self, "logs", "job/large", "--tail=1").strip(), "end")
        size = sum(f.stat().st_size for f in (self.data / "node/logs").rglob("*") if f.is_file())
        self.assertLess(size, 25 << 20)
        def waits(name):
            return [s["state"].get("waiting", {}) for p in self.pods(f"app={name}") for s in p["status"].get("containerStatuses", [])]
        for name, reason, why in (("missing", "ImagePullBackOff", "`docker load`"),
                                  ("never", "ErrImageNeverPull", 'Container image "none:1" is not present with pull policy of Never')):
            self.wait_for(lambda: any(w.get("reason") == reason and why in w["message"] for w in waits(name)), "it says so")
        # What is over holds no network.
        self.wait_for(lambda: self.running() == [] and
                      not any(c["Labels"]["dev.cadre.pod"] == self.pods("app=good")[0]["metadata"]["uid"] for c in self.engine.containers()),
                      "its network is gone")

    def test_restarts_come_ever_later(self):
        self.up()
        self.apply(*THINGS, deployment(1, "sleep 1; exit 5", startupProbe=None, readinessProbe=None, livenessProbe=None))
        def state():
            pods = self.pods()
            statuses = pods[0]["status"].get("containerStatuses", [{}]) if pods else [{}]
            return statuses[0]
        self.wait_for(lambda: state().get("state", {}).get("waiting", {}).get("reason") == "CrashLoopBackOff", "it waits")
        self.assertEqual(state()["lastState"]["terminated"]["exitCode"], 5)
        self.wait_for(lambda: state().get("restartCount", 0) >= 2, "it is tried again")

    def test_down_after_a_kill_and_up_again(self):
        self.up()
        self.apply(*THINGS, deployment())
        self.ready(3)
        self.kill()
        self.assertEqual(len(self.running()), 3)
        done = subprocess.run([CADRE, "down", "--data", self.data], text=True, capture_output=True, timeout=PATIENCE)
        self.assertEqual((done.returncode, done.stdout), (0, "it was not up; 3 containers ended\n"), done.stderr)
        self.assertEqual((self.engine.containers(), self.engine.networks()), ([], []))
        self.up()
        self.wait_for(lambda: all(c["restartCount"] == 1 and c["ready"] for p in self.ready(3) for c in p["status"]["containerStatuses"]),
                      "each runs a second time")

    def test_down_leaves_alone_what_others_put_into_the_network(self):
        self.up()
        self.apply(*THINGS, deployment(1))
        self.ready(1)
        config = {"Image": "box:1", "Cmd": ["sleep", "1000"], "HostConfig": {"NetworkMode": self.engine.networks()[0]}}
        guest = json.loads(self.engine.ask("POST", "/containers/create", json.dumps(config).encode(), "application/json")[1])["Id"]
        self.assertEqual(self.engine.ask("POST", f"/containers/{guest}/start")[0], 204)
        done = subprocess.run([CADRE, "down", "--data", self.data], text=True, capture_output=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(([c["Id"] for c in self.engine.containers()], self.engine.networks()), ([guest], []))
        self.assertEqual(self.engine.ask("DELETE", f"/containers/{guest}?force=true")[0], 204)

    def test_what_belongs_to_no_pod_ends(self):
        self.up()
        self.apply(*THINGS, deployment())
        self.ready(3)
        self.kill()
        for part in "hub.db", "hub.db-wal", "hub.db.last":
            (self.data / part).unlink(missing_ok=True)
        self.up()
        self.wait_for(lambda: self.engine.containers() == [] and list((self.data / "docker/runs").iterdir()) == [], "they end")

    def test_a_restart_of_docker(self):
        self.up()
        self.apply(*THINGS, deployment())
        self.ready(3)
        self.engine.stop()
        self.engine.start()
        def again():
            pods = self.pods()
            return len(pods) == 3 and all(c["restartCount"] == 1 and c["ready"] for p in pods for c in p["status"]["containerStatuses"])
        self.wait_for(again, "each runs a second time")
        self.assertEqual({self.text(pod) for pod in self.ready(3)}, {"hello"})
        self.assertEqual(len(self.running()), 3)
        for pod in self.pods():
            log = self.kubectl(self, "logs", pod["metadata"]["name"], "--previous")
            self.assertEqual(log.count("serving as jane"), 1, log)

    def test_kills(self):
        marks = self.data.parent / "marks"
        marks.mkdir()
        once = 'exec 9> /marks/$POD_UID.lock; flock -n 9 || { touch /marks/twice.$POD_UID; exit 1; }; trap "exit 0" TERM; while :; do sleep 0.05; done'
        def replicas(name, count):
            return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
                "replicas": count, "selector": {"matchLabels": {"app": "web", "part": name}}, "template": {
                    "metadata": {"labels": {"app": "web", "part": name}}, "spec": {
                        "terminationGracePeriodSeconds": 2, "volumes": [{"name": "marks", "hostPath": {"path": str(marks)}}],
                        "containers": [{"name": "once", "image": "box:1", "command": ["sh", "-c", once],
                                        "env": [{"name": "POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}],
                                        "volumeMounts": [{"name": "marks", "mountPath": "/marks"}]}]}}}}
        def containers(selector):
            return {p["metadata"]["uid"]: p["status"]["containerStatuses"][0]["containerID"] for p in self.pods(selector)}
        chance = random.Random(os.environ.get("SEED", "1"))
        self.up()
        self.apply(replicas("stays", 2), replicas("moves", 2))
        self.ready(4)
        stays = containers("part=stays")
        for number in range(KILLS):  # in the middle of something
            template = {"spec": {"template": {"metadata": {"annotations": {"number": str(number)}}}}}
            self.kubectl(self, *chance.choice([["scale", "deploy/moves", f"--replicas={chance.randint(0, 4)}"],
                                               ["patch", "deploy/moves", "-p", json.dumps(template)]]))
            time.sleep(chance.uniform(0, 1.5))
            self.kill()
            self.up()
        self.kubectl(self, "scale", "deploy/moves", "--replicas=3")
        self.ready(5)
        self.assertEqual(containers("part=stays"), stays, "what nobody touched runs on")
        self.assertEqual([f.name for f in marks.glob("twice.*")], [])
        # As many as there are pods, each with its network.
        self.wait_for(lambda: len(self.running()) == 5 and len(self.engine.containers()) == 10, "nothing is left over")

    def test_the_runtime_is_chosen_and_told(self):
        self.runtime = "auto"
        self.up()
        self.process.send_signal(signal.SIGTERM)
        self.assertIn(f"pods run as containers, by Docker at {self.engine.socket}", self.process.communicate(timeout=PATIENCE)[1])
        self.process = None
        # What one runtime has left ends when the next one is another.
        self.runtime = "docker"
        self.up()
        self.apply(*THINGS, deployment(1))
        self.ready(1)
        self.kill()
        self.runtime = "process"
        self.up()
        self.assertEqual((self.engine.containers(), self.engine.networks()), ([], []))
        env = {**os.environ, "DOCKER_HOST": f"unix://{self.data}/none"}
        done = subprocess.run([CADRE, "up", "--data", self.data.parent / "other", "--runtime", "docker"], env=env, text=True,
                              capture_output=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"Docker does not answer at {self.data}/none: start it", done.stderr)

    def test_services_have_addresses_and_names(self):
        def service(name, port, **spec):
            return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
                    "spec": {"selector": {"app": "web"}, "ports": [{"port": port, "targetPort": 8080}], **spec}}
        self.up()
        # This one runs before there is anybody to talk to.
        self.apply(job("early", ASK + "until ask web 8080 2> /dev/null; do sleep 0.2; done"))
        # At the port of a Service its own pods listen, too, on every address.
        self.apply(*THINGS, deployment(), service("web", 8080), service("low", 80), service("each", 8080, clusterIP="None"))
        pods = self.ready(3)
        address = self.kubectl(self, "get", "svc", "web", "-o", "jsonpath={.spec.clusterIP}")
        self.assertRegex(address, r"^127\.(9[6-9]|10\d|11[01])\.")
        self.wait_job("early")
        self.assertIn("hello", self.kubectl(self, "logs", "job/early"))
        names = ["web 8080", "web.default 8080", "web.default.svc 8080", "web.default.svc.cluster.local 8080", "low 80", f"{address} 8080", "each 8080"]
        for number, name in enumerate(names):
            self.apply(job(f"j{number}", f"{ASK} for i in 1 2 3; do ask {name}; done"))
        for number in range(len(names)):
            self.wait_job(f"j{number}")
            self.assertEqual(self.kubectl(self, "logs", f"job/j{number}"), "hello\nhello\nhello\n", names[number])
        # Each pod was asked, by the pods themselves, from addresses of their own.
        own = {p["status"]["podIP"] for p in pods}
        for pod in pods:
            asked = re.findall(r"(10\.213\.\d+\.\d+)\]?:\d+: url:/text", self.kubectl(self, "logs", pod["metadata"]["name"]))
            self.assertTrue(set(asked) - own - {"10.213.0.1"}, asked)
        # A port that the Service does not have leads nowhere.
        self.apply(job("none", ASK + "! ask web 8081"))
        self.wait_job("none")
        # From the machine itself, too.
        with urllib.request.urlopen(f"http://{address}:8080/text", timeout=PATIENCE) as answer:
            self.assertEqual(answer.read(), b"hello")
        # Who is not ready, or gone, is not asked.
        self.kubectl(self, "scale", "deploy/web", "--replicas=0")
        self.wait_for(lambda: self.pods() == [], "they are gone")
        self.apply(job("gone", ASK + "! ask web 8080"))
        self.wait_job("gone")
        self.kubectl(self, "scale", "deploy/web", "--replicas=1")
        self.ready(1)
        self.apply(job("again", ASK + "until ask web 8080; do sleep 0.2; done"))
        self.wait_job("again")

    def says_hello(self, client, *place, ns="default"):
        """Whether a pod hears from a server at an address and a port."""
        done = subprocess.run([tool("which", "kubectl"), "--kubeconfig", self.kubeconfig, "exec", "-n", ns, client, "--", "timeout", "2",
                               "sh", "-c", ASK + f"ask {place[0]} {place[1]}"], text=True, capture_output=True, timeout=PATIENCE)
        return done.stdout == "hello\n"

    def wait_running(self, *names):
        for name in names:
            ns, _, own = name.rpartition("/")
            self.kubectl(self, "wait", "-n", ns or "default", f"pod/{own}", "--for=condition=Ready", f"--timeout={PATIENCE}s")
        return [self.kubectl(self, "get", "-n", name.rpartition("/")[0] or "default", "pod", name.rpartition("/")[2],
                             "-o", "jsonpath={.status.podIP}") for name in names]

    def test_network_policies_are_enforced(self):
        serve = "mkdir -p /page; echo hello > /page/text; httpd -p 9090 -h /page; exec httpd -f -p 8080 -h /page"
        probe = {"httpGet": {"path": "/text", "port": 8080}, "periodSeconds": 1, "failureThreshold": 1, "timeoutSeconds": 20, "initialDelaySeconds": 3}
        self.up()
        self.kubectl(self, "create", "namespace", "team")
        self.kubectl(self, "label", "namespace", "team", "kind=ours")
        self.apply(pod("web", serve, ports=[{"name": "http", "containerPort": 8080}], readinessProbe=probe, livenessProbe=probe),
                   pod("friend", "exec sleep 1000"), pod("other", "exec sleep 1000"), pod("there", "exec sleep 1000", ns="team"),
                   {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
                    "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}})
        web = self.wait_running("web", "friend", "other", "team/there")[0]
        def who(port=8080, at=web):
            clients = ("friend", "default"), ("other", "default"), ("there", "team")
            with concurrent.futures.ThreadPoolExecutor() as pool:
                heard = pool.map(lambda client: self.says_hello(client[0], at, port, ns=client[1]), clients)
            return [client[0] for client, hello in zip(clients, heard) if hello]
        self.assertEqual(who(), ["friend", "other", "there"])
        doctor = subprocess.run([CADRE, "doctor", "--data", self.data], text=True, capture_output=True, timeout=PATIENCE).stdout
        self.assertIn("of containers: a NetworkPolicy is enforced", doctor)

        # Nobody. The node is always let in, and what it is told goes out.
        self.apply(policy("none", "web", policyTypes=["Ingress", "Egress"]))
        self.wait_for(lambda: who() == [], "nobody reaches it")
        self.assertEqual(self.text({"status": {"podIP": web}}), "hello\n")
        self.assertEqual(who(at="web.default", port=80), [])

        # By label, and at one port, which has a name.
        self.apply(policy("some", "web", ingress=[{"from": [{"podSelector": {"matchLabels": {"app": "friend"}}}], "ports": [{"port": "http"}]}]))
        self.wait_for(lambda: who() == ["friend"], "one reaches it")
        self.assertEqual(who(9090), [])
        self.assertEqual(who(at="web.default", port=80), ["friend"])
        # By namespace, at every port.
        self.apply(policy("more", "web", ingress=[{"from": [{"namespaceSelector": {"matchLabels": {"kind": "ours"}}}]}]))
        self.wait_for(lambda: who() == ["friend", "there"], "two reach it")
        self.assertEqual(who(9090), ["there"])
        # Labels follow.
        self.kubectl(self, "label", "pod", "other", "app=friend", "--overwrite")
        self.wait_for(lambda: who() == ["friend", "other", "there"], "all reach it")
        self.kubectl(self, "label", "pod", "other", "app=other", "--overwrite")
        self.wait_for(lambda: who() == ["friend", "there"], "two reach it")

        # What goes out: not to others, nor through a Service; then to some.
        self.apply(policy("out", "friend", policyTypes=["Egress"]))
        self.wait_for(lambda: who() == ["there"], "it reaches nobody")
        self.assertEqual(who(at="web", port=80), [])
        self.apply(policy("out", "friend", policyTypes=["Egress"], egress=[{"to": [{"podSelector": {"matchLabels": {"app": "web"}}}]}]))
        self.wait_for(lambda: who() == ["friend", "there"], "it reaches one")
        self.assertEqual(who(at="web.default", port=80), ["friend", "there"])

        # Whoever is killed meanwhile: it stays so, and what has changed is taken up.
        self.kill()
        self.up()
        self.assertEqual(who(), ["friend", "there"])
        self.kubectl(self, "delete", "networkpolicy", "some", "more", "out")
        self.wait_for(lambda: who() == [], "nobody reaches it")
        self.kubectl(self, "delete", "networkpolicy", "none")
        self.wait_for(lambda: who() == ["friend", "other", "there"], "all reach it")

        # It was never found unwell.
        status = json.loads(self.kubectl(self, "get", "pod", "web", "-o", "json"))["status"]
        self.assertEqual(status["containerStatuses"][0]["restartCount"], 0)
        self.assertNotIn("Unhealthy", self.kubectl(self, "get", "events"))
        self.kubectl(self, "delete", "pod", "web", "friend", "other")
        self.kubectl(self, "delete", "namespace", "team", f"--timeout={PATIENCE}s")
        self.wait_for(lambda: list((self.data / "docker/services/policies").iterdir()) == [], "no policy is left")

    def test_a_pod_is_closed_from_its_first_moment(self):
        serve = "mkdir -p /page; echo hello > /page/text; exec httpd -f -p 8080 -h /page"
        probe = {"tcpSocket": {"port": 8080}, "periodSeconds": 1}
        # Tries all addresses that pods may get, again and again.
        seek = ("for n in 2 3 4 5 6 7 8 9; do (a=${POD_IP%.*}.$n; while :; do timeout 1 bash -c \"exec 3<> /dev/tcp/$a/8080\" 2> /dev/null"
                " && echo reached $a; sleep 0.02; done) & done; wait")
        own = [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
        self.up()
        self.apply(policy("closed", "closed", policyTypes=["Ingress", "Egress"]), pod("seeks", seek, env=own), pod("open", serve, readinessProbe=probe))
        opened = self.wait_running("seeks", "open")[1]
        self.wait_for(lambda: f"reached {opened}\n" in self.kubectl(self, "logs", "seeks"), "one that is open is found")
        # The first that this one does is to call.
        call = f"timeout 2 bash -c 'exec 3<> /dev/tcp/{opened}/8080' && echo out || echo closed; "
        names = ["closed0", "closed1", "closed2"]
        self.apply(*[pod(name, call + serve, {"app": "closed"}, readinessProbe=probe) for name in names])
        self.wait_running(*names)
        # Nor does another `cadre up` open any of them, before it knows what there is.
        self.kill()
        self.up()
        names.append("closed3")
        self.apply(pod("closed3", call + serve, {"app": "closed"}, readinessProbe=probe))
        addresses = self.wait_running(*names)
        self.assertEqual([re.findall("out|closed", self.kubectl(self, "logs", name)) for name in names], [["closed"]] * 4)
        said = self.kubectl(self, "logs", "seeks")
        for address in addresses:
            self.assertNotIn(f"reached {address}\n", said)

    def test_policies_have_a_limit(self):
        self.up()
        self.apply(*THINGS, deployment(1), pod("friend", "exec sleep 1000"), pod("other", "exec sleep 1000"))
        web = self.ready(1)[0]["status"]["podIP"]
        friend = self.wait_running("friend", "other")[0]
        def allow(ports):
            blocks = [{"ipBlock": {"cidr": f"{address}/32"}} for address in [friend, *(f"192.0.2.{2 * n}" for n in range(99))]]
            self.apply(policy("many", "web", ingress=[{"from": blocks, "ports": [{"port": 8080 + n} for n in range(ports)]}]))
        # As many as there may be.
        allow(100)
        self.wait_for(lambda: not self.says_hello("other", web, 8080), "it is closed to others")
        self.assertTrue(self.says_hello("friend", web, 8080))
        # More: nobody, and that is told. The node is let in.
        allow(101)
        self.wait_for(lambda: not self.says_hello("friend", web, 8080), "it is closed")
        self.assertIn("all ingress is dropped: more than 10000 addresses and ports are allowed", self.kubectl(self, "get", "events"))
        self.ready(1)

    def test_a_sandbox_without_its_policy_ends(self):
        with tempfile.TemporaryDirectory() as folder:
            broken = pathlib.Path(folder) / "policy.json"
            broken.write_text("no JSON")
            for policy in broken, f"{folder}/none":
                done = subprocess.run([CADRE, "sandbox", f"{folder}/table", policy], text=True, capture_output=True, timeout=PATIENCE)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (1, "", "there is no policy for this pod\n"))

    def test_what_pods_share_is_made_again(self):
        self.up()
        self.apply(*THINGS, deployment(1))
        pod = self.ready(1)[0]
        sandbox = next(c["Id"] for c in self.engine.containers() if "dev.cadre.container" not in c["Labels"])
        self.engine.ask("POST", f"/containers/{sandbox}/kill?signal=KILL")
        def again():
            status = self.pods()[0]["status"]["containerStatuses"][0]
            return status["restartCount"] == 1 and status["ready"]
        self.wait_for(again, "it runs a second time")
        self.assertEqual(self.text(self.pods()[0]), "hello")
        self.assertEqual(self.pods()[0]["metadata"]["uid"], pod["metadata"]["uid"])
        # One that somebody removes is told, and runs again.
        container = self.running()[0]
        self.engine.ask("DELETE", f"/containers/{container}?force=1")
        self.wait_for(lambda: self.pods()[0]["status"]["containerStatuses"][0]["restartCount"] == 2, "it runs a third time")


if __name__ == "__main__":
    unittest.main()
