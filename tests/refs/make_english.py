#!/usr/bin/env python3
"""Makes tests/data/english.txt: fixed English prose in the public domain.

    make_english.py --austen DIR --bible PROGRAM > tests/data/english.txt

DIR      /usr/lib/R/site-library/janeaustenr/data of Debian's r-cran-janeaustenr 1.0.0-1
PROGRAM  the `bible` of Debian's bible-kjv 4.38 (with bible-kjv-text 4.38)

The novels lie in an R lazy-load file: blocks of {u32 big-endian plain size, zlib stream}, each an R object in
XDR form in which a string is 00 04 00 09, u32 length, bytes. Every line of a novel is one such string.
"""
import argparse, re, struct, subprocess, sys, zlib

CHARSXP = b"\x00\x04\x00\x09"


def novels(path):
    data, pos = open(path + "/Rdata.rdb", "rb").read(), 0
    while pos + 4 < len(data):
        z = zlib.decompressobj()
        plain = z.decompress(data[pos + 4:])
        pos = len(data) - len(z.unused_data)
        lines, at = [], 0
        while (at := plain.find(CHARSXP, at)) >= 0:
            n = struct.unpack(">I", plain[at + 4:at + 8])[0]
            lines.append(plain[at + 8:at + 8 + n].decode("utf-8", "replace"))
            at += 8 + n
        yield lines


def unwrap(lines):
    """Joins the hard-wrapped lines of each paragraph."""
    text = "\n".join(line.strip() for line in lines)
    return [re.sub(r"\s+", " ", p) for p in re.split(r"\n{2,}", text) if p.strip()]


def take(paragraphs, size):
    out, n = [], 0
    for p in paragraphs:
        if n + len(p) > size:
            break
        out.append(p)
        n += len(p) + 2
    return out


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--austen", required=True)
    ap.add_argument("--bible", required=True)
    a = ap.parse_args()
    out = []
    books = {lines[0]: lines for lines in novels(a.austen) if lines}
    for title in ("NORTHANGER ABBEY", "PERSUASION"):
        lines = next(v for k, v in books.items() if k.upper().startswith(title))
        out += take(unwrap(lines), 120000)
    for book in ("Ecc", "Job", "Mark"):
        verses = subprocess.run([a.bible, "-f", "-l0", f"{book}1:1-{book}42:99"], capture_output=True, text=True).stdout
        out.append(" ".join(line.split(" ", 1)[1] for line in verses.splitlines() if " " in line))
    sys.stdout.write("\n\n".join(out) + "\n")


if __name__ == "__main__":
    main()
