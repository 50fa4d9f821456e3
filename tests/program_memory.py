#!/usr/bin/env python3
"""`ga serve` with little address space: large bodies at once end in answers or clean errors, and the server lives on. Usage: program_memory.py GA"""
import http.client
import json
import resource
import sys
import tempfile
import threading
import time
import unittest

import serve_rig

GA = sys.argv.pop(1)
BODY = 30_000_000  # bytes of one string


class Memory(unittest.TestCase):
    def ask(self, server, body, found):
        """The status of one request; 0 where the server closed the connection."""
        client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        try:
            client.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
            answer = client.getresponse()
            text = json.loads(answer.read())
            found.append(answer.status)
            if answer.status == 503:
                self.assertIn("message", text["error"])
        except (ConnectionError, http.client.BadStatusLine):
            found.append(0)
        finally:
            client.close()

    def at_once(self, server, bodies):
        found = []
        threads = [threading.Thread(target=self.ask, args=(server, body, found)) for body in bodies]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(found), len(bodies), found)
        return found

    def used(self, server):
        with open(f"/proc/{server.process.pid}/status") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmSize")) * 1024

    def sweep(self, body):
        """From room for nothing to room for all: somewhere between each allocation of the reader fails."""
        seen = set()
        with tempfile.TemporaryDirectory() as folder, serve_rig.Server(GA, serve_rig.write_model(folder)) as server:
            self.assertEqual(self.at_once(server, [b'{"prompt":"a","max_tokens":1}'] * 6), [200] * 6)  # every thread has its stack
            base = self.used(server)
            for room in (30, 80, 150, 260):
                resource.prlimit(server.process.pid, resource.RLIMIT_AS, (base + room * 1_000_000, resource.RLIM_INFINITY))
                seen |= set(self.at_once(server, [body] * 6))
                self.assertIsNone(server.process.poll(), "the server has ended")
                resource.prlimit(server.process.pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
                self.assertEqual(self.at_once(server, [b'{"prompt":"a","max_tokens":1}'] * 2), [200] * 2)
            began = time.monotonic()
            self.assertEqual(self.at_once(server, [body]), [200])
            self.assertLess(time.monotonic() - began, 20)
        self.assertLessEqual(seen, {0, 200, 429, 503})
        self.assertIn(200, seen)
        self.assertTrue(seen & {0, 503}, seen)

    def test_one_long_string(self):
        self.sweep(b'{"prompt":"a","max_tokens":1,"temperature":0,"other":"' + b"a" * BODY + b'"}')

    def test_escapes(self):
        self.sweep(b'{"prompt":"a","max_tokens":1,"temperature":0,"other":"' + b"\\n" * (BODY // 2) + b'"}')

    def test_a_long_key(self):
        self.sweep(b'{"prompt":"a","max_tokens":1,"temperature":0,"' + b"k" * BODY + b'":1}')


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
