"""The one workload that every plan runs: each kind of KAOS through create, edit, back, recreate and delete.

A step is a list of things that a user does, and the phase that every object reaches after it.
"""

import base64

from kube import OURS


def secret(value):
    return {"type": "Opaque", "data": {"key": base64.b64encode(value.encode()).decode()}}


SMALL = "def echo(text: str) -> str:\n    return text\n"
LARGE = SMALL + "# " + "x" * (100 << 10) + "\n"  # over 96 KiB: goes to a ConfigMap

LLM = {"spec": {"mode": "Proxy", "proxyConfig": {
    "models": ["a", "b/*"], "provider": "openai", "apiBase": "http://models.example:1/v1", "masterKey": {"generate": True},
    "apiKey": {"valueFrom": {"secretKeyRef": {"name": "creds", "key": "key"}}}}}}
LOCAL = {"spec": {"mode": "Hosted", "hostedConfig": {"model": "smollm2:135m"}}}
ECHO = {"spec": {"config": {"tools": {"fromString": SMALL}}}}
CLOCK = {"spec": {"config": {"tools": {"fromPackage": "mcp-server-time==2025.1.1"}}}}
WORKER = {"spec": {"modelAPI": "local", "config": {"description": "works"}}}
BOSS = {"spec": {"modelAPI": "llm", "model": "a", "mcpServers": ["echo", "clock"], "replicas": 2,
                 "agentNetwork": {"access": ["worker"]}, "config": {"instructions": "Be kind."}}}

# What a user has in the namespace before; it is nobody's business, or is named by an object of ours.
FOREIGN_LABELS = {"app": "agent", "agent": "boss", "app.kubernetes.io/part-of": "kaos"}
BEFORE = [
    ("secrets", "creds", secret("first")),
    ("configmaps", "agent-boss-notes", {"metadata": {"labels": FOREIGN_LABELS}, "data": {"a": "b"}}),
    ("secrets", "modelapi-llm-keys", dict(secret("mine"), metadata={"labels": FOREIGN_LABELS})),
    ("services", "agent-boss2", {"metadata": {"labels": FOREIGN_LABELS}, "spec": {"clusterIP": "None", "ports": [{"port": 1}]}}),
    ("deployments", "agent-boss2", {"metadata": {"labels": FOREIGN_LABELS}, "spec": {
        "replicas": 0, "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "x", "image": "x"}]}}}}),
]
FOREIGN = {f"{resource}/{name}" for resource, name, _ in BEFORE}

# What the operator keeps for itself in its own namespace, which here is the namespace of the plan.
ITS_OWN = {"secrets/cadre-hash-key"}

OBJECTS = {"modelapis/llm": LLM, "modelapis/local": LOCAL, "mcpservers/echo": ECHO, "mcpservers/clock": CLOCK,
           "agents/worker": WORKER, "agents/boss": BOSS}

ALL_READY = {ref: "Ready" for ref in OBJECTS}

STEPS = {
    "create": ([("create", ref, content) for ref, content in OBJECTS.items()], ALL_READY),
    "edit": ([
        ("merge", "secrets/creds", secret("second")),
        ("merge", "modelapis/llm", {"spec": {"proxyConfig": {"models": ["a", "c"]}}}),
        ("merge", "modelapis/local", {"spec": {"mode": "Proxy", "hostedConfig": None,
                                               "proxyConfig": {"models": ["smollm2:135m"]}}}),
        ("merge", "mcpservers/echo", {"spec": {"config": {"tools": {"fromString": LARGE}}}}),
        ("merge", "mcpservers/clock", {"spec": {"config": {"tools": {"fromPackage": "mcp-server-time==2025.2.0"}},
                                                "resources": {"limits": {"memory": "64Mi"}}}}),
        ("merge", "agents/worker", {"spec": {"agentNetwork": {"expose": False}, "config": {"description": "hides"}}}),
        ("merge", "agents/boss", {"spec": {"replicas": 3, "model": "c", "mcpServers": ["clock"],
                                           "agentNetwork": {"access": []},
                                           "config": {"instructions": "Be brief.", "reasoningLoopMaxSteps": 7},
                                           "container": {"env": [{"name": "MOOD", "value": "calm"}]}}}),
    ], ALL_READY),
    "hide": ([("merge", "agents/boss", {"spec": {"agentNetwork": {"access": ["worker"]}}})],
             dict(ALL_READY, **{"agents/boss": "Waiting"})),  # the peer is not exposed
    "back": ([
        ("merge", "secrets/creds", secret("first")),
        ("merge", "modelapis/llm", {"spec": {"proxyConfig": {"models": ["a", "b/*"]}}}),
        ("merge", "modelapis/local", {"spec": {"mode": "Hosted", "proxyConfig": None,
                                               "hostedConfig": {"model": "smollm2:135m"}}}),
        ("merge", "mcpservers/echo", ECHO),
        ("merge", "mcpservers/clock", {"spec": {"config": {"tools": {"fromPackage": "mcp-server-time==2025.1.1"}},
                                                "resources": None}}),
        ("merge", "agents/worker", {"spec": {"agentNetwork": None, "config": {"description": "works"}}}),
        ("merge", "agents/boss", {"spec": {"replicas": 2, "model": "a", "mcpServers": ["echo", "clock"],
                                           "config": {"instructions": "Be kind.", "reasoningLoopMaxSteps": None},
                                           "container": None}}),
    ], ALL_READY),
    "recreate": ([step for ref, content in (("modelapis/llm", LLM), ("mcpservers/echo", ECHO), ("agents/boss", BOSS))
                  for step in (("delete", ref, None), ("create", ref, content))], ALL_READY),
    "delete": ([("delete", ref, None) for ref in OBJECTS], {}),
}


def do(kube, ns, action):
    verb, ref, content = action
    resource, name = ref.split("/")
    if verb == "create":
        kube.create(resource, ns, name, content)
    elif verb == "merge":
        kube.merge(resource, ns, name, content)
    else:
        kube.delete(resource, ns, name)


def is_object(ref):
    return ref.split("/")[0] in OURS
