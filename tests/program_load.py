#!/usr/bin/env python3
"""`ga bench --serve` against a server of known delays: times, counts, each kind of failure, options. Usage: program_load.py GA"""
import http.server
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import xml.dom.minidom

GA = os.path.abspath(sys.argv.pop(1))
SLACK = 0.25  # seconds that a busy machine may add


class Fake(http.server.BaseHTTPRequestHandler):
    """Waits `first`, then sends max_tokens chunks `gap` apart. `plan` says what a request does instead, by its number."""

    protocol_version = "HTTP/1.1"
    lock = threading.Lock()

    @classmethod
    def reset(cls):
        cls.first, cls.gap, cls.together, cls.usage, cls.key = 0.05, 0.02, 1, True, None
        cls.plan, cls.bodies, cls.connections, cls.now, cls.most = {}, [], set(), 0, 0

    def log_message(self, *args):
        pass

    def plain(self, code, body, kind="application/json"):
        body = body.encode()
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if Fake.key and self.headers.get("Authorization") != f"Bearer {Fake.key}":
            return self.plain(401, '{"error": {"message": "no such key"}}')
        if self.path != "/v1/models":
            return self.plain(404, "{}")
        self.plain(200, '{"object": "list", "data": [{"id": "fake <1>"}]}')

    def chunk(self, text):
        data = text.encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def event(self, value):
        self.chunk(f"data: {json.dumps(value)}\n\n")

    def choice(self, text):
        chat = self.path.endswith("/chat/completions")
        return {"choices": [{"index": 0, **({"delta": {"content": text}} if chat else {"text": text}), "finish_reason": None}]}

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with Fake.lock:
            number = len(Fake.bodies)
            Fake.bodies.append(body)
            Fake.connections.add(self.client_address)
            Fake.now += 1
            Fake.most = max(Fake.most, Fake.now)
        try:
            self.answer(body, Fake.plan.get(number) or Fake.plan.get("all"))
        except OSError:
            self.close_connection = True
        finally:
            with Fake.lock:
                Fake.now -= 1

    def answer(self, body, what):
        if what in (429, 500, 503):
            return self.plain(what, json.dumps({"error": {"message": f"no: {what}"}}))
        if what == "json":
            return self.plain(200, '{"choices": []}')
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.chunk(": ping\n\n")
        if self.path.endswith("/chat/completions"):
            self.event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
        time.sleep(60 if what == "hang" else Fake.first)
        self.tokens(body["max_tokens"], what)

    def tokens(self, n, what):
        for i in range(0, n, Fake.together):
            if i:
                time.sleep(Fake.gap)
            if i and what == "drop":
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
            if i and what == "garbage":
                self.chunk("data: {what is this\n\n")
            if i and what == "error":
                self.event({"error": {"message": "out of pages", "code": 500}})
            self.event(self.choice("x" * Fake.together))
        if Fake.usage:
            self.event({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": n, "total_tokens": n + 7}})
        if what != "short":
            self.chunk("data: [DONE]\n\n")
        self.chunk("")


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *args):
        pass


class Load(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(("127.0.0.1", 0), Fake)
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()
        cls.url = f"http://127.0.0.1:{cls.server.server_port}"

    def setUp(self):
        Fake.reset()
        self.dir = tempfile.TemporaryDirectory(prefix="ga load ")

    def tearDown(self):
        self.dir.cleanup()

    def path(self, name, text=None):
        path = os.path.join(self.dir.name, name)
        if text is not None:
            with open(path, "w") as f:
                f.write(text)
        return path

    def bench(self, *args, url=None, code=0):
        r = subprocess.run([GA, "bench", "--serve", url or self.url, *args], capture_output=True, text=True, timeout=60,
                           env=dict(os.environ, http_proxy="http://127.0.0.1:9"))
        self.assertEqual(r.returncode, code, r.stdout + r.stderr)
        return r

    def rows(self, *args, **kw):
        out = json.loads(self.bench("--json", *args, **kw).stdout)
        return out, out["rows"]

    def near(self, ms, seconds):
        self.assertGreaterEqual(ms, seconds * 1e3 - 1)
        self.assertLess(ms, (seconds + SLACK) * 1e3)

    def one_error(self, r, *parts):
        self.assertEqual(r.stderr.count("\n"), 1, r.stderr)
        for part in parts:
            self.assertIn(part, r.stderr)
        self.assertEqual(r.stdout, "")

    # --- figures ---

    def test_closed_loop(self):
        out, rows = self.rows("--streams", "1,3", "-n", "6", "--decode", "8", "--goodput", "10000,10000")
        self.assertEqual((out["model"], out["api"], out["decode"]), ("fake <1>", "completions", [8, 8]))
        self.assertEqual([r["streams"] for r in rows], [1, 3])
        for r in rows:
            self.assertEqual((r["started"], r["completed"], r["failed"], r["output_tokens"], r["prompt_tokens"]), (6, 6, 0, 48, 42))
            self.assertEqual((r["chunks"], r["itl_ms"]["n"], r["ttft_ms"]["n"]), (48, 42, 6))
            self.near(r["ttft_ms"]["median"], 0.05)
            self.near(r["itl_ms"]["median"], 0.02)
            self.near(r["e2e_ms"]["median"], 0.05 + 7 * 0.02)
            self.assertLess(r["itl_ms"]["median"], 100)
            self.assertAlmostEqual(r["output_tok_s"], 48 / r["seconds"], places=3)
            self.assertAlmostEqual(r["total_tok_s"], 90 / r["seconds"], places=3)
            self.assertAlmostEqual(r["goodput_s"], 6 / r["seconds"], places=3)
        self.assertGreater(rows[1]["output_tok_s"], 1.5 * rows[0]["output_tok_s"])
        self.assertEqual(Fake.most, 3)
        self.assertLessEqual(len(Fake.connections), 4)  # kept alive; the first request may have had one of its own
        body = Fake.bodies[1]
        want = {"model": "fake <1>", "max_tokens": 8, "temperature": 0, "ignore_eos": True, "stream": True,
                "stream_options": {"include_usage": True}}
        self.assertEqual({k: v for k, v in body.items() if k != "prompt"}, want)
        self.assertEqual({len(b["prompt"].split()) for b in Fake.bodies}, {128})
        self.assertEqual(len({b["prompt"] for b in Fake.bodies}), len(Fake.bodies))

    def test_open_loop(self):
        Fake.first, Fake.gap = 0.3, 0.001
        out, rows = self.rows("--rate", "40", "-n", "40", "--decode", "2", "--seed", "3")
        self.assertEqual((rows[0]["rate"], rows[0]["completed"], out["seed"]), (40, 40, 3))
        self.assertGreater(Fake.most, 4)  # none waits for another: 12 on average
        self.near(rows[0]["ttft_ms"]["median"], 0.3)
        self.assertGreater(rows[0]["seconds"], 0.6)
        self.assertLess(rows[0]["seconds"], 4)

    def test_goodput_bounds(self):
        _, rows = self.rows("--streams", "2", "-n", "4", "--decode", "4", "--goodput", "5,1000")
        self.assertEqual((rows[0]["goodput_s"], rows[0]["completed"]), (0, 4))
        _, rows = self.rows("--streams", "2", "-n", "4", "--decode", "4", "--goodput", "5000,5")
        self.assertEqual((rows[0]["goodput_s"], rows[0]["completed"]), (0, 4))

    def test_several_tokens_in_a_chunk(self):
        Fake.together = 4
        _, rows = self.rows("--streams", "1", "-n", "2", "--decode", "16")
        r = rows[0]
        self.assertEqual((r["chunks"], r["output_tokens"], r["itl_ms"]["n"]), (8, 32, 6))
        self.near(r["tpot_ms"]["median"], 3 * 0.02 / 15)
        self.assertIn("a chunk has 4.00 tokens", self.bench("--streams", "1", "-n", "2", "--decode", "16").stdout)

    def test_without_usage(self):
        Fake.usage = False
        _, rows = self.rows("--streams", "1", "-n", "2", "--decode", "5")
        self.assertEqual((rows[0]["without_usage"], rows[0]["output_tokens"]), (2, 10))

    def test_chat_counts_from_text(self):
        _, rows = self.rows("--api", "chat", "--streams", "1", "-n", "2", "--decode", "3")
        self.assertEqual((rows[0]["completed"], rows[0]["chunks"]), (2, 6))
        self.near(rows[0]["ttft_ms"]["median"], 0.05)  # not at once, when the role comes
        self.assertEqual([m["role"] for m in Fake.bodies[0]["messages"]], ["user"])

    def test_seconds(self):
        _, rows = self.rows("--streams", "2", "--seconds", "0.5", "--decode", "2")
        self.assertGreaterEqual(rows[0]["completed"], 4)
        self.assertLess(rows[0]["seconds"], 3)

    # --- prompts ---

    def test_lengths_ids_and_prefix(self):
        Fake.first = Fake.gap = 0
        args = ["--streams", "4", "-n", "40", "--prompt", "3:9", "--decode", "1:5", "--prompt-ids", "--vocab", "1000",
                "--shared-prefix", "6", "--seed", "11", "--model", "mine"]
        self.bench(*args)
        first = sorted(Fake.bodies, key=json.dumps)
        prompts = [b["prompt"] for b in Fake.bodies]
        self.assertEqual({len(p) for p in prompts}, {9, 10, 11, 12, 13, 14, 15})
        self.assertEqual(len({tuple(p[:6]) for p in prompts}), 1)
        self.assertEqual(len({tuple(p[6:]) for p in prompts}), len(prompts))
        self.assertTrue(all(0 <= i < 1000 for p in prompts for i in p))
        self.assertEqual({b["max_tokens"] for b in Fake.bodies[1:]}, {1, 2, 3, 4, 5})
        self.assertEqual({b["model"] for b in Fake.bodies}, {"mine"})
        Fake.reset()
        Fake.first = Fake.gap = 0
        self.bench(*args)
        self.assertEqual(sorted(Fake.bodies, key=json.dumps), first)  # the same for a seed
        Fake.reset()
        Fake.first = Fake.gap = 0
        self.bench(*args, "--seed", "12")
        self.assertNotEqual(sorted(Fake.bodies, key=json.dumps), first)

    def test_prompts_of_a_file(self):
        Fake.first = Fake.gap = 0
        file = self.path("p.jsonl", '{"prompt": "one"}\n\n{"messages": [{"role": "system", "content": "two"}]}\n')
        self.bench("--api", "chat", "--prompts", file, "--streams", "1", "-n", "3", "--decode", "1")
        self.assertEqual([b["messages"][0]["content"] for b in Fake.bodies], ["one", "two", "one", "two"])
        self.one_error(self.bench("--prompts", file, code=1), "p.jsonl:3", "prompt")
        self.one_error(self.bench("--prompts", self.path("e.jsonl", "\n"), code=1), "no prompts")
        self.one_error(self.bench("--prompts", self.path("none"), code=1), "No such file")

    # --- failures ---

    def failures(self, what, *args):
        Fake.plan = {i: what for i in (2, 4)}
        _, rows = self.rows("--streams", "2", "-n", "6", "--decode", "3", *args)
        r = rows[0]
        self.assertEqual((r["started"], r["completed"], r["failed"], r["ttft_ms"]["n"]), (6, 4, 2, 4))
        self.assertEqual(r["itl_ms"]["n"], 8)  # none of a request that failed
        self.assertEqual([e["n"] for e in r["errors"]], [2])
        return r["errors"][0]["kind"], r["errors"][0]["first"]

    def test_kinds_of_failures(self):
        self.assertEqual(self.failures(429), ("http 429", "no: 429"))
        for what, kind, text in (("drop", "reset", ""), ("garbage", "bad SSE", "not JSON"), ("short", "bad SSE", "[DONE]"),
                                 ("json", "bad SSE", "application/json"), ("error", "error event", "out of pages")):
            with self.subTest(what):
                Fake.reset()
                seen = self.failures(what)
                self.assertEqual(seen[0], kind)
                self.assertIn(text, seen[1])
        Fake.reset()
        self.assertEqual(self.failures("hang", "--timeout", "0.6")[0], "timeout")

    def test_failures_in_the_text(self):
        Fake.plan = {1: 429, 2: 503}
        r = self.bench("--streams", "1", "-n", "4", "--decode", "2")
        self.assertIn("1 failed: http 429: no: 429", r.stdout)
        self.assertIn("1 failed: http 503: no: 503", r.stdout)

    def test_all_fail(self):
        Fake.plan = {i: 500 for i in range(1, 9)}
        self.assertIn("no request was answered", self.bench("--streams", "1", "-n", "3", "--decode", "2", code=1).stderr)

    def test_server_that_cannot_be_asked(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            free = s.getsockname()[1]
        self.one_error(self.bench(url=f"http://127.0.0.1:{free}", code=1), str(free))
        self.one_error(self.bench("--model", "m", url=f"http://127.0.0.1:{free}", code=1), "refused")
        Fake.plan = {"all": "json"}
        self.one_error(self.bench(code=1), "bad SSE", "text/event-stream")
        Fake.plan = {"all": 503}
        self.one_error(self.bench(code=1), "http 503", "no: 503")
        for url, why in (("ftp://127.0.0.1/", "ftp"), ("http://", "--serve"), ("http://u:p@127.0.0.1", "--api-key-file"),
                         ("http://127.0.0.1?x=1", "query")):
            self.one_error(self.bench(url=url, code=1), why)

    def test_key(self):
        Fake.key = "secret-1"
        self.one_error(self.bench(code=1), "401", "no such key")
        file = self.path("key", "secret-1\n")
        r = self.bench("--api-key-file", file, "--streams", "1", "-n", "1", "--decode", "1")
        self.assertNotIn("secret-1", r.stdout + r.stderr)
        self.one_error(self.bench("--api-key-file", self.path("empty", ""), code=1), "empty")

    def test_server_that_goes_away(self):
        server = Server(("127.0.0.1", 0), Fake)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        threading.Timer(0.6, lambda: (server.shutdown(), server.server_close())).start()
        Fake.protocol_version = "HTTP/1.0"  # each request has a connection of its own
        self.addCleanup(setattr, Fake, "protocol_version", "HTTP/1.1")
        Fake.plan = {i: 429 for i in range(3, 1000)}
        r = self.bench("--streams", "8", "--seconds", "30", "--decode", "2", "--json", url=url)
        row = json.loads(r.stdout)["rows"][0]
        self.assertIn("refused", [e["kind"] for e in row["errors"]])
        self.assertLess(row["seconds"], 10)

    def test_usage_errors(self):
        for args, why in ((["--streams", "0"], "--streams"), (["--streams", "1,x"], "--streams"), (["--streams", "1.5"], "--streams"),
                          (["--rate", "-1"], "--rate"), (["--rate", "1", "--streams", "1"], "exclude"), (["--prompt", "9:3"], "--prompt"),
                          (["--decode", "0"], "--decode"), (["--goodput", "5"], "--goodput"), (["--api", "x"], "--api"),
                          (["--api", "chat", "--prompt-ids"], "--prompt-ids"), (["x"], "unexpected")):
            self.assertIn(why, self.bench(*args, code=2).stderr)

    # --- the report ---

    def test_figure(self):
        svg = self.path("f.svg")
        self.bench("--streams", "1,2,4", "-n", "4", "--decode", "3", "--svg", svg)
        doc = xml.dom.minidom.parse(svg)
        self.assertEqual(len(doc.getElementsByTagName("polyline")), 5)
        with open(svg) as f:
            text = f.read()
        self.assertIn("fake &lt;1&gt;", text)
        self.assertIn("prefers-color-scheme:dark", text)
        self.assertIn("No such", self.bench("--streams", "1", "-n", "1", "--decode", "1", "--svg", self.path("a/b"), code=1).stderr)

    def test_interrupt(self):
        Fake.first = 0.1
        p = subprocess.Popen([GA, "bench", "--serve", self.url, "--streams", "2,4", "-n", "1000", "--decode", "2", "--json"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while len(Fake.bodies) < 8:
            time.sleep(0.01)
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=20)
        self.assertEqual((p.returncode, err), (130, ""))
        rows = json.loads(out)["rows"]
        self.assertEqual(len(rows), 1)
        self.assertTrue(rows[0]["stopped"])
        self.assertGreaterEqual(rows[0]["completed"], 2)
        self.assertEqual(rows[0]["started"], rows[0]["completed"] + rows[0]["unfinished"])

    def test_help_has_both_halves(self):
        r = subprocess.run([GA, "bench", "--help"], capture_output=True, text=True)
        self.assertIn("--shared-prefix", r.stdout)
        self.assertIn("--kernels", r.stdout)


if __name__ == "__main__":
    unittest.main()
