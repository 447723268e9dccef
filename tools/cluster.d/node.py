"""What level node changes on the machine, and how all of it is undone.

The undoing runs in any state, also after a crash or a reboot: each step takes away what it finds and
minds nothing that is missing.
"""

import contextlib
import hashlib
import ipaddress
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess

from base import CACHE, HERE, Failure, locked, run, wait_for, write
from build import install_packages
from state import clusters, identity, kill, start_time

# To run pods, and to make the test images.
PACKAGES = ("containerd", "runc", "containernetworking-plugins", "iptables", "iproute2",
            "buildah", "busybox-static", "catatonit")

SYSCTLS = {
    # name: the value we need, or None for one that the kubelet or kube-proxy sets
    "net/ipv4/ip_forward": "1",
    "net/bridge/bridge-nf-call-iptables": "1",  # or a pod's answer to its neighbour would bypass the Service
    "net/ipv4/conf/all/route_localnet": None,
    "vm/overcommit_memory": None,
    "vm/panic_on_oom": None,
    "kernel/panic": None,
    "kernel/panic_on_oops": None,
    "kernel/keys/root_maxkeys": None,
    "kernel/keys/root_maxbytes": None,
}

OUR_CHAIN = re.compile(r"(KUBE|CNI)-")


def require():
    if os.geteuid() != 0:
        raise Failure("level node starts containers and changes the machine's network: it needs root")
    install_packages(*PACKAGES)


def test_images():
    """The folder of the images' archives; made again whenever the script that makes them changes."""
    script = HERE / "images"
    folder = CACHE / f"images-{hashlib.sha256(script.read_bytes()).hexdigest()[:12]}"
    with locked(CACHE / ".images.lock"):
        if not folder.exists():
            draft = folder.with_name(f".draft-{folder.name}")
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir()
            run(script, draft)
            draft.rename(folder)
    return folder


def load_image(c, archive):
    if not c.node:
        raise Failure(f"cluster {c.name} has level {c.config['level']}, and only one of level node runs images: "
                      "`tools/cluster up node` makes one")
    run("ctr", "--address", c.dir / "containerd.sock", "--namespace", "k8s.io", "images", "import", archive)


# ---------------------------------------------------------------------------------------------
# Setting up

def plan(c):
    """Chooses names and addresses, and remembers what is going to be changed. Only one node fits on
    a machine: kubelet and kube-proxy take every KUBE-* chain of iptables for theirs."""
    if len(str(c.dir)) > 75:
        raise Failure(f"{c.dir} is too long a path: the names of sockets in it would pass 107 characters")
    for other in clusters():
        if other.name != c.name and other.node:
            raise Failure(f"only one node fits on a machine, and cluster {other.name} has it: "
                          f"`tools/cluster down --name {other.name}` first")
    if any(OUR_CHAIN.match(chain) for chains, _ in tables("iptables").values() for chain in chains):
        raise Failure("there are KUBE-* or CNI-* chains in iptables: does another Kubernetes node run on this machine?")
    routes = json.loads(run("ip", "-json", "-4", "route"))
    routed = [ipaddress.ip_network(route["dst"]) for route in routes if route["dst"] != "default"]
    for n in range(1, 255):
        pods, services = (ipaddress.ip_network(f"10.{base}.{n}.0/24") for base in (88, 89))
        if not any(pods.overlaps(r) or services.overlaps(r) for r in routed):
            break
    else:
        raise Failure("no free network in 10.88.0.0/16 and 10.89.0.0/16")
    return {"bridge": f"cadre-{hashlib.sha256(c.name.encode()).hexdigest()[:6]}", "cgroup": f"cadre-{c.name}",
            "address": f"10.88.{n}.1", "pod_cidr": str(pods), "service_prefix": f"10.89.{n}",
            "sysctls": {key: sysctl(key) for key in SYSCTLS}}


def set_up(c):
    for folder in ("cni", "containerd", "kubelet", "pod-logs", "volume-plugins"):
        (c.dir / folder).mkdir()
    write(c.dir / "resolv.conf", "")
    for folder in cgroups(c):
        enable_controllers(folder.parent)
        folder.mkdir(exist_ok=True)
    bridge = c.node["bridge"]
    run("ip", "link", "add", bridge, "address", "02:ca:d4:e0:00:01", "type", "bridge")
    run("ip", "address", "add", f"{c.node['address']}/24", "dev", bridge)
    run("ip", "link", "set", bridge, "up")
    if not pathlib.Path("/proc/sys/net/bridge").exists():
        run("modprobe", "br_netfilter")
    for name, value in SYSCTLS.items():
        if value is not None:
            sysctl(name, value)
    for direction in ("-i", "-o"):  # where something else, such as Docker, has closed forwarding
        run("iptables", "-w", "-I", "FORWARD", direction, bridge, "-m", "comment", "--comment", bridge, "-j", "ACCEPT")


def sysctl(name, value=None):
    """Reads a setting, or sets it; None where the machine has no such setting."""
    file = pathlib.Path("/proc/sys") / name
    with contextlib.suppress(OSError):
        return file.write_text(value) if value is not None else file.read_text().strip()


def cgroups(c):
    """The cluster's cgroup in each hierarchy (v1), or in the only one (v2)."""
    top = pathlib.Path("/sys/fs/cgroup")
    tops = [top, *sorted(top.iterdir())] if top.exists() else []
    tops = [t for t in tops if (t / "cgroup.procs").exists()]
    return [t / c.node["cgroup"] for t in (tops[:1] if top in tops else tops)]


def enable_controllers(top):
    """In a v2 hierarchy the kubelet wants every controller handed down; v1 has no such file."""
    if (top / "cgroup.subtree_control").exists():
        for controller in (top / "cgroup.controllers").read_text().split():
            with contextlib.suppress(OSError):
                (top / "cgroup.subtree_control").write_text(f"+{controller}")


def join_cgroup(c):
    """Run by each process before it becomes a part. Whatever it starts is born in this cgroup or is
    put into another one below the cluster's, so `down` finds every process by asking the cgroups."""
    if c.node:
        folder = min(cgroups(c), key=lambda g: g.parent.name not in ("cgroup", "pids")) / "parts"
        folder.mkdir(exist_ok=True)
        (folder / "cgroup.procs").write_text(str(os.getpid()))


# ---------------------------------------------------------------------------------------------
# Taking down. The parts of the cluster have been killed already.

def take_down(c):
    kill_members(c)
    for address in (c.dir / "containerd/state").glob("io.containerd.runtime.v2.task/*/*/address"):
        pathlib.Path(address.read_text().removeprefix("unix://")).unlink(missing_ok=True)  # the socket of a shim
    unmount_below(c.dir)
    remove_bridge(c.node["bridge"])
    for tool in ("iptables", "ip6tables"):
        clear_iptables(tool, c.node["bridge"])
    for name, value in c.node["sysctls"].items():
        if value is not None:
            sysctl(name, value)
    remove_strays(c)


def kill_members(c):
    """Kills whatever is in the cluster's cgroups, and removes those."""
    def folders():
        return [pathlib.Path(folder) for top in cgroups(c) for folder, _, _ in os.walk(top, topdown=False)]

    def members():
        found = set()
        for folder in folders():
            with contextlib.suppress(OSError):  # it went away meanwhile
                found |= {int(pid) for pid in (folder / "cgroup.procs").read_text().split()}
        return [identity(pid) for pid in found if start_time(pid)]

    def killed():
        for member in members():
            kill(member, signal.SIGKILL)
        return not members()

    def removed():
        for folder in folders():
            with contextlib.suppress(OSError):  # busy until the kernel has buried the dead
                folder.rmdir()
        return not folders()

    if not wait_for(killed, 20):
        raise Failure(f"processes of cluster {c.name} do not die: {[m['pid'] for m in members()]}")
    if not wait_for(removed, 20):
        raise Failure(f"cannot remove the cgroups {folders()}")


def mounts_below(folder):
    points = [line.split()[4] for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()]
    return [point for point in points if point.startswith(f"{folder}/")]


def unmount_below(folder):
    for point in reversed(mounts_below(folder)):
        run("umount", "--lazy", point)
    if mounts_below(folder):  # removing the folder now would reach into what is mounted there
        raise Failure(f"cannot unmount {mounts_below(folder)}")


def remove_bridge(bridge):
    folder = pathlib.Path("/sys/class/net") / bridge
    if folder.exists():
        for pair in (folder / "brif").iterdir():
            subprocess.run(["ip", "link", "delete", pair.name], capture_output=True)  # it may go by itself just now
        run("ip", "link", "delete", bridge)


def tables(tool):
    """The tables of iptables: the names of their chains that are not built in, and their rules."""
    found, chains, rules = {}, [], []
    for line in subprocess.run([f"{tool}-save"], text=True, capture_output=True).stdout.splitlines():
        if line.startswith("*"):
            chains, rules = found.setdefault(line[1:], ([], []))
        elif line.startswith(":") and line.split()[1] == "-":
            chains.append(line[1:].split()[0])
        elif line.startswith("-A"):
            rules.append(line)
    return found


def clear_iptables(tool, comment):
    """Removes our chains, the rules that lead to them and the rules with our comment, all in one go."""
    script = ""
    for table, (chains, rules) in tables(tool).items():
        ours = [chain for chain in chains if OUR_CHAIN.match(chain)]
        leading = [rule for rule in rules if not OUR_CHAIN.match(rule.split()[1])
                   and (re.search(r"-[jg] (KUBE|CNI)-", rule) or f"--comment {comment} " in rule)]
        script += "\n".join([f"*{table}", *(f"-D{rule[2:]}" for rule in leading),
                             *(f"-F {chain}" for chain in ours), *(f"-X {chain}" for chain in ours), "COMMIT", ""])
    if script:
        run(f"{tool}-restore", "--noflush", "--wait", input=script)


def remove_strays(c):
    """Files outside the cluster's folder, at places that kubelet, containerd and CNI do not let us choose."""
    results = pathlib.Path("/var/lib/cni/results")
    for result in results.glob(f"{c.node['bridge']}-*-eth0"):
        sandbox = result.name.removeprefix(f"{c.node['bridge']}-").removesuffix("-eth0")
        (results / f"cni-loopback-{sandbox}-lo").unlink(missing_ok=True)
        result.unlink()
    for link in pathlib.Path("/var/log/containers").glob("*.log"):
        if link.is_symlink() and os.readlink(link).startswith(f"{c.dir}/"):
            link.unlink()
    plugins = pathlib.Path("/var/lib/kubelet/device-plugins")
    (plugins / "kubelet.sock").unlink(missing_ok=True)
    for folder in (results, results.parent, plugins, plugins.parent,
                   "/var/log/containers", "/run/containerd/s", "/run/containerd"):
        with contextlib.suppress(OSError):  # not empty, or not there
            os.rmdir(folder)
