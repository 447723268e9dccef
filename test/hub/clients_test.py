"""The clients that people have, on the hub: kubectl and helm as they come."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

from hubs import PATIENCE, ROOT, HubTest, tool, wait_until

sys.path.insert(0, str(ROOT / "tools/cluster.d"))

from build import go_program  # noqa: E402

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
        - {name: web, image: "web:1", ports: [{containerPort: 80}], resources: {requests: {cpu: 100m}}}
"""


class KubectlTest(HubTest):
    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.TemporaryDirectory()  # kubectl's cache of what a server has
        cls.addClassCleanup(cls.home.cleanup)

    def setUp(self):
        self.one = self.hub("--fast")
        self.env = {"HOME": self.home.name}

    def k(self, *argv, **options):
        return self.kubectl(self.one, *argv, env={**self.env, **options.pop("env", {})}, **options)

    def test_apply_on_the_clients_side(self):
        self.assertIn("created", self.k("apply", "-f", "-", input=DEPLOYMENT))
        self.assertIn("unchanged", self.k("apply", "-f", "-", input=DEPLOYMENT))
        changed = DEPLOYMENT.replace("replicas: 2", "replicas: 3").replace(", resources: {requests: {cpu: 100m}}", "")
        said = self.k("diff", "-f", "-", input=changed, fails=True) or ""
        self.assertEqual(said, "")
        self.assertIn("configured", self.k("apply", "-f", "-", input=changed))
        web = json.loads(self.k("get", "deployment", "web", "-o", "json"))
        self.assertEqual(web["spec"]["replicas"], 3)
        self.assertEqual(web["spec"]["template"]["spec"]["containers"][0].get("resources", {}), {})
        self.assertEqual(web["metadata"]["generation"], 2)

    def test_apply_of_a_list(self):
        things = {"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}} for name in ("one", "two")]}
        self.assertIn("configmap/two created", self.k("apply", "-f", "-", input=json.dumps(things)))
        self.assertIn("unchanged", self.k("apply", "-f", "-", input=json.dumps(things)))
        things["items"][1]["dat"] = {}
        self.assertIn('unknown field "dat"', self.k("apply", "-f", "-", input=json.dumps(things), fails=True))

    def test_apply_on_the_servers_side(self):
        self.k("apply", "--server-side", "-f", "-", input=DEPLOYMENT)
        mine = DEPLOYMENT.replace("replicas: 2", "replicas: 5")
        refused = self.k("apply", "--server-side", "--field-manager=other", "-f", "-", input=mine, fails=True)
        self.assertIn("Apply failed with 1 conflict", refused)
        self.assertIn(".spec.replicas", refused)
        self.k("apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", "-", input=mine)
        self.assertEqual(self.k("get", "deploy/web", "-o", "jsonpath={.spec.replicas}"), "5")

    def test_everyday(self):
        k = self.k
        k("create", "namespace", "shop")
        k("create", "configmap", "colors", "-n", "shop", "--from-literal=wall=white")
        k("create", "secret", "generic", "key", "-n", "shop", "--from-literal=a=b")
        k("create", "serviceaccount", "robot", "-n", "shop")
        k("label", "configmap/colors", "-n", "shop", "app=paint")
        k("annotate", "configmap/colors", "-n", "shop", "note=fine")
        self.assertIn("colors   1", k("get", "configmaps", "-n", "shop", "-l", "app=paint"))
        self.assertEqual(k("get", "secret/key", "-n", "shop", "-o", "jsonpath={.data.a}"), "Yg==")
        edited = k("edit", "configmap/colors", "-n", "shop", env={"EDITOR": "sed -i s/white/blue/"})
        self.assertIn("edited", edited)
        self.assertEqual(k("get", "cm/colors", "-n", "shop", "-o", "jsonpath={.data.wall}"), "blue")
        k("patch", "cm/colors", "-n", "shop", "--type=json", "-p", '[{"op":"add","path":"/data/door","value":"red"}]')
        self.assertIn("door", k("describe", "cm/colors", "-n", "shop"))
        self.assertIn("containerPort", k("explain", "pod.spec.containers.ports"))
        self.assertIn("deployments", k("api-resources", "--api-group=apps"))
        self.assertIn('apiserver_storage_objects{resource="configmaps"} 1', k("get", "--raw", "/metrics"))
        self.assertRegex(k("get", "--raw", "/metrics"), r'apiserver_request_total\{verb="create".*resource="configmaps".*code="201"\} 1')
        self.assertIn("yes", k("auth", "can-i", "create", "pods", "-n", "shop"))
        self.assertIn("NAME", k("get", "all,cm,secret,sa", "-n", "shop"))
        k("apply", "-n", "shop", "-f", "-", input=DEPLOYMENT)
        k("scale", "deployment/web", "-n", "shop", "--replicas=4")
        self.assertEqual(k("get", "deploy/web", "-n", "shop", "-o", "jsonpath={.spec.replicas}"), "4")
        self.assertIn("0/4", k("get", "deploy/web", "-n", "shop"))
        k("set", "image", "deployment/web", "web=web:2", "-n", "shop")
        k("wait", "--for=jsonpath={.spec.replicas}=4", "deploy/web", "-n", "shop", "--timeout=30s")
        k("replace", "-n", "shop", "-f", "-", input=k("get", "deploy/web", "-n", "shop", "-o", "yaml"))
        k("delete", "namespace", "shop", "--timeout=60s")
        self.assertIn("not found", k("get", "namespace", "shop", fails=True))

    def test_deletion_with_each_propagation(self):
        for policy, stays in (("background", False), ("foreground", False), ("orphan", True)):
            with self.subTest(policy):
                name = policy[:4]
                self.k("create", "configmap", name)
                uid = self.k("get", "cm", name, "-o", "jsonpath={.metadata.uid}")
                self.k("apply", "-f", "-", input=json.dumps(
                    {"apiVersion": "v1", "kind": "Secret",
                     "metadata": {"name": name, "ownerReferences": [
                         {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid,
                          "blockOwnerDeletion": True}]}}))
                self.k("delete", "cm", name, f"--cascade={policy}", "--timeout=60s")
                there = lambda: name in self.k("get", "secrets", "-o", "name")
                if stays:
                    self.assertTrue(there())
                    self.assertEqual(self.k("get", "secret", name, "-o", "jsonpath={.metadata.ownerReferences}"), "")
                else:
                    self.assertTrue(wait_until(lambda: not there(), PATIENCE))


class HelmTest(HubTest):
    """A chart with hooks, through its life."""

    def chart(self, folder):
        files = {
            "Chart.yaml": "apiVersion: v2\nname: shop\nversion: 0.1.0\n",
            "values.yaml": "color: white\n",
            "templates/configmap.yaml": """
                apiVersion: v1
                kind: ConfigMap
                metadata: {name: "{{ .Release.Name }}-colors"}
                data: {wall: "{{ .Values.color }}"}
                """,
            "templates/deployment.yaml": DEPLOYMENT.replace("name: web, labels", 'name: "{{ .Release.Name }}-web", labels'),
            "templates/service.yaml": """
                apiVersion: v1
                kind: Service
                metadata: {name: "{{ .Release.Name }}"}
                spec: {selector: {app: web}, ports: [{port: 80}], clusterIP: None}
                """,
            "templates/hook.yaml": """
                apiVersion: v1
                kind: ConfigMap
                metadata:
                  name: "{{ .Release.Name }}-before"
                  annotations: {helm.sh/hook: "pre-install,pre-upgrade", helm.sh/hook-delete-policy: before-hook-creation}
                data: {color: "{{ .Values.color }}"}
                """,
        }
        for name, text in files.items():
            path = pathlib.Path(folder) / "shop" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        return str(pathlib.Path(folder) / "shop")

    def test_life_of_a_release(self):
        for helm in ("helm", "helm4"):
            with self.subTest(helm), tempfile.TemporaryDirectory() as home:
                hub = self.hub("--fast")
                chart = self.chart(home)
                env = {"HOME": home}

                def run(*argv, **options):
                    return self.run_on(hub, tool("which", helm), *argv, env=env, **options)

                def wall():
                    return self.kubectl(hub, "get", "cm", "r-colors", "-o", "jsonpath={.data.wall}")
                run("install", "r", chart)
                self.assertEqual(wall(), "white")
                run("upgrade", "r", chart, "--set", "color=blue")
                self.assertEqual(wall(), "blue")
                self.assertEqual(self.kubectl(hub, "get", "cm", "r-before", "-o", "jsonpath={.data.color}"), "blue")
                run("rollback", "r", "1")
                self.assertEqual(wall(), "white")
                self.assertEqual(len(json.loads(run("history", "r", "-o", "json"))), 3)
                run("uninstall", "r")
                self.assertNotIn("r-colors", self.kubectl(hub, "get", "cm", "-o", "name"))


class OthersTest(HubTest):
    def test_the_official_python_client(self):
        hub = self.hub("--fast")
        python = self.run_on(hub, ROOT / "tools/python-env", ROOT / "test/hub/requirements.txt").strip()
        self.assertIn("all of it", self.run_on(hub, python, ROOT / "test/hub/client.py", hub.kubeconfig))

    def test_client_go(self):
        """Informers and leader election, as every controller in Go has them."""
        hub = self.hub("--fast")
        with tempfile.TemporaryDirectory() as folder:
            env = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "-trimpath -buildvcs=false -mod=readonly"}
            subprocess.run([go_program(), "build", "-o", f"{folder}/informers", "."], check=True,
                           cwd=ROOT / "test/hub/informers", env={**os.environ, **env})
            self.assertIn("all of it", self.run_on(hub, f"{folder}/informers", hub.kubeconfig))

    def test_kube_controller_manager(self):
        """Its election, informers and two of its controllers, beside the hub's own."""
        hub = self.hub("--fast")
        with tempfile.NamedTemporaryFile("w+") as log:
            manager = subprocess.Popen(
                [tool("which", "kube-controller-manager"), "--kubeconfig", hub.kubeconfig, "--secure-port=0",
                 "--kube-api-content-type=application/json", "--leader-elect=true",
                 "--controllers=namespace-controller,garbage-collector-controller"], stdout=log, stderr=subprocess.STDOUT)
            self.addCleanup(lambda: manager.poll() is None and manager.kill())

            def said():
                return pathlib.Path(log.name).read_text()
            self.assertTrue(wait_until(lambda: "all resource monitors have synced" in said(), PATIENCE), said()[-4000:])
            self.kubectl(hub, "create", "namespace", "shop")
            self.kubectl(hub, "create", "configmap", "a", "-n", "shop")
            self.kubectl(hub, "delete", "namespace", "shop", "--timeout=60s")
            self.assertIn("kube-controller-manager", self.kubectl(hub, "get", "leases", "-n", "kube-system"))
            # That a busy machine is late with a lease is no fault of the hub.
            errors = [line for line in said().splitlines() if line.startswith("E") and "leaderelection" not in line]
            manager.terminate()
            manager.wait(PATIENCE)
            self.assertEqual(errors, [])


if __name__ == "__main__":
    unittest.main()
