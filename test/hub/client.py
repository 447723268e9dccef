"""What people do with the official Python client, against the kubeconfig that is named. Run by clients_test.py."""

import sys

from kubernetes import client, config, watch
from kubernetes.client.rest import ApiException

config.load_kube_config(sys.argv[1])
core, apps, custom = client.CoreV1Api(), client.AppsV1Api(), client.CustomObjectsApi()

core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name="py")))
made = core.create_namespaced_config_map("py", client.V1ConfigMap(
    metadata=client.V1ObjectMeta(name="colors", labels={"app": "paint"}), data={"wall": "white"}))
assert made.metadata.uid and made.data == {"wall": "white"}, made
try:
    core.create_namespaced_config_map("py", client.V1ConfigMap(metadata=client.V1ObjectMeta(name="colors")))
    sys.exit("made twice")
except ApiException as error:
    assert error.status == 409 and '"AlreadyExists"' in error.body, error
core.patch_namespaced_config_map("colors", "py", {"data": {"wall": "blue"}})
assert [o.data["wall"] for o in core.list_namespaced_config_map("py", label_selector="app=paint").items] == ["blue"]

labels = {"app": "web"}
apps.create_namespaced_deployment("py", client.V1Deployment(
    metadata=client.V1ObjectMeta(name="web"),
    spec=client.V1DeploymentSpec(
        selector=client.V1LabelSelector(match_labels=labels),
        template=client.V1PodTemplateSpec(metadata=client.V1ObjectMeta(labels=labels), spec=client.V1PodSpec(
            containers=[client.V1Container(name="web", image="web:1", ports=[client.V1ContainerPort(container_port=80)])])))))
web = apps.read_namespaced_deployment("web", "py")
assert web.spec.replicas == 1 and web.spec.strategy.type == "RollingUpdate", web
apps.patch_namespaced_deployment_scale("web", "py", {"spec": {"replicas": 3}})
assert apps.read_namespaced_deployment_scale("web", "py").spec.replicas == 3

seen = []
for event in watch.Watch().stream(core.list_namespaced_config_map, "py", timeout_seconds=20):
    seen.append((event["type"], event["object"].metadata.name))
    if event["type"] == "ADDED":
        core.delete_namespaced_config_map("colors", "py")
    else:
        break
assert seen == [("ADDED", "colors"), ("DELETED", "colors")], seen

definitions = client.ApiextensionsV1Api()
definitions.create_custom_resource_definition({
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "lamps.py.test"},
    "spec": {"group": "py.test", "scope": "Namespaced", "names": {"plural": "lamps", "kind": "Lamp"}, "versions": [
        {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": {"type": "object", "properties": {"watts": {"type": "integer", "default": 5}}}}}}}]}})
for event in watch.Watch().stream(definitions.list_custom_resource_definition, timeout_seconds=20):
    if any(c.type == "Established" and c.status == "True" for c in event["object"].status.conditions or []):
        break
lamp = custom.create_namespaced_custom_object("py.test", "v1", "py", "lamps", {
    "apiVersion": "py.test/v1", "kind": "Lamp", "metadata": {"name": "desk"}, "spec": {}})
assert lamp["spec"] == {"watts": 5}, lamp
assert client.AuthorizationV1Api().create_self_subject_access_review(client.V1SelfSubjectAccessReview(
    spec=client.V1SelfSubjectAccessReviewSpec(resource_attributes=client.V1ResourceAttributes(
        verb="delete", resource="pods", namespace="py")))).status.allowed
core.delete_namespace("py")
print("all of it")
