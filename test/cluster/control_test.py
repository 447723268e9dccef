#!/usr/bin/env python3
"""Level control: a Deployment becomes available on fake nodes, and logs what a test writes for it."""

import pathlib
import unittest

from support import ClusterTest, tool


class ControlTest(ClusterTest):
    def test_deployment_becomes_available(self):
        name = self.name("control")
        kubeconfig = self.up("control", name, "--nodes", "3")
        self.assertEqual(len(self.kubectl(kubeconfig, "get", "nodes", "-o", "name").split()), 3)
        self.kubectl(kubeconfig, "create", "deployment", "web", "--image=cadre.test/web:1", "--replicas=4")
        self.kubectl(kubeconfig, "rollout", "status", "deployment/web", "--timeout=60s")
        log = pathlib.Path(self.status(name)["dir"]) / "logs/pods.log"
        log.write_text("2026-01-02T03:04:05Z stdout F served\n")
        self.assertEqual(self.kubectl(kubeconfig, "logs", "deployment/web"), "served\n")
        self.kubectl(kubeconfig, "delete", "deployment", "web", "--cascade=foreground", "--timeout=60s")
        self.assertEqual(self.kubectl(kubeconfig, "get", "pods", "-o", "name"), "")
        # A node that a test makes by itself is played too.
        self.kubectl(kubeconfig, "create", "-f", "-", input="{apiVersion: v1, kind: Node, metadata: {name: mine}}")
        self.kubectl(kubeconfig, "wait", "--for=condition=Ready", "node/mine", "--timeout=60s")
        pids, folder = self.pids(name), self.status(name)["dir"]
        tool("down", "--name", name)
        self.assertGone(pids, folder)


if __name__ == "__main__":
    unittest.main()
