"""Ingresses of `cadre up`: requests by host and path to pods, streamed both ways."""

import base64
import hashlib
import http.client
import json
import os
import pathlib
import socket
import subprocess
import threading
import unittest

from ups import PATIENCE, UpCase, tool, wait_until

# What each pod runs: it says who it is and what it was asked, and answers in whatever way the path says.
SERVER = r"""
import base64, hashlib, http.server, json, os, threading
GO, SEEN = threading.Event(), []
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def tell(self, what):
        body = json.dumps(what).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def pieces(self):
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            while size := int(self.rfile.readline().strip() or b"0", 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return
        left = int(self.headers.get("Content-Length", 0))
        while left:
            piece = self.rfile.read(min(left, 1 << 16))
            if not piece:
                return
            left -= len(piece)
            yield piece
    def do_PUT(self):
        hashed, size = hashlib.sha256(), 0
        for piece in self.pieces():
            hashed.update(piece)
            size += len(piece)
        self.tell({"bytes": size, "sha256": hashed.hexdigest()})
    def do_POST(self):
        self.do_PUT()
    def do_GET(self):
        SEEN.append(self.path)
        what = self.path.rstrip("/").split("/")[-1]
        getattr(self, "get_" + what.partition("?")[0].replace(".", "_"), self.other)()
    def other(self):
        self.tell({"name": os.environ["NAME"], "path": self.path, "headers": dict(self.headers), "seen": SEEN})
    def get_large(self):
        self.send_response(200)
        self.send_header("Content-Length", str(100 << 20))
        self.end_headers()
        for _ in range(100 << 4):
            self.wfile.write(b"x" * (1 << 16))
    def get_events(self):
        GO.clear()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(b"data: first\n\n")
        GO.wait()
        self.wfile.write(b"data: second\n\n")
        self.close_connection = True
    def get_go(self):
        GO.set()
        self.tell({})
    def get_half(self):
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"half")
        self.close_connection = True
    def get_ws(self):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        while head := self.rfile.read(2):
            mask = self.rfile.read(4)
            text = bytes(b ^ mask[i % 4] for i, b in enumerate(self.rfile.read(head[1] & 127)))
            self.wfile.write(bytes([head[0], len(text)]) + text)
        self.close_connection = True
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer((os.environ["POD_IP"], 8080), Handler).serve_forever()
"""


def server(name):
    return [
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
         "spec": {"selector": {"matchLabels": {"app": name}}, "template": {
             "metadata": {"labels": {"app": name, "kind": "server"}},
             "spec": {"containers": [{
                 "name": name, "image": "cadre", "command": ["python3", "-c", SERVER],
                 "ports": [{"name": "page", "containerPort": 8080}],
                 "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}, {"name": "NAME", "value": name}],
                 "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1}}]}}}},
        service(name, {"app": name})]


def service(name, selector):
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"selector": selector, "ports": [{"name": "http", "port": 80, "targetPort": 8080}, {"name": "dead", "port": 81, "targetPort": 9}]}}


def backend(name, port=80):
    return {"service": {"name": name, "port": {"name": port} if isinstance(port, str) else {"number": port}}}


def ingress(name, rules, **spec):
    return {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": name},
            "spec": {**spec, "rules": [{"host": host, "http": {"paths": [{"pathType": kind, "path": path, "backend": to} for kind, path, to in paths]}}
                                       for host, paths in rules.items()]}}


WEB = ingress("web", {
    "web.test": [("Prefix", "/", backend("one")), ("Prefix", "/two", backend("two", "http")), ("Exact", "/two/one", backend("one")),
                 ("Prefix", "/idle", backend("idle")), ("Prefix", "/dead", backend("one", "dead"))],
    "*.wild.test": [("Prefix", "/", backend("two"))]}, tls=[{"hosts": ["web.test"]}])


class IngressTest(UpCase):
    def serve(self, *objects):
        self.up("--ingress-port", "0")
        self.apply(*server("one"), *server("two"), service("idle", {"app": "none"}), *objects)
        for name in ("one", "two"):
            self.kubectl(self, "wait", f"deploy/{name}", "--for=condition=Available", f"--timeout={PATIENCE}s")
        self.port = self.served(objects[0]["metadata"]["name"])
        self.wait_for(lambda: {self.ask("web.test", path)[0] for path in ("/", "/two")} == {200}, "both answer")

    def served(self, name):
        self.kubectl(self, "wait", f"ingress/{name}", "--for=jsonpath={.status.loadBalancer.ingress[0].ip}=127.0.0.1", f"--timeout={PATIENCE}s")
        return json.loads(self.kubectl(self, "get", "ingress", name, "-o", "json"))["status"]["loadBalancer"]["ingress"][0]["ports"][0]["port"]

    def connect(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        self.addCleanup(connection.close)
        return connection

    def ask(self, host, path, headers=None, method="GET", body=None):
        connection = self.connect()
        connection.request(method, path, body=body, headers={"Host": host, **(headers or {})})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, json.loads(text) if text.startswith("{") else text

    def name(self, host, path):
        status, said = self.ask(host, path)
        self.assertEqual(status, 200, said)
        return said["name"]

    def raw(self, data):
        """All that comes back until the connection is closed."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as connection:
            try:
                connection.sendall(data)
            except OSError:
                pass
            out = b""
            while piece := connection.recv(65536):
                out += piece
            return out

    def memory(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) >> 10

    def test_requests_go_where_rules_say(self):
        self.serve(WEB)
        self.assertEqual([self.name("web.test", path) for path in ("/", "/x?y", "/two", "/two/x", "/two/one", "/twofold")],
                         ["one", "one", "two", "two", "one", "one"])
        self.assertEqual([self.name(host, "/") for host in ("a.wild.test", f"WEB.test:{self.port}")], ["two", "one"])

        self.assertEqual(self.ask("none.test", "/x"), (404, "no Ingress has a rule for none.test /x\n"))
        self.assertEqual(self.ask("a.b.wild.test", "/")[0], 404)
        self.assertEqual(self.ask("web.test", "/idle"), (503, "the Service default/idle has no ready pod\n"))
        status, said = self.ask("web.test", "/dead")
        self.assertEqual(status, 502)
        self.assertRegex(said, r"^the Service default/one: connecting to 127\.\d+\.\d+\.\d+:9: connection refused\n$")

        # What the pod hears of the client.
        asked = self.ask("web.test", "/a%20b?c=%2F", {"X-Forwarded-For": "6.6.6.6", "X-Forwarded-Proto": "https", "Forwarded": "for=6.6.6.6",
                                                     "Connection": "X-Mine, X-Forwarded-For", "X-Mine": "1", "X-Other": "2"})[1]
        self.assertEqual(asked["path"], "/a%20b?c=%2F")
        self.assertEqual({name.lower(): value for name, value in asked["headers"].items() if name != "Accept-Encoding"},
                         {"host": "web.test", "x-other": "2", "connection": "close", "x-forwarded-for": "127.0.0.1",
                          "x-forwarded-host": "web.test", "x-forwarded-proto": "http"})

        # A target with its host; one connection for many.
        connection = self.connect()
        for _ in range(3):
            connection.request("GET", "http://web.test/two", headers={"Host": "none.test"})
            self.assertEqual(json.loads(connection.getresponse().read())["name"], "two")

        self.assertIn("127.0.0.1", self.kubectl(self, "get", "ingress", "web"))
        self.assertEqual(json.loads(self.kubectl(self, "get", "ingressclass", "cadre", "-o", "json"))["metadata"]["annotations"]["cadre.dev/port"],
                         str(self.port))

    def test_ingresses_change_and_others_are_left_alone(self):
        self.serve(WEB)
        self.apply(ingress("foreign", {"foreign.test": [("Prefix", "/", backend("one"))]}, ingressClassName="nginx"),
                   ingress("named", {"named.test": [("Prefix", "/", backend("one"))]}, ingressClassName="cadre"))
        self.assertEqual(self.served("named"), self.port)
        self.assertEqual(self.name("named.test", "/"), "one")
        self.assertEqual(self.ask("foreign.test", "/")[0], 404)
        self.assertEqual(json.loads(self.kubectl(self, "get", "ingress", "foreign", "-o", "json"))["status"]["loadBalancer"], {})

        self.kubectl(self, "patch", "ingress", "named", "--type=json", "-p",
                     json.dumps([{"op": "replace", "path": "/spec/rules/0/http/paths/0/backend/service/name", "value": "two"}]))
        self.wait_for(lambda: self.name("named.test", "/") == "two", "it leads elsewhere now")
        self.apply(ingress("otherwise", {}, defaultBackend=backend("two")))
        self.wait_for(lambda: self.ask("none.test", "/")[0] == 200, "there is a default backend")
        self.assertEqual([self.name(host, "/x") for host in ("none.test", "foreign.test", "web.test")], ["two", "two", "one"])
        self.kubectl(self, "delete", "ingress", "otherwise", "named")
        self.wait_for(lambda: self.ask("named.test", "/")[0] == 404, "they are gone")

        # Pods come and go under it.
        self.kubectl(self, "scale", "deploy/one", "--replicas=0")
        self.wait_for(lambda: self.ask("web.test", "/")[0] == 503, "there is none")
        self.kubectl(self, "scale", "deploy/one", "--replicas=2")
        self.wait_for(lambda: self.ask("web.test", "/")[0] == 200, "there are some")

    def test_bodies_are_streamed(self):
        self.serve(WEB)
        size = 100 << 20
        piece = os.urandom(1 << 20)
        hashed = hashlib.sha256(piece * 100).hexdigest()
        before = self.memory()
        for headers in ({"Content-Length": str(size)}, {}):  # without, Python sends chunks
            status, said = self.ask("web.test", "/up", headers, "PUT", (piece for _ in range(100)))
            self.assertEqual((status, said), (200, {"bytes": size, "sha256": hashed}), headers)
        connection = self.connect()
        connection.request("GET", "/large", headers={"Host": "web.test"})
        answer = connection.getresponse()
        self.assertEqual(answer.headers["Content-Length"], str(size))
        self.assertEqual(sum(iter(lambda: len(answer.read(1 << 20)), 0)), size)
        # One who takes nothing, and one who sends to a pod that takes nothing.
        lazy = self.connect()
        lazy.request("GET", "/large", headers={"Host": "web.test"})
        self.assertEqual(lazy.getresponse().status, 200)
        self.assertEqual(self.name("web.test", "/"), "one", "others are served meanwhile")
        self.assertLess(self.memory() - before, 32, "MB more than before")

        # Events arrive when they are sent.
        connection = self.connect()
        connection.request("GET", "/events", headers={"Host": "web.test"})
        events = connection.getresponse()
        self.assertEqual(events.readline(), b"data: first\n")
        self.assertEqual(self.ask("web.test", "/go")[0], 200)
        self.assertEqual(events.read(), b"\ndata: second\n\n")

        # A pod that breaks off.
        connection = self.connect()
        connection.request("GET", "/half", headers={"Host": "web.test"})
        with self.assertRaises(http.client.IncompleteRead):
            connection.getresponse().read()

    def test_web_sockets(self):
        self.serve(WEB)
        key = base64.b64encode(os.urandom(16)).decode()
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as connection:
            connection.sendall(f"GET /ws HTTP/1.1\r\nHost: web.test\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"
                               f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode())
            stream = connection.makefile("rb")
            head = list(iter(stream.readline, b"\r\n"))
            self.assertEqual(head[0], b"HTTP/1.1 101 Switching Protocols\r\n")
            accept = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest())
            self.assertIn(b"Sec-WebSocket-Accept: " + accept + b"\r\n", head)
            for text in (b"one", b"two and a bit more"):
                mask = os.urandom(4)
                connection.sendall(bytes([0x81, 0x80 | len(text)]) + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(text)))
                self.assertEqual(stream.read(2 + len(text)), bytes([0x81, len(text)]) + text)

    def test_hostile_requests(self):
        self.serve(WEB)
        hidden = b"GET /hidden HTTP/1.1\r\nHost: web.test\r\n\r\n"
        head = b"POST /x HTTP/1.1\r\nHost: web.test\r\n"
        for status, request in [
                (431, head + b"X-Large: " + b"x" * (1 << 20) + b"\r\n\r\n"),
                (400, head + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden),
                (400, head + b"Content-Length: 3\r\nContent-Length: 40\r\n\r\nabc" + hidden),
                (400, head + b"Content-Length: +3\r\n\r\nabc" + hidden),
                (400, head + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + hidden),
                (400, head + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n" + hidden),
                (400, head + b"Transfer-Encoding: chunked\r\n\r\n2\r\nabcd\r\n0\r\n\r\n" + hidden),
                (400, head + b"Host: two.test\r\n\r\n" + hidden),
                (400, b"GET /x HTTP/1.1\r\n\r\n"),
                (400, head + b" folded: x\r\n\r\n" + hidden),
                (400, b"CONNECT web.test:443 HTTP/1.1\r\nHost: web.test\r\nConnection: close\r\n\r\n"),
                (400, b"OPTIONS * HTTP/1.1\r\nHost: web.test\r\nConnection: close\r\n\r\n"),
                (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")]:
            self.assertEqual(self.raw(request).split(b" ")[1:2], [str(status).encode()], request[:200])
        # Another protocol than WebSocket is not gone over to.
        answer = self.raw(b"GET /h2c HTTP/1.1\r\nHost: web.test\r\nConnection: Upgrade, HTTP2-Settings, close\r\n"
                          b"Upgrade: h2c\r\nHTTP2-Settings: x\r\n\r\n")
        self.assertIn(b"HTTP/1.1 200 ", answer)
        self.assertNotIn(b"Upgrade", answer)
        self.assertNotIn("/hidden", self.ask("web.test", "/")[1]["seen"])

    def test_a_port_that_is_taken(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            self.up("--ingress-port", str(port))
            lines = []
            reader = threading.Thread(target=lambda: lines.extend(self.process.stderr), daemon=True)
            reader.start()
            self.assertEqual([line for line in lines if "Ingress" in line], [], "nobody listens for nothing")
            self.apply(WEB)
            self.port = self.served("web")
            self.assertNotEqual(self.port, port)
            self.assertEqual(self.ask("web.test", "/"), (503, "there is no Service default/one\n"))
            self.assertTrue(wait_until(lambda: sum("Ingresses" in line for line in lines) == 2, PATIENCE), lines)
            self.assertIn(f"cadre: cannot listen on 127.0.0.1:{port}: address already in use: another port is taken for Ingresses\n", lines)
            self.assertIn(f"cadre: Ingresses are served at http://127.0.0.1:{self.port}\n", lines)
            self.down()
        self.up("--ingress-port", str(port))
        self.wait_for(lambda: self.served("web") == port, "it is told where it is now")


if __name__ == "__main__":
    unittest.main()
