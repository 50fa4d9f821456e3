"""Reads the declarations of ops, src/op/*.toml, and refuses what is wrong with them. tools/gen_ops.py writes what follows from them.

A file <op>.toml declares one op:

  number = 5                      the op's place in the list of ops, GA_OP_<op>; never changes
  ops = ["all_gather", ...]       only where several ops share one description: their names, numbered from `number` on
  header = "ga/layer.h"           the public header, which has a block that `make golden` writes
  says = "Y = act(X)"             the comment before the description
  functions = "by hand"           the header declares ga_<op>_plan and its kin outside of the block
  versions = [{desc = 56, io = 24}, ...]
                                  bytes of each version of description and io, oldest first; `io` is absent where there is none
  desc = [FIELD, ...]             the description's fields after struct_size
  io = [FIELD, ...]               the arguments' fields
  moves = "rows * width"          the op's work: elements of f32 that are read once and written once; or
  work = {flops = "...", bytes = "..."}
                                  the same as two formulas; bytes(w_dtype) is the size of an element, max(a, b) the larger of two, min(a, b) the smaller
  shape = "{rows} x {width} {x_dtype>y_dtype}"
                                  sizes and types in words; a pair of types is "f32", or "f32 to f16" where they differ
  by_hand = ["work", "lacks"]     functions opdef_<op>_<name> of src/opdef that the descriptor gets (core/op.h)
  oracle = {id = "act_any_scalar_ref_1", flags = []}
                                  the row of src/ref/ref_<op>.c; a list of {op, id} where `ops` has several
  without = {bench = "why"}       parts that the op does not have: oracle, bench; and why
  example = {rows = 4}            fields of a small legal description, beside what its INIT macro sets
  [fused]                         fields that only passes set: header, says, desc_says, io_says, desc, io
  [[enum]]                        an enum of the header: name, says, values = [{c = "GA_NORM_RMS = 0", says = "..."}, ...]

A FIELD is a C declaration and what is known of all its names:

  {c = "int32_t heads, dim", range = "[1, 65536]", says = "..."}
  range    an interval: [0, 2^40], (0, 1], [0, inf). With status = "arg" a value outside is GA_ERR_ARG, else GA_ERR_SHAPE for integers
  zero     the field that a 0 stands for, which it becomes; range is of the values beside 0
  enum     the enum whose values are allowed; `most` is the largest allowed one
  flags    the enums and constants whose bits are allowed
  types    the element types that are allowed
  default  the value of the INIT macro, if not 0
  says     the comment; {range}, {types}, {zero} and {enum} are filled in. Without says: what is known of the values

Fields named `reserved` must be 0."""
import re
import tomllib
from pathlib import Path

TOP = {"number": int, "ops": list, "header": str, "says": str, "functions": str, "versions": list, "desc": list, "io": list, "moves": str, "work": dict,
       "shape": str, "by_hand": list, "oracle": (dict, list), "without": dict, "example": dict, "fused": dict, "enum": list}
NEEDED = ["number", "header", "versions", "desc", "io", "shape"]
FIELD = {"c": str, "range": str, "status": str, "zero": str, "enum": str, "most": str, "flags": list, "types": list, "default": str, "says": str}
FUSED = {"header": str, "says": str, "desc": list, "io": list, "io_says": str}
ENUM = {"name": str, "says": str, "values": list}
HOOKS = ["work", "lacks", "typical", "same_order", "after"]
PARTS = {"oracle": "src/ref/ref_{}.c", "check": "verify/check/check_{}.c", "bench": "verify/bench/bench_{}.c"}
MAY_LACK = {"oracle", "bench"}
INTEGERS = {"int32_t": "%d", "int64_t": "%lld", "uint32_t": "%u"}
FLOATS = {"float", "double"}
DECLARATOR = re.compile(r"(\**)(\w+)(\[\w+\])?")
INTERVAL = re.compile(r"([\[(])(\S+), ([^\])]+)([\])])")


class Refusal(Exception):
    """The text says the file, the field, the value and what is allowed."""


def check_kinds(where, table, kinds):
    """Refuses what is no table of these fields."""
    if not isinstance(table, dict):
        raise Refusal(f"{where}: {table!r}; allowed: a table")
    for name, value in table.items():
        if name not in kinds:
            raise Refusal(f"{where}: unknown field {name} = {value!r}; allowed: {', '.join(kinds)}")
        if not isinstance(value, kinds[name]) or isinstance(value, bool):
            kind = kinds[name] if isinstance(kinds[name], tuple) else (kinds[name],)
            raise Refusal(f"{where}: {name} is {value!r}; allowed: a {' or '.join(k.__name__ for k in kind)}")


class Bound:
    """An end of an interval: its text, and its value; None: infinity."""

    def __init__(self, text):
        self.text = text
        power = re.fullmatch(r"(-?)2\^(\d+)( - 1)?", text)
        if text in ("inf", "-inf"):
            self.value = None
        elif power:
            self.value = int(power[1] + "1") * 2 ** int(power[2]) - bool(power[3])
        else:
            self.value = float(text) if "." in text else int(text)


class Interval:
    def __init__(self, text):
        match = INTERVAL.fullmatch(text)
        if not match:
            raise ValueError(text)
        self.text, self.least_in, self.most_in = text, match[1] == "[", match[4] == "]"
        self.least, self.most = Bound(match[2]), Bound(match[3])

    def words(self, is_float):
        """The values as an error says them."""
        if not is_float:
            return f"{self.least.text} or more" if self.most.value is None else f"{self.least.text} to {self.most.text}"
        if self.most.value is not None:
            return f"in {self.text}" if not (self.least_in and self.most_in) else f"{self.least.text} to {self.most.text}"
        if self.least.value is None:
            return "finite"
        return "finite and not negative" if self.text == "[0, inf)" else f"finite and {'at least' if self.least_in else 'above'} {self.least.text}"

    def short(self, is_float):
        """The values as the header says them; empty where that says nothing that the type does not."""
        if self.most.value is None or self.text == "[0, 2^40]":
            return ""
        return self.text if is_float and not (self.least_in and self.most_in) else f"{self.least.text} to {self.most.text}"


class Field:
    """A declaration of one type, of one name or several."""

    def __init__(self, where, given):
        check_kinds(where, given, FIELD)
        if "c" not in given:
            raise Refusal(f"{where}: {given!r} has no c, its declaration")
        self.given, self.c = given, given["c"]
        self.where = f"{where}: {self.c}"
        match = re.fullmatch(r"((?:const )?(?:struct )?\w+)\s+(.+)", self.c)
        self.type = match[1] if match else ""
        self.names, self.counts, self.pointers = [], {}, set()
        for text in (match[2] if match else self.c).split(","):
            self.add_name(text.strip())
        self.interval = self.interval_of(given.get("range"))
        self.check()

    def add_name(self, text):
        match = DECLARATOR.fullmatch(text)
        if not match or not self.type:
            raise Refusal(f"{self.where}; allowed: a type, and names with * before or [n] behind")
        self.names.append(match[2])
        self.counts[match[2]] = match[3][1:-1] if match[3] else None
        if match[1]:
            self.pointers.add(match[2])

    def interval_of(self, text):
        try:
            return Interval(text) if text else None
        except ValueError:
            raise Refusal(f"{self.where}: range is {text}; allowed: an interval, [0, 2^40] or (0, 1] or [0, inf)") from None

    @property
    def is_float(self):
        return self.type in FLOATS

    @property
    def is_reserved(self):
        return self.names[0].startswith("reserved")

    @property
    def is_number(self):
        return (self.type in INTEGERS or self.is_float) and not self.pointers

    def get(self, name, default=None):
        return self.given.get(name, default)

    def check(self):
        rules = [name for name in ("range", "enum", "flags", "types") if name in self.given]
        if len(rules) > 1:
            raise Refusal(f"{self.where}: {' and '.join(rules)}; allowed: one of them")
        if (rules or self.is_reserved) and not self.is_number:
            raise Refusal(f"{self.where}: {(rules or ['reserved'])[0]} of a {self.type}; allowed: of {', '.join([*INTEGERS, *FLOATS])}")
        if rules and self.is_reserved:
            raise Refusal(f"{self.where}: {rules[0]} is given; reserved fields must be 0")
        if any(name in rules for name in ("enum", "types")) and self.type != "int32_t":
            raise Refusal(f"{self.where}: {rules[0]} of a {self.type}; allowed: of int32_t")
        if "flags" in rules and self.type != "uint32_t":
            raise Refusal(f"{self.where}: flags of a {self.type}; allowed: of uint32_t")
        for name, needs in (("most", "enum"), ("zero", "range"), ("status", "range")):
            if name in self.given and needs not in self.given:
                raise Refusal(f"{self.where}: {name} goes with {needs}")
        if self.get("status", "arg") != "arg":
            raise Refusal(f"{self.where}: status is {self.get('status')}; allowed: arg")
        if rules and not all(count is None for count in self.counts.values()):
            raise Refusal(f"{self.where}: {rules[0]} of an array; check it by hand")

    def known(self):
        """The values of the field, as its comment may say them."""
        texts = {"range": self.interval.short(self.is_float) if self.interval else "", "types": ", ".join(self.get("types", [])),
                 "zero": self.get("zero", ""), "enum": self.get("enum", ", ".join(n for n in self.get("flags", []) if n[0].islower()))}
        return texts

    def comment(self):
        known = self.known()
        if "says" in self.given:
            return re.sub(r"\{(range|types|zero|enum)\}", lambda m: known[m[1]], self.given["says"])
        if self.is_reserved:
            return "must be 0"
        says = [known["range"], f"0 = {known['zero']}" if known["zero"] else "", known["types"], known["enum"]]
        return "; ".join(text for text in says if text)


class Enum:
    def __init__(self, where, given):
        check_kinds(f"{where}: [[enum]]", given, ENUM)
        for name in ("name", "values"):
            if name not in given:
                raise Refusal(f"{where}: [[enum]]: {name} is missing")
        self.name, self.says, self.values = given["name"], given.get("says", ""), given["values"]
        for value in self.values:
            check_kinds(f"{where}: enum {self.name}", value, {"c": str, "says": str, "above": str})
            if not re.fullmatch(r"GA_\w+ = [\w <]+", value.get("c", "")):
                raise Refusal(f"{where}: enum {self.name}: {value.get('c')!r}; allowed: GA_NAME = NUMBER")
        self.names = [value["c"].split(" = ")[0] for value in self.values]

    def number(self, name):
        """The value of an enumerator: a number, or 1 << a number."""
        text = self.values[self.names.index(name)]["c"].split(" = ")[1]
        base, _, shift = text.partition(" << ")
        return int(base, 0) << int(shift or 0)


class Op:
    """A file of src/op."""

    def __init__(self, path):
        self.path, self.file = path, f"src/op/{path.name}"
        self.stem = path.stem
        try:
            self.data = tomllib.loads(path.read_text())
        except tomllib.TOMLDecodeError as error:
            raise Refusal(f"{self.file}: {error}") from None
        check_kinds(self.file, self.data, TOP)
        for name in NEEDED:
            if name not in self.data:
                raise Refusal(f"{self.file}: {name} is missing")
        self.names = self.data.get("ops", [self.stem])
        self.fused = self.data.get("fused")
        self.enums = [Enum(self.file, given) for given in self.data.get("enum", [])]
        self.desc = self.fields("desc", self.data["desc"])
        self.io = self.fields("io", self.data["io"])
        if self.fused is not None:
            check_kinds(f"{self.file}: [fused]", self.fused, FUSED)
        self.fused_desc = self.fields("fused.desc", (self.fused or {}).get("desc", []))
        self.fused_io = self.fields("fused.io", (self.fused or {}).get("io", []))
        self.check_versions()
        self.check_work()
        self.oracles = self.read_oracles()
        self.check_example()

    def get(self, name, default=None):
        return self.data.get(name, default)

    def fields(self, what, given):
        fields = [Field(f"{self.file}: {what}", one) for one in given]
        names = [name for field in fields for name in field.names]
        for name in names:
            if names.count(name) > 1 or name in ("struct_size", "plain"):
                raise Refusal(f"{self.file}: {what}: {name} is doubled")
        return fields

    def type_of(self, name):
        """(the field, whether it is one of the fused description alone)"""
        for field in self.desc:
            if name in field.names:
                return field, False
        for field in self.fused_desc:
            if name in field.names:
                return field, True
        raise Refusal(f"{self.file}: {name} is no field of the description; allowed: {', '.join(n for f in self.desc for n in f.names)}")

    def check_versions(self):
        last = (0, 0)
        for version in self.data["versions"]:
            check_kinds(f"{self.file}: versions", version, {"desc": int, "io": int})
            now = (version.get("desc", 0), version.get("io", 0))
            if now[0] <= last[0] or now[1] < last[1]:
                raise Refusal(f"{self.file}: versions: {version}; allowed: a larger description after {last[0]} bytes, an io of {last[1]} at least")
            last = now
        if not self.data["versions"]:
            raise Refusal(f"{self.file}: versions is empty; allowed: the bytes of the first version, and of each later one")

    def check_work(self):
        given = [name for name in ("moves", "work") if name in self.data] + ["by_hand: work"] * ("work" in self.get("by_hand", []))
        if len(given) != 1:
            raise Refusal(f"{self.file}: the work is given by {' and '.join(given) or 'nothing'}; allowed: one of moves, work, by_hand = [\"work\"]")
        for name in self.get("by_hand", []):
            if name not in HOOKS:
                raise Refusal(f"{self.file}: by_hand has {name}; allowed: {', '.join(HOOKS)}")
        check_kinds(f"{self.file}: work", self.get("work", {}), {"flops": str, "bytes": str})
        for formula in [self.get("moves", "0"), *self.get("work", {}).values()]:
            for name in set(re.findall(r"[a-z_]\w*", formula)) - {"bytes", "max", "min"}:
                self.type_of(name)
        for name in re.findall(r"\{([^}]*)\}", self.data["shape"]):
            for part in name.split(">"):
                self.type_of(part)

    def read_oracles(self):
        given = self.get("oracle", [])
        oracles = [{"op": self.stem, **given}] if isinstance(given, dict) else given
        for oracle in oracles:
            check_kinds(f"{self.file}: oracle", oracle, {"op": str, "id": str, "flags": list})
        missing = [] if "oracle" in self.get("without", {}) else [name for name in self.names if name not in [o.get("op") for o in oracles]]
        if missing:
            raise Refusal(f"{self.file}: oracle of {', '.join(missing)} is missing: the id of its row, or why there is none: without = {{oracle = \"...\"}}")
        return oracles

    def oracle_rows(self):
        """The fields of the oracles' rows, as src/ref/ref.toml would list them."""
        return [{"source": PARTS["oracle"].format(self.stem), **oracle} for oracle in self.oracles]

    def check_example(self):
        for name in self.get("example", {}):
            self.type_of(name)

    def has(self, part):
        return part not in self.get("without", {})

    def check_parts(self, root):
        """Files that every op has beside its declaration."""
        for part in self.get("without", {}):
            if part not in MAY_LACK:
                raise Refusal(f"{self.file}: without has {part}; allowed: {', '.join(sorted(MAY_LACK))}")
        files = [f"src/op/op_{self.stem}.c"] + [path.format(self.stem) for part, path in PARTS.items() if self.has(part)]
        for file in files:
            if not (root / file).is_file():
                part = next((p for p, path in PARTS.items() if path.format(self.stem) == file), None)
                or_why = f", or say why there is none: without = {{{part} = \"...\"}}" if part in MAY_LACK else ""
                raise Refusal(f"{self.file}: {file} is missing; write it{or_why}")
        for part, path in PARTS.items():
            if not self.has(part) and (root / path.format(self.stem)).is_file():
                raise Refusal(f"{self.file}: without has {part}, but {path.format(self.stem)} is there")


def allowed_names(field, enums):
    """The enumerators that a field with an enum may have: consecutive numbers."""
    enum = enums[field.get("enum")]
    last = field.get("most", enum.names[-1])
    if last not in enum.names:
        raise Refusal(f"{field.where}: most is {last}; allowed: {', '.join(enum.names)}")
    names = enum.names[: enum.names.index(last) + 1]
    numbers = [enum.number(name) for name in names]
    if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        raise Refusal(f"{field.where}: {enum.name} has numbers {numbers}; allowed: consecutive ones")
    return names


def check_enums(ops):
    """Fields name enums that are declared."""
    enums = {enum.name: enum for op in ops for enum in op.enums}
    for op in ops:
        for field in [*op.desc, *op.fused_desc]:
            for name in [field.get("enum"), *(n for n in field.get("flags", []) if n[0].islower())]:
                if name and name not in enums:
                    raise Refusal(f"{field.where}: {name} is no enum; allowed: {', '.join(sorted(enums))}")
            if "enum" in field.given:
                allowed_names(field, enums)
    return enums


def check_numbers(ops):
    numbers = {}
    used = {op.data["number"] + i for op in ops for i in range(len(op.names))}
    first_free = min(set(range(len(used) + 1)) - used)
    for op in ops:
        for i, name in enumerate(op.names):
            number = op.data["number"] + i
            if number in numbers:
                raise Refusal(f"{op.file}: number {number} is that of {numbers[number]}; the first free one is {first_free}")
            numbers[number] = name
    if first_free < len(used):
        raise Refusal(f"src/op: no op has number {first_free}; numbers go from 0 to {len(used) - 1}")


def read(root):
    """All ops in the order of their numbers, checked; {name: enum}."""
    ops = sorted((Op(path) for path in (Path(root) / "src/op").glob("*.toml")), key=lambda op: op.data["number"])
    check_numbers(ops)
    enums = check_enums(ops)
    for op in ops:
        op.check_parts(Path(root))
    return ops, enums


def names(root):
    """The names of all ops, by number."""
    return [name for op in read(root)[0] for name in op.names]
