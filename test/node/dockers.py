"""A Docker of the tests' own: with its own folders and socket, in a network namespace of its own, where its bridges and its
firewall are in nobody's way."""

import ctypes
import http.client
import json
import os
import pathlib
import shutil
import socket
import subprocess
import unittest
import urllib.parse

import boxes
from ups import PATIENCE, wait_until

CLONE_NEWNET = 0x40000000
DOCKERD = shutil.which("dockerd", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def enter_own_network(test_class):
    """From now on, until the class is done with."""
    system = ctypes.CDLL(None, use_errno=True)
    before = open("/proc/self/ns/net", "rb")
    test_class.addClassCleanup(before.close)
    if system.unshare(CLONE_NEWNET) != 0:
        raise unittest.SkipTest("this system gives nobody a network namespace: " + os.strerror(ctypes.get_errno()))
    test_class.addClassCleanup(lambda: system.setns(before.fileno(), CLONE_NEWNET))
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


class Engine:
    """A Docker Engine for one test class, in the network namespace that the test is in."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.socket = self.folder / "docker.sock"
        self.process = None
        self.start()

    def start(self):
        log = open(self.folder / "dockerd.log", "ab")
        self.process = subprocess.Popen(
            [DOCKERD, "--data-root", self.folder / "data", "--exec-root", self.folder / "exec", "--pidfile", self.folder / "pid",
             "-H", f"unix://{self.socket}", "--bridge", "none",
             "--default-address-pool", "base=10.213.0.0/16,size=24"], stdout=log, stderr=log)
        log.close()
        if not wait_until(lambda: self.process.poll() is not None or self.answers(), PATIENCE) or self.process.poll() is not None:
            raise AssertionError("dockerd did not start:\n" + (self.folder / "dockerd.log").read_text()[-4000:])

    def stop(self):
        self.process.terminate()
        self.process.wait(PATIENCE)

    def answers(self):
        try:
            return self.ask("GET", "/_ping")[0] == 200
        except OSError:
            return False

    def ask(self, method, target, body=None, kind="application/json"):
        connection = http.client.HTTPConnection("localhost", timeout=PATIENCE)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(PATIENCE)
        try:
            connection.sock.connect(str(self.socket))
            connection.request(method, target, body, {"Content-Type": kind} if body else {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def containers(self):
        return json.loads(self.ask("GET", "/containers/json?all=1")[1])

    def networks(self):
        return [n["Name"] for n in json.loads(self.ask("GET", "/networks")[1]) if n["Name"].startswith("cadre")]

    def load(self, name):
        changes = urllib.parse.quote("ENV " + boxes.ENV[0])
        status, said = self.ask("POST", f"/images/create?fromSrc=-&repo={name}&tag=1&changes={changes}", boxes.tree(), "application/x-tar")
        assert status == 200 and b"error" not in said, said


def with_docker(test_class):
    """For tests that start one: skipped where that cannot be."""
    for there, why in ((DOCKERD, "dockerd is not installed: `tools/install docker`"), (os.getuid() == 0, "only root can start dockerd"),
                       (boxes.BUSYBOX, "busybox is not installed: `tools/install cluster`")):
        test_class = unittest.skipUnless(there, why)(test_class)
    return test_class
