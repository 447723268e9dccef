"""What is generated is what is checked in."""

import pathlib
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class GenerateTest(unittest.TestCase):
    def test_nothing_is_out_of_date(self):
        done = subprocess.run([ROOT / "tools/generate", "--check"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
