#!/usr/bin/env python3
"""llama-server's own routes from outside. Usage: program_serve_native.py GA. tests/test_serve_native.c has all values that are refused."""
import contextlib
import json
import os
import sys
import tempfile
import threading
import unittest

import serve_rig
from serve_rig import Server, force, token

GA = os.path.abspath(sys.argv.pop(1))
TEMPLATE = ("{% for m in messages %}{{ bos_token }}{{ m.role }}: {{ m.content }}{{ eos_token }}{% endfor %}"
            "{% if think %}think{% endif %}{% if add_generation_prompt %}{{ bos_token }}{% endif %}")
CONTEXT = 256
SAID_ONCE = {"index", "content", "tokens", "stop", "model", "tokens_predicted", "tokens_evaluated", "tokens_cached", "generation_settings", "prompt",
             "has_new_line", "truncated", "stop_type", "stopping_word", "timings"}


class Native(unittest.TestCase):
    OPTIONS = ("--context", str(CONTEXT), "--deterministic", "--alias", "org/tiny")

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="ga native ")
        cls.model = cls.make_model()
        cls.server = Server(GA, cls.model, *cls.OPTIONS)

    @classmethod
    def make_model(cls):
        return serve_rig.write_model(cls.folder.name, TEMPLATE, more={"tokenizer.chat_template.tool_use": ("text", "{{ tools|tojson }}")})

    @classmethod
    def tearDownClass(cls):
        rc, said = cls.server.end()
        cls.folder.cleanup()
        assert rc == 0, (rc, said)

    def get(self, path):
        status, _, body = self.server.request("GET", path)
        self.assertEqual(status, 200, body)
        return body

    def complete(self, **body):
        return self.server.post("/completion", **{"prompt": "hello", "n_predict": 12, "temperature": 0, **body})

    def text(self, **body):
        return self.complete(**body)["content"]

    def stream(self, **body):
        """Events of a stream, which has no [DONE]."""
        connection = self.server.connect()
        with contextlib.closing(connection):
            body = {"prompt": "hello", "n_predict": 12, "temperature": 0, "stream": True, **body}
            connection.request("POST", "/completion", json.dumps(body), {"Content-Type": "application/json"})
            reply = connection.getresponse()
            raw = reply.read()
            self.assertEqual(reply.status, 200, raw)
            self.assertTrue(reply.headers["Content-Type"].startswith("text/event-stream"))
            return serve_rig.parse_events(raw + b"data: [DONE]\n\n")

    def refuse(self, status, param, says="", path="/completion", **body):
        got, _, reply = self.server.request("POST", path, {"prompt": "hello", **body})
        self.assertEqual(got, status, (body, reply))
        self.assertEqual(reply["error"]["param"], param, reply)
        self.assertIn(says, reply["error"]["message"])

    def idle(self):
        return self.server.wait_until(lambda: not any(slot["is_processing"] for slot in self.get("/slots")))


class Completion(Native):
    def test_shape(self):
        said = self.complete()
        self.assertEqual(set(said), SAID_ONCE)
        self.assertEqual((said["index"], said["model"], said["prompt"], said["stop"], said["tokens"]), (0, "org/tiny", "hello", True, []))
        self.assertEqual((said["tokens_predicted"], said["stop_type"], said["stopping_word"], said["truncated"]), (12, "limit", "", False))
        self.assertEqual(said["tokens_evaluated"], len(self.server.post("/tokenize", content="hello", add_special=True)["tokens"]))
        timings = said["timings"]
        self.assertEqual((timings["predicted_n"], timings["prompt_n"] + timings["cache_n"]), (12, said["tokens_evaluated"]))
        self.assertTrue(all(timings[key] > 0 for key in ("prompt_ms", "prompt_per_second", "predicted_ms", "predicted_per_second")))
        self.assertEqual(self.server.post("/completions", prompt="hello", n_predict=12, temperature=0)["content"], said["content"])
        self.assertEqual(self.server.post("/v1/completions", prompt="hello", max_tokens=12, temperature=0)["choices"][0]["text"], said["content"])

    def test_settings(self):
        usual = self.get("/props")["default_generation_settings"]["params"]
        self.assertEqual(self.complete(n_predict=1, temperature=None)["generation_settings"], {**usual, "n_predict": 1})
        for key, value in (("temperature", 0.8), ("top_p", 0.95), ("min_p", 0.05)):
            self.assertAlmostEqual(usual[key], value, places=6)
        self.assertEqual((usual["top_k"], usual["repeat_last_n"], usual["seed"], usual["n_predict"], usual["repeat_penalty"]), (40, 64, -1, -1, 1))
        own = {"seed": 5, "top_k": 3, "temperature": 0.5, "top_p": 0.5, "min_p": 0.25, "typical_p": 0.75, "repeat_penalty": 1.5, "presence_penalty": 0.5,
               "frequency_penalty": 0.25, "repeat_last_n": 7, "ignore_eos": True, "n_probs": 2, "stop": ["x", "\u00e9"], "n_predict": 3}
        bias = [[5, False], [6, 1.5]]
        said = self.complete(**own, logit_bias=bias)["generation_settings"]
        self.assertEqual({key: said[key] for key in own}, own)
        self.assertEqual([[b["token"], b["bias"]] for b in said["logit_bias"]], bias)

    def test_limits(self):
        none = self.complete(n_predict=0)
        self.assertEqual((none["content"], none["tokens_predicted"], none["stop_type"], none["truncated"]), ("", 0, "limit", False))
        one = self.complete(n_predict=1)
        self.assertEqual((one["tokens_predicted"], one["truncated"]), (1, False))
        for body in ({"n_predict": -1}, {"n_predict": None}, {"n_predict": 100000}):
            said = self.complete(ignore_eos=True, **body)
            self.assertEqual(said["tokens_predicted"] + said["tokens_evaluated"], CONTEXT, body)
            self.assertEqual((said["truncated"], said["stop_type"]), (True, "limit"), body)
        exact = self.complete(ignore_eos=True, n_predict=CONTEXT - one["tokens_evaluated"])
        self.assertEqual((exact["truncated"], exact["tokens_predicted"] + exact["tokens_evaluated"]), (False, CONTEXT))
        said = self.server.post("/completion", prompt="hello", max_tokens=3, ignore_eos=True)
        self.assertEqual(said["tokens_predicted"], 3)
        self.refuse(400, "prompt", "256 tokens", prompt=[5] * (CONTEXT + 1))
        self.refuse(400, "prompt", "256 tokens", prompt=[5] * CONTEXT)

    def test_prompts(self):
        ids = self.server.post("/tokenize", content="hello", add_special=True)["tokens"]
        one = self.text()
        self.assertEqual(self.text(prompt=ids), one)
        self.assertIsNone(self.complete(prompt=ids)["prompt"])
        self.assertEqual(self.text(prompt={"prompt_string": "hello"}), one)
        self.assertEqual(self.text(prompt=["hello"]), one)  # a list of one
        several = self.complete(prompt=["hello", ids, {"prompt_string": "hello", "multimodal_data": []}, ids[:1] + ["ello"]])
        self.assertEqual([c["index"] for c in several], [0, 1, 2, 3])
        self.assertEqual([c["content"] for c in several][:3], [one] * 3)
        # A text behind ids begins no prompt: it has no token of its own in front.
        tail = self.server.post("/tokenize", content="lo")["tokens"]
        mixed = self.complete(prompt=[1, 40, "lo", 41], return_tokens=True)
        self.assertEqual(mixed["content"], self.text(prompt=[1, 40, *tail, 41]))
        self.assertEqual(mixed["tokens_evaluated"], len(tail) + 3)
        head = self.complete(prompt=["hello", 41])
        self.assertEqual(head["tokens_evaluated"], len(ids) + 1)
        for n in ("n", "n_cmpl"):
            choices = self.complete(prompt=["hello", "world"], **{n: 2})
            self.assertEqual([c["prompt"] for c in choices], ["hello", "hello", "world", "world"])

    def test_stops(self):
        forced = {"logit_bias": force("a")}
        said = self.complete(stop=["zz", "aaa"], **forced)
        self.assertEqual((said["content"], said["stop_type"], said["stopping_word"]), ("", "word", "aaa"))
        self.assertEqual(self.text(stop=["aaab"], **forced), "a" * 12)
        eos = {"logit_bias": [[serve_rig.EOS, 100]]}
        said = self.complete(**eos)
        self.assertEqual((said["content"], said["stop_type"]), ("", "eos"))
        self.assertEqual(self.complete(ignore_eos=True, **eos)["tokens_predicted"], 12)
        self.assertFalse(self.complete(**forced)["has_new_line"])
        self.assertTrue(self.complete(logit_bias=force("\n"))["has_new_line"])

    def test_bias(self):
        for bias in ([[token("a"), 100]], {str(token("a")): 100}):
            self.assertEqual(self.text(logit_bias=bias), "a" * 12)
        piece = self.server.post("/tokenize", content="ab")["tokens"]
        for bias in ([["ab", 100]], {"ab": 100}):
            said = self.complete(logit_bias=bias, return_tokens=True)["tokens"]
            self.assertTrue(set(said) <= set(piece) and len(said) == 12, said)
        first = self.complete(n_predict=1, return_tokens=True)["tokens"][0]
        for never in (False, -100):
            self.assertNotIn(first, self.complete(logit_bias=[[first, never]], return_tokens=True)["tokens"])
        both = self.complete(logit_bias=[[token("a"), 100], [token("b"), 100], [token("a"), False]])
        self.assertEqual(both["content"], "b" * 12)
        self.refuse(400, "logit_bias", "", logit_bias=[[32000, 1]])

    def test_penalties(self):
        forced = {"logit_bias": force("ab"), "n_predict": 8}
        usual = self.text(**forced)
        self.assertEqual(self.text(repeat_penalty=100, repeat_last_n=0, presence_penalty=2, frequency_penalty=2, **forced), usual)
        self.assertEqual(self.text(frequency_penalty=2, repeat_last_n=-1, **forced).count("a"), 4)
        # The text is long enough that a look back at the last token only differs from one at all of them.
        self.assertIn(self.text(presence_penalty=2, repeat_last_n=1, **forced), ("abababab", "babababa"))

    def test_seeds(self):
        hot = {"temperature": 1.5, "n_predict": 30, "top_k": 0, "top_p": 1, "min_p": 0}
        self.assertEqual(self.text(seed=7, **hot), self.text(seed=7, **hot))
        self.assertNotEqual(self.text(seed=7, **hot), self.text(seed=8, **hot))
        self.assertEqual(len({self.text(**hot) for _ in range(4)}), 4)
        self.assertEqual(self.text(seed=7, **{**hot, "top_k": 1}), self.text(n_predict=30))

    def test_probabilities(self):
        self.assertNotIn("completion_probabilities", self.complete(n_probs=0))
        said = self.complete(n_probs=3, return_tokens=True)
        self.assertEqual(len(said["completion_probabilities"]), 12)
        self.assertEqual([p["id"] for p in said["completion_probabilities"]], said["tokens"])
        for one in said["completion_probabilities"]:
            self.assertEqual(set(one), {"id", "token", "bytes", "logprob", "top_logprobs"})
            self.assertEqual(len(one["top_logprobs"]), 3)
            self.assertEqual((one["top_logprobs"][0]["id"], one["top_logprobs"][0]["logprob"]), (one["id"], one["logprob"]))  # greedy
            self.assertLess(one["logprob"], 0)
        other = self.server.post("/v1/completions", prompt="hello", max_tokens=12, temperature=0, logprobs=3)["choices"][0]["logprobs"]
        self.assertEqual([p["logprob"] for p in said["completion_probabilities"]], other["token_logprobs"])

    def test_fields_of_an_answer(self):
        said = self.complete(response_fields=["content", "generation_settings/n_predict", "timings/predicted_n", "nothing", "content/x"])
        self.assertEqual(said, {"content": self.text(), "generation_settings/n_predict": 12, "timings/predicted_n": 12})
        self.assertEqual(set(self.complete(response_fields=[])), SAID_ONCE)
        self.assertEqual(self.stream(response_fields=["stop_type"])[-1], {"stop_type": "limit"})
        self.assertEqual(len(self.complete(return_tokens=True)["tokens"]), 12)
        nul = {"prompt": "a\0b", "ignore_eos": True, "response_fields": ["prompt", "stop_type"]}  # the answer holds it, and is read again
        self.assertEqual(self.complete(**nul), {"prompt": "a\0b", "stop_type": "limit"})
        self.assertEqual(self.stream(**nul)[-1], {"prompt": "a\0b", "stop_type": "limit"})
        made = self.complete(logit_bias=[[token("\0"), 100]], n_predict=3, response_fields=["content"])
        self.assertEqual(made, {"content": "\0\0\0"})
        self.refuse(400, "response_fields", "without NUL", "/completion", prompt="a", response_fields=["content\0x"])

    def test_cache(self):
        body = {"prompt": [9] * 200, "n_predict": 1, "ignore_eos": True}
        self.assertEqual(self.complete(**body, cache_prompt=False)["tokens_cached"], 0)
        self.assertEqual(self.complete(**body, cache_prompt=False)["tokens_cached"], 0)
        self.assertEqual(self.complete(**body)["tokens_cached"], 0)  # those left nothing
        again = self.complete(**body, cache_prompt=True, id_slot=1, n_keep=-1)
        self.assertGreater(again["tokens_cached"], 100)
        self.assertEqual(again["timings"]["cache_n"], again["tokens_cached"])
        self.assertEqual(self.complete(**body, cache_prompt=False)["tokens_cached"], 0)

    def test_streams(self):
        for extra in ({}, {"n": 3}, {"prompt": ["a", "b"], "n": 2}, {"n_probs": 2}, {"stop": ["ab"], "logit_bias": force("abc")}, {"n_predict": 0},
                      {"temperature": 1, "seed": 3}, {"n_predict": 100}, {"logit_bias": {str(serve_rig.EOS): 100}}, {"n_predict": -1, "ignore_eos": True}):
            whole = self.complete(return_tokens=True, **extra)
            events = self.stream(timings_per_token=True, **extra)
            for answer in whole if isinstance(whole, list) else [whole]:
                mine = [e for e in events if e["index"] == answer["index"]]
                self.assertEqual([e["stop"] for e in mine], [False] * (len(mine) - 1) + [True])
                self.assertEqual("".join(e["content"] for e in mine), answer["content"], extra)
                self.assertEqual(mine[-1]["content"], "")
                self.assertEqual(sum((e["tokens"] for e in mine), []), answer["tokens"])
                self.assertTrue(all("timings" in e and e["content"] for e in mine[:-1]))
                for key in ("stop_type", "tokens_predicted", "tokens_evaluated", "truncated", "stopping_word", "prompt"):
                    self.assertEqual(mine[-1][key], answer[key], (key, extra))
                if "n_probs" in extra:
                    self.assertEqual(sum((e["completion_probabilities"] for e in mine), []), answer["completion_probabilities"])
        self.assertTrue(all("timings" not in e for e in self.stream()[:-1]))

    def test_refused(self):
        # That nothing is passed over in silence; test_serve_native.c has each value.
        for name in ("grammar", "json_schema", "lora", "image_data"):
            self.refuse(422, name, "this server" if name != "image_data" else "only text", **{name: "x"})
        self.refuse(422, "response_format", "json_object", response_format={"type": "json_object"})
        self.refuse(422, "speculative.n_max", "does not speculate", **{"speculative.n_max": 4})
        self.refuse(422, "multimodal_data", "only text", prompt={"prompt_string": "a", "multimodal_data": ["x"]})
        for name, value in (("mirostat", 2), ("samplers", ["top_k"]), ("return_progress", True)):
            self.refuse(400, name, "server", **{name: value})
        self.refuse(400, "n_predict", "from -1 to", n_predict=-2)
        self.refuse(400, "prompt", "missing", prompt=None)
        self.refuse(404, "model", "", model="other")
        self.assertEqual(self.server.request("GET", "/completion")[0], 405)
        for raw in (b"", b"[]", b"NaN", b"\xff"):
            self.assertEqual(self.server.request("POST", "/completion", raw=raw)[0], 400, raw)


class Others(Native):
    OPTIONS = ("--context", str(CONTEXT), "--max-sequences", "3", "--alias", "org/tiny")

    def test_props(self):
        props = self.get("/props")
        self.assertEqual((props["total_slots"], props["model_alias"], props["bos_token"], props["eos_token"]), (3, "org/tiny", "<s>", "</s>"))
        self.assertEqual((props["default_generation_settings"]["n_ctx"], props["modalities"]), (CONTEXT, {"vision": False, "audio": False}))
        self.assertEqual(props["build_info"], self.get("/version")["version"])
        self.assertNotIn(self.folder.name, json.dumps(props))
        self.assertEqual(self.server.request("POST", "/props", {})[0], 405)

    def test_slots(self):
        self.assertTrue(self.idle())
        self.assertEqual(self.get("/slots?fail_on_no_slot=1"), [{"id": i, "n_ctx": CONTEXT, "is_processing": False} for i in range(3)])
        connections = [self.server.connect() for _ in range(4)]
        for connection in connections:
            connection.request("POST", "/completion", json.dumps({"prompt": "a", "n_predict": -1, "ignore_eos": True, "stream": True, "n": 32}),
                               {"Content-Type": "application/json"})
        self.assertTrue(self.server.wait_until(lambda: all(slot["is_processing"] for slot in self.get("/slots"))))
        status, headers, reply = self.server.request("GET", "/slots?fail_on_no_slot=1")
        self.assertEqual((status, reply["error"]["code"]), (503, "no_slot"))
        self.assertIn("Retry-After", headers)
        for connection in connections:
            connection.close()
        self.assertTrue(self.idle())

    def test_apply_template(self):
        messages = [{"role": "user", "content": "hi"}]

        def apply(**body):
            return self.server.post("/apply-template", **{"messages": messages, **body})["prompt"]
        self.assertEqual(apply(), "<s>user: hi</s><s>")
        self.assertEqual(apply(add_generation_prompt=False, chat_template_kwargs={"think": True}), "<s>user: hi</s>think")
        self.assertEqual(apply(continue_final_message=True, add_generation_prompt=False), "<s>user: hi")
        # What it gives makes the same answer as the chat.
        chat = self.server.post("/v1/chat/completions", messages=messages, temperature=0, max_tokens=8)["choices"][0]["message"]["content"]
        ids = self.server.post("/tokenize", content=apply())["tokens"]
        self.assertEqual(ids, self.server.post("/tokenize", messages=messages)["tokens"])
        self.assertEqual(self.complete(prompt=ids, n_predict=8)["content"], chat)
        # Another template where there are tools, with numbers as Python has them; a role that the template does not name.
        function = {"type": "function", "function": {"name": "f", "parameters": {"maximum": 2**64 - 1, "minimum": -(10**30)}}}
        self.assertEqual(apply(tools=[function]), json.dumps([function]))
        self.assertEqual(apply(tools=[]), apply())
        self.assertEqual(apply(tools=[function], tool_choice="none"), apply())
        self.assertEqual(apply(messages=[{"role": "developer", "content": "hi"}]), "<s>system: hi</s><s>")
        self.refuse(400, "messages", "missing", "/apply-template")
        self.refuse(404, "model", "", "/apply-template", messages=messages, model="other")

    def test_tokens(self):
        ids = self.server.post("/tokenize", content="hi\u00e9")["tokens"]
        self.assertEqual(self.server.post("/tokenize", content="hi\u00e9", add_special=True)["tokens"], [1] + ids)
        self.assertEqual(self.server.post("/tokenize", prompt="hi\u00e9", add_special_tokens=False)["tokens"], ids)
        pieces = self.server.post("/tokenize", content="hi\u00e9", with_pieces=True)["tokens"]
        self.assertEqual([p["id"] for p in pieces], ids)
        self.assertEqual([p["piece"] for p in pieces][-4:], ["h", "i", [0xC3], [0xA9]])
        self.assertEqual(self.server.post("/detokenize", tokens=ids)["content"].strip(), "hi\u00e9")
        self.assertEqual(self.server.post("/tokenize", content="")["tokens"], [])
        self.assertIn(2, self.server.post("/tokenize", content="x</s>")["tokens"])
        self.assertNotIn(2, self.server.post("/tokenize", content="x</s>", parse_special=False)["tokens"])
        self.refuse(400, "content", "is 5", "/tokenize", content=5, prompt=None)
        self.refuse(400, "with_pieces", "true or false", "/tokenize", content="a", prompt=None, with_pieces=1)

    def test_short_paths(self):
        self.assertEqual(self.get("/v1/health"), self.get("/health"))
        self.assertEqual(self.get("/models"), self.get("/v1/models"))
        body = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 4, "temperature": 0}
        said = [self.server.post(path, **body)["choices"] for path in ("/chat/completions", "/v1/chat/completions")]
        self.assertEqual(*said)

    def test_many_at_once(self):
        want, got = self.text(n_predict=20), []

        def ask(i):
            said = self.stream(n_predict=20) if i % 2 else [self.complete(n_predict=20)]
            got.append("".join(e["content"] for e in said))
        threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(got, [want] * 8)


class Infill(Native):
    """Control tokens in the places of bytes that are in no text."""
    NAMES = ("<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<fim_pad>", "<|repo_name|>", "<|file_sep|>")
    FIRST = serve_rig.FIRST_BYTE + 0xF8
    BEFORE, BEHIND, MIDDLE, _, REPO, FILE = range(FIRST, FIRST + 6)

    @classmethod
    def make_model(cls):
        return serve_rig.write_model(cls.folder.name, renamed={cls.FIRST + i: name for i, name in enumerate(cls.NAMES)})

    def ids(self, text):
        return self.server.post("/tokenize", content=text)["tokens"] if text else []

    def infill(self, **body):
        return self.server.post("/infill", **{"n_predict": 12, "temperature": 0, "input_prefix": "", "input_suffix": "", **body})

    def same(self, want, **body):
        """As /completion of these ids says."""
        said, plain = self.infill(**body), self.complete(prompt=want)
        self.assertEqual((said["content"], said["tokens_evaluated"]), (plain["content"], len(want)), body)
        return said

    def test_prompt(self):
        for before, line, behind in (("a\n", "  b", "c"), ("", "", ""), ("\u00e9", "", "x"), ("", "x", "")):
            said = self.same([1, self.BEFORE, *self.ids(before), *self.ids(line), self.BEHIND, *self.ids(behind), self.MIDDLE],
                             input_prefix=before, prompt=line, input_suffix=behind)
            self.assertEqual(set(said), SAID_ONCE)
        extra = [{"filename": "a.py", "text": "one"}, {"text": "two"}]
        files = [1, self.REPO, *self.ids("project\n"), self.FILE, *self.ids("a.py"), *self.ids("\n"), *self.ids("one"), *self.ids("\n"),
                 self.FILE, *self.ids("two"), *self.ids("\n"), self.FILE]
        self.same([*files, self.BEFORE, *self.ids("b"), self.BEHIND, *self.ids("c"), self.MIDDLE], input_prefix="b", input_suffix="c", input_extra=extra)

    def test_fits(self):
        """Nothing is too long but the line: what is farthest from the gap goes first."""
        long = "0123456789" * 400
        room = CONTEXT - 12 - 4
        part = room - room // 4
        said = self.infill(input_prefix=long + "x", input_suffix="y" + long, input_extra=[{"text": long}])
        self.assertEqual(said["tokens_evaluated"], CONTEXT - 12)
        self.same([1, self.BEFORE, *self.ids(long + "x")[-part:], self.BEHIND, *self.ids("y" + long)[:room - part], self.MIDDLE],
                  input_prefix=long + "x", input_suffix="y" + long)
        self.same([1, self.BEFORE, *self.ids(long)[-(room - len(self.ids("y"))):], self.BEHIND, *self.ids("y"), self.MIDDLE], input_prefix=long, input_suffix="y")
        self.refuse(400, "prompt", "maximum context length", "/infill", input_prefix="a", input_suffix="b", prompt=long)

    def test_fields(self):
        """What llama.vim sends."""
        said = self.infill(input_prefix="def f(", input_suffix=")", id_slot=0, n_indent=0, top_k=40, top_p=0.9, samplers=["top_k", "top_p", "infill"],
                           cache_prompt=True, t_max_prompt_ms=500, t_max_predict_ms=1000, seed=1, stream=False, temperature=0.8,
                           response_fields=["content", "generation_settings/temperature", "generation_settings/min_p"])
        self.assertEqual({k: v for k, v in said.items() if k != "content"}, {"generation_settings/temperature": 1, "generation_settings/min_p": 0})
        pad = self.infill(input_prefix="a", logit_bias=[[self.FIRST + 3, 100]])
        self.assertEqual((pad["content"], pad["tokens_predicted"]), ("", 1))
        slow = self.infill(input_prefix="a", logit_bias=[[token("\n"), 100]], n_predict=100, t_max_predict_ms=1e-6)
        self.assertTrue(slow["content"].startswith("\n") and slow["stop_type"] == "limit", slow)  # where: tests/test_serve_text.c
        cut = self.infill(input_prefix="a", logit_bias=[[token("\n"), 100]], n_predict=100, n_indent=4)
        self.assertEqual((cut["content"], cut["stop_type"]), ("", "limit"))

    def test_refused(self):
        for param, says, body in (("input_prefix", "missing", {"input_suffix": ""}), ("input_suffix", "missing", {"input_prefix": ""}),
                                  ("input_prefix", "must be a string", {"input_prefix": 1, "input_suffix": ""}),
                                  ("prompt", "must be a string", {"input_prefix": "", "input_suffix": "", "prompt": [1]}),
                                  ("input_extra", "must be an array", {"input_prefix": "", "input_suffix": "", "input_extra": [{"filename": "a"}]}),
                                  ("samplers", "an array of names", {"input_prefix": "", "input_suffix": "", "samplers": "kpt"}),
                                  ("n_indent", "together", {"input_prefix": "", "input_suffix": "", "n_indent": 1, "stream": True}),
                                  ("temperature", "from 0 to 100", {"input_prefix": "", "input_suffix": "", "temperature": -1})):
            self.refuse(400, param, says, "/infill", **{"prompt": "", **body})
        with tempfile.TemporaryDirectory() as folder, Server(GA, serve_rig.write_model(folder)) as server:
            status, _, reply = server.request("POST", "/infill", {"input_prefix": "a", "input_suffix": "b"})
            self.assertEqual((status, reply["error"]["code"], reply["error"]["param"]), (400, "no_fill_in_the_middle", "input_suffix"))


class Leaving(Native):
    OPTIONS = ()  # a long context: no answer ends before its client is missed

    def test_clients_that_leave(self):
        aborted = {"name": "vllm:request_success_total", "finished_reason": "abort"}
        for is_stream in (True, False):
            before = self.server.value(**aborted)
            connection = self.server.connect()
            body = {"prompt": "hello", "n_predict": -1, "ignore_eos": True, "stream": is_stream, "n": 128}
            connection.request("POST", "/completion", json.dumps(body), {"Content-Type": "application/json"})
            self.assertTrue(self.server.wait_until(lambda: any(slot["is_processing"] for slot in self.get("/slots"))))
            connection.close()
            self.assertTrue(self.server.wait_until(lambda b=before: self.server.value(**aborted) > b), is_stream)
            self.assertTrue(self.idle())


class Keys(Native):
    def test_keys(self):
        path = os.path.join(self.folder.name, "keys")
        with open(path, "w") as f:
            f.write("secret\n")
        with Server(GA, self.model, "--api-keys", path) as server:
            for method, route in (("GET", "/props"), ("GET", "/slots"), ("GET", "/models"), ("POST", "/completion"), ("POST", "/completions"), ("POST", "/infill"),
                                  ("POST", "/apply-template"), ("POST", "/chat/completions")):
                body = {"prompt": "a"} if method == "POST" else None
                self.assertEqual(server.request(method, route, body)[0], 401, route)
                self.assertNotEqual(server.request(method, route, body, {"Authorization": "Bearer secret"})[0], 401, route)
            self.assertEqual(server.request("GET", "/v1/health")[0], 200)


class Encoder(Native):
    def test_encoder(self):
        with tempfile.TemporaryDirectory() as folder, Server(GA, serve_rig.write_encoder(folder)) as server:
            status, _, reply = server.request("POST", "/completion", {"prompt": "a"})
            self.assertEqual((status, reply["error"]["code"]), (400, "not_a_generating_model"))
            self.assertEqual(server.request("GET", "/slots")[2], [])
            self.assertEqual(server.request("GET", "/props")[2]["total_slots"], 0)


if __name__ == "__main__":
    unittest.main()
