#!/usr/bin/env python3
"""ga batch from outside: answers as those of ga serve, bad files, kill -9 and again. Usage: program_batch.py GA"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import serve_rig

GA = os.path.abspath(sys.argv.pop(1))
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}{% if add_generation_prompt %}:{% endif %}"


def completion(name, **body):
    return {"custom_id": name, "method": "POST", "url": "/v1/completions",
            "body": {"prompt": "hello " + name, "max_tokens": 8, "temperature": 0, "ignore_eos": True, **body}}


class Batch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="ga batch \u00e9 ")
        cls.model = serve_rig.write_model(cls.folder.name, TEMPLATE)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, lines, name="in.jsonl"):
        with open(self.path(name), "w", encoding="utf-8") as f:
            for line in lines:
                f.write((line if isinstance(line, str) else json.dumps(line)) + "\n")
        return self.path(name)

    def command(self, source, out, *options):
        return [GA, "batch", "-m", self.model, "--device", "cpu", "-t", "1", "-o", self.path(out), *options, source]

    def run_batch(self, source, out, *options):
        return subprocess.run(self.command(source, out, *options), capture_output=True, text=True, timeout=120)

    def answers(self, out):
        with open(self.path(out), encoding="utf-8") as f:
            lines = [json.loads(line) for line in f]
        by_id = {line["custom_id"]: line for line in lines}
        self.assertEqual(len(by_id), len(lines), "an answer stands there twice")
        return by_id

    def test_answers_as_a_server_gives(self):
        lines = [completion(f"r{i}", max_tokens=1 + i % 7) for i in range(40)]
        lines.append({"custom_id": "chat", "method": "POST", "url": "/v1/chat/completions",
                      "body": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4, "temperature": 0}})
        done = self.run_batch(self.write(lines), "a.jsonl")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("41 requests, 0 of them before; 0 were refused", done.stderr)
        got = self.answers("a.jsonl")
        server = serve_rig.Server(GA, self.model)
        try:
            for line in lines:
                answer = got[line["custom_id"]]
                self.assertIsNone(answer["error"])
                self.assertEqual(answer["response"]["status_code"], 200)
                want = server.post(line["url"], **line["body"])
                self.assertEqual(answer["response"]["body"]["choices"], want["choices"])
                self.assertEqual(answer["response"]["body"]["usage"]["completion_tokens"], want["usage"]["completion_tokens"])
        finally:
            server.end()

    def test_refused_requests_are_answers(self):
        lines = [completion("bad", prompt=3), completion("model", model="another"), completion("good"), "",
                 {"custom_id": "url", "method": "POST", "url": "/v1/nothing", "body": {}}]
        done = self.run_batch(self.write(lines), "refused.jsonl")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("4 requests, 0 of them before; 3 were refused", done.stderr)
        got = self.answers("refused.jsonl")
        self.assertEqual({k: v["response"]["status_code"] for k, v in got.items()},
                         {"bad": 400, "model": 404, "good": 200, "url": 404})
        self.assertIn("must be a string", got["bad"]["response"]["body"]["error"]["message"])

    def test_bad_files(self):
        good = completion("x")
        for lines, says in (([good, "{"], "line 2: "), ([good, "", good], 'two lines have the custom_id "x": 1 and 3'),
                            ([{**good, "custom_id": "a\0b"}], "line 1: custom_id must be"),
                            ([{**good, "custom_id": ""}], "line 1: custom_id must be"), (["[1]"], "line 1: it must be a JSON object"),
                            ([{**good, "method": "GET"}], 'line 1: method must be "POST"'), ([{**good, "url": "/health"}], "line 1: url must be"),
                            ([{**good, "body": 3}], "line 1: body must be an object"), ([completion("s", stream=True)], "line 1: stream is true")):
            done = self.run_batch(self.write(lines, "bad.jsonl"), "bad_out.jsonl")
            self.assertEqual(done.returncode, 1, lines)
            self.assertIn(says, done.stderr)
            self.assertFalse(os.path.exists(self.path("bad_out.jsonl")))
        self.assertIn("No such file", self.run_batch(self.path("none.jsonl"), "o.jsonl").stderr)
        source = self.write([good], "one.jsonl")
        self.write(["a letter"], "letter.jsonl")
        done = self.run_batch(source, "letter.jsonl")
        self.assertEqual(done.returncode, 1)
        self.assertIn("line 1: it is no answer of a batch", done.stderr)
        with open(self.path("letter.jsonl"), encoding="utf-8") as f:
            self.assertEqual(f.read(), "a letter\n")
        self.assertIn("1 request, 0 of them before", self.run_batch(source, "one_out.jsonl").stderr)
        self.assertEqual(subprocess.run([GA, "batch", source], capture_output=True, timeout=60).returncode, 2)
        self.assertEqual(self.run_batch("-", "dash.jsonl").returncode, 2)

    def test_the_same_file_and_devices(self):
        source = self.write([completion("x")], "same.jsonl")
        with open(source, "rb") as f:
            before = f.read()
        os.symlink(source, self.path("symlink"))
        os.link(source, self.path("link"))
        os.mkfifo(self.path("fifo"))
        for out in ("same.jsonl", "symlink", "link"):
            done = self.run_batch(source, out)
            self.assertEqual(done.returncode, 1, out)
            self.assertIn("is the file of requests", done.stderr)
        with open(source, "rb") as f:
            self.assertEqual(f.read(), before)
        for out in ("/dev/full", "/dev/zero", "/dev/null", "/dev/stdout", "fifo", self.folder.name):
            done = self.run_batch(source, out)
            self.assertEqual(done.returncode, 1, out)
            self.assertIn("is no regular file", done.stderr)
        for source in ("/dev/zero", "/dev/stdin", self.path("fifo")):
            done = subprocess.run(self.command(source, "o.jsonl"), capture_output=True, text=True, timeout=60, input="")
            self.assertEqual(done.returncode, 1, source)
            self.assertIn("is no regular file", done.stderr)

    def test_malformed_lines_are_passed_over_by_option(self):
        lines = ["{", completion("a"), "[1]", {**completion("b"), "method": "GET"}, completion("c")]
        source = self.write(lines, "some.jsonl")
        done = self.run_batch(source, "some_out.jsonl")
        self.assertEqual(done.returncode, 1)
        self.assertIn("line 1: ", done.stderr)
        for before in (0, 2):
            done = self.run_batch(source, "some_out.jsonl", "--skip-malformed")
            self.assertEqual(done.returncode, 0, done.stderr)
            for number in (1, 3, 4):
                self.assertEqual(done.stderr.count(f"some.jsonl, line {number}: "), 1, done.stderr)
            self.assertIn("3 malformed lines passed over\n", done.stderr)
            self.assertIn(f"2 requests, {before} of them before", done.stderr)
        self.assertEqual(set(self.answers("some_out.jsonl")), {"a", "c"})

    def test_nul_in_a_request(self):
        done = self.run_batch(self.write([completion("nul", prompt="a\0b", echo=True)], "nul.jsonl"), "nul_out.jsonl")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.answers("nul_out.jsonl")["nul"]["response"]["body"]["choices"][0]["text"][:3], "a\0b")

    def test_killed_and_again(self):
        lines = [completion(f"k{i}", max_tokens=100) for i in range(300)]
        source = self.write(lines, "kill.jsonl")
        for round in range(3):
            running = subprocess.Popen(self.command(source, "kill_out.jsonl", "--in-flight", "8"), stderr=subprocess.DEVNULL)
            began = time.monotonic()
            size = -1
            while time.monotonic() - began < 60 and running.poll() is None:
                now = os.path.getsize(self.path("kill_out.jsonl")) if os.path.exists(self.path("kill_out.jsonl")) else 0
                if size < 0:
                    size = now
                if now > size + 3000:
                    break
                time.sleep(0.001)
            running.send_signal(signal.SIGKILL)
            running.wait()
        with open(self.path("kill_out.jsonl"), "a", encoding="utf-8") as f:
            f.write('{"custom_id": "k299", "resp')  # a line that was not whole
        done = self.run_batch(source, "kill_out.jsonl")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(set(self.answers("kill_out.jsonl")), {line["custom_id"] for line in lines})
        self.assertNotIn(" 0 of them before", done.stderr)
        again = self.run_batch(source, "kill_out.jsonl")
        self.assertIn("300 requests, 300 of them before", again.stderr)

    def test_one_writer_and_interrupt(self):
        lines = [completion(f"w{i}", max_tokens=100) for i in range(3000)]
        source = self.write(lines, "two.jsonl")
        first = subprocess.Popen(self.command(source, "two_out.jsonl"), stderr=subprocess.PIPE, text=True)
        began = time.monotonic()
        while time.monotonic() - began < 60 and not (os.path.exists(self.path("two_out.jsonl")) and os.path.getsize(self.path("two_out.jsonl"))):
            time.sleep(0.01)
        second = self.run_batch(source, "two_out.jsonl")
        self.assertEqual(second.returncode, 1)
        self.assertIn("another program writes it", second.stderr)
        first.send_signal(signal.SIGINT)
        said = first.communicate(timeout=60)[1]
        self.assertEqual(first.returncode, 130, said)
        self.assertIn("the same command goes on", said)


if __name__ == "__main__":
    unittest.main()
