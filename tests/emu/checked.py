#!/usr/bin/env python3
"""Which CUDA rows have changed since they last passed their tests in full. tests/emu/checked.txt has a hash for each row: of its
parameters, of its kernel's source with all includes, and of its host half: the [host] table of the .toml beside the source, the file that
it names, with headers of the same folder, and the kernels of its steps, which have no tests of their own. Without comments and blanks.

  checked.py changed ROOT ROWS OUT     lists the rows whose hash is another one, and writes OUT.d for the build
  checked.py record ROOT CHANGED JUNIT...  puts rows of CHANGED that passed in ctest's reports into tests/emu/checked.txt

ROWS has a line for each row: id, source, parameters. A change of the emulator, of an oracle or of the checker changes no hash: the
sample, which each unchanged row still has, is for these."""
import hashlib
import json
import re
import sys
import tomllib
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

    def closure(self, path, seen, is_part=lambda target: True):
        """Adds a file and all that it includes to seen. The emulator's body of an instruction is no part of a kernel."""
        if path in seen:
            return
        seen.add(path)
        for name in INCLUDE.findall(self.text(path)):
            for target in (path.parent / name, self.root / "src" / name):
                if target.is_file() and "/emu/" not in name:
                    if is_part(target.resolve()):
                        self.closure(target.resolve(), seen, is_part)
                    break

    def host(self, source):
        """The [host] table of the .toml beside the source."""
        table = source.with_suffix(".toml")
        return tomllib.loads(self.text(table)).get("host", {}) if table.is_file() else {}

    def add_kernel(self, source, files, tables):
        """Adds the files of a kernel's source and host half, and of those of its steps."""
        host = self.host(source)
        half = source.with_name(host.get("file", f"{source.stem}.c"))
        tables.append(host)
        self.closure(source, files)
        if half.is_file():
            self.closure(half, files, lambda target: target.parent == half.parent)
        for step in host.get("steps", {}).values():
            for kernel in sorted((self.root / "src").rglob(f"{step['kernel']}.cu")):
                self.add_kernel(kernel.resolve(), files, tables)

    def digest(self, source):
        """Of a kernel's source, its includes, its host half and its steps."""
        files, tables, digest = set(), [], hashlib.sha256()
        self.add_kernel(source.resolve(), files, tables)
        for path in sorted(files):
            code = COMMENT.sub(lambda m: m[1] or " ", self.text(path))
            digest.update(" ".join(code.split()).encode() + b"\0")
        digest.update(json.dumps(tables, sort_keys=True).encode())
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
