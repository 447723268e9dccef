#!/usr/bin/env python3
"""What a change of an object changes: what `cadre plan` said, the pods concerned, and nothing else."""

import copy
import json
import re
import unittest

from operators import SYSTEM, Kaos, KaosTest, Operator


def setUpModule():
    KaosTest.kaos = Kaos("changes")
    KaosTest.operator = Operator(KaosTest.kaos).start().until_ready()


def manifest(kind, name, **spec):
    return {"apiVersion": "kaos.tools/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def proxy(name, *models, **more):
    return manifest("ModelAPI", name, mode="Proxy", proxyConfig=dict(models=list(models), **more))


def tools(name, source="def echo(): pass"):
    return manifest("MCPServer", name, config={"tools": {"fromString": source}})


def agent(name, **spec):
    return manifest("Agent", name, **dict({"modelAPI": "llm", "model": "gpt"}, **spec))


class ChangesTest(KaosTest):
    def setUp(self):
        super().setUp()
        self.ns = self.kaos.namespace()

    def apply(self, *objects):
        """Applies them, and waits until the operator has done all that it does for them."""
        self.kaos.apply(self.ns, "\n---\n".join(map(json.dumps, objects)))
        self.kaos.until(
            lambda: all(self.seen(one) for one in objects), lambda: f"a look at {[self.is_(o) for o in objects]}"
        )

    def is_(self, one):
        return self.kaos.get(self.ns, one["kind"].lower(), one["metadata"]["name"])

    def seen(self, one):
        is_ = self.is_(one)
        return is_["status"]["observedGeneration"] == is_["metadata"]["generation"]

    def ready(self, *objects):
        self.kaos.ready(self.ns, *(f"{one['kind'].lower()}/{one['metadata']['name']}" for one in objects))

    def fence(self):
        """Whatever was changed before this has been looked at after it: an operator takes objects in their turn."""
        number = next(self.kaos.numbers)
        self.apply(
            proxy("fence", f"m{number}"),
            tools("fence", f"def t{number}(): pass"),
            agent("fence", modelAPI="fence", model=f"m{number}", mcpServers=["fence"]),
        )
        fence = {"modelapi-fence", "mcpserver-fence", "agent-fence"}
        for name in fence:
            self.kaos.until(lambda: self.kaos.rolled_out(self.ns, name), f"{name} is rolled out")
        self.idle()
        return fence

    def idle(self):
        """The answer to a write wakes at once whoever it concerns, so nothing is on its way then."""

        def busy():
            return sum(
                value
                for series, value in self.operator.metrics().items()
                if series.startswith(("workqueue_depth{", "controller_runtime_active_workers{"))
            )

        self.kaos.until(lambda: busy() == 0, "the operator is idle")


class PlanTest(ChangesTest):
    SIGNS = {"create": "+", "patch": "~", "delete": "-"}
    KINDS = {"deployments": "Deployment", "services": "Service", "configmaps": "ConfigMap", "secrets": "Secret"}

    def planned(self, file):
        """What `cadre plan` says of children."""
        said, code = self.kaos.cadre("plan", "-n", self.ns, "-f", file)
        self.said = said
        children = re.findall(rf"^([+~!-]) (\w+) {self.ns}/(\S+)$", said, re.M)
        self.assertEqual(code, 1 if children else 0, said)
        return set(children)

    def done(self, since):
        """What the operator then did."""
        return {
            (self.SIGNS[one.verb], self.KINDS[one.resource], one.name)
            for one in self.kaos.writes(since)
            if one.namespace == self.ns and one.resource in self.KINDS and one.code < 300
        }

    def test_the_plan_of_a_manifest_is_what_the_operator_then_does(self):
        one = {
            "llm": proxy("llm", "gpt", "small/*"),
            "spare": proxy("spare", "gpt"),
            "echo": tools("echo"),
            "helper": agent("helper", mcpServers=["echo"], config={"instructions": "be nice"}),
        }
        self.apply(one["llm"], one["echo"])
        self.ready(one["llm"], one["echo"])
        helper = {kind: ("~", kind, "agent-helper") for kind in ("Deployment", "ConfigMap")}
        echo, spare = ("~", "Deployment", "mcpserver-echo"), ("~", "Deployment", "modelapi-spare")
        for what, which, change, wanted in (
            (
                "a new agent",
                "helper",
                lambda it: None,
                {("+", kind, "agent-helper") for kind in ("Deployment", "Service", "ConfigMap")},
            ),
            (
                "a new proxy",
                "spare",
                lambda it: None,
                {
                    ("+", "Deployment", "modelapi-spare"),
                    ("+", "Service", "modelapi-spare"),
                    ("+", "ConfigMap", "litellm-config-spare"),
                },
            ),
            ("nothing", "helper", lambda it: None, set()),
            ("an annotation", "helper", lambda it: it["metadata"].update(annotations={"note": "mine"}), set()),
            ("image", "helper", lambda it: it["spec"].update(container={"image": "mine:1"}), {helper["Deployment"]}),
            ("replicas", "helper", lambda it: it["spec"].update(replicas=2), {helper["Deployment"]}),
            (
                "instructions",
                "helper",
                lambda it: it["spec"]["config"].update(instructions="be brief"),
                {*helper.values()},
            ),
            ("model", "helper", lambda it: it["spec"].update(model="small/one"), {*helper.values()}),
            (
                "expose: false",
                "helper",
                lambda it: it["spec"].update(agentNetwork={"expose": False}),
                {helper["Deployment"], ("-", "Service", "agent-helper")},
            ),
            (
                "expose: true",
                "helper",
                lambda it: it["spec"].pop("agentNetwork"),
                {helper["Deployment"], ("+", "Service", "agent-helper")},
            ),
            ("a model that is not supported", "helper", lambda it: it["spec"].update(model="gone"), set()),
            ("a supported model", "helper", lambda it: it["spec"].update(model="gpt"), {*helper.values()}),
            (
                "models",
                "llm",
                lambda it: it["spec"]["proxyConfig"]["models"].append("big"),
                {("~", "Deployment", "modelapi-llm"), ("~", "ConfigMap", "litellm-config-llm")},
            ),
            (
                "tool source",
                "echo",
                lambda it: it["spec"]["config"]["tools"].update(fromString="def reverse(): pass"),
                {echo},
            ),
            (
                "a long tool source",
                "echo",
                lambda it: it["spec"]["config"]["tools"].update(fromString="#" * 100000),
                {echo, ("+", "ConfigMap", "mcpserver-echo")},
            ),
            (
                "a package",
                "echo",
                lambda it: it["spec"].update(config={"tools": {"fromPackage": "mcp-echo"}}),
                {echo, ("-", "ConfigMap", "mcpserver-echo")},
            ),
            (
                "a key that is made",
                "spare",
                lambda it: it["spec"]["proxyConfig"].update(masterKey={"generate": True}),
                {spare, ("+", "Secret", "modelapi-spare-key")},
            ),
            (
                "mode",
                "spare",
                lambda it: it.update(spec={"mode": "Hosted", "hostedConfig": {"model": "small"}}),
                {
                    spare,
                    ("~", "Service", "modelapi-spare"),
                    ("-", "ConfigMap", "litellm-config-spare"),
                    ("-", "Secret", "modelapi-spare-key"),
                },
            ),
            (
                "the mode of what an agent uses, whose address is then another",
                "llm",
                lambda it: it.update(spec={"mode": "Hosted", "hostedConfig": {"model": "gpt"}}),
                {
                    ("~", "Deployment", "modelapi-llm"),
                    ("~", "Service", "modelapi-llm"),
                    ("-", "ConfigMap", "litellm-config-llm"),
                    *helper.values(),
                },
            ),
        ):
            with self.subTest(what):
                change(one[which])
                file = self.kaos.work / "changed.yaml"
                file.write_text(json.dumps(one[which]))
                plan, since = self.planned(file), self.kaos.mark()
                self.apply(one[which])
                if which == "llm":  # an agent's pods stay as they are until it is back
                    self.ready(one[which])
                self.idle()
                self.assertEqual((sorted(plan), sorted(self.done(since))), (sorted(wanted), sorted(wanted)))

    def test_the_plan_sees_what_others_have_done(self):
        slow = manifest(
            "ModelAPI",
            "slow",
            mode="Proxy",
            proxyConfig={"models": ["gpt"]},
            podSpec={"nodeSelector": {"no": "such-node"}},
        )
        helper, new = agent("helper"), {kind: ("+", kind) for kind in ("Deployment", "Service", "ConfigMap")}
        self.apply(proxy("llm", "gpt"), helper, slow)
        self.kaos.ready(self.ns, "agent/helper")
        for what, before, objects, wanted in (
            ("a name that is taken", ("create", "service", "clusterip", "agent-taken", "--tcp=80"), [agent("taken")],
             {("!", "Service", "agent-taken"), ("+", "Deployment", "agent-taken"), ("+", "ConfigMap", "agent-taken")}),
            ("what pods would read is not ours", ("create", "configmap", "agent-wary"), [agent("wary")],
             {("!", "ConfigMap", "agent-wary")}),
            ("what others set stays", ("scale", "agent/helper", "--replicas=2"), [helper], set()),
            ("it waits for what is not ready", (), [slow, agent("patient", modelAPI="slow")], set()),
            ("what is ready helps", (), [agent("quick", waitForDependencies=False, modelAPI="slow")],
             {(sign, kind, "agent-quick") for sign, kind in new.values()}),
        ):
            with self.subTest(what):
                if before:
                    self.kaos.kubectl(*before, "-n", self.ns)
                    self.fence()
                file = self.kaos.work / "others.yaml"
                file.write_text("\n---\n".join(map(json.dumps, objects)))
                plan, since = self.planned(file), self.kaos.mark()
                self.apply(*objects)
                self.idle()
                self.assertEqual(sorted(plan), sorted(wanted), self.said)
                self.assertEqual(sorted(self.done(since)), sorted(one for one in wanted if one[0] != "!"))

    def test_the_plan_shows_what_changes_and_no_secrets(self):
        key, other = {"name": "UPSTREAM_TOKEN", "value": "tok-very-secret"}, {"name": "A", "value": "1"}
        self.apply(proxy("llm", "gpt", env=[key, other]))
        file = self.kaos.work / "moved.yaml"
        file.write_text(json.dumps(proxy("llm", "gpt", env=[{"name": "B", "value": "2"}, other, dict(key, value="tok-next")])))
        said, _ = self.kaos.cadre("plan", "-n", self.ns, "-f", file)
        self.assertRegex(said, r"(?m)^ +\+ .*\.env\.B\.value: \"?2")
        self.assertRegex(said, r"(?m)^ +~ .*\.env\.UPSTREAM_TOKEN\.value: .*not shown")
        self.assertNotRegex(said, "tok-|env\\.A\\b")


class WhyTest(ChangesTest):
    def test_why_names_the_missing_secret_and_its_key_through_both_hops(self):
        key = {"valueFrom": {"secretKeyRef": {"name": "keys", "key": "openai"}}}
        self.apply(proxy("llm", "gpt", apiKey=key), agent("helper"))
        hops = [
            rf"^Agent {self.ns}/helper is not ready: ModelAPINotReady: .*llm.*",
            rf"^  ModelAPI {self.ns}/llm is not ready: ",
        ]
        for make, reason, remedy in (
            (
                (),
                'SecretNotFound: Secret "keys" not found .*"openai"',
                rf"^    Secret {self.ns}/keys does not exist: create it$",
            ),
            (("--from-literal=other=x",), 'KeyNotFound: Secret "keys" has no key "openai"', "add it$"),
        ):
            with self.subTest(reason):
                if make:
                    self.kaos.kubectl("create", "secret", "generic", "keys", "-n", self.ns, *make)
                    self.kaos.until_condition(self.ns, "modelapi", "llm", "Ready", reason="KeyNotFound")
                said, code = self.kaos.cadre("why", "-n", self.ns, "agent/helper")
                self.assertEqual(code, 1)
                lines = iter(said.splitlines())
                for pattern in (hops[0], hops[1] + reason, remedy):
                    with self.subTest(pattern):
                        self.assertRegex(said, re.compile(pattern, re.M))
                self.assertRegex(next(lines), "openai")  # the first line alone says what is missing
        self.kaos.kubectl(
            "patch", "-n", self.ns, "secret/keys", "--patch", '{"stringData":{"openai":"sk-very-secret"}}'
        )
        self.kaos.ready(self.ns, "agent/helper")
        said = self.kaos.cadre("why", "-n", self.ns, "agent/helper")
        self.assertEqual(said, (f"Agent {self.ns}/helper is ready\n", 0))


class HostileTest(ChangesTest):
    def test_an_object_that_nobody_can_read_harms_only_itself(self):
        deep = '{"a":' * 3000 + "1" + "}" * 3000
        self.kaos.kubectl(
            "create",
            "--raw",
            f"/apis/kaos.tools/v1alpha1/namespaces/{self.ns}/mcpservers",
            "-f",
            "-",
            input=json.dumps(tools("deep")).replace('"config"', f'"podSpec": {deep}, "config"'),
        )
        self.apply(tools("fine"))
        self.ready(tools("fine"))
        self.kaos.kubectl("wait", "-n", self.ns, "mcpserver/deep", "--for=condition=Accepted=False", "--timeout=60s")
        said, code = self.kaos.cadre("why", "-n", self.ns, "mcpserver/deep")
        self.assertEqual(code, 1)
        self.assertIn("spec.podSpec.a", said)


class NamesTest(ChangesTest):
    """Three generations of field names."""

    def test_seed_release_and_newest_names_give_the_same_children(self):
        limits = {"limits": {"memory": "64Mi"}}
        env = [{"name": "ONE", "value": "1"}]
        source = "def echo(): pass"
        generations = {
            "seed": [
                manifest("ModelAPI", "llm", mode="Proxy", proxyConfig={"model": "gpt", "env": env}),
                manifest(
                    "ModelAPI", "own", mode="Hosted", serverConfig={"model": "small", "env": env, "resources": limits}
                ),
                manifest(
                    "MCPServer",
                    "echo",
                    type="python-runtime",
                    config={"toolsString": source, "env": env},
                    resources=limits,
                ),
                manifest("MCPServer", "pack", config={"mcp": "mcp-echo"}),
                manifest(
                    "Agent",
                    "helper",
                    modelAPI="llm",
                    mcpServers=["echo"],
                    resources=limits,
                    config={"agenticLoop": {"maxSteps": 7}, "env": [{"name": "MODEL_NAME", "value": "gpt"}, *env]},
                ),
            ],
            "release": [
                manifest("ModelAPI", "llm", mode="Proxy", proxyConfig={"models": ["gpt"], "env": env}),
                manifest(
                    "ModelAPI",
                    "own",
                    mode="Hosted",
                    hostedConfig={"model": "small", "env": env},
                    container={"resources": limits},
                ),
                manifest(
                    "MCPServer",
                    "echo",
                    type="python-runtime",
                    config={"tools": {"fromString": source}, "env": env},
                    container={"resources": limits},
                ),
                manifest("MCPServer", "pack", config={"tools": {"fromPackage": "mcp-echo"}}),
                manifest(
                    "Agent",
                    "helper",
                    modelAPI="llm",
                    model="gpt",
                    mcpServers=["echo"],
                    container={"resources": limits},
                    config={"reasoningLoopMaxSteps": 7, "env": env},
                ),
            ],
            "newest": [
                manifest("ModelAPI", "llm", mode="Proxy", proxyConfig={"models": ["gpt"]}, container={"env": env}),
                manifest(
                    "ModelAPI",
                    "own",
                    mode="Hosted",
                    hostedConfig={"model": "small"},
                    container={"env": env, "resources": limits},
                ),
                manifest(
                    "MCPServer",
                    "echo",
                    runtime="python-string",
                    params=source,
                    container={"env": env, "resources": limits},
                ),
                manifest("MCPServer", "pack", config={"tools": {"fromPackage": "mcp-echo"}}),
                manifest(
                    "Agent",
                    "helper",
                    modelAPI="llm",
                    model="gpt",
                    mcpServers=["echo"],
                    config={"reasoningLoopMaxSteps": 7},
                    container={"env": env, "resources": limits},
                ),
            ],
        }
        first = None
        for generation, objects in generations.items():
            with self.subTest(generation):
                # In the same place one after another: then even a name or a hash may not differ, and no pod rolls.
                self.apply(*objects)
                self.ready(*objects)
                children = {
                    name: {part: one[part] for part in ("spec", "data", "immutable") if part in one}
                    for name, one in self.kaos.children(self.ns).items()
                }
                self.assertEqual(len(children), 5 * 2 + 2)  # each a Deployment and a Service; two ConfigMaps
                first = first or children
                self.maxDiff = None
                self.assertEqual(children, first)
                self.assertEqual({*self.kaos.revisions(self.ns).values()}, {1})


class PeersTest(ChangesTest):
    def test_a_ring_of_three_becomes_ready_and_is_named(self):
        ring = ["anna", "bert", "carl"]
        agents = [agent(name, agentNetwork={"access": [after]}) for name, after in zip(ring, ring[1:] + ring[:1])]
        self.apply(*agents)
        self.apply(proxy("llm", "gpt"))
        self.ready(*agents)
        for name in ring:
            peers = self.kaos.condition(self.ns, "agent", name, "PeersReady")
            self.assertEqual((peers["status"], peers["reason"]), ("True", "CycleTolerated"))
            for other in ring:
                self.assertIn(other, peers["message"])

    def test_a_coordinator_long_before_its_worker_has_one_rollout(self):
        coordinator = agent("coordinator", agentNetwork={"access": ["worker"]})
        self.apply(proxy("llm", "gpt"), coordinator)
        self.kaos.until_condition(self.ns, "agent", "coordinator", "Ready", reason="PeerNotFound")
        self.assertEqual(self.is_(coordinator)["status"]["phase"], "Waiting")
        self.fence()
        self.apply(agent("worker"))
        self.ready(coordinator)
        self.fence()
        revisions = self.kaos.revisions(self.ns)
        self.assertEqual((revisions["agent-coordinator"], revisions["agent-worker"]), (1, 1))


class RolloutTest(ChangesTest):
    def test_edits_roll_exactly_the_pods_concerned(self):
        registry = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "kaos-mcp-runtimes", "namespace": SYSTEM},
            "data": {"runtimes.yaml": "runtimes: {mine: {image: 'mine:1'}, other: {image: 'other:1'}}"},
        }
        self.kaos.kubectl("apply", "-f", "-", input=json.dumps(registry))
        self.kaos.kubectl(
            "create", "secret", "generic", "keys", "-n", self.ns, "--from-literal=one=1", "--from-literal=two=2"
        )
        objects = {
            "llm": proxy("llm", "gpt", "small", apiKey={"valueFrom": {"secretKeyRef": {"name": "keys", "key": "one"}}}),
            "spare": proxy("spare", "gpt", apiKey={"valueFrom": {"secretKeyRef": {"name": "keys", "key": "two"}}}),
            "mine": manifest("MCPServer", "mine", runtime="mine"),
            "other": manifest("MCPServer", "other", runtime="other"),
            "helper": agent("helper", mcpServers=["mine", "other"], config={"instructions": "be nice"}),
            "friend": agent("friend", agentNetwork={"access": ["helper"]}),
        }
        self.apply(*objects.values())
        self.ready(*objects.values())
        self.fence()

        def edit(name, change):
            change(objects[name])
            self.apply(objects[name])

        for what, change, wanted in (
            (
                "instructions",
                lambda: edit("helper", lambda it: it["spec"]["config"].update(instructions="be brief")),
                {"agent-helper"},
            ),
            (
                "an image of the registry",
                lambda: self.kaos.kubectl("apply", "-f", "-", input=json.dumps(registry).replace("mine:1", "mine:2")),
                {"mcpserver-mine"},
            ),
            (
                "a key of a Secret",
                lambda: self.kaos.kubectl(
                    "patch", "-n", self.ns, "secret/keys", "--patch", '{"stringData":{"two":"3"}}'
                ),
                {"modelapi-spare"},
            ),
            (
                "the list of models",
                lambda: edit("llm", lambda it: it["spec"]["proxyConfig"]["models"].append("big")),
                {"modelapi-llm"},
            ),
            (
                "an annotation",
                lambda: self.kaos.kubectl(
                    "annotate", "-n", self.ns, "agents,modelapis,mcpservers", "--all", "note=touched"
                ),
                set(),
            ),
        ):
            with self.subTest(what):
                before = self.kaos.revisions(self.ns)
                change()

                def rolled():
                    return {name for name, count in self.kaos.revisions(self.ns).items() if count != before[name]}

                self.kaos.until(lambda: rolled() >= wanted, lambda: f"rolled: {rolled()}")
                self.ready(*objects.values())
                self.assertEqual(rolled() - self.fence(), wanted)


class RepairTest(ChangesTest):
    EDITS = {
        "deployment": [
            {"spec": {"template": {"spec": {"containers": [{"name": "CONTAINER", "image": "edited"}]}}}},
            {"metadata": {"labels": {"app.kubernetes.io/part-of": "edited"}}},
            # What does not go together with ours: the server refuses to have both.
            [{"op": "replace", "path": "/spec/template/spec/containers/0/ports/0/containerPort", "value": 9000}],
            [
                {
                    "op": "replace",
                    "path": "/spec/template/spec/volumes/0",
                    "value": {"name": "VOLUME", "hostPath": {"path": "/"}},
                }
            ],
            [
                {
                    "op": "replace",
                    "path": "/spec/template/spec/containers/0/livenessProbe",
                    "value": {"exec": {"command": ["true"]}},
                }
            ],
            [
                {
                    "op": "replace",
                    "path": "/spec/template/spec/containers/0/securityContext",
                    "value": {"privileged": True, "runAsUser": 0},
                }
            ],
            # What is added.
            [{"op": "add", "path": "/spec/template/spec/containers/0/securityContext/runAsUser", "value": 0}],
            [{"op": "add", "path": "/spec/template/spec/containers/0/env/-", "value": {"name": "HOME", "value": "/evil"}}],
            [{"op": "add", "path": "/spec/template/spec/containers/-", "value": {"name": "evil", "image": "evil"}}],
            {"spec": {"paused": True, "revisionHistoryLimit": 0}},
        ],
        "service": [
            {"spec": {"externalIPs": ["1.2.3.4"], "internalTrafficPolicy": "Local"}},
            {"spec": {"selector": {"app": "edited"}}},
            {"metadata": {"labels": {"cadre.dev/owner-uid": None}}},
            [{"op": "replace", "path": "/spec/ports/0/port", "value": 9000}],
        ],
        "configmap": [
            {"data": {"DATA": "edited"}},
            {"metadata": {"ownerReferences": None}},
            {"data": {"more": "edited"}},
            {"immutable": True},
            [
                {"op": "remove", "path": "/data/DATA"},
                {"op": "add", "path": "/binaryData", "value": {"DATA": "eA=="}},
            ],
            [
                {"op": "add", "path": "/immutable", "value": True},
                {"op": "replace", "path": "/data/DATA", "value": "edited"},
            ],
        ],
        "secret": [],  # its value is made once; whoever wants another one deletes it
    }

    def test_every_child_is_repaired_when_it_is_edited_or_deleted(self):
        self.apply(
            proxy("llm", "gpt", masterKey={"generate": True}),
            tools("echo", "#" * 100000),
            agent("helper", mcpServers=["echo"]),
        )
        self.kaos.ready(self.ns, "agent/helper", "modelapi/llm", "mcpserver/echo")
        before = self.state()
        self.assertEqual(
            sorted(before),
            sorted(
                [
                    *(
                        f"{kind}/{name}"
                        for kind in ("deployment", "service")
                        for name in ("agent-helper", "modelapi-llm", "mcpserver-echo")
                    ),
                    "configmap/agent-helper",
                    "configmap/litellm-config-llm",
                    "configmap/mcpserver-echo",
                    "secret/modelapi-llm-key",
                ]
            ),
        )
        for child in before:
            kind, name = child.split("/")
            for edit in self.EDITS[kind]:
                with self.subTest(f"{child} {edit}"):
                    text = json.dumps(edit)
                    for word, meant in (
                        ("CONTAINER", self.container(name)),
                        ("DATA", self.key(child)),
                        ("VOLUME", self.volume(child)),
                    ):
                        text = text.replace(word, meant)
                    how = "json" if isinstance(edit, list) else "strategic"
                    self.kaos.kubectl("patch", "-n", self.ns, child, "--type", how, "--patch", text)
                    self.kaos.until(
                        lambda: self.state() == before, lambda: f"{child} as it was, and not {self.state().get(child)}"
                    )
            with self.subTest(f"{child} deleted"):
                uid = self.kaos.get(self.ns, kind, name)["metadata"]["uid"]
                self.kaos.kubectl("delete", "-n", self.ns, child)
                self.kaos.until(
                    lambda: (self.kaos.get(self.ns, kind, name) or {"metadata": {"uid": uid}})["metadata"]["uid"]
                    != uid,
                    f"{child} is back",
                )
                if kind == "secret":  # another value, so other pods
                    self.kaos.ready(self.ns, "agent/helper", "modelapi/llm")
                    before = self.state()
                self.kaos.until(
                    lambda: self.state() == before, lambda: f"{child} as it was, and not {self.state().get(child)}"
                )
        # A repair is no trouble, whoever wrote at the same time.
        events = json.loads(self.kaos.kubectl("get", "events", "-n", self.ns, "-o", "json"))["items"]
        self.assertEqual([one["message"] for one in events if one["reason"] == "ChildRejected"], [])

    def test_what_is_left_behind_on_purpose_stays_and_is_taken_up_again(self):
        one = proxy("llm", "gpt", masterKey={"generate": True})
        self.apply(one)
        self.kaos.ready(self.ns, "modelapi/llm")
        before = {name: child["metadata"]["uid"] for name, child in self.kaos.children(self.ns).items()}
        self.assertEqual(len(before), 4)
        self.kaos.kubectl("delete", "-n", self.ns, "modelapi/llm", "--cascade=orphan")
        self.fence()
        self.kaos.kubectl("delete", "-n", self.ns, "agent/fence", "modelapi/fence", "mcpserver/fence")
        left = self.kaos.children(self.ns)
        self.assertEqual({name: left[name]["metadata"]["uid"] for name in before}, before)
        self.assertFalse([name for name in before if "ownerReferences" in left[name]["metadata"]])
        self.apply(one)
        self.kaos.ready(self.ns, "modelapi/llm")
        owner, again = self.is_(one)["metadata"]["uid"], self.kaos.children(self.ns)
        for name, uid in before.items():
            with self.subTest(name):
                self.assertEqual(again[name]["metadata"]["uid"], uid)
                self.assertEqual([o["uid"] for o in again[name]["metadata"]["ownerReferences"]], [owner])

    def container(self, name):
        return {"agent": "agent", "modelapi": "model-api", "mcpserver": "mcp-server"}.get(name.split("-")[0], "")

    def volume(self, child):
        spec = self.kaos.get(self.ns, *child.split("/")).get("spec", {})
        return spec["template"]["spec"]["volumes"][0]["name"] if "template" in spec else ""

    def key(self, child):
        kind, name = child.split("/")
        return next(iter(self.kaos.get(self.ns, kind, name).get("data", {"-": 0})))

    def state(self):
        """The children as the operator wants them: without what the server and controllers add."""
        state = {}
        for name, one in self.kaos.children(self.ns).items():
            one = copy.deepcopy(
                {part: one[part] for part in ("spec", "data", "immutable") if part in one}
                | {"labels": one["metadata"]["labels"], "owners": one["metadata"].get("ownerReferences")}
            )
            for field in ("clusterIP", "clusterIPs"):
                one.get("spec", {}).pop(field, None)
            state[name] = one
        return state


if __name__ == "__main__":
    unittest.main()
