#!/usr/bin/env python3
"""What old programs rely on: the offset and size of every field of the public structs, the value of every enumerator and numeric macro,
compared with layout.golden by the rules of docs/adr/0003-growing-structs.md. --write appends what is new, and refuses to change what
stands there. 77: the golden file is that of 64-bit machines. Usage: layout.py [--write] [ROOT]; CC as usual."""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import op_decl  # noqa: E402

OWNED = {"ga_model_info", "ga_model_placement", "ga_model_tensor", "ga_dtype_traits"}  # read by pointer, owned by the library
HEAD = """# Written by `make golden`; what stands here never changes. S struct, bytes. F field, offset, bytes. N number, value.
# V struct, bytes of its first version. I op, bytes of the description from which on the io has that many bytes.
"""


def declarations(root):
    """([(struct, [field])], [name of a number]) of the headers."""
    structs, numbers, bad = [], [], []
    for header in sorted((root / "include" / "ga").glob("*.h")):
        text = re.sub(r"/\*.*?\*/", " ", header.read_text(), flags=re.DOTALL)
        for name, body in re.findall(r"typedef struct (\w+) \{(.*?)\} \1;", text, re.DOTALL):
            parts = [part for field in body.split(";") for part in field.split(",") if part.strip()]
            structs.append((name, [re.search(r"(\w+)\s*(?:\[[^]]*\]\s*)*$", part)[1] for part in parts]))
        for body in re.findall(r"\benum\s*\w*\s*\{(.*?)\}", text, re.DOTALL):
            for value in filter(None, (v.strip() for v in body.split(","))):
                name, equals, _ = value.partition("=")
                numbers.append(name.strip())
                if not equals:
                    bad.append(f"{header.name}: {name} has no number of its own")
        numbers += re.findall(r"#define (GA_(?!VERSION)\w+) +\(?-?\d+u?\)? *$", text, re.MULTILINE)
    return structs, numbers, bad


def measured(root, structs, numbers):
    """{struct: (bytes, {field: (offset, bytes)})}, {name: value}."""
    lines = [f"#include <ga/{h.name}>" for h in sorted((root / "include" / "ga").glob("*.h"))]
    lines += ["#include <stdio.h>", "int main(void) {", 'printf("P pointer %zu\\n", sizeof(void *));']
    for name, fields in structs:
        lines.append(f'printf("S {name} %zu\\n", sizeof({name}));')
        lines += [f'printf("F {f} %zu %zu\\n", offsetof({name}, {f}), sizeof((({name} *)0)->{f}));' for f in fields]
    lines += [f'printf("N {name} %lld\\n", (long long){name});' for name in numbers] + ["return 0;", "}"]
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "layout.c", Path(folder) / "layout"
        source.write_text("\n".join(lines) + "\n")
        subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-I", root / "include", source, "-o", program], check=True)
        found = subprocess.check_output([program], text=True)
    return found


def parse(text):
    sizes, values = {}, {}
    for line in text.splitlines():
        word, *rest = line.split()
        if word == "S":
            sizes[rest[0]] = (int(rest[1]), {})
            last = sizes[rest[0]][1]
        elif word == "F":
            last[rest[0]] = (int(rest[1]), int(rest[2]))
        elif word in "NVI":
            values[word + " " + " ".join(rest[:-1])] = int(rest[-1])
    return sizes, values


def pinned(root):
    """First sizes of structs (V) and the bytes that an io has from a size of its description on (I), as the library has them."""
    firsts = dict(re.findall(r"X\((ga_\w+), (\d+)\)", (root / "src/base/sized.h").read_text()))
    ops, _ = op_decl.read(root)
    firsts.update({f"ga_{op.stem}_desc": op.data["versions"][0]["desc"] for op in ops})
    ios = [f"I {name} {v['desc']} {v['io']}" for op in ops for name in op.names for v in op.data["versions"] if "io" in v]
    return [f"V {name} {n}" for name, n in firsts.items()] + ios


def in_order(lines, golden):
    """Lines that the golden file has stay in its order; new ones follow."""
    old = golden.splitlines()  # lines may be equal, so that there are fewer keys than lines
    place = {line: i for i, line in enumerate(old)}
    return sorted(lines, key=lambda line: place.get(line, len(old)))


def kind(name, fields):
    return "sized" if "struct_size" in fields else "io" if name.endswith("_io") else "owned" if name in OWNED else "value"


def within(sizes, values, first_op):
    """What must hold of one version by itself; first_op: {description's name: the first of the ops that share it}."""
    for name, (size, fields) in sizes.items():
        end = max(offset + n for offset, n in fields.values())
        if kind(name, fields) == "sized" and end != size:
            yield f"{name} ends in {size - end} bytes of padding: name them reserved, they must be 0"
        if kind(name, fields) == "sized" and values.get(f"V {name}", size + 1) > size:
            yield f"{name}: src/base/sized.h or src/op has no first size for it, or one above its {size} bytes"
        if kind(name, fields) == "io":
            stem = name[len("ga_"):-len("_io")]
            op = first_op.get(stem, stem)
            rows = [(int(key.split()[2]), n) for key, n in values.items() if key.startswith(f"I {op} ")]
            if not rows or rows != sorted(rows) or rows[-1][1] != size or rows[-1][0] > sizes[f"ga_{stem}_desc"][0]:
                yield f"{name} has {size} bytes; `versions` of src/op/{stem}.toml says {rows} (bytes of the description, of the io)"


def broken(old, new):
    """What old programs would trip over. A reserved field, which they leave 0, may become another one of its size."""
    for name, (size, fields) in old[0].items():
        now_size, now_fields = new[0].get(name, (0, {}))
        may_grow = kind(name, fields) != "value"
        if now_size < size or (now_size > size and not may_grow):
            yield f"{name} had {size} bytes and has {now_size}" + ("" if may_grow else ": it may not grow")
        taken = {f for f, place in fields.items() if f.startswith("reserved") and place in now_fields.values()}
        for field, place in fields.items():
            if now_fields.get(field) != place and field not in taken:
                yield f"{name}.{field} was at offset {place[0]} with {place[1]} bytes and is at {now_fields.get(field, 'none')}"
        for field, (offset, each) in now_fields.items():
            if field not in fields and offset < size and (offset, each) not in [fields[f] for f in taken]:
                yield f"{name}.{field} is new and stands at {offset}, inside of the {size} bytes of old programs"
    for name, value in old[1].items():
        if new[1].get(name) != value:
            yield f"{name[2:]} was {value} and is {new[1].get(name, 'gone')}"


def main():
    write = "--write" in sys.argv
    root = Path([*sys.argv[1:], "."][write]).resolve()
    golden = root / "tests/abi/layout.golden"
    structs, numbers, bad = declarations(root)
    text = measured(root, structs, numbers)
    if not text.startswith("P pointer 8\n"):
        return 77
    old_text = golden.read_text() if golden.exists() else ""
    text = HEAD + "\n".join(text.splitlines()[1:] + in_order(pinned(root), old_text)) + "\n"
    old, new = parse(old_text), parse(text)
    bad += [*within(*new, {op.stem: op.names[0] for op in op_decl.read(root)[0]}), *broken(old, new)]
    if not bad and write:
        golden.write_text(text)
    elif not bad and golden.read_text() != text:
        bad = [f"{line.split()[1]}: not in tests/abi/layout.golden; `make golden` adds it" for line in text.splitlines()
               if line not in golden.read_text().splitlines()] or ["tests/abi/layout.golden has another order: make golden"]
    print("\n".join(bad + [f"layout: {len(structs)} structs, {len(numbers)} numbers, {len(bad)} to change"]))
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
