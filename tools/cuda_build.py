#!/usr/bin/env python3
"""The CUDA part of the build, one step a call; cmake/cuda.cmake runs them.

  row   NVCC SRC OUT LINE  compiles one row to OUT; fails on spills, local memory, serialised wgmma
  flat  SRC SOURCE OUT     a kernel source with its includes, for compiling at run time
  table OUT ITEM...        assembler: the embedded tables. ITEM: image=ID=FILE or source=PATH=FILE

Sources share most of their headers. A form feed stands where another file begins or goes on; the text between two of
them is a part, and each part is embedded once.
"""
import re
import subprocess
import sys
import tomllib
from pathlib import Path

TARGETS = tomllib.loads((Path(__file__).parent / "cuda_targets.toml").read_text())
ONCE = re.compile(r"^#pragma once|^#ifndef GA_\w+_H$", re.M)
PART = "\f"
CONDITION, END, TAKEN = re.compile(r"\s*#\s*if"), re.compile(r"\s*#\s*endif"), re.compile(r"#ifndef GA_\w+_H$|#ifdef GA_EMU$")
INCLUDE = re.compile(r'[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]')
# NVRTC has no <stdint.h>.
PRELUDE = "#ifdef __CUDACC_RTC__\n" + "".join(
    f"typedef {'signed' if s else 'unsigned'} {c} {'int' if s else 'uint'}{n}_t;\n"
    for n, c in [(8, "char"), (16, "short"), (32, "int"), (64, "long long")] for s in (True, False)) + \
    "typedef unsigned long long uintptr_t;\n#else\n#include <stdint.h>\n#endif\n"


def complaints(log, allowed):
    """What ptxas says that must not be: a row may allow it by a parameter allow_spills or allow_<warning> with its reason."""
    for frame, stores, loads in re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", log):
        if any(map(int, (frame, stores, loads))) and "allow_spills" not in allowed:
            yield f"{frame} bytes of stack, {stores} and {loads} bytes of spills"
    for code in sorted(set(re.findall(r"\(C(75(?:0[7-9]|1\d|20))\)", log))):
        if f"allow_c{code}" not in allowed:
            yield f"ptxas warning C{code}"


def compile_row(nvcc, src, out, line):
    name, arch, source, *params = line.split()
    pairs = [(p + "=").split("=")[:2] for p in "".join(params).split(",") if p]
    options = ["--use_fast_math"] if "fast_math" in dict(pairs) else []
    defines = [f"-DGA_P_{k}={v}" for k, v in pairs if not k[0].islower()]
    # 128 (loop is not reachable): a row's constants leave arms of the source dead, which is meant.
    targets = [f"-gencode=arch=compute_{virtual},code={code}" for virtual, code in TARGETS[arch]["images"]]  # the driver unpacks what nvcc compressed
    command = [nvcc, "-fatbin", "--compress-mode=size", *targets, "-std=c++17", "-O3", "-Xptxas", "-v", "-Werror", "all-warnings",
               "-diag-suppress", "128", "-I", src, f"-DGA_KERNEL_ID={name}", *options, *defines, "-MD", "-MF", f"{out}.d", "-MT", out.replace(" ", "\\ "), "-o", out, f"{src}/../{source}"]
    done = subprocess.run(command, capture_output=True, text=True)
    log = done.stdout + done.stderr
    bad = list(complaints(log, dict(pairs))) if done.returncode == 0 else [f"nvcc failed: {' '.join(command)}\n{log}"]
    Path(f"{out}.log").write_text(log)
    if bad:
        Path(out).unlink(missing_ok=True)
        print(f"{name}: " + "; ".join(bad))
    return bool(bad)


def flatten(src, path, seen):
    """The lines of a file, with those of headers in the place of their first #include; seen: headers that are there already. A header
    that a condition includes is there in that arm alone: it may come again behind it, and a guard keeps it from being read twice."""
    conditions = []  # open ones; False: a header's own guard, or of the emulator, whose other arm is always taken
    for line in path.read_text().splitlines():
        if CONDITION.match(line):
            conditions.append(not TAKEN.match(line))
        elif conditions and END.match(line):
            conditions.pop()
        match = INCLUDE.match(line)
        if not match:
            if line.strip() != "#pragma once":
                yield line
            continue
        if match[1] == "<" or "/emu/" in match[2]:  # the emulated body is for the host compiler
            continue
        beside = path.parent / match[2]
        target = (beside if beside.exists() else src / match[2]).resolve()
        if target in seen:
            continue
        text = target.read_text()
        arm = set(seen) if any(conditions) else seen
        if ONCE.search(text):  # others are meant to come more than once
            arm.add(target)
        guard = "GA_FLAT_" + re.sub(r"\W", "_", str(target.relative_to(src))).upper() if "#pragma once" in text else None
        yield PART
        yield from [f"#ifndef {guard}", f"#define {guard}"] if guard else []
        yield from flatten(src, target, arm)
        yield from ["#endif"] if guard else []
        yield PART


def write_flat(src, source, out):
    src = Path(src).resolve()
    text = PRELUDE + PART + "\n" + "\n".join(flatten(src, src.parent / source, set())) + "\n"
    Path(out).write_bytes(text.encode())


def section(symbol):
    """Pointers, so it may be written while it is relocated."""
    return f'\n.section .data.rel.ro.{symbol},"aw"\n.balign 8\n.globl {symbol}\n.hidden {symbol}\n{symbol}:\n'


def image_table(items):
    """Name, begin, end of each image, then zeros."""
    data = ['\n.section .rodata.ga_cuda_images,"a"\n']
    table = [section("ga_cuda_images")]
    for i, (name, file) in enumerate(items):
        label = f".Limage_{i}"
        data.append(f'{label}_name: .string "{name}"\n.balign 64\n{label}: .incbin "{file}"\n{label}_end:\n')
        table.append(f"  .quad {label}_name, {label}, {label}_end\n")
    return "".join(data + table) + "  .quad 0, 0, 0\n"


def source_table(items, pool):
    """Path and list of parts of each source, then zeros. A list: begin and end of each part in the pool, then zeros."""
    places, text = {}, b""
    data = [f'\n.section .rodata.ga_cuda_sources,"a"\n.Lpool: .incbin "{pool}"\n']
    lists, table = [section("ga_cuda_source_parts")], [section("ga_cuda_sources")]
    for i, (name, file) in enumerate(items):
        data.append(f'.Lsource_{i}: .string "{name}"\n')
        lists.append(f".Lparts_{i}:\n")
        for part in Path(file).read_bytes().decode().split(PART + "\n"):
            if part and part not in places:
                places[part] = len(text)
                text += part.encode()
            if part:
                lists.append(f"  .quad .Lpool + {places[part]}, .Lpool + {places[part] + len(part.encode())}\n")
        lists.append("  .quad 0, 0\n")
        table.append(f"  .quad .Lsource_{i}, .Lparts_{i}\n")
    Path(pool).write_bytes(text)
    return "".join(data + lists + table) + "  .quad 0, 0\n"


def write_table(out, items):
    kinds = {"image": [], "source": []}
    for item in items:
        kind, name, file = item.split("=", 2)
        kinds[kind].append((name, file))
    text = "/* Made by tools/cuda_build.py. */\n" + image_table(sorted(kinds["image"])) + \
        source_table(sorted(kinds["source"]), f"{out}.sources") + '\n.section .note.GNU-stack,"",%progbits\n'
    Path(out).write_text(text)


def main():
    step, *args = sys.argv[1:]
    if step == "row":
        return compile_row(*args)
    if step == "flat":
        return write_flat(*args)
    return write_table(args[0], args[1:])


if __name__ == "__main__":
    sys.exit(main())
