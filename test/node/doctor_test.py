"""`cadre doctor`: what it says of this machine, and whether `cadre up` then does what it said."""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import threading
import unittest

from ups import CADRE, PATIENCE, UpCase

NOBODY = 65534


class DoctorTest(UpCase):
    def doctor(self, *argv, code=0, **options):
        done = subprocess.run([CADRE, "doctor", "--data", self.data, *argv], text=True, capture_output=True, timeout=PATIENCE, **options)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def findings(self, *argv, **options):
        said = json.loads(self.doctor("-o", "json", *argv, **options))
        self.assertEqual(said["works"], all(one["state"] != "missing" for one in said["findings"]))
        return said, {one["check"]: one for one in said["findings"]}

    def test_it_tells_of_this_machine_what_then_holds(self):
        said, findings = self.findings(env={**os.environ, "DOCKER_HOST": f"unix://{self.data}/none"})
        self.assertEqual(said["runtime"], "process")
        self.assertEqual(findings["processes"]["state"], "ok", findings)
        self.assertEqual(findings["docker"]["state"], "limited")
        self.assertEqual(findings["policies"]["state"], "limited")
        self.assertIn("of processes: a NetworkPolicy is taken and not enforced", findings["policies"]["meaning"])
        self.assertEqual(findings["up"]["meaning"], "it is not up")
        self.assertFalse(self.data.exists(), "it makes nothing")
        lines = self.doctor().splitlines()
        self.assertEqual(len(lines), len(findings))
        for line in lines:
            self.assertRegex(line, r"^(ok|limited) +[a-z ]+   ")
        self.up()
        _, findings = self.findings()
        self.assertRegex(findings["up"]["meaning"], f"^it is up, as process {self.process.pid}, its API at https://127.0.0.1:[0-9]+$")
        self.assertEqual(findings["folder"]["state"], "ok")
        left = {entry.name for entry in self.data.iterdir()}
        self.assertFalse([name for name in left if "doctor" in name], left)

    def test_what_is_in_the_way_is_told_and_then_is(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            _, findings = self.findings("--port", port, code=1)
            self.assertIn(f"port {port} is not to be had (Address already in use)", findings["port"]["meaning"])
            refused = subprocess.run([CADRE, "up", "--data", self.data, "--runtime", "process", "--port", port], capture_output=True,
                                     timeout=PATIENCE)
            self.assertEqual(refused.returncode, 1)
        shutil.rmtree(self.data)
        self.data.write_text("")
        self.assertIn("is no folder", self.doctor(code=1))
        self.data.unlink()
        # Without bubblewrap and without Docker nothing runs pods. It is looked for where the system has programs.
        hide = ["bwrap", "--dev-bind", "/", "/", "--ro-bind", "/dev/null", "/usr/bin/bwrap", "--"]
        done = subprocess.run([*hide, CADRE, "doctor", "--data", self.data, "-o", "json"], text=True, capture_output=True,
                              timeout=PATIENCE, env={**os.environ, "DOCKER_HOST": "unix:///none"})
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual({one["check"] for one in json.loads(done.stdout)["findings"] if one["state"] == "missing"},
                         {"docker", "processes", "runtime"})

    def test_docker_is_asked(self):
        answers = [b'{"ServerVersion": "27.1", "MemoryLimit": true, "CpuCfsQuota": true, "PidsLimit": true}', b"no JSON"]
        with socket.socket(socket.AF_UNIX) as server:
            place = str(self.data.parent / "docker.sock")
            server.bind(place)
            server.listen()
            def serve():
                for answer in answers:
                    with server.accept()[0] as one:
                        one.recv(4096)
                        one.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(answer), answer))
            thread = threading.Thread(target=serve, daemon=True)
            thread.start()
            env = {**os.environ, "DOCKER_HOST": f"unix://{place}"}
            said, findings = self.findings(env=env)
            self.assertEqual(said["runtime"], "docker")
            self.assertEqual(findings["docker"]["meaning"], f"version 27.1 answers at {place}; the first pod makes a network of its own")
            self.assertIn("memory, processors, the number of processes are limited", findings["limits"]["meaning"])
            self.assertIn("of containers: ", findings["policies"]["meaning"])
            said, findings = self.findings(env=env)
            self.assertEqual((said["runtime"], findings["docker"]["state"]), ("process", "limited"), findings["docker"])
            thread.join(PATIENCE)

    @unittest.skipIf(os.geteuid() != 0, "only root can be somebody else")
    def test_an_ordinary_user_is_told_of_what_is_not_theirs(self):
        with tempfile.TemporaryDirectory(prefix="cadre-doctor-") as place:
            data = pathlib.Path(place) / "data"
            data.mkdir(mode=0o700)
            program = pathlib.Path(place) / "cadre"
            program.write_bytes(CADRE.read_bytes())
            for path, mode in (place, 0o755), (program, 0o755):
                os.chmod(path, mode)
            done = subprocess.run([program, "doctor", "--data", data, "-o", "json"], text=True, capture_output=True, timeout=PATIENCE,
                                  user=NOBODY, group=NOBODY, extra_groups=[])
            findings = {one["check"]: one for one in json.loads(done.stdout)["findings"]}
            self.assertEqual(findings["folder"]["state"], "missing", findings)
            self.assertEqual(findings["folder"]["remedy"], f"sudo chown -R {NOBODY} {data}")
            self.assertEqual(done.returncode, 1)


if __name__ == "__main__":
    unittest.main()
