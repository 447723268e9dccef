"""What the tests of the hub share: `cadre hub` in a folder of its own."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "test/cluster"))

from support import tool, wait_until  # noqa: E402

BUILD = pathlib.Path(os.environ.get("CADRE_BUILD_DIR", ROOT / "build/dev"))
CADRE = BUILD / "apps/cadre/cadre"
PATIENCE = 60  # seconds; a busy machine needs some of them


class Hub:
    """One that runs, and its kubeconfig."""

    def __init__(self, data, *argv):
        self.data = pathlib.Path(data)
        self.kubeconfig = self.data / "kubeconfig"
        self.argv = argv
        self.process = None
        self.start()

    def start(self):
        self.kubeconfig.unlink(missing_ok=True)
        self.process = subprocess.Popen([CADRE, "hub", "--data", self.data, *self.argv], text=True,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        if not wait_until(lambda: self.kubeconfig.exists() or self.process.poll() is not None, PATIENCE) \
                or self.process.poll() is not None:
            self.process.kill()
            raise AssertionError("the hub did not start: " + self.process.communicate()[1])

    def stop(self, signal="terminate"):
        getattr(self.process, signal)()
        said = self.process.communicate(timeout=PATIENCE)[1]
        return self.process.returncode, said


class HubTest(unittest.TestCase):
    def hub(self, *argv):
        folder = tempfile.TemporaryDirectory(prefix="cadre-hub-")
        self.addCleanup(folder.cleanup)
        hub = Hub(folder.name, *argv)
        self.addCleanup(lambda: hub.process.poll() is None and hub.stop("kill"))
        return hub

    def run_on(self, hub, *argv, input=None, fails=False, env=None, timeout=300):
        done = subprocess.run([str(a) for a in argv], text=True, capture_output=True, input=input, timeout=timeout,
                              env={**os.environ, "KUBECONFIG": str(hub.kubeconfig), **(env or {})})
        if (done.returncode != 0) != fails:
            self.fail(f"{' '.join(map(str, argv))}: exit {done.returncode}\n{done.stdout[-8000:]}\n{done.stderr[-8000:]}")
        return done.stderr if fails else done.stdout

    def kubectl(self, hub, *argv, **options):
        return self.run_on(hub, tool("which", "kubectl"), *argv, **options)
