#!/usr/bin/env python3
"""Level node: real pods behind a Service with a name, and a machine that is as before when it is down."""

import os
import pathlib
import signal
import subprocess
import unittest
import urllib.request

from support import ClusterTest, alive, tool, wait_until

SYSCTLS = ("net.ipv4.ip_forward", "net.ipv4.conf.all.route_localnet", "net.bridge.bridge-nf-call-iptables",
           "vm.overcommit_memory", "kernel.panic", "kernel.panic_on_oops")
FOLDERS = ("/run/netns", "/run/containerd", "/var/lib/cni", "/var/lib/kubelet", "/var/log/containers", "/var/log/pods")

WEB_ON_HOST_PORT = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - {name: web, image: "cadre.test/web:1", ports: [{containerPort: 8080, hostPort: 19080}]}
"""


def machine():
    """What a node changes on the machine, as sets to compare."""
    seen = {"mounts": {line.split()[4] for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()},
            "interfaces": set(os.listdir("/sys/class/net")),
            "cgroups": {f for f, _, _ in os.walk("/sys/fs/cgroup") if "cadre-" in f or "kubepods" in f},
            "files": {os.path.join(folder, name) for top in FOLDERS
                      for folder, folders, files in os.walk(top) for name in folders + files},
            "settings": {f"{key}={pathlib.Path('/proc/sys', key.replace('.', '/')).read_text()}" for key in SYSCTLS
                         if pathlib.Path("/proc/sys", key.replace(".", "/")).exists()}}
    for program in ("iptables-save", "ip6tables-save"):
        try:
            lines = subprocess.run([program], text=True, capture_output=True).stdout.splitlines()
        except FileNotFoundError:
            lines = []
        # Rules, and chains that somebody made. Built-in chains appear by themselves, with counters.
        seen[program] = {x.split(" [")[0] for x in lines
                         if x.startswith("-A") or (x.startswith(":") and x.split()[1] == "-")}
    return seen


def members(name):
    """The processes in the cluster's cgroups: its parts, shims and whatever runs in pods."""
    found = set()
    for file in pathlib.Path("/proc").glob("[0-9]*/cgroup"):
        try:
            if f"/cadre-{name}/" in file.read_text():
                found.add(int(file.parent.name))
        except OSError:
            pass
    return {pid for pid in found if alive(pid)}


@unittest.skipIf(os.geteuid() != 0, "a node needs root")
class NodeTest(ClusterTest):
    def setUp(self):
        self.before = machine()

    def assertAsBefore(self, during):
        """Whatever came with the cluster went with it. What others made meanwhile is not ours to judge,
        unless it also was there while the cluster ran."""
        def left():
            after = machine()
            return {kind: sorted((during[kind] - self.before[kind]) & after[kind]) for kind in after}
        wait_until(lambda: not any(left().values()), 10)  # a network namespace dies a little after its last process
        self.assertEqual(left(), {kind: [] for kind in during})
        self.assertEqual(machine()["settings"], self.before["settings"])

    def test_service_answers_by_address_and_name(self):
        name = self.name("node")
        kubeconfig = self.up("node", name, "--registry")
        self.assertRegex(self.kubectl(kubeconfig, "get", "nodes"), r"node-0\s+Ready")
        self.kubectl(kubeconfig, "create", "deployment", "web", "--image=cadre.test/web:1", "--replicas=2")
        self.kubectl(kubeconfig, "expose", "deployment", "web", "--port=80", "--target-port=8080")
        self.kubectl(kubeconfig, "run", "client", "--image=cadre.test/busybox:1", "--", "sleep", "600")
        self.kubectl(kubeconfig, "rollout", "status", "deployment/web", "--timeout=60s")
        self.kubectl(kubeconfig, "wait", "--for=condition=Ready", "pod/client", "--timeout=60s")

        address = self.kubectl(kubeconfig, "get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
        self.assertTrue(wait_until(lambda: "hello" in page(f"http://{address}/"), 20), "from the machine")
        for host in (address, "web", "web.default.svc.cluster.local"):
            said = self.kubectl(kubeconfig, "exec", "client", "--", "timeout", "10", "wget", "-qO-", f"http://{host}/")
            self.assertIn("hello", said, host)
        # Both pods answer, also when the one that asks is one of them.
        ask = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do timeout 10 wget -qO- http://web/cgi-bin/host; done"
        self.assertEqual(len(set(self.kubectl(kubeconfig, "exec", "deploy/web", "--", "sh", "-c", ask).split())), 2)
        # A pod reaches the API server by its usual name.
        self.kubectl(kubeconfig, "exec", "client", "--",
                     "timeout", "10", "nc", "kubernetes.default", "443", "-e", "/bin/true")
        # The node pulls from the registry.
        state = self.status(name)
        image = f"{state['host']}:{state['parts']['registry']['port']}/pushed/web:2"
        subprocess.run(["ctr", "--address", f"{state['dir']}/containerd.sock", "--namespace", "k8s.io", "images", "push",
                        "--plain-http", image, "cadre.test/web:1"], check=True, capture_output=True)
        self.kubectl(kubeconfig, "run", "pulled", f"--image={image}")
        self.kubectl(kubeconfig, "wait", "--for=condition=Ready", "pod/pulled", "--timeout=60s")
        self.assertIn("only one node", tool("up", "node", "--name", self.name("second"), fails=True))

        during, pids, folder = machine(), self.pids(name) | members(name), self.status(name)["dir"]
        self.assertGreater(len(pids), 12)  # nine parts, and at least a shim, a pause and a program for each pod
        for kind in ("mounts", "interfaces", "cgroups", "iptables-save"):
            self.assertTrue(during[kind] - self.before[kind], kind)  # or comparing them would prove nothing
        tool("down", "--name", name)
        self.assertGone(pids, folder)
        self.assertEqual(members(name), set())
        self.assertAsBefore(during)

    def test_owner_and_parts_crash(self):
        name = self.name("crash")
        owner = subprocess.Popen(["sleep", "600"])
        kubeconfig = tool("up", "node", "--name", name, "--for-pid", owner.pid)
        self.kubectl(kubeconfig, "create", "-f", "-", input=WEB_ON_HOST_PORT)
        self.kubectl(kubeconfig, "wait", "--for=condition=Ready", "pod/web", "--timeout=60s")
        host = self.status(name)["host"]
        self.assertTrue(wait_until(lambda: "hello" in page(f"http://{host}:19080/"), 20))
        during, pids, folder = machine(), self.pids(name) | members(name), self.status(name)["dir"]
        self.assertIn("CNI-HOSTPORT-DNAT", "".join(during["iptables-save"]))
        for part in ("kubelet", "containerd"):
            os.kill(self.status(name)["parts"][part]["pid"], signal.SIGKILL)
        owner.kill()
        owner.wait()
        self.assertTrue(wait_until(lambda: not os.path.exists(folder)))
        self.assertTrue(wait_until(lambda: not any(map(alive, pids))))
        self.assertGone(pids, folder)
        self.assertAsBefore(during)


def page(url):
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        return opener.open(url, timeout=5).read().decode()
    except OSError:
        return ""


if __name__ == "__main__":
    unittest.main()
