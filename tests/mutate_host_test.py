#!/usr/bin/env python3
"""Tests of tools/mutate_host.py: which faults it plants in a text, and a whole run over a small project, cut off and taken up again."""
import contextlib
import io
import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(ROOT / "tools"))
import mutants
import mutate_host

TEXT = '''#include <x.h>
static const int t[3] = {1, 0x2f}; /* 4 == 5 */
typedef struct s { int a[4]; } s;
int f(int a, int b) {
  char name[64];
  GA_TRY(g(a, b));
  GA_REQUIRE(a < b, E, "a is %d 7", a);
  if (a == 2) return 1;
  switch (a) {
  case 6: b = a; break;
  }
  for (int i = 0; i < b; i++) a += b;
  int c = a ? b : g(a, 3);
  h(a,
    b);
  x.y++;
  return a >= 1 && b;
}
'''
WANTED = {
    "comparison": ["< -> <=", "== -> !=", "< -> <=", ">= -> >"],
    "constant": ["1 -> 2", "1 -> 0", "0x2f -> 48", "0x2f -> 46", "2 -> 3", "2 -> 1", "1 -> 2", "1 -> 0", "6 -> 7", "6 -> 5", "0 -> 1", "3 -> 4", "3 -> 2",
                 "1 -> 2", "1 -> 0"],
    "statement": ["b = a; -> ;", "a += b; -> ;", "h(a,\n    b); -> ;", "x.y++; -> ;"],
    "arguments": ["a, b -> b, a", "a, 3 -> 3, a", "a,\n    b -> b,\n    a"],
    "condition": ["a == 2 -> !(a == 2)"],
    "check": ["GA_TRY(g(a, b)) -> (void)!(g(a, b))", 'GA_REQUIRE(a < b, E, "a is %d 7", a) -> ', "if (a == 2) return 1; -> ;"],
}

SOURCE = '''int clamp(int x, int low, int high);
int clamp(int x, int low, int high) {
  if (x < low) return low;
  if (x > high) return high;
  return x;
}
'''
TEST = '''int clamp(int x, int low, int high);
int main(void) { return clamp(5, 1, 3) != 3 || clamp(2, 1, 3) != 2 || clamp(0, 1, 3) != %s; }
'''
PROJECT = '''cmake_minimum_required(VERSION 3.25)
project(small LANGUAGES C)
add_library(small STATIC src/clamp.c)
add_executable(tested tests/tested.c)
target_link_libraries(tested PRIVATE small)
enable_testing()
add_test(NAME tested COMMAND tested)
set_tests_properties(tested PROPERTIES LABELS quick)
file(WRITE ${CMAKE_BINARY_DIR}/tests/needs.txt "tested tested\\n")
'''


class Sites(unittest.TestCase):
    def test_each_kind(self):
        found = mutants.sites(TEXT)
        for kind in mutants.KINDS:
            self.assertEqual([f"{TEXT[s.start:s.end]} -> {s.new}" for s in found[kind]], WANTED[kind], kind)

    def test_draws_repeat_and_end(self):
        first, again, other = (list(mutants.draw({"a.c": TEXT, "b.c": SOURCE}, seed)) for seed in (1, 1, 2))
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)
        self.assertEqual(len(set(first)), len(first))
        self.assertEqual(set(first), set(other))


@unittest.skipUnless(shutil.which("gcov") and shutil.which("ninja"), "no gcov or no ninja here")
class Run(unittest.TestCase):
    def write(self, name, text):
        path = self.tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run_tool(self, *arguments):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            mutate_host.main(["--tree", str(self.tree), "--work", str(self.work), "--least", "5", *arguments])
        return out.getvalue()

    def rows(self):
        return [json.loads(line) for line in (self.work / "1.jsonl").read_text().splitlines()]

    def test_whole_run(self):
        with tempfile.TemporaryDirectory(prefix="ga mutants ") as folder:
            self.tree, self.work = Path(folder) / "tree", Path(folder) / "work"
            self.write("src/clamp.c", SOURCE)
            self.write("tests/tested.c", TEST % "1 && 0")  # does not look at values below
            self.write("CMakeLists.txt", PROJECT)
            subprocess.run(["git", "init", "-q", self.tree], check=True)
            self.run_tool("--count", "3")
            rows = self.rows()
            self.assertEqual(sum(r["verdict"] in mutate_host.COUNTED for r in rows), 3)
            said = self.run_tool("--count", "100")  # as many as there are
            self.assertEqual([r for r in self.rows() if r["n"] < len(rows)], rows)
            self.assertEqual((self.tree / "src/clamp.c").read_text(), SOURCE)
            self.assertEqual((self.work / "tree/src/clamp.c").read_text(), SOURCE)
            verdicts = {(r["kind"], r["text"]): r for r in self.rows()}
            self.assertEqual(verdicts["check", "if (x > high) return high;"]["verdict"], "caught")
            self.assertEqual(verdicts["condition", "x > high"]["by"], "tested (exit 1)")
            self.assertEqual(verdicts["check", "if (x < low) return low;"]["verdict"], "survived")
            self.assertEqual(verdicts["comparison", "<"]["verdict"], "survived")  # clamp is the same function
            self.assertIn("src/clamp.c:3: check, 1 of 1 tests of the quick tier ran\n- if (x < low) return low;\n+ ;\n", said)
            self.write("tests/tested.c", TEST % "1")
            self.write("tests/mutants.txt", "src/clamp.c\n- if (x < low) return low;\n+ if (x <= low) return low;\n= low is low\n")
            said = self.run_tool("--again")
            verdicts = {(r["kind"], r["text"]): r for r in self.rows()}
            self.assertEqual(verdicts["check", "if (x < low) return low;"]["verdict"], "caught")
            self.assertNotIn("x <= low", said)
            self.assertIn("| comparison | 0 | 0 | 1 | 1 | 0 |", said)  # x >= high is the same object
            self.assertIn("4 of 4 caught", said)


if __name__ == "__main__":
    unittest.main()
