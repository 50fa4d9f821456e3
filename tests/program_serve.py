#!/usr/bin/env python3
"""ga serve from outside: every route, what it answers and what it refuses. Usage: program_serve.py GA"""
import base64
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import serve_rig
from serve_rig import Server, force, token

GA = os.path.abspath(sys.argv.pop(1))
TEMPLATE = ("{% for m in messages %}{{ bos_token }}{{ m.role }}: {{ m.content }}{{ eos_token }}{% endfor %}"
            "{% if tools %}{{ tools | length }} tools{% endif %}{% if think %}think{% endif %}{% if add_generation_prompt %}{{ bos_token }}{% endif %}")
LONG = {"max_tokens": 12, "temperature": 0}


class OneServer(unittest.TestCase):
    OPTIONS = ()

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="ga serve \u00e9 ")
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

    def post(self, path, **body):
        return self.server.post(path, **body)

    def complete(self, **body):
        return self.post("/v1/completions", **{**LONG, "prompt": "hello", **body})

    def text(self, **body):
        return self.complete(**body)["choices"][0]["text"]

    def refuse(self, path, body, status=400, param=None, code=None, says="", headers=None, raw=None):
        got, _, reply = self.server.request("POST", path, body, headers, raw)
        self.assertEqual(got, status, (body, reply))
        error = reply["error"]
        self.assertEqual(set(error), {"message", "type", "param", "code"})
        self.assertIn(says, error["message"])
        if param:
            self.assertEqual(error["param"], param, error)
        if code:
            self.assertEqual(error["code"], code, error)


class Routes(OneServer):
    OPTIONS = ("--alias", "org/tiny,other name,third", "--context", "256")

    def test_listing(self):
        self.assertIn("(model org/tiny)", self.server.line)
        for path, kind in (("/", "text/html"), ("/app.js", "text/javascript"), ("/markdown.js", "text/javascript"), ("/style.css", "text/css")):
            status, headers, text = self.server.request("GET", path)
            self.assertEqual(status, 200)
            self.assertTrue(headers["Content-Type"].startswith(kind) and len(text) > 1000)
            self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
            self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
            self.assertIsNone(headers["Access-Control-Allow-Origin"])

    def test_small_routes(self):
        self.assertEqual(self.server.request("GET", "/health")[0], 200)
        self.assertEqual(set(self.server.request("GET", "/version")[2]), {"version"})
        models = self.server.request("GET", "/v1/models")[2]
        self.assertEqual(models["object"], "list")
        model = models["data"][0]
        self.assertEqual((model["id"], model["object"], model["max_model_len"]), ("org/tiny", "model", 256))
        self.assertEqual(self.server.request("GET", "/v1/models/org/tiny")[2], model)
        self.assertEqual(self.server.request("GET", "/v1/models/org%2Ftiny")[2], model)
        for name, status in (("third", 200), ("other%20name", 200), ("other", 404), ("org/tiny,third", 404), ("", 404)):
            self.assertEqual(self.server.request("GET", "/v1/models/" + name)[0], status, name)
        self.assertEqual(self.complete(model="third")["model"], "org/tiny")
        self.assertEqual(self.server.request("HEAD", "/health")[0], 200)

    def test_unknown_paths_and_methods(self):
        self.assertEqual(self.server.request("GET", "/v1/nothing")[0], 404)
        self.assertEqual(self.server.request("POST", "/", {})[0], 405)
        status, headers, _ = self.server.request("GET", "/v1/completions")
        self.assertEqual((status, headers["Allow"]), (405, "POST"))
        self.assertEqual(self.server.request("DELETE", "/v1/models")[0], 405)
        self.assertEqual(self.server.request("OPTIONS", "/v1/models")[0], 405)

    def test_nearest_path(self):
        for url, near in (("/v1/chat", "/v1/chat/completions"), ("/v1/v1/chat/completions", "/v1/chat/completions"), ("/v1/chat/completion/", "/v1/chat/completions"),
                          ("/openai/v1/models", "/v1/models"), ("/v1/embedding", "/v1/embeddings"), ("/helth", "/health"), ("/v2/completions", "/v1/completions"),
                          ("/v1", "/v1/models"), ("/" + "x" * 5000, "/")):
            for method in ("GET", "POST"):
                status, _, reply = self.server.request(method, url, {} if method == "POST" else None)
                self.assertEqual((status, reply["error"]["code"]), (404, "not_found"), url)
                self.assertTrue(reply["error"]["message"].endswith(f"the nearest path is {near}."), reply) if len(url) < 99 else None

    def test_keep_alive(self):
        connection = self.server.connect()
        for body in ({"prompt": "a", "max_tokens": 2}, {"prompt": 5}, {"prompt": "b", "max_tokens": 2, "stream": True}) * 3:
            connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
            reply = connection.getresponse()
            self.assertEqual(reply.status, 400 if body["prompt"] == 5 else 200)
            reply.read()
        connection.close()

    def test_tokenize(self):
        said = self.post("/tokenize", prompt="hi\u00e9", return_token_strs=True)
        self.assertEqual(said["count"], len(said["tokens"]))
        self.assertEqual(said["max_model_len"], 256)
        self.assertEqual(said["tokens"][0], 1)
        self.assertEqual(said["token_strs"][-3], "i")
        bare = self.post("/tokenize", prompt="hi\u00e9", add_special_tokens=False)
        self.assertEqual(bare["tokens"], said["tokens"][1:])
        self.assertIsNone(bare["token_strs"])
        self.assertEqual(self.post("/detokenize", tokens=bare["tokens"])["prompt"].strip(), "hi\u00e9")
        self.assertEqual(self.post("/detokenize", tokens=[])["prompt"], "")
        self.assertIn(2, self.post("/tokenize", prompt="x</s>")["tokens"])
        self.assertNotIn(2, self.post("/tokenize", prompt="x</s>", parse_special=False)["tokens"])
        chat = self.post("/tokenize", messages=[{"role": "user", "content": "x</s>"}])["tokens"]
        self.assertEqual(chat.count(2), 1)  # the template's own
        info = self.server.request("GET", "/tokenizer_info")[2]
        self.assertEqual(info, {"model_max_length": 256, "bos_token": "<s>", "eos_token": "</s>", "pad_token": None})
        self.refuse("/tokenize", {}, param="prompt", says="missing")
        self.refuse("/tokenize", {"prompt": 5}, param="prompt", says="is 5")
        self.refuse("/detokenize", {"tokens": [-1]}, param="tokens", says="-1")
        self.refuse("/detokenize", {"tokens": "x"}, param="tokens")

    def test_bodies(self):
        for raw, status in ((b"", 400), (b"{", 400), (b"[]", 400), (b"5", 400), (b"\xff", 400), (b"NaN", 400),
                            (b"[" * 100000, 400), (b'{"prompt":"' + b"\x00" * 10 + b'"}', 400)):
            for path in ("/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"):
                self.refuse(path, None, status, raw=raw)
        self.refuse("/v1/completions", None, 415, raw=b"{}", headers={"Content-Type": "text/plain"}, says="application/json")
        self.refuse("/v1/completions", {"prompt": "a", "model": "other"}, 404, "model", "model_not_found")
        self.refuse("/v1/completions", {"prompt": "a", "model": 5}, 400, "model")
        self.assertEqual(self.complete(model="org/tiny")["model"], "org/tiny")

    def test_context(self):
        self.refuse("/v1/completions", {"prompt": "a" * 300, "max_tokens": 1}, 400, "prompt", "context_length_exceeded", "256 tokens")
        self.refuse("/v1/completions", {"prompt": [5] * 250, "max_tokens": 7}, 400, "prompt", "context_length_exceeded", "257")
        self.refuse("/v1/chat/completions", {"messages": [{"role": "user", "content": "a" * 300}]}, 400, "messages", "context_length_exceeded")
        said = self.complete(prompt=[5] * 250, max_tokens=6, ignore_eos=True)
        self.assertEqual(said["usage"]["total_tokens"], 256)
        chat = self.post("/v1/chat/completions", messages=[{"role": "user", "content": "a"}], ignore_eos=True)
        self.assertEqual(chat["usage"]["total_tokens"], 256)
        self.assertEqual(chat["choices"][0]["finish_reason"], "length")

    def test_embeddings_need_an_encoder(self):
        self.refuse("/v1/embeddings", {"input": "a"}, 400, "model", says="generates text")

    def test_metrics(self):
        deadline = time.monotonic() + 10
        while self.server.value("vllm:num_requests_running") and time.monotonic() < deadline:  # of clients that left in tests before
            time.sleep(0.01)
        before = self.server.value("vllm:generation_tokens_total")
        self.complete(max_tokens=5, ignore_eos=True)
        self.assertEqual(self.server.value("vllm:generation_tokens_total"), before + 5)
        names = {name for name, _, _ in self.server.metrics()}
        for name in ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc", "vllm:prefix_cache_hits_total",
                     "vllm:prompt_tokens_total", "vllm:time_to_first_token_seconds_bucket", "vllm:inter_token_latency_seconds_sum",
                     "vllm:e2e_request_latency_seconds_count", "vllm:request_success_total", "vllm:admission_rejections_total"):
            self.assertIn(name, names)
        self.assertNotIn("ga:step_gap_seconds", names)  # needs --time-steps

    def test_metrics_are_there_with_the_answer(self):
        for i in range(200):
            before = self.server.value("vllm:generation_tokens_total") if i % 10 == 0 else before + 3
            self.complete(prompt=f"x{i}", max_tokens=3, ignore_eos=True)
            now = {name: value for name, _, value in self.server.metrics()}
            self.assertEqual((now["vllm:num_requests_running"], now["vllm:num_requests_waiting"], now["vllm:kv_cache_usage_perc"]), (0, 0, 0), i)
            self.assertEqual(now["vllm:generation_tokens_total"], before + 3)

    def test_histograms_of_vllm(self):
        names = ("iteration_tokens_total", "request_params_n", "request_max_num_generation_tokens")
        before = {n: (self.server.value(f"vllm:{n}_sum"), self.server.value(f"vllm:{n}_count")) for n in names}
        self.complete(prompt=[9, 8, 7, 6, 5, 4, 3], max_tokens=4, ignore_eos=True, n=3)
        self.complete(prompt=["a", "b"], max_tokens=2, ignore_eos=True)
        added = {n: (self.server.value(f"vllm:{n}_sum") - before[n][0], self.server.value(f"vllm:{n}_count") - before[n][1]) for n in names}
        self.assertEqual(added["request_params_n"], (3 + 1 + 1, 3))  # the prompts of a request count one by one
        self.assertEqual(added["request_max_num_generation_tokens"], (4 + 2 + 2, 3))
        self.assertGreaterEqual(added["iteration_tokens_total"][0], 7 + 3 * 3)
        self.assertGreater(added["iteration_tokens_total"][1], 4)
        bounds = [float(labels["le"]) for name, labels, _ in self.server.metrics() if name == "vllm:iteration_tokens_total_bucket"]
        self.assertEqual(bounds, [1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, float("inf")])


class TimedSteps(OneServer):
    OPTIONS = ("--time-steps",)

    def test_gaps(self):
        self.complete(max_tokens=5, ignore_eos=True)
        self.assertEqual(self.server.value("ga:step_gaps_total"), 4)
        gaps = {labels["quantile"]: value for name, labels, value in self.server.metrics() if name == "ga:step_gap_seconds"}
        self.assertEqual(set(gaps), {"0.5", "0.99"})
        self.assertTrue(0 < gaps["0.5"] <= gaps["0.99"])


class SwapSpace(OneServer):
    OPTIONS = ("--context", "256", "--kv-tokens", "256", "--max-sequences", "2", "--swap-space", "0.05", "--offload-prefixes")

    def test_prefixes_come_back(self):
        first = self.complete(prompt=[7] * 200, max_tokens=4, ignore_eos=True)
        for token in (8, 9):
            self.complete(prompt=[token] * 200, max_tokens=4, ignore_eos=True)
        self.assertGreater(self.server.value("vllm:kv_offload_store_bytes_total"), 0)
        self.assertEqual(self.server.value("vllm:kv_offload_load_bytes_total"), 0)
        self.assertGreater(self.server.value("vllm:kv_offload_cpu_cache_usage_perc"), 0)
        again = self.complete(prompt=[7] * 200, max_tokens=4, ignore_eos=True)
        self.assertEqual(again["choices"][0]["text"], first["choices"][0]["text"])
        self.assertEqual(again["usage"]["prompt_tokens_details"]["cached_tokens"], 199)
        self.assertGreater(self.server.value("vllm:kv_offload_load_bytes_total"), 0)
        self.assertEqual(self.server.value("vllm:num_requests_swapped"), 0)


class KeptPrompts(OneServer):
    OPTIONS = ("--context", "256", "--kv-tokens", "256", "--max-sequences", "2")

    def cached(self, token, **more):
        """Tokens found of a prompt of two pages."""
        said = self.complete(prompt=[token] * 100, **{"max_tokens": 1, "ignore_eos": True, **more})
        return said["usage"]["prompt_tokens_details"]["cached_tokens"]

    def test_keep(self):
        for ttl, found in ((None, 0), (60, 99)):
            for token, own in ((5, ttl), (6, None), (7, None), (8, None)):
                self.cached(token, cache_salt=str(ttl), cache_ttl=own)
            self.assertEqual(self.cached(5, cache_salt=str(ttl)), found)

    def test_release(self):
        self.assertEqual(self.cached(9), 0)
        self.assertEqual(self.cached(9, cache_ttl=0), 99)
        self.assertEqual(self.cached(9), 0)

    def test_bring_back(self):
        counts = ["vllm:request_queue_time_seconds_count", "vllm:request_inference_time_seconds_count"]
        before = [self.server.value(name) for name in counts]
        said = self.complete(prompt=[11] * 100, max_tokens=0)
        self.assertEqual([self.server.value(name) for name in counts], [n + 1 for n in before])
        self.assertEqual((said["choices"][0]["text"], said["choices"][0]["finish_reason"]), ("", "length"))
        self.assertEqual(said["usage"]["completion_tokens"], 0)
        self.assertEqual(self.cached(11), 99)
        chat = self.post("/v1/chat/completions", messages=[{"role": "user", "content": "a"}], max_tokens=0)
        self.assertEqual((chat["choices"][0]["message"]["content"] or "", chat["usage"]["completion_tokens"]), ("", 0))

    def test_refused(self):
        for ttl in (-1, 86401, "1h", True):
            self.refuse("/v1/completions", {"prompt": "a", "cache_ttl": ttl}, 400, "cache_ttl")


class Completions(OneServer):
    OPTIONS = ("--deterministic",)

    def test_shape(self):
        said = self.complete()
        self.assertEqual(said["object"], "text_completion")
        self.assertRegex(said["id"], r"^cmpl-[0-9a-f]{32}$")
        self.assertNotEqual(self.complete()["id"], said["id"])
        self.assertEqual(said["usage"]["prompt_tokens"] + said["usage"]["completion_tokens"], said["usage"]["total_tokens"])
        self.assertEqual(set(said["choices"][0]), {"index", "text", "logprobs", "finish_reason", "stop_reason"})

    def test_prompts(self):
        ids = self.post("/tokenize", prompt="hello")["tokens"]
        one = self.text()
        self.assertEqual(self.text(prompt=ids), one)
        several = self.complete(prompt=["hello", "world", "hello"], n=2)["choices"]
        self.assertEqual([c["index"] for c in several], list(range(6)))
        self.assertEqual([c["text"] for c in several][:2] + [c["text"] for c in several][4:], [one] * 4)
        self.assertEqual(self.complete(prompt=[ids, ids[:2]])["choices"][0]["text"], one)
        self.assertEqual(self.complete(prompt=[ids, ids[:2]])["usage"]["prompt_tokens"], len(ids) + 2)

    def test_same_as_ga_run(self):
        r = subprocess.run([GA, "run", "-m", self.model, "-p", "hello", "--no-template", "--json", "-n", "12", "-t", "1", "--deterministic",
                            "--ignore-eos"], capture_output=True, timeout=60)
        self.assertEqual(json.loads(r.stdout)["text"].strip(), self.text(ignore_eos=True).strip())

    def test_seeds(self):
        hot = {"temperature": 1.5, "max_tokens": 30}
        self.assertEqual(self.text(seed=7, **hot), self.text(seed=7, **hot))
        self.assertNotEqual(self.text(seed=7, **hot), self.text(seed=8, **hot))
        self.assertEqual(len({self.text(**hot) for _ in range(4)}), 4)
        self.assertEqual(len({c["text"] for c in self.complete(n=4, seed=1, **hot)["choices"]}), 4)

    def test_stops(self):
        forced = {"logit_bias": force("a")}
        self.assertEqual(self.text(**forced), "a" * 12)
        for stop in ("aaa", ["zz", "aaa"]):
            choice = self.complete(stop=stop, **forced)["choices"][0]
            self.assertEqual((choice["text"], choice["finish_reason"], choice["stop_reason"]), ("", "stop", "aaa"))
        self.assertEqual(self.text(stop="aaab", **forced), "a" * 12)  # what was held back comes at the end
        self.assertEqual(self.text(stop="aaa", min_tokens=5, include_stop_str_in_output=True, **forced), "a" * 7)
        choice = self.complete(stop_token_ids=[token("a")], **forced)["choices"][0]
        self.assertEqual((choice["text"], choice["finish_reason"], choice["stop_reason"]), ("", "stop", token("a")))
        eos = {"logit_bias": {str(serve_rig.EOS): 100}}
        said = self.complete(**eos)
        self.assertEqual((said["choices"][0]["text"], said["choices"][0]["finish_reason"], said["usage"]["completion_tokens"]), ("", "stop", 1))
        self.assertEqual(self.complete(ignore_eos=True, **eos)["usage"]["completion_tokens"], 12)
        self.assertIn("</s></s>", self.text(ignore_eos=True, skip_special_tokens=False, **eos))
        self.assertGreaterEqual(self.complete(min_tokens=4, **eos)["usage"]["completion_tokens"], 5)

    def test_echo_and_logprobs(self):
        # What lm-evaluation-harness asks for.
        for max_tokens in (0, 1):
            choice = self.complete(echo=True, logprobs=1, max_tokens=max_tokens, ignore_eos=True)["choices"][0]
            logprobs = choice["logprobs"]
            ids = self.post("/tokenize", prompt="hello")["tokens"]
            self.assertTrue(choice["text"].startswith("hello"))
            self.assertEqual({len(column) for column in logprobs.values()}, {len(ids) + max_tokens})
            self.assertIsNone(logprobs["token_logprobs"][0])
            for name, value, top in list(zip(logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"]))[1:]:
                self.assertLess(value, 0)
                self.assertEqual(top[name], value)
                self.assertLessEqual(max(top.values()), 0)
            self.assertEqual(logprobs["text_offset"], sorted(logprobs["text_offset"]))
        plain = self.complete(echo=True, max_tokens=3)["choices"][0]
        self.assertTrue(plain["text"].startswith("hello") and plain["logprobs"] is None)
        ids = self.complete(prompt=self.post("/tokenize", prompt="hello")["tokens"], echo=True, max_tokens=0)["choices"][0]
        self.assertEqual(ids["text"], "hello")
        five = self.complete(logprobs=5, max_tokens=3)["choices"][0]["logprobs"]
        self.assertTrue(all(5 <= len(top) <= 6 for top in five["top_logprobs"]))

    def test_prompt_logprobs(self):
        choice = self.complete(prompt_logprobs=2, max_tokens=1)["choices"][0]
        ids = self.post("/tokenize", prompt="hello")["tokens"]
        self.assertEqual(len(choice["prompt_logprobs"]), len(ids))
        self.assertIsNone(choice["prompt_logprobs"][0])
        for i, entry in zip(ids[1:], choice["prompt_logprobs"][1:]):
            self.assertIn(str(i), entry)
            self.assertEqual(set(entry[str(i)]), {"logprob", "rank", "decoded_token"})

    def test_streams(self):
        for extra in ({}, {"n": 3}, {"prompt": ["a", "b"], "n": 2}, {"echo": True, "logprobs": 2}, {"stop": ["ab"], "logit_bias": force("abc")},
                      {"temperature": 1, "seed": 3}, {"max_tokens": 100}, {"logit_bias": {str(serve_rig.EOS): 100}}):
            body = {**LONG, "prompt": "hello", **extra}
            whole = self.post("/v1/completions", **body)
            events = self.server.stream("/v1/completions", stream_options={"include_usage": True}, **body)
            usage = events.pop()
            self.assertEqual(usage["choices"], [])
            for key in ("prompt_tokens", "completion_tokens"):
                self.assertEqual(usage["usage"][key], whole["usage"][key], extra)
            for choice in whole["choices"]:
                mine = [e["choices"][0] for e in events if e["choices"][0]["index"] == choice["index"]]
                self.assertEqual("".join(c["text"] for c in mine), choice["text"], extra)
                self.assertEqual([c["finish_reason"] for c in mine], [None] * (len(mine) - 1) + [choice["finish_reason"]])
                if choice["logprobs"]:
                    for column in choice["logprobs"]:
                        self.assertEqual([v for c in mine for v in c["logprobs"][column]], choice["logprobs"][column])
            self.assertEqual({e["id"] for e in events}, {usage["id"]})
            self.assertTrue(all(e["usage"] is None and e["object"] == "text_completion" for e in events))
        self.assertTrue(all("usage" not in e for e in self.server.stream("/v1/completions", prompt="a", **LONG)))

    def test_many_at_once(self):
        # Deterministic: what else runs changes nothing.
        bodies = [{"prompt": "p" * (1 + i * 7 % 40), "max_tokens": 5 + i % 30, "seed": i, "temperature": i % 3 / 2, "ignore_eos": True} for i in range(40)]
        alone = [self.text(**b) for b in bodies]
        together = [None] * len(bodies)

        def ask(i):
            if i % 2:
                together[i] = self.text(**bodies[i])
            else:
                events = self.server.stream("/v1/completions", **bodies[i])
                together[i] = "".join(e["choices"][0]["text"] for e in events)

        threads = [threading.Thread(target=ask, args=[i]) for i in range(len(bodies))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(together, alone)

    def test_refused(self):
        for field, value in (("temperature", "x"), ("temperature", -1), ("top_p", 2), ("n", 0), ("n", 1000), ("max_tokens", -5),
                             ("stop", 5), ("stop", ["a"] * 17), ("logprobs", 6), ("logprobs", True), ("best_of", 3), ("suffix", "x"),
                             ("logit_bias", {"99999": 1}), ("stop_token_ids", [99999]), ("stream", "yes"), ("stream_options", {}), ("echo", 1),
                             ("presence_penalty", 3), ("min_p", 2), ("typical_p", -0.5), ("max_tokens", -2), ("repetition_penalty", 0), ("seed", 1.5), ("priority", 1 << 40), ("priority", -1),
                             ("prompt_logprobs", 21), ("cache_salt", 5), ("prompt", 5), ("prompt", []), ("prompt", [99999]), ("prompt", ["a", 5])):
            self.refuse("/v1/completions", {"prompt": "hello", field: value}, 400, field, says=field)
        self.refuse("/v1/completions", {"prompt": "a", "response_format": {"type": "json_object"}}, 422, "response_format")
        self.refuse("/v1/completions", {"prompt": "a", "suffix": "b"}, 400, "suffix", "no_fill_in_the_middle", says="no tokens for filling in the middle")
        self.complete(response_format={"type": "text"}, unknown=[{}], user="u", cache_salt="s", priority=1, best_of=1, suffix="")


class Gap(OneServer):
    """Filling in the middle, by control tokens in the places of bytes that are in no text."""
    NAMES = ("<gap begins>", "<fim_suffix>", "<fim_middle>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>")
    FIRST = serve_rig.FIRST_BYTE + 0xF8

    @classmethod
    def make_model(cls):
        return serve_rig.write_model(cls.folder.name, renamed={cls.FIRST + i: name for i, name in enumerate(cls.NAMES)},
                                     more={"tokenizer.ggml.fim_pre_token_id": ("u32", cls.FIRST)})

    def ids(self, text):
        return self.post("/tokenize", prompt=text, add_special_tokens=False)["tokens"]

    def test_suffix(self):
        prefix, suffix, middle = range(self.FIRST, self.FIRST + 3)
        for before, behind in (("def f(", ")\n"), ("", "x"), ("a\u00e9", " b")):
            ids = [1, prefix, *self.ids(before), suffix, *self.ids(behind), middle]
            want = self.complete(prompt=ids)
            got = self.complete(prompt=before, suffix=behind)
            self.assertEqual((got["choices"][0]["text"], got["usage"]["prompt_tokens"]), (want["choices"][0]["text"], len(ids)))
            if before:
                self.assertEqual(self.text(prompt=self.ids(before), suffix=behind), want["choices"][0]["text"])
            self.assertEqual(self.text(prompt=before, suffix=behind, add_special_tokens=False), self.text(prompt=ids[1:]))
        self.assertEqual(len(self.complete(prompt=["a", "b"], suffix="c", n=2)["choices"]), 4)
        self.assertNotEqual(self.text(prompt="a", suffix="b"), self.text(prompt="a"))
        self.assertEqual(self.text(prompt="a", suffix=""), self.text(prompt="a"))

    def test_end(self):
        """What pads, and what begins another file, ends what fills a gap; elsewhere it ends nothing."""
        for i in range(3, 6):
            only = {"logit_bias": {str(self.FIRST + i): 100}, "max_tokens": 3}
            choice = self.complete(prompt="a", suffix="b", **only)["choices"][0]
            self.assertEqual((choice["text"], choice["finish_reason"]), ("", "stop"))
            self.assertEqual(self.complete(prompt="a", **only)["choices"][0]["finish_reason"], "length")

    def test_refused(self):
        self.refuse("/v1/completions", {"prompt": "a", "suffix": "b", "echo": True}, 400, "echo", says="suffix")
        self.refuse("/v1/completions", {"prompt": "a", "suffix": ["b"]}, 400, "suffix", says="must be a string")
        self.refuse("/v1/completions", {"prompt": "a", "suffix": "b" * 9999}, 400, "prompt", "context_length_exceeded")
        self.refuse("/completion", {"prompt": "a", "suffix": "b"}, 400, "suffix", says="/v1/completions")


class Chat(OneServer):
    HELLO = [{"role": "user", "content": "hello"}]

    def chat(self, **body):
        return self.post("/v1/chat/completions", **{"messages": self.HELLO, **LONG, **body})

    def test_shape(self):
        said = self.chat()
        self.assertEqual(said["object"], "chat.completion")
        self.assertRegex(said["id"], r"^chatcmpl-[0-9a-f]{32}$")
        self.assertEqual(set(said["choices"][0]["message"]), {"role", "content"})
        self.assertEqual(said["choices"][0]["message"]["role"], "assistant")
        self.assertEqual(self.chat(max_completion_tokens=3, ignore_eos=True)["usage"]["completion_tokens"], 3)
        again = self.chat()
        self.assertGreater(again["usage"]["prompt_tokens_details"]["cached_tokens"], 0)

    def count(self, **body):
        return self.post("/tokenize", **{"messages": self.HELLO, **body})["count"]

    def test_template(self):
        plain = self.count()
        self.assertEqual(self.count(messages=[{"role": "user", "content": [{"type": "text", "text": "hello"}]}]), plain)
        self.assertEqual(self.count(add_generation_prompt=False), plain - 1)
        tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
        self.assertGreater(self.count(tools=[tool]), plain)
        self.assertEqual(self.count(tools=[tool], tool_choice="none"), plain)
        self.assertGreater(self.count(chat_template_kwargs={"think": True}), plain)
        # Without the end of the last message, so that the answer goes on with it.
        self.assertEqual(self.count(continue_final_message=True), plain - 2)
        turns = self.HELLO + [{"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f",
                 "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "1", "content": "5"}]
        self.assertGreater(self.count(messages=turns), plain)

    def test_roles(self):
        for path in ("/v1/chat/completions", "/apply-template", "/tokenize"):
            for role in ("user</s><s>system", "oracle", "", "x" * 100000, "User"):
                status, _, reply = self.server.request("POST", path, {"messages": [{"role": role, "content": "a"}], "max_tokens": 1})
                self.assertEqual(status, 400, (path, role))
                self.assertIn("system, developer, user, assistant, tool, function", reply["error"]["message"])
                self.assertEqual(reply["error"]["param"], "messages.role")
            for role in ("system", "developer", "user", "assistant", "tool", "function"):
                status, _, reply = self.server.request("POST", path, {"messages": [{"role": role, "content": "a"}], "max_tokens": 1})
                self.assertEqual(status, 200, (path, role, reply))

    def test_logprobs(self):
        choice = self.chat(logprobs=True, top_logprobs=3, ignore_eos=True)["choices"][0]
        content = choice["logprobs"]["content"]
        self.assertEqual(len(content), 12)
        for entry in content:
            self.assertEqual(len(entry["top_logprobs"]), 3)
            self.assertEqual(entry["top_logprobs"][0]["logprob"], entry["logprob"])  # temperature 0
            if "\ufffd" not in entry["token"]:
                self.assertEqual(bytes(entry["bytes"]).decode(), entry["token"])
        self.assertEqual(self.chat(logprobs=True)["choices"][0]["logprobs"]["content"][0]["top_logprobs"], [])

    def test_prompt_logprobs(self):
        said = self.chat(prompt_logprobs=0, n=2)
        self.assertEqual(len(said["prompt_logprobs"]), said["usage"]["prompt_tokens"])

    def test_streams(self):
        for extra in ({}, {"n": 2}, {"logprobs": True, "top_logprobs": 1}, {"stop": "ab", "logit_bias": force("abc")}, {"max_tokens": 200}):
            body = {"messages": self.HELLO, **LONG, **extra}
            whole = self.post("/v1/chat/completions", **body)
            events = self.server.stream("/v1/chat/completions", **body)
            self.assertEqual({e["object"] for e in events}, {"chat.completion.chunk"})
            for choice in whole["choices"]:
                mine = [e["choices"][0] for e in events if e["choices"][0]["index"] == choice["index"]]
                self.assertEqual(mine[0]["delta"], {"role": "assistant", "content": ""})
                self.assertEqual((mine[-1]["delta"], mine[-1]["finish_reason"]), ({}, choice["finish_reason"]))
                self.assertTrue(all(c["finish_reason"] is None for c in mine[:-1]))
                self.assertEqual("".join(c["delta"]["content"] for c in mine[:-1]), choice["message"]["content"])
                if choice["logprobs"]:
                    self.assertEqual([t for c in mine if c["logprobs"] for t in c["logprobs"]["content"]], choice["logprobs"]["content"])

    def test_refused(self):
        for field, value in (("messages", []), ("messages", "x"), ("messages", [{"role": "user"}]), ("messages", [{"content": "x"}]),
                             ("top_logprobs", 21), ("top_logprobs", 2), ("logprobs", 2), ("max_tokens", -2), ("tool_choice", "x"), ("tools", [5]),
                             ("chat_template_kwargs", 5)):
            self.refuse("/v1/chat/completions", {"messages": self.HELLO, field: value}, 400, field)
        image = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]
        self.refuse("/v1/chat/completions", {"messages": image}, 400, "messages", says="only text")
        self.refuse("/v1/chat/completions", {}, 400, "messages", says="missing")


class Tools(OneServer):
    """Whatever a model says: what is no call is content, and nothing is lost. tests/test_serve_text.c has calls."""
    TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"x": {"type": "string"}}}}}

    @classmethod
    def make_model(cls):
        return serve_rig.write_model(cls.folder.name, TEMPLATE + "{# <tool_call> <think> #}{% if think %}<think>\n{% endif %}")

    def test_content(self):
        ask = {"messages": [{"role": "user", "content": "hi"}], "temperature": 1, "seed": 5, "max_tokens": 300}
        plain = self.post("/v1/chat/completions", **ask)["choices"][0]
        events = self.server.stream("/v1/chat/completions", tools=[self.TOOL], tool_choice="auto", **ask)
        self.assertTrue(plain["message"]["content"])
        self.assertTrue("".join(e["choices"][0]["delta"].get("content", "") for e in events))
        forced = {**ask, "temperature": 0, "logit_bias": force("a"), "max_tokens": 9}
        for think, key in ((False, "content"), (True, "reasoning_content")):
            extra = {"chat_template_kwargs": {"think": think, "add_generation_prompt": True}, "tools": [self.TOOL]}
            self.assertEqual(self.post("/v1/chat/completions", **forced, **extra)["choices"][0]["message"][key], "a" * 9)
            events = self.server.stream("/v1/chat/completions", **forced, **extra)
            self.assertEqual("".join(e["choices"][0]["delta"].get(key, "") for e in events), "a" * 9)

    def test_tool_choice_names_a_tool(self):
        ask = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1, "tools": [self.TOOL]}
        self.post("/v1/chat/completions", **ask, tool_choice={"type": "function", "function": {"name": "f"}})
        for choice, says in (({"type": "function", "function": {"name": "g"}}, 'the function "g", which tools do not have'),
                             ({"type": "function", "function": {}}, "names a function"), ({"type": "function"}, "names a function"), ({}, "names a function")):
            for path in ("/v1/chat/completions", "/tokenize", "/apply-template"):
                self.refuse(path, {**ask, "tool_choice": choice}, 400, "tool_choice", says=says)

    def test_parsers_by_name(self):
        r = subprocess.run([GA, "serve", "-m", self.model, "--port", "0", "--tool-call-parser", "x"], capture_output=True, text=True, timeout=30)
        self.assertEqual(r.returncode, 1)
        self.assertIn("hermes", r.stderr)
        with Server(GA, self.model, "--tool-call-parser", "mistral", "--no-reasoning") as server:
            said = server.post("/v1/chat/completions", messages=[{"role": "user", "content": "hi"}], chat_template_kwargs={"think": True}, max_tokens=5,
                               logit_bias=force("a"), tools=[self.TOOL])
            self.assertEqual(said["choices"][0]["message"]["content"], "a" * 5)


class Embeddings(OneServer):
    @classmethod
    def make_model(cls):
        return serve_rig.write_encoder(cls.folder.name)

    def test_embeddings(self):
        one = self.post("/v1/embeddings", input="hello")
        vector = one["data"][0]["embedding"]
        self.assertEqual((one["object"], one["data"][0]["object"], one["usage"]["prompt_tokens"]), ("list", "embedding", 7))
        self.assertAlmostEqual(sum(v * v for v in vector), 1, 4)
        r = subprocess.run([GA, "embed", "-m", self.model, "-t", "1", "--json", "hello"], capture_output=True, timeout=60)
        for a, b in zip(json.loads(r.stdout)[0], vector):
            self.assertAlmostEqual(a, b, 5)
        coded = self.post("/v1/embeddings", input=["hello", "x"], encoding_format="base64", model="encoder")["data"]
        self.assertEqual([d["index"] for d in coded], [0, 1])
        for a, b in zip(serve_rig.floats_of(base64.b64decode(coded[0]["embedding"])), vector):
            self.assertAlmostEqual(a, b, 6)
        ids = self.post("/tokenize", prompt="hello")["tokens"]
        self.assertEqual(self.post("/v1/embeddings", input=[ids])["data"][0]["embedding"], vector)

    def test_native_embedding(self):
        vectors = [d["embedding"] for d in self.post("/v1/embeddings", input=["hello", "x"])["data"]]
        wanted = [{"index": i, "embedding": [v]} for i, v in enumerate(vectors)]
        self.assertEqual(self.post("/embedding", content="hello"), wanted[:1])
        self.assertEqual(self.post("/embeddings", content=["hello", "x"], embd_normalize=2), wanted)
        self.assertEqual(self.post("/embedding", input=[self.post("/tokenize", prompt="hello")["tokens"]]), wanted[:1])
        self.refuse("/embedding", {}, 400, "content")
        self.refuse("/embedding", {"content": "x", "embd_normalize": -1}, 400, "embd_normalize")

    def test_refused(self):
        self.refuse("/v1/embeddings", {}, 400, "input")
        self.refuse("/v1/embeddings", {"input": []}, 400, "input")
        self.refuse("/v1/embeddings", {"input": "x", "encoding_format": "int8"}, 400, "encoding_format")
        self.refuse("/v1/embeddings", {"input": "x", "dimensions": 5}, 400, "dimensions")
        self.refuse("/v1/embeddings", {"input": "x " * 500}, 400, "input", "context_length_exceeded")
        self.refuse("/v1/completions", {"prompt": "x"}, 400, "model", says="/v1/embeddings")


if __name__ == "__main__":
    unittest.main()
