"""The scripts in examples/python, as a user starts them; finetune.py is in test_transformers.py."""
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

import gpu_accel as ga
import tiny_gguf

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "python")


def run_script(name, *args, text=""):
    """Its output; an AssertionError when it fails."""
    path = os.pathsep.join([os.path.dirname(os.path.dirname(ga.__file__)), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, os.path.join(FOLDER, name), *args], input=text, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Examples(unittest.TestCase):
    @unittest.skipIf(importlib.util.find_spec("numpy") is None, "numpy is missing")
    def test_attention(self):
        out = run_script("attention.py", "300")
        self.assertIn("o (1, 300, 8, 64), dq (1, 300, 8, 64), dk (1, 300, 2, 64)", out)
        self.assertIn("chosen: attn_", out)

    def test_chat(self):
        with tempfile.NamedTemporaryFile(prefix="ga-python-", suffix=".gguf") as f:
            f.write(tiny_gguf.build())
            f.flush()
            out = run_script("chat.py", f.name, "cpu", text="hello\nagain\n\n")
            self.assertGreaterEqual(out.count("\n"), 2)  # a line an answer


if __name__ == "__main__":
    unittest.main()
