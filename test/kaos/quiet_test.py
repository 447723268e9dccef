#!/usr/bin/env python3
"""Two operators side by side: nothing is written when all is done, and else by the one that leads alone."""

import signal
import unittest

from operators import ACCOUNT, OURS, PATIENCE, ROOT, SYSTEM, Kaos, Operator, run
from support import wait_until

# Objects that are well, and such that will stay unwell for all kinds of reasons.
MANIFESTS = """
apiVersion: kaos.tools/v1alpha1
kind: ModelAPI
metadata: {name: llm}
spec: {mode: Proxy, proxyConfig: {models: [gpt], masterKey: {generate: true}}}
---
apiVersion: kaos.tools/v1alpha1
kind: ModelAPI
metadata: {name: own}
spec: {mode: Hosted, hostedConfig: {model: small}}
---
apiVersion: kaos.tools/v1alpha1
kind: ModelAPI
metadata: {name: keyless}
spec: {mode: Proxy, proxyConfig: {models: [gpt], apiKey: {valueFrom: {secretKeyRef: {name: missing, key: key}}}}}
---
apiVersion: kaos.tools/v1alpha1
kind: MCPServer
metadata: {name: echo}
spec: {config: {tools: {fromString: "def echo(): pass"}}}
---
apiVersion: kaos.tools/v1alpha1
kind: MCPServer
metadata: {name: unknown}
spec: {runtime: nobody-knows}
---
apiVersion: kaos.tools/v1alpha1
kind: Agent
metadata: {name: helper}
spec: {modelAPI: llm, mcpServers: [echo], agentNetwork: {access: [other]}, config: {instructions: one}}
---
apiVersion: kaos.tools/v1alpha1
kind: Agent
metadata: {name: other}
spec: {modelAPI: own, agentNetwork: {access: [helper]}, config: {telemetry: {enabled: true}}}
---
apiVersion: kaos.tools/v1alpha1
kind: Agent
metadata: {name: lost}
spec: {modelAPI: keyless}
---
apiVersion: kaos.tools/v1alpha1
kind: Agent
metadata: {name: nowhere}
spec: {modelAPI: llm, podSpec: {nodeSelector: {no: such-node}}}
---
apiVersion: kaos.tools/v1alpha1
kind: Agent
metadata: {name: idle}
spec: {modelAPI: llm, replicas: 0}
"""
READY = {"llm", "own", "echo", "helper", "other"}
UNWELL = {"keyless": "Waiting", "unknown": "Failed", "lost": "Waiting", "nowhere": "Pending", "idle": "Pending"}
SECOND = "second-operator"


def deploy(kaos):
    run("make", "deploy", cwd=ROOT, env=kaos.env)
    kaos.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    # The second operator may do the same, under a name of its own in the audit.
    kaos.kubectl("create", "serviceaccount", SECOND, "-n", SYSTEM)
    kaos.kubectl(
        "create", "clusterrolebinding", SECOND, f"--clusterrole={ACCOUNT}", f"--serviceaccount={SYSTEM}:{SECOND}"
    )
    kaos.kubectl(
        "create", "rolebinding", SECOND, f"--role={ACCOUNT}", f"--serviceaccount={SYSTEM}:{SECOND}", "-n", SYSTEM
    )


def said(status):
    return {(one["type"], one["status"], one["message"]) for one in status.get("conditions", ())}


class QuietTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kaos = Kaos("quiet", deploy)
        cls.leader = Operator(cls.kaos).start().until_ready()
        cls.kaos.until(cls.leader.leads, "the first operator leads")
        cls.waiting = Operator(cls.kaos, SECOND).start().until_ready()
        cls.ns = cls.kaos.namespace()
        cls.kaos.apply(cls.ns, MANIFESTS)
        cls.kaos.until(cls.settled, lambda: f"{cls.phases()}")

    @classmethod
    def phases(cls):
        return {
            one["metadata"]["name"]: one.get("status", {}).get("phase")
            for kind in OURS
            for one in cls.kaos.list(cls.ns, kind)
        }

    @classmethod
    def settled(cls):
        """Every object shows what it will go on showing, and its Deployment's state as it is."""
        for kind in OURS:
            for one in cls.kaos.list(cls.ns, kind):
                deployment = cls.kaos.get(cls.ns, "deployment", f"{kind}-{one['metadata']['name']}")
                shown = one.get("status", {}).get("deployment", {})
                if deployment and said(deployment["status"]) != said(shown):
                    return False
        # Its tools were looked for, in vain: nothing runs in these pods.
        looked = cls.kaos.condition(cls.ns, "mcpserver", "echo", "ToolsDiscovered").get("reason") == "Unreachable"
        return looked and cls.phases() == dict(UNWELL, **dict.fromkeys(READY, "Ready"))

    def test_1_zero_writes_in_60_s_when_all_is_done(self):
        begin = self.kaos.mark()

        def wrote():
            return self.kaos.writes(begin) + self.kaos.writes(begin, SECOND)

        wait_until(wrote, 60)
        self.assertEqual(wrote(), [])
        # It was there all the time, and its lease tells so.
        self.assertTrue(self.leader.leads())
        self.assertTrue(
            [
                one
                for one in self.kaos.requests(begin)
                if one.get("objectRef", {}).get("name") == "cadre-operator"
                and one["user"]["username"].endswith(ACCOUNT)
            ]
        )

    def test_2_one_leads_and_the_other_waits(self):
        self.assertTrue(self.leader.leads())
        self.assertFalse(self.waiting.leads())
        self.assertTrue(self.kaos.writes())
        self.assertEqual(self.kaos.writes(account=SECOND), [])

    def test_3_a_leader_that_was_stopped_past_its_lease_writes_nothing_more(self):
        self.leader.send(signal.SIGSTOP)
        begin = self.kaos.mark()
        self.edit("two")
        self.kaos.kubectl("delete", "-n", self.ns, "service/agent-other", "configmap/agent-helper")
        self.kaos.until(self.waiting.leads, "the second operator leads")
        self.kaos.until(lambda: self.instructed("two"), "the second operator does what is to be done")
        # There is something to do for both when the first one goes on.
        self.edit("three")
        self.kaos.kubectl("delete", "-n", self.ns, "service/agent-helper", "deployment/modelapi-own")
        self.leader.send(signal.SIGCONT)
        wait_until(lambda: self.leader.process.poll() is not None, PATIENCE)
        self.kaos.until(lambda: self.instructed("three"), "the second operator goes on")
        for kind, name in (("service", "agent-other"), ("service", "agent-helper"), ("deployment", "modelapi-own")):
            self.kaos.until(lambda: self.kaos.get(self.ns, kind, name), f"{name} is back")
        self.assertEqual(self.kaos.writes(begin), [])
        self.assertTrue(self.kaos.writes(begin, SECOND))
        self.assertEqual(self.leader.process.poll(), 1, "who has lost the lease starts anew")
        self.assertEqual(self.kaos.forbidden(), [])

    def edit(self, instructions):
        self.kaos.kubectl(
            "patch",
            "-n",
            self.ns,
            "agent/helper",
            "--type=merge",
            f'--patch={{"spec":{{"config":{{"instructions":"{instructions}"}}}}}}',
        )

    def instructed(self, text):
        config = self.kaos.get(self.ns, "configmap", "agent-helper")
        return config and config["data"]["instructions"] == text


if __name__ == "__main__":
    unittest.main()
