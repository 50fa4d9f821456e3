#!/usr/bin/env python3
"""Named models: `ga create` by a Modelfile, and what run, chat, serve, batch, show, list and rm do with them. Usage: program_create.py GA"""
import json
import os
import stat
import subprocess
import sys
import tempfile
import unittest

import chat_rig
import serve_rig
from serve_rig import Server

GA = os.path.abspath(sys.argv.pop(1))
WORDS = ["One", " two", " three", " four", "."]
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
HELLO = [{"role": "user", "content": "hello"}]


class Create(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ga create ")
        self.addCleanup(folder.cleanup)
        self.dir, self.models = folder.name, os.path.join(folder.name, "models")
        os.mkdir(self.models)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "GA_", "XDG_"))}
        self.env |= {"GA_MODELS": self.models, "HF_ENDPOINT": "http://127.0.0.1:1", "HOME": self.dir, "LC_ALL": "C.UTF-8"}
        with open(os.path.join(self.models, "words.gguf"), "wb") as f:
            f.write(chat_rig.script(WORDS))
        os.rename(serve_rig.write_model(self.models, TEMPLATE), os.path.join(self.models, "chat.gguf"))
        os.rename(serve_rig.write_model(self.models, ""), os.path.join(self.models, "base.gguf"))

    def ga(self, *args, code=0, text=""):
        r = subprocess.run([GA, *args], input=text, env=self.env, capture_output=True, text=True, errors="replace", timeout=60, cwd=self.dir)
        self.assertEqual(r.returncode, code, (args, r.stdout, r.stderr))
        return r.stdout, r.stderr

    def create(self, name, text, *options, code=0):
        return self.ga("create", name, "-f", "-", *options, code=code, text=text)

    # --- Modelfiles ---

    def test_create(self):
        path = os.path.join(self.dir, "Modelfile")
        with open(path, "w") as f:
            f.write('# words\nfrom words.gguf\nSystem """\nBe kind.\nAlways."""\nPARAMETER temperature 0.5\nparameter STOP "ab"\nPARAMETER num_ctx 512\n\nLICENSE MIT\n')
        out, _ = self.ga("create", "kind")
        self.assertEqual(out, os.path.join(self.models, "kind.modelfile") + "\n")
        self.assertEqual(stat.S_IMODE(os.stat(out.strip()).st_mode), 0o644)
        text = 'FROM words.gguf\nSYSTEM """Be kind.\nAlways."""\nPARAMETER temperature 0.5\nPARAMETER num_ctx 512\nPARAMETER stop ab\nLICENSE MIT\n'
        self.assertEqual(self.ga("show", "kind", "--modelfile")[0], text)
        self.assertEqual(self.ga("show", "words.gguf", "--modelfile")[0], "FROM words.gguf\n")
        self.assertIn("--force replaces it", self.ga("create", "kind", code=1)[1])
        self.create("kind", "FROM words.gguf\n", "--force")
        self.assertEqual(self.ga("show", "kind", "--modelfile")[0], "FROM words.gguf\n")

    def test_refused(self):
        for text, says in (("SYSTEM x\n", "there is no FROM"), ("", "there is no FROM"), ("FROM words.gguf\nADAPTER ./a.gguf\n", "line 2: ADAPTER is not supported yet"),
                           ("FROM words.gguf\n\nmessage user hi\n", "line 3: MESSAGE is not supported"), ("FROM words.gguf\nFOO x\n", "line 2: 'FOO' is no instruction; there are FROM, SYSTEM"),
                           ("FROM words.gguf\nREQUIRES 0.14\n", "REQUIRES is not supported"), ("FROM words.gguf\nFROM x\n", "line 2: this instruction stands there twice"),
                           ("FROM words.gguf\nPARAMETER mirostat 1\n", "PARAMETER mirostat is not supported; there are temperature, top_k"),
                           ("FROM words.gguf\nPARAMETER temperature hot\n", "PARAMETER temperature is 'hot'; it must be a number from 0 to 100"),
                           ("FROM words.gguf\nPARAMETER top_k 1.5\n", "must be a whole number"), ("FROM words.gguf\nPARAMETER top_p 2\n", "from 1e-06 to 1"),
                           ("FROM words.gguf\nPARAMETER seed 1\nPARAMETER seed 2\n", "line 3: this parameter stands there twice"), ("FROM words.gguf\nPARAMETER\n", "has no name"),
                           ("FROM words.gguf\nPARAMETER top_k\n", "the value is missing"), ("FROM words.gguf\nPARAMETER num_predict 0\n", "num_predict is 0"),
                           ('FROM words.gguf\nSYSTEM """x\n\n', "line 2: the three quotes that end the text are missing"), ('FROM words.gguf\nSYSTEM """x""" y\n', "text after the three quotes"),
                           ('FROM words.gguf\nSYSTEM """\nx\n"""\nFOO\n', "line 5: 'FOO'"), ('FROM words.gguf\nSYSTEM "a" "b"\n', "quotes inside of quotes"),
                           ("FROM words.gguf\nSYSTEM\n", "the value is missing"), ('FROM words.gguf\nPARAMETER stop """"""\n', "the value is missing"), ("FROM words.gguf\nSYSTEM a\x1bb\n", "a control character"), ("FROM words.gguf\nSYSTEM \x00\n", "must be text in UTF-8"),
                           ("FROM nothing.gguf\n", "nothing.gguf: no such file"), ("FROM me\n", "me cannot be made of itself"), ("FROM smollm2-135m\n", "fetch it with: ga pull smollm2-135m"),
                           ("FROM base.gguf\nSYSTEM x\n", "SYSTEM needs a chat template, and base.gguf has none; add: TEMPLATE chatml"),
                           ("FROM words.gguf\nTEMPLATE {{ .System }} {{ .Prompt }}\n", "in Go's language"), ("FROM words.gguf\nTEMPLATE {{- if .System }}x{{ end }}\n", "in Go's language"),
                           ("FROM words.gguf\nTEMPLATE chatlm\n", "neither Jinja nor a name of chatml"), ("FROM words.gguf\nTEMPLATE {% for m in %}\n", "chat template, line 1")):
            self.assertIn(says, self.create("me", text, code=1)[1], text)
            self.assertEqual([n for n in os.listdir(self.models) if "modelfile" in n], [], text)
        for name in ("smollm2-135m", "words.gguf", "hf:a/b", "a/b", ".x", "", "-x", "x" * 128, "\u00e9", "a b"):
            self.ga("create", "-f", "-", "--", name, text="FROM words.gguf\n", code=1)
        self.assertIn("which name?", self.ga("create", code=2)[1])
        self.assertIn("No such file", self.ga("create", "me", code=1)[1])
        self.assertIn("GA has no --quantize: ga quantize", self.ga("create", "me", "--quantize", "q4_0", code=2)[1])

    def test_texts(self):
        """What is written of a Modelfile is what was read."""
        for given, kept in (('SYSTEM  a "b" c \t\n', 'SYSTEM a "b" c\n'), ('SYSTEM " a "\n', 'SYSTEM """ a """\n'), ('SYSTEM """\n\na\n"""\n', 'SYSTEM """\n\na\n"""\n'),
                            ('SYSTEM """a"""\r\nPARAMETER stop """\nb"""\r\n', 'SYSTEM a\nPARAMETER stop b\n'), ("SYSTEM # no comment\n", "SYSTEM # no comment\n"),
                            ('TEMPLATE plain\nLICENSE a\nLICENSE """b\nc"""\n', 'TEMPLATE plain\nLICENSE """a\nb\nc"""\n'), ("\ufeff  SYSTEM \u4e16\n", None)):
            text = "FROM words.gguf\n" + given if kept else given.replace("  ", "  FROM words.gguf\n")
            self.create("me", text, "--force")
            self.assertEqual(self.ga("show", "me", "--modelfile")[0], "FROM words.gguf\n" + (kept or "SYSTEM \u4e16\n"))

    def test_paths(self):
        """A path in FROM is one from the Modelfile's folder, and absolute from then on."""
        folder = os.path.join(self.dir, "sub")
        os.mkdir(folder)
        os.rename(os.path.join(self.models, "words.gguf"), os.path.join(folder, "w.gguf"))
        with open(os.path.join(folder, "M"), "w") as f:
            f.write("FROM ./w.gguf\n")
        self.ga("create", "far", "-f", "sub/M")
        self.assertEqual(self.ga("show", "far", "--modelfile")[0], f"FROM {os.path.realpath(folder)}/w.gguf\n")
        self.assertEqual(self.ga("run", "-m", "far", "-q", "x")[0], "".join(WORDS) + "\n")
        os.remove(os.path.join(folder, "w.gguf"))
        self.assertIn("far is made of /", self.ga("run", "-m", "far", "x", code=1)[1])

    def test_inherits(self):
        self.create("one", "FROM words.gguf\nSYSTEM first\nPARAMETER seed 1\nPARAMETER top_k 3\nPARAMETER stop a\n")
        self.create("two", "FROM one\nSYSTEM second\nPARAMETER seed 2\n")
        self.assertEqual(self.ga("show", "two", "--modelfile")[0],
                         "FROM words.gguf\nSYSTEM second\nPARAMETER top_k 3\nPARAMETER seed 2\nPARAMETER stop a\n")
        self.create("three", 'FROM two\nSYSTEM """"""\nPARAMETER stop b\n')  # without a system message
        count = [self.tokens("-m", name)["prompt_tokens"] for name in ("three", "words.gguf", "two")]
        self.assertTrue(count[0] == count[1] < count[2], count)
        self.assertEqual(self.ga("chat", "-m", "three", text="/system\n")[0], "(no system message)\n")
        for i in range(3, 12):
            if i < 10:
                self.create(str(i), f"FROM {i - 1 if i > 3 else 'two'}\n")
        self.assertIn("more than 8 levels", self.create("10", "FROM 9\n", code=1)[1])
        self.assertIn("one cannot be made of itself: FROM two", self.create("one", "FROM two\n", "--force", code=1)[1])

    def test_a_path_of_a_modelfile(self):
        folder = os.path.join(self.dir, "sub")
        os.mkdir(folder)
        with open(os.path.join(folder, "w.modelfile"), "w") as f:
            f.write("FROM ../models/words.gguf\nPARAMETER stop three\n")
        self.assertEqual(self.ga("run", "-m", "sub/w.modelfile", "-q", "x")[0], "One two \n")
        with Server(GA, os.path.join(folder, "w.modelfile"), "--context", "64", env=self.env) as server:
            self.assertIn("(model w)", server.line)
        os.mkdir(os.path.join(self.dir, "kind"))  # a folder where the program runs goes before a name
        self.create("kind", "FROM words.gguf\n", code=0)
        self.assertIn("config.json", self.ga("run", "-m", "kind", "x", code=1)[1])
        self.assertIn("config.json", self.create("two", "FROM kind\n", code=1)[1])  # that folder
        os.rmdir(os.path.join(self.dir, "kind"))
        self.create("two", "FROM kind\n")
        for name in ("kind", "words.gguf"):  # what it is made of stays what it was, whatever lies where the program runs
            os.mkdir(os.path.join(self.dir, name))
        self.assertEqual(self.ga("run", "-m", "two", "-q", "x")[0], "".join(WORDS) + "\n")
        os.remove(os.path.join(self.models, "words.gguf"))
        self.assertIn("there is no words.gguf in", self.ga("run", "-m", "two", "x", code=1)[1])

    # --- use ---

    def test_list_show_rm(self):
        self.create("kind", "FROM chat.gguf\nSYSTEM Be kind.\n")
        out, _ = self.ga("list")
        self.assertRegex(out, r"(?s)NAME .*\n\nNAMED MODEL +MADE OF\nkind +chat.gguf\n$")
        listed = {m["name"]: m for m in json.loads(self.ga("list", "--json")[0])}
        self.assertEqual((listed["kind"]["from"], "from" in listed["chat.gguf"]), ("chat.gguf", False))
        shown = self.ga("show", "kind")[0]
        self.assertIn("architecture  llama", shown)
        self.assertIn("  SYSTEM Be kind.\n", shown)
        self.assertEqual(json.loads(self.ga("show", "--json", "kind")[0])["modelfile"], "FROM chat.gguf\nSYSTEM Be kind.\n")
        self.assertIn("kind.modelfile, a named model; what it is made of stays", self.ga("rm", "-y", "kind")[0])
        self.assertNotIn("NAMED", self.ga("list")[0])
        self.assertIn("no model of that name", self.ga("rm", "-y", "kind", code=1)[1])
        self.assertTrue(os.path.exists(os.path.join(self.models, "chat.gguf")))

    def tokens(self, *args):
        return json.loads(self.ga("run", *args, "--json", "hello")[0])

    def test_run(self):
        self.create("kind", f"FROM chat.gguf\nSYSTEM Be kind.\nPARAMETER num_predict 3\nPARAMETER seed 7\nPARAMETER temperature 1.5\n")
        named = self.tokens("-m", "kind")
        plain = self.tokens("-m", "chat.gguf", "--system", "Be kind.", "-n", "3", "-s", "7", "--temp", "1.5")
        self.assertEqual({k: named[k] for k in ("text", "prompt_tokens", "generated_tokens")}, {k: plain[k] for k in ("text", "prompt_tokens", "generated_tokens")})
        self.assertEqual(named["generated_tokens"], 3)
        # Options of the command line go before, also those that are the usual ones.
        self.assertEqual(self.tokens("-m", "kind", "-n", "256", "--ignore-eos")["generated_tokens"], 256)
        self.assertEqual(self.tokens("-m", "kind", "--system", "x", "-n", "1")["prompt_tokens"], named["prompt_tokens"] - len("Be kind.") + 1)
        self.create("small", "FROM words.gguf\nTEMPLATE plain\nPARAMETER num_ctx 64\nPARAMETER stop four\n")
        self.assertEqual(self.ga("run", "-m", "small", "-q", "--no-template", "x\n")[0], "One two three \n")
        self.assertEqual(self.ga("run", "-m", "small", "-q", "--no-template", "--stop", "two", "x\n")[0], "One \n")
        self.assertIn("64", self.ga("run", "-m", "small", "x " * 60, code=1)[1])
        self.create("based", "FROM base.gguf\nTEMPLATE plain\nSYSTEM s\n")
        self.assertNotIn("no chat template", self.ga("run", "-m", "based", "-n", "1", "x")[1])

    def test_chat(self):
        self.create("kind", "FROM words.gguf\nSYSTEM Be kind.\nPARAMETER temperature 0.25\nPARAMETER stop three\n")
        out, _ = self.ga("chat", "-m", "kind", text="/system\n/temp\nhi\n/model\n")
        self.assertEqual(out, "Be kind.\n(temperature 0.25)\nOne two \n(kind on cpu)\n")
        self.assertEqual(self.ga("chat", "-m", "kind", "--system", "other", text="/system\n")[0], "other\n")
        out, _ = self.ga("chat", "-m", "words.gguf", text="hi\n/model kind\n/system\nhi\n/model words.gguf\n/system\nhi\n")
        self.assertEqual(out.replace("".join(WORDS), "ALL"), "ALL\n(kind on cpu)\nBe kind.\nOne two \n(words.gguf on cpu)\nBe kind.\nALL\n")

    def test_serve(self):
        self.create("kind", 'FROM chat.gguf\nSYSTEM Be kind.\nTEMPLATE """{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"""\nPARAMETER num_predict 5\n'
                    "PARAMETER top_k 3\nPARAMETER presence_penalty 0.5\nPARAMETER num_ctx 300\nPARAMETER stop b\n")
        with Server(GA, "kind", env=self.env) as server:
            self.assertIn("(model kind)", server.line)
            prompt = lambda messages: server.post("/apply-template", messages=messages)["prompt"]
            self.assertEqual(prompt(HELLO), "<system>Be kind.<user>hello")
            self.assertEqual(prompt([{"role": "system", "content": "x"}, *HELLO]), "<system>x<user>hello")
            self.assertEqual(server.post("/tokenize", messages=HELLO)["count"], server.post("/tokenize", messages=[{"role": "system", "content": "Be kind."}, *HELLO])["count"])
            model = server.request("GET", "/v1/models")[2]["data"][0]
            self.assertEqual((model["id"], model["max_model_len"], model["default_sampling"]["top_k"], model["capabilities"]), ("kind", 300, 3, ["completion", "chat"]))
            self.assertEqual((model["default_system"], model["default_sampling"]["max_tokens"]), ("Be kind.", 5))
            shown = server.post("/api/show", model="kind")
            self.assertEqual((shown["system"], shown["modelfile"].splitlines()[0]), ("Be kind.", "FROM chat.gguf"))
            for line in ("top_k 3", "num_predict 5", "presence_penalty 0.5", "num_ctx 300", 'stop "b"'):
                self.assertIn(line, shown["parameters"].splitlines())
            only_a, body = serve_rig.force("a"), {"ignore_eos": True}
            for path, more in (("/v1/chat/completions", {"messages": HELLO}), ("/v1/completions", {"prompt": "x"})):
                self.assertEqual(server.post(path, logit_bias=only_a, **body, **more)["usage"]["completion_tokens"], 5)
                self.assertEqual(server.post(path, logit_bias=only_a, max_tokens=7, **body, **more)["usage"]["completion_tokens"], 7)
                self.assertEqual(server.post(path, logit_bias=serve_rig.force("b"), max_tokens=7, **body, **more)["choices"][0]["finish_reason"], "stop")
                self.assertEqual(server.post(path, logit_bias=serve_rig.force("b"), max_tokens=7, stop=["c"], **body, **more)["choices"][0]["finish_reason"], "length")
            native = {"prompt": "x", "ignore_eos": True, "logit_bias": [[serve_rig.token("a"), 100]]}
            self.assertEqual(server.post("/completion", **native)["tokens_predicted"], 5)
            self.assertEqual(server.post("/completion", n_predict=6, **native)["tokens_predicted"], 6)
            for path, more in (("/api/chat", {"messages": HELLO}), ("/api/generate", {"prompt": "hello"})):
                whole = {"model": "kind", "stream": False, **more}
                self.assertLessEqual(server.post(path, **whole)["eval_count"], 5)
                self.assertLessEqual(server.post(path, **whole, options={"num_predict": 2})["eval_count"], 2)
            self.assertGreater(server.post("/api/generate", model="kind", prompt="x", raw=True, stream=False, options={"num_predict": -1, "stop": ["\ufffd\ufffd\ufffd\ufffd"], "seed": 3})["eval_count"], 5)
            self.assertEqual(server.post("/v1/messages/count_tokens", messages=HELLO)["input_tokens"], server.post("/tokenize", messages=HELLO)["count"])
            rc, said = server.end()
        self.assertEqual(rc, 0, said)

    def test_serve_several(self):
        self.create("kind", "FROM chat.gguf\nSYSTEM Be kind.\n")
        self.create("lost", "FROM words.gguf\n")
        os.remove(os.path.join(self.models, "words.gguf"))
        for name, text in (("broken", "FROM chat.gguf\nTEMPLATE {% for %}\n"), ("odd", "FROM chat.gguf\nPARAMETER x 1\n")):  # by another hand
            with open(os.path.join(self.models, name + ".modelfile"), "w") as f:
                f.write(text)
        os.mkdir(os.path.join(self.dir, "kind"))
        with Server(GA, self.models, "--context", "256", env=self.env, cwd=self.dir) as server:
            self.assertEqual({m["id"] for m in server.request("GET", "/v1/models")[2]["data"]}, {"chat", "base", "kind"})
            for name, prompt in (("kind", "system: Be kind.\nuser: hello\n"), ("chat", "user: hello\n")):
                self.assertEqual(server.post("/apply-template", model=name, messages=HELLO)["prompt"], prompt)
            rc, said = server.end()
        self.assertEqual(rc, 0)
        for part in ("lost is left out: ", "lost.modelfile is made of words.gguf: words.gguf: no such file", "broken is left out: chat template, line 1", "PARAMETER x is not supported"):
            self.assertIn(part, said)
        self.assertIn("PARAMETER x is not supported", self.ga("run", "-m", "odd", "x", code=1)[1])
        self.assertRegex(self.ga("list")[0], "(?m)^odd +/.*PARAMETER x is not supported")
        with Server(GA, ["chat.gguf", "kind"], env=self.env) as server:
            self.assertEqual({m["id"] for m in server.request("GET", "/v1/models")[2]["data"]}, {"chat", "kind"})

    def test_batch(self):
        self.create("kind", "FROM chat.gguf\nSYSTEM Be kind.\nPARAMETER num_predict 4\n")
        requests, out = os.path.join(self.dir, "in.jsonl"), os.path.join(self.dir, "out.jsonl")
        with open(requests, "w") as f:
            f.write(json.dumps({"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {"messages": HELLO, "ignore_eos": True}}) + "\n")
        self.ga("batch", "-m", "kind", "-o", out, requests)
        with open(out) as f:
            usage = json.loads(f.readline())["response"]["body"]["usage"]
        self.assertEqual((usage["completion_tokens"], usage["prompt_tokens"] > len("system: Be kind.")), (4, True))


if __name__ == "__main__":
    unittest.main()
