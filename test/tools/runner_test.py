#!/usr/bin/env python3
"""tools/test: counts, crashes, hangs, skips, and the shared cluster, with make-believe programs in a tree of its own."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import textwrap
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# As GoogleTest does: progress on stdout, the report at the end.
GTEST = r"""
import json, os, signal, subprocess, sys, time
report = next(a for a in sys.argv if a.startswith("--gtest_output=json:")).partition(":")[2]
cases = []
def case(name, end="OK"):
    print(f"[ RUN      ] Suite.{name}\n[{end:>9} ] Suite.{name} (0 ms)", flush=True)
    result = {"OK": "COMPLETED", "FAILED": "COMPLETED", "SKIPPED": "SKIPPED"}[end]
    cases.append(dict({"failures": [{}]} if end == "FAILED" else {}, name=name, status="RUN", result=result))
def done():
    json.dump({"testsuites": [{"name": "Suite", "testsuite": cases}]}, open(report, "w"))
    sys.exit(any("failures" in c for c in cases))
"""

CLUSTER = """#!/bin/sh
echo "$*" >> "$0.calls"
[ "$1" != up ] || echo /the/kubeconfig
"""


class RunnerTest(unittest.TestCase):
    def setUp(self):
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.root = pathlib.Path(work.name).resolve()
        for folder in ("tools", "test/e2e", "build/dev/tests", "src/base"):
            (self.root / folder).mkdir(parents=True)
        shutil.copy(ROOT / "tools/test", self.root / "tools/test")
        self.program("tools/cluster", CLUSTER)

    def program(self, name, text):
        (self.root / name).write_text(text)
        (self.root / name).chmod(0o755)

    def gtest(self, name, body):
        self.program(f"build/dev/tests/{name}", "#!/usr/bin/env python3\n" + GTEST + textwrap.dedent(body))

    def python(self, name, body):
        body = textwrap.indent(textwrap.dedent(body), "    ")
        (self.root / f"test/{name}").write_text(f"import os, sys, unittest\nclass T(unittest.TestCase):\n{body}")

    def run_tests(self, *argv):
        """The exit code, what was said, and its last line."""
        done = subprocess.run([self.root / "tools/test", "--no-build", *argv], text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        return done.returncode, done.stdout, done.stdout.splitlines()[-1]

    def calls(self):
        file = self.root / "tools/cluster.calls"
        return file.read_text().splitlines() if file.exists() else []

    def test_counts(self):
        self.gtest("base_test", "case('a'); case('b'); case('c', 'SKIPPED'); done()")
        self.python("e2e/web_test.py", """
            def test_a(self): pass
            def test_b(self): self.skipTest("no web here")
        """)
        code, said, last = self.run_tests()
        self.assertEqual((code, last), (0, "3 passed, 0 failed, 2 skipped"), said)
        self.assertIn("skipped: base_test: Suite.c\n", said)
        self.assertRegex(said, r"skipped: .*T\.test_b: no web here\n")

    def test_failures_show_their_output(self):
        self.gtest("base_test", "case('a'); print('a clue'); case('b', 'FAILED'); done()")
        self.python("e2e/web_test.py", """
            def test_a(self): self.assertEqual(1, 2)
            def test_b(self):
                for i in range(3):
                    with self.subTest(i): self.fail("another clue")
            def test_c(self): pass
        """)
        code, said, last = self.run_tests()
        self.assertEqual((code, last), (1, "2 passed, 3 failed"), said)
        self.assertIn("a clue", said)
        self.assertIn("another clue", said)
        self.assertIn("failed: base_test: Suite.b\n", said)

    def test_crash(self):
        self.gtest("base_test", "case('a'); print('[ RUN      ] Suite.b', flush=True); os.abort()")
        self.python("e2e/web_test.py", "def test_a(self): os._exit(0)")
        self.python("e2e/broken_test.py", "def test_a(self) it is not Python")
        code, said, last = self.run_tests()
        self.assertEqual((code, last), (1, "1 passed, 3 failed"), said)
        self.assertIn("Suite.b: did not end", said)

    def test_leak_found_at_exit(self):
        self.gtest("base_test", "case('a')\ntry: done()\nfinally: os._exit(23)")
        code, said, last = self.run_tests()
        self.assertEqual((code, last), (1, "1 passed, 1 failed"), said)
        self.assertIn("base_test ended with 23", said)

    def test_time_limit_ends_the_whole_group(self):
        self.gtest("base_test", f"""
            child = subprocess.Popen(["sleep", "600"])
            open("{self.root}/child", "w").write(str(child.pid))
            print("[ RUN      ] Suite.slow", flush=True)
            time.sleep(600)
        """)
        code, said, last = self.run_tests("--time-limit", "2")
        self.assertEqual((code, last), (1, "0 passed, 1 failed"), said)
        self.assertIn("Suite.slow", said)
        self.assertGone(int((self.root / "child").read_text()))

    def test_leftover_children_end_with_the_program(self):
        self.gtest("base_test", f"""
            child = subprocess.Popen(["sleep", "600"])
            open("{self.root}/child", "w").write(str(child.pid))
            case("a"); done()
        """)
        self.assertEqual(self.run_tests()[2], "1 passed, 0 failed")
        self.assertGone(int((self.root / "child").read_text()))

    def assertGone(self, pid):
        def alive():
            try:
                return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
            except OSError:
                return False
        until = time.monotonic() + 10
        while alive() and time.monotonic() < until:
            time.sleep(0.05)
        self.assertFalse(alive())

    def test_nothing_ran_is_no_success(self):
        self.assertEqual(self.run_tests()[::2], (1, "0 passed, 0 failed"))

    def test_shared_cluster(self):
        for name in ("kube_cluster_test", "engine_cluster_test"):
            self.gtest(name, "for key in ('KUBECONFIG', 'CLUSTER'): print(key, os.environ['CADRE_TEST_' + key])\n"
                             "assert os.environ['CADRE_CLUSTER_TOOL'].endswith('/tools/cluster')\ncase('a'); done()")
        code, said, last = self.run_tests()
        self.assertEqual((code, last), (0, "2 passed, 0 failed"), said)
        printed = (self.root / "build/dev/test-logs/kube_cluster_test.log").read_text()
        self.assertIn("KUBECONFIG /the/kubeconfig\n", printed)
        build, up, down = self.calls()
        self.assertEqual(build, "build api")
        self.assertRegex(up, r"^up api --name test-(\d+) --for-pid \1$")
        self.assertEqual(down, "down --name " + up.split()[3])
        self.assertIn(f"CLUSTER {up.split()[3]}\n", printed)

    def test_no_cluster_for_those_that_need_none(self):
        self.gtest("base_test", "case('a'); done()")
        self.run_tests()
        self.assertEqual(self.calls(), [])

    def test_cluster_that_does_not_start(self):
        self.gtest("kube_cluster_test", "case('a'); done()")
        self.program("tools/cluster", "#!/bin/sh\n[ $1 != up ] || { echo 'no port is free' >&2; exit 1; }\n")
        code, said, last = self.run_tests()
        self.assertEqual((code, last), (1, "0 passed, 1 failed"), said)
        self.assertIn("no port is free", said)

    def test_filter_and_unit(self):
        for name in ("base_test", "web_e2e_test"):
            self.gtest(name, "case('a'); done()")
        self.python("e2e/web_test.py", "def test_a(self): pass")
        self.assertEqual(self.run_tests()[2], "3 passed, 0 failed")
        self.assertEqual(self.run_tests("--filter", "^web")[2], "1 passed, 0 failed")
        self.assertEqual(self.run_tests("--unit")[2], "1 passed, 0 failed")

    def test_stage_that_fails(self):
        self.gtest("kube_cluster_test", "case('a'); done()")
        self.program("tools/cluster", "#!/bin/sh\nexit 3\n")
        self.assertEqual(self.run_tests()[::2], (1, "0 passed, 1 failed"))


if __name__ == "__main__":
    unittest.main()
