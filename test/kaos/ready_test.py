#!/usr/bin/env python3
"""/readyz of cadre operator: not ok while the cluster does not have the kinds that it is there for."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/cluster"))

from operators import free_port  # noqa: E402
from support import ClusterTest, wait_until  # noqa: E402

CADRE = pathlib.Path(os.environ.get("CADRE_BUILD_DIR", ROOT / "build/dev")) / "apps/cadre/cadre"
CRDS = str(ROOT / "deploy/crds.yaml")
PATIENCE = 60  # seconds; who finds no kind asks again less and less often


class ReadyTest(ClusterTest):
    def test_a_kind_that_is_gone_is_named(self):
        kubeconfig = self.up("api", self.name("ready"))
        self.kubectl(kubeconfig, "create", "namespace", "kaos-system")
        port = free_port()
        log = self.enterContext(tempfile.TemporaryFile("w"))
        operator = subprocess.Popen([CADRE, "operator", "--kubeconfig", kubeconfig, "--metrics-bind-address=0",
                                     f"--health-probe-bind-address=127.0.0.1:{port}"], stderr=log)
        self.addCleanup(operator.wait)
        self.addCleanup(operator.kill)

        def says(path, code, text):
            def answer():
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=30) as got:
                        return got.status, got.read().decode()
                except urllib.error.HTTPError as error:
                    return error.code, error.read().decode()
                except OSError as error:
                    return 0, str(error)

            def fits():
                is_code, is_text = answer()
                return is_code == code and re.search(text, is_text)

            self.assertTrue(wait_until(fits, PATIENCE), answer())

        says("readyz", 500, r"the cluster does not serve agents\.kaos\.tools")
        says("healthz", 200, "ok")
        self.kubectl(kubeconfig, "apply", "--server-side", "-f", CRDS)
        says("readyz", 200, "^ok$")
        self.kubectl(kubeconfig, "delete", "crd", "mcpservers.kaos.tools")
        says("readyz", 500, r"does not serve mcpservers\.kaos\.tools: .*cadre manifests crds")
        says("healthz", 200, "ok")
        self.kubectl(kubeconfig, "apply", "--server-side", "-f", CRDS)
        says("readyz", 200, "^ok$")


if __name__ == "__main__":
    unittest.main()
