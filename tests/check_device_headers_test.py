#!/usr/bin/env python3
"""tools/check_device_headers.py must find what it is for. Usage: check_device_headers_test.py ROOT"""
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(ROOT / "tools"))
import check_device_headers  # noqa: E402

HEADER = '#pragma once\n#include "cuda/dev/ptx/base.h"\nGA_DEV int planted(int a) { return a + GA_P_D; }\n'
KERNEL = """/* KERNEL k */
#ifndef GA_P_D
#error "GA_P_D: a number"
#endif

#include "cuda/dev/ptx/base.h"
%s
#include "planted/header.h"
"""


class Headers(unittest.TestCase):
    def compiles(self, text, *definitions):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "src/planted").mkdir(parents=True)
            for name in ("core", "cuda"):
                (root / "src" / name).symlink_to(ROOT / "src" / name)
            (root / "src/planted/header.h").write_text(text)
            return check_device_headers.compile_alone(root, "planted/header.h", definitions).returncode == 0

    def test_sound(self):
        self.assertTrue(self.compiles(HEADER, "-DGA_P_D=3"))

    def test_macro_of_the_kernel(self):
        self.assertFalse(self.compiles(HEADER))

    def test_missing_include(self):
        self.assertFalse(self.compiles(HEADER.replace('#include "cuda/dev/ptx/base.h"\n', ""), "-DGA_P_D=3"))

    def test_type_of_the_kernel(self):
        self.assertFalse(self.compiles(HEADER.replace("int a", "const warpgroup *a"), "-DGA_P_D=3"))

    def test_function_of_the_kernel(self):
        self.assertFalse(self.compiles(HEADER.replace("GA_P_D", "imax(a, 2)")))

    def test_no_guard(self):
        self.assertFalse(self.compiles(HEADER.replace("#pragma once\n", ""), "-DGA_P_D=3"))

    def test_includes_behind_code(self):
        for between, late in (("", []), ("/* typedef int args; */", []), ("typedef int args;", [8]), ("#define T 3", [8])):
            with self.subTest(between), tempfile.TemporaryDirectory() as folder:
                kernel = Path(folder) / "k.cu"
                kernel.write_text(KERNEL % between)
                self.assertEqual(list(check_device_headers.late_includes(kernel)), late)

    def test_parameters_reach_headers(self):
        """Shared headers of the backward kernels are compiled as each of these kernels has them."""
        kernels = {kernel for (header, _), kernel in check_device_headers.cases(ROOT, "attn_bwd").items() if header.endswith("attn_bwd_math.h")}
        self.assertEqual(kernels, {"attn_bwd_sm90a.cu", "attn_bwd_kv_resident_sm90a.cu", "attn_bwd_cluster2_sm90a.cu"})


if __name__ == "__main__":
    unittest.main()
