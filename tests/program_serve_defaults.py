#!/usr/bin/env python3
"""Sampling where a request says nothing: the model's own values, else those of `ga run`. Usage: program_serve_defaults.py GA"""
import os
import sys
import tempfile
import unittest

import serve_rig
from serve_rig import Server

GA = os.path.abspath(sys.argv.pop(1))
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}{{ eos_token }}{% endfor %}"
HELLO = [{"role": "user", "content": "hello"}]
OWN = {"temp": ("f32", 0.5), "top_k": ("i32", 7), "top_p": ("f32", 0.75), "min_p": ("f32", 0.125), "penalty_repeat": ("f32", 1.25)}
OWN_FIELDS = {"temperature": 0.5, "top_k": 7, "top_p": 0.75, "min_p": 0.125, "repetition_penalty": 1.25}
RUN_FIELDS = {"temperature": 0.7, "top_k": 40, "top_p": 0.9, "min_p": 0, "repetition_penalty": 1.1}
NATIVE_FIELDS = {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05}


class Defaults(unittest.TestCase):
    MORE, FIELDS, NATIVE = {}, RUN_FIELDS, NATIVE_FIELDS

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="ga defaults ")
        cls.model = serve_rig.write_model(cls.folder.name, TEMPLATE, more=cls.MORE)
        cls.server = Server(GA, cls.model, "--context", "512", "--deterministic")

    @classmethod
    def tearDownClass(cls):
        rc, said = cls.server.end()
        cls.folder.cleanup()
        assert rc == 0, (rc, said)

    def texts(self, **body):
        """What each interface answers to the same request: all have 24 tokens, fewer than the 64 over which a default penalty counts."""
        body = {"seed": 11, "ignore_eos": True, **body}
        post = self.server.post
        responses = post("/v1/responses", input="hello", max_output_tokens=24, **body)["output"]
        return {"completion": post("/v1/completions", prompt="hello", max_tokens=24, **body)["choices"][0]["text"],
                "chat": post("/v1/chat/completions", messages=HELLO, max_tokens=24, **body)["choices"][0]["message"]["content"],
                "message": "".join(b["text"] for b in post("/v1/messages", messages=HELLO, max_tokens=24, **body)["content"]),
                "response": "".join(p["text"] for item in responses for p in item["content"])}

    def test_as_if_asked_for(self):
        plain = self.texts()
        self.assertEqual(plain, self.texts(**self.FIELDS))
        self.assertEqual(plain["chat"], plain["response"])
        openai = {"temperature": 1, "top_p": 1, "top_k": 0, "min_p": 0, "repetition_penalty": 1}
        self.assertNotEqual(plain, self.texts(**openai))

    def test_each_field_overrides_itself(self):
        for name, value in (("temperature", 1.5), ("top_k", 2), ("top_p", 0.3), ("min_p", 0.5), ("repetition_penalty", 1.9)):
            self.assertEqual(self.texts(**{name: value}), self.texts(**{**self.FIELDS, name: value}), name)

    def test_greedy_has_no_penalty(self):
        self.assertEqual(self.texts(temperature=0), self.texts(temperature=0, repetition_penalty=1))

    def test_ollama(self):
        options = {"seed": 11, "num_predict": 24}
        names = {"repetition_penalty": "repeat_penalty"}
        asked = {names.get(k, k): v for k, v in self.FIELDS.items()}
        texts = [self.server.post("/api/chat", messages=HELLO, stream=False, options={**options, **more})["message"]["content"] for more in ({}, asked)]
        self.assertEqual(texts[0], texts[1])
        said = dict(line.split() for line in self.server.post("/api/show", model="tiny")["parameters"].split("\n"))
        for name, value in asked.items():
            self.assertAlmostEqual(float(said[name]), value, 5)

    def test_native(self):
        body = {"prompt": "hello", "n_predict": 24, "seed": 11, "ignore_eos": True}
        settings = self.server.post("/completion", **body)["generation_settings"]
        for told in (settings, self.server.request("GET", "/props")[2]["default_generation_settings"]["params"]):
            for name, value in self.NATIVE.items():
                self.assertAlmostEqual(told["repeat_penalty" if name == "repetition_penalty" else name], value, 5)
        self.assertEqual(self.server.post("/completion", **body, temperature=1.5)["generation_settings"]["temperature"], 1.5)

    def test_list(self):
        """The list of models tells the values, and what the model can do."""
        model = self.server.request("GET", "/v1/models")[2]["data"][0]
        self.assertEqual(model["capabilities"], ["completion", "chat"])
        self.assertEqual(set(model["default_sampling"]), set(self.FIELDS))
        for name, value in self.FIELDS.items():
            self.assertAlmostEqual(model["default_sampling"][name], value, 5)

    def test_penalties_that_look_back_on_nothing(self):
        """repeat_last_n 0 turns penalties off, those of the model, too."""
        said = self.server.post("/completion", prompt="hello", n_predict=1, repeat_last_n=0)["generation_settings"]
        self.assertEqual((said["repeat_penalty"], said["presence_penalty"]), (1, 0))

    def test_told(self):
        """A response says by which values it was drawn."""
        said = self.server.post("/v1/responses", input="hello", max_output_tokens=1)
        self.assertAlmostEqual(said["temperature"], self.FIELDS["temperature"], 5)
        self.assertAlmostEqual(said["top_p"], self.FIELDS["top_p"], 5)


class Own(Defaults):
    MORE, FIELDS, NATIVE = {"general.sampling." + k: v for k, v in OWN.items()}, OWN_FIELDS, OWN_FIELDS


class Some(Defaults):
    """What a model's files do not say is off."""
    MORE = {"general.sampling.top_k": ("i32", 3)}
    FIELDS = NATIVE = {"temperature": 1, "top_k": 3, "top_p": 1, "min_p": 0, "repetition_penalty": 1}


if __name__ == "__main__":
    unittest.main()
