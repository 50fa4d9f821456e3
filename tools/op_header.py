"""The blocks of headers that follow from src/op/*.toml. A block of a header looks like this, and lists the pieces that stand in it:

  /* --- src/op/act.toml: desc io functions --- */
  ...
  /* --- end of src/op/act.toml --- */

Pieces: the name of an enum; desc, the description with its INIT macro; io, the arguments; functions, the three public forms; and
fused_desc, fused_io, fused_functions. What a piece says is compared without white space: clang-format lays it out."""
import re
import textwrap

WIDTH = 120
BEGIN = re.compile(r"/\* --- src/op/(\w+)\.toml: ([\w ]+) --- \*/\n(.*?)/\* --- end of src/op/\1\.toml --- \*/\n", re.S)
LAYOUT = re.compile(r"\\\n|\n\s*\*(?= )|\s")


def paragraphs(text):
    """Lines of a text as they are wrapped: those that begin with a space stay as they are, the others are joined."""
    joined = []
    for line in text.strip().splitlines():
        if joined and not line.startswith(" ") and not joined[-1].startswith(" "):
            joined[-1] += " " + line.strip()
        else:
            joined.append(line.rstrip())
    return joined


def wrapped(part, indent):
    """Lines of a paragraph; one that begins with a space stays as it is."""
    if part.startswith(" "):
        return [indent + part]
    return textwrap.wrap(part, WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def comment(text, indent=""):
    """A comment of as many lines as it needs; empty for no text."""
    if not text:
        return ""
    parts = paragraphs(text)
    parts[-1] += "\0*/"  # no break before the end
    lines = [line for part in parts for line in wrapped(part, f"{indent} * ")]
    return "\n".join([f"{indent}/* {lines[0][len(indent) + 3:]}", *lines[1:], ""]).replace("\0", " ")


def members(lines):
    """[(declaration, comment)] as members, the comment behind its declaration where it has room, else above."""
    text = ""
    for c, says in lines:
        fits = len(f"  {c} /* {says} */") <= WIDTH
        text += f"  {c} /* {says} */\n" if says and fits else comment(says, "  ") + f"  {c}\n"
    return text


def struct(name, says, first, fields):
    lines = first + [(field.c + ";", field.comment()) for field in fields]
    return f"{comment(says)}typedef struct {name} {{\n{members(lines)}}} {name};\n"


def zero_of(field, name):
    value = field.get("default", "0.0f" if field.type == "float" else "0.0" if field.type == "double" else "0")
    count = field.counts[name]
    return value if count is None else "{" + ", ".join([value] * (int(count) if count.isdigit() else 1)) + "}"


def init(macro, first, fields):
    values = [first] + [zero_of(field, name) for field in fields for name in field.names]
    return f"#define {macro} \\\n  {{ {', '.join(values)} }}\n"


def enum(one):
    lines = [(value["c"] + ("," if value is not one.values[-1] else ""), value) for value in one.values]
    text = "".join(comment(value.get("above"), "  ") + f"  {c}" + (f" /* {value['says']} */" if value.get("says") else "") + "\n" for c, value in lines)
    return f"{comment(one.says)}typedef enum {one.name} {{\n{text}}} {one.name};\n"


def piece(op, name):
    """The text of a piece; None: the op has no such piece."""
    up, sized = op.stem.upper(), [("size_t struct_size;", "")]
    for one in op.enums:
        if one.name == name:
            return enum(one)
    if name == "desc":
        return struct(f"ga_{op.stem}_desc", op.get("says"), sized, op.desc) + init(f"GA_{up}_DESC_INIT", f"sizeof(ga_{op.stem}_desc)", op.desc)
    if name == "io" and op.io:
        return struct(f"ga_{op.stem}_io", "", [], op.io)
    if name == "functions" and op.get("functions") != "by hand":
        return f"GA_DECLARE_OP({op.stem})\n"
    if op.fused is None:
        return None
    if name == "fused_desc":
        plain = [(f"ga_{op.stem}_desc plain;", "")]
        return struct(f"ga_{op.stem}_fused_desc", op.fused.get("says"), plain, op.fused_desc) + init(f"GA_{up}_FUSED_DESC_INIT", f"GA_{up}_DESC_INIT", op.fused_desc)
    if name == "fused_io":
        return struct(f"ga_{op.stem}_fused_io", op.fused.get("io_says"), [(f"ga_{op.stem}_io plain;", "")], op.fused_io)
    return f"GA_DECLARE_FUSED_OP({op.stem})\n" if name == "fused_functions" else None


def pieces_of(op):
    """{header: the pieces that it has}"""
    public = [one.name for one in op.enums] + [name for name in ("desc", "io", "functions") if piece(op, name)]
    headers = {f"include/{op.data['header']}": public}
    if op.fused is not None:
        headers[f"src/{op.fused['header']}"] = ["fused_desc", "fused_io", "fused_functions"]
    return headers


def with_new_block(text, op, names):
    """The header with an empty block of an op that it does not name yet, before its last lines."""
    block = f"/* --- src/op/{op.stem}.toml: {' '.join(names)} --- */\n/* --- end of src/op/{op.stem}.toml --- */\n\n"
    at = text.rindex("#ifdef __cplusplus") if "#ifdef __cplusplus" in text else text.rindex("#endif")
    return text[:at] + block + text[at:]


def refreshed(text, ops, header):
    """(the header as it must be, [what is wrong with it])"""
    by_stem, wrong, seen = {op.stem: op for op in ops}, [], []

    def block(match):
        stem, names = match[1], match[2].split()
        op = by_stem.get(stem)
        pieces = [(name, piece(op, name) if op else None) for name in names]
        for name, piece_text in pieces:
            if piece_text is None:
                wrong.append(f"{header}: src/op/{stem}.toml has no {name}")
        seen.extend((stem, name) for name in names)
        new = "\n".join(piece_text or "" for _, piece_text in pieces)
        if LAYOUT.sub("", new) == LAYOUT.sub("", match[3]):
            return match[0]
        wrong.append(f"{header}: the block of src/op/{stem}.toml is not what that file says: make golden")
        return match[0].replace(match[3], new, 1) if match[3] else match[0].replace("--- */\n/*", f"--- */\n{new}/*", 1)

    new = BEGIN.sub(block, text)
    for op in ops:
        missing = [name for name in pieces_of(op).get(header, []) if seen.count((op.stem, name)) != 1]
        if missing:
            wrong.append(f"{header}: {', '.join(missing)} of src/op/{op.stem}.toml must stand in one block: make golden")
    return new, wrong


def headers_of(ops):
    return sorted({header for op in ops for header in pieces_of(op)})


def write(root, ops):
    """Brings all headers up to date; the files that changed."""
    changed = []
    for header in headers_of(ops):
        path = root / header
        text = old = path.read_text()
        for op in ops:
            names = pieces_of(op).get(header)
            if names and f"src/op/{op.stem}.toml: " not in text:
                text = with_new_block(text, op, names)
        text, _ = refreshed(text, ops, header)
        if text != old:
            path.write_text(text)
            changed.append(path)
    return changed


def faults(root, ops):
    """What is wrong with the headers."""
    return [text for header in headers_of(ops) for text in refreshed((root / header).read_text(), ops, header)[1]]
