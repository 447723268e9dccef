"""A small client of a Kubernetes API: requests and answers as they are."""

import base64
import http.client
import json
import re
import ssl
import tempfile
import urllib.parse

# resource: where it is found, and its kind
RESOURCES = {
    "agents": ("apis/kaos.tools/v1alpha1", "Agent"),
    "modelapis": ("apis/kaos.tools/v1alpha1", "ModelAPI"),
    "mcpservers": ("apis/kaos.tools/v1alpha1", "MCPServer"),
    "deployments": ("apis/apps/v1", "Deployment"),
    "services": ("api/v1", "Service"),
    "configmaps": ("api/v1", "ConfigMap"),
    "secrets": ("api/v1", "Secret"),
}
OURS = ("agents", "modelapis", "mcpservers")
CHILDREN = ("deployments", "services", "configmaps", "secrets")


class Refused(Exception):
    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
        self.code = code


class Login:
    """What a kubeconfig says, of tools/cluster (a token) or of the hub (a client certificate)."""

    def __init__(self, kubeconfig):
        with open(kubeconfig) as file:
            text = file.read()
        self.server = re.search(r"server: (\S+)", text)[1]
        self.ca = decoded(text, "certificate-authority-data")
        token = re.search(r"token: (\S+)", text)
        self.token = token[1] if token else None
        self.headers = {"Authorization": f"Bearer {self.token}"} if token else {}
        self.context = ssl.create_default_context(cadata=self.ca)
        if not token:
            with tempfile.NamedTemporaryFile("w") as file:  # there is no way without one
                file.write(decoded(text, "client-certificate-data") + decoded(text, "client-key-data"))
                file.flush()
                self.context.load_cert_chain(file.name)


def decoded(text, field):
    return base64.b64decode(re.search(field + r": (\S+)", text)[1]).decode()


class Kube:
    """One connection; belongs to one thread."""

    def __init__(self, login):
        self.login = login
        self.connection = None

    def ask(self, method, path, body=None, content_type="application/json"):
        headers = {**self.login.headers, "Content-Type": content_type}
        sent = None if body is None else json.dumps(body)
        for again in (True, False):
            if not self.connection:
                address = urllib.parse.urlparse(self.login.server)
                self.connection = http.client.HTTPSConnection(address.hostname, address.port, timeout=60,
                                                              context=self.login.context)
            try:
                self.connection.request(method, path, sent, headers)
                answer = self.connection.getresponse()
                said = answer.read()
                break
            except (OSError, http.client.HTTPException):
                self.connection.close()
                self.connection = None
                if not again or method == "POST":
                    raise
        if answer.status >= 300:
            raise Refused(answer.status, said.decode(errors="replace"))
        return json.loads(said)

    def stream(self, path, version, over):
        """Lines of one watch after another, each from where the last one ended, until `over` says so."""
        headers = self.login.headers
        while not over():
            self.connection.request("GET", path % version, headers=headers)
            answer = self.connection.getresponse()
            if answer.status >= 300:
                raise Refused(answer.status, answer.read().decode(errors="replace"))
            while line := answer.readline():
                yield line
                version = json.loads(line)["object"]["metadata"].get("resourceVersion", version)

    def close(self):
        if self.connection:
            self.connection.close()
            self.connection = None

    @staticmethod
    def path(resource, ns, name="", subresource=""):
        parts = [RESOURCES[resource][0], "namespaces", ns, resource, name, subresource]
        return "/" + "/".join(part for part in parts if part)

    def list(self, resource, ns):
        return self.ask("GET", self.path(resource, ns))["items"]

    def get(self, resource, ns, name):
        return self.ask("GET", self.path(resource, ns, name))

    def create(self, resource, ns, name, rest, manager=""):
        root, kind = RESOURCES[resource]
        metadata = dict(rest.get("metadata", {}), name=name, namespace=ns)
        version = root.partition("/")[2]
        query = f"?fieldManager={manager}" if manager else ""
        return self.ask("POST", self.path(resource, ns) + query,
                        dict(rest, apiVersion=version, kind=kind, metadata=metadata))

    def merge(self, resource, ns, name, patch, subresource=""):
        return self.ask("PATCH", self.path(resource, ns, name, subresource), patch, "application/merge-patch+json")

    def delete(self, resource, ns, name, uid=None):
        """Of nothing is fine: who came first does not matter."""
        try:
            body = {"preconditions": {"uid": uid}} if uid else None
            self.ask("DELETE", self.path(resource, ns, name), body)
        except Refused as refused:
            if refused.code not in (404, 409):
                raise
