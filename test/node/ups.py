"""What the tests of `cadre up` share: one that runs in a folder of its own, and leaves nothing."""

import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "hub"))

from hubs import CADRE, PATIENCE, ROOT, HubTest, tool, wait_until  # noqa: E402, F401


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

    def ready(self, count):
        def are_ready():
            pods = self.pods()
            return len(pods) == count and all(
                any(c["type"] == "Ready" and c["status"] == "True" for c in p["status"].get("conditions", [])) for p in pods)
        self.wait_for(are_ready, f"{count} pods are ready")
        return self.pods()
