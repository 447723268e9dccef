"""The hub is killed again and again while clients write and watch: what it said yes to is there, versions never go
back, and a watch that goes on where it was misses nothing and hears nothing twice.

  CADRE_KILLS=100 python3 test/hub/kill_test.py
"""

import http.client
import json
import os
import random
import socket
import ssl
import threading
import time
import unittest

from hubs import HubTest, wait_until

KILLS = int(os.environ.get("CADRE_KILLS", "5"))
WRITERS = 6
PATH = "/api/v1/namespaces/default/configmaps"


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Client:
    def __init__(self, hub, port):
        self.port = port
        self.context = ssl.create_default_context(cafile=hub.data / "ca.crt")
        self.context.load_cert_chain(hub.data / "admin.crt", hub.data / "admin.key")
        self.connection = None

    def request(self, method, path, body=None):
        """The answer's code and object; None when nobody knows what became of it."""
        try:
            if self.connection is None:
                self.connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=self.context, timeout=30)
            self.connection.request(method, path, json.dumps(body) if body is not None else None,
                                    {"content-type": "application/merge-patch+json" if method == "PATCH" else "application/json"})
            answer = self.connection.getresponse()
            return answer.status, json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError):
            self.connection = None
            return None

    def lines(self, path):
        """The lines of a stream, until it breaks."""
        try:
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=self.context, timeout=30)
            connection.request("GET", path)
            answer = connection.getresponse()
            while line := answer.readline():
                yield json.loads(line)
        except (OSError, http.client.HTTPException, ValueError):
            return


class KillTest(HubTest):
    def test_nothing_that_was_answered_is_lost(self):
        chance = random.Random(os.environ.get("CADRE_SEED"))
        port = free_port()
        hub = self.hub("--port", str(port))
        first = Client(hub, port).request("GET", PATH)[1]["metadata"]["resourceVersion"]
        stop = threading.Event()
        said, unknown, wrong = {}, set(), []  # the version of each, 0 when it was deleted; what nobody knows of
        answered = set()  # every version that an answer told
        highest, lock = [int(first)], threading.Lock()  # of any answer
        heard, seen = [], {}  # what the watch told, and what it makes of it

        def write(number):
            client = Client(hub, port)

            def ask(name, method, path, body):
                with lock:
                    before = highest[0]  # whoever had it: what is asked for from now on comes later
                answer = client.request(method, path, body)
                if answer is None:
                    unknown.add(name)
                    stop.wait(0.05)
                    return
                if answer[0] not in (200, 201) and not (name in unknown and answer[0] in (404, 409)):
                    wrong.append(f"{method} {name}: {answer}")
                if answer[0] not in (200, 201):
                    return
                version = 0 if method == "DELETE" else int(answer[1]["metadata"]["resourceVersion"])
                with lock:
                    if 0 < version <= before and name not in unknown:
                        wrong.append(f"{name}: version {version} after {before}")
                    if version in answered and name not in unknown:
                        wrong.append(f"{name}: version {version} a second time")
                    if version > 0:
                        highest[0] = max(highest[0], version)
                        answered.add(version)
                if name not in unknown:
                    said[name] = version

            for i in range(10 ** 9):
                if stop.is_set() or wrong:
                    return
                name = f"w{number}-{i}"
                ask(name, "POST", PATH, {"metadata": {"name": name}, "data": {"x": "y" * 500}})
                if i % 3 > 0:
                    ask(name, "PATCH", f"{PATH}/{name}", {"data": {"x": "z"}})
                if i % 3 > 1:
                    ask(name, "DELETE", f"{PATH}/{name}", None)

        def follow(client, version, more=""):
            """Hears what comes after a version, and gives the last one of it."""
            for event in client.lines(f"{PATH}?watch=1&resourceVersion={version}{more}"):
                if event["type"] == "ERROR":
                    wrong.append(f"the watch: {event}")
                    break
                version, name = event["object"]["metadata"]["resourceVersion"], event["object"]["metadata"]["name"]
                heard.append(int(version))
                if event["type"] == "DELETED":
                    seen.pop(name, None)
                else:
                    seen[name] = int(version)
            return version

        last = [first]

        def watch():
            client = Client(hub, port)
            while not stop.is_set() and not wrong:
                last[0] = follow(client, last[0])
                stop.wait(0.05)

        threads = [threading.Thread(target=write, args=(n,)) for n in range(WRITERS)] + [threading.Thread(target=watch)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(KILLS):
                time.sleep(chance.uniform(0.05, 0.6))  # somewhere in the middle of it
                hub.stop("kill")
                hub.start()
            written = len(said)
            self.assertTrue(wait_until(lambda: len(said) > written, 60), "nobody writes any more")
        finally:
            stop.set()
            hub.stop("kill")
            for thread in threads:
                thread.join(60)
        hub.start()
        client = Client(hub, port)
        listed = client.request("GET", PATH)[1]
        there = {o["metadata"]["name"]: int(o["metadata"]["resourceVersion"]) for o in listed["items"]}
        follow(client, last[0], "&timeoutSeconds=2")
        self.assertEqual(wrong, [])
        self.assertGreater(len(said), KILLS, "hardly anything was written")
        lost = {name for name, version in said.items() if name not in unknown and there.get(name, 0) != version}
        self.assertEqual(lost, set(), "said yes, and lost")
        self.assertGreaterEqual(int(listed["metadata"]["resourceVersion"]), max(there.values()))
        self.assertEqual(heard, sorted(set(heard)), "in order, each once")
        self.assertEqual(sorted(answered - set(heard)), [], "said yes, and the watch was not told")
        # Nobody writes anything else here, so that each version is one that the watch hears of.
        self.assertEqual(heard, list(range(int(first) + 1, int(listed["metadata"]["resourceVersion"]) + 1)),
                         "the watch has gaps")
        before = {name for name, version in there.items() if version <= int(first)}
        self.assertEqual(seen, {name: version for name, version in there.items() if name not in before},
                         "what the watch told is not what there is")
        print(f"{KILLS} kills, {len(said)} written, {len(there)} there, {len(heard)} events heard", flush=True)


if __name__ == "__main__":
    unittest.main()
