"""The programs that clusters are made of: what they are built from, and where they are kept."""

import json
import os
import pathlib
import platform
import re
import shutil
import subprocess

from base import CACHE, HERE, Failure, locked, run, say, stage

PARTS_DIR = CACHE / "parts"

KUBERNETES = "v1.34.4"  # 1.35 and later refuse to run a kubelet on cgroup v1
GO_NEEDED = (1, 26, 0)  # kwok, helm and the registry ask for it
GO_PINNED = (1, 26, 8)  # fetched where the machine's Go is older than that

# A part with a module folder is built inside tools/cluster.d/<folder>: its own go.mod has replace
# directives, and `go install` refuses those. The folder's go.mod pins the same version.
PARTS = {
    # name: (version, package, module folder)
    "etcd": ("v3.6.8", "go.etcd.io/etcd/server/v3", "etcd"),
    "kube-apiserver": (KUBERNETES, "k8s.io/kubernetes/cmd/kube-apiserver", "kubernetes"),
    "kubectl": (KUBERNETES, "k8s.io/kubernetes/cmd/kubectl", "kubernetes"),
    "kube-controller-manager": (KUBERNETES, "k8s.io/kubernetes/cmd/kube-controller-manager", "kubernetes"),
    "kube-scheduler": (KUBERNETES, "k8s.io/kubernetes/cmd/kube-scheduler", "kubernetes"),
    "kwok": ("v0.8.0", "sigs.k8s.io/kwok/cmd/kwok", None),
    "kubelet": (KUBERNETES, "k8s.io/kubernetes/cmd/kubelet", "kubernetes"),
    "kube-proxy": (KUBERNETES, "k8s.io/kubernetes/cmd/kube-proxy", "kubernetes"),
    "coredns": ("v1.12.4", "github.com/coredns/coredns", None),
    "registry": ("v3.1.2", "github.com/distribution/distribution/v3/cmd/registry", None),
    "helm": ("v3.22.0", "helm.sh/helm/v3/cmd/helm", None),
    "helm4": ("v4.3.1", "helm.sh/helm/v4/cmd/helm", None),  # its --wait looks at conditions, that of 3 does not
}

# What a KUBEBUILDER_ASSETS folder carries.
ASSETS = ("etcd", "kube-apiserver", "kubectl")


def instead_of(program):
    """What to do about a program that does not run."""
    if pathlib.Path(program).is_relative_to(PARTS_DIR):
        return f"remove {pathlib.Path(program).parent}, and it is built anew"
    return "put one there that runs on this machine, or unset KUBEBUILDER_ASSETS"


def binary(part):
    """The program of a part, built first if need be."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets and part in ASSETS:
        program = pathlib.Path(assets).absolute() / part
        if program.is_file() and os.access(program, os.X_OK):
            return program
        if program.exists():
            raise Failure(f"{program} is no program: {instead_of(program)}")
        say(f"KUBEBUILDER_ASSETS has no {part}; using our own")
    program = PARTS_DIR / f"{part}-{PARTS[part][0]}" / part
    if not program.exists():
        with locked(PARTS_DIR / ".lock"):
            if not program.exists():  # another run may have built it while we waited
                build(part, program.parent)
    return program


def build(part, into):
    version, package, module = PARTS[part]
    go = go_program()
    draft = into.with_name(f".draft-{into.name}")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    flags = "-s -w"
    if module == "kubernetes":
        major, minor = version[1:].split(".")[:2]
        for name, value in (("gitVersion", version), ("gitMajor", major), ("gitMinor", minor)):
            flags += f" -X k8s.io/component-base/version.{name}={value}"
    env = dict(os.environ, CGO_ENABLED="0", GOTOOLCHAIN="local", GOWORK="off", GOBIN=str(draft),
               GOFLAGS="-trimpath -buildvcs=false" + (" -mod=readonly" if module else ""))
    env.pop("GOROOT", None)  # meant for another Go, maybe; each finds its own
    if module:
        argv, folder = ["build", "-ldflags", flags, "-o", draft / part, package], HERE / module
    else:
        argv, folder = ["install", "-ldflags", flags, f"{package}@{version}"], draft
    say(f"building {part} {version}")
    with stage(f"built {part} {version}"):
        # Niced: a build may take minutes, and whoever shares the machine should not feel it.
        run("nice", "-n", "5", go, *argv, env=env, cwd=folder)
        if not module:  # named after its package
            (draft / package.rpartition("/")[2]).rename(draft / part)
        if part == "kwok":
            keep_stages(module_folder(go, f"sigs.k8s.io/kwok@{version}", env, draft), draft / "stages.yaml")
    shutil.rmtree(into, ignore_errors=True)
    draft.rename(into)


def keep_stages(module, file):
    """kwok's program knows no behaviour of nodes and pods by itself; its module carries the usual one."""
    stages = [f for folder in ("node/fast", "node/heartbeat-with-lease", "pod/fast")
              for f in sorted((module / "kustomize/stage" / folder).glob("*.yaml")) if f.name != "kustomization.yaml"]
    file.write_text("---\n".join(f.read_text() for f in stages))


def module_folder(go, module, env, cwd):
    return pathlib.Path(json.loads(run(go, "mod", "download", "-json", module, env=env, cwd=cwd))["Dir"])


def go_program():
    """A Go that is new enough: the machine's, or else one that an older Go fetches as a module."""
    go = shutil.which("go")
    if go and go_version(go) >= GO_NEEDED:
        return go
    pinned = "go" + ".".join(map(str, GO_PINNED))
    home = PARTS_DIR / pinned
    if not home.exists():
        if not go:
            install_packages("golang-go", "ca-certificates")
            go = shutil.which("go")
        machine = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
        with stage(f"fetched {pinned}"):
            fetch_go(go, f"golang.org/toolchain@v0.0.1-{pinned}.linux-{machine}", home)
    return home / "bin/go"


def go_version(go):
    said = run(go, "version", env=dict(os.environ, GOTOOLCHAIN="local"))
    return tuple(int(n or 0) for n in re.search(r"go(\d+)\.(\d+)(?:\.(\d+))?", said).groups())


def fetch_go(older_go, module, home):
    """Copies a Go out of the module cache, and makes its programs executable again: archives of
    modules carry no mode bits."""
    source = module_folder(older_go, module, dict(os.environ, GOTOOLCHAIN="local"), PARTS_DIR)
    draft = home.with_name(f".draft-{home.name}")
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(source, draft, copy_function=shutil.copyfile)
    for folder, _, _ in os.walk(draft):
        os.chmod(folder, 0o755)  # the module cache is read-only
    for program in (*draft.glob("bin/*"), *draft.glob("pkg/tool/*/*")):
        program.chmod(0o755)
    draft.rename(home)


def install_packages(*packages):
    """Installs those of the Debian packages that are missing."""
    if not shutil.which("dpkg-query"):
        raise Failure(f"this machine is no Debian; it needs what Debian's packages {' '.join(packages)} have")
    known = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${Status}\n", *packages],
                           text=True, capture_output=True).stdout.splitlines()
    missing = [p for p in packages if f"{p} install ok installed" not in known]
    if not missing:
        return
    if os.geteuid() != 0:
        raise Failure(f"these Debian packages are missing, and only root can install them: {' '.join(missing)}")
    say(f"installing {' '.join(missing)}")
    with stage("installed"):
        run("apt-get", "update")  # a fresh machine has no lists of packages yet
        run("apt-get", "install", "-y", "--no-install-recommends", *missing,
            env=dict(os.environ, DEBIAN_FRONTEND="noninteractive"))
