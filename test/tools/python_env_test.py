#!/usr/bin/env python3
"""tools/python-env: makes an environment once, makes a broken one anew, and fails where a package cannot be had."""

import os
import pathlib
import subprocess
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/python-env"


class PythonEnvTest(unittest.TestCase):
    def setUp(self):
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.work = pathlib.Path(work.name)
        self.requirements = self.work / "requirements.txt"

    def make(self, requirements, *arguments):
        self.requirements.write_text(requirements)
        # No index: what a file asks for beyond nothing cannot be had.
        env = dict(os.environ, XDG_CACHE_HOME=str(self.work / "cache"), PIP_NO_INDEX="1", PIP_FIND_LINKS=str(self.work))
        done = subprocess.run([TOOL, *(arguments or [self.requirements])], text=True, env=env, capture_output=True,
                              stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout.strip(), done.stderr

    def test_made_once(self):
        code, python, said = self.make("# nothing\n")
        self.assertEqual(code, 0, said)
        self.assertIn("installing", said)
        prefix = subprocess.run([python, "-c", "import sys; print(sys.prefix)"], text=True, capture_output=True).stdout
        self.assertEqual(pathlib.Path(prefix.strip()), pathlib.Path(python).parents[1])
        self.assertEqual(self.make("# nothing\n"), (0, python, ""))

        (pathlib.Path(python).parents[1] / ".complete").unlink()  # as if it had been broken off
        code, again, said = self.make("# nothing\n")
        self.assertEqual((code, again), (0, python))
        self.assertIn("installing", said)

    def test_cannot_be_had(self):
        code, python, said = self.make("nonesuch==1.0\n")
        self.assertEqual((code, python), (1, ""))
        self.assertIn("nonesuch", said)
        self.assertEqual(list(self.work.glob("cache/**/.complete")), [])

    def test_usage(self):
        self.assertEqual(self.make("", "--help")[0], 2)


if __name__ == "__main__":
    unittest.main()
