"""What the tests of tools/cluster share. Run them as plain programs: python3 test/cluster/api_test.py"""

import json
import os
import pathlib
import subprocess
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools/cluster"


def tool(*argv, env=None, fails=False):
    """Runs tools/cluster; returns its stdout, or its stderr where it has to fail."""
    done = subprocess.run([TOOL, *map(str, argv)], text=True, capture_output=True, timeout=1800,
                          env=dict(os.environ, **env) if env else None)
    if (done.returncode != 0) != fails:
        raise AssertionError(f"tools/cluster {' '.join(map(str, argv))} ended with {done.returncode}:\n{done.stderr}")
    return done.stderr if fails else done.stdout.strip()


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until(condition, seconds=30):
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


class ClusterTest(unittest.TestCase):
    """Names clusters after this process, so that runs side by side do not meet, and takes them down."""

    def name(self, suffix):
        name = f"test-{os.getpid()}-{suffix}"
        self.addCleanup(tool, "down", "--name", name)
        return name

    def up(self, level, name, *argv, env=None):
        return tool("up", level, "--name", name, "--for-pid", os.getpid(), *argv, env=env)

    def status(self, name):
        return json.loads(tool("status", "--json", "--name", name))[0]

    def kubectl(self, kubeconfig, *argv, **options):
        done = subprocess.run([tool("which", "kubectl"), f"--kubeconfig={kubeconfig}", *argv], text=True,
                              capture_output=True, timeout=180, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def pids(self, name):
        """Every recorded process of a cluster, its supervisor too."""
        records = (pathlib.Path(self.status(name)["dir"]) / "run").glob("*.json")
        return {json.loads(record.read_text())["pid"] for record in records}

    def assertGone(self, pids, folder):
        self.assertEqual([pid for pid in pids if alive(pid)], [])
        self.assertFalse(pathlib.Path(folder).exists())
        mentioned = [p for p in pathlib.Path("/proc").glob("[0-9]*/cmdline") if f"{folder}/".encode() in content(p)]
        self.assertEqual([p for p in mentioned if alive(p.parent.name)], [])


def content(file):
    try:
        return file.read_bytes()
    except OSError:
        return b""
