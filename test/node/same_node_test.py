"""The table of same.py on a real cluster: here it is made sure that what it says is the truth."""

import os
import pathlib
import tempfile
import unittest

import boxes
import same
from hubs import tool

VOLUMES = 10  # for the claims of all cases: nobody makes any on demand


def volume(folder, number):
    path = pathlib.Path(folder) / str(number)
    path.mkdir()
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"same-{number}"},
            "spec": {"capacity": {"storage": "1Mi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": str(path)}}}


@unittest.skipIf(os.geteuid() != 0, "a node needs root")
@unittest.skipUnless(boxes.BUSYBOX, "busybox is not installed: `tools/install cluster`")
class SameNodeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="cadre-same-")
        cls.addClassCleanup(folder.cleanup)
        name = f"test-{os.getpid()}-same"
        cls.addClassCleanup(tool, "down", "--name", name)
        kubeconfig = tool("up", "node", "--name", name, "--for-pid", os.getpid())
        archive = pathlib.Path(folder.name) / "box.tar"
        boxes.write_archive(archive)
        tool("load", "--name", name, archive)
        for number in range(VOLUMES):
            same.Kube(same.Login(kubeconfig)).ask("POST", "/api/v1/persistentvolumes", volume(folder.name, number))
        cls.table = same.Table(kubeconfig)
        cls.addClassCleanup(lambda: cls.table.end())


same.add_cases(SameNodeTest)


if __name__ == "__main__":
    unittest.main()
