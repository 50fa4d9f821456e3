#!/usr/bin/env python3
"""The program under attack: damaged and absurd model files, wrong options, streams that are closed, full or never end,
signals, little memory. Each time a clear error and an exit code that says so. Usage: program_robust.py GA"""
import contextlib
import json
import math
import os
import resource
import select
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import chat_rig
import tiny_gguf

GA = os.path.abspath(sys.argv.pop(1))
NAN, INF = math.nan, math.inf


def is_sanitized():
    with open(GA, "rb") as f:
        raw = f.read()
    return b"__asan_" in raw or b"__tsan_" in raw


class Robust(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="ga robust \u00e9 ")
        cls.good = cls.put("good.gguf", tiny_gguf.build())
        cls.bad = os.path.join(cls.folder.name, "bad.gguf")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def put(cls, name, raw):
        path = os.path.join(cls.folder.name, name)
        with open(path, "wb") as f:
            f.write(raw)
        return path

    def ga(self, *args, timeout=30, **kw):
        kw.setdefault("stdin", subprocess.DEVNULL)
        kw.setdefault("stdout", subprocess.PIPE)
        r = subprocess.run([GA, *args], stderr=subprocess.PIPE, timeout=timeout, **kw)
        said = r.stderr.decode("utf-8", "replace")
        for word in ("Sanitizer", "runtime error"):
            self.assertNotIn(word, said, args)
        self.assertGreaterEqual(r.returncode, 0, (args, said))
        return r.returncode, r.stdout or b"", said

    def refuse(self, *args, code=1, says="", **kw):
        rc, _, said = self.ga(*args, **kw)
        self.assertEqual(rc, code, (args, said))
        self.assertIn(says, said, args)
        self.assertTrue(said.startswith("ga"), said)

    def spoil(self, says, meta=None, weights=None, drop=(), code=1):
        m, t = tiny_gguf.metadata(), tiny_gguf.tensors()
        m.update(meta or {})
        t.update(weights or {})
        for name in drop:
            m.pop(name, None)
            t.pop(name, None)
        self.put("bad.gguf", tiny_gguf.build(m, t))
        with self.subTest(meta=meta, weights=list(weights or ()), drop=drop):
            if code:
                self.refuse("run", "-m", self.bad, "-p", "hello", "-n", "4", "-t", "1", says=says)
            else:
                self.assertEqual(self.ga("run", "-m", self.bad, "-p", "hello", "-n", "4", "-t", "1")[0], 0)

    # --- model files ---

    def test_good_file_works(self):
        rc, out, said = self.ga("run", "-m", self.good, "-p", "hello", "-n", "20", "--temp", "0", "--json")
        self.assertEqual(rc, 0, said)
        self.assertEqual(json.loads(out)["generated_tokens"], 20)

    def test_absurd_numbers(self):
        for key, kind, value, says in [
            ("attention.head_count", "u32", 0, "is 0"),
            ("attention.head_count", "u32", 2**31, "2147483648"),
            ("attention.head_count", "u32", 1000, "1000 heads"),
            ("attention.head_count", "i32", -4, "-4"),
            ("attention.head_count", "f32", 4.0, "f32"),
            ("attention.head_count_kv", "u32", 3, "3 kv heads"),
            ("attention.key_length", "u32", 0, "is 0"),
            ("attention.key_length", "u32", 32, "[128, 64]"),
            ("attention.value_length", "u32", 8, "[16, 64]"),
            ("block_count", "u32", 2**32 - 1, "4294967295"),
            ("block_count", "u32", 3, "blk.2."),
            ("block_count", "text", "x", "text"),
            ("embedding_length", "u32", 0, "is 0"),
            ("embedding_length", "u32", 128, "128"),
            ("feed_forward_length", "u32", 95, "[95, 64]"),
            ("context_length", "i32", -5, "-5"),
            ("attention.layer_norm_rms_epsilon", "f32", NAN, "nan"),
            ("attention.layer_norm_rms_epsilon", "f32", -1.0, "-1"),
            ("rope.dimension_count", "u32", 18, "18"),
            ("rope.dimension_count", "u32", 15, "15"),
            ("rope.freq_base", "f32", INF, "inf"),
            ("rope.freq_base", "f32", 0.0, "base is 0"),
            ("rope.scaling.type", "text", "bogus", "bogus"),
            ("rope.scaling.factor", "f32", NAN, "nan"),
        ]:
            self.spoil(says, {"llama." + key: (kind, value)}, drop=["llama.rope.dimension_count"] if "heads" in says else ())
        self.spoil("-7", {"general.architecture": ("text", "gemma3"), "gemma3.attention.sliding_window": ("i32", -7),
                          **{k.replace("llama.", "gemma3."): v for k, v in tiny_gguf.metadata().items()
                             if k.startswith("llama.")}})

    def test_missing_parts(self):
        for key in ("general.architecture", "llama.block_count", "llama.context_length", "tokenizer.ggml.tokens"):
            self.spoil(key, drop=[key])
        for name in tiny_gguf.tensors():
            if not name.startswith("blk.1."):
                self.spoil(name, drop=[name])

    def test_types_and_shapes(self):
        for name in ("token_embd.weight", "blk.0.attn_q.weight", "blk.1.ffn_down.weight", "output_norm.weight"):
            shape = tiny_gguf.tensors()[name][0]
            for kind in (24, 28):  # i8, f64
                self.spoil(name, weights={name: (shape, kind, None)})
            is_vector = len(shape) == 1
            for other in ((shape[0] + 1,) if is_vector else (math.prod(shape),), shape + (1,)):
                self.spoil(name, weights={name: (other, 0, None)})
            # vectors of llama.cpp's converter may have dimensions of 1 before their own
            self.spoil("" if is_vector else name, weights={name: ((1,) + shape, 0, None)}, code=0 if is_vector else 1)
        self.spoil("rope_freqs.weight", weights={"rope_freqs.weight": ((8,), 0, bytes(32))})
        self.spoil("rope_freqs.weight", weights={"rope_freqs.weight": ((4,), 0, None)})

    def test_logits_that_are_no_numbers(self):
        for value in (NAN, INF):
            raw = struct.pack("<f", value) * (tiny_gguf.VOCAB * tiny_gguf.WIDTH)
            self.spoil("logit", weights={"token_embd.weight": ((tiny_gguf.VOCAB, tiny_gguf.WIDTH), 0, raw)})
            self.refuse("perplexity", "-m", self.bad, "-w", "64", __file__, "--limit", "2", says="log-likelihood")

    def test_tokenizers(self):
        def tokens(n, extra=()):
            full = tiny_gguf.metadata()["tokenizer.ggml.tokens"][1][1][:n] + list(extra)
            return {"tokenizer.ggml.tokens": ("array", ("text", full)),
                    "tokenizer.ggml.scores": ("array", ("f32", [0.0] * len(full))),
                    "tokenizer.ggml.token_type": ("array", ("i32", [1] * len(full)))}

        self.spoil("263", tokens(262, ["zz"]))
        self.spoil("", tokens(200), code=0)  # an embedding with rows to spare is usual
        self.spoil("tokenizer.ggml.scores", {"tokenizer.ggml.scores": ("array", ("f32", [0.0] * 3))})
        self.spoil("99999", {"tokenizer.ggml.bos_token_id": ("u32", 99999)})
        self.spoil("weird", {"tokenizer.ggml.model": ("text", "weird")})

    def test_templates(self):
        for template, says in [
            ("{{ raise_exception('no, thanks') }}", "no, thanks"),
            ("{% for", "template"),
            ("{{ 1 / 0 }}", "division"),
            ("{% for i in range(1000000000) %}x{% endfor %}", "1000000000"),
            ("{{ 'x' * 100000000000 }}", "template"),
            ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "deep"),
            (b"\xff\xfe", "UTF-8"),
        ]:
            self.spoil(says, {"tokenizer.chat_template": ("text", template)})
            rc, _, said = self.ga("chat", "-m", self.bad, input=b"hello\n", stdin=None)
            self.assertEqual(rc, 1, template)
            self.assertIn(says, said)
        self.spoil("", drop=["tokenizer.chat_template"], code=0)
        rc, _, said = self.ga("chat", "-m", self.bad, input=b"hello\n", stdin=None)
        self.assertEqual(rc, 1)
        self.assertIn("no chat template", said)

    def test_truncated_everywhere(self):
        whole = tiny_gguf.build()
        sizes = {0, 1, 4, 8, 16, 23, 24, 25} | {len(whole) * i // 44 for i in range(44)} | {len(whole) - 33}
        for n in sorted(sizes):
            self.put("bad.gguf", whole[:n])
            self.refuse("tokenize", "-m", self.bad, "x", says="bad.gguf")

    def test_replaced_by_garbage(self):
        self.put("bad.gguf", bytes(i * 2654435761 >> 9 & 255 for i in range(5000)))
        self.refuse("run", "-m", self.bad, "-p", "x", says="neither GGUF")

    def test_names_in_json(self):
        for name in ("\u00e9" * 60, b"\xff\xfe\x1b[31m"):
            self.put("bad.gguf", tiny_gguf.build({**tiny_gguf.metadata(), "general.name": ("text", name)}))
            rc, out, _ = self.ga("info", self.bad, "--json")
            self.assertEqual(rc, 0)
            self.assertTrue(json.loads(out)["name"])
        os.rename(self.bad, os.path.join(os.fsencode(self.folder.name), b"b\xff.gguf"))
        rc, out, _ = self.ga("run", "-m", os.path.join(os.fsencode(self.folder.name), b"b\xff.gguf"), "-p", "x", "-n", "2", "--json")
        self.assertEqual(rc, 0)
        self.assertIn("b\ufffd.gguf", json.loads(out)["model"])

    def test_escapes_in_files(self):
        """Names and texts of a file do not steer the terminal."""
        evil = "\x1b]0;title\x07\x1b[31m\x9b31m\u202e"
        self.put("bad.gguf", tiny_gguf.build({**tiny_gguf.metadata(), "general.name": ("text", evil), "x.text": ("text", evil),
                                              "tokenizer.chat_template": ("text", "{% " + evil)}))
        for code, args in ((0, ["info", self.bad]), (0, ["info", self.bad, "--meta", "--tensors"]), (1, ["run", "-m", self.bad, "-p", "x"]),
                           (0, ["tokenize", "-m", self.bad, "--pieces", evil])):
            rc, out, said = self.ga(*args)
            self.assertEqual(rc, code, (args, said))
            for c in ("\x1b", "\x07", "\x9b", "\u202e"):
                self.assertNotIn(c.encode(), out + said.encode(), args)

    def test_metadata_in_json(self):
        odd = {"x.nan": ("f32", NAN), "x.bytes": ("text", b"a\0b\xff"), "x.long": ("text", "\u00e9" * 20000),
               "x.empty": ("array", ("i32", [])), "x.three": ("array", ("bool", [True, False, True]))}
        self.put("bad.gguf", tiny_gguf.build({**tiny_gguf.metadata(), **odd}))
        rc, out, said = self.ga("info", self.bad, "--meta", "--tensors", "--json")
        self.assertEqual(rc, 0, said)
        report = json.loads(out)
        meta, whole = report["metadata"], tiny_gguf.metadata()
        self.assertEqual(set(meta), set(whole) | set(odd))
        self.assertEqual(meta["llama.context_length"], tiny_gguf.CONTEXT)
        self.assertEqual(meta["tokenizer.chat_template"], whole["tokenizer.chat_template"][1])
        self.assertEqual(meta["tokenizer.ggml.tokens"], {"type": "text", "count": tiny_gguf.VOCAB, "first": whole["tokenizer.ggml.tokens"][1][1][:8]})
        self.assertEqual(meta["x.nan"], "nan")
        self.assertEqual(meta["x.bytes"], "a\0b\ufffd")
        self.assertEqual(meta["x.long"], "\u00e9" * 20000)
        self.assertEqual(meta["x.empty"], {"type": "i32", "count": 0, "first": []})
        self.assertEqual(meta["x.three"], {"type": "bool", "count": 3, "first": [True, False, True]})
        want = [{"name": n, "type": "f32", "shape": list(shape), "bytes": 4 * math.prod(shape)} for n, (shape, _, _) in tiny_gguf.tensors().items()]
        self.assertEqual(report["tensors"], want)
        self.assertEqual(set(json.loads(self.ga("info", self.bad, "--meta", "--json")[1])), {"metadata"})

    def test_what_is_no_file(self):
        fifo = os.path.join(self.folder.name, "fifo")
        os.mkfifo(fifo)
        for path, says in [(fifo, "not a regular file"), ("/dev/zero", "not a regular file"), (self.folder.name, "folder"),
                           ("", "empty"), ("/nonexistent/x", "no such file"), ("x" * 5000, "5000")]:
            for command in (["info"], ["run", "-p", "x"], ["tokenize", "x"], ["embed", "x"], ["perplexity", __file__]):
                self.refuse(*command, "-m", path, says=says, timeout=10)

    # --- command lines ---

    def test_options(self):
        run = ["run", "-m", self.good, "-p", "hi", "-n", "2"]
        for args, code, says in [
            (["--bogus"], 2, "--bogus"), (["-n", "0"], 2, "'0'"), (["-n", "9" * 25], 2, "99"), (["-n", "1.5"], 2, "1.5"),
            (["-c", "-1"], 2, "-1"), (["-c", "1000000000"], 1, "1000000000"), (["-c", "1"], 1, "1"),
            (["--temp", "nan"], 2, "nan"), (["--temp", "0,5"], 2, "0,5"), (["--top-p", "0"], 2, "top-p"),
            (["--deterministic", "-b", "2"], 1, "batch 2, deterministic; must be 1"), (["--deterministic=1"], 2, "takes no value"),
            (["--gpu-layers", "-2"], 2, "from -1 to 512"), (["--gpu-layers", "1", "-d", "cpu"], 1, "cpu is no GPU"),
            (["-d", "cpu,cpu"], 1, "cpu is there twice"), (["-d", "cpu,"], 2, "'cpu,' is not known"),
            (["--kv-type", "x"], 2, "'x'"), (["--kv-type", "i8"], 2, "i8"), (["--kv-type", "q8_0"], 1, "q8_0"),
            (["-d", "abacus"], 2, "abacus"), (["-d", "cuda:x"], 2, "cuda:x"), (["-d", "cpu:"], 2, "cpu:"), (["-t", "1025"], 2, "1025"), (["extra"], 2, "twice"), (["-m"], 2, "value"),
        ]:
            with self.subTest(args=args):
                self.refuse(*run, *args, code=code, says=says)
        for args in (["-n", "1000000000"], ["--temp", "1", "--top-k", "1000000000"], ["-b", "1"], ["-c", "0"], ["-n", "010"],
                     ["--temp", "100", "--repeat-penalty", "100", "--repeat-last", "0"], ["--kv-type", "bf16"]):
            self.assertEqual(self.ga(*run, *args)[0], 0, args)
        for command in ("info", "kernels", "check", "bench", "probe", "run", "chat", "embed", "tokenize", "perplexity", "pull"):
            self.refuse(command, "--bogus", code=2, says="--bogus")
            self.assertEqual(self.ga(command, "--help")[0], 0)
        self.refuse("nothing", code=2, says="nothing")
        self.refuse("perplexity", "-m", self.good, "-w", "64", "-c", "32", __file__, says="32")

    def test_prompts(self):
        self.refuse("run", "-m", self.good, "-p", "", says="empty")
        self.refuse("embed", "-m", self.good, "-f", "/dev/null", says="no text")
        self.refuse("run", "-m", self.good, "-f", self.folder.name, says="directory")
        self.refuse("run", "-m", self.good, "-p", "x" * 500, says="128")
        for prompt, says in ((b"a\0b", "NUL"), (b"\xff\xfe", "UTF-8")):
            self.refuse("run", "-m", self.good, stdin=None, input=prompt, says=says)
            self.assertEqual(self.ga("run", "-m", self.good, "--no-template", "-n", "2", stdin=None, input=prompt)[0], 0)
        rc, _, said = self.ga("chat", "-m", self.good, stdin=None, input=b"a\0b\n")
        self.assertEqual((rc, "NUL" in said), (1, True))

    def test_control_tokens_in_a_prompt(self):
        """A prompt that spells the token that ends a turn costs as many tokens as its name has bytes, not one."""
        tokens = []
        for prompt in ("a</s>a", "a<./s>a"):
            out = self.ga("run", "-m", self.good, "-p", prompt, "-n", "2", "--json")[1]
            tokens.append(json.loads(out)["prompt_tokens"])
        self.assertEqual(tokens[0] + 1, tokens[1])

    def test_homeless(self):
        env = {k: v for k, v in os.environ.items() if k not in ("HOME", "XDG_CACHE_HOME", "GA_MODELS")}
        for command in (["run", "-p", "x"], ["pull", "smollm2-135m"]):
            self.refuse(*command, env=env, says="HOME")
        self.assertEqual(self.ga("run", "-m", self.good, "-p", "x", "-n", "2", env=env)[0], 0)

    def test_log(self):
        self.refuse("info", code=2, says="GA_LOG is 'loud'; allowed: debug, info, warn, error, off", env=dict(os.environ, GA_LOG="loud"))
        _, _, said = self.ga("info", "-m", self.good, env=dict(os.environ, GA_LOG="info", CUDA_VISIBLE_DEVICES=""))
        self.assertNotIn("error", said)

    def test_locales(self):
        want = json.loads(self.ga("run", "-m", self.good, "-p", "x", "--temp", "0.5", "-s", "1", "--json")[1])["text"]
        for name in ("tr_TR.UTF-8", "de_DE.UTF-8", "C.UTF-8", "no such locale"):
            rc, out, _ = self.ga("run", "-m", self.good, "-p", "x", "--temp", "0.5", "-s", "1", "--json", env={**os.environ, "LC_ALL": name})
            self.assertEqual((rc, json.loads(out)["text"]), (0, want))

    # --- streams ---

    REPORTS = (["info"], ["kernels"], ["--help"], ["--version"], ["run", "--help"], ["pull", "--list"], ["check", "--list"],
               ["check", "-k", "add*", "-n", "1"])

    def reports(self):
        m = ["-m", self.good]
        return (*self.REPORTS, ["info", *m], ["info", *m, "--json"], ["info", *m, "--meta"], ["tokenize", *m, "hello"],
                ["run", *m, "-p", "x", "-n", "2"], ["run", *m, "-p", "x", "-n", "2", "--json"], ["perplexity", *m, "-w", "64", __file__, "--limit", "1"])

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full here")
    def test_full_stdout(self):
        with open("/dev/full", "wb") as full:
            for args in self.reports():
                self.refuse(*args, stdout=full, says="cannot write")
            rc, _, said = self.ga("chat", "-m", self.good, "-n", "2", stdin=None, input=b"x\n", stdout=full)
            self.assertEqual((rc, "cannot write" in said), (1, True))

    def test_closed_streams(self):
        for args in self.reports():
            r = subprocess.run(["/bin/sh", "-c", 'exec "$0" "$@" >&-', GA, *args], stderr=subprocess.PIPE, timeout=30)
            self.assertEqual(r.returncode, 1, args)
            self.assertIn(b"cannot write", r.stderr)
        for command in (["run"], ["chat"]):
            r = subprocess.run(["/bin/sh", "-c", 'exec "$0" "$@" <&-', GA, *command, "-m", self.good], capture_output=True, timeout=30)
            self.assertEqual(r.returncode, 1, command)

    def test_head(self):
        """`ga run | head -1`: the first line whole, the program gone."""
        script = f'"{GA}" run -m "$0" --no-template -p x -n 100 -q 2>/dev/null | head -c 1 | wc -c; exit ${{PIPESTATUS[0]}}'
        r = subprocess.run(["bash", "-c", script, self.good], capture_output=True, timeout=60,
                           preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_DFL))
        self.assertIn(r.returncode, (0, 1, 128 + signal.SIGPIPE))
        self.assertEqual(r.stdout.strip(), b"1")

    def test_reader_that_leaves(self):
        p = subprocess.Popen([GA, "run", "-m", self.good, "-p", "x", "-n", "100"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                             preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_DFL))
        p.stdout.close()
        self.assertIn(p.wait(30), (-signal.SIGPIPE, 1))

    # --- signals ---

    def test_interrupt_in_every_stage(self):
        """At whatever moment: an exit code of its own, or the work was done already, or not begun."""
        seen = set()
        for ms in (0, 2, 4, 6, 8, 12, 16, 24, 40):
            p = subprocess.Popen([GA, "perplexity", "-m", self.good, "-w", "128", "-"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            feeder = threading.Thread(target=self.feed, args=(p,))
            feeder.start()
            time.sleep(ms / 1000)
            p.send_signal(signal.SIGINT)
            seen.add(p.wait(60))
            p.stderr.close()
            feeder.join()
        self.assertTrue(seen <= {130, 0, -signal.SIGINT}, seen)
        self.assertNotEqual(seen, {0})

    def test_interrupt_within_a_window(self):
        """A window takes a minute, a batch of it milliseconds: Ctrl-C does not wait for the window's end."""
        path = self.put("long.gguf", tiny_gguf.build({**tiny_gguf.metadata(), "llama.context_length": ("u32", 1 << 17)}))
        with tempfile.TemporaryFile() as f:
            f.write(b"a word " * 30000)
            f.seek(0)
            p = subprocess.Popen([GA, "perplexity", "-m", path, "-w", "131072", "-b", "32", "-t", "1", "-"], stdin=f,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.addCleanup(p.kill)
            time.sleep(5 if is_sanitized() else 1.5)
            self.assertIsNone(p.poll())
            p.send_signal(signal.SIGINT)
            began = time.time()
            out, said = p.communicate(timeout=60)
        self.assertLess(time.time() - began, 10 if is_sanitized() else 2)
        self.assertEqual((p.returncode, out), (130, b""))
        self.assertRegex(said.decode(), r"window 1 of 1: stopped after \d+ of 131072 tokens")

    def stopped(self, *args, after, **kw):
        """Starts, sends SIGINT after so many seconds; the command must still be at work then, and end soon."""
        p = subprocess.Popen([GA, *args], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **kw)
        self.addCleanup(p.stderr.close)
        self.addCleanup(p.kill)
        time.sleep(after * (4 if is_sanitized() else 1))
        self.assertIsNone(p.poll(), (args, "was done too early"))
        p.send_signal(signal.SIGINT)
        began = time.time()
        said = p.stderr.read().decode()
        self.assertEqual(p.wait(60), 130, (args, said))
        self.assertLess(time.time() - began, 10 if is_sanitized() else 2, args)
        self.assertIn("stopped", said, args)

    def test_interrupt_while_tokenising(self):
        """A text of 120 MB: five seconds and more of tokenising, for which there is no progress callback."""
        path = os.path.join(self.folder.name, "text")
        with open(path, "wb") as f:
            for _ in range(30):
                f.write(b"a aa \xc3\xa4b " * (1 << 19))
        self.addCleanup(os.remove, path)
        for args in (("run", "--no-template"), ("tokenize",), ("perplexity", "-w", "64")):
            self.stopped(*args, "-m", self.good, "-f", path, after=0.7)

    def test_interrupt_while_reading(self):
        """Standard input that never comes."""
        for command in ("run", "tokenize", "embed", "perplexity"):
            r, w = os.pipe()
            try:
                self.stopped(command, "-m", self.good, *(("-",) if command == "perplexity" else ()), stdin=r, after=0.5)
            finally:
                os.close(r)
                os.close(w)

    def test_interrupt_of_a_bench(self):
        self.stopped("bench", "-m", self.good, "-r", "1000", "--prompt", "100", "--decode", "100", "-t", "1", after=0.7)

    @staticmethod
    def feed(p):
        with contextlib.suppress(OSError):
            p.stdin.write(b"some words to read again and again, " * 20000)
        with contextlib.suppress(OSError):
            p.stdin.close()

    def test_chat_on_a_terminal(self):
        try:
            pid, fd = chat_rig.spawn(GA, "chat", "-m", self.good, "-n", "3")
        except OSError as e:
            self.skipTest(f"no pseudo-terminals here: {e}")
        try:
            self.wait_for(fd, b"> ")
            os.write(fd, b"\x03")
            self.wait_for(fd, b"leaves", again=b"\x03")  # one that comes just before the prompt waits is lost
            os.write(fd, b"/nope\n")
            self.wait_for(fd, b"no command")
            os.write(fd, b"hi\n")
            self.wait_for(fd, b"> ")
            os.write(fd, b"/quit\n")
            deadline = time.time() + 20
            done = (0, 0)
            while done[0] == 0 and time.time() < deadline:
                with contextlib.suppress(OSError):
                    if select.select([fd], [], [], 0.1)[0]:
                        os.read(fd, 4096)
                done = os.waitpid(pid, os.WNOHANG)
            self.assertEqual(done[0], pid, "still running after /quit")
            self.assertEqual(os.waitstatus_to_exitcode(done[1]), 0)
            pid = 0
        finally:
            if pid:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            os.close(fd)

    def test_model_that_steers_the_terminal(self):
        """Every token of this model is a sequence that sets the clipboard, then a letter."""
        meta = tiny_gguf.metadata()
        tokens, types = meta["tokenizer.ggml.tokens"][1][1], meta["tokenizer.ggml.token_type"][1][1]
        meta["tokenizer.ggml.tokens"] = ("array", ("text", tokens[:3] + [f"\x1b]52;c;{i}\x07\x9b5mx\x7f" for i in range(len(tokens) - 3)]))
        meta["tokenizer.ggml.token_type"] = ("array", ("i32", types[:3] + [1] * (len(types) - 3)))
        evil = self.put("evil.gguf", tiny_gguf.build(meta))
        args = ["run", "-m", evil, "-q", "--no-template", "-p", "x", "-n", "20", "-t", "1"]
        _, piped, _ = self.ga(*args)
        self.assertIn(b"\x1b]52;c;", piped)  # all bytes, where no terminal is
        pid, fd = chat_rig.spawn(GA, *args)
        seen = b""
        with contextlib.suppress(OSError):
            while part := os.read(fd, 4096):
                seen += part
        os.close(fd)
        os.waitpid(pid, 0)
        seen = seen.replace(b"\x1b[K", b"")  # the program's own progress
        self.assertIn(b"]52;c;", seen)
        for control in (b"\x1b", b"\x07", b"\x7f", b"\xc2\x9b"):
            self.assertNotIn(control, seen)

    def wait_for(self, fd, word, again=None):
        seen, deadline, retry = b"", time.time() + 20, time.time() + 2
        while word not in seen:
            self.assertLess(time.time(), deadline, (word, seen))
            if again and time.time() > retry:
                os.write(fd, again)
                retry = time.time() + 2
            if select.select([fd], [], [], 0.1)[0]:
                seen += os.read(fd, 4096)

    # --- resources ---

    @unittest.skipIf(is_sanitized(), "sanitizers reserve address space")
    def test_little_memory(self):
        """From too little for the loader on: an error in words each time, and success at the end."""
        big = ["run", "-m", self.good, "-p", "x", "-n", "2", "-q"]
        codes = []
        image = os.path.getsize(GA) >> 20 # with less than the program itself there is nobody to speak
        for mib in (*range(image + 4, image + 28), 64, 96, 128, 256, 1024):
            r = subprocess.run([GA, *big], stdin=subprocess.DEVNULL, capture_output=True, timeout=30,
                               preexec_fn=lambda m=mib: resource.setrlimit(resource.RLIMIT_AS, (m << 20, m << 20)))
            self.assertIn(r.returncode, (0, 1, 127), (mib, r.stderr))
            self.assertTrue(r.returncode == 0 or r.stderr, mib)
            codes.append(r.returncode)
        self.assertEqual(codes[-1], 0)

    @unittest.skipIf(is_sanitized(), "sanitizers need files of their own")
    def test_few_files(self):
        for n in (3, 4, 5, 8):
            r = subprocess.run([GA, "run", "-m", self.good, "-p", "x", "-n", "2"], stdin=subprocess.DEVNULL, capture_output=True, timeout=30,
                               preexec_fn=lambda m=n: resource.setrlimit(resource.RLIMIT_NOFILE, (m, m)))
            self.assertIn(r.returncode, (0, 1, 127), (n, r.stderr))
            self.assertTrue(r.returncode == 0 or r.stderr, n)


if __name__ == "__main__":
    unittest.main()
