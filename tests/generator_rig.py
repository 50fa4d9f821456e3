"""The rig of tests of the generators in tools/: a copy of parts of the source tree, edits of its files, and what the generator says of it."""
import contextlib
import importlib
import io
import shutil
import sys
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

ROOT = Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(ROOT / "tools"))


class Generator(unittest.TestCase):
    program, made = "", ""  # the generator's module, and a path below the root that must not be there after a refusal
    folders, left_out = (), ()  # of the source tree: folders that are copied, and patterns of names that are not

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="ga tree ")
        cls.root = Path(cls.folder.name) / "tree"
        for folder in cls.folders:
            shutil.copytree(ROOT / folder, cls.root / folder, ignore=shutil.ignore_patterns(*cls.left_out))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def setUp(self):
        self.edited = set()

    def tearDown(self):
        """Files that a test has edited are as they were."""
        for file in self.edited:
            shutil.copy(ROOT / file, self.root / file)
        shutil.rmtree(self.root / "out", ignore_errors=True)

    def generate(self, *what):
        """Runs the generator in this process: a start of Python costs more than most trees. Its exit status and what it printed."""
        out, err = io.StringIO(), io.StringIO()
        arguments = [self.program, str(self.root), *map(str, what or [self.root / "out"])]
        with mock.patch.object(sys, "argv", arguments), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = int(bool(importlib.import_module(self.program).main()))
        return SimpleNamespace(returncode=code, stdout=out.getvalue(), stderr=err.getvalue())

    def edit(self, file, old, new, count=1):
        text = (self.root / file).read_text()
        self.assertIn(old, text)
        self.edited.add(file)
        (self.root / file).write_text(text.replace(old, new, count))

    def refuses(self, *says):
        done = self.generate()
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        for text in says:
            self.assertIn(text, done.stderr)
        self.assertFalse((self.root / self.made).exists())
