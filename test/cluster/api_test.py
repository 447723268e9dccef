#!/usr/bin/env python3
"""Level api: what it serves, clusters side by side, owners that crash, parts that stop and start."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

from support import TOOL, ClusterTest, alive, tool, wait_until


class ApiTest(ClusterTest):
    def test_serves_and_leaves_nothing(self):
        name = self.name("serve")
        kubeconfig = self.up("api", name, "--audit")
        self.assertIn("kube-system", self.kubectl(kubeconfig, "get", "namespaces", "-o", "name"))
        for context in ("admin", "admin-cert"):
            me = json.loads(self.kubectl(kubeconfig, "--context", context, "auth", "whoami", "-o", "json"))
            self.assertEqual(me["status"]["userInfo"]["username"], "admin")
        self.assertEqual(tool("kubeconfig", "--name", name), kubeconfig)

        self.kubectl(kubeconfig, "create", "configmap", "counted")
        folder = pathlib.Path(self.status(name)["dir"])
        writes = [e for e in map(json.loads, (folder / "audit.log").read_text().splitlines())
                  if e["verb"] == "create" and e["objectRef"].get("name") == "counted"]
        self.assertEqual(len(writes), 1)

        pids = self.pids(name)
        self.assertEqual(len(pids), 3)  # etcd, kube-apiserver and the supervisor
        tool("down", "--name", name)
        self.assertGone(pids, folder)

    def test_side_by_side(self):
        names = [self.name("left"), self.name("right")]
        starting = [subprocess.Popen([TOOL, "up", "api", "--name", n, "--for-pid", str(os.getpid())],
                                     text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for n in names]
        left, right = (process.communicate()[0].strip() for process in starting)
        self.kubectl(left, "create", "configmap", "only-here")
        self.assertIn("only-here", self.kubectl(left, "get", "configmaps", "-o", "name"))
        self.assertNotIn("only-here", self.kubectl(right, "get", "configmaps", "-o", "name"))
        tool("down", "--name", names[0])
        self.kubectl(right, "get", "configmaps")

    def test_up_again(self):
        name = self.name("again")
        kubeconfig = self.up("api", name)
        pids = self.pids(name)
        self.assertEqual(self.up("api", name), kubeconfig)
        self.assertEqual(self.pids(name), pids)
        said = tool("up", "control", "--name", name, fails=True)
        self.assertIn(f"down --name {name}", said)
        self.assertTrue(all(map(alive, pids)))

        # After a reboot, or a wave of kills, nothing runs any more: `up` starts anew.
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        self.assertTrue(wait_until(lambda: not any(map(alive, pids))))
        self.kubectl(self.up("api", name), "get", "namespaces")

    def test_stop_and_start(self):
        name = self.name("parts")
        kubeconfig = self.up("api", name)
        self.kubectl(kubeconfig, "create", "configmap", "kept")
        before = self.status(name)["parts"]["kube-apiserver"]
        for how in ([], ["--kill"]):
            watch = subprocess.Popen([tool("which", "kubectl"), f"--kubeconfig={kubeconfig}",
                                      "get", "configmaps", "--watch"],
                                     stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            watch.stdout.readline()
            tool("stop", "kube-apiserver", "--name", name, *how)
            self.assertFalse(self.status(name)["parts"]["kube-apiserver"]["up"])
            watch.kill()
            watch.communicate()
            tool("start", "kube-apiserver", "--name", name)
            after = self.status(name)["parts"]["kube-apiserver"]
            self.assertTrue(after["up"])
            self.assertEqual(after["port"], before["port"])
            self.assertIn("kept", self.kubectl(kubeconfig, "get", "configmaps", "-o", "name"))
        self.assertIn("no part nonsense", tool("stop", "nonsense", "--name", name, fails=True))

        # A process that has the id of a part, but started at another time, is somebody else's.
        file = pathlib.Path(self.status(name)["dir"]) / "run/etcd.json"
        record = json.loads(file.read_text())
        file.write_text(json.dumps(dict(record, start=record["start"] - 1)))
        tool("stop", "etcd", "--kill", "--name", name)
        self.assertTrue(alive(record["pid"]))
        file.write_text(json.dumps(record))

    def test_owner_crashes(self):
        name = self.name("orphan")
        owner = subprocess.Popen(["sleep", "600"])
        tool("up", "api", "--name", name, "--for-pid", owner.pid)
        pids, folder = self.pids(name), self.status(name)["dir"]
        owner.kill()
        owner.wait()
        self.assertTrue(wait_until(lambda: not os.path.exists(folder)))
        self.assertTrue(wait_until(lambda: not any(map(alive, pids))))
        self.assertGone(pids, folder)

    def test_owner_crashes_while_the_cluster_starts(self):
        name = self.name("halfway")
        owner = subprocess.Popen(
            [sys.executable, "-c", "import os, subprocess, sys; subprocess.run([*sys.argv[1:], str(os.getpid())])",
             TOOL, "up", "api", "--name", name, "--for-pid"], start_new_session=True, stderr=subprocess.DEVNULL)
        folder = pathlib.Path(tool("which", "etcd")).parents[2] / "clusters" / name
        self.assertTrue(wait_until((folder / "run/kube-apiserver.json").exists))
        pids = self.pids(name)
        os.killpg(owner.pid, signal.SIGKILL)  # the owner and the `up` that it runs
        owner.wait()
        self.assertTrue(wait_until(lambda: not folder.exists()))
        self.assertTrue(wait_until(lambda: not any(map(alive, pids))))
        self.assertGone(pids, folder)

    def test_owner_and_supervisor_crash(self):
        name = self.name("swept")
        owner = subprocess.Popen(["sleep", "600"])
        tool("up", "api", "--name", name, "--for-pid", owner.pid)
        pids, folder = self.pids(name), self.status(name)["dir"]
        supervisor = json.loads((pathlib.Path(folder) / "run/supervisor.json").read_text())["pid"]
        os.kill(supervisor, signal.SIGKILL)
        owner.kill()
        owner.wait()
        self.assertTrue(wait_until(lambda: not alive(supervisor)))
        self.up("api", self.name("sweeper"))  # any next `up` takes such a cluster down
        self.assertGone(pids, folder)

    def test_port_is_taken(self):
        name = self.name("taken")
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            flag = f"--apiserver-arg=--secure-port={taken.getsockname()[1]}"  # wins over the port that was chosen
            said = tool("up", "api", "--name", name, flag, fails=True)
        self.assertEqual(said.count("trying other ports"), 2)
        self.assertIn("address already in use", said)
        self.assertIn("no cluster", tool("status", "--name", name, fails=True))

    def test_assets_of_the_user(self):
        name = self.name("assets")
        with tempfile.TemporaryDirectory() as assets, tempfile.TemporaryDirectory() as cache:
            for part in ("etcd", "kube-apiserver", "kubectl"):
                os.symlink(tool("which", part), f"{assets}/{part}")
            env = {"KUBEBUILDER_ASSETS": assets, "XDG_CACHE_HOME": cache}
            self.addCleanup(tool, "down", "--name", name, env=env)
            kubeconfig = self.up("api", name, env=env)
            self.assertEqual(kubeconfig, f"{cache}/cadre/clusters/{name}/kubeconfig")
            record = json.loads(pathlib.Path(kubeconfig).with_name("run").joinpath("etcd.json").read_text())
            self.assertEqual(record["argv"][0], f"{assets}/etcd")
            self.assertFalse(os.path.exists(f"{cache}/cadre/parts"))  # nothing was built
            self.kubectl(kubeconfig, "get", "namespaces")
            self.assertEqual(tool("load", "image.tar", "--name", name, env=env, fails=True),
                             f"cluster: cluster {name} has level api, and only one of level node runs images: "
                             "`tools/cluster up node` makes one\n")
            tool("down", "--name", name, env=env)

    def test_assets_that_do_not_run(self):
        name = self.name("broken")
        with tempfile.TemporaryDirectory() as assets, tempfile.TemporaryDirectory() as cache:
            for part in ("kube-apiserver", "kubectl"):
                os.symlink(tool("which", part), f"{assets}/{part}")
            env = {"KUBEBUILDER_ASSETS": assets, "XDG_CACHE_HOME": cache}
            self.addCleanup(tool, "down", "--name", name, env=env)
            etcd = pathlib.Path(assets, "etcd")

            def said():
                return tool("up", "api", "--name", name, env=env, fails=True).splitlines()[-1]

            advice = "put one there that runs on this machine, or unset KUBEBUILDER_ASSETS"
            etcd.mkdir()
            self.assertEqual(said(), f"cluster: {etcd} is no program: {advice}")
            etcd.rmdir()
            etcd.write_text("no program\n")
            self.assertEqual(said(), f"cluster: {etcd} is no program: {advice}")
            etcd.chmod(0o755)
            self.assertEqual(said(), f"cluster: cannot run {etcd} (Exec format error): {advice}")
            etcd.write_text("#!/bin/sh\nexit 1\n")
            self.assertEqual(said(), f"cluster: etcd ({etcd}) ended without a word: {advice}")

    def test_no_fewer_nodes_than_none(self):
        self.assertIn("argument --nodes: give a number from 0 on, not -3",
                      tool("up", "control", "--name", self.name("nodes"), "--nodes", "-3", fails=True))


if __name__ == "__main__":
    unittest.main()
