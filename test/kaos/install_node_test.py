#!/usr/bin/env python3
"""deploy/ on a cluster with a real node: the operator in its pod, with its own rights, called by the API server."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/cluster"))

from support import ClusterTest, tool, wait_until  # noqa: E402

CADRE = pathlib.Path(os.environ.get("CADRE_BUILD_DIR", ROOT / "build/dev")) / "apps/cadre/cadre"

# The smallest MCP server: what it is asked before its tools are listed, and that.
TOOLS_SERVER = """
import http.server, json, os
TOOLS = os.environ["TOOLS"].split(",")
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = {"jsonrpc": "2.0", "id": asked.get("id")}
        if asked["method"] == "initialize":
            answer["result"] = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                                "serverInfo": {"name": "test", "version": "1"}}
        elif asked["method"] == "tools/list":
            answer["result"] = {"tools": [{"name": t, "inputSchema": {"type": "object"}} for t in TOOLS]}
        else:
            answer["error"] = {"code": -32601, "message": "no such method"}
        body = b"" if "id" not in asked else json.dumps(answer).encode()
        self.send_response(200 if body else 202)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.ThreadingHTTPServer(("", 8000), Handler).serve_forever()
"""


def server(tools):
    return json.dumps({"apiVersion": "kaos.tools/v1alpha1", "kind": "MCPServer",
                       "metadata": {"name": "words", "namespace": "default"},
                       "spec": {"runtime": "custom",
                                "container": {"image": "cadre.test/python:1", "command": ["/usr/bin/python3.11"],
                                              "args": ["-c", TOOLS_SERVER],
                                              "env": [{"name": "TOOLS", "value": tools}]}}})


@unittest.skipIf(os.geteuid() != 0, "a node needs root")
class InstallTest(ClusterTest):
    def test_install_serves_and_goes(self):
        name = self.name("install")
        kubeconfig = self.up("node", name)
        with tempfile.TemporaryDirectory() as work:
            self.load(name, f"{work}/cadre.tar", "cadre.test/cadre:1", "--program", f"{CADRE}=/usr/local/bin/cadre",
                      "--entrypoint", "/usr/local/bin/cadre", "--cmd", "operator")
            self.load(name, f"{work}/python.tar", "cadre.test/python:1", "--program", "/usr/bin/python3.11",
                      "--folder", "/usr/lib/python3.11")

        def kubectl(*argv, **options):
            return self.kubectl(kubeconfig, *argv, **options)

        manifest = subprocess.run([CADRE, "manifests", "install", "--image", "cadre.test/cadre:1"], text=True, check=True,
                                  stdout=subprocess.PIPE).stdout
        kubectl("apply", "--server-side", "-f", "-", input=manifest)
        kubectl("-n", "kaos-system", "rollout", "status", "deployment/kaos-operator-controller-manager", "--timeout=60s")

        with self.subTest("the API server asks the webhook by its Service"):
            blank = json.dumps({"apiVersion": "kaos.tools/v1alpha1", "kind": "MCPServer",
                                "metadata": {"name": "blank", "namespace": "default"},
                                "spec": {"config": {"tools": {"fromString": "  "}}}})
            refused = self.refused(kubeconfig, "create", "--dry-run=server", "-f", "-", input=blank)
            self.assertIn("the source of tools is blank", refused)
        with self.subTest("trap 41: a service account needs a requester who may create pods"):
            kubectl("create", "role", "writer", "--verb=*", "--resource=mcpservers.kaos.tools")
            kubectl("create", "rolebinding", "writer", "--role=writer", "--user=ann")
            borrowing = json.loads(server("a"))
            borrowing["spec"]["serviceAccountName"] = "default"
            refused = self.refused(kubeconfig, "create", "--as=ann", "-f", "-", input=json.dumps(borrowing))
            self.assertIn("only who may create pods in this namespace", refused)
            kubectl("create", "--as=ann", "--dry-run=server", "-f", "-", input=server("a"))

        kubectl("apply", "-f", "-", input=server("reverse,echo"))
        kubectl("wait", "--for=condition=Ready", "mcpserver/words", "--timeout=60s")
        self.assertTools(kubeconfig, ["echo", "reverse"])

        # From outside, an operator goes through the API server.
        kubectl("-n", "kaos-system", "scale", "deployment/kaos-operator-controller-manager", "--replicas=0")
        kubectl("-n", "kaos-system", "wait", "--for=delete", "pod", "-l", "control-plane=controller-manager",
                "--timeout=60s")
        outside = subprocess.Popen([CADRE, "operator", "--kubeconfig", kubeconfig, "--metrics-bind-address=0",
                                    "--health-probe-bind-address=0", "--leader-elect"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(outside.kill)
        kubectl("apply", "-f", "-", input=server("reverse,echo,shout"))
        self.assertTools(kubeconfig, ["echo", "reverse", "shout"])
        outside.send_signal(signal.SIGTERM)
        self.assertEqual(outside.wait(30), 0)

        # Trap 18: without the operator everything can be deleted. What belonged to an object is collected
        # a moment later, or up to a minute when Kubernetes' collector has not met the new kind yet: it looks
        # for kinds every 30 s, and what belongs to a kind that is gone by then it never collects.
        def left():
            return kubectl("get", "deployments,services", "-A", "-l", "app.kubernetes.io/part-of=kaos", "-o", "name")
        kubectl("delete", "--timeout=60s", "mcpserver/words")
        wait_until(lambda: not left(), 180)
        self.assertEqual(left(), "")
        kubectl("create", "-f", "-", input=server("a"))
        kubectl("delete", "--timeout=120s", "-f", "-", input=manifest)
        self.assertNotIn("kaos", kubectl("get", "crds,namespaces", "-o", "name"))

    def load(self, name, archive, image, *argv):
        subprocess.run([ROOT / "tools/image", image, archive, *argv], check=True)
        subprocess.run([ROOT / "tools/cluster", "load", "--name", name, archive], check=True, stdout=subprocess.DEVNULL)

    def refused(self, kubeconfig, *argv, **options):
        """What kubectl says when the webhook refuses; that it is there takes a moment to get around."""
        said = [""]

        def asks():
            done = subprocess.run([tool("which", "kubectl"), f"--kubeconfig={kubeconfig}", *argv], text=True,
                                  capture_output=True, timeout=60, **options)
            said.append(done.stderr)
            return done.returncode == 1 and "is invalid" in done.stderr
        self.assertTrue(wait_until(asks, 20), said[-1])
        return said[-1]

    def assertTools(self, kubeconfig, tools):
        def status():
            return json.loads(self.kubectl(kubeconfig, "get", "mcpserver/words", "-o", "json"))["status"]
        wait_until(lambda: status().get("availableTools") == tools, 60)
        now = status()
        self.assertEqual(now.get("availableTools"), tools, json.dumps(now, indent=1))
        self.assertEqual(now["toolCount"], len(tools))


if __name__ == "__main__":
    unittest.main()
