#!/usr/bin/env python3
"""Writes what follows from the declarations of ops (src/op/*.toml; tools/op_decl.py says what they look like).

  gen_ops.py ROOT OUT          unless a header's block is stale, into folder OUT: opdef/op_list.h, the list of ops, their headers
                               and the sizes of all versions of their structs; opdef/op_table.c, their descriptors; op/op_fields.h
                               and op/op_fields.c, the checks of single fields
  gen_ops.py ROOT --check      fails where a header has other blocks than tools/op_header.py makes, and for an op that no test calls
  gen_ops.py ROOT --write      writes those blocks, and lays them out by clang-format where there is one
  gen_ops.py ROOT --abi FILE   a part of tests/abi/init.c: STRUCTS_OF_OPS, the values and a plan of each INIT macro"""
import re
import shutil
import subprocess
import sys
from pathlib import Path

import op_decl
import op_header

MADE = "/* Made by tools/gen_ops.py from src/op; do not edit. */\n"
ALL_INTEGERS = {"%d": "", "%u": "", "%lld": "(long long)"}


# --- the list of ops ---

def macro(name, items):
    return f"#define {name}(X) \\\n  " + " \\\n  ".join(f"X({item})" for item in items) + "\n\n"


def hook_prototypes(op):
    kinds = {"work": "ga_work opdef_{}_work(const void *desc);", "lacks": "const char *opdef_{}_lacks(const ga_kernel *kernel, const void *desc);",
             "typical": "bool opdef_{}_typical(const void *desc, void *typical);", "same_order": "bool opdef_{}_same_order(const ga_kernel *a, const ga_kernel *b);",
             "after": "bool opdef_{}_after(const void *desc, ga_op *op, void *after);"}
    return "".join(kinds[name].format(op.stem) + "\n" for name in op.get("by_hand", []))


def op_list(ops):
    """Included by opdef/ops.h alone."""
    names = [name for op in ops for name in op.names]
    headers = sorted({op.data["header"] for op in ops} | {op.fused["header"] for op in ops if op.fused})
    versions = [f"{name}, {v['desc']}, {v['io']}" for op in ops for name in op.names for v in op.data["versions"] if "io" in v]
    firsts = "".join(f"  ga_{op.stem}_desc_first = {op.data['versions'][0]['desc']},\n" for op in ops)
    return MADE + "".join(f'#include "{header}"\n' for header in headers) + "\n" + \
        macro("GA_OPS", names) + \
        "/* Ops that ga bench times. */\n" + macro("GA_OPS_TIMED", [name for op in ops for name in op.names if op.has("bench")]) + \
        "/* Ops that have an oracle. */\n" + macro("GA_OPS_WITH_ORACLE", [name for op in ops for name in op.names if op.has("oracle")]) + \
        "/* op, bytes of a description, bytes of the io that comes with at least such a description. */\n" + macro("GA_IO_VERSIONS", versions) + \
        f"/* Bytes of each description's first version. */\nenum {{\n{firsts}}};\n\n" + "".join(map(hook_prototypes, ops))


# --- descriptors ---

def member(op, name):
    """A field of the description: d is the public one, f the fused one."""
    field, is_fused = op.type_of(name)
    return field, f"{'f' if is_fused else 'd'}->{name}"


def number(op, formula):
    """A formula as an expression of type double."""
    def one(match):
        if match[1]:
            return f"opdef_elem_bytes({member(op, match[1])[1]})"
        if match[0] in ("max", "min"):
            return "f" + match[0]
        return f"(double){member(op, match[0])[1]}"
    return re.sub(r"bytes\((\w+)\)|[a-z_]\w*", one, formula)


def structs_used(op, text):
    """Declarations of d and f as far as the text uses them."""
    d = f"  const ga_{op.stem}_desc *d = desc;\n" if "d->" in text else ""
    return d + (f"  const ga_{op.stem}_fused_desc *f = desc;\n" if re.search(r"\bf->", text) else "")


def work(op):
    if "work" in op.get("by_hand", []):
        return ""
    given = op.get("work", {})
    value = f"opdef_moved({number(op, op.data['moves'])})" if "moves" in op.data else \
        "(ga_work){" + ", ".join(f".{name} = {number(op, formula)}" for name, formula in given.items()) + "}"
    unused = "" if "->" in value else "  (void)desc;\n"
    return f"static ga_work {op.stem}_work(const void *desc) {{\n{structs_used(op, value)}{unused}  return {value};\n}}\n\n"


def shape_part(op, name):
    """(format, arguments) of a place in braces."""
    first, _, second = name.partition(">")
    field, text = member(op, first)
    if second:
        other = member(op, second)[1]
        return "%s%s%s", [f"ga_dtype_name((ga_dtype){text})", f"opdef_to_word({text}, {other})", f"opdef_to_type({text}, {other})"]
    if first.endswith("dtype"):
        return "%s", [f"ga_dtype_name((ga_dtype){text})"]
    form = op_decl.INTEGERS[field.type]
    return form, [ALL_INTEGERS[form] + text]


def shape(op):
    form, arguments = "", []
    for i, part in enumerate(re.split(r"\{([^}]*)\}", op.data["shape"])):
        text, more = (part, []) if i % 2 == 0 else shape_part(op, part)
        form, arguments = form + text, arguments + more
    call = f'  (void)snprintf(text, capacity, "{form}"{"".join(", " + a for a in arguments)});\n'
    return f"static void {op.stem}_shape(const void *desc, char *text, size_t capacity) {{\n{structs_used(op, call)}{call}}}\n\n"


def descriptor(op, name):
    hooks = [f".{hook} = opdef_{op.stem}_{hook}" for hook in op.get("by_hand", [])] + ([] if "work" in op.get("by_hand", []) else [f".work = {op.stem}_work"])
    full = f"ga_{op.stem}_{'fused_' if op.fused else ''}desc"
    parts = [f'.name = "{name}"', f".desc_bytes = sizeof({full})", f".shape = {op.stem}_shape", *hooks]
    return f"const ga_op_info ga_opdef_{name} = {{{', '.join(parts)}}};\n"


def op_table(ops):
    text = "".join(work(op) + shape(op) + "".join(descriptor(op, name) for name in op.names) + "\n" for op in ops)
    return MADE + '#include <math.h>\n#include <stdio.h>\n\n#include "opdef/ops.h"\n#include "opdef/shape.h"\n\n' + text


# --- checks of single fields ---

def literal(bound):
    return f"INT64_C({bound.value})" if isinstance(bound.value, int) and abs(bound.value) >= 2 ** 31 else str(bound.value)


def interval_test(field, value):
    """A condition on the value."""
    interval = field.interval
    tests = []
    if interval.least.value is not None:
        tests.append(f"{value} {'>=' if interval.least_in else '>'} {literal(interval.least)}")
    if interval.most.value is not None:
        tests.append(f"{value} {'<=' if interval.most_in else '<'} {literal(interval.most)}")
    elif field.is_float:
        tests.append(f"isfinite({value})")
    return " && ".join(tests)


def printed(field, value):
    """(format, argument) of a value in an error."""
    if field.is_float:
        return "%g", f"(double){value}"
    form = op_decl.INTEGERS[field.type]
    return form, ALL_INTEGERS[form] + value


class Checks:
    """The function that checks the fields of an op one by one."""

    def __init__(self, op, enums):
        self.op, self.enums = op, enums
        self.shared = len(op.names) > 1  # the name in errors is an argument
        self.has_zero = any("zero" in field.given for field in op.desc)

    def prototype(self):
        const = "" if self.has_zero else "const "
        kind = "fused_desc *f" if self.op.fused else "desc *d"
        return f"ga_status ga_{self.op.stem}_complete_fields({'const char *op, ' if self.shared else ''}{const}ga_{self.op.stem}_{kind})"

    def require(self, condition, status, text, *arguments):
        head = '"%s: ' if self.shared else f'"{self.op.stem}: '
        values = (["op"] if self.shared else []) + list(arguments)
        return f"  GA_REQUIRE({condition}, {status}, {head}{text}\"{''.join(', ' + v for v in values)});\n"

    def of_range(self, field, name, value):
        form, argument = printed(field, value)
        status = "GA_ERR_ARG" if field.is_float or field.get("status") else "GA_ERR_SHAPE"
        zero = field.get("zero")
        default = f"  if ({value} == 0) {value} = {member(self.op, zero)[1]};\n" if zero else ""
        words = field.interval.words(field.is_float) + (f", or 0 = {zero}" if zero else "")
        return default + self.require(interval_test(field, value), status, f"{name} is {form}; must be {words}", argument)

    def of_enum(self, field, name, value):
        enum, allowed = self.enums[field.get("enum")], op_decl.allowed_names(field, self.enums)
        first, last = enum.number(allowed[0]), enum.number(allowed[-1])
        return self.require(f"{value} >= {allowed[0]} && {value} <= {allowed[-1]}", "GA_ERR_ARG",
                            f"{name} is %d; must be {first} to {last} ({enum.name})", value)

    def of_flags(self, field, name, value):
        bits = [bit for given in field.get("flags") for bit in (self.enums[given].names if given in self.enums else [given])]
        mask = f"(uint32_t)({' | '.join(bits)})"
        return self.require(f"!({value} & ~{mask})", "GA_ERR_ARG", f"{name} is 0x%x; allowed: bits of 0x%x", value, mask)

    def of_types(self, field, name, value):
        test = " || ".join(f"{value} == GA_{one.upper()}" for one in field.get("types"))
        return self.require(test, "GA_ERR_DTYPE", f"{name} is %s; allowed: {', '.join(field.get('types'))}", f"ga_dtype_name((ga_dtype){value})")

    def of_reserved(self, field, name, value):
        form, argument = printed(field, value)
        if field.counts[name] is None:
            return self.require(f"{value} == 0", "GA_ERR_ARG", f"{name} is {form}; must be 0", argument)
        form, argument = printed(field, value + "[i]")
        return f"  for (int i = 0; i < {field.counts[name]}; i++)\n  " + \
            self.require(f"{value}[i] == 0", "GA_ERR_ARG", f"{name}[%d] is {form}; must be 0", "i", argument)

    def of_field(self, field):
        rules = {"range": self.of_range, "enum": self.of_enum, "flags": self.of_flags, "types": self.of_types}
        rule = self.of_reserved if field.is_reserved else next((rules[name] for name in rules if name in field.given), None)
        return "".join(rule(field, name, member(self.op, name)[1]) for name in field.names) if rule else ""

    def function(self):
        body = "".join(self.of_field(field) for field in [*self.op.desc, *self.op.fused_desc])
        const = "" if self.has_zero else "const "
        plain = f"  {const}ga_{self.op.stem}_desc *d = &f->plain;\n" if self.op.fused else ""
        return f"{self.prototype()} {{\n{plain}{body}  return GA_OK;\n}}\n\n"


def op_fields(ops, enums):
    """(header, source)"""
    checks = [Checks(op, enums) for op in ops]
    says = "/* Each checks the fields of a description one by one and puts defaults for fields of 0: what src/op/<op>.toml says of them. */\n"
    guard = "#ifndef GA_OP_FIELDS_H\n#define GA_OP_FIELDS_H\n\n#include \"base/status.h\"\n#include \"opdef/ops.h\"\n\n"
    header = MADE + guard + says + "".join(f"GA_NODISCARD {one.prototype()};\n" for one in checks) + "\n#endif\n"
    return header, MADE + '#include "op/op_fields.h"\n\n#include <math.h>\n\n' + "".join(one.function() for one in checks)


# --- the ABI's test ---

def example(op):
    return "(" + ", ".join([f"d.{name} = {value}" for name, value in op.get("example", {}).items()] or ["(void)d"]) + ")"


def values_of(op):
    """A condition on what the INIT macro sets, and on zeros beside it."""
    tests = []
    for field in op.desc:
        for name in field.names:
            place = f"static_ga_{op.stem}_desc.{name}" + ("" if field.counts[name] is None else "[0]")
            tests.append(f"{place} == {field.get('default', '0')}")
    return " && ".join(tests)


def abi(ops):
    structs = macro("STRUCTS_OF_OPS", [f"ga_{op.stem}_desc, GA_{op.stem.upper()}_DESC_INIT" for op in ops])
    values = "".join(f'  expect({values_of(op)}, "{op.stem}"); \\\n' for op in ops)
    plans = "".join(f"  PLAN({op.stem}, GA_{op.stem.upper()}_DESC_INIT, {example(op)}) \\\n" for op in ops if op.io)
    return MADE + structs + f"#define VALUES_OF_OPS() do {{ \\\n{values}}} while (0)\n\n#define PLANS_OF_OPS() do {{ \\\n{plans}}} while (0)\n"


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def write_sources(ops, enums, out):
    header, source = op_fields(ops, enums)
    for name, text in {"opdef/op_list.h": op_list(ops), "opdef/op_table.c": op_table(ops), "op/op_fields.h": header, "op/op_fields.c": source}.items():
        write(out / name, text)


def not_called(root, ops):
    """Ops whose public form stands in no test."""
    text = "".join(path.read_text() for path in sorted((root / "tests").glob("test_*.c")))
    return [f"{op.file}: no tests/test_*.c calls ga_{op.stem}" for op in ops if f"ga_{op.stem}(" not in text]


def refuse_stale(root, ops):
    """What is made needs the structs of the headers."""
    faults = op_header.faults(root, ops)
    if faults:
        raise op_decl.Refusal("\n".join(faults))


def write_headers(root, ops):
    changed = op_header.write(root, ops)
    if changed and shutil.which("clang-format"):
        subprocess.run(["clang-format", "-i", *changed], check=True)
    elif changed:
        print(f"no clang-format here: lay out {', '.join(str(p.relative_to(root)) for p in changed)} by it")


def main():
    root, what = Path(sys.argv[1]), sys.argv[2]
    try:
        ops, enums = op_decl.read(root)
        if what == "--write":
            write_headers(root, ops)
        if what in ("--write", "--check"):
            faults = op_header.faults(root, ops) + (not_called(root, ops) if what == "--check" else [])
            print("\n".join([*faults, f"ops: {len(ops)} declarations, {len(faults)} to change"]))
            return bool(faults)
        if what == "--abi":
            write(Path(sys.argv[3]), abi(ops))
        else:
            refuse_stale(root, ops)
            write_sources(ops, enums, Path(what))
    except op_decl.Refusal as refusal:
        print(refusal, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
