#!/usr/bin/env python3
"""Fails on documents that are hard to read or not true: sentences of more than 25 words, links to nothing, paths in
backticks and in text blocks that are not in the tree, words that docs/glossary.md says not to use, shell blocks that no test runs.
Diaries (docs/log), decisions (docs/adr) and the change log are exempt. Usage: check_prose.py [ROOT [FILE...]]"""
import fnmatch
import re
import subprocess
import sys
from pathlib import Path

MOST_WORDS = 25
EXEMPT = ("docs/log/", "docs/adr/", "CHANGELOG.md", "tests/")
GENERATED = ("docs/reference/kernels.md", "docs/reference/cli.md", "docs/reference/model-files.md")  # by programs that are checked elsewhere
RUN = ("README.md", "CONTRIBUTING.md", "docs/guide/", "docs/howto/")  # files whose shell blocks tests/docs_test.py runs
MARKS = ("network", "gpu", "build")  # what a shell block may need that the test does not have
TOP = ("src", "include", "docs", "tests", "tools", "cmdline", "cli", "verify", "bench", "examples", "python", "cmake", ".ci")
FENCE = re.compile(r"^\s*(```+)\s*(\w*)")


class Doc:
    """A document, cut into fenced blocks, tables, headings and units of prose (a paragraph or an item of a list)."""

    def __init__(self, name, text):
        self.name, self.units, self.blocks, self.headings, self.rows, self.texts = name, [], [], [], [], []
        fence, unit, mark, language = None, [], None, ""
        lines = text.split("\n")
        for number, line in enumerate(lines, 1):
            found = FENCE.match(line)
            if fence:
                if found and found.group(1) == fence:
                    fence = None
                elif language == "text":
                    self.texts.append((number, line))
                continue
            if found:
                self.end(unit)
                fence, language = found.groups()
                self.blocks.append((number, language, mark))
                mark = None
                continue
            comment = re.match(r"^\s*<!--\s*run:\s*(.*?)\s*-->", line)
            if comment:
                mark = comment.group(1)
                continue
            line = re.sub(r"<!--.*?-->", "", line)
            if not line.strip():
                self.end(unit)
                continue
            mark = None
            if line.startswith("#"):
                self.end(unit)
                self.headings.append(line.lstrip("#").strip())
            elif line.lstrip().startswith("|"):
                self.end(unit)
                self.rows.append((number, line))
            else:
                if re.match(r"^\s*([-*]|\d+\.)\s", line):
                    self.end(unit)
                unit.append((number, line))
        self.end(unit)

    def end(self, unit):
        if unit:
            self.units.append((unit[0][0], " ".join(line.strip() for _, line in unit)))
            unit.clear()

    def anchors(self):
        plain = (re.sub(r"[^\w\- ]", "", h.replace("`", "").lower()).replace(" ", "-") for h in self.headings)
        return set(plain)


def without_code(text):
    return re.sub(r"`[^`]*`", "X", text)


def sentences(text):
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", without_code(text))
    text = re.sub(r"^\s*([-*]|\d+\.)\s+", "", text).replace("**", "").replace("*", "")
    return re.split(r"(?<=[.!?])\)?\s+(?=[A-Z0-9\"(])", text)


def words(sentence):
    return [w for w in sentence.split() if re.search(r"\w", w)]


def unused_words(root):
    """{word: what to write instead}, from the last table of the glossary."""
    path = root / "docs/glossary.md"
    found, wanted = {}, False
    for line in path.read_text().split("\n") if path.exists() else []:
        wanted = "do not use" in line.lower() if line.startswith("#") else wanted
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        if wanted and line.startswith("|") and cells[0] != "do not use" and not cells[0].startswith("---"):
            found.update({w.strip(): cells[1] for w in cells[0].split(",")})
    return found


class Checker:
    def __init__(self, root):
        self.root, self.bad = root, 0
        out = subprocess.run(["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard"], check=True,
                             capture_output=True, text=True).stdout
        self.files = [f for f in out.splitlines() if (root / f).exists()]
        self.folders = {str(p) for f in self.files for p in Path(f).parents}
        self.unused = unused_words(root)

    def say(self, name, number, what):
        print(f"{name}:{number}: {what}")
        self.bad += 1

    def is_there(self, path):
        path = re.sub(r"<[^>]*>", "*", path).rstrip("/")
        path = re.sub(r"\{[^}]*\}", "*", path)
        if "*" in path or "?" in path:
            return any(fnmatch.fnmatch(f, path) for f in (*self.files, *self.folders))
        return path in self.folders or path in self.files

    def check_path(self, doc, number, path):
        if "/" in path and path.split("/")[0] in TOP and re.match(r"^[\w./*?<>{},+-]+$", path) and not self.is_there(path):
            self.say(doc.name, number, f"`{path}` is not in the tree")

    def check_link(self, doc, number, target, anchors):
        if re.match(r"^[a-z]+:", target):
            return
        path, _, anchor = target.partition("#")
        full = (self.root / doc.name).parent / path if path else self.root / doc.name
        if not full.exists():
            self.say(doc.name, number, f"link to {target}: no such file")
        elif anchor and full.suffix == ".md" and anchor not in anchors(full):
            self.say(doc.name, number, f"link to {target}: no such heading")

    def check_text(self, doc, number, text, anchors):
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            self.check_link(doc, number, target, anchors)
        for code in re.findall(r"`([^`]+)`", text):
            self.check_path(doc, number, code)
        plain = without_code(text)
        for word, instead in self.unused.items():
            if doc.name != "docs/glossary.md" and re.search(rf"\b{re.escape(word)}\b", plain, re.I):
                self.say(doc.name, number, f"'{word}': write {instead} (docs/glossary.md)")

    def check(self, name):
        doc = Doc(name, (self.root / name).read_text())
        def anchors(path):
            return Doc(str(path), path.read_text()).anchors()
        for number, text in doc.units:
            self.check_text(doc, number, text, anchors)
            for sentence in sentences(text):
                n = len(words(sentence))
                if n > MOST_WORDS:
                    self.say(name, number, f"a sentence of {n} words: {' '.join(sentence.split()[:8])} ...")
        for number, row in doc.rows:
            self.check_text(doc, number, row, anchors)
        for number, line in doc.texts:
            for word in line.split():
                self.check_path(doc, number, word.strip("()[]\"':;,."))
        for number, language, mark in doc.blocks:
            if language in ("bash", "shell", "console"):
                self.say(name, number, f"a block of {language}: write sh, so that a test runs it")
            elif language == "sh" and not name.startswith(RUN):
                self.say(name, number, "a shell block that no test runs: only those in README.md, CONTRIBUTING.md, docs/guide and docs/howto are")
            elif mark and (language != "sh" or mark not in MARKS):
                self.say(name, number, f"'run: {mark}': allowed before a shell block are {', '.join(MARKS)}")


def main():
    checker = Checker(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    names = sys.argv[2:] or [f for f in checker.files if f.endswith(".md") and not f.startswith((*EXEMPT, *GENERATED))]
    for name in names:
        checker.check(name)
    print(f"prose: {len(names)} documents, {checker.bad} places to change")
    return checker.bad > 0


if __name__ == "__main__":
    sys.exit(main())
