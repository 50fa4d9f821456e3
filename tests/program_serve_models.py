#!/usr/bin/env python3
"""Several models in one server. Usage: program_serve_models.py GA"""
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import serve_rig
from serve_rig import Server, force

GA = os.path.abspath(sys.argv.pop(1))
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}{{ eos_token }}{% endfor %}"
HELLO = [{"role": "user", "content": "hello"}]


class Models(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="ga models ")
        path = serve_rig.write_model(cls.folder.name, TEMPLATE)
        cls.paths = [os.path.join(cls.folder.name, name) for name in ("a.gguf", "b.gguf", "c.gguf")]
        for other in cls.paths:
            shutil.copy(path, other)
        os.remove(path)
        cls.encoder = serve_rig.write_encoder(cls.folder.name, "rank/bert")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def serve(self, *options, models=None):
        return Server(GA, models or self.folder.name, "--context", "1024", *options)

    def loaded(self, server):
        return {m["name"] for m in server.request("GET", "/api/ps")[2]["models"]}

    def ask(self, server, model, **body):
        return server.request("POST", "/v1/completions", {"prompt": "x", "max_tokens": 4, "temperature": 0, "model": model, **body})

    def test_a_folder(self):
        with open(os.path.join(self.folder.name, "broken.gguf"), "wb") as f:
            f.write(b"GGUFbroken")
        with self.serve() as server:
            self.assertIn("4 models", server.line)
            listed = server.request("GET", "/v1/models")[2]["data"]
            self.assertEqual({m["id"]: (m["is_loaded"], m["max_model_len"]) for m in listed}, {n: (False, None) for n in ("a", "b", "c", "encoder")})
            self.assertEqual({m["name"] for m in server.request("GET", "/api/tags")[2]["models"]}, {"a", "b", "c", "encoder"})
            self.assertEqual((self.loaded(server), server.request("GET", "/health")[0]), (set(), 200))
            for name in ("a", "b", "a"):
                status, _, said = self.ask(server, name)
                self.assertEqual((status, said["model"]), (200, name))
            self.assertEqual(self.loaded(server), {"a", "b"})
            self.assertEqual(self.ask(server, "b:latest")[0], 200)
            one = server.request("GET", "/v1/models/b")[2]
            self.assertEqual((one["is_loaded"], one["max_model_len"]), (True, 1024))
            self.assertEqual(server.post("/v1/embeddings", input="x", model="encoder")["model"], "encoder")
            self.assertEqual(len(server.post("/v1/rerank", query="a", documents=["b", "c"], model="encoder")["results"]), 2)
            self.assertEqual(server.post("/api/chat", model="c:latest", messages=HELLO, stream=False, options={"num_predict": 2})["model"], "c")
            kept = server.post("/v1/responses", model="b", input="x", max_output_tokens=2)
            self.assertEqual(server.request("GET", "/v1/responses/" + kept["id"])[2], kept)
            self.assertEqual(server.request("GET", "/props?model=b")[2]["model_alias"], "b")
            self.assertGreater(server.value("vllm:generation_tokens_total", model_name="all"), 0)
            for method, path, body, status, says in (("POST", "/v1/completions", {"prompt": "x"}, 400, "model is missing"), ("GET", "/props", None, 400, "several"),
                                                     ("POST", "/v1/completions", {"prompt": "x", "model": "d"}, 404, '"d"'),
                                                     ("POST", "/v1/completions", {"prompt": "x", "model": 5}, 400, "model is 5"),
                                                     ("GET", "/v1/models/d", None, 404, '"d"'),
                                                     ("POST", "/v1/embeddings", {"input": "x", "model": "a"}, 400, "generates text")):
                got, _, reply = server.request(method, path, body)
                self.assertEqual(got, status, (path, reply))
                self.assertIn(says, reply["error"]["message"])
            rc, said = server.end()
        self.assertEqual(rc, 0)
        self.assertIn("broken.gguf", said)
        os.remove(os.path.join(self.folder.name, "broken.gguf"))

    def test_least_recently_used_leaves(self):
        with self.serve("--max-models", "2", models=self.paths) as server:
            for name, here in (("a", "a"), ("b", "ab"), ("a", "ab"), ("c", "ac"), ("b", "bc")):
                self.assertEqual(self.ask(server, name)[0], 200)
                self.assertEqual(self.loaded(server), set(here))

    def test_memory(self):
        """As many as fit; the plan of a model counts, and one that never fits is refused."""
        with self.serve("--memory", "0.0001", models=self.paths) as server:
            status, _, reply = self.ask(server, "a")
            self.assertEqual((status, reply["error"]["code"]), (503, "model_not_loaded"))
            need = float(re.search(r"needs (\S+) MiB; .* \(--memory\)", reply["error"]["message"])[1])
        with self.serve("--memory", str(2.5 * need / 1024), models=self.paths) as server:
            for name, here in (("a", "a"), ("b", "ab"), ("c", "bc"), ("a", "ca"), ("b", "ab")):
                self.assertEqual(self.ask(server, name)[0], 200)
                self.assertEqual(self.loaded(server), set(here))

    def test_idle_models_leave(self):
        with self.serve("--keep-alive", "1s", models=self.paths) as server:
            self.assertEqual(self.ask(server, "a")[0], 200)
            self.assertEqual(server.post("/api/generate", model="b", prompt="x", keep_alive=-1, stream=False, options={"num_predict": 1})["done"], True)
            self.assertEqual(self.loaded(server), {"a", "b"})
            self.assertTrue(server.wait_until(lambda: self.loaded(server) == {"b"}))
            self.assertEqual(self.ask(server, "a")[0], 200)
            self.assertEqual(server.post("/api/generate", model="b", keep_alive=0, stream=False)["done_reason"], "unload")
            self.assertTrue(server.wait_until(lambda: "b" not in self.loaded(server)))
            self.assertEqual(server.post("/api/generate", model="c", keep_alive=0, stream=False)["done_reason"], "unload")
            self.assertNotIn("c", self.loaded(server))  # it was not loaded for that
            self.assertEqual(server.post("/api/generate", model="c", stream=False)["done_reason"], "load")
            self.assertIn("c", self.loaded(server))

    def test_many_at_once(self):
        """Requests for three models where one has room: each waits for its model, none is lost."""
        with self.serve("--max-models", "1", models=self.paths) as server:
            got = []

            def ask(i):
                name = "abc"[i % 3]
                status, _, said = self.ask(server, name, max_tokens=20, logit_bias=force("z"))
                got.append((status, said.get("model") == name and said["choices"][0]["text"] == "z" * 20))
            threads = [threading.Thread(target=ask, args=(i,)) for i in range(24)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            self.assertEqual(got, [(200, True)] * 24)
            self.assertEqual(len(self.loaded(server)), 1)

    def test_large_bodies(self):
        """A body that the crew reads waits for its model, too."""
        with self.serve("--max-models", "1", models=self.paths) as server:
            got = []
            padding = "p" * (1 << 20)
            threads = [threading.Thread(target=lambda name=name: got.append(self.ask(server, name, padding=padding)[0])) for name in "abcabc"]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            self.assertEqual(got, [200] * 6)
            self.assertEqual(self.ask(server, "d", padding=padding)[0], 404)

    def test_a_model_in_use_stays(self):
        with self.serve("--max-models", "1", models=self.paths) as server:
            with contextlib.closing(server.connect()) as slow, contextlib.closing(server.connect()) as gone:
                body = {"prompt": "x", "max_tokens": 900, "model": "a", "stream": True, "ignore_eos": True}
                slow.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
                reply = slow.getresponse()
                self.assertTrue(reply.readline())
                gone.request("POST", "/v1/completions", json.dumps({"prompt": "x", "model": "c"}), {"Content-Type": "application/json"})
                time.sleep(0.1)
                gone.close()  # while it waits for its model
                status, _, said = self.ask(server, "b")
                self.assertEqual((status, said["model"]), (200, "b"))
                self.assertIn(b"[DONE]", reply.read())
            self.assertEqual(self.ask(server, "a")[0], 200)

    def test_a_busy_model_makes_room(self):
        """New requests of a busy model wait while another model waits for room."""
        with self.serve("--max-models", "1", models=self.paths) as server:
            with contextlib.closing(server.connect()) as slow:
                body = {"prompt": "x", "max_tokens": 900, "model": "a", "stream": True, "ignore_eos": True}
                slow.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
                reply = slow.getresponse()
                self.assertTrue(reply.readline())
                order, ends = [], threading.Event()

                def ask(name):
                    self.assertEqual(self.ask(server, name)[0], 200)
                    order.append(name)

                def keep_busy():  # without room for b there is always a request of a
                    while not ends.is_set():
                        self.ask(server, "a", max_tokens=200, ignore_eos=True)
                busy = [threading.Thread(target=keep_busy) for _ in range(8)]
                for t in busy:
                    t.start()
                time.sleep(0.1)
                other = threading.Thread(target=ask, args=("b",))
                other.start()
                other.join(10)
                ends.set()
                for t in busy:
                    t.join()
                self.assertEqual(order, ["b"])
                self.assertIn(b"[DONE]", reply.read())

    def test_limits_of_waiting(self):
        """Requests that wait for a model are bounded in number and in time."""
        with self.serve("--max-models", "1", "--max-waiting", "1", "--first-token-seconds", "0.2", models=self.paths) as server:
            got = {}

            def ask(name, **body):
                got[name] = self.ask(server, name, **body)
            threads = [threading.Thread(target=ask, args=("a",), kwargs={"n": 16, "max_tokens": 900, "ignore_eos": True}), threading.Thread(target=ask, args=("b",))]
            for t in threads:
                t.start()
                time.sleep(0.1)
            ask("c")
            for t in threads:
                t.join()
            self.assertEqual(got["a"][0], 200)
            self.assertEqual((got["b"][0], got["b"][2]["error"]["code"]), (503, "deadline_exceeded"))
            self.assertEqual((got["c"][0], got["c"][2]["error"]["code"]), (429, "queue_full"))
            self.assertIsNotNone(got["c"][1]["Retry-After"])
            self.assertTrue(server.wait_until(lambda: self.ask(server, "b")[0] == 200))

    def test_a_lost_file(self):
        lost = os.path.join(self.folder.name, "lost.gguf")
        shutil.copy(self.paths[0], lost)
        with self.serve(models=[self.paths[0], lost]) as server:
            os.rename(lost, lost + ".away")
            status, _, reply = self.ask(server, "lost")
            self.assertEqual((status, reply["error"]["code"]), (500, "model_not_loaded"))
            self.assertEqual(self.ask(server, "a")[0], 200)
            os.rename(lost + ".away", lost)
            self.assertEqual(self.ask(server, "lost")[0], 200)
        os.remove(lost)

    def test_ps_and_stop(self):
        def ga(*args, rc=0, **env):
            p = subprocess.run([GA, *args], capture_output=True, text=True, env={**os.environ, **env}, timeout=60)
            self.assertEqual(p.returncode, rc, p.stderr)
            return p.stdout, p.stderr
        keys = os.path.join(self.folder.name, "keys")
        with open(keys, "w") as f:
            f.write("secret\n")
        with self.serve("--api-keys", keys, models=self.paths) as server:
            url = ("--url", f"http://127.0.0.1:{server.port}/")
            self.assertIn("API key", ga("ps", *url, rc=1)[1])
            secret = {"GA_API_KEY": "secret"}
            self.assertIn("no model", ga("ps", *url, **secret)[1])
            status = server.request("POST", "/v1/completions", {"prompt": "x", "model": "b", "max_tokens": 1}, {"Authorization": "Bearer secret"})[0]
            self.assertEqual(status, 200)
            lines = ga("ps", *url, "--api-key", "secret")[0].splitlines()
            self.assertEqual((len(lines), lines[1].split()[0], lines[1].split()[-1]), (2, "b", "stays"))
            self.assertEqual([m["name"] for m in json.loads(ga("ps", *url, "--json", **secret)[0])], ["b"])
            ga("stop", *url, "b", **secret)
            self.assertTrue(server.wait_until(lambda: "no model" in ga("ps", *url, **secret)[1]))
            self.assertIn('"d"', ga("stop", *url, "d", rc=1, **secret)[1])
        os.remove(keys)
        self.assertIn("is ga serve running", ga("ps", "--url", "http://127.0.0.1:9", rc=1)[1])
        for args in (("ps", "x"), ("stop",)):
            ga(*args, rc=2)

    def test_one_model(self):
        """Alone, it is loaded at the start, needs no name, and comes back after it was stopped."""
        with self.serve("--alias", "one,two", models=self.paths[:1]) as server:
            self.assertEqual(self.loaded(server), {"one"})
            self.assertEqual(server.post("/v1/completions", prompt="x", max_tokens=1)["model"], "one")
            self.assertEqual(server.post("/api/generate", model="two", keep_alive=0, stream=False)["model"], "one")
            self.assertTrue(server.wait_until(lambda: not self.loaded(server)))
            self.assertEqual(server.post("/v1/completions", prompt="x", max_tokens=1)["model"], "one")

    def test_refused_at_the_start(self):
        other = os.path.join(self.folder.name, "sub")
        os.makedirs(other)
        for args, says in ((("-m", self.paths[0], "-m", self.paths[0]), "one name"), (("-m", self.paths[0], "-m", self.paths[1], "--alias", "x"), "--alias"),
                           (("-m", other), "no models in this folder"), (("-m", self.paths[0], "--keep-alive", "soon"), "--keep-alive"),
                           (("-m", self.paths[0], "-m", "nothing.gguf"), "nothing.gguf")):
            p = subprocess.run([GA, "serve", "--port", "0", *args], capture_output=True, text=True, timeout=60)
            self.assertNotEqual(p.returncode, 0)
            self.assertIn(says, p.stderr)
        os.rmdir(other)


if __name__ == "__main__":
    unittest.main()
