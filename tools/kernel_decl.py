"""Reads the declarations of kernels, src/**/*.toml, and refuses what is wrong with them. tools/gen_kernels.py writes what follows from them.

A file declares the rows of one kernel:

  position = 310                     top level: fields of all its rows, and
  id_is = "attn_{dtype}_d{head_dim}_{arch}"
                                     what an id must be, a template
  [device]   D = "{head_dim}"        GA_P_D of the device half, a template; of a field with an enum its number, and GA_P_<NAME>_<VALUE> of all its values
  [features] pages = "K in pages"    what a row may be compiled with, and lists in its field `features`: GA_P_PAGES of the device half, 0 or 1;
                                     of the host half the bit <STEM OF ITS FILE>_PAGES of the variant's member `features`
  [host]     launch = "cuda_attn"    the host half (of the CPU: its functions are declared in cpu/cpu_kernels.h): include, variant, ok, cost, workspace, out_bytes, plan, launch, dtypes, impl, impl_type; templates;
                                     file: where it is, if not beside the device half under the same name;
                                     no_code = true: rows of GPUs without a device half, which enqueue copies
  [host.members] d = "{head_dim}"    members of the variant struct
  [host.steps]   pre = {kernel = "attn_bwd_pre_sm80", same = ["dtype"]}
                                     members that name the row of another file which agrees in these fields
  [defaults]                         fields of rows that do not say otherwise
  [when.schedule] q_reg = {kv_resident = 0}
                                     fields that follow from another one; a row that contradicts them is refused
  [[kernel]]                         a row; or, many of them a line each,
  [[kernels]] defaults = {...} rows = [{id = ...}, ...]
  oracles = true                     the rows are those that src/op/*.toml have as `oracle`

A template has fields in braces; {name:upper} is in capitals. tools/kernel_fields.toml lists the fields."""
import re
import tomllib
from pathlib import Path

import op_decl

TOP = {"id_is", "device", "features", "host", "defaults", "when", "kernel", "kernels", "oracles"}
HOST = {"file": str, "include": list, "variant": str, "ok": str, "cost": str, "workspace": str, "out_bytes": str, "plan": str, "launch": str, "dtypes": list, "impl": str,
        "impl_type": str, "members": dict, "steps": dict, "no_code": bool}
KINDS = {str: "a text", list: "a list of texts", dict: "a table", bool: "true or false"}
NEEDED = ["id", "op", "arch"]
NEEDED_IN_TABLE = ["max_error"]
NOT_IN_TABLE = {"all_reduce_norm", "probe"}  # ops whose rows no plan chooses: launched by their ids
NEEDED_BY_CUDA = ["threads", "smem"]
COMMON = {"id", "op", "arch", "position", "source", "speed", "max_error", "align", "flags", "layout", "m_min", "m_max", "threads", "smem", "static_smem",
          "fast_math", "allow", "blocks"}
DTYPES = ["any", "f32", "f16", "bf16", "i8", "i32", "e4m3", "fp8", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl",
          "iq4_xs", "mxfp4", "nvfp4", "e4m3_128"]
TARGETS = tomllib.loads((Path(__file__).parent / "cuda_targets.toml").read_text())
FIELD = re.compile(r"\{([\w.]+)(:upper)?\}")
NAMED = re.compile(r"#ifndef GA_P_(\w+)\s*\n#error")


Refusal = op_decl.Refusal  # its text says the file, the row, the field, the value and what is allowed


def text_of(root, path, seen):
    """A device half with the headers of kernels that it includes."""
    seen.add(path)
    text = path.read_text()
    for used in re.findall(r'#include "(cuda/kern/[^"]+)"', text):
        if (used := root / "src" / used) not in seen:
            text += text_of(root, used, seen)
    return text


def flatten(table):
    """{tile = {q = 64}} as {"tile": ..., "tile.q": 64}."""
    flat = dict(table)
    for name, value in table.items():
        if isinstance(value, dict):
            flat.update({f"{name}.{key}": v for key, v in value.items()})
    return flat


def word(value):
    return str(int(value)) if isinstance(value, bool) else str(value)


class Row:
    def __init__(self, file, fields):
        self.file, self.fields = file, fields
        self.id = fields.get("id", "a row without id")

    def __getitem__(self, name):
        return self.fields[name]

    def get(self, name, default=None):
        return self.fields.get(name, default)

    def refuse(self, text):
        raise Refusal(f"{self.file.name}: {self.id}: {text}")

    def fill(self, template, what):
        def one(match):
            if match[1] not in self.fields:
                self.refuse(f"field {match[1]} is missing; {what} is made of it: \"{template}\"")
            text = word(self.fields[match[1]])
            return text.upper() if match[2] else text
        return FIELD.sub(one, template)


class File:
    def __init__(self, root, path, vocabulary, ops):
        self.path, self.vocabulary, self.ops = path, vocabulary, ops
        self.name = str(path.relative_to(root))
        try:
            self.data = tomllib.loads(path.read_text())
        except tomllib.TOMLDecodeError as error:
            raise Refusal(f"{self.name}: {error}") from None
        self.backend = path.relative_to(root / "src").parts[0]
        self.device, self.host = self.data.get("device", {}), self.data.get("host", {})
        self.features = self.data.get("features", {})
        self.when = self.data.get("when", {})
        self.id_is = self.data.get("id_is")
        if not self.id_is:
            raise Refusal(f"{self.name}: id_is is missing: a template of what ids must be")
        self.source = path.with_suffix(".cu") if self.backend == "cuda" and not self.host.get("no_code") else None
        for name in set(self.data) - TOP - set(vocabulary):
            raise Refusal(f"{self.name}: unknown field {name}; allowed: {', '.join(sorted(TOP))}, and fields of rows")
        self.check_host()
        self.check_features()
        self.used = self.fields_of_templates()
        self.rows = [self.row(given, more) for given, more in self.given_rows()]
        if not self.rows:
            raise Refusal(f"{self.name}: it has no [[kernel]]")

    def check_host(self):
        for name in set(self.host) - set(HOST):
            raise Refusal(f"{self.name}: [host]: unknown field {name}; allowed: {', '.join(sorted(HOST))}")
        for name, value in self.host.items():
            self.check_host_field(name, value, HOST[name])
        for name, step in self.host.get("steps", {}).items():
            self.check_host_field(f"steps.{name}", step, dict)
            self.check_host_field(f"steps.{name}.same", step.get("same", []), list)

    def check_host_field(self, name, value, kind):
        if not isinstance(value, kind) or (kind is list and not all(isinstance(one, str) for one in value)):
            raise Refusal(f"{self.name}: [host]: {name} is {value!r}; allowed: {KINDS[kind]}")

    def check_features(self):
        for name, says in self.features.items():
            if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or name.upper() in {*self.device, "SMEM"} or not isinstance(says, str):
                raise Refusal(f"{self.name}: [features]: {name} = {says!r}; allowed: a name in lower case that [device] has not = a text")
        if self.features and "variant" not in self.host:
            raise Refusal(f"{self.name}: [features]: [host] has no variant, whose member features says which are there")

    def half(self):
        """The host half."""
        return self.path.with_name(self.host.get("file", self.path.stem + ".c"))

    def bit(self, feature):
        """A feature's name in the host half."""
        return f"{self.half().stem}_{feature}".upper()

    def templates(self):
        yield self.id_is
        yield from self.device.values()
        for value in self.host.values():
            yield from [value] if isinstance(value, str) else value if isinstance(value, list) else []
        yield from self.host.get("members", {}).values()

    def fields_of_templates(self):
        used = {match[1] for template in self.templates() for match in FIELD.finditer(template)}
        used |= {name for step in self.host.get("steps", {}).values() for name in step.get("same", [])}
        return used | set(self.when) | ({"features"} if self.features else set())

    def given_rows(self):
        if self.data.get("oracles"):
            yield from ((row, {}) for op in self.ops for row in op.oracle_rows())
        for row in self.data.get("kernel", []):
            yield row, {}
        for group in self.data.get("kernels", []):
            for name in set(group) - {"defaults", "rows"}:
                raise Refusal(f"{self.name}: [[kernels]]: unknown field {name}; allowed: defaults, rows")
            for row in group.get("rows", []):
                yield row, group.get("defaults", {})

    def row(self, given, more):
        top = {name: value for name, value in self.data.items() if name not in TOP}
        fields = {**top, **self.data.get("defaults", {}), **more, **given}
        row = Row(self, flatten(fields))
        for name, cases in self.when.items():
            self.follow(row, name, cases)
        if self.source:
            row.fields["source"] = self.name.rsplit("/", 1)[0] + "/" + self.source.name
        self.check_fields(row)
        self.check_needed(row)
        if row.fill(self.id_is, "the id") != row["id"]:
            row.refuse(f"the id contradicts its fields, which make \"{row.fill(self.id_is, 'the id')}\" of id_is = \"{self.id_is}\"")
        return row

    def follow(self, row, name, cases):
        """Fields that follow from field `name`."""
        value = word(row.get(name, ""))
        if value not in cases:
            row.refuse(f"{name} is {value or 'missing'}; allowed: {', '.join(cases)}")
        for other, follows in flatten(cases[value]).items():
            if other in row.fields and row[other] != follows:
                row.refuse(f"{other} is {word(row[other])}; allowed with {name} {value}: {word(follows)}")
            row.fields[other] = follows

    def check_fields(self, row):
        for name, value in row.fields.items():
            head = name.split(".")[0]
            if head == "allow" and "." in name:
                continue
            if name not in self.vocabulary:
                row.refuse(f"unknown field {name} = {word(value)}; allowed: {', '.join(self.vocabulary)}")
            if head not in COMMON and name not in self.used and not isinstance(value, dict):
                row.refuse(f"field {name} = {word(value)} is used by no template of this file; allowed: {', '.join(sorted(self.used | COMMON))}")
            self.check_value(row, name, value)
        for one in row.get("features", []):
            if one not in self.features:
                row.refuse(f"features has {one}; allowed: {', '.join(self.features)}")

    def check_value(self, row, name, value):
        rule = self.vocabulary[name]
        kind, values = rule["kind"], rule.get("values")
        types = {"int": int, "bool": bool, "list": list, "table": dict}.get(kind, str)
        if not isinstance(value, types) or (kind == "int" and isinstance(value, bool)):
            row.refuse(f"{name} is {value!r}; allowed: {kind}")
        if kind == "dtype" and value not in DTYPES:
            row.refuse(f"{name} is {value}; allowed: {', '.join(DTYPES)}")
        for one in value if kind == "list" else [value]:
            if values and one not in values:
                row.refuse(f"{name} is {one}; allowed: {', '.join(values)}")
        if kind == "int" and not rule.get("least", value) <= value <= rule.get("most", value):
            row.refuse(f"{name} is {value}; allowed: {rule.get('least', 'any')} to {rule.get('most', 'any')}")

    def check_needed(self, row):
        needed = NEEDED + (NEEDED_BY_CUDA if self.source else ["source"]) + ([] if row.get("op") in NOT_IN_TABLE else NEEDED_IN_TABLE) + \
            ([] if row.get("op") in NOT_IN_TABLE or {"step", "teaching"} & set(row.get("flags", [])) else ["speed"])
        for name in needed:
            if name not in row.fields:
                row.refuse(f"field {name} is missing; it says: {self.vocabulary[name]['says']}")
        if not self.source:
            return
        smem, blocks = row["smem"], row.get("blocks", 1)
        if row["arch"] not in TARGETS:
            row.refuse(f"arch is {row['arch']}; allowed for CUDA: {', '.join(TARGETS)}")
        target = TARGETS[row["arch"]]
        if blocks * (smem + target["block_smem"]) > target["sm_smem"]:
            row.refuse(f"smem is {smem}; allowed with blocks {blocks}: {target['sm_smem'] // blocks - target['block_smem']} at most")

    def check_source(self, root):
        if not self.source:
            for row in self.rows:
                if not (root / row["source"]).is_file():
                    row.refuse(f"source is {row['source']}; there is no such file")
            return
        if not self.source.is_file():
            raise Refusal(f"{self.name}: there is no {self.source.name} beside it")
        named = set(NAMED.findall(text_of(root, self.source, set())))
        for macro in sorted(named ^ {*self.device, *map(str.upper, self.features), "SMEM"}):
            where = f"[device] and [features] of {self.name} do not give it" if macro in named else \
                f"{self.source.name} does not name it at its top (#ifndef GA_P_{macro}, #error)"
            raise Refusal(f"{self.name}: GA_P_{macro}: {where}; allowed: what both have")
        half = self.half()
        if not half.is_file() and not all(row["op"] in NOT_IN_TABLE or "step" in row.get("flags", []) for row in self.rows):
            raise Refusal(f"{self.name}: its host half, {half.name}, is missing")


def step_of(files, row, name, step):
    """The row of another file that row's [host.steps] means."""
    there = [f for f in files if f.path.stem == step["kernel"]]
    rows = [r for f in there for r in f.rows if all(r.get(s) == row.get(s) for s in step.get("same", []))]
    if len(rows) != 1:
        row.refuse(f"step {name}: {len(rows)} rows of {step['kernel']} agree in {', '.join(step.get('same', [])) or 'nothing'}; allowed: 1")
    return rows[0]


def enum_of(vocabulary, template):
    """The field that a template is, if the field has an enum; else None."""
    match = FIELD.fullmatch(template)
    return match[1] if match and not match[2] and "enum" in vocabulary.get(match[1], {}) else None


def check_shared_features(files):
    """Kernels of one host half have one list of features: its bits have one meaning there."""
    first = {}
    for file in (f for f in files if f.features):
        one = first.setdefault(file.half(), file)
        if one.features != file.features:
            raise Refusal(f"{file.name}: [features] is {', '.join(file.features)}; allowed: as in {one.name}, whose host half it shares")


def read(root):
    """All files, their rows checked."""
    vocabulary = tomllib.loads((Path(__file__).parent / "kernel_fields.toml").read_text())
    ops, _ = op_decl.read(root)
    vocabulary["op"]["values"] = [name for op in ops for name in op.names] + vocabulary["op"]["values"]
    paths = [path for path in sorted((root / "src").rglob("*.toml")) if path.parent not in (root / "src/cuda/costs", root / "src/op")]
    files = [File(root, path, vocabulary, ops) for path in paths]
    for source in sorted((root / "src").rglob("*.cu")):
        if not source.with_suffix(".toml").is_file():
            raise Refusal(f"{source.relative_to(root)}: it has no {source.with_suffix('.toml').name} beside it, which declares its rows")
    check_shared_features(files)
    first = {}
    for file in files:
        file.check_source(root)
        for row in file.rows:
            if row.id in first:
                row.refuse(f"the id is doubled; {first[row.id].name} has it, too")
            first[row.id] = file
    for file in files:
        for row in file.rows:
            for name, step in file.host.get("steps", {}).items():
                step_of(files, row, name, step)
    check_ops_have_rows(ops, files)
    return files


def check_ops_have_rows(ops, files):
    """Every op has a kernel beside its oracle."""
    with_rows = {row["op"] for file in files if file.backend != "ref" for row in file.rows}
    for op in ops:
        for name in op.names:
            if name not in with_rows:
                raise Refusal(f"{op.file}: no kernel has op = \"{name}\"; declare one in src/cpu/{op.stem}.toml")


def rows_of(files, backend):
    """In the order of the table."""
    return sorted((row for f in files if f.backend == backend for row in f.rows), key=lambda row: row.get("position", 0))
