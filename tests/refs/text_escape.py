"""One-line form of a text, shared by the make_*.py scripts."""


def escape(raw):
    """Bytes to one printable line: backslash, newline, CR, tab and other control bytes escaped, UTF-8 kept."""
    s = raw if isinstance(raw, str) else raw.decode("utf-8", "backslashreplace")
    s = s.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return "".join(c if ord(c) >= 32 and ord(c) != 127 else f"\\x{ord(c):02x}" for c in s)
