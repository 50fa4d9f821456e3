"""What tools/mutate_host.py builds and runs: a copy of the tree, a build of it, and its tests."""
import contextlib
import ctypes
import functools
import hashlib
import json
import os
import re
import resource
import shlex
import signal
import subprocess
import time
from pathlib import Path

MEMORY = 8 << 30  # bytes in memory of a test's processes: a fault may ask for it without end
PERIOD = 0.5      # seconds between two looks at it
PR_SET_CHILD_SUBREAPER = 36


class Tree:
    """A copy of what git sees of a work tree."""

    def __init__(self, source, root):
        self.source, self.root = source, root

    def sync(self):
        """Copies what differs, and takes away what is no longer there. Times of equal files stay."""
        listed = subprocess.run(["git", "-C", self.source, "ls-files", "-z", "--cached", "--others", "--exclude-standard"], check=True, capture_output=True)
        names = {n for n in listed.stdout.decode().split("\0") if n and (self.source / n).is_file()}
        here = {str(p.relative_to(self.root)) for p in self.root.rglob("*") if p.is_file() and "__pycache__" not in p.parts}
        for name in here - names:
            (self.root / name).unlink()
        for name in names:
            self.write(name, (self.source / name).read_bytes(), (self.source / name).stat().st_mode)

    def write(self, name, data, mode):
        path = self.root / name
        if path.is_file() and path.read_bytes() == data:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(mode & 0o777)

    @contextlib.contextmanager
    def changed(self, name, text):
        path = self.root / name
        old = path.read_bytes()
        try:
            path.write_text(text)
            yield
        finally:
            path.write_bytes(old)


class Build:
    """A build of a tree. -g0: an object changes only with its code."""

    def __init__(self, source, folder, kind="Mutants", flags="-O2 -g0"):
        self.source, self.folder = source, folder
        command = ["cmake", "-S", source, "-B", folder, "-G", "Ninja", "--no-warn-unused-cli", f"-DCMAKE_BUILD_TYPE={kind}", f"-DCMAKE_C_FLAGS_{kind.upper()}={flags}",
                   "-DGA_CUDA=OFF", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"]
        launcher = os.environ.get("CMAKE_C_COMPILER_LAUNCHER")
        subprocess.run(command + ([f"-DCMAKE_C_COMPILER_LAUNCHER={launcher}"] if launcher else []), check=True, stdout=subprocess.DEVNULL)
        self.needs = {}
        for line in (folder / "tests/needs.txt").read_text().splitlines():
            name, *targets = line.split()
            self.needs[name] = targets

    def ninja(self, targets):
        return subprocess.run(["ninja", "-C", self.folder, *targets], capture_output=True, text=True)

    def make(self, targets):
        done = self.ninja(targets)
        if done.returncode:
            raise SystemExit(f"{self.folder}: {(done.stdout + done.stderr)[-4000:]}")

    def make_tests(self, names):
        self.make(sorted({target for name in names for target in self.needs.get(name, [])}))

    def make_test(self, name):
        """Builds what a test needs. False: it does not build."""
        targets = self.needs.get(name, [])
        return not targets or self.ninja(targets).returncode == 0

    def tests(self, tier, skip):
        """Builds what the tests of a tier need. Returns {name: test} of ctest's list, which knows commands of what is built alone."""
        self.make_tests(self.listed_tests(tier, skip))
        return {name: test for name, test in self.listed_tests(tier, skip).items() if test["command"]}

    def listed_tests(self, tier, skip):
        text = subprocess.run(["ctest", "--test-dir", self.folder, "--show-only=json-v1"], check=True, capture_output=True, text=True).stdout
        tiers, found = {"quick"} | {tier}, {}
        for test in json.loads(text)["tests"]:
            properties = {p["name"]: p["value"] for p in test.get("properties", [])}
            if tiers & set(properties.get("LABELS", [])) and not re.search(skip, test["name"]):
                found[test["name"]] = {"command": test.get("command"), "properties": properties}
        return found

    @functools.cached_property
    def objects(self):
        """{source, by its path from the root: the objects that are made of it}."""
        found = {}
        for entry in json.loads((self.folder / "compile_commands.json").read_text()):
            path = Path(entry["file"])
            words = shlex.split(entry["command"])
            if path.is_relative_to(self.source) and path.suffix == ".c":
                found.setdefault(str(path.relative_to(self.source)), []).append(words[words.index("-o") + 1])
        return found

    def hashes(self, names):
        return [hashlib.sha256((self.folder / n).read_bytes()).hexdigest() if (self.folder / n).is_file() else None for n in names]

    def compile(self, path):
        """True: the objects are as they were; None: they do not compile. Objects that nobody has built stay so."""
        objects = [o for o in self.objects[path] if (self.folder / o).is_file()]
        before = self.hashes(objects)
        if self.ninja(objects).returncode:
            return None
        return before == self.hashes(objects)


def end_orphans():
    """Ends processes that a test has left: they have become children of this one."""
    me = str(os.getpid())
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            if fields[1] == me:
                os.kill(int(folder.name), signal.SIGKILL)
        except (OSError, IndexError):
            continue
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def resident(session):
    """Bytes in memory of all processes of a session. The emulator and ranks reserve far more addresses than they use, so no limit of the system serves."""
    total = 0
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            total += int(fields[21]) * resource.getpagesize() if int(fields[3]) == session else 0
    return total


def wait_for(child, seconds):
    """The exit status; None and why where the test had to be ended."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.wait(timeout=PERIOD), None
        if resident(child.pid) > MEMORY:
            return None, f"took more than {MEMORY >> 30} GiB"
    return None, f"took longer than {seconds:.0f} s"


def run_test(test, seconds):
    """Runs a test of ctest's list by itself: "passed", "exit N", or how it had to be ended."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    properties, env = test["properties"], dict(os.environ)
    env.update(e.split("=", 1) for e in properties.get("ENVIRONMENT", []))
    child = subprocess.Popen(test["command"], cwd=properties.get("WORKING_DIRECTORY"), env=env, start_new_session=True,
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    rc, why = wait_for(child, seconds)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    end_orphans()
    return why or ("passed" if rc in (0, properties.get("SKIP_RETURN_CODE", 0)) else f"exit {rc}")
