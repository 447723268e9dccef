"""The everyday verbs of `cadre`, as a person uses them: on `cadre up`, with pods that run."""

import os
import subprocess
import unittest

from ups import CADRE, PATIENCE, UpCase

SHOP = """
apiVersion: example.com/v1
kind: Shop
metadata: {name: corner, namespace: town}
spec: {open: true}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: town}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - name: web
          image: cadre
          command: [sh, -c, "echo hello from $NAME; trap 'exit 0' TERM; while :; do sleep 0.1; done"]
          env: [{name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: API_KEY, value: sesame}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: once, namespace: town}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: work, image: cadre, command: [sh, -c, "for i in 1 2 3; do echo line $i; sleep 0.2; done"]}]
---
apiVersion: v1
kind: Namespace
metadata: {name: town}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shops.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: shops, singular: shop, kind: Shop}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""


class VerbsTest(UpCase):
    def cadre(self, *argv, code=0, **options):
        """What it printed, and what it said."""
        env = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
        done = subprocess.run([CADRE, *map(str, argv)], text=True, capture_output=True, timeout=PATIENCE * 2,
                              env={**env, "KUBECONFIG": str(self.kubeconfig), **options.pop("env", {})}, **options)
        self.assertEqual(done.returncode, code, f"{argv}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
        return done.stdout, done.stderr

    def test_a_day(self):
        self.up()
        out, _ = self.cadre("apply", "-f", "-", input=SHOP)
        self.assertEqual(out.splitlines(), [
            "namespace/town created", "customresourcedefinition.apiextensions.k8s.io/shops.example.com created",
            "shop.example.com/corner created", "deployment.apps/web created", "job.batch/once created"])
        self.assertIn("shop.example.com/corner unchanged\n", self.cadre("apply", "-f", "-", input=SHOP)[0])
        town = ("-n", "town")

        # Follows what has just begun, and ends with it.
        out, _ = self.cadre("logs", "-f", "job/once", *town)
        self.assertEqual([line.split("] ")[1] for line in out.splitlines()], ["line 1", "line 2", "line 3"])
        self.assertIn("job.batch/once condition met",
                      self.cadre("wait", "job/once", "--for", "condition=Complete", "--timeout", f"{PATIENCE}s", *town)[0])
        self.assertIn("deployment.apps/web condition met",
                      self.cadre("wait", "deploy/web", "--for", "condition=Available", "--timeout", f"{PATIENCE}s", *town)[0])
        out, _ = self.cadre("wait", "pods", "-l", "app=web", "--for", "condition=Ready", "--timeout", f"{PATIENCE}s", *town)
        pods = sorted(line.split()[0].removeprefix("pod/") for line in out.splitlines())
        self.assertEqual(len(pods), 2, out)

        self.assertEqual(sorted(self.cadre("logs", "deploy/web", *town)[0].splitlines()),
                         [f"[{pod}] hello from {pod}" for pod in pods])
        self.assertEqual(self.cadre("logs", pods[0], "--tail", "1", *town)[0], f"hello from {pods[0]}\n")

        told, _ = self.cadre("describe", "deploy", "web", *town)
        self.assertIn("State:        ready\n", told)
        self.assertIn("  replicaset.apps/web-", told)
        self.assertIn("(not shown)", told)
        self.assertNotIn("sesame", told)
        self.assertIn("deploy", self.cadre("complete", "describe", "depl")[0])
        self.assertIn(f"{pods[0]}\tPod", self.cadre("complete", "logs", *town, pods[0][:3])[0])
        self.assertIn("no events found", "".join(self.cadre("events", "-n", "kube-system")))

        # What is not there, or does not come, is told by the code.
        self.cadre("wait", "deploy/web", "--for", "condition=Nice", "--timeout", "1s", *town, code=1)
        self.cadre("logs", "none", *town, code=1)
        self.cadre("delete", "pod", "none", *town, code=1)
        self.cadre("delete", "pods", *town, code=2)

        self.assertEqual(self.cadre("delete", "job/once", *town)[0], "job.batch/once deleted\n")
        follower = subprocess.Popen([CADRE, "logs", "-f", "deploy/web", *town], text=True, stdout=subprocess.PIPE,
                                    env={**os.environ, "KUBECONFIG": str(self.kubeconfig)})
        self.addCleanup(lambda: follower.poll() is None and follower.kill())
        follower.stdout.readline()
        out, _ = self.cadre("delete", "-f", "-", "--timeout", f"{PATIENCE}s", "--ignore-not-found", input=SHOP)
        self.assertIn("namespace/town deleted\n", out)
        rest, _ = follower.communicate(timeout=PATIENCE)
        self.assertEqual(follower.returncode, 0, rest)
        self.cadre("get", "ns", "town", code=1)

    def test_what_runs_here_is_found_without_being_told(self):
        home = self.data.parent
        self.data = home / ".cadre"
        self.kubeconfig = self.data / "kubeconfig"
        self.up()
        env = {name: value for name, value in os.environ.items()
               if name not in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST")}
        done = subprocess.run([CADRE, "get", "nodes"], text=True, capture_output=True, timeout=PATIENCE,
                              env={**env, "HOME": str(home)})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.down()
        done = subprocess.run([CADRE, "get", "nodes"], text=True, capture_output=True, timeout=PATIENCE,
                              env={**env, "HOME": str(home)})
        self.assertEqual(done.returncode, 1)
        self.assertIn("no cluster is configured", done.stderr)

    def test_bash_completes(self):
        self.up()
        script = """
          PATH=$(dirname "$1"):$PATH
          source <(cadre completions bash)
          compopt() { echo "files"; }
          offer() { COMP_WORDS=(cadre "$@"); COMP_CWORD=$#; _cadre; echo "${COMPREPLY[*]}"; }
          offer descr; offer get deployments.; offer get namesp; offer get namespaces def; offer apply -f ""
        """
        done = subprocess.run(["bash", "-c", script, "bash", CADRE], text=True, capture_output=True, timeout=PATIENCE,
                              env={**os.environ, "KUBECONFIG": str(self.kubeconfig)})
        self.assertEqual(done.stdout.splitlines(), ["describe", "", "namespaces", "default", "files", ""], done.stderr)


if __name__ == "__main__":
    unittest.main()
