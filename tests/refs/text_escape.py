"""One-line form of a text, shared by the make_*.py scripts."""


def escape(raw):
    """Bytes or str to one printable line: backslash, control bytes and bytes that are not UTF-8 escaped, the rest kept."""
    s = raw if isinstance(raw, str) else raw.decode("utf-8", "surrogateescape")
    s = s.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    out = ""
    for c in s:
        o = ord(c)
        out += f"\\x{o & 0xff:02x}" if o < 32 or o == 127 or 0xdc80 <= o <= 0xdcff else c
    return out
