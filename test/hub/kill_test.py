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
                                    {"content-type": "application/json"})
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
        said, heard, wrong = {}, [], []

        def write(number):
            client = Client(hub, port)
            highest = 0
            for i in range(10 ** 9):
                if stop.is_set():
                    return
                name = f"w{number}-{i}"
                answer = client.request("POST", PATH, {"metadata": {"name": name}, "data": {"x": "y" * 500}})
                if answer is None:
                    stop.wait(0.05)
                    continue
                if answer[0] != 201:
                    wrong.append(f"{name}: {answer}")
                    return
                version = int(answer[1]["metadata"]["resourceVersion"])
                if version <= highest:
                    wrong.append(f"{name}: version {version} after {highest}")
                highest = version
                said[name] = version

        def watch():
            client, version = Client(hub, port), first
            while not stop.is_set():
                for event in client.lines(f"{PATH}?watch=1&resourceVersion={version}"):
                    if event["type"] == "ERROR":
                        wrong.append(f"the watch: {event}")
                        return
                    version = event["object"]["metadata"]["resourceVersion"]
                    heard.append((int(version), event["object"]["metadata"]["name"]))
                stop.wait(0.05)

        threads = [threading.Thread(target=write, args=(n,)) for n in range(WRITERS)] + [threading.Thread(target=watch)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(KILLS):
                time.sleep(chance.uniform(0.05, 0.6))  # somewhere in the middle of it
                hub.stop("kill")
                hub.start()
            answered = len(said)
            self.assertTrue(wait_until(lambda: len(said) > answered, 60), "nobody writes any more")
        finally:
            stop.set()
            hub.stop("kill")
            for thread in threads:
                thread.join(60)
        hub.start()
        client = Client(hub, port)
        listed = client.request("GET", PATH)[1]
        there = {o["metadata"]["name"]: int(o["metadata"]["resourceVersion"]) for o in listed["items"]}
        self.assertEqual(wrong, [])
        self.assertGreater(len(said), KILLS, "hardly anything was written")
        lost = {name for name, version in said.items() if there.get(name) != version}
        self.assertEqual(lost, set(), "said yes, and lost")
        self.assertGreaterEqual(int(listed["metadata"]["resourceVersion"]), max(there.values()))
        versions = [version for version, _ in heard]
        self.assertEqual(versions, sorted(set(versions)), "in order, each once")
        until = versions[-1] if versions else 0
        missed = {name for name, version in there.items() if int(first) < version <= until} - {name for _, name in heard}
        self.assertEqual(missed, set(), "the watch missed them")
        print(f"{KILLS} kills, {len(said)} writes answered, {len(there)} there, {len(heard)} heard", flush=True)


if __name__ == "__main__":
    unittest.main()
