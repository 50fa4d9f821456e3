#!/usr/bin/env python3
"""Small things of the program, each seen to be wrong once: streams that share a file, cut answers, words after options, lines too long, standard
input, exit codes of wrong values, help, devices, logprobs. Usage: program_small.py GA"""
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest

import chat_rig
import serve_rig
import tiny_gguf

GA = os.path.abspath(sys.argv.pop(1))
WORDS = ["One", " two", " three", " four", "."]


class Small(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="ga small ")
        cls.words = cls.put("words.gguf", chat_rig.script(WORDS))
        cls.loop = cls.put("loop.gguf", chat_rig.script(WORDS, loop=True))
        cls.tiny = cls.put("tiny.gguf", tiny_gguf.build())

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def put(cls, name, raw):
        path = os.path.join(cls.folder.name, name)
        with open(path, "wb") as f:
            f.write(raw)
        return path

    def ga(self, *args, code=0, text="", **kw):
        r = subprocess.run([GA, *args], input=text, capture_output=True, text=True, errors="replace", timeout=60, **kw)
        self.assertEqual(r.returncode, code, (args, r.stdout[-300:], r.stderr[-300:]))
        return r.stdout, r.stderr

    # --- ga run ---

    def test_one_file_for_both_streams(self):
        """ga run ... > log 2>&1: the statistics are on a line of their own, behind the answer."""
        path = os.path.join(self.folder.name, "log")
        with open(path, "w") as f:
            subprocess.run([GA, "run", "-m", self.words, "x"], stdin=subprocess.DEVNULL, stdout=f, stderr=f, check=True)
        with open(path) as f:
            lines = f.read().split("\n")
        self.assertEqual(lines[0], "".join(WORDS))
        self.assertTrue(lines[1].startswith("prompt "), lines)

    def test_base_model(self):
        """A model that continues the prompt instead of answering it says so."""
        base = serve_rig.write_model(tempfile.mkdtemp(dir=self.folder.name), "")
        note = "(no chat template: the model continues the prompt; --chat-template NAME makes it answer)"
        for model, options, expected in ((base, [], True), (base, ["--no-template"], False), (base, ["-q"], False), (base, ["--json"], False),
                                         (base, ["--chat-template", "plain"], False), (self.words, [], False)):
            said = self.ga("run", "-m", model, "-n", "1", *options, "x")[1]
            self.assertEqual(note in said, expected, options)
            if expected:
                self.assertEqual(said.splitlines()[0], note)  # before the answer

    def test_cut_answers(self):
        out, said = self.ga("run", "-m", self.words, "-n", "2", "x")
        self.assertEqual(out, "One two\n")
        self.assertIn("(cut after 2 tokens; -n N allows more", said)
        self.assertIn("(cut after 1 token; -n N allows more", self.ga("run", "-m", self.words, "-n", "1", "x")[1])
        self.assertEqual(self.ga("run", "-m", self.words, "-n", "2", "-q", "x")[1], "")
        out, said = self.ga("run", "-m", self.words, "-n", "-1", "x")
        self.assertEqual(out, "".join(WORDS) + "\n")
        self.assertNotIn("cut", said)
        out, said = self.ga("run", "-m", self.loop, "-n", "-1", "-c", "1000", "x")
        self.assertGreater(len(out), 3000)
        self.assertIn("the context is full", said)
        for n in ("0", "-2"):
            self.assertIn(f"'{n}'", self.ga("run", "-m", self.words, "-n", n, "x", code=2)[1])

    def test_words_are_one_prompt(self):
        one = json.loads(self.ga("run", "-m", self.words, "--json", "hi there you")[0])
        self.assertEqual(json.loads(self.ga("run", "-m", self.words, "--json", "hi", "there", "you")[0])["prompt_tokens"], one["prompt_tokens"])
        self.assertIn("twice", self.ga("run", "-m", self.words, "-p", "a", "b", "c", code=2)[1])

    def test_stop(self):
        out, said = self.ga("run", "-m", self.words, "--stop", " three", "--stop", "zzz", "x")
        self.assertEqual(out, "One two\n")
        self.assertNotIn("cut", said)
        report = json.loads(self.ga("run", "-m", self.words, "--stop", "hree", "--json", "x")[0])
        self.assertEqual((report["text"], report["finish"]), ("One two t", "stop"))
        self.assertIn("is empty", self.ga("run", "--stop", "", "x", code=2)[1])
        self.assertIn("at most 16", self.ga("run", *["--stop=x"] * 17, "x", code=2)[1])

    def test_logprobs(self):
        report = json.loads(self.ga("run", "-m", self.tiny, "--json", "--logprobs", "3", "-n", "40", "--temp", "0", "--ignore-eos", "x")[0])
        self.assertEqual(report["finish"], "length")
        self.assertEqual(len(report["logprobs"]), 40)
        for t in report["logprobs"]:
            self.assertEqual((t["top"][0]["id"], t["top"][0]["logprob"]), (t["id"], t["logprob"]))  # the likeliest was taken
            values = [x["logprob"] for x in t["top"]]
            self.assertEqual(values, sorted(values, reverse=True))
            self.assertEqual(len({x["id"] for x in t["top"]}), 3)
            self.assertLess(sum(map(math.exp, values)), 1)
        report = json.loads(self.ga("run", "-m", self.words, "--json", "--logprobs", "0", "x")[0])
        self.assertEqual([t["text"].replace("\u2581", " ") for t in report["logprobs"]], WORDS)
        self.assertNotIn("top", report["logprobs"][0])
        self.assertGreater(report["logprobs"][0]["logprob"], -0.01)
        self.assertNotIn("logprobs", json.loads(self.ga("run", "-m", self.words, "--json", "x")[0]))
        self.ga("run", "--json", "--logprobs", "21", "x", code=2)
        self.ga("run", "--logprobs", "2", "x", code=2)

    # --- other commands ---

    def test_lines_too_long(self):
        encoder = serve_rig.write_encoder(self.folder.name)
        with open(os.path.join(encoder, "config.json")) as f:
            most = json.load(f)["max_position_embeddings"]
        text = "abc\n" + "a b " * most + "\nxyz\n"
        out, said = self.ga("embed", "-m", encoder, text=text, code=1)
        lines = out.split("\n")
        self.assertEqual([bool(line) for line in lines], [True, False, True, False])
        self.assertIn("ga embed: line 2: ", said)
        self.assertIn("1 of 3 lines failed; --truncate", said)
        out, _ = self.ga("embed", "-m", encoder, "--json", text=text, code=1)
        self.assertIsNone(json.loads(out)[1])
        cut, said = self.ga("embed", "-m", encoder, "--truncate", text=text)
        self.assertEqual([bool(line) for line in cut.split("\n")], [True, True, True, False])
        self.assertEqual(cut.split("\n")[0], lines[0])
        exact, _ = self.ga("embed", "-m", encoder, ("a b " * most)[: 2 * (most - 2)])  # [CLS] and [SEP] take two places
        self.assertEqual(cut.split("\n")[1], exact.strip("\n"))

    def test_perplexity_of_standard_input(self):
        text = "some text " * 40
        path = self.put("text", text.encode())
        for args in ((), ("-f", "-"), ("-",)):
            self.assertEqual(self.ga("perplexity", "-m", self.tiny, "-w", "64", *args, text=text)[0], self.ga("perplexity", "-m", self.tiny, "-w", "64", path)[0])
        self.assertIn("(1 window of 64,", self.ga("perplexity", "-m", self.tiny, "-w", "64", "--limit", "1", path)[0])

    def test_wrong_values(self):
        for command in (["run", "x"], ["chat"], ["embed", "x"], ["perplexity", "x"], ["imatrix", "-f", "x", "-o", "y"], ["info"], ["serve"], ["batch", "-o", "x", "x"], ["bench"]):
            for option, value in (("--device", "abacus"), ("--device", "cpu:x"), ("--device", "cpu,")):
                _, said = self.ga(*command, option, value, code=2)
                self.assertIn(f"--device '{value}' is not known; allowed: auto, ", said)
            for model in ("hf:", "hf:org", "hf:../x", "hf:org/x:"):
                if command[0] not in ("bench",):
                    self.assertIn(f"{model}: must be hf:ORGANISATION/REPOSITORY", self.ga(*command, "-m", model, code=2)[1])
            if command[0] not in ("embed", "imatrix"):
                self.assertIn("--kv-type 'i8'", self.ga(*command, "--kv-type", "i8", code=2)[1])
        for command in (["batch", "-o", "-", "x"], ["imatrix", "-f", "x", "-o", "-"], ["quantize", "x", "-", "q8_0"], ["convert", "x", "-"], ["synth", "-"]):
            self.assertIn("the output is '-', but it must be a file", self.ga(*command, cwd=self.folder.name, code=2)[1])
            self.assertFalse(os.path.exists(os.path.join(self.folder.name, "-")), command)
        for command in (["serve"], ["batch", "-o", "x", "x"]):
            self.assertIn("needs --swap-space", self.ga(*command, "--offload-prefixes", code=2)[1])
            both = ("--offload-prefixes", "--swap-space", "1", "--no-prefix-cache")
            self.assertIn("nothing to keep with --no-prefix-cache", self.ga(*command, *both, code=2)[1])
        for args in (["--shape", "nope"], ["--type", "nope"], ["--head-dim", "3"]):
            self.ga("synth", *args, os.path.join(self.folder.name, "never"), code=2)

    def test_help(self):
        for name in ("run", "chat", "list", "bench"):
            self.assertEqual(self.ga("help", name), self.ga(name, "--help"))
        self.assertEqual(self.ga("help"), self.ga("--help"))
        self.assertIn("'nope' is no command", self.ga("help", "nope", code=2)[1])
        for wrong, right in (("lsit", "list"), ("ls", "list"), ("quantise", "quantize"), ("shwo", "show"), ("serv", "serve")):
            for args in ((wrong,), ("help", wrong)):  # short, so that it is not pushed off the screen
                self.assertEqual(self.ga(*args, code=2), ("", f"ga: '{wrong}' is no command; do you mean {right}?\nsee: ga --help\n"))
        for wrong in ("nope", "x", "", "zz", "y" * 300):
            self.assertEqual(self.ga(wrong, code=2)[1], f"ga: '{wrong}' is no command\nsee: ga --help\n")
        self.assertNotIn("\x1b", self.ga("a\x1b[2J", code=2)[1])
        self.assertEqual(self.ga("-V"), self.ga("--version"))
        self.assertIn("ga bench --compare FILE FILE", self.ga("help", "bench")[0])

    def test_info_of_a_device(self):
        out, _ = self.ga("info", "-d", "cpu")
        self.assertEqual([line.split()[0] for line in out.splitlines()[1:]], ["cpu"])
        self.assertEqual([d["name"] for d in json.loads(self.ga("info", "-d", "ref", "--json")[0])["devices"]], ["ref"])
        self.assertIn("cuda:77", self.ga("info", "-d", "cuda:77", code=1)[0])
        self.assertIn("one device", self.ga("info", "-d", "cpu,ref", code=2)[1])


if __name__ == "__main__":
    unittest.main()
