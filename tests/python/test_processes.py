"""fork() and Ctrl-C: no process hangs, and nothing that it lacks is waited for. Each case is a process of its own."""
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
from pathlib import Path

import tiny_gguf

SECONDS = 60  # on a machine that does much else


def start(code, *arguments):
    """A Python process that has the same modules, and prints as it goes."""
    code = f"import sys; sys.path[:0] = {sys.path!r}\nimport os, time, threading, gpu_accel as ga\n" + textwrap.dedent(code)
    return subprocess.Popen([sys.executable, "-W", "ignore", "-c", code, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


HELPERS = """
    def numbers(c, *shape):
        x = c.empty(shape)
        n = 1
        for size in shape: n *= size
        memoryview(x).cast("B").cast("f")[:] = memoryview(bytearray(4 * n)).cast("f")
        return x

    def in_fork(work):
        "The status of a fork that does this work; it is killed when it hangs."
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            try:
                work()
                os._exit(0)
            except ga.StateError as error:
                print(error, flush=True)
                os._exit(3)
            except BaseException as error:
                print(repr(error), flush=True)
                os._exit(4)
        for _ in range(400):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.05)
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        return "hangs"
"""


class Processes(unittest.TestCase):
    def output(self, code, *arguments):
        process = start(textwrap.dedent(HELPERS) + textwrap.dedent(code), *arguments)
        try:
            text, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            self.fail(f"hangs: {process.communicate()[0]}")
        self.assertEqual(process.returncode, 0, text)
        return text

    def model(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = Path(folder.name) / "tiny.gguf"
        path.write_bytes(tiny_gguf.build())
        return str(path)

    def test_fork_with_an_engine(self):
        text = self.output("""
            model = ga.Model(sys.argv[1], "cpu", threads=2)
            engine = ga.Engine(model, n_ctx=64)
            request = engine.submit("hi", 3, ignore_eos=True)
            ids = model.tokenize("hi")
            print("submit", in_fork(lambda: engine.submit("hi", 3)))
            print("poll", in_fork(lambda: list(request)))
            print("stats", in_fork(engine.stats))
            print("info", in_fork(lambda: request.info))
            print("close", in_fork(engine.close))
            print("cancel", in_fork(request.cancel))
            print("tokenize", in_fork(lambda: model.tokenize("hi")))
            def own():
                mine = ga.Engine(ga.Model(sys.argv[1], "cpu", threads=2), n_ctx=64)
                assert len([t for t in mine.submit(ids, 3, ignore_eos=True)]) == 3
            print("own", in_fork(own))
            def leave():
                raise SystemExit
            print("exit", in_fork(lambda: (globals().pop("engine"), globals().pop("request"))))
            print("parent", len([t for t in request]), len([t for t in engine.submit("hi", 2, ignore_eos=True)]))
            engine.close()
        """, self.model())
        for line in ("submit 3", "poll 3", "stats 3", "info 3", "close 0", "cancel 0", "tokenize 0", "own 0", "exit 0", "parent 3 2"):
            self.assertIn(line + "\n", text)
        self.assertIn("allowed is one that is made after fork()", text)

    def test_plain_exit_of_a_fork(self):
        """sys.exit, with all that Python does on its way out."""
        self.output("""
            from gpu_accel.llama_cpp import Llama
            llama = Llama(model_path=sys.argv[1], n_ctx=64, device="cpu")
            llama("hi", max_tokens=3)
            sys.stdout.flush()
            pid = os.fork()
            if pid == 0:
                sys.exit(0)
            assert os.waitpid(pid, 0)[1] == 0
        """, self.model())

    def test_fork_while_threads_compute(self):
        """Forks compute with contexts of their own; one that a thread used at that moment says so."""
        text = self.output("""
            shared, idle = ga.Context("cpu", 3), ga.Context("cpu", 3)
            stop = False
            def compute(context):
                q = numbers(context, 1, 256, 4, 32)
                while not stop:
                    context.attention(q, q, q)
            threads = [threading.Thread(target=compute, args=(c,), daemon=True) for c in (shared, shared, ga.default_context())]
            for thread in threads: thread.start()
            def work():
                for context in (ga.default_context(), idle, ga.Context("cpu", 3)):
                    q = numbers(context, 1, 64, 4, 32)
                    assert context.attention(q, q, q).shape == (1, 64, 4, 32)
                global shared
                q = numbers(ga.default_context(), 1, 8, 4, 32)
                try:
                    shared.attention(q, q, q)
                except ga.StateError as error:
                    assert "opened after fork()" in str(error)
                shared = None
            for i in range(8):
                time.sleep(0.01 * i)
                status = in_fork(work)
                assert status == 0, status
            stop = True
            for thread in threads: thread.join()
            print("done")
        """)
        self.assertIn("done", text)

    def interrupted(self, code):
        """Sends SIGINT once the process has printed a line; seconds until it has ended by KeyboardInterrupt."""
        process = start(textwrap.dedent(HELPERS) + textwrap.dedent(code))
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "begins\n")
        time.sleep(0.5)
        self.assertIsNone(process.poll())
        before = time.monotonic()
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=SECONDS)
        self.assertIn("interrupted", text)
        return time.monotonic() - before, text

    def test_interrupt(self):
        """A call that takes long ends soon, whatever its threads, and the context works on."""
        for threads in (1, 2):
            with self.subTest(threads=threads):
                seconds, text = self.interrupted(f"""
                    c = ga.Context("cpu", {threads})
                    q = numbers(c, 1, 1 << 16, 8, 64)
                    print("begins", flush=True)
                    try:
                        c.attention(q, q, q)
                        print("ended by itself")
                    except KeyboardInterrupt:
                        print("interrupted")
                    small = numbers(c, 1, 16, 8, 64)
                    print(c.attention(small, small, small).shape)
                """)
                self.assertIn("(1, 16, 8, 64)", text)
                self.assertLess(seconds, 10)  # 1 s, and a machine that does much else

    def test_interrupt_of_ranks(self):
        seconds, _ = self.interrupted("""
            q = numbers(ga.default_context(), 1, 1 << 16, 4, 64)
            print("begins", flush=True)
            try:
                ga.distributed_attention(q, q, q, ranks=2)
                print("ended by itself")
            except KeyboardInterrupt:
                print("interrupted")
        """)
        self.assertLess(seconds, 10)

    def test_handlers_of_signals(self):
        """A handler that raises nothing lets the call go on; one that uses the same context is told."""
        process = start(textwrap.dedent(HELPERS) + textwrap.dedent("""
            import signal
            c, seen = ga.Context("cpu", 2), []
            q, small = numbers(c, 1, 1 << 14, 4, 64), numbers(c, 1, 16, 4, 64)
            def handler(*_):
                try:
                    c.attention(small, small, small)
                    seen.append("ran")
                except ga.StateError as error:
                    seen.append(str(error))
            signal.signal(signal.SIGALRM, handler)
            signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
            while not any("signal handler" in text for text in seen):
                assert c.attention(q, q, q).shape == (1, 1 << 14, 4, 64)
            signal.setitimer(signal.ITIMER_REAL, 0)
            print("done")
        """))
        try:
            text, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            self.fail(process.communicate()[0])
        self.assertIn("done", text)


if __name__ == "__main__":
    unittest.main()
