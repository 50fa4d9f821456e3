#!/usr/bin/env python3
"""Which CUDA rows have changed since they last passed their tests in full. tests/emu/checked.txt has a hash for each row: of its
parameters, of its kernel's source with all includes, and of the host half beside it, without comments and blanks.

  checked.py changed ROOT ROWS OUT     lists the rows whose hash is another one, and writes OUT.d for the build
  checked.py record ROOT CHANGED JUNIT...  puts rows of CHANGED that passed in ctest's reports into tests/emu/checked.txt

ROWS has a line for each row: id, source, parameters. A change of the emulator, of an oracle or of the checker changes no hash: the
sample, which each unchanged row still has, is for these."""
import hashlib
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

LIST = "tests/emu/checked.txt"
HEAD = "# Hashes of rows that passed in full (tests/emu/checked.py). `make checked` adds those of the last run.\n"
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.M)
COMMENT = re.compile(r'("(?:\\.|[^"\\\n])*")|/\*.*?\*/|//[^\n]*', re.S)


class Sources:
    """Files of a tree, each read once."""

    def __init__(self, root):
        self.root, self.texts = root, {}

    def text(self, path):
        if path not in self.texts:
            self.texts[path] = path.read_text()
        return self.texts[path]

    def closure(self, path, seen):
        """Adds a file and all that it includes to seen. The emulator's body of an instruction is no part of a kernel."""
        if path in seen:
            return
        seen.add(path)
        for name in INCLUDE.findall(self.text(path)):
            for target in (path.parent / name, self.root / "src" / name):
                if target.is_file() and "/emu/" not in name:
                    self.closure(target.resolve(), seen)
                    break

    def digest(self, source):
        """Of a kernel's source, its includes and its host half."""
        files, digest = set(), hashlib.sha256()
        self.closure(source.resolve(), files)
        host = source.with_suffix(".c")
        if host.is_file():
            files.add(host.resolve())
        for path in sorted(files):
            code = COMMENT.sub(lambda m: m[1] or " ", self.text(path))
            digest.update(" ".join(code.split()).encode() + b"\0")
        return digest.hexdigest()


def read_list(path):
    return dict(line.split() for line in path.read_text().splitlines() if line and not line.startswith("#")) if path.exists() else {}


def hashes(root, rows):
    """({id: hash}, all files that were read)"""
    sources, digests, found = Sources(root), {}, {}
    for line in rows.read_text().splitlines():
        name, source, params = (line.split() + [""])[:3]
        if source not in digests:
            digests[source] = sources.digest(root / source)
        found[name] = hashlib.sha256(f"{params} {digests[source]}".encode()).hexdigest()[:16]
    return found, sources.texts


def write_changed(root, rows, out):
    found, files = hashes(root, rows)
    known = read_list(root / LIST)
    changed = sorted((name, value) for name, value in found.items() if known.get(name) != value)
    out.write_text("".join(f"{name} {value}\n" for name, value in changed))
    names = " ".join(str(p).replace(" ", "\\ ") for p in sorted(files))
    Path(f"{out}.d").write_text(str(out).replace(" ", "\\ ") + f": {names}\n")


def passed(report):
    """Rows whose test passed; one that was not run, or is not in the report, did not."""
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        match = re.fullmatch(r"emu_(?:deep_)?(\w+)", case.get("name"))
        if match and case.get("status") == "run":
            yield match[1]


def record(root, changed, reports):
    newer = [r for r in reports if r.exists() and r.stat().st_mtime >= changed.stat().st_mtime]
    done = {name for report in newer for name in passed(report)}
    rows = {name: value for name, value in read_list(changed).items() if name in done}
    known = read_list(root / LIST) | rows
    if rows:
        (root / LIST).write_text(HEAD + "".join(f"{name} {value}\n" for name, value in sorted(known.items())))
    print(f"{len(rows)} rows recorded in {LIST}; {len(read_list(changed)) - len(rows)} changed ones have not passed in full since the last build")


def main():
    task, root, *paths = sys.argv[1:]
    if task == "changed":
        write_changed(Path(root).resolve(), *map(Path, paths))
    else:
        record(Path(root).resolve(), Path(paths[0]), [Path(p) for p in paths[1:]])


if __name__ == "__main__":
    main()
