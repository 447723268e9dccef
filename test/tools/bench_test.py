#!/usr/bin/env python3
"""What the benchmark of operators takes from an audit log: the writes of one program, and when it is done."""

import json
import os
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tools/cluster.d")]

from operators import Audit, cpu_seconds, is_complete, machine_cpu_seconds  # noqa: E402


def request(verb, resource, name=None, ns="bench", code=200, agent="op", second=1, **more):
    what = {"resource": resource, "namespace": ns, **({"name": name} if name else {}), **more}
    return {"userAgent": agent, "verb": verb, "objectRef": what, "responseStatus": {"code": code},
            "stageTimestamp": f"1970-01-01T00:00:0{second}.500000Z"}


class AuditTest(unittest.TestCase):
    def setUp(self):
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.file = pathlib.Path(work.name) / "audit.log"
        self.kubeconfig = pathlib.Path(work.name) / "kubeconfig"
        self.log(request("create", "services"))
        self.audit = Audit(self.kubeconfig, "op")  # from here on

    def log(self, *requests, end="\n"):
        lines = "\n".join(json.dumps(one, separators=(",", ":")) for one in requests)
        with open(self.file, "a") as file:
            file.write(lines + end)

    def test_writes_of_one_program(self):
        self.log(request("create", "deployments", second=2), request("create", "deployments", agent="operator"),
                 request("get", "deployments", "a"), request("patch", "mcpservers", "a", code=409, subresource="status"),
                 request("create", "secrets", ns="kaos-system"))
        self.assertEqual(self.audit.writes("bench"), [("deployments", None, True, 2.5),
                                                      ("mcpservers/status", "a", False, 1.5)])
        self.assertEqual(len(self.audit.writes()), 3)

    def test_a_line_is_read_when_it_is_whole(self):
        self.log(request("create", "services"), end="\n{\"userAgent\":\"op\"")
        self.assertEqual(self.audit.read(), 1)
        self.assertEqual(self.audit.read(), 0)
        with open(self.file, "a") as file:
            file.write("}\n")
        self.assertEqual(self.audit.read(), 1)


class CompleteTest(unittest.TestCase):
    def test_each_object_has_all_three(self):
        both = [("deployments", None, True, 1), ("services", None, True, 1)] * 2
        one = ("mcpservers/status", "a", True, 1)
        other = ("mcpservers/status", "b", True, 1)
        self.assertTrue(is_complete([*both, one, other], 2))
        self.assertFalse(is_complete([*both, one, one], 2), "one status written twice is not two")
        self.assertFalse(is_complete([*both[1:], one, other], 2), "a Deployment is missing")
        self.assertFalse(is_complete([*both, one, ("mcpservers/status", "b", False, 1)], 2), "refused is not written")


class ProcessTest(unittest.TestCase):
    def test_processor_time_is_in_seconds(self):
        before, times = cpu_seconds(os.getpid()), os.times()
        self.assertAlmostEqual(before, times.user + times.system, delta=0.5)

    def test_a_machine_is_at_work_for_a_part_of_its_time(self):
        busy, everything = machine_cpu_seconds()
        self.assertLess(cpu_seconds(os.getpid()), busy)
        self.assertLess(busy, everything)
        uptime = float(pathlib.Path("/proc/uptime").read_text().split()[0])
        self.assertAlmostEqual(everything / os.cpu_count() / uptime, 1, delta=0.2)


if __name__ == "__main__":
    unittest.main()
