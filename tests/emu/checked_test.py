#!/usr/bin/env python3
"""tests/emu/checked.py: a row whose kernel, host half or parameters changed is tested in full until it has passed so."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import checked  # noqa: E402

KERNEL = '#include "lib.h"\n/* a kernel */\nint k(int x) { return one(x); }\n'
ROWS = "row_a src/kern/k.cu D=1\nrow_b src/kern/k.cu D=2\nrow_c src/kern/other.cu \n"
REPORT = '<testsuite><testcase name="emu_row_a" status="run"/><testcase name="emu_deep_row_b" status="fail"/></testsuite>'


class Checked(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve()
        for name, text in {"src/kern/k.cu": KERNEL, "src/kern/k.c": "int host;\n", "src/kern/other.cu": "int o;\n", "rows.txt": ROWS,
                           "src/lib.h": '#include "dev/emu/body.h"\nint one(int);\n', "src/dev/emu/body.h": "int body;\n"}.items():
            self.write(name, text)
        self.record_all()
        self.assertEqual(self.changed(), [])

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def changed(self):
        checked.write_changed(self.root, self.root / "rows.txt", self.root / "changed.txt")
        return list(checked.read_list(self.root / "changed.txt"))

    def record_all(self):
        found, _ = checked.hashes(self.root, self.root / "rows.txt")
        self.write(checked.LIST, "".join(f"{name} {value}\n" for name, value in found.items()))

    def test_what_changes_a_row(self):
        for name, text, rows in (("src/kern/k.cu", KERNEL.replace("one(x)", "one(x) + 1"), ["row_a", "row_b"]),
                                 ("src/lib.h", "long one(int);\n", ["row_a", "row_b"]), ("src/kern/k.c", "int host = 1;\n", ["row_a", "row_b"]),
                                 ("rows.txt", ROWS.replace("D=2", "D=3"), ["row_b"]), ("src/kern/other.cu", 'char *t = "/* 1 */";\n', ["row_c"])):
            with self.subTest(name):
                before = (self.root / name).read_text()
                self.write(name, text)
                self.assertEqual(self.changed(), rows)
                self.write(name, before)
        self.write("src/kern/other.cu", 'char *t = "/* 1 */";\n')
        self.record_all()
        self.write("src/kern/other.cu", 'char *t = "/* 2 */";\n')  # a text is no comment
        self.assertEqual(self.changed(), ["row_c"])

    def test_host_half_and_steps(self):
        """The host half may have another name, and headers beside it; steps are kernels of other files."""
        files = {"src/kern/other.toml": '[host]\nfile = "half.c"\nok = "is_ok"\n[host.steps]\npre = {kernel = "pre"}\n',
                 "src/kern/half.c": '#include "half.h"\n#include "far.h"\n', "src/kern/half.h": "int half;\n", "src/far.h": "int far;\n",
                 "src/step/pre.cu": "int p;\n", "src/step/pre.c": '#include "step/pre.h"\n', "src/step/pre.h": "int pre;\n"}
        for name, text in files.items():
            self.write(name, text)
        self.record_all()
        for name, text in files.items():
            with self.subTest(name):
                self.write(name, text.replace("is_ok", "is_good") + "\n" if name.endswith(".toml") else text + "int more;\n")
                self.assertEqual(self.changed(), [] if name == "src/far.h" else ["row_c"])
                self.write(name, text)
        self.write("src/kern/other.toml", "# a comment\n" + files["src/kern/other.toml"])
        self.assertEqual(self.changed(), [])

    def test_list_is_missing(self):
        """Without the list of changed rows check_row.sh checks each one in full."""
        script, here = Path(__file__).resolve().parent / "check_row.sh", self.root / "changed.txt"
        self.write("changed.txt", "row_b 1\n")
        for changed, seed in ((here, "3"), (self.root / "none.txt", "1")):
            text = subprocess.run([script, "echo", changed, "row_a", "40", "0.5"], capture_output=True, text=True, check=True).stdout
            self.assertIn(f"-s {seed} ", text)

    def test_what_changes_none(self):
        self.write("src/kern/k.cu", KERNEL.replace("a kernel", "the kernel").replace("int k", "// more\nint   k"))
        self.write("src/dev/emu/body.h", "int other_body;\n")
        self.assertEqual(self.changed(), [])

    def test_record(self):
        """Rows that passed since the last build, no others."""
        (self.root / checked.LIST).unlink()
        self.assertEqual(self.changed(), ["row_a", "row_b", "row_c"])
        self.write("full.xml", REPORT)
        checked.record(self.root, self.root / "changed.txt", [self.root / "full.xml", self.root / "none.xml"])
        self.assertEqual(self.changed(), ["row_b", "row_c"])

    def test_old_report(self):
        self.write("full.xml", REPORT)
        (self.root / checked.LIST).unlink()
        self.changed()
        os.utime(self.root / "full.xml", (0, 0))
        checked.record(self.root, self.root / "changed.txt", [self.root / "full.xml"])
        self.assertEqual(len(self.changed()), 3)


if __name__ == "__main__":
    unittest.main()
