#!/usr/bin/env python3
"""A sample of the plans, the same one every time, and that the oracles see what is wrong. All plans: test/fault/run."""

import concurrent.futures
import signal
import sys
import unittest

import judge
import lab
import plans
import workload

# One of every family and mechanism, and every kind of KAOS among them.
SAMPLE = (
    "S1/before/create deployments/agent-boss #1",
    "S1/after/create secrets/modelapi-llm-key #1",
    "S3/last/deleted+recreated modelapis/llm",
    "S3/gone/updated+reverted mcpservers/echo",
    "S5/conflict/the first update of each object",
    "S5/lost/the first answer for each object",
    "S6/429/the first two writes of each object",
    "S6/truncated/events of watches, as JSON",
    "S6/gone/every watch, as an event",
    "S6/pages/of one object, slow",
)
# Several kills in one run: of writes that are spread over the steps.
KILLS = (
    ("create", "services", "modelapi-local", "", 0), ("patch", "agents", "worker", "status", 1),
    ("patch", "deployments", "mcpserver-echo", "", 0), ("delete", "configmaps", "mcpserver-echo", "", 0),
    ("create", "deployments", "modelapi-llm", "", 1),
)
QUIET = 1.5  # seconds of O8
SIDE_BY_SIDE = 4


class FaultTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = cls.enterClassContext(lab.Lab(lab.program()))
        cls.reference = lab.refer(cls.lab, plans.REFERENCE)

    def test_plans(self):
        by_name = {plan.name: plan for plan in plans.all_plans(self.reference)}
        chosen = [by_name[name] for name in SAMPLE]
        chosen += [plans.Plan(f"S1/{when}/several", rules=tuple(plans.at(p, action=f"stop-{when}") for p in KILLS))
                   for when in ("before", "after")]
        with concurrent.futures.ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            runs = list(pool.map(lambda plan: lab.Run(self.lab, plan, self.reference, QUIET).go(), chosen))
        explained = 0
        for run in runs:
            with self.subTest(run.plan.name):
                bad = [alarm for alarm in run.alarms if not plans.explanation(run.plan, alarm)]
                explained += len(run.alarms) - len(bad)
                self.assertEqual(bad, [], "\n".join([*bad, "", run.log.read_text(errors="replace")[-4000:]]))
                kills = len(run.plan.rules) if run.plan.name.startswith("S1/") else 0
                self.assertEqual(run.kills, kills)
        alarms = sum(len(run.alarms) for run in runs)
        print(f"{len(runs)} plans, {alarms} alarms, {explained} explained", file=sys.stderr)

    def test_every_oracle_sees_what_is_wrong(self):
        """A world in which each oracle has something to say."""
        def mischief(run):
            run.kube.create("configmaps", run.ns, "stray", {})
            run.kube.merge("configmaps", run.ns, "agent-boss-notes", {"data": {"a": "c"}})
            run.kube.delete("services", run.ns, "agent-boss")
            run.operator.process.send_signal(signal.SIGABRT)
            run.operator.process.wait()

        restless = Restless(self.lab, plans.Plan("broken", after={"create": mischief}, patience=4), self.reference, QUIET)
        restless.go()
        for alarm in ("O1: after create: configmaps/stray is extra", "O2: services/agent-boss: 3 x create, not 2",
                      f"O6: the operator ended by itself with {-signal.SIGABRT}",
                      "O8: patch deployments/agent-boss  in a quiet time", "O9: configmaps/stray is left",
                      "O9: configmaps/agent-boss-notes was touched"):
            self.assertTrue([a for a in restless.alarms if a.startswith(alarm)], f"no {alarm} in {restless.alarms}")

    def test_a_fault_that_never_happens_is_told(self):
        nowhere = plans.Plan("nowhere", rules=({"resource": "nothings", "action": "lose"},))
        self.assertEqual(lab.Run(self.lab, nowhere, self.reference, 0).go().alarms, ["harness: a fault never happened"])


class Restless(lab.Run):
    """Somebody changes a child in the quiet time, so that the operator writes."""

    def settled(self):
        return True

    def stay_quiet(self):
        self.quiet_begins = True
        super().stay_quiet()

    def tend(self):
        state = super().tend()
        if getattr(self, "quiet_begins", False):
            self.quiet_begins = False
            self.kube.merge("deployments", self.ns, "agent-boss", {"spec": {"replicas": 7}})
        return state


class JudgeTest(unittest.TestCase):
    """The oracles as pure functions."""

    def test_differences(self):
        wanted = {"a": {"x": 1, "y": 2}, "b": {}}
        self.assertEqual(judge.differences(wanted, {"a": {"x": 1, "y": 2}, "b": {}}), [])
        self.assertEqual(judge.differences(wanted, {"a": {"x": 3, "z": 2}, "c": {}}, {("a", "z")}),
                         ["b is missing", "c is extra", "a x: 3, not 1", "a y: nothing, not 2"])

    def test_what_differs_by_nature(self):
        def item(ns, generation, time):
            return {"metadata": {"name": "x", "uid": ns, "generation": generation},
                    "status": {"observedGeneration": generation, "url": f"http://{ns}.svc",
                               "conditions": [{"type": "Ready", "lastTransitionTime": time}]}}
        self.assertEqual(judge.normal("agents/x", item("one", 1, "t"), "one"), judge.normal("agents/x", item("two", 5, "u"), "two"))
        late = item("one", 2, "t")
        late["status"]["observedGeneration"] = 1
        self.assertNotEqual(judge.normal("agents/x", item("one", 2, "t"), "one"), judge.normal("agents/x", late, "one"))
        self.assertEqual(judge.mask_of({"a": {"x": 1, "y": 1}}, {"a": {"x": 1, "y": 2}}), {("a", "y")})

    def test_health(self):
        good = {"metadata": {"generation": 2}, "status": {"observedGeneration": 2, "phase": "Ready", "ready": True}}
        self.assertEqual(judge.health({"agents/x": good}, {"agents/x": "Ready"}), [])
        for wrong in ({"observedGeneration": 1}, {"phase": "Waiting"}, {"ready": False},
                      {"conditions": [{"type": "Ready", "observedGeneration": 1}]}):
            bad = dict(good, status=dict(good["status"], **wrong))
            self.assertEqual(len(judge.health({"agents/x": bad}, {"agents/x": "Ready"})), 1, wrong)
        self.assertEqual(judge.health({}, {"agents/x": "Ready"}), ["agents/x is missing"])

    def test_update_summary(self):
        def write(verb, effective=True, resource="services"):
            return {"verb": verb, "resource": resource, "name": "x", "subresource": "", "effective": effective}
        once = judge.counts([write("create"), write("create", effective=False), write("patch"), write("create", resource="events")])
        twice = judge.counts([write("create"), write("delete"), write("create")])
        self.assertEqual(judge.update_summary([once], once), [])
        self.assertEqual(judge.update_summary([once], twice), ["services/x: 2 x create, not 1", "services/x: 1 x delete, not 0"])
        self.assertEqual(judge.update_summary([once, twice], twice), [])
        plan = plans.Plan("S3/x", more=frozenset({"services/x"}), why="a reason")
        self.assertEqual(plans.explanation(plan, "O2: services/x: 2 x create, not 1"), "a reason")
        self.assertIsNone(plans.explanation(plan, "O2: services/y: 2 x create, not 1"))
        self.assertIsNone(plans.explanation(plan, "O1: services/x is missing"))
        self.assertEqual(judge.strangers([write("create", resource="jobs"), write("create")]), ["jobs is written"])

    def test_deletion(self):
        foreign = {ref: {"metadata": {"uid": "u", "resourceVersion": "1"}} for ref in workload.FOREIGN}
        self.assertEqual(judge.leftovers(foreign), [])
        self.assertEqual(judge.leftovers(dict(foreign, **{"services/x": {}})), ["services/x is left"])
        self.assertEqual(judge.touched(foreign, foreign), [])
        changed = dict(foreign, **{"services/agent-boss2": {"metadata": {"uid": "u", "resourceVersion": "2"}}})
        self.assertEqual(judge.touched(foreign, changed), ["services/agent-boss2 was touched"])
        del changed["services/agent-boss2"]
        self.assertEqual(judge.touched(foreign, changed), ["services/agent-boss2 was touched"])

    def test_orphans(self):
        state = {"agents/x": {"metadata": {"uid": "1"}},
                 "services/kept": {"metadata": {"uid": "2", "ownerReferences": [{"uid": "1"}]}},
                 "services/orphan": {"metadata": {"uid": "3", "ownerReferences": [{"uid": "0"}]}},
                 "services/nobodys": {"metadata": {"uid": "4"}}}
        self.assertEqual(list(judge.orphans(state)), [("services/orphan", "3")])


class ProxyTest(unittest.TestCase):
    def test_the_proxys_own_tests(self):
        lab.go("vet", "./...")
        lab.go("test", "./...")


if __name__ == "__main__":
    unittest.main()
