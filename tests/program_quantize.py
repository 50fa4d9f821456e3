#!/usr/bin/env python3
"""ga quantize and ga convert: files of every type that load and predict alike, the types that mixtures give, and nothing
left behind when writing fails. Usage: program_quantize.py GA"""
import json
import math
import os
import random
import resource
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import tiny_gguf

GA = os.path.abspath(sys.argv.pop(1))
HERE = os.path.dirname(os.path.abspath(__file__))
# How far the surprise at a text may be from the source's: by the bits of a weight.
TYPES = {"f32": 1e-4, "f16": 0.002, "bf16": 0.01, "q8_0": 0.02, "q6_k": 0.05, "q5_0": 0.1, "q5_1": 0.1, "q5_k_m": 0.1,
         "q4_0": 0.2, "q4_1": 0.2, "q4_k_m": 0.2, "iq4_nl": 0.2, "iq4_xs": 0.2, "mxfp4": 0.25, "q3_k_m": 0.4, "q2_k": 0.6}
# Types that are only read: number in GGUF, bytes of a block of 256, where its f16 scale stands, and one that makes weights of about 0.05.
READ_ONLY = {"iq2_xxs": (16, 66, 0, 0.001), "iq2_xs": (17, 74, 0, 0.001), "iq2_s": (22, 82, 0, 0.001), "iq3_xxs": (18, 98, 0, 0.0005),
             "iq3_s": (21, 110, 0, 0.0003), "tq1_0": (34, 54, 52, 0.05), "tq2_0": (35, 66, 64, 0.05)}


class Quantize(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="ga quantize \u00e9 ")
        self.addCleanup(self.folder.cleanup)
        self.source, self.out = self.path("source.gguf"), self.path("out.gguf")

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def ga(self, *args, **kw):
        kw.setdefault("timeout", 120)
        r = subprocess.run([GA, *args], capture_output=True, stdin=subprocess.DEVNULL, **kw)
        return r.returncode, r.stdout.decode("utf-8", "replace"), r.stderr.decode("utf-8", "replace")

    def must(self, *args, **kw):
        rc, out, said = self.ga(*args, **kw)
        self.assertEqual(rc, 0, (args, said))
        return out, said

    def make(self, *args):
        self.must("synth", "--force", "--shape", "tiny", "--type", "f16", *args, self.source)

    def quantize(self, kind, *args, out=None):
        text, said = self.must("quantize", self.source, out or self.out, kind, "-t", "1", "--json", *args)
        return {t["name"]: t for t in json.loads(text)["tensors"]}, said

    def refuse(self, *args, says, code=1, **kw):
        before = sorted(os.listdir(self.folder.name))
        rc, _, said = self.ga(*args, **kw)
        self.assertEqual(rc, code, (args, said))
        self.assertIn(says, said, args)
        self.assertEqual(sorted(os.listdir(self.folder.name)), before, args)

    def surprise(self, path):
        """Without AMX, whose rows round f32 to bf16: what differs is the file."""
        text = self.path("text")
        with open(text, "w") as f:
            f.write("abcdefgh ijklmnop qrstuvwx " * 4)
        out, _ = self.must("perplexity", "-m", path, "-d", "cpu", "-t", "1", "-w", "32", text, "--json", env={**os.environ, "GA_DISABLE_KERNELS": "*amx*"})
        return json.loads(out)["nll"] / json.loads(out)["tokens_scored"]

    def keys(self, path):
        """Metadata, but for what a new type changes: read here, not by ga."""
        sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
        with open(path, "rb") as f:
            data = f.read()
        _, tensors, n = struct.unpack_from("<IQQ", data, 4)
        at, keys = 24, {}

        def text():
            nonlocal at
            bytes_ = struct.unpack_from("<Q", data, at)[0]
            at += 8 + bytes_
            return data[at - bytes_:at]

        def value(kind):
            nonlocal at
            if kind == 8:
                return text()
            if kind == 9:
                of, count = struct.unpack_from("<IQ", data, at)
                at += 12
                return [value(of) for _ in range(count)]
            at += sizes[kind]
            return kind, data[at - sizes[kind]:at]

        for _ in range(n):
            key = text().decode()
            kind = struct.unpack_from("<I", data, at)[0]
            at += 4
            keys[key] = value(kind)
        return keys, tensors

    def test_every_type_predicts_alike(self):
        self.make()
        first = self.surprise(self.source)
        for kind, slack in TYPES.items():
            with self.subTest(kind):
                self.quantize(kind, "--force")
                self.assertLess(abs(self.surprise(self.out) - first), slack)

    def test_metadata_is_kept(self):
        self.make()
        before, tensors = self.keys(self.source)
        self.quantize("Q4_K_M")
        after, now = self.keys(self.out)
        self.assertEqual(now, tensors)
        self.assertEqual(after.pop("general.file_type"), (4, struct.pack("<I", 15)))
        self.assertEqual(after.pop("general.quantization_version"), (4, struct.pack("<I", 2)))
        self.assertEqual(after, before)
        self.quantize("bf16", "--force")
        self.assertNotIn("general.quantization_version", self.keys(self.out)[0])

    def test_copy_is_the_same(self):
        self.make()
        self.quantize("copy")
        again = self.path("again.gguf")
        self.quantize("copy", out=again)
        with open(self.out, "rb") as a, open(again, "rb") as b, open(self.source, "rb") as c:
            data = a.read()
            self.assertEqual(data, b.read())
            self.assertEqual(data[-4096:], c.read()[-4096:])

    def test_mixtures(self):
        """Which tensors get which type, as llama.cpp has it: 16 layers, so that eighths and sixteenths are whole."""
        self.make("--layers", "16", "--heads", "8", "--kv-heads", "2", "--head-dim", "32")
        v, down, more = "blk.%d.attn_v.weight", "blk.%d.ffn_down.weight", [0, 1, 4, 7, 10, 13, 14, 15]
        for kind, name, types in [
                ("q4_k_m", v, {i: "q6_k" if i in more else "q4_k" for i in range(16)}),
                ("q5_k_m", down, {i: "q6_k" if i in more else "q5_k" for i in range(16)}),
                ("q4_k_s", v, {i: "q5_k" if i < 4 else "q4_k" for i in range(16)}),
                ("q4_k_s", down, {i: "q5_k" if i < 2 else "q4_k" for i in range(16)}),
                ("q3_k_m", v, {i: "q5_k" if i < 2 else "q4_k" for i in range(16)}),
                ("q3_k_m", down, {i: "q5_k" if i < 1 else "q4_k" for i in range(16)}),
                ("q3_k_l", down, {i: "q5_k" for i in range(16)}),
                ("q2_k", v, {i: "q4_k" for i in range(16)}),
                ("q2_k", down, {i: "q3_k" for i in range(16)}),
                ("q2_k_s", down, {0: "q4_k", 1: "q4_k", 2: "q2_k"}),
                ("iq4_xs", v, {0: "q5_k", 15: "q5_k"}),
                ("iq4_xs", down, {1: "q5_k", 2: "iq4_xs"}),
                ("q4_0", down, {0: "q4_0"}),
                ("mxfp4", v, {0: "mxfp4"})]:
            with self.subTest(kind, name=name):
                have, _ = self.quantize(kind, "--dry-run")
                self.assertEqual({i: have[name % i]["to"] for i in types}, types)
                self.assertEqual(have["output.weight"]["to"], "q8_0" if kind == "mxfp4" else "q6_k")
                self.assertEqual(have["output_norm.weight"]["to"], "f32")
        have, _ = self.quantize("q4_k_m", "--pure", "--dry-run")
        self.assertEqual({t["to"] for t in have.values()}, {"q4_k", "f32"})
        self.assertFalse(os.path.exists(self.out))

    def test_types_by_name(self):
        """Before the mixture, the first that fits; a name that fits nothing is an error."""
        self.make()
        types = ["--tensor-type=blk.1.*=f16", "--tensor-type", "attn_v=Q8_0", "--tensor-type", "output.weight=q5_0", "--tensor-type", "ffn_?p=iq4_nl"]
        have, _ = self.quantize("q4_k_m", *types)
        for name, want in {"blk.0.attn_v": "q8_0", "blk.1.attn_v": "f16", "blk.1.ffn_down": "f16", "blk.0.ffn_up": "iq4_nl", "blk.0.ffn_gate": "q4_k",
                           "output": "q5_0", "blk.1.attn_norm": "f32"}.items():
            self.assertEqual(have[name + ".weight"]["to"], want, name)
        self.surprise(self.out)
        have, _ = self.quantize("q4_0", "--pure", "--dry-run", "--tensor-type", "attn_k=bf16")
        self.assertEqual({t["to"] for t in have.values()}, {"q4_0", "bf16", "f32"})
        for wrong, says in {"attn_v": "'attn_v'; must be NAME=TYPE", "=q8_0": "must be NAME=TYPE", "x=": "must be NAME=TYPE",
                            "attn_v=q9": "the type must be f32", "attn_v=iq2_s": "the type must be f32", "attn_x=q8_0": "'attn_x': no matrix has that name",
                            "attn_norm=q8_0": "'attn_norm': no matrix has that name"}.items():
            code = 1 if "no matrix" in says else 2
            self.refuse("quantize", self.source, self.path("new"), "q4_0", "--tensor-type", wrong, says=says, code=code)

    def test_json_of_any_name(self):
        """Names of files are bytes; JSON is UTF-8."""
        self.make()
        name = os.fsencode(self.folder.name) + b"/out\xff.gguf"
        text, _ = self.must("quantize", self.source, name, "q8_0", "--json")
        self.assertEqual(os.path.basename(json.loads(text)["out"]), "out\ufffd.gguf")
        self.assertTrue(os.path.exists(name))

    def read_only_model(self, kind):
        """A llama whose matrices are random blocks of that type, its tied embedding too."""
        number, size, at, scale = READ_ONLY[kind]
        rng = random.Random(kind)
        meta = tiny_gguf.metadata()
        for key in ("embedding_length", "feed_forward_length"):
            meta[f"llama.{key}"] = ("u32", 256)
        meta["llama.rope.dimension_count"] = ("u32", 64)
        weights = {}
        for name, (shape, _, _) in tiny_gguf.tensors().items():
            if len(shape) == 1:
                weights[name] = ((256,), 0, None)
                continue
            shape = tuple({tiny_gguf.VOCAB: tiny_gguf.VOCAB, 32: 128}.get(n, 256) for n in shape)
            blocks = b""
            for _ in range(shape[0] * shape[1] // 256):
                raw = rng.randbytes(size)
                blocks += raw[:at] + struct.pack("<e", scale) + raw[at + 2:]
            weights[name] = (shape, number, blocks)
        with open(self.source, "wb") as f:
            f.write(tiny_gguf.build(meta, weights))

    def test_types_that_are_only_read(self):
        """They predict as the same values in f32 do; what they are held as in memory rounds iq2_xs and iq2_s."""
        for kind in READ_ONLY:
            with self.subTest(kind):
                self.read_only_model(kind)
                have, said = self.quantize("f32", "--force")
                self.assertEqual((have["blk.0.attn_q.weight"]["from"], have["blk.0.attn_q.weight"]["to"]), (kind, "f32"))
                first = self.surprise(self.out)
                self.assertGreater(first, 1)
                self.assertLess(abs(self.surprise(self.source) - first), 0.01)
                self.quantize("copy", "--force")
                self.assertEqual(self.surprise(self.out), self.surprise(self.source))
        self.refuse("quantize", self.source, self.path("new"), kind, says=f"type '{kind}' is not known", code=2)
        self.refuse("synth", "--shape", "tiny", "--type", kind, self.path("new"), says=kind, code=2)

    def test_rows_of_no_whole_block(self):
        self.make("--width", "96", "--ff", "320")
        for kind, other in {"q4_k_s": "q5_0", "q5_k_s": "q5_1", "q6_k": "q8_0", "q3_k_s": "iq4_nl", "iq4_xs": "iq4_nl"}.items():
            have, said = self.quantize(kind, "--dry-run")
            self.assertEqual((have["blk.0.attn_q.weight"]["to"], have["blk.0.attn_q.weight"]["fallback"]), (other, True))
            self.assertIn("hold no whole blocks", said)
        self.make("--width", "40")
        have, _ = self.quantize("q4_0", "--force")
        self.assertEqual(have["blk.0.attn_q.weight"]["to"], "f16")

    def test_requantised_is_said(self):
        self.make()
        self.quantize("q8_0")
        _, said = self.must("quantize", self.out, self.path("again.gguf"), "q4_0")
        self.assertIn("were quantised already", said)
        _, said = self.must("quantize", self.out, self.path("one.gguf"), "copy", "--tensor-type", "blk.0.attn_q.weight=q4_0")
        self.assertIn(": 1 tensor was quantised already", said)

    def test_table(self):
        self.make()
        out, said = self.must("quantize", self.source, self.out, "q4_k_m", "--each")
        self.assertIn("q4_k", out)
        self.assertRegex(out, r"all +\d+ +[0-9.]+ +\d+ +[0-9.]+ +[0-9.]+ s")
        self.assertIn("blk.0.attn_q.weight  256 x 256  f16 -> q4_k\n", said)

    def test_refused(self):
        self.make()
        s, o = self.source, self.out
        self.refuse("quantize", s, o, says="needs IN, OUT and TYPE; 2 given", code=2)
        self.refuse("quantize", s, o, "q4", says="type 'q4' is not known; allowed: f32, f16", code=2)
        self.refuse("quantize", s, o, "q4_0", "-t", "1025", says="--threads", code=2)
        self.refuse("quantize", s, s, "q4_0", says="is the model that is read; must be another file")
        self.refuse("quantize", s, s, "q4_0", "--force", says="is the model that is read; must be another file")
        os.symlink(s, self.path("link.gguf"))
        self.refuse("quantize", s, self.path("link.gguf"), "q4_0", "--force", says="is the model that is read")
        with open(o, "w") as f:
            f.write("mine")
        self.refuse("quantize", s, o, "q4_0", says="out.gguf exists; give another name, or allow to overwrite it (--force)")
        with open(o) as f:
            self.assertEqual(f.read(), "mine")
        os.unlink(o)
        self.refuse("quantize", s, self.path("no/folder.gguf"), "q4_0", says="No such file")
        self.refuse("quantize", s, self.folder.name, "q4_0", says="is a folder; must be the path of a file")
        self.refuse("quantize", self.path("nothing.gguf"), o, "q4_0", says="nothing.gguf")
        self.refuse("quantize", s, o, "q4_0", "-i", s, says="general.type is ''; must be 'imatrix'")
        self.refuse("convert", s, says="needs FOLDER and OUT; 1 given", code=2)
        self.refuse("quantize", s, "-", "q4_0", says="the output is '-', but it must be a file", code=2)

    def put(self, name, text):
        with open(self.path(name), "w") as f:
            f.write(text)
        return self.path(name)

    def refuse_special(self, *args, out, says):
        """Nothing takes the place of what is no regular file, --force or not."""
        before = os.lstat(out)
        self.refuse(*args, says=says)
        self.assertEqual((os.lstat(out).st_ino, os.lstat(out).st_mode), (before.st_ino, before.st_mode))

    def test_special_files(self):
        self.make()
        pipe, text = self.path("pipe"), self.put("text", "abcdefgh ijklmnop qrstuvwx " * 40)
        os.mkfifo(pipe)
        null = self.path("null")
        os.symlink("/dev/null", null)
        for out in (pipe, null):
            self.refuse_special("quantize", self.source, out, "q8_0", "--force", out=out, says="is a device, a pipe or a socket")
            self.refuse_special("imatrix", "-m", self.source, "-d", "cpu", "-f", text, "-o", out, "--force", out=out,
                                says="is no regular file")

    def test_chat_saved_to_a_pipe(self):
        self.make()
        pipe = self.path("pipe")
        os.mkfifo(pipe)
        r = subprocess.run([GA, "chat", "-m", self.source, "-d", "cpu", "--chat-template", "plain"], input=f"/save -f {pipe}\n".encode(),
                           capture_output=True, timeout=60)
        self.assertIn("pipe is no regular file; give another name", r.stderr.decode())
        self.assertTrue(stat.S_ISFIFO(os.lstat(pipe).st_mode))

    def test_files_beside_the_model(self):
        """What lies in the folder that is read stays, and so does the importance matrix."""
        folder = self.make_folder()
        for name in ("config.json", "tokenizer.json", "model.safetensors", "expected.txt"):
            path = os.path.join(folder, name)
            with open(path, "rb") as f:
                before = f.read()
            says = "is the model that is read" if name == "model.safetensors" else "lies beside the weights that are read"
            self.refuse("convert", "--force", folder, path, says=says)
            with open(path, "rb") as f:
                self.assertEqual(f.read(), before)
        for _ in range(2):
            self.must("convert", "--force", folder, os.path.join(folder, "out.gguf"))
        self.make()
        text, matrix = self.put("text", "abcdefgh ijklmnop qrstuvwx " * 40), self.path("m.gguf")
        measure = ("imatrix", "-m", self.source, "-d", "cpu", "-w", "64", "-f", text, "--limit", "1", "--force", "-o")
        self.must(*measure, matrix)
        self.refuse("quantize", "--force", self.source, matrix, "q4_0", "-i", matrix, says="is the importance matrix that is read")
        self.refuse(*measure, text, says="is the text that is read; give another name")
        self.refuse(*measure, self.source, says="is the model that is read; must be another file")

    def test_values_refused(self):
        """A weight that is NaN: named, and no file."""
        self.make()
        with open(self.source, "r+b") as f:
            f.seek(-2, os.SEEK_END)
            f.write(b"\x00\x7e")
        self.refuse("quantize", self.source, self.out, "q8_0", says="is nan; q8_0 holds finite values")

    def test_full_disk(self):
        self.make()

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18, 1 << 18))
        self.refuse("quantize", self.source, self.out, "q8_0", says="cannot write", preexec_fn=limit)

    def test_larger_than_memory(self):
        """82 MB with 64 MB of memory of its own: rows go through it a few at a time."""
        self.make("--vocab", "20000", "--width", "1024", "--layers", "1")
        self.assertGreater(os.path.getsize(self.source), 80 << 20)

        def limit():
            resource.setrlimit(resource.RLIMIT_DATA, (64 << 20, 64 << 20))
        self.must("quantize", self.source, self.out, "bf16", "-t", "1", preexec_fn=limit)
        self.assertGreater(os.path.getsize(self.out), 80 << 20)

    def start(self):
        """A quantisation that takes long, when it writes."""
        self.make("--vocab", "20000", "--width", "1024", "--layers", "1")
        p = subprocess.Popen([GA, "quantize", self.source, self.out, "q2_k", "-t", "1"], stderr=subprocess.PIPE,
                             stdout=subprocess.DEVNULL)
        self.addCleanup(p.stderr.close)
        self.addCleanup(p.kill)
        fds = f"/proc/{p.pid}/fd"
        for _ in range(1000):
            for fd in os.listdir(fds):
                try:
                    at, size = os.readlink(f"{fds}/{fd}"), os.stat(f"{fds}/{fd}").st_size
                except OSError:
                    continue
                if at.startswith(os.path.realpath(self.folder.name)) and not at.endswith("source.gguf") and size > 1 << 16:
                    return p
            time.sleep(0.01)
        self.fail("nothing is written")

    def test_killed(self):
        p = self.start()
        p.kill()
        p.wait()
        self.assertFalse(os.path.exists(self.out))

    def test_interrupted(self):
        p = self.start()
        p.send_signal(signal.SIGINT)
        self.assertEqual(p.wait(30), 130)
        self.assertEqual(os.listdir(self.folder.name), ["source.gguf"])

    def test_imatrix(self):
        self.make()
        text, matrix = self.path("text"), self.path("m.gguf")
        with open(text, "w") as f:
            f.write("abcdefgh ijklmnop qrstuvwx " * 40)
        measure = ("imatrix", "-m", self.source, "-d", "cpu", "-t", "1", "-w", "64", "-o", matrix)
        out, _ = self.must(*measure, "-f", text, "--limit", "3")
        self.assertEqual(out, "3 windows of 64 tokens\n")
        have, _ = self.quantize("q4_k_m", "-i", matrix)
        self.assertTrue(have["blk.1.ffn_up.weight"]["weighted"])
        self.assertFalse(have["token_embd.weight"]["weighted"])
        keys, _ = self.keys(self.out)
        self.assertEqual((keys["quantize.imatrix.file"], keys["quantize.imatrix.dataset"]), (b"m.gguf", b"text"))
        self.quantize("q4_k_m", out=self.path("even.gguf"))
        with open(self.out, "rb") as a, open(self.path("even.gguf"), "rb") as b:
            self.assertNotEqual(a.read(), b.read())
        have, _ = self.quantize("q4_0", "-i", matrix, "--dry-run")  # 2 layers have no first eighth
        self.assertEqual(have["blk.0.ffn_down.weight"]["to"], "q4_0")
        self.refuse(*measure, "-f", text, says="m.gguf exists; give another name, or --force")
        self.refuse(*measure, says="which text? give --file", code=2)
        self.refuse("imatrix", "-m", self.source, "-f", text, says="where to? give --output", code=2)
        self.refuse(*measure, "--force", "-f", self.path("nothing"), says="nothing")
        short = self.path("short")
        with open(short, "w") as f:
            f.write("ab")
        self.refuse(*measure, "--force", "-f", short, says="at least one window of 64 is needed")
        other = self.path("other.gguf")
        self.must("synth", "--shape", "tiny", "--type", "f16", "--ff", "256", other)
        self.refuse("quantize", other, self.path("o.gguf"), "q4_0", "-i", matrix, says="is it of this model?")

    def make_folder(self):
        folder = self.path("folder")
        shutil.copytree(os.path.join(HERE, "data", "arch", "llama"), folder)
        letters = {chr(97 + i): i for i in range(26)}
        with open(os.path.join(folder, "tokenizer.json"), "w") as f:
            json.dump({"model": {"type": "BPE", "vocab": letters, "merges": []},
                       "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}}, f)
        return folder

    def test_convert(self):
        folder = self.make_folder()
        _, said = self.must("convert", folder, self.out)
        self.assertNotIn("left out", said)
        ids, _ = self.must("tokenize", "-m", self.out, "abc")
        self.assertEqual(ids, "0 1 2\n")
        self.must("convert", folder, self.path("q.gguf"), "--type", "Q8_0")
        self.assertLess(os.path.getsize(self.path("q.gguf")), os.path.getsize(self.out))
        os.unlink(os.path.join(folder, "tokenizer.json"))
        self.refuse("convert", folder, self.path("other.gguf"), says="no tokenizer.json beside the weights")

    def retype(self, folder, name, kind, width):
        """Gives a tensor of model.safetensors another type, and zeros as its data."""
        path = os.path.join(folder, "model.safetensors")
        with open(path, "rb") as f:
            head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
            data = f.read()
        put, now = b"", {"__metadata__": head.pop("__metadata__", {})}
        for key, t in sorted(head.items(), key=lambda item: item[1]["data_offsets"]):
            part = data[slice(*t["data_offsets"])]
            if key == name:
                part, t["dtype"] = bytes(width * math.prod(t["shape"])), kind
            now[key] = {**t, "data_offsets": [len(put), len(put) + len(part)]}
            put += part
        text = json.dumps(now).encode()
        os.unlink(path)
        with open(path, "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text + put)

    def test_convert_integers(self):
        """Codes without their scales are no weights."""
        folder = self.make_folder()
        name = "model.layers.0.mlp.up_proj.weight"
        for kind, width in {"I8": 1, "U8": 1, "I16": 2, "I32": 4, "I64": 8}.items():
            with self.subTest(kind):
                self.retype(folder, name, kind, width)
                self.refuse("convert", folder, self.out, says=f"'blk.0.ffn_up.weight': is {kind.lower()}: weights must be f32")
        self.retype(folder, name, "F8_E4M3", 1)
        self.refuse("convert", folder, self.out, says="weights in FP8 are not converted")
        self.retype(folder, name, "F64", 8)
        self.must("convert", folder, self.out)


if __name__ == "__main__":
    unittest.main()
