#!/usr/bin/env python3
"""cadre operator --config: a changed file has its effect without anybody's help, a wrong one has none."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/cluster"))

from support import ClusterTest, wait_until  # noqa: E402

CADRE = pathlib.Path(os.environ.get("CADRE_BUILD_DIR", ROOT / "build/dev")) / "apps/cadre/cadre"
SERVER = """
apiVersion: kaos.tools/v1alpha1
kind: MCPServer
metadata: {name: words, namespace: default}
spec: {config: {tools: {fromString: "def echo(text: str): return text"}}}
"""


class ConfigTest(ClusterTest):
    def test_a_changed_file_has_its_effect(self):
        kubeconfig = self.up("api", self.name("config"))
        # Without its namespace it says what to do.
        alone = subprocess.run([CADRE, "operator", "--kubeconfig", kubeconfig, "--metrics-bind-address=0",
                                "--health-probe-bind-address=0", "--webhook-bind-address=0"],
                               text=True, capture_output=True, timeout=60)
        self.assertEqual(alone.returncode, 1)
        self.assertIn("kubectl create namespace kaos-system", alone.stderr)
        self.kubectl(kubeconfig, "create", "namespace", "kaos-system")
        self.kubectl(kubeconfig, "apply", "--server-side", "-f", str(ROOT / "deploy/crds.yaml"))
        self.kubectl(kubeconfig, "wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
        self.kubectl(kubeconfig, "apply", "-f", "-", input=SERVER)
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        file, log = folder / "operator.yaml", folder / "log"

        def write(text):  # at once, as a mounted ConfigMap changes
            (folder / "new").write_text(text)
            (folder / "new").rename(file)

        def image():
            return self.kubectl(kubeconfig, "get", "deployment", "mcpserver-words", "--ignore-not-found", "-o",
                                "jsonpath={.spec.template.spec.containers[0].image}")

        write("kaos: {mcp-python-image: 'x:1'}\nmetrics-bind-address: '0'\nhealth-probe-bind-address: '0'\n")
        with log.open("w") as errors:
            operator = subprocess.Popen([CADRE, "operator", "--kubeconfig", kubeconfig, "--config", file,
                                         "--leader-elect"], stderr=errors)
        self.addCleanup(operator.kill)
        self.assertTrue(wait_until(lambda: image() == "x:1"), log.read_text())
        write("kaos: {mcp-python-image: [}\n")
        self.assertTrue(wait_until(lambda: "the new settings are passed over" in log.read_text()), log.read_text())
        self.assertRegex(log.read_text(), re.escape(f"{file}:1"))
        write("kaos: {mcp-python-image: 'x:2'}\nmetrics-bind-address: '0'\nhealth-probe-bind-address: '0'\n")
        self.assertTrue(wait_until(lambda: image() == "x:2"), log.read_text())
        self.assertIsNone(operator.poll(), "the same process")
        operator.send_signal(signal.SIGTERM)
        self.assertEqual(operator.wait(30), 0, log.read_text())

    def test_a_wrong_file_is_named(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("\nkaos:\n  colour: red\n")
            file.flush()
            done = subprocess.run([CADRE, "operator", "--config", file.name], text=True, capture_output=True, timeout=30)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f'{file.name}:3: there is no setting "kaos-colour"', done.stderr)


if __name__ == "__main__":
    unittest.main()
