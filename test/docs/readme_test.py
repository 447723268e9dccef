#!/usr/bin/env python3
"""The README's first steps, run as they are written, and what they promise of the program."""
import os
import re
import subprocess
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("CADRE_BUILD_DIR", os.path.join(ROOT, "build", "dev"))
PROGRAM = os.path.join(BUILD, "apps", "cadre", "cadre")


def first_steps():
    with open(os.path.join(ROOT, "README.md")) as readme:
        block = re.search(r"## Try it.*?```sh\n(.*?)```", readme.read(), re.S).group(1)
    # The build has happened: it is what runs this test.
    return "\n".join(line for line in block.splitlines() if not line.startswith("make "))


class Readme(unittest.TestCase):
    def test_first_steps_work(self):
        # Only the cluster's name is changed, so that it meets nobody's own.
        name = f"readme-{os.getpid()}"
        steps = first_steps().replace("tools/cluster up control", f"tools/cluster up control --name {name} --for-pid {os.getpid()}")
        steps = steps.replace("tools/cluster down", f"tools/cluster down --name {name}")
        steps = steps.replace("$PWD/build/dev/", BUILD + "/")
        self.assertIn(name, steps)
        done = subprocess.run(["bash", "-euc", steps], cwd=ROOT, capture_output=True, text=True, timeout=550)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^server +v1\.\d+")
        self.assertRegex(done.stdout, r"(?m)^NAME +STATUS +ROLES")
        self.assertIn("namespaces/kube-system\n", done.stdout)

    def test_everything_but_glibc_is_linked_in(self):
        needed = subprocess.run(["readelf", "-d", PROGRAM], capture_output=True, text=True, check=True).stdout
        libraries = set(re.findall(r"\(NEEDED\).*\[(.*?)\]", needed))
        self.assertTrue(libraries, needed)
        allowed = r"lib(c|m)\.so\.6|ld-linux-.*"
        if os.path.basename(BUILD) in ("asan", "tsan"):  # sanitizers bring their own
            allowed += r"|lib(asan|ubsan|tsan|stdc\+\+|gcc_s)\.so.*"
        self.assertEqual([name for name in libraries if not re.fullmatch(allowed, name)], [])


if __name__ == "__main__":
    unittest.main()
