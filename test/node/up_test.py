"""`cadre up`: a whole system on this machine, with pods that are processes."""

import base64
import fcntl
import http.server
import json
import os
import pathlib
import pty
import signal
import socket
import struct
import subprocess
import termios
import threading
import unittest
import urllib.request

from ups import CADRE, PATIENCE, ROOT, UpCase, tool

# Serves its folder at the pod's address, and ends when it is asked to.
SERVER = """
import functools, http.server, os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: (print("asked to end", flush=True), os._exit(0)))
print("serving as", os.environ["NAME"], flush=True)
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory="/page")
http.server.HTTPServer((os.environ["POD_IP"], 8080), handler).serve_forever()
"""

# A webhook that refuses whatever is called "bad".
GUARD = """
import http.server, json, ssl
class Guard(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))["request"]
        print("asked as", self.headers["host"], self.path, flush=True)
        said = {"uid": asked["uid"], "allowed": asked["name"] != "bad", "status": {"message": "it is bad"}}
        body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": said}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
server = http.server.ThreadingHTTPServer(("", 8443), Guard)
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
tls.load_cert_chain("/keys/tls.crt", "/keys/tls.key")
server.socket = tls.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""

WEB = {
    "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
    "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": {
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "volumes": [{"name": "page", "configMap": {"name": "page"}}, {"name": "scratch", "emptyDir": {}}],
            "initContainers": [{"name": "first", "image": "cadre", "command": ["sh", "-c", "echo made > /scratch/file"],
                                "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]}],
            "containers": [{
                "name": "web", "image": "cadre", "command": ["python3", "-c", SERVER],
                "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                        {"name": "NAME", "valueFrom": {"secretKeyRef": {"name": "names", "key": "mine"}}}],
                "volumeMounts": [{"name": "page", "mountPath": "/page"}, {"name": "scratch", "mountPath": "/scratch"}],
                "startupProbe": {"exec": {"command": ["grep", "made", "/scratch/file"]}, "periodSeconds": 1},
                "readinessProbe": {"httpGet": {"path": "/text", "port": 8080}, "periodSeconds": 1},
                "livenessProbe": {"tcpSocket": {"port": 8080}}}]}}}}
THINGS = [
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "page"}, "data": {"text": "hello"}},
    {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "names"}, "stringData": {"mine": "jane"}}, WEB]


def pod(name, command, **container):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"restartPolicy": "Never", "containers": [
        {"name": "work", "image": "cadre", "command": command, **container}]}}


class Outside(http.server.BaseHTTPRequestHandler):
    """Of this machine, in no pod."""

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"outside")

    def log_message(self, *words):
        pass


class UpTest(UpCase):
    @staticmethod
    def text(pod):
        with urllib.request.urlopen(f"http://{pod['status']['podIP']}:8080/text", timeout=PATIENCE) as answer:
            return answer.read().decode()

    def test_pods_run_and_outlive_a_kill(self):
        objects = self.data.parent / "web.json"
        objects.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": THINGS}))
        self.up("-f", objects)
        pods = self.ready(3)
        self.assertEqual({self.text(pod) for pod in pods}, {"hello"})
        self.assertEqual(len({pod["status"]["podIP"] for pod in pods}), 3)
        self.assertEqual(self.kubectl(self, "logs", pods[0]["metadata"]["name"], "--tail=-1").splitlines()[0], "serving as jane")
        self.assertIn("deployment.apps/web condition met", self.kubectl(self, "wait", "deploy/web", "--for=condition=Available"))

        # Killed, and there again: the same containers, none twice.
        def runs(pods):
            return sorted((p["metadata"]["uid"], c["containerID"], c["restartCount"], c["state"]["running"]["startedAt"])
                          for p in pods for c in p["status"]["containerStatuses"])
        before, shims = runs(pods), sorted(self.processes())
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate(timeout=PATIENCE)
        self.assertEqual({self.text(pod) for pod in pods}, {"hello"}, "they run without it")
        self.up()
        self.assertEqual(runs(self.ready(3)), before)
        self.assertEqual(sorted(self.processes()), shims)

        # Files follow their ConfigMap, all of them.
        self.kubectl(self, "patch", "cm", "page", "--type=merge", "-p", '{"data": {"text": "changed"}}')
        self.wait_for(lambda: {self.text(pod) for pod in pods} == {"changed"}, "the file has changed")

        # One that dies comes again, as the same pod.
        inner = json.loads((self.data / "runs" / pods[0]["metadata"]["uid"] / "web/000000/state.json").read_text())["pid"]
        os.kill(inner, signal.SIGKILL)
        self.wait_for(lambda: any(c["restartCount"] == 1 and c["ready"] for p in self.pods() for c in p["status"]["containerStatuses"]),
                      "it was started again")
        again = next(p for p in self.pods() if p["metadata"]["uid"] == pods[0]["metadata"]["uid"])
        ended = again["status"]["containerStatuses"][0]["lastState"]["terminated"]
        self.assertEqual((ended["exitCode"], ended["reason"]), (137, "Error"))
        self.assertIn("serving as jane", self.kubectl(self, "logs", pods[0]["metadata"]["name"], "--previous"))

        # And once more, after a while; what was before the last two is forgotten.
        runs_of = self.data / "runs" / pods[0]["metadata"]["uid"] / "web"
        os.kill(json.loads((runs_of / "000001/state.json").read_text())["pid"], signal.SIGKILL)
        self.wait_for(lambda: any(c["restartCount"] == 2 and c["ready"] for p in self.pods() for c in p["status"]["containerStatuses"]),
                      "it was started a third time")
        self.assertEqual(sorted(f.name for f in runs_of.iterdir()), ["000001", "000002"])
        self.assertEqual(sorted(f.name for f in next((self.data / "node/logs").glob(f"*{pods[0]['metadata']['uid']}")).joinpath("web").iterdir()),
                         ["1.log", "1.log.message", "2.log", "2.log.message"])

        # Fewer, none, and nothing is left of them.
        self.kubectl(self, "scale", "deploy/web", "--replicas=1")
        self.ready(1)
        self.kubectl(self, "delete", "deploy/web")
        self.wait_for(lambda: self.pods() == [], "they are gone")
        self.wait_for(lambda: self.processes() == [] and list((self.data / "runs").iterdir()) == [], "nothing runs")
        self.assertEqual([list((self.data / "node" / part).iterdir()) for part in ("pods", "logs")], [[], []])

    def test_what_binds_every_address_has_its_own(self):
        # In many ways, and from a thread: all of them by their pod, at the same ports.
        server = """
import http.server, os, socket, threading
class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(os.environ["HOSTNAME"].encode())
    def log_message(self, *words): pass
class Six(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
def serve(made): threading.Thread(target=lambda: made().serve_forever()).start()
serve(lambda: http.server.ThreadingHTTPServer(("", 8080), Hello))
serve(lambda: Six(("::", 8081), Hello))
serve(lambda: http.server.ThreadingHTTPServer(("localhost", 8082), Hello))
six = socket.socket(socket.AF_INET6)
six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
six.bind(("::", 8080))
free = socket.socket()
free.bind(("", 0))
assert free.getsockname()[0] == "0.0.0.0", free
"""
        ask = """
import os, sys, urllib.request
for port in 8080, 8081, 8082:
    for host in "localhost", "127.0.0.1", "[::1]", os.environ["POD_IP"]:
        try:
            said = urllib.request.urlopen(f"http://{host}:{port}").read().decode()
        except OSError as error:
            sys.exit(f"{host}:{port}: {error}")
        assert said == os.environ["HOSTNAME"], (host, port, said)
print("all are here; outside:", urllib.request.urlopen("http://localhost:" + sys.argv[1]).read().decode())
"""
        outside = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Outside)
        threading.Thread(target=outside.serve_forever).start()
        self.addCleanup(outside.server_close)
        self.addCleanup(outside.shutdown)
        port = str(outside.server_address[1])
        env = [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
        probe = {"httpGet": {"path": "/", "port": 8082}, "periodSeconds": 1}
        self.up()
        self.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
                    "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": {
                        "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [
                            {"name": "web", "image": "cadre", "command": ["python3", "-c", server], "readinessProbe": probe},
                            {"name": "beside", "image": "cadre", "env": env, "command": ["sh", "-c", 'until python3 -c "$0" "$1"; do sleep 0.2; done; sleep 1000',
                                                                                         ask, port]}]}}}})
        pods = self.ready(3)
        for pod in pods:
            name = pod["metadata"]["name"]
            for p in 8080, 8081, 8082:
                with urllib.request.urlopen(f"http://{pod['status']['podIP']}:{p}", timeout=PATIENCE) as answer:
                    self.assertEqual(answer.read().decode(), name)
            said = "all are here; outside: outside"
            self.wait_for(lambda: said in self.kubectl(self, "logs", name, "-c", "beside"), "another container of the pod finds it")
            self.assertIn(said, self.kubectl(self, "exec", name, "-c", "beside", "--", "python3", "-c", ask, port))
        for p in 8080, 8081, 8082:
            with self.assertRaises(ConnectionRefusedError, msg="nobody else finds it"):
                socket.create_connection(("127.0.0.1", p), timeout=PATIENCE)

    @unittest.skipUnless(os.getuid() == 0, "only root can limit what others use here")
    def test_who_takes_too_much_is_stopped(self):
        def groups():
            return [str(g) for g in pathlib.Path("/sys/fs/cgroup").rglob("cadre-*") if any(p["metadata"]["uid"] in g.name for p in pods)]
        hog = "data = []\nwhile True: data.append(bytearray(1 << 20))"
        bomb = "import os, time\nfor i in range(100000): os.fork() or time.sleep(1000)"
        limits = {"resources": {"limits": {"memory": "64Mi"}}}
        self.up()
        self.apply(pod("hog", ["python3", "-c", hog], **limits), pod("bomb", ["python3", "-c", bomb]),
                   pod("calm", ["sleep", "1000"], **limits), pod("tiny", ["true"], resources={"limits": {"memory": "1"}}))
        def state(name):
            return json.loads(self.kubectl(self, "get", "pod", name, "-o", "json"))["status"].get("containerStatuses", [{}])[0].get("state", {})
        self.wait_for(lambda: "terminated" in state("hog") and "terminated" in state("bomb") and "running" in state("calm"), "they end")
        self.assertEqual((state("hog")["terminated"]["exitCode"], state("hog")["terminated"]["reason"]), (137, "OOMKilled"))
        self.assertIn("BlockingIOError", self.kubectl(self, "logs", "bomb"), "there is an end to it")
        # One that has far too little is told, or killed at once.
        self.wait_for(lambda: "terminated" in state("tiny") or "waiting" in state("tiny"), "it cannot run")
        # A command that is run inside is in the same limits.
        done = subprocess.run([CADRE, "exec", "--kubeconfig", self.kubeconfig, "calm", "--", "python3", "-c", hog],
                              capture_output=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 137, done.stderr)
        pods = json.loads(self.kubectl(self, "get", "pods", "-o", "json"))["items"]
        self.assertTrue(groups())
        for shim in self.processes():  # what it would have put away is left to others
            os.kill(shim, signal.SIGKILL)
        self.kubectl(self, "delete", "pods", "--all", "--grace-period=0", "--force")
        self.wait_for(lambda: not groups(), "nothing is left of them")

    def test_what_happens_is_told(self):
        loop = ["sh", "-c", "echo begun; exit 3"]
        sick = pod("sick", ["sh", "-c", "trap 'exit 0' TERM; sleep 1000 & wait"], readinessProbe={"exec": {"command": ["false"]}, "periodSeconds": 1})
        self.up()
        self.apply(sick, pod("none", ["true"], image="none:1"), {**pod("loops", loop), "spec": {"containers": [
            {"name": "work", "image": "cadre", "command": loop}]}})
        def told(name):
            listed = json.loads(self.kubectl(self, "get", "events", f"--field-selector=involvedObject.name={name}", "-o", "json"))["items"]
            return {e["reason"]: e for e in listed}
        self.wait_for(lambda: {"Scheduled", "Started", "Unhealthy"} <= told("sick").keys() and "Failed" in told("none")
                      and {"Started", "BackOff"} <= told("loops").keys(), "all of it")
        unhealthy = told("sick")["Unhealthy"]
        self.assertEqual((unhealthy["type"], unhealthy["involvedObject"]["fieldPath"]), ("Warning", "spec.containers{work}"))
        self.assertIn("Readiness probe failed: command ended with 1", unhealthy["message"])
        self.assertIn("ErrImagePull: there is no image none:1 here", told("none")["Failed"]["message"])
        self.assertIn("Back-off restarting failed container work", subprocess.run(
            [CADRE, "describe", "--kubeconfig", self.kubeconfig, "pod", "loops"], text=True, capture_output=True, timeout=PATIENCE).stdout)
        self.kubectl(self, "delete", "pod", "sick")
        self.assertEqual(told("sick")["Killing"]["message"], "Stopping container work")

    def test_grpc_probes(self):
        etcd = tool("which", "etcd")  # a server with gRPC's own health service
        def server(name, probe):
            made = pod(name, ["sh", "-c", "exec /etcd/etcd --data-dir /tmp/etcd --listen-client-urls http://0.0.0.0:2379 --advertise-client-urls "
                              "http://localhost:2379 --listen-peer-urls http://localhost:2380"],
                       volumeMounts=[{"name": "etcd", "mountPath": "/etcd", "readOnly": True}],
                       readinessProbe={"grpc": {"port": 2379, **probe}, "periodSeconds": 1, "timeoutSeconds": 5})
            made["spec"]["volumes"] = [{"name": "etcd", "hostPath": {"path": str(pathlib.Path(etcd).parent)}}]
            return made
        self.up()
        self.apply(server("healthy", {}), server("other", {"service": "nobody"}))
        self.kubectl(self, "wait", "pod/healthy", "--for=condition=Ready", f"--timeout={PATIENCE}s")
        self.wait_for(lambda: "serving client traffic" in self.kubectl(self, "logs", "other"), "it serves")
        self.kubectl(self, "wait", "pod/other", "--for=condition=Ready", "--timeout=2s", fails=True)
        self.assertEqual(self.kubectl(self, "get", "pod", "other", "-o", 'jsonpath={.status.conditions[?(@.type=="Ready")].status}'), "False")

    def test_pods_reach_the_api(self):
        self.up()
        self.check_pods_reach_the_api("cadre")

    def test_a_new_image_that_does_not_exist_is_told_and_undone(self):
        self.up()
        self.apply(*THINGS)
        self.ready(3)
        self.kubectl(self, "set", "image", "deploy/web", "web=none:1")
        def waits():
            return [s["state"]["waiting"] for p in self.pods() for s in p["status"].get("containerStatuses", []) if "waiting" in s["state"]]
        self.wait_for(lambda: any(w["reason"] == "ErrImagePull" for w in waits()), "it says so")
        self.assertIn("there is no image none:1 here: put its files into", next(w["message"] for w in waits() if w["reason"] == "ErrImagePull"))
        self.kubectl(self, "rollout", "undo", "deploy/web")
        self.ready(3)
        self.assertEqual({c["image"] for p in self.pods() for c in p["spec"]["containers"]}, {"cadre"})

    def test_jobs_and_what_goes_wrong(self):
        self.up()
        def job(name, *command, **spec):
            return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"backoffLimit": 0, "template": {
                "metadata": {"labels": {"app": name}}, "spec": {"restartPolicy": "Never", "containers": [
                    {"name": "work", "image": "cadre", "command": list(command), **spec}]}}}}
        self.apply(job("good", "sh", "-c", "echo done; id -u"), job("bad", "sh", "-c", "exit 3"), job("none", "no-such-program"),
                   job("unset", "true", env=[{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "a"}}}]),
                   job("large", "sh", "-c", "yes 0123456789012345678901234567890123456789 | head -c 30000000; echo; echo end"),
                   job("user", "id", "-u", securityContext={"runAsUser": 1234}))
        self.kubectl(self, "wait", "job/good", "job/large", "job/user", "--for=condition=Complete", f"--timeout={PATIENCE}s")
        self.kubectl(self, "wait", "job/bad", "job/none", "--for=condition=Failed", f"--timeout={PATIENCE}s")
        self.assertEqual(self.kubectl(self, "logs", "job/user").strip(), "1234")
        self.assertEqual(self.kubectl(self, "logs", "job/good").split()[0], "done")
        def ended(name):
            return self.pods(f"app={name}")[0]["status"]["containerStatuses"][0]["state"]["terminated"]
        self.assertEqual((ended("bad")["exitCode"], ended("bad")["reason"]), (3, "Error"))
        self.assertEqual((ended("none")["exitCode"], ended("none")["reason"]), (128, "StartError"))
        self.assertIn("no-such-program", ended("none")["message"])
        waiting = self.pods("app=unset")[0]["status"]["containerStatuses"][0]["state"]["waiting"]
        self.assertEqual((waiting["reason"], waiting["message"]), ("CreateContainerConfigError", 'configmap "none" not found'))
        # What a pod prints is kept within bounds, and its end is there.
        self.assertEqual(self.kubectl(self, "logs", "job/large", "--tail=1").strip(), "end")
        size = sum(f.stat().st_size for f in (self.data / "node/logs").rglob("*") if f.is_file())
        self.assertLess(size, 25 << 20)
        # What is missing may come.
        self.kubectl(self, "create", "configmap", "none", "--from-literal=a=b")
        self.kubectl(self, "wait", "job/unset", "--for=condition=Complete", f"--timeout={PATIENCE}s")

    def test_runs_that_end_at_once_are_buried(self):
        self.up()
        self.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "many"}, "spec": {
            "completions": 20, "parallelism": 5, "template": {"spec": {"restartPolicy": "Never", "containers": [
                {"name": "main", "image": "cadre", "command": ["true"]}]}}}})
        self.kubectl(self, "wait", "job/many", "--for=condition=Complete", f"--timeout={PATIENCE}s")
        def dead():
            children = subprocess.run(["ps", "--ppid", str(self.process.pid), "-o", "stat=,comm="], text=True, capture_output=True).stdout
            return [line for line in children.splitlines() if line.startswith("Z")]
        self.wait_for(lambda: dead() == [], "nobody is left unburied")

    def test_what_belongs_to_no_pod_ends(self):
        self.up()
        self.apply(*THINGS)
        pods = self.ready(3)
        first = self.data / "runs" / pods[0]["metadata"]["uid"] / "web"
        os.kill(json.loads((first / "000000/state.json").read_text())["pid"], signal.SIGKILL)
        self.wait_for(lambda: len(list(first.iterdir())) == 2 and len(self.processes()) == 3, "one runs for the second time")
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate(timeout=PATIENCE)
        for part in "hub.db", "hub.db-wal", "hub.db.last":  # and with it all that is known of them
            (self.data / part).unlink(missing_ok=True)
        self.up()
        self.wait_for(lambda: self.processes() == [] and list((self.data / "runs").iterdir()) == [], "they end")
        self.assertEqual(list((self.data / "node/pods").iterdir()), [])

    def test_services_have_addresses_and_names(self):
        def service(name, **spec):
            return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
                    "spec": {"selector": {"app": "web"}, "ports": [{"port": 8000, "targetPort": 8080}], **spec}}
        def job(name, command, **metadata):
            return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, **metadata}, "spec": {"template": {
                "spec": {"restartPolicy": "Never", "containers": [{"name": "work", "image": "cadre", "command": ["sh", "-c", command]}]}}}}
        ask = "python3 -c 'import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())' "
        self.up()
        # This one runs before there is anybody to talk to.
        self.apply(job("early", f"until {ask} http://web:8000/text 2> /dev/null; do sleep 0.2; done"))
        self.apply(*THINGS, service("web"), service("each", clusterIP="None"))
        pods = self.ready(3)
        address = self.kubectl(self, "get", "svc", "web", "-o", "jsonpath={.spec.clusterIP}")
        self.assertRegex(address, r"^127\.(9[6-9]|10\d|11[01])\.")
        def reached():
            try:
                with urllib.request.urlopen(f"http://{address}:8000/text", timeout=PATIENCE) as answer:
                    return answer.read() == b"hello"
            except OSError:
                return False
        self.wait_for(reached, "it answers at its address")
        self.kubectl(self, "wait", "job/early", "--for=condition=Complete", f"--timeout={PATIENCE}s")
        self.assertIn("hello", self.kubectl(self, "logs", "job/early"))
        self.kubectl(self, "create", "namespace", "other")
        for number, name in enumerate(["web", "web.default", "web.default.svc", "web.default.svc.cluster.local"]):
            self.apply(job(f"j{number}", f"{ask} http://{name}:8000/text"))
        self.kubectl(self, "apply", "-f", "-", input=json.dumps(
            job("far", f"! getent hosts web && {ask} http://web.default:8000/text", namespace="other")))
        self.apply(job("all", "getent ahostsv4 each | cut -d' ' -f1 | sort -u"))
        for number in range(4):
            self.kubectl(self, "wait", f"job/j{number}", "--for=condition=Complete", f"--timeout={PATIENCE}s")
        self.kubectl(self, "wait", "job/far", "-n", "other", "--for=condition=Complete", f"--timeout={PATIENCE}s")
        self.kubectl(self, "wait", "job/all", "--for=condition=Complete", f"--timeout={PATIENCE}s")
        self.assertEqual(self.kubectl(self, "logs", "job/all").split(), sorted(p["status"]["podIP"] for p in pods))
        # Who is not ready, or gone, is not asked; nobody is told so.
        self.kubectl(self, "scale", "deploy/web", "--replicas=0")
        self.wait_for(lambda: not reached(), "nobody answers")
        self.kubectl(self, "scale", "deploy/web", "--replicas=1")
        self.wait_for(reached, "somebody answers again")
        self.kubectl(self, "delete", "svc", "web")
        self.wait_for(lambda: not reached(), "its address is gone")

    def cadre(self, *argv, after=(), **options):
        return subprocess.run([CADRE, *argv, "--kubeconfig", self.kubeconfig, *after], capture_output=True, timeout=PATIENCE,
                              **options)

    def exec(self, *argv, **options):
        """With the command as the last one of `argv`, for kubectl and for cadre: both say the same."""
        *flags, command = argv
        mine = subprocess.run([CADRE, "exec", "--kubeconfig", self.kubeconfig, *flags, "--", "sh", "-c", command],
                              capture_output=True, timeout=PATIENCE, **options)
        theirs = subprocess.run([tool("which", "kubectl"), "--kubeconfig", self.kubeconfig, "exec", *flags, "--", "sh", "-c", command],
                                capture_output=True, timeout=PATIENCE, **options)
        self.assertEqual((mine.returncode, mine.stdout), (theirs.returncode, theirs.stdout), (mine.stderr, theirs.stderr))
        return mine

    def test_a_webhook_in_a_pod_is_asked(self):
        folder = self.data.parent
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
                        "-subj", "/CN=guard", "-addext", "subjectAltName=DNS:guard.default.svc",
                        "-keyout", folder / "tls.key", "-out", folder / "tls.crt"], check=True, capture_output=True)
        certificate, key = (folder / "tls.crt").read_text(), (folder / "tls.key").read_text()
        guard = pod("guard", ["python3", "-c", GUARD], volumeMounts=[{"name": "keys", "mountPath": "/keys"}],
                    readinessProbe={"tcpSocket": {"port": 8443}, "periodSeconds": 1})
        guard["metadata"]["labels"] = {"app": "guard"}
        guard["spec"]["volumes"] = [{"name": "keys", "secret": {"secretName": "keys"}}]
        hook = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "guard"},
                "webhooks": [{"name": "guard.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                              "clientConfig": {"caBundle": base64.b64encode(certificate.encode()).decode(),
                                               "service": {"name": "guard", "namespace": "default", "path": "/ask"}},
                              "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]}]}
        self.up()
        self.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": {"tls.crt": certificate, "tls.key": key}},
                   {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "guard"},
                    "spec": {"selector": {"app": "guard"}, "ports": [{"port": 443, "targetPort": 8443}]}}, guard)
        self.kubectl(self, "wait", "pod/guard", "--for=condition=Ready", f"--timeout={PATIENCE}s")
        self.apply(hook)
        self.wait_for(lambda: "true" == self.kubectl(self, "get", "endpointslices", "-l", "kubernetes.io/service-name=guard",
                                                     "-o", "jsonpath={.items[*].endpoints[*].conditions.ready}"), "it is behind its Service")
        self.kubectl(self, "create", "configmap", "good")
        self.assertIn('admission webhook "guard.example.com" denied the request: it is bad',
                      self.kubectl(self, "create", "configmap", "bad", fails=True))
        self.assertIn("asked as guard.default.svc /ask?timeout=10s", self.kubectl(self, "logs", "guard"))
        hook["webhooks"][0]["clientConfig"]["service"]["port"] = 444
        self.apply(hook)
        self.assertIn("the Service default/guard has no port 444", self.kubectl(self, "create", "configmap", "other", fails=True))

    def test_people_can_talk_with_what_runs(self):
        self.up()
        self.apply(*THINGS)
        pod = self.ready(3)[0]
        name = pod["metadata"]["name"]
        done = self.exec(name, "hostname; echo $NAME; echo wrong >&2; exit 3")
        self.assertEqual((done.returncode, done.stdout), (3, f"{name}\njane\n".encode()), done.stderr)
        self.assertIn(b"wrong", done.stderr)
        self.assertEqual(self.exec("deploy/web", "-c", "web", "cat /page/text").stdout, b"hello")
        # What is typed arrives, to the last byte, and its end is heard.
        much = os.urandom(1 << 20)
        self.assertEqual(self.exec("-i", name, "cat", input=much).stdout, much)
        with open(self.data.parent / "much", "wb+") as file:
            file.write(much)
            file.seek(0)
            done = self.cadre("exec", "-i", name, "-c", "web", stdin=file, after=["--", "head", "-c", "100"])
            self.assertEqual(done.stdout, much[:100], done.stderr)
        for wrong, why in (("nobody", b"not there"), ("deploy/nobody", b"not there")):
            done = self.cadre("exec", wrong, after=["--", "true"])
            self.assertEqual(done.returncode, 1, done)
            self.assertIn(why, done.stderr)
        # A terminal, with the size of the one here.
        mine, theirs = pty.openpty()
        self.addCleanup(os.close, mine)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
        talk = subprocess.Popen([CADRE, "exec", "--kubeconfig", self.kubeconfig, "-it", name, "--", "sh"],
                                stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        os.write(mine, b"test -t 0 && stty size; exit 5\n")
        said = b""
        while b"33 77" not in said:
            said += os.read(mine, 1000)
        self.assertEqual(talk.wait(timeout=PATIENCE), 5, said)
        # What it prints from now on.
        follow = subprocess.Popen([tool("which", "kubectl"), "--kubeconfig", self.kubeconfig, "attach", name], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL)
        self.addCleanup(follow.communicate, timeout=PATIENCE)
        self.addCleanup(follow.kill)
        self.wait_for(lambda: self.text(pod) == "hello", "it answers")
        self.kubectl(self, "delete", "pod", name, "--wait=false")
        self.assertIn(b"asked to end\n", follow.stdout.readlines())

    def test_ports_are_forwarded(self):
        self.up()
        self.apply(*THINGS)
        name = self.ready(3)[0]["metadata"]["name"]
        forward = subprocess.Popen([CADRE, "port-forward", "--kubeconfig", self.kubeconfig, f"pod/{name}", ":8080", ":9"],
                                   text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(forward.communicate, timeout=PATIENCE)
        self.addCleanup(forward.kill)
        served, refused = (forward.stdout.readline().split()[0] for _ in range(2))
        for _ in range(20):
            with urllib.request.urlopen(f"http://{served}/text", timeout=PATIENCE) as answer:
                self.assertEqual(answer.read(), b"hello")
        with self.assertRaises(OSError):
            urllib.request.urlopen(f"http://{refused}/", timeout=PATIENCE)
        self.assertIn("Connection refused", forward.stderr.readline())
        done = self.cadre("port-forward", "deploy/web", "web")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"is no port", done.stderr)

    def test_hooks_run_after_a_start_and_before_an_end(self):
        def pod(name, script, lifecycle):
            return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
                "terminationGracePeriodSeconds": 20, "restartPolicy": "Never",
                "volumes": [{"name": "notes", "hostPath": {"path": str(self.data.parent)}}],
                "containers": [{"name": "main", "image": "cadre", "command": ["sh", "-c", script], "lifecycle": lifecycle,
                                "volumeMounts": [{"name": "notes", "mountPath": "/notes"}]}]}}
        def note(text):
            return {"exec": {"command": ["sh", "-c", f"echo {text} >> /notes/notes"]}}
        self.up()
        self.apply(pod("polite", "trap 'echo asked >> /notes/notes; exit 0' TERM; while :; do sleep 0.1; done",
                       {"postStart": note("started"), "preStop": note("before")}),
                   pod("failing", "sleep 1000", {"postStart": {"exec": {"command": ["false"]}}}))
        notes = self.data.parent / "notes"
        self.wait_for(lambda: notes.exists() and notes.read_text() == "started\n", "what is to happen after a start")
        self.kubectl(self, "delete", "pod", "polite")
        self.assertEqual(notes.read_text(), "started\nbefore\nasked\n")
        self.wait_for(lambda: self.kubectl(self, "get", "pod", "failing", "-o", "jsonpath={.status.phase}") == "Failed", "it ends")

    def test_pods_have_tokens_of_their_accounts(self):
        rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "reader"}}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "reader"}, "spec": {
            "serviceAccountName": "reader", "restartPolicy": "Never",
            "volumes": [{"name": "access", "projected": {"sources": [
                {"serviceAccountToken": {"path": "token", "expirationSeconds": 600}},
                {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}}]}}],
            "containers": [{"name": "reader", "image": "cadre", "command": ["sh", "-c", "echo $(cat /access/token /access/namespace); sleep 1000"],
                            "volumeMounts": [{"name": "access", "mountPath": "/access"}]}]}}
        self.up()
        self.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader"}},
                   {**rbac, "kind": "Role", "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]},
                   {**rbac, "kind": "RoleBinding", "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
                    "subjects": [{"kind": "ServiceAccount", "name": "reader"}]}, pod)
        self.kubectl(self, "wait", "pod/reader", "--for=condition=Ready", f"--timeout={PATIENCE}s")
        self.wait_for(lambda: self.kubectl(self, "logs", "reader").endswith("default\n"), "it runs")
        token = self.kubectl(self, "logs", "reader").removesuffix("default\n")
        mine = ["--token", token, "--kubeconfig", "/dev/null", "--insecure-skip-tls-verify", "--server",
                self.kubectl(self, "config", "view", "-o", "jsonpath={.clusters[0].cluster.server}")]
        self.assertEqual(self.kubectl(self, *mine, "get", "configmaps", "-o", "name").strip(), "configmap/kube-root-ca.crt")
        self.assertIn('User "system:serviceaccount:default:reader" cannot list resource "secrets"',
                      self.kubectl(self, *mine, "get", "secrets", fails=True))
        # It ends with its pod.
        self.kubectl(self, "delete", "pod", "reader", "--grace-period=0", "--force")
        self.wait_for(lambda: "Unauthorized" in subprocess.run([tool("which", "kubectl"), *mine, "get", "configmaps"], text=True,
                                                               capture_output=True, timeout=PATIENCE).stderr, "nobody takes it any more")

    def test_the_demo_shows_a_system_that_answers(self):
        done = subprocess.run([ROOT / "tools/demo", "--no-build", "--runtime", "process"], text=True, capture_output=True,
                              timeout=2 * PATIENCE, env={**os.environ, "CI": "true"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("pods run as processes", done.stderr)
        self.assertEqual(done.stdout.count("Hello from hello-"), 3, done.stdout)
        self.assertIn("cadre exec -it deploy/hello -- sh", done.stdout)

    def test_one_at_a_time_and_an_end_without_rests(self):
        self.up()
        self.apply(*THINGS)
        self.ready(3)
        second = subprocess.run([CADRE, "up", "--data", self.data], text=True, capture_output=True, timeout=PATIENCE)
        self.assertEqual(second.returncode, 1)
        self.assertIn(f"is up already, as process {self.process.pid}", second.stderr)
        # Killed, then down: what it left running ends.
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate(timeout=PATIENCE)
        self.assertEqual(len(self.processes()), 3)
        done = subprocess.run([CADRE, "down", "--data", self.data], text=True, capture_output=True, timeout=PATIENCE)
        self.assertEqual((done.returncode, done.stdout), (0, "it was not up; 3 containers ended\n"), done.stderr)
        self.assertEqual(self.processes(), [])
        # And up again: the pods that there were run once more.
        self.up()
        self.wait_for(lambda: all(c["restartCount"] == 1 and c["ready"] for p in self.ready(3) for c in p["status"]["containerStatuses"]),
                      "each runs a second time")


if __name__ == "__main__":
    unittest.main()
