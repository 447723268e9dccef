"""An operator as its surroundings see it: a process, its endpoints, and what the API server wrote down of it."""

import datetime
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

from base import Failure, wait_for

WRITES = {"create", "update", "patch", "delete", "deletecollection"}


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def cpu_seconds(pid):
    ticks = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def machine_cpu_seconds():
    """Of all processes of this machine, since it was started; and how much there was."""
    first = pathlib.Path("/proc/stat").read_text().split("\n")[0]
    user, nice, system, idle, iowait, *rest = map(int, first.split()[1:9])
    ticks = os.sysconf("SC_CLK_TCK")
    busy = (user + nice + system + sum(rest)) / ticks
    return busy, busy + (idle + iowait) / ticks


def server_cpu_seconds(kubeconfig):
    """Of the cluster's etcd and kube-apiserver together: what their clients cost them."""
    records = (pathlib.Path(kubeconfig).parent / "run" / f"{part}.json" for part in ("etcd", "kube-apiserver"))
    return sum(cpu_seconds(json.loads(record.read_text())["pid"]) for record in records)


class Audit:
    """The requests of one user agent, from now on, as an API server with an audit log writes them down."""

    def __init__(self, kubeconfig, agent):
        self.file = pathlib.Path(kubeconfig).parent / "audit.log"
        self.mark = f'"userAgent":"{agent}"'.encode()
        self.place = self.file.stat().st_size
        self.lines = []

    def read(self):
        """Takes in what is new; tells how many requests that are. Cheap: others are measured meanwhile."""
        with open(self.file, "rb") as file:
            file.seek(self.place)
            text = file.read()
        text = text[:text.rfind(b"\n") + 1]
        self.place += len(text)
        found = [line for line in text.splitlines() if self.mark in line]
        self.lines += found
        return len(found)

    def writes(self, ns=None):
        """(kind, name, whether it succeeded, when it was answered) of each; of a namespace, or of all."""
        self.read()
        found = []
        for request in map(json.loads, self.lines):
            what = request["objectRef"] if request["verb"] in WRITES else {}
            if not what or (ns and what.get("namespace") != ns):
                continue
            kind = what["resource"] + ("/" + what["subresource"] if "subresource" in what else "")
            when = datetime.datetime.fromisoformat(request["stageTimestamp"].replace("Z", "+00:00"))
            # A create tells no name here: it is in the body.
            found.append((kind, what.get("name"), request["responseStatus"]["code"] < 300, when.timestamp()))
        return found


def is_complete(writes, count):
    """Whether so many objects have a Deployment, a Service and a status by these writes."""
    good = [(kind, name) for kind, name, good, _ in writes if good]
    statuses = {name for kind, name in good if kind == "mcpservers/status"}
    return len(statuses) >= count and all(
        sum(kind == child for kind, _ in good) >= count for child in ("deployments", "services"))


class Operator:
    """A running one, stopped at the end of the block."""

    def __init__(self, argv, agent, kubeconfig, log):
        self.audit = Audit(kubeconfig, agent)
        metrics, health = free_ports(2)
        self.urls = {"metrics": f"http://127.0.0.1:{metrics}/metrics", "ready": f"http://127.0.0.1:{health}/readyz"}
        self.log = log
        with open(log, "w") as file:
            self.started = time.time()
            self.process = subprocess.Popen(
                [*map(str, argv), f"--kubeconfig={kubeconfig}", f"--metrics-bind-address=127.0.0.1:{metrics}",
                 f"--health-probe-bind-address=127.0.0.1:{health}"], stdout=file, stderr=file)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def get(self, what):
        """The text of an endpoint, None where there is none yet."""
        if self.process.poll() is not None:
            raise Failure(f"an operator ended with {self.process.returncode}; its log is {self.log}")
        try:
            with urllib.request.urlopen(self.urls[what], timeout=5) as answer:
                return answer.read().decode()
        except (urllib.error.URLError, OSError):
            return None

    def wait_ready(self):
        """Seconds from its start until it says that it is ready."""
        until = time.monotonic() + 120
        while self.get("ready") is None:
            if time.monotonic() > until:
                raise Failure(f"an operator is not ready; its log is {self.log}")
            time.sleep(0.005)
        return time.time() - self.started

    def wait_looked(self, count):
        """Seconds from its start until it has looked at so many objects, and none waits."""
        def looked():
            text = self.get("metrics") or ""
            done = sum(map(float, re.findall(
                r'^controller_runtime_reconcile_total\{controller="mcpserver",result="(?:success|requeue_after)"\} (\S+)',
                text, re.MULTILINE)))
            waits = re.search(r'^workqueue_depth\{[^}]*name="mcpserver"[^}]*\} (\S+)', text, re.MULTILINE)
            return done >= count and waits and float(waits[1]) == 0
        if not wait_for(looked, 120):
            raise Failure(f"an operator has not looked at all; its log is {self.log}")
        return time.time() - self.started

    def wait_converged(self, ns, count):
        """Until each of so many objects has a Deployment, a Service and a status, and for two seconds nothing
        was asked for any more. Seconds are those from its start to the answer of its last write."""
        until, quiet_since = time.monotonic() + 600, time.monotonic()
        while time.monotonic() - quiet_since < 2 or not is_complete(self.audit.writes(ns), count):
            if time.monotonic() > until:
                raise Failure(f"an operator does not converge; its log is {self.log}")
            self.get("ready")
            time.sleep(0.25)
            if self.audit.read():
                quiet_since = time.monotonic()
        writes = self.audit.writes(ns)
        return {"seconds": max(when for *_, when in writes) - self.started, "writes_per_object": len(writes) / count,
                "failed_writes": sum(not good for _, _, good, _ in writes), "requests": len(self.audit.lines),
                "cpu_seconds": cpu_seconds(self.process.pid), **self.memory()}

    def memory(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        size = lambda name: int(re.search(rf"^{name}:\s+(\d+) kB", status, re.MULTILINE)[1]) * 1024
        return {"resident_bytes": size("VmRSS"), "peak_bytes": size("VmHWM")}
