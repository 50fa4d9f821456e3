#!/usr/bin/env python3
"""Writes what follows from the declarations of kernels (src/**/*.toml; tools/kernel_decl.py says what they look like).

  gen_kernels.py ROOT OUT             into folder OUT: cuda_rows.c, cpu_rows.c, ref_rows.c, the kernel tables;
                                      cuda_targets.c, which GPUs run them; cuda_costs.c; images.txt, a CUDA row a line: id arch source parameters;
                                      cuda/kernel_names.h, features and enums of fields as host halves name them;
                                      cpu/cpu_kernels.h and cpu/<isa>_<body>.c, the CPU's functions (gen_cpu.py)
  gen_kernels.py ROOT --fields STEM   prints the rows of src/**/STEM.toml: id field=value ..."""
import sys
import tomllib
from pathlib import Path

import gen_cpu
import kernel_decl

DTYPE_OF = {"any": "GA_DTYPE_NONE", "fp8": "GA_E4M3"}
ISA_IF = {"avx2": "__x86_64__", "avx512": "__x86_64__", "amx": "__x86_64__", "neon": "__aarch64__"}
FLAGS_OF_ALL = {"nondet", "teaching", "step", "tensor"}  # ga_kernel_flags of core/kernel.h; others are the op's: ga_<op>_row_flags
FUNCTIONS = ["ok", "cost", "workspace", "out_bytes", "plan", "launch"]


def dtype(name):
    return DTYPE_OF.get(name, f"GA_{name.upper()}")


def device_parameter(row, macro, template):
    """["D=128"]; of a field with an enum its number, and the numbers of all its values by name."""
    field = kernel_decl.enum_of(row.file.vocabulary, template)
    if not field:
        return [f"{macro}={row.fill(template, 'GA_P_' + macro)}"]
    values = row.file.vocabulary[field]["values"]
    row.fill(template, "GA_P_" + macro)
    return [f"{macro}={values.index(row[field])}"] + [f"{macro}_{value.upper()}={i}" for i, value in enumerate(values)]


def params(row):
    """The device half's GA_P_*; in lower case, how it is compiled."""
    pairs = [pair for macro, template in row.file.device.items() for pair in device_parameter(row, macro, template)]
    pairs += [f"{feature.upper()}={int(feature in row.get('features', []))}" for feature in row.file.features]
    pairs.append(f"SMEM={row['smem']}")
    if row.get("fast_math"):
        pairs.append("fast_math=1")
    return ",".join(pairs + [f"allow_{what}={why.replace(' ', '_')}" for what, why in row.get("allow", {}).items()])


def base_variant(row):
    more = f", .static_bytes = {row['static_smem']}" if "static_smem" in row.fields else ""
    return f'{{.params = "{params(row)}", .threads = {row["threads"]}, .shared_bytes = {row["smem"]}{more}}}'


def steps_of(files, row):
    """[(member of the variant, the row that it names)]."""
    return [(name, kernel_decl.step_of(files, row, name, step)) for name, step in row.file.host.get("steps", {}).items()]


def impl(files, row, at):
    """The initialiser of .impl, or None; at: {id: index in the table}."""
    host = row.file.host
    if "impl" in host:
        return "&" + row.fill(host["impl"], "impl")
    if not row.file.source:
        return None
    members = [f".{name} = {row.fill(template, 'member ' + name)}" for name, template in host.get("members", {}).items()]
    if row.file.features:
        members.append(".features = " + (" | ".join(row.file.bit(feature) for feature in row.get("features", [])) or "0"))
    members += [f".{name} = &rows[{at[step.id]}]" for name, step in steps_of(files, row)]
    if not members and "variant" not in host:
        return f"&(const cuda_variant){base_variant(row)}"
    return f"&(const {host['variant']}){{.base = {base_variant(row)}, {', '.join(members)}}}"


def table_row(files, row, at):
    host = row.file.host
    lines = [f'.id = "{row.id}"', f'.source = "{row["source"]}"', f".op = GA_OP_{row['op']}", f".isa = GA_ISA_{row['arch']}"]
    if "dtypes" in host:
        lines.append(".dtype = {" + ", ".join(dtype(row.fill(t, "dtypes")) for t in host["dtypes"]) + "}")
    if "layout" in row.fields:
        lines.append(f".layout = GA_LAYOUT_{row['layout'].upper()}")
    for name, member in [("m_min", "rows_min"), ("m_max", "rows_max"), ("speed", "speed"), ("align", "align"), ("max_error", "tolerance")]:
        if name in row.fields:
            lines.append(f".{member} = {row[name]}")
    for member, prefix in [("flags", "GA_KERNEL"), ("op_flags", f"GA_{row['op'].upper()}_ROW")]:
        flags = [flag for flag in row.get("flags", []) if (flag in FLAGS_OF_ALL) == (member == "flags")]
        if flags:
            lines.append(f".{member} = " + " | ".join(f"{prefix}_{flag.upper()}" for flag in flags))
    for name in FUNCTIONS:
        text = row.fill(host.get(name, ""), name)
        if text:
            lines.append(f".{name} = {text}")
    if steps_of(files, row):
        lines.append(".helpers = (const ga_kernel *const[]){" + ", ".join(f"&rows[{at[step.id]}]" for _, step in steps_of(files, row)) + ", NULL}")
    value = impl(files, row, at)
    if value:
        lines.append(f".impl = {value}")
    return "    {" + ",\n     ".join(lines) + "},\n"


def guarded(rows, text_of):
    """Rows of instruction sets behind #if of their processor."""
    text, now = "", None
    for row in rows:
        condition = ISA_IF.get(row["arch"])
        if condition != now:
            text += ("#endif\n" if now else "") + (f"#if defined({condition})\n" if condition else "")
        now = condition
        text += text_of(row)
    return text + ("#endif\n" if now else "")


def externs(row):
    host = row.file.host
    return f"extern const {host['impl_type']} {row.fill(host['impl'], 'impl')};\n" if "impl" in host else ""


def table(files, backend, function):
    rows = [row for row in kernel_decl.rows_of(files, backend) if row["op"] not in kernel_decl.NOT_IN_TABLE]
    includes = {i for row in rows for i in row.file.host.get("include", [])} | ({"cpu/cpu_kernels.h"} if backend == "cpu" else set())
    text = "/* Made by tools/gen_kernels.py from the .toml files under src; do not edit. */\n" + '#include "base/compiler.h"\n#include "core/kernel.h"\n#include "cuda/kernel_names.h"\n#include "opdef/attn.h"\n#include "opdef/gemm.h"\n' + \
        "".join(f'#include "{i}"\n' for i in sorted(includes)) + "\n" + guarded(rows, externs)
    at = {row.id: i for i, row in enumerate(rows)}
    if any(steps_of(files, row) for row in rows):  # rows name others of the table
        text += f"\nstatic const ga_kernel rows[{len(rows)}];\n"
    text += "\nstatic const ga_kernel rows[] = {\n" + guarded(rows, lambda row: table_row(files, row, at)) + "};\n"
    return text + f"\nconst ga_kernel *{function}(size_t *n) {{\n  *n = GA_COUNT_OF(rows);\n  return rows;\n}}\n"


def enumerators(names):
    return "enum {\n" + "".join(f"  {name} = {value},{' /* ' + says + ' */' if says else ''}\n" for name, value, says in names) + "}"


def kernel_names(files):
    """The host's half of what parameters of device halves are called."""
    text = "/* Made by tools/gen_kernels.py from the .toml files under src and tools/kernel_fields.toml; do not edit. */\n#ifndef GA_KERNEL_NAMES_H\n#define GA_KERNEL_NAMES_H\n"
    for field, rule in files[0].vocabulary.items():
        if "enum" in rule:
            values = [(f"{rule['enum']}_{value}".upper(), i, "") for i, value in enumerate(rule["values"])]
            text += f"\n/* Field {field}: {rule['says']}. */\ntypedef {enumerators(values)} {rule['enum']};\n"
    for half, file in {f.half(): f for f in files if f.features}.items():
        bits = [(file.bit(feature), 1 << i, says) for i, (feature, says) in enumerate(file.features.items())]
        text += f"\n/* Bits of the member `features` of variants in {half.name}. */\n{enumerators(bits)};\n"
    return text + "#endif\n"


def images(files):
    return "".join(f"{row.id} {row['arch']} {row['source']} {params(row)}\n" for row in kernel_decl.rows_of(files, "cuda") if row.file.source)


def targets():
    rows = [f'    {{GA_ISA_{isa}, {t["capability"]}, {str(t["forward"]).lower()}, "{t["suffix"]}"}},\n' for isa, t in kernel_decl.TARGETS.items()]
    return "/* Made by tools/gen_kernels.py from tools/cuda_targets.toml; do not edit. */\n" + '#include "cuda/rt/targets.h"\n\n' + \
        "const cuda_target cuda_targets[] = {\n" + "".join(rows) + f"}};\n\nconst size_t cuda_n_targets = {len(rows)};\n"


def costs(root):
    """The table of src/cuda/costs: {chip, fallback, tables of numbers}; member <table>_<field>, but rates and clock.mhz have no prefix of their own."""
    text = "/* Made by tools/gen_kernels.py from src/cuda/costs; do not edit. */\n" + '#include "cuda/rt/costs.h"\n\n' + "const cuda_costs cuda_all_costs[] = {\n"
    paths = sorted((root / "src/cuda/costs").glob("*.toml"))
    first = None
    for path in paths:
        data = tomllib.loads(path.read_text())
        members = {f"{table}.{name}" if table == "rates" else f"{table}_{name}": value for table, part in data.items() if isinstance(part, dict) for name, value in part.items()}
        first = first or sorted(members)
        if sorted(members) != first:
            raise kernel_decl.Refusal(f"{path}: its fields differ from those of {paths[0]}: {', '.join(sorted(set(members) ^ set(first)))}")
        numbers = "".join(f", .{member} = {value}" for member, value in members.items())
        text += f'    {{.chip = "{data["chip"]}", .fallback = {str(data.get("fallback", False)).lower()}{numbers}}},\n'
    return text + f"}};\n\nconst size_t cuda_n_costs = {len(paths)};\n"


def fields(files, stem):
    for row in (row for f in files if f.path.stem == stem for row in f.rows):
        print(row.id, *(f"{name}={kernel_decl.word(value)}" for name, value in sorted(row.fields.items()) if not isinstance(value, (dict, list)) and name != "id"))


def write(path, text):
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def write_cpu(files, folder):
    """The files of the CPU's kernels, and no others."""
    rows = kernel_decl.rows_of(files, "cpu")
    folder.mkdir(exist_ok=True)
    texts = {"cpu_kernels.h": gen_cpu.declarations(rows), **gen_cpu.units(rows)}
    for path in folder.iterdir():
        if path.name not in texts:
            path.unlink()
    for name, text in texts.items():
        write(folder / name, text)


def main():
    root, out = Path(sys.argv[1]), sys.argv[2]
    try:
        files = kernel_decl.read(root)
        if out == "--fields":
            return fields(files, sys.argv[3])
        out = Path(out)
        out.mkdir(parents=True, exist_ok=True)
        texts = {"cuda_rows.c": table(files, "cuda", "cuda_rows"), "cpu_rows.c": table(files, "cpu", "ga_cpu_rows"), "ref_rows.c": table(files, "ref", "ga_ref_rows"),
                 "cuda_targets.c": targets(), "cuda_costs.c": costs(root), "images.txt": images(files)}
        for name, text in texts.items():
            write(out / name, text)
        (out / "cuda").mkdir(exist_ok=True)
        write(out / "cuda/kernel_names.h", kernel_names(files))
        write_cpu(files, out / "cpu")
    except kernel_decl.Refusal as refusal:
        print(refusal, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
