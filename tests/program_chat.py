#!/usr/bin/env python3
"""`ga chat` on a pseudo-terminal and through pipes: keys, pastes, resizes, Ctrl-C at many moments, Ctrl-Z, commands, files, what is sampled.
Usage: program_chat.py GA"""
import contextlib
import json
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import chat_rig
import tiny_gguf
from chat_rig import Terminal, plain

GA = os.path.abspath(sys.argv.pop(1))
WORDS = ["The", " quick", " brown", " fox", " jumps", " over", " thirteen", " lazy", " dogs", ";"]
PASTE = "\x1b[200~{}\x1b[201~"


class Chat(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="ga chat \u00e9 ")
        cls.words = cls.put("words.gguf", chat_rig.script(WORDS))
        cls.endless = cls.put("endless.gguf", chat_rig.script(WORDS, loop=True, context=50000))
        cls.tiny = cls.put("tiny.gguf", tiny_gguf.build())

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def put(cls, name, raw):
        path = os.path.join(cls.folder.name, name)
        with open(path, "wb") as f:
            f.write(raw)
        return path

    def setUp(self):
        self.state = tempfile.mkdtemp(dir=self.folder.name)
        self.env = {"XDG_STATE_HOME": self.state, "LC_ALL": "C.UTF-8"}

    def terminal(self, model, *args, **kw):
        env = {**self.env, **kw.pop("env", {})}
        t = Terminal(GA, "chat", "-m", model, "-t", "1", *args, env=env, **kw)
        self.addCleanup(t.__exit__)
        t.prompt()
        return t

    def pipe(self, model, text, *args, code=0, **env):
        r = subprocess.run([GA, "chat", "-m", model, "-t", "1", *args], input=text.encode(), capture_output=True, timeout=60,
                           env={**os.environ, **self.env, **env})
        self.assertEqual(r.returncode, code, r.stderr)
        return r.stdout.decode(), r.stderr.decode()

    def history(self, t):
        return t.say("/history")

    # --- keys ---

    def test_a_paste_is_one_message(self):
        t = self.terminal(self.words)
        t.type(PASTE.format("first line\nsecond\tline\rthird \u00e9\u4e16\u754c"))
        t.wait("third")
        t.say("")
        shown = self.history(t)
        self.assertIn("user: first line\nsecond  line\nthird \u00e9\u4e16\u754c\n", shown)
        self.assertEqual(shown.count("user:"), 1)

    def test_a_paste_holds_no_keys(self):
        t = self.terminal(self.words)
        t.type(PASTE.format("ab\x04c\x1b[Ad\x08e"))
        t.say("")
        self.assertIn("user: abc[Ade\n", self.history(t))

    def test_pastes_are_marked_while_it_runs(self):
        t = Terminal(GA, "chat", "-m", self.words, env=self.env)
        self.addCleanup(t.__exit__)
        self.assertIn(b"\x1b[?2004h", t.prompt())
        t.type("/quit\r")
        self.assertEqual(t.end(), 0)
        self.assertIn(b"\x1b[?2004l", t.seen)

    def test_lines_that_go_on(self):
        t = self.terminal(self.words)
        t.type('one\\\r')
        t.wait("... ")
        t.say("two")
        t.type('"""three\r')
        t.wait("... ")
        t.type("four\r")
        t.wait("... ")
        t.say('five"""')
        t.say('"""six"""')
        shown = self.history(t)
        for message in ("user: one\ntwo\n", "user: three\nfour\nfive\n", "user: six\n"):
            self.assertIn(message, shown)
        self.assertEqual(shown.count("user:"), 3)

    def test_lines_that_go_on_in_a_pipe(self):
        out, _ = self.pipe(self.words, 'one\\\ntwo\n"""\nthree\nfour\n"""\n/history\n')
        self.assertIn("user: one\ntwo\n", out)
        self.assertIn("user: three\nfour\n", out)
        _, said = self.pipe(self.words, '"""\nthree\n', code=1)
        self.assertIn('""" is missing', said)
        for text in ("one\\", "one\\\n"):
            _, said = self.pipe(self.words, text, code=1)
            self.assertIn("the line behind the one that ends with \\ is missing", said)

    def test_lines_of_windows_in_a_pipe(self):
        out, said = self.pipe(self.words, "one\\\r\ntwo\r\n/temp 0\r\n/history\r\n")
        self.assertEqual(said, "")
        self.assertIn("user: one\ntwo\n", out)
        self.assertNotIn("\r", out)

    def test_a_paste_larger_than_memory(self):
        """Nothing of it is taken: its newlines are no Enter."""
        t = self.terminal(self.words)
        with open(f"/proc/{t.pid}/maps") as f:
            if re.search("lib[at]san", f.read()):
                self.skipTest("sanitizers reserve address space")
        with open(f"/proc/{t.pid}/status") as f:
            held = int(re.search(r"VmSize:\s+(\d+)", f.read())[1]) << 10
        resource.prlimit(t.pid, resource.RLIMIT_AS, (held + (1 << 20), held + (1 << 20)))
        writer = threading.Thread(target=t.type, args=(PASTE.format("/system of a paste\n" * 20000),))
        writer.start()
        while writer.is_alive():
            t.read()
        writer.join()
        t.wait(b"\x07")
        t.type("/system")
        t.wait("/system")
        self.assertIn("(no system message)", t.say(""))

    def test_keys_during_an_answer(self):
        """They are not shown inside it; the next prompt has them."""
        t = self.terminal(self.endless, "-n", "6000", "-c", "8000", columns=200)
        t.type("go\r")
        t.wait("quick")
        t.type("zebra")
        self.assertFalse(t.echo())
        answer = plain(t.prompt())
        self.assertIn("(cut after 6000", answer)
        self.assertNotIn("z", answer.replace("lazy", ""))
        t.wait("zebra")
        t.type("s\r")
        t.wait("quick")
        t.type(b"\x03")
        t.prompt()
        self.assertIn("user: zebras\n", self.history(t))
        t.type("/quit\r")
        t.end()
        self.assertTrue(t.echo())

    def test_interrupts(self):
        """While typing, while reading a long prompt, while answering, and twice."""
        t = self.terminal(self.endless, "-n", "-1", "-b", "64", "-c", "20000", columns=200, rows=60)
        for _ in range(3):  # not one of them is lost
            t.type(b"half a line\x03")
            t.wait("leaves")
            t.prompt()
        t.type(b"\x03")
        t.wait("leaves")
        t.prompt()
        t.type("go\r")
        t.wait("quick")
        t.type(b"\x03")
        t.wait("(stopped)")
        t.prompt()
        t.type(PASTE.format("word " * 1500 + "end"))
        t.wait("end")
        t.type("\r")
        t.wait("reading")
        t.type(b"\x03")
        t.wait("(stopped)")
        t.prompt()
        self.assertIn("user: go\n", self.history(t))
        t.type(b"\x04")
        self.assertEqual(t.end(), 0)

    def test_keys_right_behind_ctrl_c(self):
        """The first of them belongs to the next line, though it comes before the program knows of Ctrl-C."""
        t = self.terminal(self.words)
        for i in range(20):
            t.type(b"abc\x03/temp\r")
            t.wait("leaves)")
            self.assertIn("(temperature", plain(t.wait(re.compile(rb"\(temperature|quick"))), i)
            t.prompt()

    def test_interrupts_at_any_moment(self):
        """While it starts, loads, shows its first prompt, answers: it ends or goes on, and the terminal is as it was afterwards."""
        ends, began = set(), time.time()
        self.terminal(self.endless)
        unit = max(0.0008, 2 * (time.time() - began) / 23**2)  # the last ones come behind the first prompt on a busy machine, too
        for moment in range(24):
            t = Terminal(GA, "chat", "-m", self.endless, "-t", "1", "-n", "-1", env=self.env)
            self.addCleanup(t.__exit__)
            t.type("go\r")  # typed ahead
            time.sleep(moment * moment * unit)
            with contextlib.suppress(OSError):
                t.type(b"\x03")
                time.sleep(0.02)
                t.type(b"\x03" if moment % 3 == 0 else b"")
            deadline = time.time() + 30
            while t.status is None and time.time() < deadline:
                with contextlib.suppress(OSError):
                    t.type(b"\x04" if b"> " in t.seen[-4:] else b"")
                with contextlib.suppress(AssertionError):
                    t.end(0.1)
                if len(t.seen) > 100000:  # the keys were lost, as those before a program listens are: it answers
                    t.seen = b""
                    t.type(b"\x03")
            self.assertIn(t.status, (0, 130, -2), moment)
            ends.add(t.status)
            self.assertTrue(t.echo(), moment)
        self.assertGreater(len(ends), 1)

    def test_a_signal_leaves_the_terminal_as_it_was(self):
        for number in (15, 1):
            t = self.terminal(self.endless, "-n", "-1")
            t.type("go\r")
            t.wait("quick")
            self.assertFalse(t.echo())
            os.kill(t.pid, number)
            self.assertEqual(t.end(), -number)
            self.assertIn(b"\x1b[?2004l", t.seen)
            self.assertTrue(t.echo())

    def test_stopped_and_on_again(self):
        """Ctrl-Z at the prompt and in an answer: the shell has its terminal again, and behind `fg` all is as before."""
        sh = Terminal("/bin/sh", "-i", env={**self.env, "PS1": "SHELL$ ", "ENV": ""}, columns=200)
        self.addCleanup(sh.__exit__)
        sh.wait("SHELL$ ")
        sh.type(f"'{GA}' chat -m '{self.endless}' -t 1 -n -1\n")
        sh.wait("lists the commands")
        sh.prompt()
        for where in ("prompt", "answer"):
            if where == "answer":
                sh.type("go\r")
                sh.wait("quick")
            sh.type(b"\x1a")
            self.assertIn(b"\x1b[?2004l", sh.wait("SHELL$ "), where)
            sh.type("stty -a\n")
            self.assertRegex(plain(sh.wait("SHELL$ ")), r"(?s) icrnl .* icanon .* echo ")
            sh.type("fg\n")
            sh.wait(b"\x1b[?2004h")
            if where == "answer":
                sh.wait("quick")
                self.assertFalse(sh.echo())
                sh.type(b"\x03")
                sh.wait("(stopped)")
                sh.prompt()
            sh.type(PASTE.format("/temp\nis no command"))
            sh.wait("no command")
            sh.type(b"\x03")
            sh.prompt()
        shown = self.history(sh)
        self.assertEqual(shown.count("user:"), 1, shown[:300])

    def test_resize(self):
        t = self.terminal(self.endless, "-n", "-1", columns=60)
        t.type("go\r")
        t.wait("quick")
        t.resize(30)
        time.sleep(0.3)
        t.seen = b""
        while t.seen.count(b"\n") < 50:
            t.read()
        t.type(b"\x03")
        lines = plain(t.wait("(stopped)")).split("\n")[20:40]
        self.assertLessEqual(max(map(len, lines)), 30)
        t.prompt()
        t.resize(20)
        t.type("/long words wrap over")
        time.sleep(0.2)
        t.resize(11)
        time.sleep(0.2)
        t.resize(40)
        t.type(" several rows")
        t.wait("rows")
        self.assertIn("/long is no command", t.say(""))

    def test_resize_of_a_line_that_goes_on(self):
        """Its prompt takes four columns: with them what was typed takes two rows, and the cursor goes up one."""
        t = self.terminal(self.words, columns=60)
        t.type("one\\\r")
        t.wait("... ")
        t.type("x" * 17)
        t.wait("x" * 17)
        time.sleep(0.2)
        t.read()
        t.seen = b""
        t.resize(20)
        t.wait(b"\x1b[1A\r\x1b[J", 5)

    # --- what is shown ---

    def test_words_wrap_whole(self):
        whole = "".join(WORDS)
        for columns in (12, 20, 27, 43, 44, 80):
            t = self.terminal(self.words, columns=columns)
            lines = t.say("x").strip("\n").split("\n")[1:]
            self.assertEqual(" ".join(lines), whole, columns)
            self.assertLessEqual(max(map(len, lines)), columns)
            t.__exit__()
            t.status = 0
            t.fd = os.open(os.devnull, os.O_RDONLY)
        out, _ = self.pipe(self.words, "x\n")
        self.assertEqual(out, whole + "\n")

    def test_notes_wrap_whole(self):
        """Help, errors, the history and the first line break between words, as answers do."""
        said = "hello there, " * 9
        for columns in (24, 40, 66, 100):
            t = Terminal(GA, "chat", "-m", self.words, "-t", "1", env=self.env, columns=columns)
            self.addCleanup(t.__exit__)
            shown = {"first": plain(t.prompt().split(b"\x1b[K")[-1])[:-2]}
            t.say(said)
            for command in ("/help", "/history", "/nothing is called so", "/stats", "/save", "/model"):
                shown[command] = t.say(command).split("\n", -(-(2 + len(command)) // columns))[-1]  # behind what was typed
            for what, text in shown.items():
                lines = text.strip("\n").split("\n")
                broken = [line for line in lines if len(line) > columns and " " in line.strip()]
                self.assertEqual(broken, [], (what, columns))
            self.assertIn(" ".join(("user: " + said).split()), " ".join(shown["/history"].split()))
            flat = " ".join(shown["/help"].split())
            self.assertIn("/system [TEXT] the system message from now on; none takes it away; without TEXT: show it /history", flat)
            self.assertIn("is no command; /help lists them. A message that begins with / : put a space before it", " ".join(shown["/nothing is called so"].split()))

    def test_the_name_that_was_typed(self):
        folder = os.path.dirname(self.words)
        for typed in (self.words, "words.gguf"):
            t = Terminal(GA, "chat", "-m", typed, env={**self.env, "GA_MODELS": folder}, columns=400)
            self.addCleanup(t.__exit__)
            self.assertIn(f"{typed}; /help lists the commands", plain(t.prompt()))
            self.assertIn(f"({typed} on cpu)", t.say("/model"))
            self.assertIn("(tiny.gguf on cpu)", t.say("/model tiny.gguf"))

    def run_on_terminal(self, model, *args, **kw):
        try:
            t = Terminal(GA, "run", "-m", model, "-q", *args, "x\n", **{**kw, "env": {**self.env, **kw.get("env", {})}})
        except OSError as e:
            self.skipTest(f"no pseudo-terminals here: {e}")
        self.addCleanup(t.__exit__)
        self.assertEqual(t.end(), 0)
        return t.seen.split(b"\x1b[K")[-1]  # behind the progress

    def test_run_wraps_words_whole(self):
        whole = "".join(WORDS)
        for columns in (12, 27, 44):
            for more in ([], ["--no-template"]):
                shown = chat_rig.plain(self.run_on_terminal(self.words, *more, columns=columns))
                lines = shown.strip("\n").split("\n")
                self.assertEqual(" ".join(lines), whole, (columns, more))
                self.assertLessEqual(max(map(len, lines)), columns)
        r = subprocess.run([GA, "run", "-m", self.words, "-q", "x"], capture_output=True, text=True, timeout=60)
        self.assertEqual(r.stdout, whole + "\n")

    def test_run_renders_answers_alone(self):
        _, text, model = self.markdown()
        raw = self.run_on_terminal(model)
        self.assertIn(b"and a \x1b[1mbold text\x1b[22m,", raw)
        self.assertIn(b"```\x1b[39m\r\nend", raw)
        for args, env in (([], {"NO_COLOR": "1"}), (["--no-template"], {})):  # a text that goes on is not rendered
            self.assertIn(text.replace("\n", "\r\n").encode(), self.run_on_terminal(model, *args, env=env))
        r = subprocess.run([GA, "run", "-m", model, "-q", "x"], capture_output=True, text=True, timeout=60)
        self.assertEqual(r.stdout, text + "\n")

    def test_progress_fits_the_terminal(self):
        for columns in (1, 5, 20, 63, 64):
            t = Terminal(GA, "run", "-m", self.words, "-n", "1", "x", columns=columns)
            self.addCleanup(t.__exit__)
            self.assertEqual(t.end(), 0)
            lines = t.seen.split(b"\x1b[K")[0].split(b"\r")
            self.assertGreater(len(lines), 2)
            self.assertLessEqual(max(map(len, lines)), max(columns - 1, 6), columns)
            self.assertEqual(any(b" [#" in line for line in lines), columns >= 64, columns)  # the bar

    def test_errors_are_not_glued_to_progress(self):
        big = self.put("big.gguf", chat_rig.script(WORDS, context=50000))
        t = self.terminal(big, "-b", "16")
        t.type("x " * 1900 + "\r")
        t.wait("reading")
        t.type("\x03")
        raw = t.wait("stopped)")
        self.assertRegex(raw, rb"\r\x1b\[K[\r\n]*\(stopped\)$")

    def test_long_words_and_wide_letters(self):
        model = self.put("wide.gguf", chat_rig.script(["x" * 50, " **", "\u4f60\u597d" * 12, "**", " y"]))
        t = self.terminal(model, columns=20)
        raw = t.say("x")
        lines = raw.strip("\n").split("\n")[1:]
        self.assertEqual(lines[:3], ["x" * 20, "x" * 20, "x" * 10 + " \u4f60\u597d\u4f60\u597d"])
        self.assertEqual("".join(lines[3:]).replace(" ", ""), "\u4f60\u597d" * 10 + "y")
        self.assertLessEqual(max(map(len, lines[3:])), 10)

    def markdown(self, env=None, columns=80):
        pieces = ["##", " Head\n", "and a", " **", "bold", " text", "**,", " 2", " **", " 3,", " `co", "de`", ".\n", "```", "c\n", "  int", " **", "p;\n", "```", "\nend"]
        model = self.put("markdown.gguf", chat_rig.script(pieces))
        t = self.terminal(model, env=env or {}, columns=columns)
        t.type("x\r")
        return t.prompt(), "".join(pieces), model

    def test_markdown(self):
        raw, text, model = self.markdown()
        for part in (b"\x1b[1m## Head\x1b[22m", b"and a \x1b[1mbold text\x1b[22m,", b"2 ** 3,", b"\x1b[36mcode\x1b[39m.", b"\x1b[36m```c", b"  int **p;"):
            self.assertIn(part, raw)
        self.assertIn(b"```\x1b[39m\r\nend", raw)
        self.assertEqual(self.pipe(model, "x\n")[0], text + "\n")

    def test_no_colour(self):
        for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            raw, text, _ = self.markdown(env)
            self.assertIn(text.replace("\n", "\r\n").encode(), raw)
        self.assertIn(b"\x1b[1m", self.markdown({"NO_COLOR": ""})[0])

    # --- what is sampled ---

    def answers(self, model, *args, n=6):
        return [self.pipe(model, "x\n", "-n", "12", *args)[0] for _ in range(n)]

    def test_sampling_of_the_model(self):
        """Nothing given: not always the same; --temp 0: always; what the file says holds."""
        self.assertGreater(len(set(self.answers(self.tiny))), 1)
        self.assertEqual(len(set(self.answers(self.tiny, "--temp", "0"))), 1)
        own = self.put("own.gguf", tiny_gguf.build({**tiny_gguf.metadata(), "general.sampling.temp": ("f32", 0.0)}))
        self.assertEqual(len(set(self.answers(own))), 1)
        self.assertGreater(len(set(self.answers(own, "--temp", "5"))), 1)
        own = self.put("own.gguf", tiny_gguf.build({**tiny_gguf.metadata(), "general.sampling.top_k": ("u32", 1)}))
        self.assertEqual(len(set(self.answers(own))), 1)
        for value, says in ((("f32", -3.0), "is -3, which is not from 0 to 100"), (("text", "hot"), "is no number")):
            own = self.put("own.gguf", tiny_gguf.build({**tiny_gguf.metadata(), "general.sampling.temp": value}))
            self.assertIn(says, self.pipe(own, "x\n", "-n", "2")[1])

    def test_sampling_where_the_model_says_nothing(self):
        def answer(*args):
            return self.pipe(self.tiny, "x\n", "-n", "60", "--seed", "7", *args)[0]

        defaults = {"--temp": "0.7", "--top-p": "0.9", "--top-k": "40", "--repeat-penalty": "1.1", "--repeat-last": "64"}
        given = answer()
        self.assertEqual(given, answer(*(word for pair in defaults.items() for word in pair)))
        for option, other in (("--temp", "1.5"), ("--top-p", "0.1"), ("--top-k", "2"), ("--repeat-penalty", "1"), ("--repeat-last", "1")):
            self.assertNotEqual(given, answer(option, other), option)

    def test_sampling_of_a_folder(self):
        """generation_config.json beside safetensors."""
        path = os.path.join(self.state, "folder")
        shutil.copytree(os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "arch", "llama"), path)
        tokens = ["<unk>", "<s>", "</s>", "\u0120"] + [chr(c) for c in range(0x21, 0x21 + 92)]
        special = [{"id": i, "content": tokens[i], "special": True} for i in range(3)]
        files = {"tokenizer.json": {"added_tokens": special, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False}, "decoder": {"type": "ByteLevel"},
                                    "model": {"type": "BPE", "vocab": {t: i for i, t in enumerate(tokens)}, "merges": []}},
                 "tokenizer_config.json": {"chat_template": "{% for m in messages %}{{ m.content }}{% endfor %}", "eos_token": "</s>"}}

        def write(**config):
            for name, value in {**files, "generation_config.json": config}.items():
                with open(os.path.join(path, name), "w") as f:
                    json.dump(value, f)

        for config, kinds in (({"temperature": 3.0, "top_p": 1.0}, 2), ({"temperature": 3.0, "top_k": 1}, 1), ({"do_sample": False, "temperature": 3.0}, 1),
                              ({"temperature": 1e-9}, 1), ({"eos_token_id": 2}, 2), ({"temperature": None}, 2)):
            write(**config)
            said = len(set(self.answers(path)))
            self.assertGreaterEqual(said, kinds, config) if kinds > 1 else self.assertEqual(said, 1, config)
        write(temperature=-1)
        self.assertIn("temperature is -1, which is not from 0 to 100: not used", self.pipe(path, "x\n", "-n", "2")[1])
        for raw in ("{", '{"\u009b2J\u202e": nope}', '{"a": \u009b2J}'):
            with open(os.path.join(path, "generation_config.json"), "w", encoding="utf-8") as f:
                f.write(raw)
            _, said = self.pipe(path, "x\n", "-n", "2")
            self.assertIn("generation_config.json: ", said)
            self.assertNotIn("\u009b", said)

    def test_template_of_a_folder(self):
        """chat_template.jinja, else tokenizer_config.json: a text, or several with names."""
        path = os.path.join(self.state, "folder")
        shutil.copytree(os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "arch", "llama"), path)
        tokens = ["<unk>", "<s>", "</s>", "\u0120"] + [chr(c) for c in range(0x21, 0x21 + 92)]
        with open(os.path.join(path, "tokenizer.json"), "w") as f:
            json.dump({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False}, "decoder": {"type": "ByteLevel"},
                       "model": {"type": "BPE", "vocab": {t: i for i, t in enumerate(tokens)}, "merges": []}}, f)

        def says(word, config, jinja=None):
            with open(os.path.join(path, "tokenizer_config.json"), "w") as f:
                json.dump(config, f)
            if jinja:
                with open(os.path.join(path, "chat_template.jinja"), "w") as f:
                    f.write(jinja)
            self.assertIn(word, self.pipe(path, "x\n", code=1)[1])

        refusing = [{"name": name, "template": "{{ raise_exception('" + name + "') }}"} for name in ("rag", "default", "tool_use")]
        says("no chat template", {})
        says("no chat template", {"chat_template": None})
        says("rag", {"chat_template": refusing[0]["template"]})
        says("default", {"chat_template": refusing})
        says("rag", {"chat_template": [refusing[0], refusing[2]]})
        says("chat_template is an integer", {"chat_template": 3})
        says("jinja", {"chat_template": refusing}, "{{ raise_exception('jinja') }}")

    def test_retry_is_another_answer(self):
        out, _ = self.pipe(self.tiny, "x\n/retry\n/regenerate\n/history\n", "-n", "12", "--temp", "1", "--seed", "5")
        first, second, third = out.split("\nuser: ")[0].split("\n")[:3]
        self.assertEqual(len({first, second, third}), 3)
        self.assertTrue(out.endswith(f"user: x\nassistant: {third}\n"), out)
        self.assertEqual(out, self.pipe(self.tiny, "x\n/retry\n/regenerate\n/history\n", "-n", "12", "--temp", "1", "--seed", "5")[0])
        self.assertIn("/temp 0.7", self.pipe(self.tiny, "x\n/retry\n", "-n", "3", "--temp", "0")[1])

    def test_cut_answers_say_so(self):
        self.assertIn("(cut after 3 tokens", self.pipe(self.words, "x\n", "-n", "3")[1])
        self.assertEqual(self.pipe(self.words, "x\n", "-n", "-1")[1], "")
        self.assertIn("context is full", self.pipe(self.endless, "x\n", "-n", "-1", "-c", "200")[1])

    def test_stop_strings(self):
        self.assertEqual(self.pipe(self.words, "x\n", "--stop", "own f", "--stop", "zzz"), ("The quick br\n", ""))
        out, _ = self.pipe(self.words, "/stop fox\nx\n/stop\nx\n/history\n")
        self.assertEqual(out.split("\n")[:2], ["The quick brown ", "".join(WORDS)])
        self.assertIn("assistant: The quick brown \nuser", out)

    # --- the context ---

    def test_full_context(self):
        """The oldest turns leave, said once; the system message stays; all of it is kept."""
        lines = "".join(f"message number {i} {'x' * 30}\n" for i in range(40))
        out, said = self.pipe(self.words, lines + "/stats\n/history\n", "-c", "300", "--system", "be kind")
        self.assertEqual(said.count("the oldest turns are left out"), 1)
        self.assertNotIn("ga chat:", said)
        self.assertEqual(out.count("message number"), 40)
        self.assertIn("system: be kind", out)
        self.assertRegex(out, r"\(81 messages, [3-7]\d of them left out; 2\d\d of 300|\(81 messages, [3-7]\d of them left out; 1\d\d of 300")
        _, said = self.pipe(self.words, "x" * 400 + "\nshort\n", "-c", "300", code=1)
        self.assertEqual(said.count("ga chat: the message has 40"), 1)

    # --- commands ---

    def test_save_and_load(self):
        path = os.path.join(self.state, "saved.json")
        out, _ = self.pipe(self.words, f"hello\n/save {path}\nmore\n/save\n/save {path}\n", "--system", "be kind")
        with open(path) as f:
            messages = json.load(f)["messages"]
        self.assertEqual([m["role"] for m in messages], ["system", "user", "assistant", "user", "assistant"])
        self.assertEqual(messages[2]["content"], "".join(WORDS))
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        out, _ = self.pipe(self.words, f"/load {path}\n/history\nagain\n/save\n")
        self.assertIn("system: be kind\nuser: hello\nassistant: " + "".join(WORDS), out)
        with open(path) as f:
            self.assertEqual(len(json.load(f)["messages"]), 7)
        self.assertEqual(self.pipe(self.words, "/history\n", "--load", path)[0].count("user: "), 3)
        _, said = self.pipe(self.words, f"x\n/save {path}\n", code=1)
        self.assertIn("is there; /save -f", said)
        self.pipe(self.words, f"x\n/save -f {path}\n")
        self.assertEqual(os.listdir(self.state), ["saved.json"])
        out, _ = self.pipe(self.words, "hello\n/save ~/at home.json\n/load ~/at home.json\n", HOME=self.state)
        self.assertIn(f"(2 messages in {self.state}/at home.json)\n(2 messages;", out)

    def test_bad_files_change_nothing(self):
        for raw, says in ((b"{", "line 1"), (b"[]", "no conversation"), (b'{"messages": [{"role": "king", "content": ""}]}', "message 1"),
                          (b'{"messages": [{"role": "user", "content": "a"}, {"role": "system", "content": "b"}]}', "must be the first")):
            path = self.put("bad.json", raw)
            out, said = self.pipe(self.words, f"hello\n/load {path}\n/history\n", code=1)
            self.assertIn(says, said)
            self.assertIn("user: hello", out)
        self.assertIn("No such file", self.pipe(self.words, "/load /nowhere/x\n", code=1)[1])
        self.assertIn("is a folder; must be a file that /save wrote", self.pipe(self.words, f"/load {self.state}\n", code=1)[1])

    def test_system_and_model(self):
        out, _ = self.pipe(self.words, f"/system\n/system be kind\n/system\nhi\n/model\n/model {self.endless}\n/history\n/system none\n/history\n")
        self.assertIn("(no system message)\nbe kind\n", out)
        self.assertEqual([out.count(f"({name} on cpu)") for name in (self.words, self.endless)], [1, 1])
        self.assertEqual(out.count("system: be kind"), 1)
        self.assertEqual(out.count("user: hi"), 2)
        out, said = self.pipe(self.words, "hi\n/model /nowhere.gguf\nhi\n", code=1)
        self.assertIn("no such file", said)
        self.assertEqual(out.count("".join(WORDS)), 2)

    def test_a_system_message_steers_no_terminal(self):
        path = self.put("steers.json", json.dumps({"messages": [{"role": "system", "content": "be\x1b]0;title\x07 kind\u009b2J"}]}).encode())
        t = self.terminal(self.words, "--load", path)
        t.type("/system\r")
        raw = t.prompt()
        self.assertIn(b"kind", raw)
        for bad in (b"\x1b]0", b"\x07", "\u009b".encode()):
            self.assertNotIn(bad, raw)

    def test_temp_of_the_model_that_is_open(self):
        """Its name means another file by now: what was opened tells how it is sampled."""
        models = os.path.join(self.state, "models")
        folder = os.path.join(models, "hf", "o", "r")
        os.makedirs(folder)
        shutil.copy(self.words, os.path.join(folder, "m-Q8_0.gguf"))
        t = self.terminal("hf:o/r", env={"GA_MODELS": models})
        with open(os.path.join(folder, "m-Q4_K_M.gguf"), "wb") as f:
            f.write(b"GGUF")
        self.assertNotIn("ga chat", t.say("/temp 0.5"))
        self.assertIn("(temperature 0.5)", t.say("/temp"))
        self.assertIn("quick", t.say("x"))

    def test_help_and_mistakes(self):
        out, said = self.pipe(self.words, "/help\n/nope\n/temp x\n/temp 0.5\n/temp\n/reset\n/bye\nnever\n", code=1)
        for command in ("/retry", "/save", "/load", "/model", "/stats", "/system", "/stop", "/quit"):
            self.assertIn(command, out)
        self.assertIn("/nope is no command", said)
        self.assertIn("/temp 'x'", said)
        self.assertIn("(temperature 0.5)", out)
        out, said = self.pipe(self.words, "hello\n/reset it all\n/quit now\n/history\n", code=1)
        self.assertIn("/reset takes nothing behind it", said)
        self.assertIn("/quit takes nothing behind it", said)
        self.assertIn("user: hello", out)
        out, _ = self.pipe(self.tiny, "/temp 0\nx\n/retry\n", "-n", "12")
        self.assertEqual(len(set(out.splitlines())), 1)
        self.assertNotIn("quick", out)

    def test_stats(self):
        _, said = self.pipe(self.words, "x\n/stats\nx\n")
        self.assertEqual(said.count("tok/s"), 4)  # two figures of each of two lines

    # --- base models ---

    def test_base_models(self):
        meta = tiny_gguf.metadata()
        del meta["tokenizer.chat_template"]
        meta["llama.context_length"] = ("u32", 1024)
        base = self.put("base.gguf", tiny_gguf.build(meta))
        _, said = self.pipe(base, "x\n", code=1)
        for word in ("no chat template", "base model", "ga run", "--chat-template NAME|FILE", "chatml"):
            self.assertIn(word, said)
        for name in ("chatml", "gemma", "llama3", "mistral", "plain"):
            self.assertTrue(self.pipe(base, "x\nagain\n", "--chat-template", name, "-n", "3", "--system", "s")[0].strip(), name)
        own = self.put("own.jinja", b"{% for m in messages %}{{ m.content }}{{ raise_exception('mine') }}{% endfor %}")
        self.assertIn("mine", self.pipe(base, "x\n", "--chat-template", own, code=1)[1])
        self.assertIn("no name of chatml", self.pipe(base, "x\n", "--chat-template", "nope", code=1)[1])

    # --- history ---

    def test_history_over_sessions(self):
        with_lines = self.terminal(self.words)
        with_lines.type(PASTE.format("two\nlines"))
        with_lines.say("")
        with_lines.say("the last one")
        with_lines.type("/quit\r")
        with_lines.end()
        path = os.path.join(self.state, "ga", "chat_history")
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        with open(path) as f:
            self.assertEqual([json.loads(line) for line in f], ["two\nlines", "the last one", "/quit"])
        t = self.terminal(self.words)
        t.type(b"\x1b[A\x1b[A\x1b[A")
        t.wait("lines")
        t.say("")
        self.assertIn("user: two\nlines\n", self.history(t))

    def test_history_is_not_kept(self):
        t = self.terminal(self.words, "--no-history")
        t.say("secret")
        self.assertEqual(os.listdir(self.state), [])
        t = self.terminal(self.words, env={"XDG_STATE_HOME": "/proc/nowhere"})
        t.say("go on")  # it works without
        self.assertIn("user: go on", self.history(t))

    def test_history_stays_short(self):
        os.mkdir(os.path.join(self.state, "ga"))
        path = os.path.join(self.state, "ga", "chat_history")
        with open(path, "w") as f:
            f.writelines(json.dumps(f"line {i}") + "\n" for i in range(2500))
            f.write("no JSON\n")
        t = self.terminal(self.words)
        t.say("x")
        with open(path) as f:
            lines = f.read().splitlines()
        self.assertEqual(len(lines), 1001)
        self.assertEqual(json.loads(lines[-1]), "x")
        self.assertEqual(os.listdir(os.path.join(self.state, "ga")), ["chat_history"])

    def test_history_survives_a_kill(self):
        """Writes cut short, as on a full disk, while the file is made shorter: it stays as it was."""
        os.mkdir(os.path.join(self.state, "ga"))
        path = os.path.join(self.state, "ga", "chat_history")
        text = "".join(json.dumps(f"line {i} " + "x" * 100) + "\n" for i in range(2500))
        with open(path, "w") as f:
            f.write(text)
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limit[1]))
        try:
            t = self.terminal(self.words)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
            signal.signal(signal.SIGXFSZ, before)
        t.type(b"\x1b[A")
        t.wait("line 2499")
        with open(path) as f:
            self.assertEqual(f.read(), text)
        self.assertEqual(os.listdir(os.path.join(self.state, "ga")), ["chat_history"])


if __name__ == "__main__":
    unittest.main()
