#!/usr/bin/env python3
"""ga check and ga bench from outside: exit codes, reports, reproducing lines. Usage: program_check.py GA"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

GA = sys.argv.pop(1)
os.environ["GA_LAST_CACHE"] = "16"  # figures mean nothing here, and hosts of virtual machines have caches of half a GiB


def ga(*args):
    return subprocess.run([GA, *args], capture_output=True, text=True, timeout=300)


class Check(unittest.TestCase):
    def test_usage(self):
        for args in (["--nothing"], ["extra"], ["--draw", "3"], ["-k", "no_such_kernel"], ["-n", "-1"], ["-n", "x"]):
            r = ga("check", *args)
            self.assertEqual(r.returncode, 2, (args, r.stderr))
            self.assertIn("ga check", r.stderr)

    def test_unknown_device(self):
        r = ga("check", "--device", "abacus")
        self.assertEqual(r.returncode, 1)
        self.assertIn("abacus", r.stderr)

    def test_json(self):
        r = ga("check", "-k", "add*", "-n", "5", "-s", "7", "--json")
        self.assertEqual(r.returncode, 0, r.stderr)
        report = json.loads(r.stdout)
        self.assertEqual(report["seed"], 7)
        self.assertEqual(report["failed"], 0)
        self.assertTrue(all(row["result"] in ("passed", "skipped") for row in report["rows"]))

    def test_same_seed_same_result(self):
        runs = [json.loads(ga("check", "-k", "add*", "-n", "20", "-s", "7", "--json").stdout)["rows"] for _ in range(2)]
        for row in runs[0] + runs[1]:
            del row["seconds"]
        self.assertEqual(runs[0], runs[1])

    def test_one_draw(self):
        r = ga("check", "-k", "add_f32_rows_generic_1", "-s", "7", "--draw", "3")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("1 draws", r.stdout)

    def test_every_kernel_can_be_checked(self):
        r = ga("check", "--list")
        self.assertEqual(r.returncode, 0)
        self.assertNotIn("UNCHECKED", r.stdout)


class Probe(unittest.TestCase):
    def test_figures(self):
        with tempfile.TemporaryDirectory() as home:
            r = subprocess.run([GA, "probe", "--device", "cpu", "--brief", "--time", "0.001", "--json"], capture_output=True, text=True,
                               timeout=300, env={**os.environ, "XDG_CACHE_HOME": home})
            self.assertEqual(r.returncode, 0, r.stderr)
            report = json.loads(r.stdout)
            self.assertTrue(all(x > 0 for x in report["figures"].values()))
            kept = list(Path(home).rglob("*.json"))
            self.assertEqual([json.loads(kept[0].read_text())], [report])

    def test_cannot_write(self):
        r = ga("probe", "--device", "cpu", "--brief", "--time", "0.001", "-o", "/proc/no/such.json")
        self.assertEqual(r.returncode, 1)
        self.assertIn("/proc/no", r.stderr)


class Bench(unittest.TestCase):
    def test_json_and_compare(self):
        r = ga("bench", "-k", "add*", "--shape", "1x*", "--time", "0.01", "--hot", "--json") # the documents' benches rotate buffers
        self.assertEqual(r.returncode, 0, r.stderr)
        report = json.loads(r.stdout)
        self.assertGreater(report["read_gbs"], 0)
        self.assertGreater(len(report["rows"]), 0)
        for row in report["rows"]:
            self.assertGreater(row["median_us"], 0)
            self.assertLessEqual(row["p10_us"], row["median_us"])
            self.assertLessEqual(row["median_us"], row["p90_us"])
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.json"
            path.write_text(r.stdout)
            same = ga("bench", "--compare", path, path)
            self.assertEqual(same.returncode, 0, same.stderr)
            self.assertIn("geometric mean 1.000x", same.stdout)
            path.write_text("{}")
            self.assertEqual(ga("bench", "--compare", path, path).returncode, 1)

    def test_last_cache(self):
        for text in "0", "16M", "x", "1048577":
            r = subprocess.run([GA, "bench", "-k", "add*"], capture_output=True, text=True, env=os.environ | {"GA_LAST_CACHE": text})
            self.assertEqual(r.returncode, 1, r.stderr)
            self.assertIn(f"GA_LAST_CACHE is '{text}'; must be 1 to 1048576", r.stderr)

    def test_model(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "tiny.gguf"
            self.assertEqual(ga("synth", "--shape", "tiny", path).returncode, 0)
            r = ga("bench", "-m", path, "--prompt", "8", "--decode", "2", "--depth", "3", "-r", "2", "--json")
            self.assertEqual(r.returncode, 0, r.stderr)
            report = json.loads(r.stdout)
            self.assertEqual(report["device"], "cpu")
            for key in "prefill", "decode":
                self.assertGreater(report[key + "_min"], 0)
                self.assertLessEqual(report[key + "_min"], report[key + "_tok_s"])
                self.assertLessEqual(report[key + "_tok_s"], report[key + "_max"])


if __name__ == "__main__":
    unittest.main()
