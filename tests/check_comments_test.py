#!/usr/bin/env python3
"""tools/check_comments.py must find what it is for. Usage: check_comments_test.py ROOT"""
import unittest

import checker_rig


class Comments(checker_rig.Checker):
    script, listed_in = "check_comments", "README.md"

    def finds(self, name, text, said):
        self.check({f"src/{name}": text}, "", said is not None, said or "0 comments to mend")

    def test_good(self):
        self.finds("a.h", "/* Frees the row. NULL is fine. */\nvoid f(void);\nint n; /* number of rows */\n", None)

    def test_beginning(self):
        self.finds("a.h", "/* Of a row: its length. */\nint n;\n", "'Of'")
        self.finds("a.cu", "int n; /* Of a row */\n", "'Of'")

    def test_beginning_of_a_field(self):
        for word in ("of", "by", "that", "behind"):
            self.finds("a.h", f"int n; /* {word} rows */\n", f"'{word}'")
        self.finds("a.cu", "int n; /* of rows */\n", None)

    def test_phrase(self):
        self.finds("a.h", "/* The step is nobody's. */\nint n;\n", "is nobody's")

    def test_second_comment(self):
        self.finds("a.h", "/* Frees the row. */\n/* Frees the rows. */\nvoid f(void);\n", "a second comment")
        self.finds("a.h", "int m; /* number of columns */\n/* Number of rows. */\nint n;\n", None)
        self.finds("a.h", "/* Rows as X(name). */\n/* clang-format off */\n#define ROWS(X)\n", None)


if __name__ == "__main__":
    unittest.main()
