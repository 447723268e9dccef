#!/usr/bin/env python3
"""Measures one way to run pods on this machine, from nothing: how soon its API answers, how soon three pods of a first Deployment
are ready, and what memory it takes with no pods and with many. Prints that as JSON.

  bench/ups.py process|docker|cluster CADRE PODS     docker: in a network namespace of its own (`unshare --net`)
"""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / folder) for folder in ("tools/cluster.d", "test/node", "test/fault", "test/hub")]

import boxes  # noqa: E402
from kube import Kube, Login  # noqa: E402
from servers import answers_ready, started  # noqa: E402

TOOL = ROOT / "tools/cluster"
PATIENCE = 300  # seconds
WEB = {"name": "web", "image": "box:1", "command": ["httpd", "-f", "-p", "$(POD_IP):8080", "-h", "/etc"],
       "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
       "readinessProbe": {"httpGet": {"path": "/hosts", "port": 8080}, "periodSeconds": 1}}


def deployment(name, replicas, container):
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}}, "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]}}}}


def ready_seconds(kube, made):
    """From the request to the moment when all its pods are told to be ready."""
    path = "/apis/apps/v1/namespaces/default/deployments"
    begin = time.monotonic()
    kube.ask("POST", path, made)
    while kube.ask("GET", f"{path}/{made['metadata']['name']}").get("status", {}).get("readyReplicas") != made["spec"]["replicas"]:
        if time.monotonic() - begin > PATIENCE:
            raise SystemExit(f"{made['metadata']['name']} does not become ready")
        time.sleep(0.005)
    return time.monotonic() - begin


def resident(pids):
    """Bytes, those that are shared counted by their share."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):  # it has just ended
            lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += next(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
    return total


def processes(word):
    """Those whose command line has it: a data folder, say."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes()
            if word.encode() in words and b"cadre" in words.split(b"\0")[0]:
                found.append(int(entry.name))
    return found


def measure_up(cadre, runtime, pods, folder):
    data = folder / "data"
    if runtime == "process":
        boxes.put_into(data / "images")
    begin = time.monotonic()
    up = subprocess.Popen([cadre, "up", "--data", data, "--runtime", runtime, "--port", "0"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL)
    try:
        while not answers_ready(data / "kubeconfig"):
            if up.poll() is not None:
                raise SystemExit("cadre up did not start")
            time.sleep(0.001)
        said = {"api_seconds": time.monotonic() - begin}
        kube = Kube(Login(data / "kubeconfig"))
        said["seconds"] = ready_seconds(kube, deployment("web", 3, WEB))
        kube.ask("DELETE", "/apis/apps/v1/namespaces/default/deployments/web?propagationPolicy=Foreground")
        while kube.ask("GET", "/api/v1/namespaces/default/pods")["items"]:
            time.sleep(0.05)
        said["idle_bytes"] = resident([up.pid])
        if pods:
            said["many_seconds"] = ready_seconds(kube, deployment("many", pods, {"name": "main", "image": "box:1", "command": ["sleep", "10000"]}))
            said["many_bytes"] = resident([up.pid])
            said["many_with_shims_bytes"] = resident({up.pid, *processes(str(data))})
        return said
    finally:
        subprocess.run([cadre, "down", "--data", data], check=True, stdout=subprocess.DEVNULL)
        up.wait(PATIENCE)


def measure_docker(cadre, pods, folder):
    from dockers import Engine
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    (folder / "docker").mkdir()
    engine = Engine(folder / "docker")
    try:
        engine.load("box")
        os.environ["DOCKER_HOST"] = f"unix://{engine.socket}"
        return measure_up(cadre, "docker", pods, folder)
    finally:
        engine.stop()


def measure_cluster(folder):
    name = f"bench-{os.getpid()}"
    try:
        up = [TOOL, "up", "node", "--name", name, "--for-pid", str(os.getpid())]
        kubeconfig = pathlib.Path(subprocess.run(up, text=True, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.strip())
        ready = time.monotonic()
        pids = [json.loads(record.read_text())["pid"] for record in (kubeconfig.parent / "run").glob("*.json") if record.stem != "supervisor"]
        boxes.write_archive(folder / "box.tar")
        subprocess.run([TOOL, "load", "--name", name, folder / "box.tar"], check=True)
        said = {"api_seconds": ready - min(map(started, pids))}
        said["seconds"] = ready_seconds(Kube(Login(kubeconfig)), deployment("web", 3, WEB))
        return dict(said, idle_bytes=resident(pids))
    finally:
        subprocess.run([TOOL, "down", "--name", name], check=True, stderr=subprocess.DEVNULL)


def main():
    what, cadre, pods = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with tempfile.TemporaryDirectory(prefix="cadre-bench-") as folder:
        folder = pathlib.Path(folder)
        if what == "cluster":
            said = measure_cluster(folder)
        elif what == "docker":
            said = measure_docker(cadre, pods, folder)
        else:
            said = measure_up(cadre, "process", pods, folder)
    print(json.dumps(said))


if __name__ == "__main__":
    main()
