#!/usr/bin/env python3
"""ga synth: files that load and compute in every type and architecture, the same for the same seed, and nothing left behind
when writing fails. Usage: program_synth.py GA"""
import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest

GA = os.path.abspath(sys.argv.pop(1))
TYPES = ("f32 f16 bf16 q4_0 q4_1 q5_0 q5_1 q8_0 q2_k q3_k q4_k q5_k q6_k iq4_nl iq4_xs mxfp4 nvfp4 q3_k_m q4_k_m q5_k_m").split()
SMALL = ["--layers", "2", "--vocab", "300", "--ff", "320"]


class Synth(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="ga synth \u00e9 ")
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "a model.gguf")

    def ga(self, *args, **kw):
        kw.setdefault("timeout", 60)
        r = subprocess.run([GA, *args], capture_output=True, stdin=subprocess.DEVNULL, **kw)
        return r.returncode, r.stdout.decode("utf-8", "replace"), r.stderr.decode("utf-8", "replace")

    def make(self, *args, path=None, **kw):
        rc, out, said = self.ga("synth", "--force", *args, path or self.path, **kw)
        self.assertEqual(rc, 0, (args, said))
        return out

    def refuse(self, *args, says, code=1, **kw):
        rc, _, said = self.ga("synth", *args, **kw)
        self.assertEqual(rc, code, (args, said))
        self.assertIn(says, said, args)
        self.assertEqual(os.listdir(self.folder.name), [], args)

    def surprise(self):
        """Bits a token that the model gives a text: that of a uniform guess where weights are noise of the right size."""
        text = os.path.join(self.folder.name, "text")
        with open(text, "w") as f:
            f.write("abcdefgh ijklmnop qrstuvwx " * 4)
        rc, out, said = self.ga("perplexity", "-m", self.path, "-d", "cpu", "-t", "1", "-w", "32", text)
        self.assertEqual(rc, 0, said)
        return float(out.split()[1])

    def hash(self):
        with open(self.path, "rb") as f:
            return hashlib.sha256(f.read()).hexdigest()

    def test_types(self):
        for kind in TYPES:
            with self.subTest(kind):
                self.make("--shape", "tiny", "--type", kind)
                # Logits are drawn from about N(0, 1): e^0.5 and a bit above a uniform guess over 300.
                self.assertTrue(200 < self.surprise() < 2000, self.surprise())

    def test_architectures(self):
        for shape in "llama-3-8b smollm2-135m qwen2.5-0.5b qwen3-0.6b gemma-3-270m".split():
            with self.subTest(shape):
                self.make("--shape", shape, "--width", "512", "--heads", "4", "--kv-heads", "2", "--head-dim", "64", *SMALL)
                # Gemma's embeddings are as large as what a layer adds, and also its head: it expects each token once more.
                most = 1e6 if "gemma" in shape else 2000
                self.assertTrue(200 < self.surprise() < most, self.surprise())

    def test_tokens(self):
        """The unknown token, two control tokens, then bytes: GGUF's numbers of types."""
        self.make("--shape", "tiny")
        rc, out, said = self.ga("info", "--meta", "--json", "-m", self.path)
        self.assertEqual(rc, 0, said)
        found = json.loads(out)["metadata"]
        self.assertEqual(found["tokenizer.ggml.token_type"]["first"], [2, 3, 3, 6, 6, 6, 6, 6])
        self.assertEqual(found["tokenizer.ggml.tokens"]["first"][:4], ["<unk>", "<s>", "</s>", "<0x00>"])
        self.assertEqual(found["tokenizer.ggml.tokens"]["count"], 300)

    def test_experts(self):
        """--ff is the width of each expert. mxfp4_moe has two types."""
        for shape, kind in (("qwen3-30b-a3b", "q4_k_m"), ("gpt-oss-20b", "mxfp4_moe"), ("mixtral-8x7b", "q2_k")):
            with self.subTest(shape):
                self.make("--shape", shape, "--type", kind, "--width", "256", "--heads", "4", "--kv-heads", "2", "--head-dim", "64", "--layers", "1",
                          "--vocab", "300", "--ff", "64")
                self.assertTrue(200 < self.surprise() < 4000, self.surprise())
                rc, out, said = self.ga("info", "--tensors", "-m", self.path)
                self.assertEqual(rc, 0, said)
                self.assertRegex(out, r"ffn_gate_exps\.weight.*\b64\b")
                self.assertEqual("mxfp4" in out, kind == "mxfp4_moe")

    def test_shared_feed_forwards(self):
        """Layers without experts come first; latent attention has heads' own sizes."""
        for shape, more, kind in (("glm-4.5-air", ("--kv-heads", "2", "--head-dim", "64"), "q4_k_m"), ("deepseek-v3", ("--head-dim", "96"), "mxfp4_moe")):
            with self.subTest(shape):
                self.make("--shape", shape, "--type", kind, "--width", "256", "--heads", "4", *more, "--layers", "4", "--vocab", "300", "--ff", "64")
                self.assertTrue(200 < self.surprise() < 4000, self.surprise())
                rc, out, said = self.ga("info", "--tensors", "-m", self.path)
                self.assertEqual(rc, 0, said)
                first = {"glm-4.5-air": 1, "deepseek-v3": 3}[shape]
                self.assertNotIn(f"blk.{first - 1}.ffn_gate_exps", out)
                self.assertIn(f"blk.{first}.ffn_gate_exps", out)
                self.assertIn(f"blk.{first}.ffn_gate_shexp", out)
                self.assertEqual("attn_k_b" in out, shape == "deepseek-v3")

    def test_traced(self):
        """The experts that tokens choose are written, and replayed through caches; options that need a GPU or experts are refused."""
        self.make("--shape", "tiny-moe", "--type", "q8_0")
        trace = os.path.join(self.folder.name, "trace")
        run = "run", "-m", self.path, "-d", "cpu", "--no-template", "--ignore-eos", "-n", "12", "-c", "64", "-q", "abcdefgh"
        rc, _, said = self.ga(*run, "--trace-experts", trace)
        self.assertEqual(rc, 0, said)
        rc, out, said = self.ga("bench", "--replay", trace, "--json")
        self.assertEqual(rc, 0, said)
        found = json.loads(out)
        self.assertEqual((found["layers"], found["experts"], found["chosen"]), (2, 32, 4))
        self.assertGreaterEqual(found["tokens"], 18)
        for size in found["sizes"]:
            self.assertTrue(all(0 <= size[k] <= 1 for k in ("lru", "lru_unbounded", "list", "list_of_the_same_tokens")), size)
            self.assertLessEqual(size["list"], size["list_of_the_same_tokens"])
        rc, out, said = self.ga("bench", "--replay", trace)
        self.assertEqual(rc, 0, said)
        self.assertIn("2 layers, 4 of 32 experts", out)
        for options, code, says in ((("--cpu-moe",), 1, "n_cpu_moe is all, but cpu is no GPU"), (("--n-cpu-moe", "3"), 1, "n_cpu_moe is 3; must be 0 to 2, all, or -1"),
                                    (("--expert-cache", "0.01"), 1, "no layer on a GPU has its experts in host memory"),
                                    (("--expert-cache", "x"), 2, "expert-cache"), (("--cpu-moe", "-ncmoe", "1"), 2, "give one of them"),
                                    (("--trace-experts", self.folder.name), 1, "Is a directory")):
            rc, _, said = self.ga(*run, *options)
            self.assertEqual(rc, code, said)
            self.assertIn(says, said)
        for path, says in (self.path, "no trace of experts of version 1"), (self.folder.name + "/none", "No such file"):
            rc, _, said = self.ga("bench", "--replay", path)
            self.assertEqual(rc, 1)
            self.assertIn(says, said)
        rc, _, said = self.ga("bench", "--trace-experts", trace)
        self.assertEqual(rc, 2)
        self.assertIn("--trace-experts needs --model", said)

    def test_seeds(self):
        self.make("--shape", "tiny")
        first = self.hash()
        self.make("--shape", "tiny", env={**os.environ, "LC_ALL": "de_DE.UTF-8", "LANG": "tr_TR.UTF-8"})
        self.assertEqual(self.hash(), first)
        self.make("--shape", "tiny", "--seed", "4294967295")
        self.assertNotEqual(self.hash(), first)

    def test_timed(self):
        """ga bench --model on the CPU, which has no counter of joules."""
        self.make("--shape", "tiny")
        options = ("-m", self.path, "--device", "cpu", "-t", "1", "--prompt", "8", "--decode", "2", "--depth", "3", "--repeat", "1")
        rc, out, said = self.ga("bench", *options, "--json")
        self.assertEqual(rc, 0, said)
        self.assertGreater(json.loads(out)["decode_tok_s"], 0)
        rc, _, said = self.ga("bench", *options, "--energy", "0.1")
        self.assertEqual(rc, 1)
        self.assertIn("energy: cpu shows no energy counter", said)

    def test_rows_of_no_whole_block(self):
        self.make("--shape", "tiny", "--width", "96", "--type", "q6_k")
        rc, out, said = self.ga("info", "--tensors", "-m", self.path)
        self.assertEqual(rc, 0, said)
        kinds = {line.split()[0]: line.split()[1] for line in out.splitlines()}
        self.assertEqual(kinds["blk.0.attn_q.weight"], "q8_0")
        self.assertEqual(kinds["blk.0.ffn_down.weight"], "q6_k")

    def test_refused(self):
        p = self.path
        self.refuse(says="which file?", code=2)
        self.refuse("a", "b", says="one file, not 2", code=2)
        self.refuse("--shape", "llama-3-9b", p, says="'llama-3-9b' is not known; allowed: llama-3-8b", code=2)
        self.refuse("--type", "q4", p, says="'q4' is not known; allowed: q3_k_m, q4_k_m, q5_k_m, mxfp4_moe, f32", code=2)
        self.refuse("--type", "i8", p, says="'i8' is not known", code=2)
        self.refuse("--type", "", p, says="'' is not known", code=2)
        for bad in ("0", "-1", "513", "99999999999999999999", "1e3", "x", ""):
            self.refuse("--layers", bad, p, says="--layers", code=2)
        self.refuse("--vocab", "259", p, says="--vocab '259'", code=2)
        self.refuse("--seed", "-1", p, says="--seed '-1'", code=2)
        self.refuse("--heads", "9", "--kv-heads", "2", p, says="must divide", code=2)
        self.refuse("--head-dim", "63", p, says="must be even", code=2)
        self.refuse("--shape", "deepseek-v3", "--kv-heads", "2", p, says="--kv-heads 2; must be 1: heads share", code=2)
        self.refuse("--shape", "deepseek-v3", "--head-dim", "64", p, says="--head-dim 64; must be at least 66: 64 elements", code=2)
        self.refuse("--shape", "glm-4.5-air", "--head-dim", "32", p, says="--head-dim 32; must be at least 64", code=2)
        self.refuse("--shape", "tiny", os.path.join(self.folder.name, "no", "folder"), says="No such file")

    def test_full_disk(self):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18, 1 << 18))
        self.refuse("--shape", "tiny", self.path, says="cannot write", preexec_fn=limit)

    def test_old_file_stays(self):
        self.make("--shape", "tiny")
        first = self.hash()
        rc, _, _ = self.ga("synth", "--type", "nothing", self.path)
        self.assertEqual((rc, self.hash()), (2, first))
        rc, _, said = self.ga("synth", "--shape", "tiny", "--seed", "2", self.path)
        self.assertEqual((rc, self.hash()), (2, first))
        self.assertIn("--force", said)
        self.make("--shape", "tiny", "--seed", "2")
        self.assertNotEqual(self.hash(), first)

    def start_writing(self):
        """`ga synth` of gigabytes, when 16 MB are written; its file has no name where the file system can do that."""
        p = subprocess.Popen([GA, "synth", "--shape", "llama-3-8b", self.path], stderr=subprocess.PIPE)
        self.addCleanup(p.kill)
        folder = f"/proc/{p.pid}/fd"
        for _ in range(1000):
            for fd in os.listdir(folder):
                try:
                    at, size = os.readlink(f"{folder}/{fd}"), os.stat(f"{folder}/{fd}").st_size
                except OSError:
                    continue
                if at.startswith(os.path.realpath(self.folder.name)) and size > 1 << 24:
                    return p
            time.sleep(0.01)
        self.fail("nothing is written")

    def test_interrupt(self):
        p = self.start_writing()
        p.send_signal(signal.SIGINT)
        _, said = p.communicate(timeout=30)
        self.assertEqual(p.returncode, 130)
        self.assertIn(b"stopped", said)
        self.assertEqual(os.listdir(self.folder.name), [])

    def test_killed(self):
        """Nothing is left, where files can be without a name."""
        try:
            os.close(os.open(self.folder.name, os.O_TMPFILE | os.O_WRONLY))
        except OSError as e:
            self.skipTest(f"no files without a name here: {e}")
        p = self.start_writing()
        p.kill()
        p.communicate(timeout=30)
        self.assertEqual(p.returncode, -signal.SIGKILL)
        self.assertEqual(os.listdir(self.folder.name), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
