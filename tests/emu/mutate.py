#!/usr/bin/env python3
"""Takes each fence, wait, arrive, expect_tx and loads_done out of a kernel in turn and says what share `ga_emu check` catches.

Usage: mutate.py BUILD ROW[,ROW...] SOURCE... [--draws N]
BUILD: a build folder with tests/emu/ga_emu. SOURCE: a kernel and the headers that it is made of, by path from src:
cuda/kern/attn/attn_fwd_sm90a.cu cuda/kern/attn/attn_tiles.h ... A mutant survives when every row passes."""
import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

CALLS = ["cp_async_wait", "cp_async_commit", "cp_async_wait_all", "cp_async_arrive_noinc", "cluster_arrive", "cluster_wait", "fence_async_global",
         "wgmma_fence", "wgmma_wait", "wgmma_commit", "mbar_wait", "mbar_arrive_expect", "mbar_arrive", "mbar_init_fence", "fence_async_smem",
         "fence_device", "warp_sync", "block_sync", "bar_sync", "bar_arrive", "bulk_wait_read", "bulk_wait", "bulk_commit",
         "grid_dependency_wait", "cluster_sync", "loads_done", "loads_done_f32"]
SITE = re.compile(r"\b(" + "|".join(CALLS) + r")\(")
ROOT = Path(__file__).resolve().parents[2]


def sites(text):
    """(start, end, call, line) of each call; not in comments, not in macro definitions."""
    code = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.S)
    for m in SITE.finditer(code):
        if code[code.rfind("\n", 0, m.start()) + 1:].startswith("#"):
            continue
        depth, end = 1, m.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(code[end], 0)
            end += 1
        yield m.start(), end, m[1], code.count("\n", 0, m.start()) + 1


def mutants(text):
    for start, end, call, line in sites(text):
        yield f"{line}: without {text[start:end]}", text[:start] + ("0" if call.startswith("loads_done") else "(void)0") + text[end:]
        if call == "mbar_arrive_expect":
            bar = text[start:end].split("(", 1)[1].split(",")[0]
            yield f"{line}: arrive without expect_tx", text[:start] + f"mbar_arrive({bar})" + text[end:]


class Bench:
    def __init__(self, build, folder, options):
        self.options = options
        self.program = build / "tests/emu/ga_emu"
        self.folder = folder
        self.compile = (build / "emu/compile.txt").read_text().split("\n")
        rows = [line.split(" ", 2) for line in (build / "emu/rows.txt").read_text().splitlines()]
        self.source_of = {row: source for row, source, _ in rows}
        self.params = {row: params for row, _, params in rows}

    def plugin(self, row, source, text):
        """The row with `text` in the place of `source`: the folder comes before src on the path of includes."""
        mutant, out = self.folder / source, self.folder / "mutant.so"
        mutant.parent.mkdir(parents=True, exist_ok=True)
        mutant.write_text(text)
        kernel = mutant if source.endswith(".cu") else ROOT / self.source_of[row]
        defs = [f"-DGA_P_{p}" for p in self.params[row].split(",") if re.match(r"[A-Z0-9_]+=", p)]
        compile_ = [self.compile[0], f"-I{self.folder}"] + [a for a in self.compile[1:] if a and not a.startswith("-W")] + defs
        compile_ += [f"-DGA_KERNEL_ID={row}", f'-DGA_EMU_SOURCE="{kernel}"', "-c", str(ROOT / "src/emu/row.cpp"), "-o", f"{out}.o"]
        # The instrumentation's own library stays out; the kernel's symbols bind to the plugin, not to the program's row of that name.
        link = [self.compile[0], "-shared", "-Wl,-Bsymbolic", f"{out}.o", "-o", str(out)]
        for command in (compile_, link):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"{' '.join(command)}\n{done.stderr}")
        mutant.unlink()
        return out

    def run(self, row, draw, plugin):
        """None when the draw passes, else what was said of it."""
        env = {"GA_EMU": self.options} | ({"GA_EMU_PLUGIN": str(plugin)} if plugin else {})
        done = subprocess.run([self.program, "check", "--device", "emu", "-k", row, "-s", "1", "--draw", str(draw), "--timeout", "60"],
                              capture_output=True, text=True, errors="replace", env=env)
        if done.returncode == 0:
            return None
        rules = re.findall(rf"{row}: ([\w-]+) at", done.stderr)
        if not rules and not done.stdout.startswith("FAIL"):
            sys.exit(f"{row}: {done.stdout}{done.stderr}")
        return ", ".join(dict.fromkeys(rules)) or done.stdout.split("\n")[0][-60:]


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("build", type=Path)
    p.add_argument("rows")
    p.add_argument("sources", nargs="+")
    p.add_argument("--draws", type=int, default=10)
    p.add_argument("--options", default="dependent", help="of the emulator: GA_EMU")
    p.add_argument("--only", default="", help="mutants whose name contains this")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(a.build, Path(folder), a.options)
        rows = {r: [d for d in range(a.draws) if bench.run(r, d, None) is None] for r in a.rows.split(",")}
        caught, all_ = 0, 0
        for source, name, mutant in ((s, f"{Path(s).name}:{n}", m) for s in a.sources for n, m in mutants((ROOT / "src" / s).read_text())):
            if a.only not in name:
                continue
            said = None
            for row, draws in rows.items():
                plugin = bench.plugin(row, source, mutant)
                said = next((s for s in (bench.run(row, d, plugin) for d in draws) if s), None)
                if said:
                    break
            caught, all_ = caught + bool(said), all_ + 1
            print(f"{'caught  ' if said else 'SURVIVES'} {name}: {said or ''}", flush=True)
        print(f"{caught} of {all_} caught ({100 * caught / max(all_, 1):.1f} %)")
        return caught < 0.95 * all_


if __name__ == "__main__":
    sys.exit(main())
