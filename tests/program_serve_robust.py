#!/usr/bin/env python3
"""ga serve under attack and at its limits: keys, foreign pages, clients that vanish, are slow or send garbage, full queues, deadlines,
signals. Usage: program_serve_robust.py GA"""
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import serve_rig
from serve_rig import Server, parse_events, read_all, strict_json

GA = os.path.abspath(sys.argv.pop(1))
ENDLESS = {"prompt": "hello", "max_tokens": serve_rig.CONTEXT - 100, "ignore_eos": True}
folder = tempfile.TemporaryDirectory(prefix="ga serve ")
MODEL = serve_rig.write_model(folder.name)


def http(method, path, body=b"", **headers):
    head = "".join(f"{k.replace('_', '-')}: {v}\r\n" for k, v in headers.items())
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def ask(body, **headers):
    return http("POST", "/v1/completions", json.dumps(body).encode(), Content_Type="application/json", **headers)


def status_of(reply):
    return int(reply.split(b" ", 2)[1]) if reply.startswith(b"HTTP/1.1 ") else None


class Case(unittest.TestCase):
    def serve(self, *options):
        server = Server(GA, MODEL, "--context", str(serve_rig.CONTEXT), *options)
        self.addCleanup(server.__exit__)
        return server

    def open(self, server, data=b"", read=0):
        """A connection that has sent `data` and read some of the answer."""
        s = socket.create_connection(("127.0.0.1", server.port), timeout=20)
        self.addCleanup(s.close)
        s.sendall(data)
        got = b""
        while len(got) < read:
            part = s.recv(65536)
            self.assertTrue(part, got)
            got += part
        self.assertIn(got[9:12], (b"", b"200"))
        return s

    def assert_alive(self, server):
        self.assertEqual(server.request("GET", "/health")[0], 200)
        self.assertEqual(server.post("/v1/completions", prompt="a", max_tokens=2, ignore_eos=True)["usage"]["completion_tokens"], 2)

    def assert_idle(self, server, seconds=5):
        self.assertTrue(server.wait_until(lambda: server.value("vllm:num_requests_running") + server.value("vllm:num_requests_waiting") == 0,
                                          seconds))


class Access(Case):
    def test_keys(self):
        path = os.path.join(folder.name, "keys")
        with open(path, "w") as f:
            f.write("# keys\nann:first-key\nsecond-key\n")
        server = self.serve("--api-keys", path, "--verbose")
        for given, status in ((None, 401), ("Bearer wrong", 401), ("Bearer ", 401), ("first-key", 401), ("Bearer first-ke", 401),
                              ("Bearer first-keyy", 401), ("Bearer first-key", 200), ("bearer second-key", 200)):
            headers = {"Authorization": given} if given else {}
            for method, route, body in (("POST", "/v1/completions", {"prompt": "a", "max_tokens": 1}), ("GET", "/v1/models", None),
                                        ("GET", "/metrics", None), ("POST", "/tokenize", {"prompt": "a"})):
                got, reply_headers, reply = server.request(method, route, body, headers)
                self.assertEqual(got, status, (given, route))
                if status == 401:
                    self.assertEqual((reply["error"]["code"], reply_headers["WWW-Authenticate"]), ("invalid_api_key", "Bearer"))
        self.assertEqual(server.request("GET", "/health")[0], 200)
        self.assertEqual(server.request("GET", "/nothing")[0], 401)
        rc, said = server.end()
        self.assertEqual(rc, 0)
        self.assertIn('POST /v1/completions 200 prompt=', said)
        self.assertIn('key="ann"', said)
        self.assertNotIn("first-key", said)

    def test_bad_key_files(self):
        path = os.path.join(folder.name, "none")
        for text in ("", "# nothing\n", "ann:\n"):
            with open(path, "w") as f:
                f.write(text)
            r = subprocess.run([GA, "serve", "-m", MODEL, "--port", "0", "--api-keys", path], capture_output=True, text=True, timeout=30)
            self.assertEqual(r.returncode, 1)
            self.assertIn("key", r.stderr)
        r = subprocess.run([GA, "serve", "-m", MODEL, "--port", "0", "--api-keys", path + "x"], capture_output=True, text=True, timeout=30)
        self.assertIn("No such file", r.stderr)

    def test_pages(self):
        server = self.serve()
        body = {"prompt": "a", "max_tokens": 1}

        def post(**headers):
            return server.request("POST", "/v1/completions", body, headers)[0]
        own = f"http://127.0.0.1:{server.port}"
        self.assertEqual([post(), post(Origin=own), post(Origin="https://evil.com"), post(Origin="null")], [200, 200, 403, 403])
        for host, status in (("localhost", 200), ("127.0.0.1", 200), ("evil.com", 403), (f"evil.com:{server.port}", 403), ("localhost.evil.com", 403)):
            raw = server.raw(f"GET /health HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            self.assertEqual(status_of(raw), status, host)

    def test_cors(self):
        server = self.serve("--cors-origin", "https://page.example")
        status, headers, _ = server.request("OPTIONS", "/v1/completions", headers={"Origin": "https://page.example"})
        self.assertEqual((status, headers["Access-Control-Allow-Origin"]), (204, "https://page.example"))
        self.assertIn("Authorization", headers["Access-Control-Allow-Headers"])
        status, headers, _ = server.request("POST", "/v1/completions", {"prompt": "a", "max_tokens": 1}, {"Origin": "https://page.example"})
        self.assertEqual((status, headers["Access-Control-Allow-Origin"]), (200, "https://page.example"))
        self.assertEqual(server.request("POST", "/v1/completions", {"prompt": "a"}, {"Origin": "https://other.example"})[0], 403)

    def test_addresses(self):
        with socket.create_server(("127.0.0.1", 0)) as busy:
            r = subprocess.run([GA, "serve", "-m", MODEL, "--port", str(busy.getsockname()[1])], capture_output=True, text=True, timeout=30)
            self.assertEqual(r.returncode, 1)
            self.assertIn("another program listens there", r.stderr)
        r = subprocess.run([GA, "serve", "-m", MODEL, "--host", "no such host", "--port", "0"], capture_output=True, text=True, timeout=30)
        self.assertEqual(r.returncode, 1)
        self.assertIn("no such host", r.stderr)
        server = self.serve("--host", "0.0.0.0")
        rc, said = server.end()
        self.assertIn("no --api-keys", said)
        self.assertEqual(rc, 0)
        r = subprocess.run([GA, "serve", "-m", MODEL + "x"], capture_output=True, text=True, timeout=30)
        self.assertEqual(r.returncode, 1)


class Clients(Case):
    def test_vanished_streams(self):
        server = self.serve()
        for _ in range(3):
            self.open(server, ask({**ENDLESS, "stream": True}), read=2000).close()
        self.assert_idle(server)
        self.assertEqual(server.value("vllm:request_success_total", finished_reason="abort"), 3)
        self.assertEqual(server.value("vllm:kv_cache_usage_perc"), 0)
        self.assert_alive(server)

    def test_vanished_waiters(self):
        server = self.serve("--max-sequences", "1")
        waiting = [self.open(server, ask({**ENDLESS, "stream": i % 2 == 0})) for i in range(6)]
        self.assertTrue(server.wait_until(lambda: server.value("vllm:num_requests_waiting") == 5))
        for s in waiting:
            s.close()
        self.assert_idle(server)
        self.assertEqual(server.value("vllm:request_success_total", finished_reason="abort"), 6)
        self.assert_alive(server)

    def test_half_closed(self):
        """Clients that close their sending half get their answers, also those that have to wait for them."""
        server = self.serve("--max-sequences", "1")
        for path, body in (("/v1/completions", {"prompt": "a"}), ("/completion", {"prompt": "a"}), ("/v1/completions", {"prompt": "a" * 9000, "n": 2})):
            for tokens in (2, 3000):
                for stream in (False, True):
                    data = json.dumps({**body, "max_tokens": tokens, "ignore_eos": True, "stream": stream}).encode()
                    s = self.open(server, http("POST", path, data, Content_Type="application/json"))
                    s.shutdown(socket.SHUT_WR)
                    got = read_all(s, 30)
                    self.assertEqual(status_of(got), 200, (path, len(body["prompt"]), tokens, stream))
                    text = got.split(b"\r\n\r\n", 1)[1]
                    if stream:
                        self.assertTrue(b"[DONE]" in text or b'"stop":true' in text, text[-200:])
                    elif b"chunked" in got.split(b"\r\n\r\n")[0]:  # it took more than a second
                        text = b"".join(text.split(b"\r\n")[1::2])
                    if not stream:
                        answer = strict_json(text)
                        self.assertEqual(answer.get("tokens_predicted") or answer["usage"]["completion_tokens"], tokens * body.get("n", 1))
        held = self.open(server, ask(ENDLESS))
        time.sleep(0.2)
        waits = self.open(server, ask({"prompt": "a", "max_tokens": 3, "ignore_eos": True}))
        waits.shutdown(socket.SHUT_WR)
        old = self.open(server, b"POST /v1/completions HTTP/1.0\r\nContent-Length: 30\r\n\r\n" + b'{"prompt":"a","max_tokens":3} ')
        old.shutdown(socket.SHUT_WR)
        time.sleep(3.5)
        held.close()
        for s in (waits, old):
            got = read_all(s, 30)
            self.assertEqual(status_of(got), 200)
            self.assertIn(b'"finish_reason"', got)
        self.assert_idle(server)

    def test_reset_connections(self):
        server = self.serve()
        for stream in (True, False):
            s = self.open(server, ask({**ENDLESS, "stream": stream}))
            time.sleep(0.2)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            s.close()
        self.assert_idle(server)
        self.assert_alive(server)

    def test_pings(self):
        server = self.serve("--max-sequences", "1")
        first = self.open(server, ask(ENDLESS))  # no stream: one that is not read would give its place
        time.sleep(0.2)
        second = self.open(server, ask({**ENDLESS, "max_tokens": 1, "stream": True}))
        got = b""
        until = time.monotonic() + 2.5
        while time.monotonic() < until:
            second.settimeout(max(0.01, until - time.monotonic()))
            with contextlib.suppress(TimeoutError):
                got += second.recv(65536)
        self.assertIn(got.count(b": ping\n\n"), (1, 2, 3))
        first.close()
        got += read_all(second, 2)
        self.assertIn(b"data: [DONE]", got)

    def test_one_that_does_not_read(self):
        server = self.serve("--idle-seconds", "2")
        s = socket.socket()
        self.addCleanup(s.close)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect(("127.0.0.1", server.port))
        s.sendall(ask({**ENDLESS, "stream": True, "logprobs": 5}))
        self.assert_alive(server)  # others go on
        self.assert_idle(server, 120)

    def test_slow_readers_hold_no_places(self):
        """All places are taken by streams that are not read: others get them, and the streams go on when they are read."""
        server = self.serve("--max-sequences", "2")
        slow = []
        for _ in range(4):
            s = socket.socket()
            self.addCleanup(s.close)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.settimeout(20)
            s.connect(("127.0.0.1", server.port))
            s.sendall(ask({**ENDLESS, "stream": True, "logprobs": 5, "temperature": 0}, Connection="close"))
            slow.append(s)
        time.sleep(1)
        slowest = 0.0
        for _ in range(20):
            began = time.monotonic()
            server.post("/v1/completions", prompt="a", max_tokens=4, ignore_eos=True)
            slowest = max(slowest, time.monotonic() - began)
        self.assertLess(slowest, 10)
        self.assertGreater(server.value("vllm:num_requests_running") + server.value("vllm:num_requests_waiting"), 0)  # they have not ended
        for s in slow:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            n = 0
            while n < 1 << 20:  # more than the system and the server hold for it
                n += len(s.recv(1 << 20))
            s.close()
        self.assert_idle(server, 30)

    def test_slow_senders(self):
        server = self.serve("--request-seconds", "1", "--idle-seconds", "30")
        whole = ask({"prompt": "a", "max_tokens": 1})
        for part in (b"", whole[:20], whole[:-1]):
            s = self.open(server, part)
            began = time.monotonic()
            self.assertEqual(read_all(s, 8), b"")
            self.assertLess(time.monotonic() - began, 6)
        s = self.open(server)  # a byte now and then does not help
        began = time.monotonic()
        with contextlib.suppress(OSError):
            for byte in whole:
                s.sendall(bytes([byte]))
                time.sleep(0.3)
        self.assertLess(time.monotonic() - began, 10)
        self.assert_alive(server)

    def test_many_connections(self):
        server = self.serve("--max-connections", "64")
        held = []
        for _ in range(100):
            with contextlib.suppress(OSError):
                held.append(self.open(server))
        for s in held:
            s.close()
        self.assertTrue(server.wait_until(lambda: status_of(server.raw(http("GET", "/health", Connection="close"))) == 200))
        self.assert_alive(server)

    def test_garbage(self):
        server = self.serve("--max-body", "1")
        draw = random.Random(1)
        whole = ask({"prompt": "hello", "max_tokens": 2})
        chunked = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        cases = [b"\x00" * 100, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\r\n" * 100, bytes(draw.randrange(256) for _ in range(5000)),
                 b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * 50000, b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n",
                 b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
                 b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
                 chunked + b"zz\r\n", chunked + b"ffffffffffffffff\r\nabc", chunked + b"5\r\nhello\r\n0\r\n\r\n"]
        for _ in range(150):
            raw = bytearray(whole)
            for _ in range(draw.randrange(1, 6)):
                raw[draw.randrange(len(raw))] = draw.randrange(256)
            cases.append(bytes(raw))
        for case in cases:
            server.raw(case, 0.05)
        for cut in range(0, len(whole), 7):
            server.raw(whole[:cut], close=True)
        self.assert_alive(server)

    def test_large_bodies(self):
        server = self.serve("--max-body", "1")
        for body in (b"x" * (1 << 20) + b"x", b"x" * (8 << 20)):
            self.assertEqual(status_of(server.raw(http("POST", "/v1/completions", body, Content_Type="application/json"), 2)), 413)
        pieces = b"".join(b"%x\r\n" % 60000 + b" " * 60000 + b"\r\n" for _ in range(25)) + b"0\r\n\r\n"
        head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        self.assertEqual(status_of(server.raw(head + pieces, 2)), 413)
        body = json.dumps({"prompt": "a", "max_tokens": 1}).encode()
        self.assertEqual(status_of(server.raw(head + b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n", 1)), 200)
        many = b'{"prompt":[' + b"1," * 300000 + b"1]}"
        self.assertEqual(server.request("POST", "/v1/completions", raw=many)[0], 400)
        self.assert_alive(server)

    def test_many_keys(self):
        """Bodies that take seconds to parse hold back no others."""
        server = self.serve()
        body = b'{"prompt":"a","max_tokens":1,' + b",".join(b'"k%d":0' % i for i in range(300000)) + b"}"
        said, slowest, began = [], [0.0, 0.0], time.monotonic()
        threads = [threading.Thread(target=lambda: said.append(status_of(server.raw(http("POST", "/v1/completions", body, Connection="close"), 120))))
                   for _ in range(8)]
        for t in threads:
            t.start()
        while any(t.is_alive() for t in threads):
            for i, ask_one in enumerate((lambda: self.assertEqual(server.request("GET", "/health")[0], 200),
                                         lambda: server.post("/v1/completions", prompt="a" * 20000, max_tokens=0))):
                at = time.monotonic()
                with contextlib.suppress(AssertionError) if i else contextlib.nullcontext():  # too long a prompt: 400
                    ask_one()
                slowest[i] = max(slowest[i], time.monotonic() - at)
            time.sleep(0.01)
        took = time.monotonic() - began
        self.assertEqual(said, [200] * 8)
        self.assertLess(slowest[0], max(0.3, took / 20))
        self.assertLess(slowest[1], max(0.5, took / 10))

    def test_old_http(self):
        server = self.serve()
        raw = server.raw(b"GET /health HTTP/1.0\r\n\r\n")
        self.assertTrue(raw.endswith(b'{"status":"ok"}'), raw)
        body = json.dumps({"prompt": "a", "max_tokens": 3, "stream": True}).encode()
        raw = server.raw(b"POST /v1/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        self.assertNotIn(b"chunked", raw)
        self.assertTrue(parse_events(raw.split(b"\r\n\r\n", 1)[1]))
        body = json.dumps({"prompt": "a", "max_tokens": 1}).encode()
        both = server.raw(http("POST", "/v1/completions", body, Content_Type="application/json") + http("GET", "/health", Connection="close"))
        self.assertEqual(both.count(b"HTTP/1.1 200"), 2)  # one behind the other


class Limits(Case):
    def fill(self, server, n):
        held = [self.open(server, ask({**ENDLESS, "stream": True}), read=12) for _ in range(n)]
        return held

    def test_full_queue(self):
        server = self.serve("--max-sequences", "1", "--max-waiting", "2")
        held = self.fill(server, 3)
        self.assertTrue(server.wait_until(lambda: server.value("vllm:num_requests_waiting") == 2))
        for body in (b'{"prompt":"a"}', b"this is not looked at"):
            status, headers, reply = server.request("POST", "/v1/completions", raw=body)
            self.assertEqual((status, reply["error"]["code"], reply["error"]["type"]), (429, "queue_full", "rate_limit_error"))
            self.assertGreaterEqual(int(headers["Retry-After"]), 1)
        self.assertEqual(server.value("vllm:admission_rejections_total"), 2)
        self.assertEqual(server.request("GET", "/health")[0], 200)
        for s in held:
            s.close()
        self.assert_idle(server)
        # Not all choices find a place: none is left behind.
        self.assertEqual(server.request("POST", "/v1/completions", {**ENDLESS, "n": 9})[0], 429)
        self.assert_idle(server)
        self.assert_alive(server)

    def test_deadlines(self):
        server = self.serve("--max-sequences", "1", "--first-token-seconds", "0.3")
        held = self.open(server, ask(ENDLESS))
        time.sleep(0.2)
        for stream in (False, True):
            status, headers, reply = server.request("POST", "/v1/completions", {"prompt": "a", "stream": stream})
            self.assertEqual((status, reply["error"]["code"]), (503, "deadline_exceeded"))
            self.assertIsNotNone(headers["Retry-After"])
        held.close()
        self.assert_idle(server)
        self.assert_alive(server)
        self.assertTrue(server.stream("/v1/completions", prompt="a", max_tokens=3))


class Ends(Case):
    def drain(self, number, *options, tokens):
        server = self.serve(*options)
        body = json.dumps({**ENDLESS, "max_tokens": tokens, "stream": True}).encode()
        s = self.open(server, http("POST", "/v1/completions", body, Content_Type="application/json"), read=1000)
        plain = self.open(server, ask({**ENDLESS, "max_tokens": tokens}))
        time.sleep(0.1)
        server.process.send_signal(number)
        self.assertTrue(server.wait_until(lambda: server.request("GET", "/health")[0] == 503))
        status, headers, reply = server.request("POST", "/v1/completions", {"prompt": "a"})
        self.assertEqual((status, headers["Connection"]), (503, "close"))
        return server, s, plain

    def test_drain(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            server, s, plain = self.drain(number, tokens=3000)
            got = read_all(s, 30)
            self.assertIn(b'"finish_reason":"length"', got)
            self.assertIn(b"data: [DONE]", got)
            self.assertEqual(status_of(read_all(plain, 30)), 200)
            self.assertEqual(server.process.wait(30), 0)

    def test_drain_that_takes_too_long(self):
        server, s, plain = self.drain(signal.SIGTERM, "--drain-seconds", "1", tokens=ENDLESS["max_tokens"])
        got = read_all(s, 30)
        self.assertIn(b'"code":"shutting_down"', got)
        self.assertIn(b"data: [DONE]", got)
        self.assertEqual(status_of(read_all(plain, 30)), 503)
        self.assertEqual(server.process.wait(30), 0)

    def test_second_signal(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            server, _, _ = self.drain(number, tokens=ENDLESS["max_tokens"])
            began = time.monotonic()
            server.process.send_signal(number)
            self.assertEqual(server.process.wait(30), -number)
            self.assertLess(time.monotonic() - began, 5)

    def test_idle_connections_do_not_hold_it(self):
        server = self.serve()
        self.open(server)
        self.open(server, b"POST /v1/completions HTTP/1.1\r\n")
        self.assertEqual(server.end()[0], 0)

    def test_everything_at_once(self):
        server = self.serve("--max-sequences", "4", "--max-waiting", "8")
        draw = random.Random(2)
        seen = set()

        def client(seed):
            mine = random.Random(seed)
            for _ in range(25):
                body = {"prompt": "x" * mine.randrange(1, 200), "max_tokens": mine.randrange(1, 400), "stream": mine.random() < 0.5,
                        "n": mine.randrange(1, 3), "ignore_eos": True}
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", server.port), timeout=30) as s:
                    s.sendall(ask(body, Connection="close"))
                    if mine.random() < 0.3:
                        s.recv(1)
                        continue  # and away
                    got = read_all(s, 30)
                    seen.add(status_of(got))
                    if status_of(got) == 200 and not body["stream"]:
                        strict_json(got.split(b"\r\n\r\n", 1)[1])
        threads = [threading.Thread(target=client, args=[draw.random()]) for _ in range(16)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertLessEqual(seen, {200, 429})
        self.assertIn(200, seen)
        self.assert_idle(server)
        self.assertEqual(server.value("vllm:kv_cache_usage_perc"), 0)
        self.assert_alive(server)


if __name__ == "__main__":
    unittest.main()
