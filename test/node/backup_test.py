"""`cadre backup` and `cadre restore`: of one that is up and of one that is down, with all that pods keep."""

import io
import os
import random
import shutil
import signal
import subprocess
import tarfile
import time
import unittest

from ups import CADRE, PATIENCE, UpCase, tool

KILLS = int(os.environ.get("CADRE_KILLS", "8"))
# Counts its starts in its volume, and says so.
COUNTER = "n=$(cat /keep/n 2>/dev/null || echo 0); echo $((n + 1)) > /keep/n; echo start $((n + 1)) as $NAME; exec sleep 1000"
THINGS = [
    {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "names"}, "stringData": {"mine": "jane"}},
    {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}},
    {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "keep"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}},
    {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "replicas": 1, "strategy": {"type": "Recreate"}, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"volumes": [{"name": "keep", "persistentVolumeClaim": {"claimName": "keep"}}],
                     "terminationGracePeriodSeconds": 1,
                     "containers": [{"name": "main", "image": "cadre", "command": ["sh", "-c", COUNTER],
                                     "env": [{"name": "NAME", "valueFrom": {"secretKeyRef": {"name": "names", "key": "mine"}}}],
                                     "volumeMounts": [{"name": "keep", "mountPath": "/keep"}]}]}}}}]


class BackupTest(UpCase):
    def cadre(self, *argv, code=0):
        done = subprocess.run([CADRE, *argv, "--data", self.data], text=True, capture_output=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        if code:
            self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        return done.stderr if code else done.stdout

    @property
    def place(self):
        return self.data.parent

    def starts(self):
        try:
            return (self.data / "node/claims/default/keep/n").read_text().strip()
        except OSError:
            return ""

    def test_all_of_it_runs_again(self):
        self.up()
        self.apply(*THINGS)
        self.ready(1)
        self.wait_for(lambda: self.starts() == "1", "it has written")
        token = self.kubectl(self, "create", "token", "robot").strip()
        claim = self.data / "node/claims/default/keep"
        (claim / "deep/er").mkdir(parents=True)
        (claim / "deep/er/large").write_bytes(b"x" * 5_000_000)
        os.link(claim / "deep/er/large", claim / "again")
        (claim / "out").symlink_to("/etc/hostname")
        (claim / "closed").mkdir(mode=0o500)
        image = self.data / "images/own/1/rootfs"
        image.mkdir(parents=True)
        (image / "file").write_text("of an image")

        up = self.place / "up"
        self.assertRegex(self.cadre("backup", up), f"^{up}: [0-9]+ objects, resourceVersion [0-9]+, [0-9]+ files, [0-9.]+ MB\n$")
        self.assertEqual(up.stat().st_mode & 0o777, 0o600)
        self.assertIn("is there: name a new file", self.cadre("backup", up, code=1))
        with tarfile.open(up) as archive:  # others read it, too
            names = archive.getnames()
            self.assertEqual((names[0], names[-1]), ("backup.json", "sha256"))
            self.assertIn("node/claims/default/keep/deep/er/large", names)
        self.assertIn("in use by process", self.cadre("restore", up, "--force", code=1))
        self.down()
        down = self.place / "down"
        self.cadre("backup", down)
        self.assertIn("has data: name another folder, or lose what is there with --force", self.cadre("restore", down, code=1))
        self.assertEqual(sorted(p.name for p in self.place.iterdir()), ["data", "down", "up"], "nothing else is left")

        for backup in up, down:
            if backup == down:
                self.down()
            shutil.rmtree(self.data)
            self.assertRegex(self.cadre("restore", backup), f"^{self.data}: [0-9]+ objects, resourceVersion [0-9]+, [0-9]+ files\n$")
            self.assertEqual(self.data.stat().st_mode & 0o777, 0o700)
            self.assertEqual((claim / "deep/er/large").stat().st_size, 5_000_000)
            self.assertEqual((claim / "again").stat().st_ino, (claim / "deep/er/large").stat().st_ino)
            self.assertEqual(os.readlink(claim / "out"), "/etc/hostname")
            self.assertEqual((claim / "closed").stat().st_mode & 0o777, 0o500)
            self.assertEqual((image / "file").read_text(), "of an image")
            self.up()
            self.ready(1)
            self.wait_for(lambda: self.starts() == "2", "it has found what it had written")
            self.wait_for(lambda: "start 2 as jane" in self.kubectl(self, "logs", "deploy/web"), "with its Secret")
            server = self.kubectl(self, "config", "view", "-o", "jsonpath={.clusters[0].cluster.server}")
            self.assertIn("system:serviceaccount:default:robot",
                          self.kubectl(self, "--token", token, "--kubeconfig", "/dev/null", "--insecure-skip-tls-verify", "--server",
                                       server, "auth", "whoami"))

    def test_a_backup_under_writes_is_whole(self):
        self.up()
        self.apply(THINGS[2], {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "busy"}, "spec": {
            "terminationGracePeriodSeconds": 1,
            "volumes": [{"name": "keep", "persistentVolumeClaim": {"claimName": "keep"}}],
            "containers": [{"name": "main", "image": "cadre", "volumeMounts": [{"name": "keep", "mountPath": "/keep"}], "command": [
                "sh", "-c", "i=0; while :; do i=$((i + 1)); head -c $((i % 7 * 100000)) /dev/zero > /keep/f$((i % 20)); mkdir -p /keep/d; "
                            "rm -rf /keep/d; ln -sfn /etc /keep/d; rm /keep/d; done"]}]}})
        self.wait_for(lambda: (self.data / "node/claims/default/keep/f1").exists(), "it writes")
        writer = subprocess.Popen(["sh", "-c", f"i=0; while :; do {self.kubectl_words()} create cm c$i --from-literal=a=b; i=$((i + 1)); done"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        self.addCleanup(writer.wait)
        self.addCleanup(os.killpg, writer.pid, signal.SIGKILL)
        for number in range(5):
            self.cadre("backup", self.place / f"b{number}")
        for number in range(5):
            done = subprocess.run([CADRE, "restore", self.place / f"b{number}", "--data", self.place / f"again{number}"], text=True,
                                  capture_output=True, timeout=PATIENCE)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn(b"root:", b"".join(f.read_bytes() for f in (self.place / f"again{number}/node/claims").rglob("*")
                                               if f.is_file()), "no link was followed")

    def kubectl_words(self):
        return f"{tool('which', 'kubectl')} --kubeconfig {self.kubeconfig}"

    def some_backup(self):
        self.up()
        self.apply(*THINGS)
        self.ready(1)
        self.wait_for(lambda: self.starts() == "1", "it has written")
        self.down()
        backup = self.place / "backup"
        self.cadre("backup", backup)
        return backup

    def test_what_is_no_good_backup_touches_nothing(self):
        whole = self.some_backup().read_bytes()
        before = {path: path.lstat().st_mtime_ns for path in self.data.rglob("*") if path.name != "up.pid"}
        bad = self.place / "bad"
        def newer(text):
            return text.replace(b'"version": 1', b'"version": 9')
        middle = bytearray(whole)
        middle[len(whole) // 2] ^= 0x5a
        for content, why in ((b"", "is no backup"), (b"hello\n" * 1000, "is no backup"), (whole[:-1], "cut off"),
                             (whole[:len(whole) // 2], "is damaged"), (bytes(middle), "damaged"), (newer(whole), "from a newer cadre")):
            bad.write_bytes(content)
            self.assertIn(why, self.cadre("restore", bad, "--force", code=1))
        with tarfile.open(bad, "w") as archive:
            about = tarfile.TarInfo("backup.json")
            text = b'{"version": 1}'
            about.size = len(text)
            archive.addfile(about, io.BytesIO(text))
            archive.addfile(tarfile.TarInfo("node/claims/../../../evil"))
        self.assertIn("leads out of its folder", self.cadre("restore", bad, "--force", code=1))
        self.assertIn("is not there", self.cadre("restore", self.place / "none", "--force", code=1))
        self.assertEqual({path: path.lstat().st_mtime_ns for path in self.data.rglob("*") if path.name != "up.pid"}, before)
        self.assertEqual(sorted(p.name for p in self.place.iterdir()), ["backup", "bad", "data"])

    def test_killed_at_any_moment_it_leaves_the_old_or_the_new(self):
        backup = self.some_backup()
        claim = self.data / "node/claims/default/keep"
        seen = set()
        begin = time.monotonic()
        self.cadre("restore", backup, "--force")
        takes = time.monotonic() - begin
        for number in range(KILLS):
            (self.data / "mark").write_text("old")
            (claim / "n").write_text("old")
            restore = subprocess.Popen([CADRE, "restore", backup, "--data", self.data, "--force"], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
            time.sleep(random.uniform(0, takes * 1.2))
            restore.kill()
            restore.wait()
            is_old = (self.data / "mark").exists()
            seen.add(is_old)
            self.assertEqual(self.starts(), "old" if is_old else "1")
            self.assertTrue((self.data / "hub.db").exists() and (self.data / "tokens.key").exists())
        self.cadre("restore", backup, "--force")
        self.assertEqual(self.starts(), "1")
        self.assertEqual(sorted(p.name for p in self.place.iterdir()), ["backup", "data"], "a later one cleans up")
        self.up()
        self.ready(1)

    def test_what_a_killed_one_left_running_ends(self):
        backup = self.some_backup()
        self.up()
        self.ready(1)
        self.process.kill()
        self.process.communicate(timeout=PATIENCE)
        self.assertEqual(len(self.processes()), 1)
        self.cadre("restore", backup, "--force")
        self.assertEqual(self.processes(), [])
        self.up()
        self.ready(1)


if __name__ == "__main__":
    unittest.main()
