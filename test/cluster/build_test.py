#!/usr/bin/env python3
"""How parts are built, with a make-believe Go: once, kept by version, and with a Go that is new enough."""

import os
import pathlib
import subprocess
import tempfile
import unittest

from support import TOOL, tool

# Notes each call; `install` makes a program, `mod download` a toolchain whose programs lost their modes.
GO = """#!/bin/sh
echo "$0 $*" >> "$CALLS"
case $1 in
version) echo "go version go{version} linux/amd64" ;;
install) [ -z "$BROKEN" ] || {{ echo "does not compile" >&2; exit 1; }}
         sleep 1; echo "made by $0" > "$GOBIN/helm" ;;
mod) echo "{{\\"Dir\\": \\"$TOOLCHAIN\\"}}" ;;
esac
"""


class BuildTest(unittest.TestCase):
    def setUp(self):
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.work = pathlib.Path(work.name)
        self.calls = self.work / "calls"
        self.calls.touch()
        self.env = {"PATH": f"{self.work}/bin:/usr/bin:/bin", "XDG_CACHE_HOME": f"{self.work}/cache",
                    "CALLS": str(self.calls), "TOOLCHAIN": f"{self.work}/toolchain"}

    def have_go(self, folder, version, mode=0o755):
        program = self.work / folder / "go"
        program.parent.mkdir(parents=True)
        program.write_text(GO.format(version=version))
        program.chmod(mode)

    def installs(self):
        return [line for line in self.calls.read_text().splitlines() if " install " in line]

    def test_built_once(self):
        self.have_go("bin", "1.26.8")
        runs = [subprocess.Popen([TOOL, "which", "helm"], text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                 env=dict(os.environ, **self.env)) for _ in range(3)]
        paths = {process.communicate()[0].strip() for process in runs}
        self.assertEqual(len(self.installs()), 1)
        version = self.installs()[0].rpartition("@")[2]
        self.assertEqual(paths, {f"{self.work}/cache/cadre/parts/helm-{version}/helm"})

    def test_failed_build_leaves_nothing(self):
        self.have_go("bin", "1.26.8")
        self.assertIn("does not compile", tool("which", "helm", env=dict(self.env, BROKEN="1"), fails=True))
        self.assertEqual(list((self.work / "cache/cadre/parts").glob("helm-*")), [])
        self.assertTrue(os.path.exists(tool("which", "helm", env=self.env)))

    def test_old_go_fetches_a_new_one(self):
        self.have_go("bin", "1.19.8")
        self.have_go("toolchain/bin", "1.26.8", mode=0o444)
        (self.work / "toolchain/bin").chmod(0o555)  # as the module cache has it
        self.addCleanup((self.work / "toolchain/bin").chmod, 0o755)
        built = pathlib.Path(tool("which", "helm", env=self.env))
        self.assertRegex(built.read_text(), r"made by .*/cadre/parts/go1\.26\.8/bin/go")


if __name__ == "__main__":
    unittest.main()
