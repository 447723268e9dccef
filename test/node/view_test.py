"""What `cadre up` shows on a terminal while things start."""

import fcntl
import json
import os
import pty
import struct
import subprocess
import termios
import unittest

from ups import CADRE, PATIENCE, UpCase, wait_until


class ViewTest(UpCase):
    def on_terminal(self, *argv, **env):
        mine, theirs = pty.openpty()
        self.addCleanup(os.close, mine)
        os.set_blocking(mine, False)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 200, 0, 0))
        self.process = subprocess.Popen([CADRE, "up", "--data", self.data, "--runtime", "process", *argv], stdout=subprocess.DEVNULL,
                                        stderr=theirs, env={**os.environ, "TERM": "xterm", **env})
        os.close(theirs)
        self.said = b""
        def said():
            try:
                self.said += os.read(mine, 1 << 16)
            except OSError:
                pass
            return self.said.decode(errors="replace")
        return said

    @staticmethod
    def pod(name, image="cadre"):
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
            "containers": [{"name": "main", "image": image, "command": ["sleep", "1000"]}]}}

    def files(self, *objects):
        path = self.data.parent / "objects.json"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        return "-f", str(path)

    def test_what_waits_is_shown_until_it_is_ready(self):
        said = self.on_terminal(*self.files(self.pod("good"), self.pod("bad", "none:1")))
        self.assertTrue(wait_until(lambda: "pod/bad  not ready  " in said(), PATIENCE), said())
        self.assertTrue(wait_until(lambda: "there is no image none:1" in said(), PATIENCE), said())
        self.assertIn("cadre: 1 of 2 ready", said())
        self.assertNotIn("pod/good  ", said().split("cadre: 1 of 2 ready")[-1])
        self.kubectl(self, "delete", "pod", "bad")
        self.assertTrue(wait_until(lambda: said().endswith("\x1b[2A\r\x1b[Jcadre: 1 of 1 ready\r\n"), PATIENCE), repr(said()))
        self.assertNotIn("\x1b[3", said(), "there are no colours")

    def test_who_need_not_wait_is_told_nothing(self):
        said = self.on_terminal(*self.files(self.pod("good")))
        self.assertTrue(wait_until(lambda: "Ctrl-C ends it" in said(), PATIENCE), said())
        self.wait_for(lambda: self.kubectl(self, "get", "pod", "good", "-o", "jsonpath={.status.phase}") == "Running", "it runs")
        self.process.terminate()
        self.assertEqual(self.process.wait(timeout=PATIENCE), 0)

    def test_no_terminal_no_view(self):
        self.up(*self.files(self.pod("bad", "none:1")))
        self.wait_for(lambda: "none:1" in self.kubectl(self, "get", "pod", "bad", "-o", "jsonpath={.status.containerStatuses[0].state}"), "it waits")
        self.process.terminate()
        said = self.process.communicate(timeout=PATIENCE)[1]
        self.process = None
        self.assertEqual([line for line in said.splitlines() if "ready" in line or "\x1b" in line], [])


if __name__ == "__main__":
    unittest.main()
