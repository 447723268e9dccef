"""The table of same.py on `cadre up`, with pods that are processes and with pods that are containers. What the table says is
what a real cluster shows: same_node_test.py."""

import os
import pathlib
import subprocess
import tempfile
import unittest

import boxes
import same
from dockers import Engine, enter_own_network, with_docker
from ups import CADRE, PATIENCE

# What is not the same yet: {case: {what the difference looks like: why}}. A difference that is gone has to leave the list.
BOTH = {
    "services": {
        r"managed-by: 'cadre-node'": "slices name who really made them"},
    "volumes": {r"logs files -c main": "an emptyDir of memory is a folder on the disk"},
}
PROCESS = {
    "security": {r"logs user -c main": "a pod that is a process has one user and one group",
                 r"pods/capable|logs capable": "a pod that is a process has one user and no capabilities"},
}
DOCKER = {
    "probes": {r"error getting response.* not '~.\*refused": "a Service without pods that are ready takes connections and closes them"},
}


def known(runtime):
    return {case: {**BOTH.get(case, {}), **runtime.get(case, {})} for case in {*BOTH, *runtime}}


class UpTable:
    """`cadre up` in a folder of its own with the table on it, until the class is done with."""
    runtime, known = "process", known(PROCESS)

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="cadre-same-")
        cls.addClassCleanup(folder.cleanup)
        cls.data = pathlib.Path(folder.name) / "data"
        cls.prepare(pathlib.Path(folder.name))
        cls.up = subprocess.Popen([CADRE, "up", "--data", cls.data, "--runtime", cls.runtime, "--port", "0"], text=True,
                                  stdout=subprocess.PIPE, stderr=open(pathlib.Path(folder.name) / "log", "w"))
        cls.addClassCleanup(cls.down)
        kubeconfig = cls.up.stdout.readline().strip()
        assert kubeconfig, (pathlib.Path(folder.name) / "log").read_text()
        cls.table = same.Table(kubeconfig, known=cls.known)
        cls.addClassCleanup(lambda: cls.table.end())

    @classmethod
    def prepare(cls, folder):
        boxes.put_into(cls.data / "images")

    @classmethod
    def down(cls):
        done = subprocess.run([CADRE, "down", "--data", cls.data], text=True, capture_output=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
        cls.up.communicate(timeout=PATIENCE)


@unittest.skipUnless(boxes.BUSYBOX, "busybox is not installed: `tools/install cluster`")
class ProcessTest(UpTable, unittest.TestCase):
    pass


@with_docker
class DockerTest(UpTable, unittest.TestCase):
    runtime, known = "docker", known(DOCKER)

    @classmethod
    def prepare(cls, folder):
        enter_own_network(cls)
        (folder / "docker").mkdir()
        cls.engine = Engine(folder / "docker")
        cls.addClassCleanup(lambda: cls.engine.stop())
        cls.engine.load("box")
        os.environ["DOCKER_HOST"] = f"unix://{cls.engine.socket}"
        cls.addClassCleanup(lambda: os.environ.pop("DOCKER_HOST"))


same.add_cases(ProcessTest)
same.add_cases(DockerTest)


if __name__ == "__main__":
    unittest.main()
