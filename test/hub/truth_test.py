"""What is tested on a real API server holds on the hub, too: the same programs, unchanged."""

import subprocess
import unittest

from hubs import BUILD, HubTest, tool, ROOT
from support import ClusterTest


class TruthTest(HubTest):
    def programs(self, hub, name, *argv):
        env = {"CADRE_TEST_KUBECONFIG": str(hub.kubeconfig), "CADRE_TEST_CLUSTER": "hub",
               "CADRE_CLUSTER_TOOL": str(ROOT / "tools/cluster"), "CADRE_BUILD_DIR": str(BUILD)}
        return self.run_on(hub, BUILD / "tests" / name, *argv, env=env)

    def test_transcripts(self):
        hub = self.hub("--fast")
        said = self.programs(hub, "transcript_cluster_test", "--kubeconfig", hub.kubeconfig)
        self.assert_all_passed(said, ROOT / "test/cases")

    def test_transcripts_of_controllers(self):
        hub = self.hub("--fast")
        said = self.programs(hub, "transcript_cluster_test", "--kubeconfig", hub.kubeconfig, "--controllers")
        self.assert_all_passed(said, ROOT / "test/cases/controllers")

    def assert_all_passed(self, said, folder):
        self.assertIn(f"[  PASSED  ] {len(list(folder.glob('*.yaml')))} tests.", said)

    def test_operators(self):
        hub = self.hub("--fast")
        # Not here: the second login of the test cluster, and its way to kill a server (kill_test.py does that).
        for name, *argv in (["engine_cluster_test"], ["kaos_cluster_test"], ["webhook_cluster_test"],
                            ["kube_cluster_test", "--gtest_filter=-*BothWaysToLogIn:*KillingTheServer*"]):
            with self.subTest(name):
                self.assertIn("[  PASSED  ]", self.programs(hub, name, *argv))


class ControllersTest(ClusterTest):
    def test_transcripts_of_controllers(self):
        """What the hub's own collector and counters do, done by the real controllers."""
        kubeconfig = self.up("control", self.name("controllers"))
        done = subprocess.run([BUILD / "tests/transcript_cluster_test", "--kubeconfig", kubeconfig, "--controllers"],
                              text=True, capture_output=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stdout[-8000:] + done.stderr[-8000:])


if __name__ == "__main__":
    unittest.main()
