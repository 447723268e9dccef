#!/usr/bin/env python3
"""Who may do little: an answer of cadre plan and cadre why at once, and no identity but their own."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/cluster"))

from support import ClusterTest, tool, wait_until  # noqa: E402

CADRE = pathlib.Path(os.environ.get("CADRE_BUILD_DIR", ROOT / "build/dev")) / "apps/cadre/cadre"
AT_ONCE = 15  # seconds, on a busy machine; who waits in vain takes twice that
SERVER = """
apiVersion: kaos.tools/v1alpha1
kind: MCPServer
metadata: {name: words}
spec: {config: {tools: {fromString: "def echo(text: str): return text"}}}
"""
HIDDEN = "cadre: you may not watch httproutes in namespace shop, configmaps/kaos-mcp-runtimes in namespace kaos-system: "
KEY = "cadre: reading the Secret kaos-system/cadre-hash-key: "


class RightsTest(ClusterTest):
    def test_what_may_not_be_seen_is_named_at_once(self):
        admin = self.up("api", self.name("rights"))
        self.kubectl(admin, "create", "namespace", "kaos-system")
        self.kubectl(admin, "create", "namespace", "shop")
        self.kubectl(admin, "apply", "--server-side", "-f", str(ROOT / "deploy/crds.yaml"))
        self.kubectl(admin, "wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        manifest = folder / "server.yaml"
        manifest.write_text(SERVER)
        self.kubectl(admin, "apply", "-n", "shop", "-f", str(manifest))

        def cadre(user, command, *argv):
            config = json.loads(self.kubectl(admin, "config", "view", "--raw", "--minify", "-o", "json"))
            config["users"][0]["user"]["as"] = user
            (folder / user).write_text(json.dumps(config))
            return subprocess.run([CADRE, command, "--kubeconfig", folder / user, "-n", "shop", *argv],
                                  text=True, capture_output=True, timeout=AT_ONCE)

        def allow(user, ns, *resources):
            name = f"{user}-{ns}"
            self.kubectl(admin, "create", "role", name, "-n", ns, "--verb=get,list,watch",
                         f"--resource={','.join(resources)}")
            self.kubectl(admin, "create", "rolebinding", name, "-n", ns, f"--role={name}", f"--user={user}")

        own = ["agents.kaos.tools", "modelapis.kaos.tools", "mcpservers.kaos.tools", "deployments.apps", "services",
               "pods", "configmaps"]
        allow("ann", "shop", *own, "secrets")
        allow("bob", "shop", *own)
        allow("cid", "shop", *own, "secrets")
        allow("cid", "kaos-system", "configmaps", "secrets")

        for user, said in (
            ("ann", [HIDDEN, KEY]),
            ("cid", ["cadre: you may not watch httproutes in namespace shop: ", KEY]),
        ):
            with self.subTest(user):
                done = cadre(user, "plan", "-f", manifest)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("+ Deployment shop/mcpserver-words\n", done.stdout)
                lines = done.stderr.splitlines()
                self.assertEqual([line[: len(start)] for line, start in zip(lines, said, strict=True)], said)
                done = cadre(user, "why", "mcpserver/words")
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("MCPServer shop/words is not ready: RollingOut", done.stdout)

        # What would be said without these is not what the operator does.
        for user, options, kinds in (
            ("bob", [], "secrets"),
            ("ann", ["--kaos-gateway"], "httproutes"),
            ("eve", [], "agents, modelapis, mcpservers, deployments, services, pods, configmaps, secrets"),
        ):
            with self.subTest(user):
                done = cadre(user, "plan", "-f", manifest, *options)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                places = ", ".join(f"{kind} in namespace shop" for kind in kinds.split(", "))
                self.assertEqual(done.stderr.splitlines()[-1],
                                 f"cadre: you may not watch {places}: ask for the right to get, list and watch them")

    def test_what_lends_an_identity_is_not_taken_unseen(self):
        """Trap 41, while the webhook is away: nobody can say who asks."""
        admin = self.up("api", self.name("guard"))
        documents = (ROOT / "deploy/install.yaml").read_text().split("\n---\n")
        mine = [one for one in documents if "\nkind: ValidatingWebhookConfiguration\n" in one]
        self.kubectl(admin, "apply", "--server-side", "-f", str(ROOT / "deploy/crds.yaml"))
        self.kubectl(admin, "wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")

        def taken(spec, name="other", dry_run="server"):
            manifest = {"apiVersion": "kaos.tools/v1alpha1", "kind": "MCPServer",
                        "metadata": {"name": name, "namespace": "default"}, "spec": spec}
            done = subprocess.run([tool("which", "kubectl"), f"--kubeconfig={admin}", "create", "-f", "-",
                                   f"--dry-run={dry_run}"],
                                  input=json.dumps(manifest), text=True, capture_output=True, timeout=60)
            self.assertTrue(done.returncode == 0 or "guard.kaos.tools" in done.stderr, done.stderr)
            return done.returncode == 0

        lent = {"mcp": "a", "serviceAccountName": "admin"}
        self.assertTrue(taken(lent, "words", "none"))
        self.kubectl(admin, "apply", "-f", "-", input=mine[0])
        self.assertTrue(wait_until(lambda: not taken(lent)))
        for spec, harmless in (
            ({"mcp": "a"}, True),
            ({"mcp": "a", "podSpec": {"nodeSelector": {"a": "b"}}}, True),
            ({"mcp": "a", "container": {"image": "x"}}, True),
            ({"runtime": "kubernetes"}, True),
            ({"mcp": "a", "podSpec": {"serviceAccount": "admin"}}, False),
            ({"mcp": "a", "podSpec": {"automountServiceAccountToken": True}}, False),
            ({"mcp": "a", "podSpec": {"hostNetwork": True}}, False),
            ({"mcp": "a", "podSpec": {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}}, False),
            ({"mcp": "a", "podSpec": {"containers": [{"name": "mcp-server", "image": "x"}]}}, False),
            ({"mcp": "a", "podSpec": {"initContainers": [{"name": "first", "image": "x"}]}}, False),
            ({"runtime": "kubernetes", "container": {"image": "x"}}, False),
        ):
            with self.subTest(spec):
                self.assertEqual(taken(spec), harmless)
        # What runs does not change: it can be labelled, and it can go.
        self.kubectl(admin, "label", "mcpserver/words", "a=b")
        self.kubectl(admin, "patch", "mcpserver/words", "--type=merge", "-p", '{"metadata":{"finalizers":[]}}')


if __name__ == "__main__":
    unittest.main()
