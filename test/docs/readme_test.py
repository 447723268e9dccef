#!/usr/bin/env python3
"""The README's first steps, run as they are written, and what they promise of the program."""
import os
import re
import subprocess
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("CADRE_BUILD_DIR", os.path.join(ROOT, "build", "dev"))
PROGRAM = os.path.join(BUILD, "apps", "cadre", "cadre")


def steps(heading, name):
    """The shell lines under a heading. Only the cluster's name and ports are changed, so that they meet nobody's own."""
    with open(os.path.join(ROOT, "README.md")) as readme:
        block = re.search(rf"## {heading}.*?```sh\n(.*?)```", readme.read(), re.S).group(1)
    # The build has happened: it is what runs this test.
    text = "\n".join(line for line in block.splitlines() if not line.startswith("make "))
    for old, new in (("tools/cluster up control", f"tools/cluster up control --name {name} --for-pid {os.getpid()}"),
                     ("tools/cluster down", f"tools/cluster down --name {name}"),
                     ("cadre operator &", "cadre operator --metrics-bind-address=0 --health-probe-bind-address=0 &"),
                     ("$PWD/build/dev/", BUILD + "/")):
        text = text.replace(old, new)
    assert name in text
    return text


class Readme(unittest.TestCase):
    def run_steps(self, heading, name):
        env = dict(os.environ, PATH=f"{os.path.dirname(PROGRAM)}:{os.environ['PATH']}")
        try:
            script = "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n" + steps(heading, name)
            done = subprocess.run(["bash", "-euc", script], cwd=ROOT, env=env, capture_output=True, text=True,
                                  timeout=550)
        finally:
            subprocess.run([os.path.join(ROOT, "tools/cluster"), "down", "--name", name], capture_output=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_first_steps_work(self):
        said = self.run_steps("Try it", f"readme-{os.getpid()}")
        self.assertRegex(said, r"(?m)^server +v1\.\d+")
        self.assertRegex(said, r"(?m)^NAME +STATUS +ROLES")
        self.assertIn("namespaces/kube-system\n", said)

    def test_an_agent_becomes_ready(self):
        said = self.run_steps("Serve the KAOS kinds", f"readme-kaos-{os.getpid()}")
        self.assertIn("+ Deployment default/modelapi-llm", said)
        self.assertIn("agent.kaos.tools/helper condition met", said)
        self.assertRegex(said, r"(?m)^agent.kaos.tools/helper +llm +smollm2:135m +true +Ready")

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
