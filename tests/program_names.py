#!/usr/bin/env python3
"""Former names of commands, options and variables go on working, and one line on stderr tells the present name.
Usage: program_names.py GA"""
import os
import subprocess
import sys
import tempfile
import unittest

GA = os.path.abspath(sys.argv.pop(1))


class Names(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="ga names ")
        cls.model = os.path.join(cls.folder.name, "tiny.gguf")
        cls.ga("synth", "--shape", "tiny", "--layers", "1", cls.model)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @staticmethod
    def ga(*args, rc=0, **variables):
        env = {k: v for k, v in os.environ.items() if not k.startswith("GA_")} | variables
        p = subprocess.run([GA, *args], capture_output=True, text=True, env=env)
        assert p.returncode == rc, f"{args}: {p.returncode}: {p.stderr}"
        return p.stdout, p.stderr.splitlines()

    def run_model(self, *options, **variables):
        return self.ga("run", "-m", self.model, "-q", "--temp", "0", "--ignore-eos", *options, "x", **variables)

    def test_options(self):
        want, said = self.run_model("--no-template", "--max-tokens", "4")
        self.assertEqual(said, [])
        for options, lines in (
            (("--raw", "--max-tokens=4"), ["ga run: --raw is now --no-template"]),
            (("--no-template", "--tokens", "4"), ["ga run: --tokens is now --max-tokens"]),
            (("--no-template", "--tokens=4"), ["ga run: --tokens is now --max-tokens"]),
            (("--no-template", "-n4"), []),
        ):
            self.assertEqual(self.run_model(*options), (want, lines), options)

    def test_options_elsewhere(self):
        _, said = self.ga("info", "--raw", rc=2)  # no former name of an option of this command
        self.assertIn("unknown option '--raw'", said[0])
        _, said = self.ga("run", "--raw=1", rc=2)
        self.assertEqual(said[:2], ["ga run: --raw is now --no-template", "ga run: --no-template takes no value"])

    def test_command(self):
        a, b = (os.path.join(self.folder.name, name) for name in ("a.gguf", "b.gguf"))
        self.assertEqual(self.ga("make", "--shape", "tiny", a)[1], ["ga: make is now synth"])
        self.assertEqual(self.ga("synth", "--shape", "tiny", b)[1], [])
        with open(a, "rb") as x, open(b, "rb") as y:
            self.assertEqual(x.read(), y.read())

    def test_variable(self):
        options = "--no-template", "-n", "2", "--device", "cpu"
        for name, lines in (("GA_DISABLE_KERNELS", []), ("GA_HIDE", ["ga: GA_HIDE is now GA_DISABLE_KERNELS"])):
            self.assertEqual(self.run_model(*options, **{name: "none*"})[1], lines)
        p = subprocess.run([GA, "run", "-m", self.model, *options, "x"], capture_output=True, text=True,
                           env=os.environ | {"GA_DISABLE_KERNELS": "embed*"})
        self.assertEqual(p.returncode, 1)
        self.assertIn("embed", p.stderr)

    def test_help_names_the_present_ones(self):
        for command, names in (("run", ("--max-tokens", "--no-template")), ("chat", ("--max-tokens",))):
            out, _ = self.ga(command, "--help")
            for name in names:
                self.assertIn(name, out)
            self.assertNotIn("--tokens", out)
            self.assertNotIn("--raw", out)
        self.assertNotIn("  make ", self.ga("--help")[0])


if __name__ == "__main__":
    unittest.main()
