"""A model that says what a test wants, and a terminal to talk to it on, for program_chat*.py."""
import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

import tiny_gguf

NEWLINE = 3 + 10  # the token of byte 10, the last one of a prompt through tiny_gguf's template
ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]")
PROMPT = re.compile(rb"\n(\x1b\[[0-9;?]*[A-Za-z]|\r)*> ")


def script(pieces, loop=False, context=4096, meta=None):
    """A GGUF whose answer is these texts, one a token, whatever was asked; then its end, or the same again and again. The hidden state is the
    embedding of the last token alone: all layers add zero. At a temperature above 0 the answer is still that: the logits are far apart."""
    width = 64
    assert len(pieces) < width - 1
    full = tiny_gguf.metadata()
    kind, tokens = full["tokenizer.ggml.tokens"][1]
    first = len(tokens)
    vocab = first + len(pieces)
    full["tokenizer.ggml.tokens"] = ("array", (kind, tokens + [p.replace(" ", "\u2581") for p in pieces]))
    full["tokenizer.ggml.scores"] = ("array", ("f32", [0.0] * 259 + [-1.0, -2.0, -3.0] + [-100.0] * len(pieces)))
    full["tokenizer.ggml.token_type"] = ("array", ("i32", [2, 3, 3] + [6] * 256 + [1] * (3 + len(pieces))))
    full["llama.context_length"] = ("u32", context)
    weights = tiny_gguf.tensors()
    embedding, head = bytearray(4 * width * vocab), bytearray(4 * width * vocab)

    def follow(before, state, after):
        struct.pack_into("<f", embedding, 4 * (before * width + state), 1.0)
        struct.pack_into("<f", head, 4 * (after * width + state), 20.0)

    follow(NEWLINE, 0, first)
    for i in range(len(pieces)):
        follow(first + i, i + 1, first + i + 1 if i + 1 < len(pieces) else first if loop else 2)
    for name, (shape, gguf_type, _) in weights.items():
        if "norm" not in name:
            n = 1
            for d in shape:
                n *= d
            weights[name] = (shape, gguf_type, bytes(4 * n))
    weights["token_embd.weight"] = ((vocab, width), 0, bytes(embedding))
    weights["output.weight"] = ((vocab, width), 0, bytes(head))
    return tiny_gguf.build({**full, **(meta or {})}, weights)


def spawn(program, *args, columns=80, rows=24, env=None):
    """The process id of `ga ...` on a new pseudo-terminal, and our end of it. Until the program runs, the child is a copy of this test:
    Ctrl-C waits that long, and an error ends the child at once, or its cleanup would remove this test's files."""
    env = {**os.environ, "TERM": "xterm-256color", **(env or {})}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        pid, fd = pty.fork()
        if pid == 0:
            try:
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
                os.execve(program, [program, *args], env)
            finally:
                os._exit(127)
        return pid, fd
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Terminal:
    """`ga ...` on a pseudo-terminal."""

    def __init__(self, program, *args, **kw):
        self.seen, self.status = b"", None
        self.pid, self.fd = spawn(program, *args, **kw)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)

    def resize(self, columns, rows=24):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys):
        os.write(self.fd, keys if isinstance(keys, bytes) else keys.encode())

    def read(self, seconds=0.1):
        with contextlib.suppress(OSError):
            if select.select([self.fd], [], [], seconds)[0]:
                self.seen += os.read(self.fd, 65536)

    def wait(self, word, seconds=30):
        """What came up to and with `word`, or what a compiled pattern matches, which is then gone from `seen`."""
        if not isinstance(word, re.Pattern):
            word = re.compile(re.escape(word if isinstance(word, bytes) else word.encode()))
        deadline = time.time() + seconds
        while not (found := word.search(self.seen)):
            if time.time() > deadline:
                raise AssertionError(f"no {word.pattern} in {self.seen[-600:]}")
            self.read()
        before, self.seen = self.seen[: found.end()], self.seen[found.end():]
        return before

    def prompt(self):
        """What came before the next prompt that waits for keys; one that is drawn again does not count."""
        return self.wait(PROMPT)

    def say(self, text, end=b"\r"):
        """Types one message and gives what came behind it, up to the next prompt, without the prompt."""
        self.type(text)
        self.type(end)
        return plain(self.prompt())[:-2]

    def echo(self):
        return bool(termios.tcgetattr(self.fd)[3] & termios.ECHO)

    def end(self, seconds=30):
        """The exit status."""
        deadline = time.time() + seconds
        while self.status is None:
            if time.time() > deadline:
                raise AssertionError(f"it goes on: {self.seen[-600:]}")
            self.read()
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        self.read(0)
        return self.status


def plain(raw):
    """Without escapes and carriage returns."""
    return ESCAPES.sub(b"", raw).replace(b"\r", b"").decode("utf-8", "replace")
