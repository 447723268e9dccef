"""An API server as its surroundings see it: where it is, how soon it answered, and what it needs."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from base import Failure, run
from operators import cpu_seconds


class Server:
    def __init__(self, kubeconfig, context, pids, ready_seconds):
        self.kubeconfig, self.context = kubeconfig, context
        self.pids = pids  # all that it consists of
        self.ready_seconds = ready_seconds  # from the start of its first process

    def cpu_seconds(self):
        return sum(map(cpu_seconds, self.pids))

    def resident_bytes(self):
        def of(pid):
            lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))
        return sum(map(of, self.pids))


@contextlib.contextmanager
def hub(cadre, *flags):
    """`cadre hub` on a new folder."""
    folder = tempfile.mkdtemp(prefix="cadre-bench-")
    kubeconfig = pathlib.Path(folder, "kubeconfig")
    begin = time.monotonic()
    process = subprocess.Popen([cadre, "hub", "--data", folder, *flags], stdout=subprocess.DEVNULL)
    try:
        # The kubeconfig is written last: who can read it can connect.
        while not answers_ready(kubeconfig):
            if process.poll() is not None or time.monotonic() - begin > 60:
                raise Failure("cadre hub did not start")
            time.sleep(0.001)
        yield Server(str(kubeconfig), "cadre", [process.pid], time.monotonic() - begin)
    finally:
        process.terminate()
        process.wait(60)
        shutil.rmtree(folder)


def answers_ready(kubeconfig):
    server = re.search(r"server: (\S+)", kubeconfig.read_text()) if kubeconfig.exists() else None
    if not server:
        return False
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(f"{server[1]}/readyz", context=tls, timeout=10) as answer:
            return answer.status == 200
    except urllib.error.URLError:
        return False


@contextlib.contextmanager
def kube(tool, name, *flags):
    """etcd and kube-apiserver, gone afterwards and when this process dies."""
    name = f"bench-{os.getpid()}-{name}"
    try:
        kubeconfig = run(tool, "up", "api", "--name", name, "--for-pid", os.getpid(), *flags).strip()
        ready = time.monotonic()  # `up` has just seen it
        records = (pathlib.Path(kubeconfig).parent / "run" / f"{part}.json" for part in ("etcd", "kube-apiserver"))
        pids = [json.loads(record.read_text())["pid"] for record in records]
        yield Server(kubeconfig, "admin", pids, ready - min(map(started, pids)))
    finally:
        run(tool, "down", "--name", name)


def started(pid):
    """On the clock of time.monotonic()."""
    ticks = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return int(ticks) / os.sysconf("SC_CLK_TCK") - (time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic())
