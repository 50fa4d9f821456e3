#!/usr/bin/env python3
"""Options and commands of llama.cpp, Ollama and vLLM: those that mean the same are taken, the others are answered with the reason.
Usage: program_foreign.py GA"""
import os
import re
import subprocess
import sys
import tempfile
import unittest

GA = os.path.abspath(sys.argv.pop(1))
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Foreign(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = os.path.join(cls.folder.name, "d")  # -md must not be read as -m d
        subprocess.run([GA, "synth", "--shape", "tiny", cls.model + ".gguf"], check=True, capture_output=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def ga(self, *args, rc=0):
        r = subprocess.run([GA, *args], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
        self.assertEqual(r.returncode, rc, (args, r.stderr[-300:]))
        return r.stdout if rc == 0 else r.stderr

    def run_model(self, *args, rc=0):
        return self.ga("run", "-m", self.model + ".gguf", "--no-template", "-q", "-s", "1", "--temp", "0", *args, "a b", rc=rc)

    def test_same(self):
        """The answer is that of our own options."""
        self.assertEqual(self.run_model("-n", "5", "-c", "64"), self.run_model("--n-predict", "5", "--ctx-size", "64"))
        self.assertEqual(self.run_model("-n", "5", "-c", "64"), self.run_model("--predict=5", "--max-model-len=64"))
        self.assertEqual(self.run_model("-n5"), self.run_model("-n", "5"))
        for words in (("-ngl", "99"), ("--n-gpu-layers", "99"), ("--n-gpu-layers=all",), ("-fa",), ("-fa", "on"), ("--flash-attn", "auto"), ("--jinja",),
                      ("-st",), ("--no-warmup",), ("--temperature", "0"), ("-no-cnv",)):
            self.assertEqual(self.run_model("-n", "3", *words), self.run_model("-n", "3"), words)

    def test_values_are_checked(self):
        self.assertIn("--max-tokens 'x'", self.run_model("--n-predict", "x", rc=2))
        self.assertIn("gpu_layers is 7; must be 0 to", self.run_model("-ngl", "7", rc=1))
        self.assertIn("GA has no -fa off: attention is always computed in blocks", self.run_model("-fa", "off", rc=2))
        self.assertIn("--ctx-size needs a value", self.ga("run", "--ctx-size", rc=2))

    def test_none(self):
        for words, reason in ((("-md", "F"), "speculative decoding"), (("--grammar", "x"), "not there yet"), (("-ts", "1,1"), "--device cuda:0,cuda:1"),
                              (("--mmproj", "F"), "images"), (("-ctk", "q8_0"), "--kv-type"), (("--lora=F",), "merge the adapter")):
            text = self.run_model(*words, rc=2)
            self.assertIn(reason, text)
            self.assertIn("docs/guide/coming-from.md", text)
        self.assertIn("-np in this command", self.ga("tokenize", "-np", "4", rc=2))

    def test_hub(self):
        os.environ["HF_ENDPOINT"] = "http://127.0.0.1:9"  # where nothing listens
        self.assertIn("models/nobody/nothing", self.ga("run", "-hf", "nobody/nothing", "a", rc=1))

    def test_server(self):
        for words in (("-np", "4"), ("--parallel", "4"), ("--max-num-seqs=4",), ("-ngl", "99"), ("--metrics",), ("-cb",), ("-a", "x"), ("--max-model-len", "64")):
            self.assertIn("usage: ga serve", self.ga("serve", *words, "--help"), words)
        self.assertIn("GA has no -ngl 7: as many layers as fit", self.ga("serve", "-ngl", "7", rc=2))

    def test_commands(self):
        for name, reason in (("signin", "uploads nothing"), ("push", "uploads nothing"), ("cp", "plain files")):
            self.assertIn(f"GA has no command '{name}': ", self.ga(name, "x", rc=2))
            self.assertIn(reason, self.ga(name, "x", rc=2))

    def test_names_stand_in_the_guide(self):
        """What the table refuses is named in docs/guide/coming-from.md, under its own or its short name, or is of vLLM."""
        with open(os.path.join(ROOT, "cmdline", "foreign.c"), encoding="utf-8") as f:
            names = re.findall(r'^    (?:SAME|ALWAYS|NONE)\("(-[^"]*)"|^    \{"(-[^"]*)"', f.read(), re.M)
        with open(os.path.join(ROOT, "docs", "guide", "coming-from.md"), encoding="utf-8") as f:
            guide = f.read()
        short = [a or b for a, b in names if not (a or b).startswith("--")]
        self.assertGreater(len(short), 30)
        for name in short:
            self.assertRegex(guide, rf"[`, ]{re.escape(name)}[`, ]", name)


if __name__ == "__main__":
    unittest.main()
