"""The image box:1 of the tests, for each that runs pods: busybox, a shell that knows names, and what it lacks. Nothing is fetched."""

import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import tarfile

BUSYBOX = shutil.which("busybox")
ENV = ["PATH=/bin"]


def tree():
    """The files, as a tar."""
    programs = [shutil.which(program) for program in ("bash", "flock", "openssl")]
    used = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=True).stdout
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as out:
        def folder(name):
            made = tarfile.TarInfo(name)
            made.type, made.mode = tarfile.DIRTYPE, 0o1777 if name in ("tmp", "page") else 0o755
            out.addfile(made)
        for name in "bin", "etc", "tmp", "page":
            folder(name)
        out.add(BUSYBOX, "bin/busybox")
        for program in programs:
            out.add(os.path.realpath(program), f"bin/{pathlib.Path(program).name}")
        for library in sorted(set(re.findall(r"\s(/\S+) \(", used))):
            out.add(os.path.realpath(library), library.removeprefix("/"))
        for applet in subprocess.run([BUSYBOX, "--list"], capture_output=True, text=True, check=True).stdout.split():
            if applet not in ("busybox", "bash", "flock", "openssl"):
                link = tarfile.TarInfo(f"bin/{applet}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                out.addfile(link)
    return tar.getvalue()


def put_into(images):
    """As a tree on the disk, for pods that are processes."""
    rootfs = pathlib.Path(images) / "box/1/rootfs"
    rootfs.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(tree())) as tar:
        tar.extractall(rootfs)
    (rootfs.parent / "config.json").write_text(json.dumps({"config": {"Env": ENV}}))


def write_archive(file):
    """As `docker save` writes images, for `tools/cluster load`."""
    layer = tree()
    config = json.dumps({"architecture": "amd64", "os": "linux", "config": {"Env": ENV},
                         "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]}}).encode()
    manifest = [{"Config": "config.json", "RepoTags": ["docker.io/library/box:1"], "Layers": ["layer.tar"]}]
    with tarfile.open(file, "w") as out:
        for name, data in ("config.json", config), ("layer.tar", layer), ("manifest.json", json.dumps(manifest).encode()):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            out.addfile(entry, io.BytesIO(data))
