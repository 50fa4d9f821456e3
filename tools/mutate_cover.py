"""Which tests run which lines of the host's code: from a build with gcov's counters, in which each test runs alone. The texts of then are kept,
so that a line of a later text is found in them."""
import difflib
import hashlib
import json
import os
import re
import shlex
import struct
import subprocess
import time
from pathlib import Path

from mutate_build import Build, Tree, run_test

# A child that leaves by _exit keeps its counters, too.
EXIT = """#ifndef GA_COVER_EXIT
#define GA_COVER_EXIT
#define _exit cover_exit
void __gcov_dump(void);
void _Exit(int code);
__attribute__((weak)) void cover_exit(int code);
void cover_exit(int code) {
  __gcov_dump();
  _Exit(code);
}
#endif
"""
COUNTERS = 0x01A10000  # tag of a function's counters in a .gcda file
LONGEST = 1800         # seconds of a test


def has_run(gcda):
    """Whether a counter of an object is above zero. Where all are zero the length of their record is below zero."""
    words = struct.unpack(f"<{len(gcda) // 4}i", gcda[:len(gcda) // 4 * 4])
    at = 4  # magic, version, stamp, checksum
    while at + 1 < len(words) and words[at]:
        tag, length = words[at], words[at + 1]
        if tag == COUNTERS and length > 0:
            return True
        at += 2 + max(length, 0) // 4
    return False


class Coverage:
    """map.json: {"tests": {test: {path: [hash of the text, lines that ran]}}, "code": {hash: lines that have code}, "seconds": {test: seconds that
    it took; null: it fails without a fault}}."""

    def __init__(self, folder, source):
        self.folder, self.source = folder, source
        self.file = folder / "map.json"
        self.map = json.loads(self.file.read_text()) if self.file.is_file() else {"tests": {}, "code": {}, "seconds": {}}
        self.places, self.of_file = {}, {}

    # --- measuring ---

    def forget(self, pattern):
        self.map["tests"] = {name: files for name, files in self.map["tests"].items() if not re.search(pattern, name)}

    def measure(self, names, tier, skip):
        """Runs the tests that the map does not have."""
        missing = [n for n in names if n not in self.map["tests"]]
        if not missing:
            return
        (self.folder / "texts").mkdir(parents=True, exist_ok=True)
        (self.folder / "exit.h").write_text(EXIT)
        tree = Tree(self.source, self.folder / "tree")
        tree.sync()
        build = Build(tree.root, self.folder / "build", "Coverage", f"-O1 -g0 -w --coverage -fprofile-abs-path -include {shlex.quote(str(self.folder / 'exit.h'))}")
        tests = build.tests(tier, skip)
        for i, name in enumerate(missing):
            for counters in build.folder.rglob("*.gcda"):
                counters.unlink()
            begin = time.monotonic()
            verdict = run_test(tests[name], LONGEST)
            self.map["seconds"][name] = time.monotonic() - begin
            self.map["tests"][name] = self.lines_run(build)
            print(f"coverage {i + 1} of {len(missing)}: {name} {verdict}, {len(self.map['tests'][name])} files", flush=True)
            self.file.write_text(json.dumps(self.map))
        self.of_file = {}

    def lines_run(self, build):
        """{path: [hash, lines]} of the counters that the last test has left."""
        files = [f for f in build.folder.rglob("*.gcda") if has_run(f.read_bytes())]
        ran = {}
        for at in range(0, len(files), 100):
            done = subprocess.run(["gcov", "--json-format", "--stdout", *files[at:at + 100]], cwd=build.folder, capture_output=True, text=True)
            for line in done.stdout.splitlines():
                for entry in json.loads(line)["files"] if line.startswith("{") else []:
                    path = Path(os.path.normpath(build.folder / entry["file"]))  # ccache makes paths relative
                    self.add_file(entry, path, build.source, ran)
        return {path: [text, sorted(lines)] for path, (text, lines) in ran.items()}

    def add_file(self, entry, path, source, ran):
        if not path.is_relative_to(source) or path.suffix != ".c":
            return
        text = self.keep_text(path)
        code = set(self.map["code"].get(text, ())) | {row["line_number"] for row in entry["lines"]}
        self.map["code"][text] = sorted(code)
        lines = ran.setdefault(str(path.relative_to(source)), (text, set()))[1]
        lines.update(row["line_number"] for row in entry["lines"] if row["count"])

    def keep_text(self, path):
        data = path.read_bytes()
        name = hashlib.sha256(data).hexdigest()[:16]
        if not (self.folder / "texts" / name).is_file():
            (self.folder / "texts" / name).write_bytes(data)
        return name

    # --- asking ---

    def tests_of_file(self, path):
        """{test: [hash of the text, lines that ran]} of the tests that run any line of a file."""
        if path not in self.of_file:
            self.of_file[path] = {name: files[path] for name, files in self.map["tests"].items() if path in files}
        return self.of_file[path]

    def seconds(self, name):
        """How long a test took; None: it failed without a fault."""
        return self.map["seconds"].get(name)

    def leave_out(self, name):
        """A test that fails without a fault finds none."""
        self.map["seconds"][name] = None
        self.file.write_text(json.dumps(self.map))

    def tests_of(self, path, text, first, last):
        """The tests that run one of the lines of a file's text. Lines without code, such as those of a table, count as run by each test of the file."""
        found = []
        for name, (version, lines) in self.tests_of_file(path).items():
            old = self.old_lines(version, text, first, last)
            if old is None or any(old[0] <= line <= old[1] for line in lines):
                found.append(name)
        return found

    def old_lines(self, version, text, first, last):
        """The lines, first and last, of the kept text that hold the code of the lines of `text`; None: they have no code there."""
        key = version, hashlib.sha256(text.encode()).hexdigest()
        if key not in self.places:
            self.places[key] = self.align((self.folder / "texts" / version).read_text().splitlines(), text.splitlines())
        place = self.places[key]
        old = [place[line] for line in range(first, last + 1) if line in place]
        if not old:
            return None
        code, begin = self.map["code"][version], min(old)
        if any(begin <= line <= max(old) for line in code):
            return begin, max(old)
        # A line in the middle of an expression belongs to the line of code before it, unless a function lies between.
        before = [line for line in code if line < begin]
        lines = (self.folder / "texts" / version).read_text().splitlines()
        if not before or any(lines[i - 1].startswith("}") for i in range(before[-1], begin)):
            return None
        return before[-1], before[-1]

    @staticmethod
    def align(old, new):
        """{line of new: line of old}, from 1, of equal lines."""
        place = {}
        for a, b, n in difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks() if old != new else [(0, 0, len(old))]:
            place.update({b + i + 1: a + i + 1 for i in range(n)})
        return place
