#!/usr/bin/env python3
"""A kernel's source that is embedded for compiling at run time says what its file and headers say: with the parameters of the first
row, both are the same words behind the preprocessor. Usage: flat_sources_test.py ROOT; CXX as usual."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(ROOT / "tools"))
import cuda_build  # noqa: E402
import gen_kernels  # noqa: E402
import kernel_decl  # noqa: E402


def words(source, definitions, *folders):
    """What is left of a file, as words. System headers are those of the first folder, which are empty."""
    command = [os.environ.get("CXX", "c++"), "-E", "-P", "-nostdinc", "-nostdinc++", "-x", "c++", *definitions, *(f"-I{folder}" for folder in folders), source]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


class Flat(unittest.TestCase):
    def compare(self, source, definitions, folder):
        flat = folder / "flat.cu"
        cuda_build.write_flat(ROOT / "src", source, flat)
        flat.write_text(flat.read_text().replace(cuda_build.PART, ""))
        for name in ("stdint.h", "math.h", "string.h", "stddef.h"):
            (folder / name).touch()
        self.assertEqual(words(flat, definitions, folder), words(ROOT / source, definitions, folder, ROOT / "src"))

    def test_all(self):
        for file in (f for f in kernel_decl.read(ROOT) if f.source):
            row = file.rows[0]
            definitions = [f"-DGA_P_{pair}" for pair in gen_kernels.params(row).split(",") if pair[0].isupper()] + [f"-DGA_KERNEL_ID={row.id}"]
            with self.subTest(row["source"]), tempfile.TemporaryDirectory() as folder:
                self.compare(row["source"], definitions, Path(folder))


if __name__ == "__main__":
    unittest.main()
