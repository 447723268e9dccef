"""What every module of tools/cluster uses: where things are kept, how it talks, waits and fails."""

import contextlib
import fcntl
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache").absolute() / "cadre"


class Failure(Exception):
    """Ends the command with its text as the message."""


def say(text):
    """Talks on stderr: stdout carries only what a caller reads."""
    print(f"cluster: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def stage(text):
    """Says how long the block took."""
    begin = time.monotonic()
    yield
    say(f"{text} in {time.monotonic() - begin:.1f} s")


@contextlib.contextmanager
def locked(path, blocking=True):
    """Holds an flock; the kernel lets go of it when this process dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if blocking else fcntl.LOCK_NB))
        yield


def wait_for(condition, seconds):
    """Polls until the condition holds; tells whether it did."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def write(path, text, mode=0o600):
    """Replaces a file in one step, so that no reader meets half of it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text)
    draft.chmod(mode)
    draft.rename(path)


def run(*argv, **options):
    """Runs a short command and returns its output; its complaints become the failure's text."""
    options.setdefault("input", "")
    try:
        done = subprocess.run([str(a) for a in argv], text=True, capture_output=True, **options)
    except FileNotFoundError as missing:
        raise Failure(f"cannot run {argv[0]}: {missing}") from missing
    if done.returncode != 0:
        command = " ".join(map(str, argv))
        raise Failure(f"`{command}` ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout
