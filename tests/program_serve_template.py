#!/usr/bin/env python3
"""`ga serve --chat-template`: a base model that chats, another template for a chat model. Usage: program_serve_template.py GA"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

import serve_rig
from serve_rig import Server

GA = os.path.abspath(sys.argv.pop(1))
HELLO = [{"role": "user", "content": "hello"}]
OWN = "{% for m in messages %}own {{ m.content }}{% endfor %}"
OTHER = "{% for m in messages %}other {{ m.role }} {{ m.content }}{% endfor %}"
HERMES = "{% for t in tools %}<tool_call>{{ t.function.name }}</tool_call>{% endfor %}{{ messages[0].content }}"


class Template(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="ga template ")
        self.addCleanup(self.folder.cleanup)
        self.file = os.path.join(self.folder.name, "t.jinja")
        with open(self.file, "w") as f:
            f.write(OTHER)

    def serve(self, own, *options):
        return Server(GA, serve_rig.write_model(self.folder.name, own), "--context", "512", *options)

    def prompt(self, server):
        return server.post("/apply-template", messages=HELLO)["prompt"]

    def abilities(self, server):
        return server.request("GET", "/v1/models")[2]["data"][0]["capabilities"]

    def test_base_model(self):
        with self.serve("") as server:
            status, _, reply = server.request("POST", "/v1/chat/completions", {"messages": HELLO, "max_tokens": 2})
            self.assertEqual((status, reply["error"]["code"]), (400, "no_chat_template"))
            self.assertIn("--chat-template", reply["error"]["message"])
            self.assertEqual(self.abilities(server), ["completion"])
        with self.serve("", "--chat-template", "plain") as server:
            self.assertEqual(self.prompt(server).removeprefix("<s>"), "User: hello\nAssistant:")
            self.assertEqual(self.abilities(server), ["completion", "chat"])
            self.assertEqual(server.post("/v1/chat/completions", messages=HELLO, max_tokens=2)["usage"]["completion_tokens"], 2)
            self.assertIn("User }}: ", server.post("/api/show", model="tiny")["template"].replace("'", ""))
            body = {"model": "tiny", "prompt": "hello", "stream": False, "options": {"num_predict": 2}}
            with_template = server.post("/api/generate", **body)["prompt_eval_count"]
            self.assertGreater(with_template, server.post("/api/generate", **body, raw=True)["prompt_eval_count"])

    def test_in_place_of_the_own(self):
        with self.serve(OWN) as server:
            self.assertEqual(self.prompt(server), "own hello")
        with self.serve(OWN, "--chat-template", self.file) as server:
            self.assertEqual(self.prompt(server), "other user hello")
            self.assertEqual(server.post("/api/show", model="tiny")["template"], OTHER)

    def test_tools_by_the_given_one(self):
        tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
        with open(self.file, "w") as f:
            f.write(HERMES)
        for own, options, expected in ((OWN, [], []), (OWN, ["--chat-template", self.file], ["tools"])):
            with self.serve(own, *options) as server:
                self.assertEqual([c for c in server.post("/api/show", model="tiny")["capabilities"] if c == "tools"], expected)
                text = server.post("/apply-template", messages=HELLO, tools=tools)["prompt"]
                self.assertEqual("<tool_call>f" in text, bool(expected))

    def refused(self, *args):
        r = subprocess.run([GA, "serve", *args, "--port", "0"], capture_output=True, text=True, timeout=60)
        self.assertEqual(r.returncode, 1, r.stderr)
        return r.stderr

    def test_refused(self):
        model = serve_rig.write_model(self.folder.name, OWN)
        self.assertIn("'chatlm'", self.refused("-m", model, "--chat-template", "chatlm"))
        with open(self.file, "w") as f:
            f.write("{% for m in messages %}")
        self.assertIn("the block that ends it is missing", self.refused("-m", model, "--chat-template", self.file))
        with open(self.file, "wb") as f:
            f.write(b"a\0b")
        self.assertIn("byte 1 is NUL", self.refused("-m", model, "--chat-template", self.file))
        other = os.path.join(self.folder.name, "other.gguf")
        os.link(model, other)
        self.assertIn("--chat-template is for one model; there are 2", self.refused("-m", model, "-m", other, "--chat-template", "plain"))

    def test_batch(self):
        requests, out = os.path.join(self.folder.name, "in.jsonl"), os.path.join(self.folder.name, "out.jsonl")
        with open(requests, "w") as f:
            f.write(json.dumps({"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {"messages": HELLO, "max_tokens": 2}}) + "\n")
        model = serve_rig.write_model(self.folder.name, "")
        for options, status in (([], 400), (["--chat-template", "plain"], 200)):
            r = subprocess.run([GA, "batch", "-m", model, "-o", out, *options, requests], capture_output=True, text=True, timeout=60)
            self.assertEqual(r.returncode, 0, r.stderr)
            with open(out) as f:
                self.assertEqual(json.loads(f.readline())["response"]["status_code"], status)
            os.remove(out)


if __name__ == "__main__":
    unittest.main()
