"""One cluster: its folder, its processes, its ports and its credentials."""

import base64
import contextlib
import json
import os
import pathlib
import random
import re
import secrets
import signal
import socket
import string
import subprocess

from base import CACHE, HERE, Failure, locked, run, wait_for, write
from build import binary

CLUSTERS_DIR = CACHE / "clusters"
BOOT = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_time(pid):
    """When a live process started, in ticks since boot; None for a dead one or a zombie."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def identity(pid):
    """What tells a process from any later one with the same id."""
    return {"pid": pid, "start": start_time(pid), "boot": BOOT}


def same_process(known):
    return known["boot"] == BOOT and known["start"] is not None and start_time(known["pid"]) == known["start"]


def kill(known, number):
    """Signals the process if it is still the one that is known."""
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(known["pid"])  # from here on the id cannot come to mean another process
        try:
            if same_process(known):
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")


def read_record(file):
    """A record that is missing or was cut off by a crash holds nothing; what runs is found by its processes."""
    try:
        return json.loads(file.read_text())
    except (FileNotFoundError, ValueError):
        return {}


class Cluster:
    """The folder of one cluster: cluster.json, run/ with a record of each process, logs/, certs/,
    config/, kubeconfig and the parts' own data. Reading it needs no lock, changing it does."""

    def __init__(self, name):
        if not NAME.fullmatch(name):
            raise Failure(f"a cluster's name is made of a-z, 0-9 and -, not {name!r}")
        self.name = name
        self.dir = CLUSTERS_DIR / name
        self.certs = self.dir / "certs"
        self.kubeconfig = self.dir / "kubeconfig"
        self.file = self.dir / "cluster.json"
        self.config = read_record(self.file)

    def lock(self, blocking=True):
        return locked(CLUSTERS_DIR / ".locks" / self.name, blocking)

    def save(self):
        write(self.file, json.dumps(self.config, indent=1))

    def exists(self):
        return self.dir.exists()

    def port(self, name):
        return self.config["ports"][name]

    @property
    def node(self):
        """What level node set up on the machine; None at the other levels."""
        return self.config.get("node")

    @property
    def host(self):
        """The address that the API server and the registry listen on. That of a node is its bridge's:
        pods reach it, and nobody outside the machine does."""
        return self.node["address"] if self.node else "127.0.0.1"

    @property
    def server(self):
        return f"https://{self.host}:{self.port('kube-apiserver')}"

    def render(self, name):
        """Fills in a file of tools/cluster.d/config for this cluster, and returns where it put it."""
        ports = {f"port_{name.replace('-', '_')}": port for name, port in self.config["ports"].items()}
        values = dict(self.node or {}, **ports, dir=self.dir, host=self.host, dns=f"{self.config['service_prefix']}.10")
        file = self.dir / "config" / name
        write(file, string.Template((HERE / "config" / name).read_text()).substitute(values))
        return file

    def kubectl(self, *argv, **options):
        return run(binary("kubectl"), f"--kubeconfig={self.kubeconfig}", *argv, **options)

    def recorded(self):
        """The parts that were started, whether they still run or not; the supervisor aside."""
        names = sorted(p.stem for p in (self.dir / "run").glob("[!.]*.json"))
        return [name for name in names if name != "supervisor"]

    def record(self, part):
        try:
            return json.loads((self.dir / "run" / f"{part}.json").read_text())
        except FileNotFoundError:
            return None

    def alive(self, part):
        record = self.record(part)
        return bool(record) and same_process(record)

    def log(self, part):
        return self.dir / "logs" / f"{part}.log"

    def spawn(self, part, argv, beforehand=lambda: None):
        """Starts a process that outlives this one. It enrols itself before it becomes the program,
        so no crash of ours can leave one running that is not on record."""
        argv = [str(a) for a in argv]

        def enrol():
            beforehand()
            write(self.dir / "run" / f"{part}.json", json.dumps(dict(identity(os.getpid()), argv=argv), indent=1))

        with open(self.log(part), "ab") as log:
            subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.dir,
                             start_new_session=True, preexec_fn=enrol)

    def stop(self, part, number):
        """Signals a part and waits for its end; kills it when it takes its time."""
        record = self.record(part)
        for attempt in (number, signal.SIGKILL):
            if not record or not same_process(record):
                return
            kill(record, attempt)
            wait_for(lambda: not same_process(record), 20)
        if same_process(record):
            raise Failure(f"{part} (process {record['pid']}) does not die")


def clusters():
    folders = sorted(CLUSTERS_DIR.iterdir()) if CLUSTERS_DIR.exists() else ()
    return [Cluster(folder.name) for folder in folders if NAME.fullmatch(folder.name)]


PORTS = ("etcd", "etcd-peer", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "registry",
         "kubelet", "kubelet-health", "kube-proxy", "kube-proxy-metrics", "coredns", "coredns-ready")


def choose_ports():
    """Free ports that no other cluster has reserved. They lie below the range from which the kernel
    gives ports to outgoing connections: a stopped API server must find its port free again."""
    taken = {port for cluster in clusters() for port in cluster.config.get("ports", {}).values()}
    chosen = {}
    while len(chosen) < len(PORTS):
        port = random.randrange(20000, 30000)
        if port not in taken and bindable(port):
            taken.add(port)
            chosen[PORTS[len(chosen)]] = port
    return chosen


def bindable(port):
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
            return True
        except OSError:
            return False


USERS = {
    # who: (user name, groups) of a token
    "admin": ("admin", "system:masters"),
    "kube-controller-manager": ("system:kube-controller-manager", ""),
    "kube-scheduler": ("system:kube-scheduler", ""),
    "kwok": ("kwok", "system:masters"),
    "kubelet": ("system:node:node-0", "system:nodes"),
    "kube-proxy": ("system:kube-proxy", ""),
    "coredns": ("coredns", "system:masters"),
}


def make_credentials(c):
    """A certificate authority, the API server's certificate, a client certificate for the admin,
    the key of service accounts, and a token and kubeconfig for everybody."""
    names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
             "kubernetes.default.svc.cluster.local"]
    addresses = {"127.0.0.1", c.host, f"{c.config['service_prefix']}.1"}
    alternatives = ",".join([*(f"DNS:{n}" for n in names), *(f"IP:{a}" for a in sorted(addresses))])
    new = ("openssl", "req", "-x509", "-days", "3650", "-nodes",
           "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
    issued = (*new, "-CA", "ca.crt", "-CAkey", "ca.key", "-addext", "basicConstraints=critical,CA:FALSE")
    run(*new, "-subj", "/CN=cadre-test-ca", "-addext", "keyUsage=critical,keyCertSign,cRLSign",
        "-keyout", "ca.key", "-out", "ca.crt", cwd=c.certs)
    run(*issued, "-subj", "/CN=kube-apiserver", "-addext", "extendedKeyUsage=serverAuth",
        "-addext", f"subjectAltName={alternatives}", "-keyout", "apiserver.key", "-out", "apiserver.crt", cwd=c.certs)
    run(*issued, "-subj", "/O=system:masters/CN=admin", "-addext", "extendedKeyUsage=clientAuth",
        "-keyout", "admin.key", "-out", "admin.crt", cwd=c.certs)
    run("openssl", "genrsa", "-out", "service-account.key", "2048", cwd=c.certs)

    tokens = {user: secrets.token_hex(16) for user in USERS}
    write(c.certs / "tokens.csv", "".join(f'{tokens[user]},{name},{user},"{groups}"\n'
                                          for user, (name, groups) in USERS.items()))
    for user, token in tokens.items():
        write(c.certs / f"{user}.kubeconfig", kubeconfig_text(c, {user: {"token": token}}))
    by_certificate = {"client-certificate-data": encoded(c, "admin.crt"), "client-key-data": encoded(c, "admin.key")}
    write(c.kubeconfig, kubeconfig_text(c, {"admin": {"token": tokens["admin"]}, "admin-cert": by_certificate}))


def encoded(c, file):
    return base64.b64encode((c.certs / file).read_bytes()).decode()


def kubeconfig_text(c, users):
    """One context for each user, named after it; the first is the current one."""
    lines = ["apiVersion: v1", "kind: Config", f"current-context: {next(iter(users))}",
             "clusters:", f"- name: cadre-{c.name}", "  cluster:", f"    server: {c.server}",
             f"    certificate-authority-data: {encoded(c, 'ca.crt')}", "contexts:"]
    for user in users:
        lines += [f"- name: {user}", "  context:", f"    cluster: cadre-{c.name}", f"    user: {user}"]
    lines += ["users:"]
    for user, credentials in users.items():
        lines += [f"- name: {user}", "  user:", *(f"    {key}: {value}" for key, value in credentials.items())]
    return "\n".join(lines) + "\n"
