#!/usr/bin/env python3
"""tools/install with make-believe dpkg-query and apt-get: what it asks for, and that it asks for nothing in vain."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools/install"

DPKG_QUERY = """#!/bin/sh
for package in $PRESENT; do echo "installed $package"; done
echo "config-files mold"
exit 1
"""
APT_GET = """#!/bin/sh
echo "$*" >> "$CALLS"
[ -z "$BROKEN" ] || { echo "no such mirror"; exit 100; }
"""
EVERYTHING = [p for group in re.findall(r'echo "([^"]+)"', TOOL.read_text().partition("\n  *)")[0])
              for p in group.split()]


class InstallTest(unittest.TestCase):
    def setUp(self):
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.work = pathlib.Path(work.name)
        self.program("dpkg-query", DPKG_QUERY)
        self.program("apt-get", APT_GET)
        self.program("id", "#!/bin/sh\necho 0\n")

    def program(self, name, text):
        (self.work / name).write_text(text)
        (self.work / name).chmod(0o755)

    def install(self, *groups, present=(), **env):
        env = dict(os.environ, PATH=f"{self.work}:/usr/bin:/bin", PRESENT=" ".join(present),
                   CALLS=str(self.work / "calls"), **env)
        done = subprocess.run([TOOL, *groups], text=True, env=env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout

    def calls(self):
        file = self.work / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def test_nothing_missing(self):
        self.assertEqual(self.install("build", "check", present=EVERYTHING), (0, "install: nothing is missing\n"))
        self.assertEqual(self.calls(), [])

    def test_only_what_is_missing(self):
        present = [p for p in EVERYTHING if p not in ("mold", "ccache")]  # of mold only settings are left
        code, said = self.install(present=present)
        self.assertEqual(code, 0, said)
        self.assertIn("install: installing ccache mold\n", said)
        update, install = self.calls()
        self.assertRegex(update, r"update$")
        self.assertRegex(install, r"install -y --no-install-recommends --no-remove ccache mold$")

    def test_not_root(self):
        self.program("id", "#!/bin/sh\necho 1000\n")
        code, said = self.install("build", "cluster", present=[p for p in EVERYTHING if p not in ("cmake", "buildah")])
        self.assertEqual(code, 1)
        self.assertIn("sudo apt-get install -y --no-install-recommends cmake\n", said)
        self.assertEqual(self.calls(), [])

    def test_apt_fails(self):
        code, said = self.install(BROKEN="1")
        self.assertEqual(code, 1)
        self.assertIn("no such mirror", said)

    def test_unknown_group(self):
        self.assertEqual(self.install("nothing")[0], 2)

    def test_every_package_has_its_reason(self):
        reasons = (ROOT / "docs/dependencies.md").read_text()
        self.assertGreater(len(EVERYTHING), 20)
        self.assertEqual([p for p in EVERYTHING if f"`{p}`" not in reasons], [])


if __name__ == "__main__":
    unittest.main()
