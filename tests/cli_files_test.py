#!/usr/bin/env python3
"""Man pages and completions: every command and option is in them, shells and groff accept them, bash completes by them.
Usage: cli_files_test.py GA SOURCE"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

GA, SOURCE = (os.path.abspath(a) for a in (sys.argv.pop(1), sys.argv.pop(1)))


class Files(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="ga cli ")
        cls.dir = cls.folder.name
        subprocess.run([sys.executable, os.path.join(SOURCE, "tools", "gen_cli_files.py"), GA, cls.dir], check=True)
        cls.commands = re.findall(r"^  (\w+) ", subprocess.run([GA, "--help"], capture_output=True, text=True, check=True).stdout, re.M)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def read(self, *name):
        with open(os.path.join(self.dir, *name)) as f:
            return f.read()

    def complete(self, *words):
        script = f"""PATH={os.path.dirname(GA)!r}:$PATH; source "$1"; shift
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _ga; printf '%s\\n' "${{COMPREPLY[@]}}" """
        out = subprocess.run(["bash", "-c", script, "bash", os.path.join(self.dir, "ga.bash"), "ga", *words], capture_output=True, text=True, check=True,
                             cwd=self.dir, env={**os.environ, "GA_MODELS": os.path.join(self.dir, "models")})
        self.assertEqual(out.stderr, "")
        return out.stdout.split()

    def test_all_is_there(self):
        self.assertGreater(len(self.commands), 15)
        for command in self.commands:
            text = subprocess.run([GA, command, "--help"], capture_output=True, text=True, check=True).stdout
            options = re.findall(r"^  (?:-\w, |    )--([\w-]+)", text, re.M)
            self.assertGreater(len(options), 0)
            page = self.read("man", f"ga-{command}.1")
            for name in options:
                self.assertIn("\\fB" + f"--{name}".replace("-", "\\-") + "\\fR", page)
                self.assertIn("--" + name, self.complete(command, "--"))
                self.assertIn(f"from {command}' ", self.read("ga.fish"))
                self.assertIn(f" -l {name} ", self.read("ga.fish"))
                self.assertIn(f"'--{name}[", self.read("_ga"))

    def test_verbs(self):
        """Each verb of ga dist: its options on the man page and behind its name, and no others."""
        verbs = re.findall(r"^  ([a-z]+) ", subprocess.run([GA, "dist", "--help"], capture_output=True, text=True, check=True).stdout, re.M)
        self.assertIn("plan", verbs)
        self.assertEqual(self.complete("dist", "pl"), ["plan"])
        sections = dict(re.findall(r"^\.SS (\w+)\n(.*?)(?=^\.S[SH] )", self.read("man", "ga-dist.1"), re.M | re.S))
        self.assertEqual(list(sections), verbs)
        for verb in verbs:
            text = subprocess.run([GA, "dist", verb, "--help"], capture_output=True, text=True, check=True).stdout
            options = re.findall(r"^  (?:-\w, |    )--([\w-]+)", text, re.M)
            self.assertEqual(re.findall(r"\\fB\\-\\-([\w\\-]+?)\\fR", sections[verb]), [o.replace("-", "\\-") for o in options])
            self.assertEqual(self.complete("dist", verb, "--"), ["--" + o for o in options])
            for name in options:
                self.assertIn(f" -l {name} ", self.read("ga.fish"))
                self.assertIn(f"'--{name}[", self.read("_ga"))

    def test_bash(self):
        self.assertEqual(self.complete("ru"), ["run"])
        self.assertEqual(self.complete("help", "per"), ["perplexity"])
        self.assertEqual(self.complete("run", "--temp"), ["--temp"])
        self.assertEqual(self.complete("run", "--kv-type", "q"), ["q8_0", "q4_0"])
        os.makedirs(os.path.join(self.dir, "models"), exist_ok=True)
        with open(os.path.join(self.dir, "models", "SmolLM2-135M-Instruct.Q4_1.gguf"), "wb") as f:
            f.write(b"GGUF")
        self.assertEqual(self.complete("run", "-m", "smol"), ["smollm2-135m"])
        self.assertEqual(self.complete("rm", "smol"), ["smollm2-135m"])

    def test_bash_offers_whole_models(self):
        """Not the part of `ga list` that tells of other downloads, with models or without."""
        models = os.path.join(self.dir, "models")
        part = os.path.join(models, "half.gguf.part")
        os.makedirs(models, exist_ok=True)
        for path, text in ((part, "GGUF"), (part + ".from", '{"url_sha256": "", "validator": "", "size": 9, "source": ""}')):
            with open(path, "w") as f:
                f.write(text)
            self.addCleanup(os.remove, path)
        listed = subprocess.run([GA, "list"], capture_output=True, text=True, env={**os.environ, "GA_MODELS": models}).stdout
        self.assertIn("half.gguf", listed)
        whole = os.path.join(models, "whole.gguf")
        with open(whole, "wb") as f:
            f.write(b"GGUF")
        for word in ("half", "NOT", "`ga"):
            self.assertEqual(self.complete("run", "-m", word), [])
        self.assertEqual(self.complete("run", "-m", "who"), ["whole.gguf"])
        os.remove(whole)
        self.assertNotIn("half.gguf", self.complete("run", "-m", ""))
        self.assertNotIn("NOT", self.complete("run", "-m", ""))

    def test_bash_expands_no_names(self):
        """The name of a model holds a command: Tab offers it and runs nothing."""
        name = "evil$(touch${IFS}pwned)`touch pwned`.gguf"
        os.makedirs(os.path.join(self.dir, "models"), exist_ok=True)
        with open(os.path.join(self.dir, "models", name), "wb") as f:
            f.write(b"GGUF")
        self.addCleanup(os.remove, f.name)
        for words in (["run", "-m", "evil"], ["rm", "evil"], ["run", "-m", "other"], ["show", ""]):
            offered = " ".join(self.complete(*words))
            self.assertEqual(name in offered, words[-1] != "other", words)
            self.assertNotIn("pwned", os.listdir(self.dir), words)

    def test_shells_accept_them(self):
        for shell, name in (("bash", "ga.bash"), ("zsh", "_ga"), ("fish", "ga.fish")):
            if shutil.which(shell):
                r = subprocess.run([shell, "-n", os.path.join(self.dir, name)], capture_output=True, text=True)
                self.assertEqual((r.returncode, r.stderr), (0, ""), shell)

    @unittest.skipUnless(shutil.which("fish"), "no fish here")
    def test_fish(self):
        r = subprocess.run(["fish", "--no-config", "-c", f"source '{self.dir}/ga.fish'; complete -C 'ga run --kv-type q'; complete -C 'ga perpl'"],
                           capture_output=True, text=True, check=True, env={**os.environ, "HOME": self.dir})
        self.assertEqual([line.split("\t")[0] for line in r.stdout.splitlines()], ["q4_0", "q8_0", "perplexity"])

    @unittest.skipUnless(shutil.which("groff"), "no groff here")
    def test_man_pages(self):
        for name in sorted(os.listdir(os.path.join(self.dir, "man"))):
            r = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", os.path.join(self.dir, "man", name)], capture_output=True, text=True)
            self.assertEqual((r.returncode, r.stderr), (0, ""), name)


if __name__ == "__main__":
    unittest.main()
