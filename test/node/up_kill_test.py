"""`cadre up` is killed again and again while pods come and go: each container runs once at a time, and in the end nothing
is left. CADRE_KILLS says how often."""

import json
import os
import random
import signal
import subprocess
import time
import unittest

from ups import PATIENCE, UpCase, wait_until

KILLS = int(os.environ.get("CADRE_KILLS", "6"))

# A second one of the same pod and container would find the lock taken, and leave a mark.
ONCE = 'exec 9> /marks/$POD_UID.lock; flock -n 9 || { touch /marks/twice.$POD_UID; exit 1; }; trap "exit 0" TERM; while :; do sleep 0.05; done'


class UpKillTest(UpCase):
    def deployment(self, name, replicas):
        marks = self.data.parent / "marks"
        marks.mkdir(exist_ok=True)
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web", "part": name}}, "template": {
                "metadata": {"labels": {"app": "web", "part": name}}, "spec": {
                    "terminationGracePeriodSeconds": 2, "volumes": [{"name": "marks", "hostPath": {"path": str(marks)}}],
                    "containers": [{"name": "once", "image": "cadre", "command": ["sh", "-c", ONCE],
                                    "env": [{"name": "POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}],
                                    "volumeMounts": [{"name": "marks", "mountPath": "/marks"}]}]}}}}

    def test_kills(self):
        chance = random.Random(os.environ.get("SEED", "1"))
        self.up()
        self.apply(self.deployment("stays", 2), self.deployment("moves", 2))
        self.ready(4)
        stays = {p["metadata"]["uid"]: p["status"]["containerStatuses"][0]["containerID"] for p in self.pods("part=stays")}
        for number in range(KILLS):
            # In the middle of something: pods are made, others go.
            template = {"spec": {"template": {"metadata": {"annotations": {"number": str(number)}}}}}
            what = chance.choice([["scale", "deploy/moves", f"--replicas={chance.randint(0, 4)}"],
                                  ["patch", "deploy/moves", "-p", json.dumps(template)]])
            self.kubectl(self, *what)
            time.sleep(chance.uniform(0, 0.6))  # anywhere in it
            self.process.send_signal(signal.SIGKILL)
            self.process.communicate(timeout=PATIENCE)
            self.up()
        self.kubectl(self, "scale", "deploy/moves", "--replicas=3")
        self.ready(5)
        self.assertEqual({p["metadata"]["uid"]: p["status"]["containerStatuses"][0]["containerID"] for p in self.pods("part=stays")},
                         stays, "what nobody touched runs on")
        self.assertEqual([f.name for f in (self.data.parent / "marks").glob("twice.*")], [])
        # As many shims as containers, and as many folders as pods.
        def left():
            return len(self.processes()), len(list((self.data / "runs").iterdir()))
        wait_until(lambda: left() == (5, 5), PATIENCE)
        self.assertEqual(left(), (5, 5), "something is left over")
        self.down()
        held = [f.name for f in (self.data.parent / "marks").glob("*.lock")
                if subprocess.run(["flock", "-n", f, "true"]).returncode != 0]
        self.assertEqual(held, [], "a container outlived its end")


if __name__ == "__main__":
    unittest.main()
