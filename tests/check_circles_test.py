#!/usr/bin/env python3
"""tools/check_circles.py must find what it is for. Usage: check_circles_test.py ROOT"""
import unittest

import checker_rig



def ring(n, shared=False):
    """n files, each of which calls a function of the next one; declared in the next one's header, or all in one."""
    files = {"cli/all.h": "".join(f"int f{i}(int x);\n" for i in range(n))} if shared else {}
    for i in range(n):
        header = "cli/all.h" if shared else f"cli/r{(i + 1) % n}.h"
        files[f"cli/r{i}.c"] = f'#include "{header}"\nint f{i}(int x) {{\n  return f{(i + 1) % n}(x) + 1;\n}}\n'
        if not shared:
            files[f"cli/r{i}.h"] = f"int f{i}(int x);\n"
    return files


class Circles(checker_rig.Checker):
    script, listed_in = "check_circles", "tools/circles.txt"

    def test_circle(self):
        for shared in (False, True):
            self.check(ring(4, shared), "", True, "4 files need each other; at most 3. Cut the circle, or list it in tools/circles.txt:\n  cli/r0 cli/r1 cli/r2 cli/r3")
            self.check(ring(3, shared), "", False, "circles: 0 of more than 3 files")

    def test_listed(self):
        self.check(ring(4), "cli/r0 cli/r1 cli/r2 cli/r3\n", False, "circles: 1 of more than 3 files, the largest of 4; 0 to change")
        self.check(ring(5), "cli/r0 cli/r1 cli/r2 cli/r3\n", True, "5 files need each other")
        self.check(ring(4), "cli/r0 cli/r1 cli/r2 cli/r3 cli/r4\n", True, "cli/r4 is in no circle: leave it out")

    def test_objects(self):
        """A table that another file defines is needed as a function is."""
        files = ring(4)
        files["cli/r3.c"] = '#include "cli/r0.h"\nint f3(int x) {\n  return t0[x];\n}\n'
        files["cli/r0.h"] = "extern const int t0[2];\n"
        files["cli/r0.c"] = '#include "cli/r1.h"\nconst int t0[2] = {1, 2};\nint f0(int x) {\n  return f1(x);\n}\n'
        self.check(files, "", True, "4 files need each other")

    def test_no_circle(self):
        """A chain; a comment and a text; a name of its own; a field; a name without its header; a name with two definitions."""
        for change in ("int f3(int x) { return x; }", "/* f0(x) */ int f3(int x) { return x; }", 'const char *f3(int x) { return "f0(x)"; }',
                       "static int f0(int x) { return x; }\nint f3(int x) { return f0(x); }", "int f3(struct s *x) { return x->f0; }"):
            self.check({**ring(4), "cli/r3.c": f'#include "cli/r0.h"\n{change}\n'}, "", False, "circles: 0 of")
        self.check({**ring(4), "cli/r3.c": "int f3(int x) { return f0(x); }\n"}, "", False, "circles: 0 of")
        self.check({**ring(4), "verify/r.c": "int f0(int x) { return x; }\n"}, "", False, "circles: 0 of")


if __name__ == "__main__":
    unittest.main()
