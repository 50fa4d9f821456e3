#!/usr/bin/env python3
"""ga dist simulate against measured runs of H100 and H200, and its files of rates. Usage: program_dist_predict.py GA"""
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

GA = os.path.abspath(sys.argv.pop(1))
SOURCE = Path(__file__).resolve().parents[1] / "bench" / "dist_errors.py"

# Median and largest error of each set, as docs/results/distributed.md has them, rounded up: rows, median, largest.
WANTED = {
    "gathered, fitted": (8, 0.04, 0.08), "gathered, held out": (14, 0.03, 0.08), "backward, any order, held out": (10, 0.03, 0.07),
    "backward, fixed order, fitted": (2, 0.035, 0.04), "backward, fixed order, held out": (3, 0.07, 0.13), "forward, one device falls": (2, 0.21, 0.22),
    "gathered, of November 28": (14, 0.03, 0.13), "gathered backward, any order, of November 28": (14, 0.03, 0.18),
    "gathered backward, fixed order, of November 28": (6, 0.23, 0.32), "Ulysses, of November 28": (14, 0.02, 0.09),
    "Ulysses backward, any order, of November 28": (14, 0.045, 0.1), "Ulysses backward, fixed order, of November 28": (6, 0.095, 0.19),
}
WITH_RATES = {"forward, one device falls": (1, 0.11, 0.11)}


def load():
    spec = importlib.util.spec_from_file_location("dist_errors", SOURCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Predict(unittest.TestCase):
    def ga(self, *args, rc=0):
        p = subprocess.run([GA, "dist", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={"PATH": os.environ["PATH"]})
        self.assertEqual(p.returncode, rc, p.stderr)
        return p.stdout if rc == 0 else p.stderr

    def simulate(self, *args):
        return json.loads(self.ga("simulate", "--json", *args))

    def check(self, found, wanted):
        for name, (rows, median, most) in wanted.items():
            off = [abs(x - 1) for x, _ in found[name]]
            self.assertEqual(len(off), rows, name)
            self.assertLessEqual(statistics.median(off), median, name)
            self.assertLessEqual(max(off), most, name)

    def test_measured(self):
        found = load().errors(GA)
        self.assertEqual(set(found), set(WANTED))
        self.check(found, WANTED)

    def test_measured_by_rates(self):
        self.check(load().errors(GA, curve=True), WITH_RATES)

    def test_gpu_defaults(self):
        """What --device cuda:0 stands for, and that any figure named alone makes it a machine of GPUs, too."""
        size = ("-n", "2", "-m", "zigzag", "--tokens", "16384", "--heads", "8", "--kv-heads", "8", "--head-dim", "128", "--type", "bf16")
        one = self.simulate(*size, "--device", "cuda:0")
        named = ("--latency", "8", "--launch", "15", "--merged-tflops", "468", "--memory-gbytes", "2200", "--start-keys", "230",
                 "--start-queries", "2050", "--backward-tflops", "438")
        self.assertEqual(self.simulate(*size, *named), one)
        self.assertEqual(self.simulate(*size, "--memory-gbytes", "2200"), one)
        cpu = self.simulate(*size)
        self.assertLess(cpu["seconds"], one["seconds"])
        self.assertEqual(self.simulate(*size, "--latency", "5", "--launch", "5"), cpu)
        back = self.simulate(*size, "--device", "cuda:0", "--backward", "--unordered")["seconds"]
        self.assertLess(back, self.simulate(*size, "--device", "cuda:0", "--backward")["seconds"])

    def test_refused_figures(self):
        """-1 asks for what was measured; any other number below 0 is no figure."""
        for name in ("latency", "launch", "memory-gbytes", "start-keys", "start-queries"):
            self.assertIn(f"--{name} -0.5: must be 0 or more, or -1", self.ga("simulate", f"--{name}", "-0.5", rc=2))
            self.ga("simulate", f"--{name}", "-1")

    def test_rates(self):
        """What bench --json prints is a file of rates; several in a list are one; two rates of a size become their mean."""
        shape = ("--heads", "4", "--kv-heads", "2", "--head-dim", "16", "-n", "2", "--timeout", "60", "--runs", "2")
        bench = [json.loads(self.ga("bench", "-m", "ring", "--json", "--tokens", t, *shape)) for t in ("96", "255")]
        back = json.loads(self.ga("bench", "-m", "ring", "--json", "--tokens", "96", "--backward", *shape))
        self.assertAlmostEqual(bench[0]["rates"]["plain"][0][0], 97)  # a query sees 97 / 2 keys on average
        self.assertEqual(list(back["rates"]), ["backward"])
        with tempfile.TemporaryDirectory() as d:
            def seconds(rates, *args):
                path = os.path.join(d, "rates.json")
                with open(path, "w", encoding="utf-8") as f:
                    json.dump(rates, f)
                return self.simulate("-m", "ring", "-n", "1", "--launch", "0", "--rates", path, *shape[:6], *args)["seconds"]
            for b, tokens in zip(bench, ("96", "255")):
                self.assertAlmostEqual(seconds(bench, "--tokens", tokens) / b["rows"][0]["seconds"], 1, 6)
            self.assertAlmostEqual(seconds([back, bench[0]], "--tokens", "96", "--backward") / back["rows"][0]["seconds"], 1, 6)
            mean, half = ({"plain": [[1000, x], [1000, y]]} for x, y in ((3, 1), (1, 1)))
            self.assertAlmostEqual(seconds(half, "--tokens", "999") / seconds(mean, "--tokens", "999"), 2, 6)
            for text, said in (("{", "line 1"), ('{"plain": 4}', "plain must be a list of [size, rate]"), ("{}", "has no rates"),
                               ('{"link": [[1, -1]]}', "link, point 0"), ("[3]", "element 0 of the list is no object"),
                               ('{"plain": [[1, 2]], "linc": [[1, 2]]}', "'linc' is no list of rates; allowed: plain, merged, backward, link")):
                path = os.path.join(d, "wrong.json")
                with open(path, "w", encoding="utf-8") as f:
                    f.write(text)
                self.assertIn(said, self.ga("simulate", "--rates", path, rc=2))
        self.assertRegex(self.ga("simulate", "--rates", "/nowhere/rates.json", rc=2), "ga dist: --rates: unable to open /nowhere/rates.json: No such")

    def test_bands(self):
        size = ("-n", "4", "--tokens", "65536", "--device", "cuda:0", "--type", "bf16")
        text = self.ga("simulate", *size, "--jitter", "3", "--spread", "2", "--link-spread", "10")
        self.assertRegex(text, r"with jitter 3 %, GPUs 2 %, links 10 %: [\d.]+ ms, nine in ten runs from [\d.]+ to [\d.]+")
        self.assertIn("with jitter 3 %, GPUs 0 %, links 0 %", self.ga("simulate", *size, "--jitter", "3", "--draws", "1"))
        one, two, other = (self.simulate(*size, "--spread", "2", "--seed", s) for s in ("1", "1", "2"))
        self.assertEqual(one, two)
        self.assertNotEqual(one["high"], other["high"])
        self.assertTrue(one["low"] < one["middle"] < one["high"])
        self.assertGreater(one["middle"], one["seconds"])  # the slowest of four


if __name__ == "__main__":
    unittest.main()
