"""A real `ga serve` on a tiny model, and a strict client, for program_serve*.py."""
import contextlib
import http.client
import json
import os
import re
import select
import shutil
import socket
import struct
import subprocess
import time

import tiny_gguf

CONTEXT = 16384
FIRST_BYTE = 3  # the token of byte 0
EOS = 2


def token(letter):
    return FIRST_BYTE + ord(letter)


def force(text):
    """A bias that lets only these letters be drawn."""
    return {str(token(c)): 100 for c in text}


def write_model(folder, template=None, renamed=None, more=None):
    """A model with tokens for all bytes; its template writes control tokens. template "": a base model. renamed: ids that become control tokens."""
    meta = tiny_gguf.metadata() | (more or {})
    for i, name in (renamed or {}).items():
        meta["tokenizer.ggml.tokens"][1][1][i] = name
        meta["tokenizer.ggml.token_type"][1][1][i] = 3
    meta["llama.context_length"] = ("u32", CONTEXT)
    if template:
        meta["tokenizer.chat_template"] = ("text", template)
    elif template == "":
        del meta["tokenizer.chat_template"]
    path = os.path.join(folder, "tiny.gguf")
    with open(path, "wb") as f:
        f.write(tiny_gguf.build(meta))
    return path


def write_encoder(folder, name="arch/bert"):
    """An encoder of tests/data with letters as its tokens."""
    path = os.path.join(folder, "encoder")
    shutil.copytree(os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", name), path)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"] + list(letters) + ["##" + c for c in letters]
    vocab = {word: i for i, word in enumerate(words)}
    special = [{"id": i, "content": words[i], "special": True} for i in range(4)]
    post = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                                                     {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
            "special_tokens": {w: {"id": w, "ids": [vocab[w]], "tokens": [w]} for w in ("[CLS]", "[SEP]")}}
    with open(os.path.join(path, "tokenizer.json"), "w") as f:
        json.dump({"added_tokens": special, "normalizer": {"type": "BertNormalizer", "lowercase": True}, "pre_tokenizer": {"type": "BertPreTokenizer"},
                   "post_processor": post,
                   "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "vocab": vocab}}, f)
    return path


class Server:
    def __init__(self, ga, model, *options, wait=True, env=None, cwd=None):
        models = [model] if isinstance(model, str) else model
        self.process = subprocess.Popen([ga, "serve", *(x for m in models for x in ("-m", m)), "--port", "0", "-t", "1", *options], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", env=env, cwd=cwd)
        self.line = self.process.stdout.readline() if wait else ""
        found = re.search(r"^listening on http://\S*:(\d+) \((?:model )?(.*)\)$", self.line)
        if wait and not found:
            raise AssertionError(f"{self.line!r}: {self.process.communicate(timeout=30)[1]}")
        self.port = int(found[1]) if found else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.end()
        self.process.stdout.close()
        self.process.stderr.close()

    def end(self, signal=15, timeout=60):
        """Exit code and what was said on stderr."""
        if self.process.poll() is None:
            self.process.send_signal(signal)
        self.process.wait(timeout)
        said = self.process.stderr.read()
        for word in ("Sanitizer", "runtime error"):
            assert word not in said, said
        return self.process.returncode, said

    def connect(self, timeout=60):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def request(self, method, path, body=None, headers=None, raw=None):
        """Status, headers, body as JSON where it is JSON."""
        connection = self.connect()
        with contextlib.closing(connection):
            data = raw if raw is not None else None if body is None else json.dumps(body).encode()
            connection.request(method, path, data, {"Content-Type": "application/json", **(headers or {})} if data is not None else headers or {})
            reply = connection.getresponse()
            text = reply.read()
            if (reply.headers.get("Content-Type") or "").startswith("application/json") and method != "HEAD":
                text = strict_json(text)
            return reply.status, reply.headers, text

    def post(self, path, **body):
        status, _, reply = self.request("POST", path, body)
        assert status == 200, (status, reply)
        return reply

    def stream(self, path, **body):
        """The events of a stream, checked."""
        connection = self.connect()
        with contextlib.closing(connection):
            connection.request("POST", path, json.dumps({"stream": True, **body}), {"Content-Type": "application/json"})
            reply = connection.getresponse()
            assert reply.status == 200, reply.read()
            assert reply.headers["Content-Type"].startswith("text/event-stream"), reply.headers
            assert reply.headers["Transfer-Encoding"] == "chunked"
            return parse_events(reply.read())

    def metrics(self):
        status, headers, text = self.request("GET", "/metrics")
        assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4"), headers
        return parse_metrics(text.decode())

    def value(self, name, **labels):
        found = [v for n, l, v in self.metrics() if n == name and labels.items() <= l.items()]
        assert len(found) == 1, (name, labels, found)
        return found[0]

    def wait_until(self, what, seconds=10):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if what():
                return True
            time.sleep(0.05)
        return False

    def raw(self, data, seconds=5, close=False):
        """What the server answers to these bytes until it closes, or is silent for so long."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as s:
            with contextlib.suppress(OSError):
                s.sendall(data)
            if close:
                return b""
            return read_all(s, seconds)


def read_all(s, seconds):
    got = b""
    with contextlib.suppress(OSError):
        while select.select([s], [], [], seconds)[0]:
            part = s.recv(65536)
            if not part:
                break
            got += part
    return got


def no_twice(pairs):
    keys = [k for k, _ in pairs]
    assert len(set(keys)) == len(keys), keys
    return dict(pairs)


def strict_json(text):
    return json.loads(text, object_pairs_hook=no_twice, parse_constant=lambda c: (_ for _ in ()).throw(AssertionError(c)))


def parse_events(raw):
    """JSON of each event. The stream ends with [DONE], and has nothing but events and pings."""
    text = raw.decode("utf-8")  # no character is cut
    assert text.endswith("\n\n"), text[-50:]
    events = [e for e in text[:-2].split("\n\n") if e != ": ping"]
    assert all(e.startswith("data: ") and "\n" not in e for e in events), text
    assert events[-1] == "data: [DONE]", events[-1]
    return [strict_json(e[6:]) for e in events[:-1]]


def parse_metrics(text):
    """[(name, labels, value)] of a page in which every sample has its HELP and TYPE before it, and histograms add up."""
    samples, kinds, helped = [], {}, set()
    for line in text.splitlines():
        if line.startswith("# HELP "):
            helped.add(line.split()[2])
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name not in kinds and name in helped, line
            kinds[name] = kind
        else:
            found = re.fullmatch(r"([a-zA-Z_:][\w:]*)\{((?:\w+=\"(?:[^\"\\]|\\.)*\",?)*)\} (\S+)", line)
            assert found, line
            name = found[1]
            base = re.sub(r"_(bucket|sum|count)$", "", name)
            assert kinds.get(name) in ("counter", "gauge") or kinds.get(base) == "histogram", line
            assert kinds.get(name) != "counter" or name.endswith("_total"), line
            samples.append((name, dict(re.findall(r"(\w+)=\"((?:[^\"\\]|\\.)*)\"", found[2])), float(found[3])))
    for base in (name for name, kind in kinds.items() if kind == "histogram"):
        buckets = [v for n, _, v in samples if n == base + "_bucket"]
        assert buckets == sorted(buckets) and [v for n, _, v in samples if n == base + "_count"] == buckets[-1:], base
    return samples


def floats_of(raw):
    return list(struct.unpack(f"<{len(raw) // 4}f", raw))
