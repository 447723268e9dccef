"""What the tests of `cadre up` share: one that runs in a folder of its own, and leaves nothing."""

import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "hub"))

from hubs import CADRE, PATIENCE, ROOT, HubTest, tool, wait_until  # noqa: E402, F401


# What the API says to a pod by itself: with its token, at the address that it is told, which it knows by the authority.
ASK_API = """
own=/var/run/secrets/kubernetes.io/serviceaccount
test "$(cat $own/namespace)" = default
ask() {
  { printf 'GET %s HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n' "$1" "$(cat $own/token)"; sleep 2; } |
    openssl s_client -quiet -verify_return_error -verify_ip $KUBERNETES_SERVICE_HOST -CAfile $own/ca.crt \\
      -connect $KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT
}
ask /api/v1/namespaces/default/secrets
ask /api/v1/namespaces/default/configmaps/kube-root-ca.crt
grep kubernetes.default.svc /etc/hosts
echo "web is at $WEB_SERVICE_HOST:$WEB_SERVICE_PORT_HTTP"
"""


class UpCase(HubTest):
    runtime = "process"

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="cadre-up-")
        self.addCleanup(folder.cleanup)
        self.data = pathlib.Path(folder.name) / "data"
        self.kubeconfig = self.data / "kubeconfig"
        self.process = None
        self.addCleanup(self.down)

    def up(self, *argv):
        self.process = subprocess.Popen([CADRE, "up", "--data", self.data, "--runtime", self.runtime, *argv], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(self.process.stdout.readline().strip(), str(self.kubeconfig), "it did not come up")

    def down(self):
        if self.data.exists():
            done = subprocess.run([CADRE, "down", "--data", self.data], text=True, capture_output=True, timeout=PATIENCE)
            self.assertEqual(done.returncode, 0, done.stderr)
        if self.process:
            self.process.communicate(timeout=PATIENCE)
        self.process = None
        self.assertEqual(self.processes(), [], "something is left")

    def processes(self):
        """What runs because of this folder: shims are known by it."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if entry.name.isdigit() and str(self.data).encode() in b" ".join(words) and b"shim" in words:
                    found.append(int(entry.name))
            except OSError:
                pass
        return found

    def apply(self, *objects):
        self.kubectl(self, "apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))

    def pods(self, selector="app=web"):
        return json.loads(self.kubectl(self, "get", "pods", "-l", selector, "-o", "json"))["items"]

    def wait_for(self, what, why):
        self.assertTrue(wait_until(what, PATIENCE), f"{why}\n{self.kubectl(self, 'get', 'pods', '-o', 'yaml')[-6000:]}")

    def check_pods_reach_the_api(self, image):
        self.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": [{"name": "http", "port": 8000}]}},
                   {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "view"},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
                    "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}]})
        def pod(name, **spec):
            return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"restartPolicy": "Never", "containers": [
                {"name": "work", "image": image, "command": ["sh", "-ec", ASK_API if name == "asks" else "test ! -e /var/run/secrets/kubernetes.io"]}], **spec}}
        address = self.kubectl(self, "get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
        self.apply(pod("asks"), pod("has-none", automountServiceAccountToken=False))
        for name in "asks", "has-none":
            self.wait_for(lambda: self.kubectl(self, "get", "pod", name, "-o", "jsonpath={.status.phase}") in ("Succeeded", "Failed"), "it has ended")
        said = self.kubectl(self, "logs", "asks")
        self.assertIn('secrets is forbidden: User \\"system:serviceaccount:default:default\\" cannot list resource \\"secrets\\"', said)
        self.assertIn('"name":"kube-root-ca.crt","namespace":"default"', said)
        self.assertIn(f"web is at {address}:8000", said)
        for name in "asks", "has-none":
            self.assertEqual(self.kubectl(self, "get", "pod", name, "-o", "jsonpath={.status.phase}"), "Succeeded", said)
        # A namespace has an account at once, and whoever names another one is told.
        self.kubectl(self, "create", "namespace", "team")
        self.kubectl(self, "run", "-n", "team", "one", f"--image={image}", "--command", "--", "sh", "-c",
                     "trap 'exit 0' TERM; sleep 1000 & wait")
        self.kubectl(self, "wait", "-n", "team", "pod/one", "--for=condition=Ready", f"--timeout={PATIENCE}s")
        self.assertEqual(self.kubectl(self, "get", "pod", "-n", "team", "one", "-o", "jsonpath={.spec.serviceAccountName}"), "default")
        refused = subprocess.run([tool("which", "kubectl"), "--kubeconfig", self.kubeconfig, "apply", "-f", "-"], text=True, capture_output=True,
                                 input=json.dumps(pod("lost", serviceAccountName="nobody")))
        self.assertIn('pods "lost" is forbidden: error looking up service account default/nobody: serviceaccount "nobody" not found', refused.stderr)
        self.kubectl(self, "delete", "namespace", "team", f"--timeout={PATIENCE}s")

    def ready(self, count):
        def are_ready():
            pods = self.pods()
            return len(pods) == count and all(
                any(c["type"] == "Ready" and c["status"] == "True" for c in p["status"].get("conditions", [])) for p in pods)
        self.wait_for(are_ready, f"{count} pods are ready")
        return self.pods()
