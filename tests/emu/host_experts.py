#!/usr/bin/env python3
"""A model with experts, of which the emulated GPU has no room for all: plans that follow the memory, tokens of the CPU, errors.
usage: host_experts.py GA_EMU"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
import serve_rig  # noqa: E402

GA = os.path.abspath(sys.argv.pop(1))
LAYERS, MEMORY = 4, (32, 48, 64, 80, 96, 128)  # MiB


class HostExperts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="ga-host-experts-")
        cls.model = os.path.join(cls.folder.name, "model.gguf")
        subprocess.run([GA, "synth", "--shape", "tiny-moe", "--layers", str(LAYERS), "--type", "q8_0", cls.model], check=True, capture_output=True)
        cls.want = cls.run_(cls, "cpu")[1]

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def ga(self, *args, emu="", timeout=600):
        env = {**os.environ, "GA_EMU": "seed=5,nocheck," + emu}
        r = subprocess.run([GA, *args], capture_output=True, env=env, stdin=subprocess.DEVNULL, timeout=timeout)
        return r.returncode, r.stdout, r.stderr.decode()

    def run_(self, device, *options, memory=128, n="6"):
        return HostExperts.ga(self, "run", "-m", self.model, "-d", device, "--no-template", "--temp", "0", "-n", n, "-c", "64", "-b", "16", "-q",
                              "--ignore-eos", *options, "abcdefgh", emu=f"memory={memory}")

    def plan(self, *options, memory):
        rc, out, said = self.ga("info", "-m", self.model, "-d", "emu", "-c", "64", "-b", "16", "--json", *options, emu=f"memory={memory}")
        self.assertEqual(rc, 0, said)
        return json.loads(out)["places"]

    def test_plans(self):
        """Experts leave the GPU before layers do, and no more of them than must."""
        before = LAYERS
        for memory in MEMORY:
            places = self.plan(memory=memory)
            gpu = places[-1]
            self.assertEqual((len(places), gpu["layers"]), (1, LAYERS), memory)
            self.assertLessEqual(gpu["host_expert_layers"], before)
            self.assertEqual(gpu["host_experts"] > 0, gpu["host_expert_layers"] > 0)
            used = sum(gpu[k] for k in ("weights", "kv", "activations", "workspace", "spare"))
            self.assertLessEqual(used, gpu["available"])
            before = gpu["host_expert_layers"]
        self.assertEqual(before, 0)
        few = [self.plan(memory=m)[-1]["host_expert_layers"] for m in MEMORY]
        self.assertGreater(len(set(few)), 3, few)

    def test_tokens(self):
        for memory, options in (128, ("--cpu-moe",)), (128, ("-ncmoe", "2")), (32, ()), (64, ("--explain",)):
            with self.subTest(options, memory=memory):
                rc, out, said = self.run_("emu", *options, memory=memory)
                self.assertEqual((rc, out), (0, self.want), said)
                by_itself = not any("moe" in o for o in options)
                self.assertEqual(f"of {LAYERS} layers are in host memory" in said, by_itself, said)
                if "--explain" in options:
                    self.assertRegex(said, r"experts of \d of these layers in host memory: \d+\.\d MiB; the CPU multiplies by them")

    def test_cache(self):
        """Some experts on the GPU beside the CPU's: the same tokens, counted by the plan, and shown."""
        plain, = self.plan("--cpu-moe", memory=128)
        cached, = self.plan("--cpu-moe", "--expert-cache", "0.02", memory=128)
        self.assertEqual(plain["expert_cache"], 0)
        self.assertEqual(cached["expert_cache"], int(0.02 * 2**30))
        self.assertEqual(cached["host_experts"], plain["host_experts"])
        by_itself = self.plan("--expert-cache", "0.01", memory=64)[0]
        self.assertGreater(by_itself["host_expert_layers"], 0)
        self.assertLessEqual(sum(by_itself[k] for k in ("weights", "kv", "activations", "workspace", "spare", "expert_cache")), by_itself["available"])
        for options, memory in (("--cpu-moe", "--expert-cache", "0.02"), 128), (("--expert-cache", "0.01"), 64):
            rc, out, said = self.run_("emu", *options, "--explain", memory=memory)
            self.assertEqual((rc, out), (0, self.want), said)
            self.assertRegex(said, r"cache of these experts on emu: \d+\.\d MiB")
            self.assertRegex(said, r"expert cache: \d+ of \d+ experts were on the GPU \(\d+\.\d %\), \d+ loads, \d+ of \d+ slots in use")

    def test_server(self):
        """A server counts what it looks up, /metrics and `ga ps` say it, and its tokens are those of another without a cache."""
        texts = []
        for cache in (), ("--expert-cache", "0.02"):
            env = {**os.environ, "GA_EMU": "seed=5,nocheck,memory=128"}
            with serve_rig.Server(GA, self.model, "-d", "emu", "--cpu-moe", *cache, "-c", "64", "--step-tokens", "16", "--max-sequences", "2", env=env) as server:
                body = {"prompt": "abcdefgh", "max_tokens": 6, "temperature": 0, "ignore_eos": True}
                status, _, answer = server.request("POST", "/v1/completions", body)
                self.assertEqual(status, 200, answer)
                texts.append(answer["choices"][0]["text"])
                now = {name: value for name, _, value in server.metrics()}
                r = subprocess.run([GA, "ps", "-u", f"http://127.0.0.1:{server.port}"], capture_output=True, text=True, timeout=60)
                self.assertEqual(r.returncode, 0, r.stderr)
                if not cache:
                    self.assertNotIn("ga:expert_cache_hits_total", now)
                    self.assertNotIn("experts", r.stdout)
                    continue
                self.assertGreater(now["ga:expert_cache_queries_total"], now["ga:expert_cache_hits_total"])
                self.assertGreater(now["ga:expert_cache_hits_total"], 0)
                self.assertGreater(now["ga:expert_cache_loads_total"], 0)
                self.assertTrue(0 < now["ga:expert_cache_usage_perc"] <= 1)
                self.assertRegex(r.stdout, r"experts on the GPU \d+ %")
        self.assertEqual(texts[0], texts[1])

    def test_trace(self):
        """Choices are written wherever the experts are, and replayed."""
        sizes = []
        for device, options in ("cpu", ()), ("emu", ()), ("emu", ("--cpu-moe", "--expert-cache", "0.02")):
            path = os.path.join(self.folder.name, "trace")
            rc, out, said = self.run_(device, *options, "--trace-experts", path)
            self.assertEqual((rc, out), (0, self.want), said)
            sizes.append(os.path.getsize(path))
            rc, out, said = self.ga("bench", "--replay", path, "--json")
            self.assertEqual(rc, 0, said)
            replayed = json.loads(out)
            self.assertEqual((replayed["layers"], replayed["experts"], replayed["chosen"]), (LAYERS, 32, 4))
            rates = [s["lru_unbounded"] for s in replayed["sizes"]]
            self.assertEqual(rates, sorted(rates))
        self.assertEqual(len(set(sizes)), 1, sizes)

    def test_refused(self):
        for options, code, says in ((("--n-cpu-moe", "-2"), 2, "from -1 to 512"), (("--n-cpu-moe", "x"), 2, "n-cpu-moe"),
                                    (("--n-cpu-moe", "5"), 1, "n_cpu_moe is 5; must be 0 to 4, all, or -1: as few as fit"),
                                    (("--n-cpu-moe", "2", "--cpu-moe"), 2, "--cpu-moe means all layers, --n-cpu-moe 2 the first; give one of them"),
                                    (("-ot", "exps=CPU"), 2, "--cpu-moe and --n-cpu-moe N place experts")):
            rc, _, said = self.run_("emu", *options)
            self.assertEqual(rc, code, said)
            self.assertIn(says, said)
        for options, memory, says in ((("--cpu-moe", "--expert-cache", "0.0005"), 128, "expert_cache: 0.5 MiB (536870 bytes) for 4 layers on emu; must be "),
                                      (("--cpu-moe", "--expert-cache", "1"), 128, "MiB to "),
                                      (("--expert-cache", "0.01",), 256, "but no layer on a GPU has its experts in host memory; n_cpu_moe keeps them there"),
                                      (("--cpu-moe", "--expert-cache", "0.05"), 48, "do not fit"),
                                      (("--cpu-moe", "--expert-cache", "0.01", "--deterministic", "-b", "1"), 128, "has a cache of experts, on whose contents results depend")):
            rc, _, said = self.run_("emu", *options, memory=memory)
            self.assertEqual(rc, 1, said)
            self.assertIn(says, said)
        rc, _, said = self.run_("emu", "--expert-cache", "-1")
        self.assertEqual(rc, 2)
        rc, _, said = self.run_("cpu", "--cpu-moe")
        self.assertEqual(rc, 1)
        self.assertIn("n_cpu_moe is all, but cpu is no GPU", said)
        rc, _, said = self.run_("emu", "--n-cpu-moe", "0", memory=64)
        self.assertEqual((rc, said.count("layers run on the CPU")), (0, 1), said)

    def test_lost(self):
        """The GPU is gone from some call on: no hang, one line."""
        calls, failed = 200, 0
        while True:
            rc, _, said = self.run_("emu", "--cpu-moe", memory=f"128,lose={calls}", n="2")
            if rc == 0:
                break
            failed += 1
            self.assertEqual((rc, len(said.splitlines())), (1, 1), said)
            self.assertIn("the device is lost", said)
            calls += 1 + calls // 4
        self.assertGreater(failed, 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
