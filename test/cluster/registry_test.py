#!/usr/bin/env python3
"""The registry takes an image and gives it back. Needs Debian's buildah, busybox-static, catatonit and skopeo."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

from support import ROOT, ClusterTest


class RegistryTest(ClusterTest):
    def test_push_and_pull(self):
        missing = [p for p in ("buildah", "skopeo", "busybox", "catatonit") if not shutil.which(p)]
        if missing:
            self.skipTest(f"this machine lacks {' and '.join(missing)}")
        if os.geteuid() != 0:
            self.skipTest("buildah with storage of its own needs root")
        address = self.up("registry", self.name("registry"))
        self.assertTrue(address.startswith("127.0.0.1:"))
        with tempfile.TemporaryDirectory() as work:
            subprocess.run([ROOT / "tools/cluster.d/images", work], check=True)
            source, back = f"oci-archive:{work}/web.tar", f"oci:{work}/back"
            there = f"docker://{address}/some/web:1"
            self.skopeo("copy", "--dest-tls-verify=false", source, there)
            self.skopeo("copy", "--src-tls-verify=false", there, back)
            # Compared uncompressed: a push may compress the layers.
            first, second = (json.loads(self.skopeo("inspect", "--config", image)) for image in (source, back))
            self.assertEqual(len(first["rootfs"]["diff_ids"]), 1)
            self.assertEqual(first["rootfs"], second["rootfs"])

    def skopeo(self, *argv):
        done = subprocess.run(["skopeo", "--insecure-policy", *argv], text=True, capture_output=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout


if __name__ == "__main__":
    unittest.main()
