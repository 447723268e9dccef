#!/usr/bin/env python3
"""KAOS as its users meet it: the seed's kubectl lines, kubectl's habits, Helm, a scrape, and uninstalling."""

import json
import re
import unittest

from operators import DEPLOYMENT, PATIENCE, ROOT, SYSTEM, Kaos, KaosTest, Operator, run
from support import tool

MODEL = """
apiVersion: kaos.tools/v1alpha1
kind: ModelAPI
metadata: {name: llm}
spec: {mode: Proxy, proxyConfig: {models: [gpt, "small/*"]}}
"""
TOOLS = """
apiVersion: kaos.tools/v1alpha1
kind: MCPServer
metadata: {name: echo}
spec: {config: {tools: {fromString: "def echo(text: str): return text"}}}
"""
AGENT = """
apiVersion: kaos.tools/v1alpha1
kind: Agent
metadata: {name: helper}
spec: {modelAPI: llm, model: gpt, mcpServers: [echo]}
"""
# Its pods wait for a node that has a label.
HELD_AGENT = AGENT.replace("[echo]", "[echo], podSpec: {nodeSelector: {free-for: NAMESPACE}}")


def setUpModule():
    KaosTest.kaos = Kaos("kubectl")
    KaosTest.operator = Operator(KaosTest.kaos).start().until_ready()


def all_of(*manifests):
    return "---".join(manifests)


class SeedTest(KaosTest):
    """The lines of the seed, as they are written there."""

    def line(self, text):
        return run("/bin/sh", "-c", text, env=self.kaos.env)

    def test_the_deployed_operator_is_scaled_down_to_run_it_locally(self):
        self.kaos.kubectl("rollout", "status", f"deployment/{DEPLOYMENT}", "-n", SYSTEM, f"--timeout={PATIENCE}s")
        self.addCleanup(self.kaos.kubectl, "scale", "deployment", DEPLOYMENT, "-n", SYSTEM, "--replicas=1")
        said = self.line("""kubectl scale deployment kaos-operator-controller-manager \\
              -n kaos-system --replicas=0""")
        self.assertEqual(said, "deployment.apps/kaos-operator-controller-manager scaled\n")
        self.kaos.until(lambda: not self.kaos.list(SYSTEM, "pod"), "the operator's pod goes")

    def test_logs_are_followed(self):
        self.kaos.kubectl("rollout", "status", f"deployment/{DEPLOYMENT}", "-n", SYSTEM, f"--timeout={PATIENCE}s")
        log = self.background(
            "/bin/sh",
            "-c",
            """exec kubectl logs -n kaos-system \\
              deployment/kaos-operator-controller-manager -f""",
        )
        lines = ""
        while "this program leads" not in lines and len(lines.splitlines()) < 10:
            lines += log.stdout.readline()
        self.assertRegex(lines, r"serving .*systems=kaos")
        self.assertRegex(lines, r"this program leads .*lease=kaos-system/cadre-operator")
        self.assertIsNone(log.poll())

    def test_resources_are_shown_and_watched(self):
        ns = self.kaos.namespace()
        self.kaos.apply(ns, MODEL)
        self.assertIn("modelapi.kaos.tools/llm", self.line("kubectl get agents,modelapis,mcpservers -A"))
        # kubectl itself refuses to watch several kinds at once, whichever they are; one by one it does.
        for kind, manifest in (("mcpservers", TOOLS), ("agents", AGENT)):
            with self.subTest(kind):
                watch = self.background("kubectl", "get", kind, "-n", ns, "-w", "-o", "jsonpath={.status.phase}{'\\n'}")
                self.kaos.apply(ns, manifest)
                seen = []
                while not seen or seen[-1] != "Ready":
                    seen.append(watch.stdout.readline().strip())
                    self.assertIsNone(watch.poll(), seen)


class KubectlTest(KaosTest):
    def test_columns_are_those_of_the_spec(self):
        ns = self.kaos.namespace()
        self.kaos.apply(ns, all_of(MODEL, TOOLS, AGENT))
        self.kaos.ready(ns, "agent/helper", "modelapi/llm", "mcpserver/echo")
        link = "http://{}." + ns + ".svc.cluster.local:8000"
        up = "Deployment ready replicas: 1/1"
        narrow = [
            ["NAME", "MODELAPI", "MODEL", "READY", "PHASE", "AGE"],
            ["agent.kaos.tools/helper", "llm", "gpt", "true", "Ready"],
            ["NAME", "MODE", "READY", "PHASE", "AGE"],
            ["modelapi.kaos.tools/llm", "Proxy", "true", "Ready"],
            ["NAME", "RUNTIME", "READY", "PHASE", "AGE"],
            ["mcpserver.kaos.tools/echo", "python-string", "true", "Ready"],
        ]
        wide = [
            ["NAME", "MODELAPI", "MODEL", "READY", "PHASE", "REPLICAS", "ENDPOINT", "MESSAGE", "AGE"],
            ["agent.kaos.tools/helper", "llm", "gpt", "true", "Ready", "1", link.format("agent-helper"), up],
            ["NAME", "MODE", "READY", "PHASE", "ENDPOINT", "MESSAGE", "AGE"],
            ["modelapi.kaos.tools/llm", "Proxy", "true", "Ready", link.format("modelapi-llm"), up],
            ["NAME", "RUNTIME", "READY", "PHASE", "TOOLS", "ENDPOINT", "MESSAGE", "AGE"],
            ["mcpserver.kaos.tools/echo", "python-string", "true", "Ready", "", link.format("mcpserver-echo"), up],
        ]
        for output, wanted in (("", narrow), ("wide", wide)):
            with self.subTest(output):
                shown = self.kaos.kubectl("get", "agents,modelapis,mcpservers", "-n", ns, "-o", output)
                rows = []
                for header, row in (table.splitlines() for table in shown.strip().split("\n\n")):
                    starts = [column.start() for column in re.finditer(r"\S+", header)]
                    rows.append(header.split())
                    rows.append([row[a:b].strip() for a, b in zip(starts, starts[1:])])  # all but its age
                self.assertEqual(rows, wanted)

    def test_short_names(self):
        ns = self.kaos.namespace()
        self.kaos.apply(ns, all_of(MODEL, TOOLS, AGENT))
        for names, wanted in (
            (("agent", "agents"), "agent.kaos.tools/helper"),
            (("api", "apis"), "modelapi.kaos.tools/llm"),
            (("mcp", "mcps"), "mcpserver.kaos.tools/echo"),
        ):
            for name in names:
                with self.subTest(name):
                    self.assertEqual(self.kaos.kubectl("get", name, "-n", ns, "-o", "name"), wanted + "\n")

    def test_explain(self):
        for field, wanted in (
            ("agents", "waitForDependencies"),
            ("modelapis", "proxyConfig"),
            ("mcpservers", "serviceAccountName"),
            ("agents.spec.waitForDependencies", "<boolean>"),
            ("modelapis.spec.mode", "Hosted"),
            ("mcpservers.spec.config.tools.fromString", "<string>"),
            ("agents.status.conditions.reason", "<string>"),
        ):
            with self.subTest(field):
                self.assertIn(wanted, self.kaos.kubectl("explain", field, "--recursive"))
        for kind in ("agent", "modelapi", "mcpserver"):
            with self.subTest(kind):  # every field of the spec says what it is for
                shown = self.kaos.kubectl("explain", f"{kind}.spec")
                self.assertNotIn("<no description>", shown)

    def test_each_crd_applies_client_side(self):
        crds = (ROOT / "deploy/crds.yaml").read_text().split("\n---\n")
        self.assertEqual(len(crds), 3)
        for crd in crds:
            name = re.search(r"^  name: (\S+)$", crd, re.M)[1]
            with self.subTest(name):
                self.kaos.kubectl("apply", "-f", "-", input=crd)
                kept = json.loads(self.kaos.kubectl("get", "crd", name, "-o", "json"))["metadata"]["annotations"]
                self.assertIn("kubectl.kubernetes.io/last-applied-configuration", kept)

    def test_wait_returns_only_when_ready(self):
        ns = self.kaos.namespace()
        self.kaos.apply(ns, HELD_AGENT.replace("NAMESPACE", ns))
        wait = self.background(
            "kubectl", "wait", "-n", ns, "--for=condition=Ready", "agent/helper", f"--timeout={PATIENCE}s"
        )
        self.kaos.until_condition(ns, "agent", "helper", "Ready", status="False", reason="ModelAPINotFound")
        self.kaos.apply(ns, all_of(MODEL, TOOLS))
        self.kaos.until_condition(ns, "agent", "helper", "WorkloadReady", status="False", reason="PodsNotReady")
        self.assertIsNone(wait.poll())
        self.kaos.kubectl("label", "node", "node-0", f"free-for={ns}", "--overwrite")
        said, _ = wait.communicate(timeout=PATIENCE)
        self.assertEqual((wait.returncode, said), (0, "agent.kaos.tools/helper condition met\n"))
        self.assertTrue(self.kaos.rolled_out(ns, "agent-helper"))

    def test_wait_fails_when_something_is_missing(self):
        ns = self.kaos.namespace()
        self.kaos.apply(ns, AGENT)
        self.assertIn(
            "timed out",
            self.kaos.kubectl("wait", "-n", ns, "--for=condition=Ready", "agent/helper", "--timeout=2s", fails=True),
        )

    def test_scale_agents_and_model_apis(self):
        ns = self.kaos.namespace()
        self.kaos.apply(ns, all_of(MODEL, TOOLS, AGENT))
        self.kaos.ready(ns, "agent/helper", "modelapi/llm")
        for kind, name in (("agent", "helper"), ("modelapi", "llm")):
            for wanted in (3, 0, 1):
                with self.subTest(f"{kind} {wanted}"):
                    self.kaos.kubectl("scale", "-n", ns, f"{kind}/{name}", f"--replicas={wanted}")
                    reason = "Ready" if wanted else "ScaledToZero"
                    self.kaos.until(
                        lambda: self.scale(ns, kind, name)["status"].get("replicas") == wanted,
                        lambda: f"{wanted} replicas in {self.scale(ns, kind, name)}",
                    )
                    self.kaos.until_condition(ns, kind, name, "Ready", reason=reason)
                    self.assertIn(
                        f"Deployment ready replicas: {wanted}/{wanted}",
                        self.kaos.get(ns, kind, name)["status"]["message"],
                    )
                    self.assertEqual(self.kaos.get(ns, "deployment", f"{kind}-{name}")["spec"]["replicas"], wanted)
                    self.assertEqual(self.scale(ns, kind, name)["status"]["selector"], f"app={kind},{kind}={name}")
        self.kaos.kubectl("scale", "-n", ns, "mcpserver/echo", "--replicas=2", fails=True)  # it has no such field

    def scale(self, ns, kind, name):
        return self.kaos.ask(f"apis/kaos.tools/v1alpha1/namespaces/{ns}/{kind}s/{name}/scale")


class HelmTest(KaosTest):
    """Helm 4 waits by kstatus: the generation that a status is about, and the conditions."""

    def install(self, ns, chart, seconds):
        return [tool("which", "helm4"), "install", "team", chart, "-n", ns, "--wait", f"--timeout={seconds}s"]

    def chart(self, ns, *manifests):
        folder = self.kaos.work / f"chart-{ns}"
        (folder / "templates").mkdir(parents=True)
        (folder / "Chart.yaml").write_text("{apiVersion: v2, name: team, version: 0.1.0}")
        (folder / "templates/team.yaml").write_text(all_of(*manifests))
        return folder

    def test_wait_returns_only_when_ready(self):
        ns = self.kaos.namespace()
        chart = self.chart(ns, HELD_AGENT.replace("NAMESPACE", ns), MODEL, TOOLS)
        helm = self.background(*self.install(ns, chart, PATIENCE))
        self.kaos.until(lambda: self.kaos.get(ns, "agent", "helper"), "helm makes the agent")
        self.kaos.until_condition(ns, "agent", "helper", "WorkloadReady", status="False", reason="PodsNotReady")
        self.assertIsNone(helm.poll())
        self.kaos.kubectl("label", "node", "node-0", f"free-for={ns}", "--overwrite")
        said, _ = helm.communicate(timeout=PATIENCE)
        self.assertEqual(helm.returncode, 0, said)
        self.assertIn("STATUS: deployed", said)
        for kind, name in (("agent", "helper"), ("modelapi", "llm"), ("mcpserver", "echo")):
            self.assertTrue(self.kaos.get(ns, kind, name)["status"]["ready"], name)

    def test_wait_fails_by_its_timeout_when_something_is_missing(self):
        ns = self.kaos.namespace()
        said = run(*self.install(ns, self.chart(ns, AGENT, TOOLS), 3), env=self.kaos.env, fails=True)
        self.assertIn(f"Agent/{ns}/helper not ready", said)
        self.assertIn('modelapis.kaos.tools "llm" not found', said)

    def test_wait_does_not_take_for_ready_what_nobody_has_looked_at(self):
        ns = self.kaos.namespace()
        self.operator.stop()
        self.addCleanup(lambda: self.operator.start().until_ready())
        said = run(*self.install(ns, self.chart(ns, MODEL), 2), env=self.kaos.env, fails=True)
        self.assertIn(f"ModelAPI/{ns}/llm not ready", said)


class MetricsTest(KaosTest):
    def test_a_scrape_has_the_known_names(self):
        before = self.operator.metrics()
        ns = self.kaos.namespace()
        self.kaos.apply(ns, all_of(MODEL, TOOLS, AGENT))
        self.kaos.ready(ns, "agent/helper")
        now = self.operator.metrics()
        for controller in ("agent", "modelapi", "mcpserver"):
            with self.subTest(controller):
                one, name = f'{{controller="{controller}"', f'{{name="{controller}"'
                grown = [
                    f'controller_runtime_reconcile_total{one},result="success"}}',
                    f"controller_runtime_reconcile_time_seconds_count{one}}}",
                    f"workqueue_adds_total{name}}}",
                    f"workqueue_queue_duration_seconds_count{name}}}",
                    f"workqueue_work_duration_seconds_count{name}}}",
                ]
                for series in grown:
                    self.assertGreater(now[series], before[series], series)
                there = [
                    f'controller_runtime_reconcile_total{one},result="{result}"}}'
                    for result in ("error", "requeue", "requeue_after")
                ]
                there += [
                    f"controller_runtime_{which}{one}}}"
                    for which in ("active_workers", "max_concurrent_reconciles", "reconcile_errors_total")
                ]
                there += [
                    f"workqueue_{which}{name}}}"
                    for which in (
                        "depth",
                        "retries_total",
                        "unfinished_work_seconds",
                        "longest_running_processor_seconds",
                    )
                ]
                self.assertEqual([series for series in there if series not in now], [])
        self.assertEqual(now['leader_election_master_status{name="cadre-operator"}'], 1)
        host = self.kaos.server["server"].removeprefix("https://")
        made = f'rest_client_requests_total{{code="201",host="{host}",method="POST"}}'
        self.assertGreater(now[made], before.get(made, 0))
        self.assertGreater(now[f'rest_client_request_duration_seconds_count{{host="{host}",verb="POST"}}'], 0)


class SecurityTest(KaosTest):
    def test_a_restricted_namespace_runs_all_built_in_pods(self):
        ns = self.kaos.namespace(**{"pod-security.kubernetes.io/enforce": "restricted"})
        self.assertIn("violates PodSecurity", self.kaos.kubectl("run", "-n", ns, "any", "--image=any", fails=True))
        servers = {
            "source": 'config: {tools: {fromString: "def echo(): pass"}}',
            "package": "config: {tools: {fromPackage: mcp-echo}}",
            "node": 'type: node-runtime, config: {tools: {fromPackage: "@scope/echo"}}',
            "kubernetes": "runtime: kubernetes",
            "slack": "runtime: slack, container: {env: [{name: SLACK_BOT_TOKEN, value: x}, "
            "{name: SLACK_TEAM_ID, value: x}]}",
        }
        models = {
            "llm": "mode: Proxy, proxyConfig: {models: [gpt], masterKey: {generate: true}}",
            "open": "mode: Proxy, proxyConfig: {apiBase: 'http://models'}",
            "own": "mode: Hosted, hostedConfig: {model: small}",
        }
        made = [f"modelapi/{name}" for name in models] + [f"mcpserver/{name}" for name in servers] + ["agent/helper"]
        one = "\napiVersion: kaos.tools/v1alpha1\nkind: {}\nmetadata: {{name: {}}}\nspec: {{{}}}\n"
        self.kaos.apply(
            ns,
            all_of(
                AGENT,
                *(one.format("ModelAPI", *item) for item in models.items()),
                *(one.format("MCPServer", *item) for item in servers.items()),
            ).replace("[echo]", "[source]"),
        )
        self.kaos.ready(ns, *made)
        self.assertEqual(len(self.kaos.list(ns, "pod")), len(made))


class UninstallTest(KaosTest):
    def test_objects_and_namespaces_can_be_deleted_without_the_operator(self):
        ns, other = self.kaos.namespace(), self.kaos.namespace()
        for one in (ns, other):
            self.kaos.apply(one, all_of(MODEL, TOOLS, AGENT))
            self.kaos.ready(one, "agent/helper", "modelapi/llm", "mcpserver/echo")
        self.operator.stop()
        self.addCleanup(self.install_again)
        self.kaos.kubectl("delete", "-f", ROOT / "deploy/rbac.yaml")
        self.kaos.kubectl("delete", "deployment", DEPLOYMENT, "-n", SYSTEM)
        self.kaos.kubectl(
            "delete", "-n", ns, "agent/helper", "modelapi/llm", "mcpserver/echo", f"--timeout={PATIENCE}s"
        )
        self.kaos.until(
            lambda: not self.kaos.children(ns) and not self.kaos.list(ns, "pod"),
            lambda: f"what remains: {[*self.kaos.children(ns)]}",
        )
        self.kaos.kubectl("delete", "namespace", other, f"--timeout={PATIENCE}s")
        run("make", "undeploy", cwd=ROOT, env=self.kaos.env)
        self.assertEqual(self.kaos.kubectl("get", "crds", "-o", "name"), "")
        self.assertIsNone(self.kaos.ask(f"api/v1/namespaces/{SYSTEM}"))

    def install_again(self):
        run("make", "deploy", cwd=ROOT, env=self.kaos.env)
        KaosTest.operator = Operator(self.kaos).start().until_ready()


if __name__ == "__main__":
    unittest.main()
