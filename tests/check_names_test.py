#!/usr/bin/env python3
"""tools/check_names.py must find what it is for. Usage: check_names_test.py ROOT"""
import unittest

import checker_rig

TWO = {"src/a.c": "static int f(int x) {\n  return x;\n}\n", "src/b.c": "static int\nf(int x) { return -x; }\n"}


class Names(checker_rig.Checker):
    script, listed_in = "check_names", "tools/shared_names.txt"

    def test_two_meanings(self):
        self.check(TWO, "", True, "f: src/a.c:1, src/b.c:2: name it")

    def test_listed(self):
        self.check(TWO, "f | src/*.c | the same in both\n", False, "0 to change")

    def test_listed_for_other_files(self):
        self.check({**TWO, "cli/c.c": "int f(void) {}\n"}, "f | src/*.c | the same\n", True, "cli/c.c:1")

    def test_line_that_is_not_needed(self):
        self.check({"src/a.c": TWO["src/a.c"]}, "f | src/*.c | the same\n", True, "f is not needed")
        self.check(TWO, "f | src/*.c cli/*.c | the same\n", True, "cli/*.c is not needed")

    def test_line_without_a_meaning(self):
        self.check(TWO, "f | src/*.c\n", True, "shared_names.txt:1: write it as")

    def test_long_list(self):
        self.check(TWO, "f | src/*.c | the same\n" * 61, True, "61 lines; at most 60")

    def test_what_is_no_definition(self):
        other = ["int f(int x);\n", "#define f(x) { x; }\n", "/* f(x) { } */\n", "const char *t = \"f(x) {\";\n", "typedef struct f { int x; } f;\n",
                 "int g(int x) {\n  if (f(x)) { return 1; }\n  return 0;\n}\n", "static int (*const t[])(int) = {f};\n", "GA_ROW(f)\n"]
        for text in other:
            self.check({"src/a.c": TWO["src/a.c"], "src/b.c": text}, "", False, "0 to change")

    def test_forms_of_definitions(self):
        for text in ['extern "C" {\nint f(int x) { return x; }\n}\n', "GA_DEV uint4 f(const int (*x)[2], int y) {\n}\n", "__attribute__((noinline)) int f(void) {}\n",
                     "#if A\nint g(void) {}\n#else\nint f(void) {}\n#endif\n"]:
            self.check({"src/a.c": TWO["src/a.c"], "src/b.cu": text}, "", True, "f: src/a.c:1, src/b.cu:")


if __name__ == "__main__":
    unittest.main()
