"""What is in the cluster, kept current by one watch for each kind: many runs look at it for the price of one."""

import collections
import http.client
import json
import threading
import time

from kube import RESOURCES, Kube, Refused


class Mirror:
    """Lags behind a little: good for waiting, not for judging."""

    def __init__(self, login):
        self.login = login
        self.lock = threading.Lock()
        self.objects = collections.defaultdict(dict)  # namespace -> ref -> object
        self.changes = collections.Counter()  # of each namespace
        self.over = False
        self.threads = [threading.Thread(target=self.follow, args=(resource,), daemon=True) for resource in RESOURCES]
        for thread in self.threads:
            thread.start()

    def end(self):
        self.over = True
        for thread in self.threads:
            thread.join()

    def look(self, ns):
        """How often something has changed there, and what there is."""
        with self.lock:
            return self.changes[ns], dict(self.objects[ns])

    def follow(self, resource):
        while not self.over:
            kube = Kube(self.login)
            try:
                self.watch(kube, resource)
            except (OSError, http.client.HTTPException, ValueError, Refused):
                time.sleep(0.1)  # the next picture is a whole one
            finally:
                kube.close()

    def watch(self, kube, resource):
        path = f"/{RESOURCES[resource][0]}/{resource}"
        listed = kube.ask("GET", path)
        with self.lock:
            for ns, objects in self.objects.items():
                for ref in [ref for ref in objects if ref.startswith(f"{resource}/")]:
                    del objects[ref]
                self.changes[ns] += 1
            for item in listed["items"]:
                self.put("ADDED", resource, item)
        version = listed["metadata"]["resourceVersion"]
        for line in kube.stream(f"{path}?watch=1&timeoutSeconds=5&allowWatchBookmarks=true&resourceVersion=%s", version,
                                lambda: self.over):
            event = json.loads(line)
            if event["type"] == "ERROR":
                return
            if event["type"] != "BOOKMARK":
                with self.lock:
                    self.put(event["type"], resource, event["object"])

    def put(self, what, resource, item):
        ns, ref = item["metadata"]["namespace"], f"{resource}/{item['metadata']['name']}"
        if what == "DELETED":
            self.objects[ns].pop(ref, None)
        else:
            self.objects[ns][ref] = item
        self.changes[ns] += 1
