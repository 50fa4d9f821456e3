#!/usr/bin/env python3
"""A model over the CPU and one or two emulated GPUs: the CPU's tokens wherever the layers are, plans that follow the memory, errors that
state the plan, and a GPU that is lost at any of its calls.
usage: places.py GA_EMU"""
import json
import math
import os
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
import tiny_gguf  # noqa: E402

GA = os.path.abspath(sys.argv.pop(1))
PROMPT = "abcdefgh"


class Places(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="ga places \u00e9 ")
        cls.model = os.path.join(cls.folder.name, "a model.gguf")
        subprocess.run([GA, "synth", "--shape", "tiny", "--layers", "4", cls.model], check=True, capture_output=True)
        cls.want = cls.run_(cls, "cpu")[1]

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def ga(self, *args, emu="", timeout=300):
        env = {**os.environ, "GA_EMU": "seed=5," + emu, "LC_ALL": "de_DE.UTF-8"}
        r = subprocess.run([GA, *args], capture_output=True, env=env, stdin=subprocess.DEVNULL, timeout=timeout)
        return r.returncode, r.stdout, r.stderr.decode("utf-8", "replace")

    def run_(self, device, *options, emu="memory=64", n="6"):
        return Places.ga(self, "run", "-m", self.model, "-d", device, "--no-template", "--temp", "0", "-n", n, "-c", "64", "-q", "--ignore-eos",
                         *options, PROMPT, emu=emu)

    def plan(self, device, *options, emu):
        rc, out, said = self.ga("info", "-m", self.model, "-d", device, "--json", *options, emu=emu)
        self.assertEqual(rc, 0, said)
        return [(p["device"], p["layers"]) for p in json.loads(out)["places"]]

    def test_tokens(self):
        for layers in "0", "1", "3", "4":
            with self.subTest(layers):
                rc, out, said = self.run_("emu", "--gpu-layers", layers)
                self.assertEqual((rc, out), (0, self.want), said)
                self.assertEqual("layers run on the CPU" in said, layers in "13", said)
        for more in "", ",nopeers":
            rc, out, said = self.run_("emu:0,emu:1", emu="memory=64,devices=2" + more)
            self.assertEqual((rc, out), (0, self.want), said)
        rc, out, said = self.run_("emu:0,emu:1", "--gpu-layers", "3", "--explain", emu="memory=64,devices=2")
        self.assertEqual((rc, out), (0, self.want), said)
        self.assertIn("layers 0 to 0 on cpu, behind the embedding", said)
        self.assertIn(" on emu:1, before the head", said)

    def test_bench(self):
        """Layers are timed where they were asked to be."""
        for device, options, there in (("emu", (), "emu"), ("emu", ("--gpu-layers", "1"), "cpu,emu"), ("emu:0,emu:1", (), "emu:0,emu:1")):
            rc, out, said = self.ga("bench", "-m", self.model, "--device", device, "--prompt", "3", "--decode", "1", "--depth", "2", "-r", "1",
                                    "--json", *options, emu="memory=64,nocheck,devices=2")
            self.assertEqual(rc, 0, said)
            self.assertEqual(json.loads(out)["device"], there)

    def test_plans(self):
        most = 0
        for memory in range(20, 44, 4):
            rc, out, said = self.ga("info", "-m", self.model, "-d", "emu", "--json", "-c", "8192", "-b", "64", emu=f"memory={memory}")
            if rc:
                self.assertIn("do not fit", said)
                self.assertEqual(most, 0)
                continue
            gpu = json.loads(out)["places"][-1]
            used = sum(gpu[k] for k in ("weights", "kv", "activations", "workspace", "spare"))
            self.assertLessEqual(used, gpu["available"])
            self.assertGreaterEqual(gpu["layers"], most)
            most = gpu["layers"]
        self.assertEqual(most, 4)
        self.assertEqual(self.plan("emu:0,emu:1", emu="memory=64,devices=2"), [("emu:0", 2), ("emu:1", 2)])
        self.assertEqual(self.plan("emu", "--gpu-layers", "1", emu="memory=64"), [("cpu", 3), ("emu", 1)])

    def test_plan_holds(self):
        """The largest context that `ga info` says fits does run."""
        _, out, _ = self.ga("info", "-m", self.model, "-d", "emu", "-b", "16", "--gpu-layers", "4", "-c", "64", emu="memory=24")
        fits = int(out.decode().split("fits")[1].split()[0]) // 64 * 64
        self.assertTrue(64 < fits < 8192, out)
        options = "-m", self.model, "-d", "emu", "-b", "16", "--gpu-layers", "4", "--no-template", "--temp", "0", "-n", "2", "-q", "-c"
        rc, _, said = self.ga("run", *options, str(fits), PROMPT, emu="memory=24")
        self.assertEqual(rc, 0, said)
        rc, _, said = self.ga("run", *options, str(fits + 1024), PROMPT, emu="memory=24")
        self.assertEqual(rc, 1, said)
        self.assertRegex(said, r"emu: 4 of 4 layers with a context of \d+ do not fit: .* needed, .* free \(weights .*, KV cache .*\); "
                               r"\d layers would fit; a context of \d+ would fit")

    def test_refused(self):
        for bad in ("-2", "513", "x", "", "1e2", "99999999999999999999"):
            self.assertEqual(self.run_("emu", "--gpu-layers", bad)[0], 2, bad)
        for device, code, says in (("emu,emu", 1, "emu is there twice"), ("emu:0,", 2, "is not known; allowed"),
                                   (",emu", 2, "is not known; allowed"), ("emu:0,emu:7", 1, "this machine has"),
                                   ("emu:0,gpu", 2, "is not known; allowed"), ("emu," + "x" * 99, 2, "is not known; allowed")):
            rc, _, said = self.run_(device, emu="memory=64,devices=2")
            self.assertEqual(rc, code, device)
            self.assertIn(says, said)
        rc, _, said = self.run_("emu", "--gpu-layers", "5")
        self.assertIn("gpu_layers is 5; must be 0 to 4", said)
        rc, _, said = self.run_("cpu", "--gpu-layers", "2")
        self.assertIn("gpu_layers is 2, but cpu is no GPU", said)

    def test_lost(self):
        """The GPU is gone from some call on: no hang, one line, wherever it happens."""
        calls, failed = 1, 0
        while True:
            rc, out, said = self.run_("emu", emu=f"memory=64,nocheck,lose={calls}", n="2")
            if rc == 0:
                break
            failed += 1
            self.assertEqual(rc, 1, said)
            self.assertEqual(len(said.splitlines()), 1, said)
            self.assertIn("the device is lost", said)
            calls += 1 + calls // 3
        self.assertGreater(failed, 10)

    @staticmethod
    def write_hole(path, width, ff, layers):
        meta, shapes = tiny_gguf.metadata(), {"token_embd.weight": (tiny_gguf.VOCAB, width), "output_norm.weight": (width,)}
        meta |= {"llama.block_count": ("u32", layers), "llama.embedding_length": ("u32", width), "llama.feed_forward_length": ("u32", ff),
                 "llama.attention.head_count": ("u32", 64), "llama.attention.head_count_kv": ("u32", 8), "llama.rope.dimension_count": ("u32", 128)}
        for i in range(layers):
            for name, shape in {"attn_norm": (width,), "attn_q": (8192, width), "attn_k": (1024, width), "attn_v": (1024, width),
                                "attn_output": (width, 8192), "ffn_norm": (width,), "ffn_gate": (ff, width), "ffn_up": (ff, width),
                                "ffn_down": (width, ff)}.items():
                shapes[f"blk.{i}.{name}.weight"] = shape
        head, offset = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(meta)), 0
        for key, (kind, value) in meta.items():
            head += tiny_gguf.text(key) + struct.pack("<I", tiny_gguf.TYPES[kind]) + tiny_gguf.encode(kind, value)
        for name, shape in shapes.items():
            head += tiny_gguf.text(name) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", d) for d in reversed(shape))
            head += struct.pack("<IQ", 8 if len(shape) > 1 else 0, offset)
            offset += math.prod(shape) // 32 * 34 if len(shape) > 1 else 4 * shape[0]
        with open(path, "wb") as f:
            f.write(tiny_gguf.pad(head))
            f.truncate(f.tell() + offset)

    def test_too_large(self):
        """More than the GPU and the machine hold: said before a byte is read. The weights are a hole in the file."""
        path = os.path.join(self.folder.name, "large.gguf")
        self.write_hole(path, width=8192, ff=65536, layers=500)  # 3.5 TB in q8_0
        for device, says in (("emu", "cpu: 500 of 500 layers"), ("cpu", "cpu: 500 of 500 layers")):
            rc, _, said = self.ga("run", "-m", path, "-d", device, "--gpu-layers", "-1" if device == "cpu" else "0", "--no-template", "x", emu="memory=64")
            self.assertEqual(rc, 1, said)
            self.assertIn(says, said)
            self.assertRegex(said, r"do not fit: \d+\.\d+ GiB needed, \d+\.\d+ GiB of memory \(weights \d+")
        rc, _, said = self.ga("run", "-m", path, "-d", "emu", "--no-template", "x", emu="memory=64")
        self.assertIn("emu: 1 of 500 layers", said)
        rc, _, said = self.ga("run", "-m", self.model, "-d", "emu", "-c", "8192", "-b", "4096", "--no-template", "x", emu="memory=8")
        self.assertEqual(rc, 1)
        self.assertIn("1 of 4 layers with a context of 8192 do not fit", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
