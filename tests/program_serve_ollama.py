#!/usr/bin/env python3
"""Ollama's interface from outside. Usage: program_serve_ollama.py GA. tests/test_serve_ollama.c has reasoning, calls and what is refused."""
import contextlib
import json
import os
import re
import sys
import tempfile
import unittest

import serve_rig
from serve_rig import Server

GA = os.path.abspath(sys.argv.pop(1))
TEMPLATE = ("{% for m in messages %}{{ bos_token }}{{ m.role }}: {{ m.content }}{% for c in m.tool_calls or [] %}({{ c.function.name }}"
            "{{ c.function.arguments | tojson }}){% endfor %}{{ m.name or '' }}{{ m.reasoning_content or '' }}{{ eos_token }}{% endfor %}"
            "{% if tools %}{{ tools | tojson }}{% endif %}{{ reasoning_effort }}{% if enable_thinking is defined %}{{ enable_thinking }}{% endif %}"
            "{% if add_generation_prompt %}{{ bos_token }}{% endif %}{# <tool_call> <think> #}")
HELLO = [{"role": "user", "content": "hello"}]
TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}
CALL = {"function": {"name": "f", "arguments": {"x": 1}}}
OPTIONS = {"temperature": 0, "num_predict": 12}
TIME = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$"
COUNTS = {"total_duration", "load_duration", "prompt_eval_count", "prompt_eval_duration", "eval_count", "eval_duration"}


class OneServer(unittest.TestCase):
    OPTIONS = ("--context", "512", "--deterministic", "--alias", "org/tiny")

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="ga ollama ")
        cls.model = cls.make_model()
        cls.server = Server(GA, cls.model, *cls.OPTIONS)

    @classmethod
    def make_model(cls):
        return serve_rig.write_model(cls.folder.name, TEMPLATE)

    @classmethod
    def tearDownClass(cls):
        rc, said = cls.server.end()
        cls.folder.cleanup()
        assert rc == 0, (rc, said)

    def get(self, path):
        status, headers, body = self.server.request("GET", path)
        self.assertEqual((status, headers["Content-Type"]), (200, "application/json"), body)
        return body

    def refuse(self, path, body, status, says, method="POST"):
        got, _, reply = self.server.request(method, path, body)
        self.assertEqual(got, status, (body, reply))
        self.assertEqual(set(reply), {"error"})
        self.assertIn(says, reply["error"])

    def lines(self, path, **body):
        """The objects of a stream, which streams unless `stream` is false."""
        connection = self.server.connect()
        with contextlib.closing(connection):
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            reply = connection.getresponse()
            text = reply.read().decode()
        self.assertEqual((reply.status, reply.headers["Content-Type"]), (200, "application/x-ndjson"), text)
        self.assertTrue(text.endswith("\n"))
        found = [serve_rig.strict_json(line) for line in text[:-1].split("\n")]
        self.assertEqual([line["done"] for line in found], [False] * (len(found) - 1) + [True])
        return found


class Chats(OneServer):
    def chat(self, **body):
        return self.server.post("/api/chat", **{"messages": HELLO, "stream": False, "options": OPTIONS, **body})

    def generate(self, **body):
        return self.server.post("/api/generate", **{"prompt": "hello", "stream": False, "options": OPTIONS, **body})

    def openai(self, messages=None, **body):
        said = self.server.post("/v1/chat/completions", **{"messages": messages or HELLO, "max_tokens": 12, "temperature": 0, **body})
        return said["choices"][0]["message"].get("content"), said["usage"]["prompt_tokens"]

    def test_chat(self):
        said = self.chat(model="org/tiny:latest", keep_alive="5m")
        text, n = self.openai()
        self.assertRegex(said.pop("created_at"), TIME)
        counts = {key: said.pop(key) for key in COUNTS}
        self.assertEqual(said, {"model": "org/tiny", "message": {"role": "assistant", "content": text}, "done": True, "done_reason": "length"})
        self.assertEqual((counts["prompt_eval_count"], counts["eval_count"]), (n, 12))
        self.assertGreaterEqual(counts["total_duration"], counts["eval_duration"])

    def test_chat_stream(self):
        for extra in ({}, {"tools": [TOOL]}, {"options": {**OPTIONS, "num_predict": 100}}):
            whole = self.chat(**extra)
            said = self.lines("/api/chat", **{"messages": HELLO, "options": OPTIONS, **extra})
            self.assertEqual("".join(line["message"]["content"] for line in said), whole["message"]["content"])
            self.assertEqual(set(said[-1]) - COUNTS, {"model", "created_at", "message", "done", "done_reason"})
            for key in ("done_reason", "prompt_eval_count", "eval_count"):
                self.assertEqual(said[-1][key], whole[key])
            for line in said[:-1]:
                self.assertEqual(set(line), {"model", "created_at", "message", "done"})

    def test_what_the_template_sees(self):
        called = {"role": "assistant", "content": "", "tool_calls": [{"type": "function", **CALL}]}
        for body, messages, more in (
                ({"messages": [{"role": "system", "content": "be brief"}] + HELLO}, [{"role": "system", "content": "be brief"}] + HELLO, {}),
                ({"messages": HELLO + [{"role": "assistant", "content": "", "tool_calls": [CALL]}, {"role": "tool", "content": "5", "tool_name": "f"}]},
                 HELLO + [called, {"role": "tool", "content": "5", "name": "f"}], {}),
                ({"messages": HELLO + [{"role": "assistant", "content": "so", "thinking": "hm"}] + HELLO},
                 HELLO + [{"role": "assistant", "content": "so", "reasoning_content": "hm"}] + HELLO, {}),
                ({"messages": HELLO + [{"role": "assistant", "content": "It is"}]}, HELLO + [{"role": "assistant", "content": "It is"}],
                 {"continue_final_message": True}),
                ({"tools": [TOOL]}, None, {"tools": [TOOL]}),
                ({"think": False}, None, {"chat_template_kwargs": {"enable_thinking": False}}),
                ({"think": "low"}, None, {"chat_template_kwargs": {"enable_thinking": True, "reasoning_effort": "low"}})):
            self.assertEqual(self.chat(**body)["prompt_eval_count"], self.openai(messages, **more)[1], body)

    def test_generate(self):
        said = self.generate()
        self.assertRegex(said.pop("created_at"), TIME)
        for key in COUNTS:
            self.assertGreaterEqual(said.pop(key), 0)
        self.assertEqual(said, {"model": "org/tiny", "response": self.openai()[0], "done": True, "done_reason": "length"})
        self.assertEqual(self.generate(system="be brief")["prompt_eval_count"], self.openai([{"role": "system", "content": "be brief"}] + HELLO)[1])
        raw = self.server.post("/v1/completions", prompt="hello", max_tokens=12, temperature=0)
        said = self.generate(raw=True)
        self.assertEqual((said["response"], said["prompt_eval_count"]), (raw["choices"][0]["text"], raw["usage"]["prompt_tokens"]))
        streamed = self.lines("/api/generate", prompt="hello", raw=True, options=OPTIONS)
        self.assertEqual("".join(line["response"] for line in streamed), said["response"])
        long = self.server.post("/v1/completions", prompt="hello", max_tokens=500, temperature=0)["usage"]["completion_tokens"]
        for n in (-1, -2, 100000):  # as many as the context has room for
            self.assertGreaterEqual(self.generate(raw=True, options={"temperature": 0, "num_predict": n})["eval_count"], long)

    def test_options(self):
        same = {"temperature": 1, "seed": 7, "top_k": 50, "top_p": 0.9, "min_p": 0.01, "typical_p": 0.9}
        penalties = {"repetition_penalty": 1.2, "presence_penalty": 0.1, "frequency_penalty": 0.1}
        options = {**same, "num_predict": 12, "repeat_penalty": 1.2, "presence_penalty": 0.1, "frequency_penalty": 0.1, "num_ctx": 4096, "num_thread": 2}
        self.assertEqual(self.chat(options=options)["message"]["content"], self.openai(**same, **penalties)[0])
        self.assertEqual(self.chat(options={**options, "repeat_last_n": 0})["message"]["content"], self.openai(**same, repetition_penalty=1)[0])
        text = self.openai()[0]
        self.assertEqual(self.chat(options={**OPTIONS, "stop": [text[3:5]]})["message"]["content"], text[:text.index(text[3:5])])
        self.assertEqual(self.chat(options={**OPTIONS, "stop": text[3:5]})["done_reason"], "stop")

    def test_logprobs(self):
        for path, body in (("/api/chat", {"messages": HELLO}), ("/api/generate", {"prompt": "hello"}), ("/api/generate", {"prompt": "hello", "raw": True})):
            said = self.server.post(path, **body, stream=False, options=OPTIONS, logprobs=True, top_logprobs=7)
            self.assertEqual((len(said["logprobs"]), {len(t["top_logprobs"]) for t in said["logprobs"]}), (12, {7}))
            streamed = self.lines(path, **body, options=OPTIONS, logprobs=True, top_logprobs=7)
            self.assertEqual([t for line in streamed for t in line.get("logprobs", [])], said["logprobs"])

    def test_only_loads(self):
        """Programs load a model by an empty request, and unload it with keep_alive 0."""
        for path, key, empty in (("/api/generate", "response", ""), ("/api/chat", "message", {"role": "assistant", "content": ""})):
            for keep, reason in ((None, "load"), (0, "unload"), ("0s", "unload"), (-1, "load")):
                body = {"model": "org/tiny"} | ({} if keep is None else {"keep_alive": keep})
                for said in (self.server.post(path, **body, stream=False), self.lines(path, **body)[0]):
                    self.assertRegex(said.pop("created_at"), TIME)
                    self.assertEqual(said, {"model": "org/tiny", key: empty, "done": True, "done_reason": reason})

    def test_as_open_webui_asks(self):
        """Bodies that open-webui 0.12.4 sends, in its order: a look, a chat with its parameters, a title, and unloading."""
        self.assertTrue(self.get("/api/version")["version"])
        model = self.get("/api/tags")["models"][0]["model"]
        self.assertTrue(self.get("/api/ps")["models"][0]["expires_at"])
        options = {"temperature": 0, "num_predict": 12, "num_ctx": 2048, "repeat_last_n": 64, "num_batch": 512, "use_mmap": True, "stop": []}
        said = self.lines("/api/chat", model=model, messages=[{"role": "user", "content": "hello", "images": []}], stream=True, options=options, keep_alive="5m",
                          think=False)
        self.assertGreater(said[-1]["eval_count"], 0)
        title = self.server.post("/api/chat", model=model, messages=HELLO, stream=False, options={"num_predict": 5})
        self.assertTrue(title["done"])
        self.assertEqual(self.server.post("/api/generate", model=model, keep_alive=0, prompt="", stream=False)["done_reason"], "unload")
        self.assertTrue(self.lines("/api/generate", model=model, keep_alive=0, prompt="")[0]["done"])
        for path in ("/v1/chat/completions", "/v1/responses"):  # as a provider of OpenAI's interface
            body = {"messages": HELLO} if "chat" in path else {"input": [{"type": "message", **HELLO[0]}]}
            self.assertEqual(self.server.request("POST", path, {"model": model, **body})[0], 200)

    def test_refused(self):
        for path in ("/api/chat", "/api/generate"):
            for body, status, says in (({"options": 5}, 400, "options"), ({"options": {"temperature": "hot"}}, 400, "temperature"),
                                       ({"options": {"mirostat": 1}}, 400, "mirostat"), ({"format": "json"}, 422, "format"),
                                       ({"format": {"type": "object"}}, 422, "format"), ({"keep_alive": "soon"}, 400, "keep_alive"), ({"think": 5}, 400, "think"),
                                       ({"model": "other"}, 404, "other"), ({"images": ["x"]}, 400, "images"), ({"top_logprobs": 2}, 400, "logprobs")):
                self.refuse(path, {"messages": HELLO, "prompt": "x", **body}, status, says)
        for messages in (5, [5], [{"role": "x", "content": "y"}], [{"role": "user", "content": "x", "images": ["x"]}],
                         [{"role": "assistant", "tool_calls": [{}]}], [{"content": "x"}]):
            self.refuse("/api/chat", {"messages": messages}, 400, "")
        self.refuse("/api/chat", {"messages": [{"role": "user", "content": "a" * 9000}]}, 400, "context length")
        for body, says in (({"template": "{{ .Prompt }}"}, "template"), ({"context": [1]}, "context"), ({"raw": True, "system": "x"}, "system"), ({"suffix": "x"}, "middle")):
            self.refuse("/api/generate", {"prompt": "x", **body}, 400, says)
        for path in ("create", "copy", "push"):
            self.refuse("/api/" + path, {"model": "x"}, 501, "ga ")
        self.refuse("/api/delete", None, 501, "ga rm", "DELETE")
        self.refuse("/api/chats", {}, 404, "nearest path is /api/chat.")


class Models(OneServer):
    def test_lists(self):
        model, = self.get("/api/tags")["models"]
        self.assertEqual((model["name"], model["model"], model["size"]), ("org/tiny", "org/tiny", os.path.getsize(self.model)))
        self.assertRegex(model["modified_at"], TIME)
        self.assertRegex(model["digest"], "^[0-9a-f]{64}$")
        self.assertEqual(model["details"], {"parent_model": "", "format": "gguf", "family": "llama", "families": ["llama"],
                                            "parameter_size": model["details"]["parameter_size"], "quantization_level": "F32"})
        loaded, = self.get("/api/ps")["models"]
        self.assertEqual({key: loaded[key] for key in ("name", "digest", "details", "context_length", "size_vram")},
                         {"name": "org/tiny", "digest": model["digest"], "details": model["details"], "context_length": 512, "size_vram": 0})
        self.assertTrue(re.match(r"^\d{4}-", loaded["expires_at"]))
        self.assertRegex(self.get("/api/version")["version"], r"^\d+\.\d+\.\d+$")
        self.assertEqual(self.server.request("HEAD", "/")[0], 200)

    def test_show(self):
        said = self.server.post("/api/show", model="org/tiny:latest")
        self.assertEqual(said["template"], TEMPLATE)
        self.assertEqual(said["capabilities"], ["completion", "tools", "thinking"])
        info = said["model_info"]
        self.assertEqual((info["general.architecture"], info["llama.context_length"], info["tokenizer.ggml.tokens"]), ("llama", serve_rig.CONTEXT, None))
        self.assertGreater(info["general.parameter_count"], 0)
        self.assertEqual(self.server.post("/api/show", name="org/tiny", verbose=True)["model_info"]["tokenizer.ggml.tokens"][1:3], ["<s>", "</s>"])
        self.refuse("/api/show", {"model": "other"}, 404, "other")
        self.refuse("/api/embed", {"input": "x"}, 400, "generates text")


class Embeddings(OneServer):
    OPTIONS = ()

    @classmethod
    def make_model(cls):
        return serve_rig.write_encoder(cls.folder.name)

    def test_embed(self):
        wanted = [d["embedding"] for d in self.server.post("/v1/embeddings", input=["hello", "x"])["data"]]
        said = self.server.post("/api/embed", model="encoder:latest", input=["hello", "x"], keep_alive=-1)
        self.assertEqual(set(said), {"model", "embeddings", "total_duration", "load_duration", "prompt_eval_count"})
        self.assertEqual((said["embeddings"], said["prompt_eval_count"]), (wanted, 10))
        self.assertEqual(self.server.post("/api/embed", input="hello")["embeddings"], wanted[:1])
        self.assertEqual(self.server.post("/api/embeddings", prompt="hello"), {"embedding": wanted[0]})
        self.assertEqual(len(self.server.post("/api/embed", input="x " * 500)["embeddings"]), 1)  # cut
        for body, says in (({"input": "x " * 500, "truncate": False}, "context length"), ({}, "input"), ({"input": "x", "dimensions": 3}, "dimensions")):
            self.refuse("/api/embed", body, 400, says)
        self.assertEqual(self.server.post("/api/show", model="encoder")["capabilities"], ["embedding"])
        self.refuse("/api/chat", {"messages": HELLO}, 400, "embeddings")


if __name__ == "__main__":
    unittest.main()
