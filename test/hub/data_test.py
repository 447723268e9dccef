"""What a hub does about its data: it finds them again, refuses what is damaged or in use, and says what to do."""

import json
import resource
import socket
import subprocess
import unittest

from hubs import CADRE, PATIENCE, Hub, HubTest, tool, wait_until


class DataTest(HubTest):
    def refused(self, data, **options):
        done = subprocess.run([CADRE, "hub", "--data", data], text=True, capture_output=True, timeout=PATIENCE, **options)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        return done.stderr

    def test_what_was_there_is_there_again(self):
        hub = self.hub()
        self.kubectl(hub, "create", "configmap", "colors", "--from-literal=wall=white")
        self.kubectl(hub, "create", "serviceaccount", "robot")
        token = self.kubectl(hub, "create", "token", "robot").strip()
        version = self.kubectl(hub, "get", "cm", "colors", "-o", "jsonpath={.metadata.resourceVersion}")
        self.assertEqual(hub.stop()[0], 0)
        hub.start()
        self.assertEqual(self.kubectl(hub, "get", "cm", "colors", "-o", "jsonpath={.metadata.resourceVersion}"), version)
        config = json.loads(self.kubectl(hub, "config", "view", "--raw", "-o", "json"))
        config["users"][0]["user"] = {"token": token}
        hub.kubeconfig.write_text(json.dumps(config))
        self.assertIn("system:serviceaccount:default:robot", self.kubectl(hub, "auth", "whoami"))

    def command(self, *argv, fails=False):
        done = subprocess.run([CADRE, *argv], text=True, capture_output=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 1 if fails else 0, done.stderr)
        return done.stderr if fails else done.stdout

    def test_a_backup_of_a_hub_that_runs_or_rests_makes_another_hub(self):
        hub = self.hub()
        for i in range(30):
            self.kubectl(hub, "create", "-f", "-", input=json.dumps(
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c-{i}"}, "data": {"x": "y" * 100_000}}))
        names = self.kubectl(hub, "get", "cm", "-A", "-o", "custom-columns=A:.metadata.name,B:.metadata.resourceVersion")
        running, resting = hub.data / "running", hub.data / "resting"
        said = self.command("backup", running, "--data", hub.data)
        self.assertRegex(said, f"^{running}: [0-9]+ objects, resourceVersion [0-9]+, ")
        self.assertEqual(running.stat().st_mode & 0o777, 0o600)
        self.assertIn("is there: name a new file", self.command("backup", running, "--data", hub.data, fails=True))
        hub.stop()
        self.command("backup", resting, "--data", hub.data)
        hub.start()
        later = self.kubectl(hub, "create", "cm", "later", "-o", "jsonpath={.metadata.resourceVersion}")
        hub.stop()
        self.assertIn("has data: name another folder", self.command("restore", running, "--data", hub.data, fails=True))
        self.assertIn("has no hub.db", self.command("backup", hub.data / "new", "--data", hub.data / "none", fails=True))
        # The objects alone, as whoever may can take them from afar.
        remote = hub.data / "remote"
        hub.start()
        self.kubectl(hub, "delete", "cm", "later")
        remote.write_bytes(subprocess.run([tool("which", "kubectl"), "--kubeconfig", hub.kubeconfig, "get", "--raw", "/backup"],
                                          capture_output=True, timeout=PATIENCE, check=True).stdout)
        hub.stop()
        for backup in running, resting, remote:
            place = hub.data / f"{backup.name}-again"
            self.command("restore", backup, "--data", place)
            again = Hub(place)
            self.addCleanup(lambda again=again: again.process.poll() is None and again.stop("kill"))
            self.assertEqual(names, self.kubectl(again, "get", "cm", "-A", "-o",
                                                 "custom-columns=A:.metadata.name,B:.metadata.resourceVersion"))
            # Of what was known of the old hub, nothing is taken for something of the new one.
            said = self.kubectl(again, "get", "--raw", f"/api/v1/configmaps?watch=1&timeoutSeconds=5&resourceVersion={later}")
            self.assertIn('too old resource version', said)
            made = self.kubectl(again, "create", "cm", "new", "-o", "jsonpath={.metadata.resourceVersion}")
            self.assertGreater(int(made), int(later) + 100_000_000)
        damaged = bytearray(running.read_bytes())
        damaged[len(damaged) // 2] ^= 0x5a
        (hub.data / "damaged").write_bytes(damaged)
        self.assertIn("damaged", self.command("restore", hub.data / "damaged", "--data", hub.data / "new", fails=True))
        self.assertFalse((hub.data / "new").exists())

    def test_only_who_may_gets_a_backup(self):
        hub = self.hub()
        self.assertIn("forbidden", self.kubectl(hub, "get", "--raw", "/backup", "--as=somebody", fails=True).lower())

    def test_one_process_at_a_time(self):
        hub = self.hub()
        self.assertIn(f"in use by process {hub.process.pid}", self.refused(hub.data))

    def test_a_damaged_file_is_refused_and_kept(self):
        hub = self.hub()
        for i in range(20):
            self.kubectl(hub, "create", "configmap", f"c-{i}", f"--from-literal=x={'y' * 2000}")
        hub.stop()
        store = hub.data / "hub.db"
        damaged = bytearray(store.read_bytes())
        for at in range(len(damaged) // 2, len(damaged) // 2 + 4096):
            damaged[at] ^= 0x5a
        store.write_bytes(damaged)
        said = self.refused(hub.data)
        self.assertIn(str(store), said)
        self.assertRegex(said, "backup|move")
        self.assertEqual(store.read_bytes(), bytes(damaged))

    def test_what_was_written_last_is_damaged_or_gone(self):
        hub = self.hub()
        for i in range(20):
            self.kubectl(hub, "create", "configmap", f"c-{i}", f"--from-literal=x={'y' * 2000}")
        hub.stop("kill")
        log = hub.data / "hub.db-wal"
        whole = log.read_bytes()
        damaged = bytearray(whole)
        damaged[len(damaged) * 3 // 4] ^= 1
        for bad in bytes(damaged), whole[:-1], b"":
            log.write_bytes(bad)
            self.assertRegex(self.refused(hub.data), "ends at revision .*hub.db.last to go on with what is there")
            self.assertEqual(log.read_bytes(), bad)
        log.write_bytes(whole)
        hub.start()
        self.assertEqual(len(self.kubectl(hub, "get", "cm", "-o", "name").split()), 20)

    def test_a_full_disk_refuses_writes_and_nothing_else(self):
        def small():
            resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, 600_000))
        folder = self.hub().data  # a place that is cleaned up
        data = folder / "small"
        hub = subprocess.Popen([CADRE, "hub", "--data", data], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               preexec_fn=small)
        self.addCleanup(lambda: hub.poll() is None and hub.kill())
        class Place:
            kubeconfig = data / "kubeconfig"
        self.assertTrue(wait_until(Place.kubeconfig.exists, PATIENCE))
        text = "y" * 50_000
        refused = None
        for i in range(40):
            done = subprocess.run([tool("which", "kubectl"), "--kubeconfig", Place.kubeconfig, "create", "configmap", f"c-{i}",
                                   f"--from-literal=x={text}"], text=True, capture_output=True, timeout=PATIENCE)
            if done.returncode != 0:
                refused = (i, done.stderr)
                break
        self.assertIsNotNone(refused, "there was space for all")
        self.assertIn("Internal error", refused[1])
        self.assertIsNone(hub.poll(), "it goes on")
        names = self.kubectl(Place, "get", "configmaps", "-o", "name").split()
        self.assertEqual(len([n for n in names if n.startswith("configmap/c-")]), refused[0])

    def test_a_hub_starts_on_a_full_disk_and_shows_what_is_there(self):
        disk = self.hub().data / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", disk], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=True)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        hub = Hub(disk / "data", "--port", str(port))
        self.addCleanup(lambda: hub.process.poll() is None and hub.stop("kill"))
        self.kubectl(hub, "create", "configmap", "colors", "--from-literal=wall=white")
        hub.stop()
        (disk / "filler").write_bytes(b"x" * (3 << 20))
        with open(disk / "filler", "ab", buffering=0) as filler:
            with self.assertRaises(OSError):
                while True:
                    filler.write(b"x" * 4096)
        hub.process = subprocess.Popen([CADRE, "hub", "--data", hub.data, *hub.argv], text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertIn("kubeconfig", hub.process.stdout.readline())  # it serves
        self.assertEqual(self.kubectl(hub, "get", "cm", "colors", "-o", "jsonpath={.data.wall}"), "white")
        self.assertIn("Internal error", self.kubectl(hub, "create", "namespace", "more", fails=True))
        elsewhere = disk.parent / "backup"
        self.command("backup", elsewhere, "--data", hub.data)
        (disk / "filler").unlink()
        self.kubectl(hub, "create", "namespace", "more")


if __name__ == "__main__":
    unittest.main()
