#include "kube/health.h"

#include "json/yaml.h"

namespace cadre::kube {
namespace {

TEST(Health, ByWhatTheStatusSays) {
  using enum Health::State;
  struct Case {
    std::string_view object;
    Health::State state;
    std::string_view why = "";
  };
  for (const Case& c : std::vector<Case>{
           {"{apiVersion: v1, kind: ConfigMap}", Healthy},
           {"{apiVersion: v1, kind: ConfigMap, metadata: {deletionTimestamp: x}}", Progressing,
            "it is being deleted"},
           {"{apiVersion: apps/v1, kind: Deployment, metadata: {generation: 1}}", Progressing,
            "it has not been seen yet"},
           {"{apiVersion: apps/v1, kind: Deployment, metadata: {generation: 2}, status: "
            "{observedGeneration: 1, replicas: 1, updatedReplicas: 1, availableReplicas: 1}}",
            Progressing, "its last change has not been seen yet"},
           {"{apiVersion: apps/v1, kind: Deployment, metadata: {generation: 1}, status: "
            "{observedGeneration: 1, replicas: 1, updatedReplicas: 1, availableReplicas: 1}}",
            Healthy},
           {"{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 3}, status: "
            "{observedGeneration: 1, replicas: 3, updatedReplicas: 3, availableReplicas: 1}}",
            Progressing, "availableReplicas is 1 of 3"},
           {"{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 1}, status: "
            "{observedGeneration: 1, replicas: 2, updatedReplicas: 1, availableReplicas: 2}}",
            Progressing, "older replicas are still going"},
           {"{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 0}, status: "
            "{observedGeneration: 1}}",
            Healthy},
           {"{apiVersion: apps/v1, kind: Deployment, status: {observedGeneration: 1, conditions: "
            "[{type: Progressing, status: 'False', reason: ProgressDeadlineExceeded, message: "
            "late}]}}",
            Failed, "late"},
           {"{apiVersion: apps/v1, kind: StatefulSet, status: {observedGeneration: 1, "
            "readyReplicas: 1, currentRevision: a, updateRevision: b}}",
            Progressing, "it is being updated"},
           {"{apiVersion: apps/v1, kind: StatefulSet, spec: {updateStrategy: {type: OnDelete}}, "
            "status: {observedGeneration: 1, readyReplicas: 1, currentRevision: a, "
            "updateRevision: b}}",
            Healthy},
           {"{apiVersion: apps/v1, kind: DaemonSet, status: {observedGeneration: 1, "
            "desiredNumberScheduled: 2, updatedNumberScheduled: 2, numberAvailable: 1}}",
            Progressing, "numberAvailable is 1 of 2"},
           {"{apiVersion: batch/v1, kind: Job}", Progressing, "it is not Complete yet"},
           {"{apiVersion: batch/v1, kind: Job, status: {conditions: [{type: Complete, status: "
            "'True'}]}}",
            Healthy},
           {"{apiVersion: batch/v1, kind: Job, status: {conditions: [{type: Failed, status: "
            "'True', message: too often}]}}",
            Failed, "too often"},
           {"{apiVersion: v1, kind: Pod, status: {phase: Running, conditions: [{type: Ready, "
            "status: 'False', reason: ContainersNotReady}]}}",
            Progressing, "Ready is False: ContainersNotReady"},
           {"{apiVersion: v1, kind: Pod, status: {phase: Succeeded}}", Healthy},
           {"{apiVersion: v1, kind: Pod, status: {phase: Failed, message: evicted}}", Failed,
            "evicted"},
           {"{apiVersion: v1, kind: PersistentVolumeClaim, status: {phase: Pending}}", Progressing,
            "it is not bound yet"},
           {"{apiVersion: v1, kind: Service, spec: {type: LoadBalancer}}", Progressing,
            "it has no address yet"},
           {"{apiVersion: v1, kind: Service, spec: {type: ClusterIP}}", Healthy},
           {"{apiVersion: kaos.tools/v1alpha1, kind: Agent, status: {conditions: [{type: Ready, "
            "status: 'False', message: no model}]}}",
            Progressing, "Ready is False: no model"},
           {"{apiVersion: x.dev/v1, kind: Thing, status: {conditions: [{type: Ready, status: "
            "'True'}]}}",
            Healthy},
           {"{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition}", Progressing,
            "it is not Established yet"}}) {
    auto documents = json::parseYaml(c.object, "a case");
    ASSERT_TRUE(documents) << c.object;
    Health health = healthOf(documents->front().value);
    EXPECT_EQ(health.state, c.state) << c.object;
    EXPECT_EQ(health.why, c.why) << c.object;
  }
}

}  // namespace
}  // namespace cadre::kube
