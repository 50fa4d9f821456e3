"""The rig of tests of the checkers in tools/: a tree of files, the checker's list, and what the checker says of them."""
import contextlib
import importlib
import io
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(ROOT / "tools"))


class Checker(unittest.TestCase):
    script, listed_in = "", ""  # the checker's module, and its list as a path from the root

    @staticmethod
    def run_main(checker, said):
        try:
            return checker.main()
        except SystemExit as ended:  # with a text, as Python prints it
            said.write(str(ended.code))
            return ended.code

    def check(self, files, listed, bad, text):
        """Texts of a tree and of the list; whether the checker complains, and a part of what it says."""
        said = io.StringIO()
        with tempfile.TemporaryDirectory() as folder:
            for name, content in {**files, self.listed_in: listed}.items():
                path = Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content)
            checker = importlib.import_module(self.script)
            with mock.patch.object(sys, "argv", [self.script, folder]), contextlib.redirect_stdout(said):
                failed = self.run_main(checker, said)
        self.assertEqual(bool(failed), bad, said.getvalue())
        self.assertIn(text, said.getvalue())
