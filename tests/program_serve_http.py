#!/usr/bin/env python3
"""HTTP of ga serve behind a proxy: heads that a proxy could read otherwise, forms of the target, encodings, limits, and errors that are
JSON whoever finds them. Usage: program_serve_http.py GA"""
import contextlib
import json
import os
import socket
import sys
import tempfile
import time
import unittest

import serve_rig
from serve_rig import Server, read_all, strict_json

GA = os.path.abspath(sys.argv.pop(1))
folder = tempfile.TemporaryDirectory(prefix="ga serve ")
MODEL = serve_rig.write_model(folder.name)
BODY = json.dumps({"prompt": "a", "max_tokens": 1}).encode()
HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
SECOND = b"GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def post(*fields, body=BODY, path=b"/v1/completions", host=b"Host: localhost"):
    """A POST with these header fields and no others."""
    lines = [b"POST " + path + b" HTTP/1.1", *([host] if host else []), b"Content-Type: application/json", *fields]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def length(n=len(BODY)):
    return b"Content-Length: %d" % n


def get(path, *fields, version=b"HTTP/1.1", host=b"Host: localhost"):
    return b"\r\n".join([b"GET " + path + b" " + version, *([host] if host else []), *fields]) + b"\r\n\r\n"


def replies(raw):
    """[(status, headers, body)] of what was received: each reply has a Content-Length."""
    found = []
    while raw:
        head, _, rest = raw.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        fields = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines[1:])}
        n = int(fields["content-length"])
        found.append((int(lines[0].split()[1]), fields, rest[:n]))
        raw = rest[n:]
    return found


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(GA, MODEL, "--context", str(serve_rig.CONTEXT))

    @classmethod
    def tearDownClass(cls):
        assert cls.server.end()[0] == 0
        cls.server.__exit__()

    def one(self, data, status, seconds=5):
        """One reply in our form, and the connection closed behind it."""
        began = time.monotonic()
        found = replies(self.server.raw(data, seconds))
        self.assertEqual([r[0] for r in found], [status], data)
        self.assertLess(time.monotonic() - began, seconds, "the connection stays open")
        fields, body = found[0][1], found[0][2]
        self.assertEqual(fields["content-type"], "application/json", data)
        if status != 200:
            self.assertEqual(set(strict_json(body)["error"]), {"message", "type", "param", "code"}, body)
            self.assertEqual(fields.get("connection", "").lower(), "close")
        return strict_json(body)

    def behind(self, data, status):
        """The same as the second request of a connection: the first is answered, then this one, then nothing more."""
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=10) as s:
            s.sendall(HEALTH)
            got = s.recv(65536)
            self.assertTrue(got.startswith(b"HTTP/1.1 200"), got)
            s.sendall(data)
            found = replies(read_all(s, 5))
        self.assertEqual([r[0] for r in found], [status], data)


class Smuggling(Case):
    def test_two_lengths(self):
        short = b"Content-Length: 0"
        for fields in ((length(), length()), (short, length()), (length(), short), (length(), b"content-LENGTH: 5")):
            data = post(*fields) + SECOND
            self.one(data, 400)
            self.behind(data, 400)
        self.assertIn("more than one Content-Length", self.one(post(length(), length()), 400)["error"]["message"])

    def test_length_and_coding(self):
        chunk = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
        for fields in ((length(), b"Transfer-Encoding: chunked"), (b"Transfer-Encoding: chunked", length(len(chunk)))):
            data = post(*fields, body=chunk) + SECOND
            self.one(data, 400)
            self.behind(data, 400)
        self.one(post(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked", body=chunk) + SECOND, 400)
        self.one(b"POST /v1/completions HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk, 400)
        self.assertEqual([r[0] for r in replies(self.server.raw(post(b"Transfer-Encoding: chunked", body=chunk) + SECOND))], [200, 200])

    def test_bad_lengths(self):
        for n in (b"+5", b"5 5", b"0x5", b"5,5", b"", b"-1", b"5 "):
            self.one(post(b"Content-Length: " + n) + SECOND, 400)
        self.one(post(b"Content-Length: 99999999999999999999"), 413)

    def test_fields(self):
        for field in (b"X : a", b"Content-Length : 5", b"X\t: a", b" X: a", b": a", b"X(: a", b"X\x7f: a", b"no colon", b"X: a\x00b", b"X: a\x01b",
                      b"X: a\rb", b"X: a\r\n b", b"Transfer-Encoding: chu\r\n\tnked", b"X\x00: a", b"X: a\nY: b", b"X: a\r"):
            self.one(post(field, length()), 400)
            self.one(get(b"/health", field), 400)
        for field in (b"X:a", b"X: \t a", b"X: a b\tc", b"X:", b"x!#$%&'*+-.^_`|~9: \xc3\xa4", b"X: a  "):
            self.one(get(b"/health", field, b"Connection: close"), 200)

    def test_fields_of_later_requests(self):
        for field in (b"X : a", b"X: a\x00b", b"X: a\x01b", b"X: a\r\n b", b"X: a\nY: b", b"X: a\rb"):
            self.behind(get(b"/health", field) + SECOND, 400)
        self.behind(get(b"/health", b"X: a \t", b"Y:b", b"Connection: close"), 200)

    def test_lines(self):
        for data in (b"GET /health HTTP/1.1\nHost: localhost\n\n", b"GET /health HTTP/1.1\r\nHost: localhost\n\r\n", b"GET  /health HTTP/1.1\r\nHost: a\r\n\r\n",
                     b"GET /health\r\n\r\n", b"GET\r\n\r\n", b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /he\x00alth HTTP/1.1\r\nHost: localhost\r\n\r\n",
                     b"G\x00ET /health HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /health http/1.1\r\nHost: a\r\n\r\n", b"GET /health HTTP/1.1 \r\nHost: a\r\n\r\n",
                     b"\x16\x03\x01\x02\x00\x01\x00", b"\r\n" * 100 + HEALTH, get(b"/health%00x"), get(b"health"), get(b"ftp://localhost/health")):
            self.one(data, 400)
        for version in (b"HTTP/9.9", b"HTTP/2.0", b"HTTP/0.9", b"HTTP/1.2"):
            self.one(get(b"/health", version=version), 505)
        self.one(b"\r\n" + get(b"/health", b"Connection: close"), 200)


class Targets(Case):
    def test_host(self):
        self.one(get(b"/health", host=None), 400)
        self.behind(get(b"/health", host=None) + SECOND, 400)
        self.one(get(b"/health", b"Host: localhost"), 400)
        for host in (b"Host: a b", b"Host: localhost/x", b"Host: localhost, localhost", b"Host: a@localhost", b"Host: " + b"a" * 300):
            self.one(get(b"/health", host=host), 400)
        for host in (b"Host: localhost", b"Host:localhost:8080 ", b"host: [::1]:80", b"Host:"):
            self.one(get(b"/health", b"Connection: close", host=host), 200)
        self.one(get(b"/health", version=b"HTTP/1.0", host=None), 200)

    def test_absolute_form(self):
        for target in (b"http://localhost/health", b"HTTP://127.0.0.1:8080/health?x=1", b"https://localhost/health"):
            self.assertEqual(self.one(get(target, b"Connection: close"), 200), {"status": "ok"})
        raw = self.server.raw(get(b"http://localhost", b"Connection: close"))
        self.assertIn(b"text/html", raw.split(b"\r\n\r\n")[0])  # the page
        self.assertEqual(len(self.one(post(length(), b"Connection: close", path=b"http://localhost/v1/completions"), 200)["choices"]), 1)
        # The target's host counts, not the header's: a page elsewhere gets no further by either.
        raw = replies(self.server.raw(get(b"http://evil.com/health", b"Connection: close")))
        self.assertEqual([(r[0], strict_json(r[2])["error"]["code"]) for r in raw], [(403, "host_not_allowed")])
        for target in (b"http:///health", b"http://a b/health", b"http://me@localhost/health"):
            self.one(get(target), 400)

    def test_queries(self):
        many = b"&".join(b"a%d=b" % i for i in range(500))
        self.assertEqual(self.one(get(b"/health?" + many), 414)["error"]["code"], "uri_too_long")
        self.behind(get(b"/health?" + b"&".join([b"a=b"] * 65)) + SECOND, 414)
        self.one(get(b"/health?" + b"&".join([b"a=b"] * 64), b"Connection: close"), 200)
        self.one(get(b"/" + b"a" * 9000), 414)
        self.one(get(b"/" + b"a" * 100000), 414)


class Encodings(Case):
    def test_transfer(self):
        for coding in (b"gzip, chunked", b"gzip", b"identity", b"chunked, chunked", b"xchunked", b""):
            began = time.monotonic()
            self.one(post(b"Transfer-Encoding: " + coding, body=b""), 501)
            self.assertLess(time.monotonic() - began, 2)

    def test_content(self):
        for coding in (b"gzip", b"br", b"gzip, identity"):
            self.one(post(length(10 ** 6), b"Content-Encoding: " + coding, body=b""), 415)
        self.assertEqual(self.server.request("POST", "/v1/completions", raw=BODY, headers={"Content-Encoding": "identity"})[0], 200)

    def test_types(self):
        for kind, status in (("application/json", 200), ("application/json; charset=utf-8", 200), ("Application/JSON ;x=y", 200), ("application/jsonx", 415),
                             ("application/json-seq", 415), ("application/json x", 415), ("text/plain", 415), ("application/jso", 415)):
            self.assertEqual(self.server.request("POST", "/v1/completions", raw=BODY, headers={"Content-Type": kind})[0], status, kind)


class Sizes(Case):
    def test_heads(self):
        self.one(get(b"/health", *[b"A: b"] * 50000), 431)
        self.one(get(b"/health", *[b"A: b"] * 101), 431)
        self.one(get(b"/health", b"A: " + b"b" * 20000), 431)
        self.one(get(b"/health", b"Cookie: " + b"a=b; " * 200), 431)
        self.one(get(b"/health", *[b"A: b"] * 90, b"B: " + b"b" * 8000, b"Cookie: " + b"a=bcd; " * 90, b"Connection: close"), 200)

    def test_heads_in_pieces(self):
        for cut in (1, 3, 20, 47):
            with socket.create_connection(("127.0.0.1", self.server.port), timeout=10) as s:
                data = post(length(), b"Connection: close")
                for at in range(0, len(data), cut):
                    s.sendall(data[at:at + cut])
                    time.sleep(0.002)
                self.assertEqual([r[0] for r in replies(read_all(s, 5))], [200])

    def test_connections(self):
        with Server(GA, MODEL, "--max-connections", "8") as server:
            held = [socket.create_connection(("127.0.0.1", server.port), timeout=10) for _ in range(4)]
            for s in held:
                s.sendall(HEALTH)
                self.assertTrue(s.recv(4096).startswith(b"HTTP/1.1 200"))
            held += [socket.create_connection(("127.0.0.1", server.port), timeout=10) for _ in range(4)]
            time.sleep(0.1)
            for _ in range(20):
                status, fields, body = replies(server.raw(HEALTH, 5))[0]
                self.assertEqual((status, fields["retry-after"], strict_json(body)["error"]["code"]), (503, "1", "too_many_connections"))
            for s in held:
                s.close()
            self.assertTrue(server.wait_until(lambda: server.raw(HEALTH, 0.2).startswith(b"HTTP/1.1 200")))
            self.assertEqual(server.end()[0], 0)


if __name__ == "__main__":
    unittest.main()
