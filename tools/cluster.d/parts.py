"""The command line of each part, how to tell that it serves, and what is left to do then."""

import http.client
import json
import socket
import ssl
import urllib.error
import urllib.request

import node
from base import Failure, stage, wait_for, write
from build import binary, instead_of


class PortTaken(Failure):
    """Somebody took a port between our choosing it and a part binding it."""


# -- the control plane

def etcd(c):
    client, peer = (f"http://127.0.0.1:{c.port(p)}" for p in ("etcd", "etcd-peer"))
    argv = [binary("etcd"), f"--data-dir={c.dir}/etcd", "--name=default", "--log-level=warn",
            f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}",
            f"--quota-backend-bytes={8 << 30}"]
    return argv if c.config["durable"] else [*argv, "--unsafe-no-fsync"]


def kube_apiserver(c):
    argv = [binary("kube-apiserver"), f"--etcd-servers=http://127.0.0.1:{c.port('etcd')}",
            f"--bind-address={c.host}", f"--advertise-address={c.host}", f"--secure-port={c.port('kube-apiserver')}",
            f"--tls-cert-file={c.certs}/apiserver.crt", f"--tls-private-key-file={c.certs}/apiserver.key",
            f"--client-ca-file={c.certs}/ca.crt", f"--token-auth-file={c.certs}/tokens.csv",
            "--authorization-mode=Node,RBAC", "--allow-privileged=true",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={c.certs}/service-account.key",
            f"--service-account-signing-key-file={c.certs}/service-account.key",
            f"--service-cluster-ip-range={c.config['service_prefix']}.0/24",
            "--kubelet-preferred-address-types=InternalIP",
            "--shutdown-watch-termination-grace-period=1s"]  # or an open watch would hold up `stop` for a minute
    if c.node:
        argv += [f"--kubelet-client-certificate={c.certs}/admin.crt", f"--kubelet-client-key={c.certs}/admin.key"]
    else:
        argv += ["--endpoint-reconciler-type=none"]  # Endpoints may not hold a loopback address
    if c.config["audit"]:
        argv += [f"--audit-policy-file={c.render('audit-policy.yaml')}", f"--audit-log-path={c.dir}/audit.log"]
    return argv + c.config["apiserver_args"]


def kube_controller_manager(c):
    return [binary("kube-controller-manager"), *as_user(c, "kube-controller-manager"), "--leader-elect=false",
            "--bind-address=127.0.0.1", f"--secure-port={c.port('kube-controller-manager')}", f"--cert-dir={c.certs}",
            "--use-service-account-credentials", f"--service-account-private-key-file={c.certs}/service-account.key",
            f"--root-ca-file={c.certs}/ca.crt", f"--cluster-signing-cert-file={c.certs}/ca.crt",
            f"--cluster-signing-key-file={c.certs}/ca.key", "--kube-api-qps=200", "--kube-api-burst=400"]


def kube_scheduler(c):
    return [binary("kube-scheduler"), *as_user(c, "kube-scheduler"), "--leader-elect=false",
            "--bind-address=127.0.0.1", f"--secure-port={c.port('kube-scheduler')}", f"--cert-dir={c.certs}",
            "--kube-api-qps=200", "--kube-api-burst=400"]


def as_user(c, user):
    kinds = ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
    return [f"--{kind}={c.certs}/{user}.kubeconfig" for kind in kinds]


def kwok(c):
    """Plays every Node there is: pods bound to one become Ready at once."""
    program = binary("kwok")
    return [program, f"--config={program.with_name('stages.yaml')}", f"--config={c.render('kwok.yaml')}",
            f"--kubeconfig={c.certs}/kwok.kubeconfig",
            "--manage-all-nodes", "--node-lease-duration-seconds=40", "--cidr=10.88.0.0/16", "--node-ip=127.0.0.1",
            f"--node-port={c.port('kwok')}", f"--server-address=127.0.0.1:{c.port('kwok')}"]


def make_fake_nodes(c):
    """Straight over HTTP: kubectl holds itself to five requests a second, and tests want thousands of nodes."""
    trust = ssl.create_default_context(cafile=c.certs / "ca.crt")
    trust.load_cert_chain(c.certs / "admin.crt", c.certs / "admin.key")
    server = http.client.HTTPSConnection(c.host, c.port("kube-apiserver"), context=trust, timeout=60)

    def ask(method, body=None):
        server.request(method, "/api/v1/nodes", body and json.dumps(body), {"Content-Type": "application/json"})
        answer = server.getresponse()
        text = answer.read().decode()
        if answer.status not in (200, 201):
            raise Failure(f"{method} of nodes was answered with {answer.status}: {text}")
        return json.loads(text)

    def all_ready():
        conditions = [x for item in ask("GET")["items"] for x in item["status"].get("conditions", ())]
        return [x["type"] for x in conditions if x["status"] == "True"].count("Ready") == c.config["nodes"]

    resources = {"cpu": "32", "memory": "256Gi", "pods": "110"}
    with stage(f"{c.config['nodes']} fake nodes ready"):
        for name in (f"node-{n}" for n in range(c.config["nodes"])):
            labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
            ask("POST", {"metadata": {"name": name, "labels": labels},
                         "status": {"allocatable": resources, "capacity": resources}})
        if not wait_for(all_ready, 60 + c.config["nodes"] / 10):
            raise Failure("kwok does not make its nodes ready")


# -- the node

def containerd(c):
    write(c.dir / "cni/cadre.conflist", c.render("cni.json").read_text())
    server = f"{c.host}:{c.port('registry')}"
    (c.dir / "registries" / server).mkdir(parents=True)
    # Plain HTTP with our registry: containerd would presume that only of one on loopback.
    write(c.dir / "registries" / server / "hosts.toml", f'[host."http://{server}"]\n')
    return ["containerd", f"--config={c.render('containerd.toml')}", "--log-level=warn"]


def kubelet(c):
    return [binary("kubelet"), f"--config={c.render('kubelet.yaml')}", f"--kubeconfig={c.certs}/kubelet.kubeconfig",
            f"--root-dir={c.dir}/kubelet", f"--cert-dir={c.certs}", "--hostname-override=node-0", f"--node-ip={c.host}"]


def kube_proxy(c):
    return [binary("kube-proxy"), f"--config={c.render('kube-proxy.yaml')}"]


def coredns(c):
    return [binary("coredns"), f"-conf={c.render('Corefile')}"]


def import_images(c):
    with stage("test images imported"):
        for archive in sorted(node.test_images().glob("*.tar")):
            node.load_image(c, archive)


def await_node(c):
    c.kubectl("create", "-f", c.render("dns.yaml"))
    with stage("the node is ready"):
        c.kubectl("wait", "--for=condition=Ready", "node/node-0", "--timeout=120s")


# -- the registry

def registry(c):
    return ["env", "OTEL_TRACES_EXPORTER=none", binary("registry"), "serve", c.render("registry.yaml")]


# -- how they are started

COMMANDS = {
    "etcd": etcd,
    "kube-apiserver": kube_apiserver,
    "kube-controller-manager": kube_controller_manager,
    "kube-scheduler": kube_scheduler,
    "kwok": kwok,
    "containerd": containerd,
    "kubelet": kubelet,
    "kube-proxy": kube_proxy,
    "coredns": coredns,
    "registry": registry,
}

READY = {
    "etcd": lambda c: get(f"http://127.0.0.1:{c.port('etcd')}/health"),
    "kube-apiserver": lambda c: get(f"{c.server}/readyz", ca=c.certs / "ca.crt"),
    "kube-controller-manager": lambda c: get(f"https://127.0.0.1:{c.port('kube-controller-manager')}/healthz"),
    "kube-scheduler": lambda c: get(f"https://127.0.0.1:{c.port('kube-scheduler')}/healthz"),
    "kwok": lambda c: get(f"http://127.0.0.1:{c.port('kwok')}/healthz"),
    "containerd": lambda c: listening(c.dir / "containerd.sock"),
    "kubelet": lambda c: get(f"http://127.0.0.1:{c.port('kubelet-health')}/healthz"),
    "kube-proxy": lambda c: get(f"http://127.0.0.1:{c.port('kube-proxy')}/healthz"),
    "coredns": lambda c: get(f"http://{c.host}:{c.port('coredns-ready')}/ready"),
    "registry": lambda c: get(f"http://{c.host}:{c.port('registry')}/v2/"),
}

AFTERWARDS = {"kwok": make_fake_nodes, "containerd": import_images, "coredns": await_node}


def start(c, part, argv):
    """Starts a part and waits until it serves."""
    with stage(f"{part} ready"):
        begin = c.log(part).stat().st_size if c.log(part).exists() else 0
        try:
            c.spawn(part, argv, beforehand=lambda: node.join_cgroup(c))
        except OSError as broken:
            raise Failure(f"cannot run {argv[0]} ({broken.strerror}): {instead_of(argv[0])}") from broken
        wait_for(lambda: not c.alive(part) or READY[part](c), 90)
        if c.alive(part) and READY[part](c):
            return
        said = c.log(part).read_bytes()[begin:].decode(errors="replace")
        kind = PortTaken if "address already in use" in said else Failure
        what = "does not get ready" if c.alive(part) else "ended"
        if not said.strip():
            raise Failure(f"{part} ({argv[0]}) {what} without a word: {instead_of(argv[0])}")
        raise kind(f"{part} {what}; {c.log(part)} ends with\n" + "\n".join(said.splitlines()[-15:]))


def get(url, ca=None):
    """Whether a GET is answered with 200. Without a CA any certificate will do: liveness is all we ask."""
    context = ssl.create_default_context(cafile=ca) if ca else ssl._create_unverified_context()
    # No proxy from the environment: these addresses are all on this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(url, timeout=5) as answer:
            return answer.status == 200
    except (OSError, urllib.error.URLError):
        return False


def listening(path):
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0
