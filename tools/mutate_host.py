#!/usr/bin/env python3
"""Plants single faults in the host's C code, one at a time, and says which of them the tests do not find.

  mutate_host.py [--seed N] [--count N] [--only PATH] [--tier quick|full]   plants faults; a second call goes on where the first one ended
  mutate_host.py --again                                                   plants the survivors of the result file once more
  mutate_host.py --list                                                    prints survivors with their places, and a table

Faults: a comparison, a constant, a dropped statement, swapped arguments, a negated condition, a dropped check (tools/mutants.py). All work is
done on a copy of the tree in the work folder. A coverage build says which tests run which line; a fault gets the tests that run its line, the
shortest first, until one fails. A fault that does not compile, or whose object is that of the original, is not counted. Faults that no test
can find stand in tests/mutants.txt, each with its reason."""
import argparse
import collections
import json
import re
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import mutants
from mutate_build import Build, Tree, run_test
from mutate_cover import Coverage

ROOT = Path(__file__).resolve().parents[1]
# verify/check and src/emu are what tests are made of: `ga check --selftest` and tests/emu/mutate.py plant faults there.
FOLDERS = ("src", "cli", "cmdline", "python/ext", "verify")
NOT_HERE = ("src/emu/", "verify/check/")
KNOWN = "tests/mutants.txt"
CONTEXT = 80  # characters on both sides by which a fault's place is found again


def changed_lines(text, site):
    """The lines of a fault before and after, stripped."""
    first, last = site.lines(text)
    old, new = text.splitlines(), site.apply(text).splitlines()
    return [line.strip() for line in old[first - 1:last]], [line.strip() for line in new[first - 1:last + len(new) - len(old)]]


def known_equivalents(root):
    """{(path, old lines, new lines): reason} of tests/mutants.txt."""
    known, path, old, new = {}, None, [], []
    file = root / KNOWN
    for line in file.read_text().splitlines() if file.is_file() else []:
        if line.startswith("- "):
            old.append(line[2:].strip())
        elif line.startswith("+ "):
            new.append(line[2:].strip())
        elif line.startswith("= "):
            known[path, tuple(old), tuple(new)] = line[2:]
            old, new = [], []
        elif line and not line.startswith("#"):
            path = line
    return known


class Results:
    """A JSON line for each fault; the last line of a fault's number holds."""

    def __init__(self, path):
        self.path, self.rows = path, {}
        if path.is_file():
            for line in path.read_text().splitlines():
                row = json.loads(line)
                self.rows[row["n"]] = row

    def add(self, row):
        self.rows[row["n"]] = row
        with self.path.open("a") as f:
            f.write(json.dumps(row) + "\n")


class Bench:
    def __init__(self, args):
        self.args = args
        self.work = args.work.resolve()
        self.tree = Tree(args.tree, self.work / "tree")
        self.tree.sync()
        self.build = Build(self.tree.root, self.work / "build")
        self.tests = self.build.tests(args.tier, args.skip)
        self.cover = Coverage(self.work / "cover", args.tree)
        self.cover.forget(args.measure)
        self.cover.measure(self.tests, args.tier, args.skip)
        self.sound = set()  # tests that have passed here without a fault

    def texts(self):
        compiled = self.build.objects
        return {path: (self.tree.root / path).read_text() for path in compiled
                if path.startswith(tuple(f + "/" for f in FOLDERS)) and not path.startswith(NOT_HERE) and path.startswith(self.args.only)}

    def tests_of(self, path, site, text):
        first, last = site.lines(text)
        names = self.cover.tests_of(path, text, first, last) if self.cover.tests_of_file(path) else self.tests_of_users(path)
        names = [n for n in names if n in self.tests and self.cover.seconds(n) is not None]
        return sorted(names, key=self.cover.seconds)

    def tests_of_users(self, path):
        """A file of tables alone runs no line: the tests of the files that include the headers of its folder that it includes."""
        texts = self.texts()
        headers = [h for h in re.findall(r'#include "([^"]+)"', texts[path]) if f"{Path(path).parent}/".endswith(f"/{Path(h).parent}/")]
        users = (p for p, text in texts.items() if any(f'"{h}"' in text for h in headers))
        return set().union(*(self.cover.tests_of_file(p) for p in users))

    def run(self, name):
        """None: the test passes; else how it failed."""
        if not self.build.make_test(name):
            return f"the build of {name}"
        verdict = run_test(self.tests[name], max(self.args.least, self.args.times * self.cover.seconds(name)))
        return None if verdict == "passed" else f"{name} ({verdict})"

    def try_fault(self, path, site, text):
        """Verdict, how a test failed or None, and the names of the tests that ran."""
        ran, budget = [], self.args.seconds
        with self.tree.changed(path, site.apply(text)):
            same = self.build.compile(path)
            if same is None:
                return "does not compile", None, ran
            if same:
                return "same object", None, ran
            for name in self.tests_of(path, site, text):
                budget -= self.cover.seconds(name)
                if budget < 0 and ran:
                    break
                ran.append(name)
                failed = self.run(name)
                if failed:
                    return "caught", failed, ran
        return "survived", None, ran

    def is_sound(self, name):
        """Whether a test passes without a fault. One that does not is left out from now on."""
        if name not in self.sound and self.run(name):
            print(f"{name} fails without a fault; left out", flush=True)
            self.cover.leave_out(name)
            return False
        self.sound.add(name)
        return True

    def judge(self, path, site, text):
        while True:
            verdict, by, ran = self.try_fault(path, site, text)
            self.build.compile(path)  # the next fault's object is compared with the original's
            if verdict != "caught" or self.is_sound(ran[-1]):
                return verdict, by, len(ran)

    def plant(self, n, path, site, text):
        begin = time.monotonic()
        verdict, by, ran = self.judge(path, site, text)
        old, new = changed_lines(text, site)
        row = {"n": n, "path": path, "line": site.lines(text)[0], "kind": site.kind, "verdict": verdict, "by": by, "ran": ran, "of": len(self.tests_of(path, site, text)), "tier": self.args.tier,
               "old": old, "new": new, "start": site.start, "before": text[max(0, site.start - CONTEXT):site.start],
               "text": text[site.start:site.end], "becomes": site.new, "after": text[site.end:site.end + CONTEXT],
               "seconds": round(time.monotonic() - begin, 1)}
        print(f"{n} {path}:{row['line']} {site.kind}: {verdict}{' by ' + by if by else ''}, {ran} of {row['of']} tests, {row['seconds']} s", flush=True)
        return row


COUNTED = ("caught", "survived")


def plant_drawn(bench, results, args):
    texts, counted = bench.texts(), 0
    for n, (path, site) in enumerate(mutants.draw(texts, args.seed)):
        if counted == args.count:
            break
        row = results.rows.get(n)
        if row and (row["path"], row["text"], row["becomes"]) != (path, texts[path][site.start:site.end], site.new):
            sys.exit(f"{results.path}: fault {n} was {row['path']}:{row['line']} and would now be {path}: sources, --seed or --only have changed; "
                     "give another --result, or --again")
        if not row:
            row = bench.plant(n, path, site, texts[path])
            results.add(row)
        counted += row["verdict"] in COUNTED


def replanted(row, text):
    """The fault of a row in today's text, or None."""
    whole, at = row["before"] + row["text"] + row["after"], -1
    places = []
    while (at := text.find(whole, at + 1)) >= 0:
        places.append(at + len(row["before"]))
    if not places:
        return None
    start = min(places, key=lambda p: abs(p - row["start"]))
    return mutants.Site(row["kind"], start, start + len(row["text"]), row["becomes"])


def plant_again(bench, results, known):
    for row in list(results.rows.values()):
        if row["verdict"] != "survived" or is_known(row, known) or not row["path"].startswith(bench.args.only):
            continue
        text = (bench.tree.root / row["path"]).read_text()
        site = replanted(row, text)
        if site:
            results.add(bench.plant(row["n"], row["path"], site, text))
        else:
            print(f"{row['n']} {row['path']}:{row['line']}: its lines have changed; left out")


def is_known(row, known):
    return known.get((row["path"], tuple(row["old"]), tuple(row["new"])))


def report(results, known):
    table = collections.defaultdict(collections.Counter)
    for row in sorted(results.rows.values(), key=lambda r: r["n"]):
        reason = row["verdict"] == "survived" and is_known(row, known)
        table[row["kind"]]["equivalent" if reason else row["verdict"]] += 1
        if row["verdict"] != "survived" or reason:
            continue
        print(f"{row['path']}:{row['line']}: {row['kind']}, {row['ran']} of {row['of']} tests of the {row['tier']} tier ran")
        print("".join(f"- {line}\n" for line in row["old"]) + "".join(f"+ {line}\n" for line in row["new"]))
    columns = ("caught", "survived", "equivalent", "same object", "does not compile")
    print(f"| kind | {' | '.join(columns)} |\n|---|{'---:|' * len(columns)}")
    for kind in mutants.KINDS:
        print(f"| {kind} | {' | '.join(str(table[kind][c]) for c in columns)} |")
    total = {c: sum(t[c] for t in table.values()) for c in columns}
    print(f"| all | {' | '.join(str(total[c]) for c in columns)} |")
    counted = total["caught"] + total["survived"]
    print(f"{total['caught']} of {counted} caught ({100 * total['caught'] / max(counted, 1):.1f} %); equivalent ones are not counted")


def main(arguments):
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("--tree", type=Path, default=ROOT, help="the tree whose copy is changed")
    p.add_argument("--work", type=Path, help="folder of copy, builds and results; TREE/build-mutants")
    p.add_argument("--result", type=Path, help="file with a JSON line for each fault; WORK/SEED.jsonl")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--count", type=int, default=200, help="faults that are counted, with those of earlier calls")
    p.add_argument("--only", default="", metavar="PATH", help="a file, or the beginning of paths")
    p.add_argument("--tier", choices=("quick", "full"), default="quick", help="full: the quick tier's tests and the full one's")
    p.add_argument("--skip", default="^$", metavar="REGEX", help="tests that are not run")
    p.add_argument("--measure", default="^$", metavar="REGEX", help="tests that have changed: which lines they run is measured anew")
    p.add_argument("--times", type=float, default=4, help="a test fails when it takes this many times its time without a fault")
    p.add_argument("--least", type=float, default=12, help="and at least so many seconds")
    p.add_argument("--seconds", type=float, default=float("inf"), help="of tests for a fault: the shortest ones; what survives them may not survive --again")
    p.add_argument("--again", action="store_true")
    p.add_argument("--list", action="store_true")
    args = p.parse_args(arguments)
    args.tree = args.tree.resolve()
    args.work = args.work or args.tree / "build-mutants"
    args.work.mkdir(parents=True, exist_ok=True)
    results = Results(args.result or args.work / f"{args.seed}.jsonl")
    known = known_equivalents(args.tree)
    if not args.list:
        bench = Bench(args)
        plant_again(bench, results, known) if args.again else plant_drawn(bench, results, args)
    report(results, known)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
