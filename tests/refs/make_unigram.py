#!/usr/bin/env python3
"""A small Unigram tokenizer.json with every part that GA reads, as tests/data/unigram/tokenizer.json.

    make_unigram.py --corpus tests/data/corpus.bin --out tests/data/unigram/tokenizer.json
    make_tokenizer.py hf tests/data/unigram/tokenizer.json --special --corpus ... --out tests/data/ids-unigram-special.bin

Pieces are frequent substrings of the corpus. Scores are whole 64ths, so that sums are exact and ties are ties in any program.
The charsmap is our own: some of Unicode's compatibility forms, and pairs of entries of which one begins another.
"""
import argparse
import base64
import collections
import json
import math
import struct
import unicodedata

from make_corpus import read_corpus

MARK = "\u2581"
SPECIALS = ["<s>", "<pad>", "</s>", "<unk>"]


def charsmap_entries():
    entries = {c: " " for c in "\t\n\r\u00a0\u3000\u2009"}
    entries |= {"\u200b": "", "\u200d": "", "\ufeff": "", "\u2026": "..."}
    for cp in [*range(0xFF01, 0xFF5F), *range(0xFB00, 0xFB05), *range(0x2460, 0x2474), 0xBD, 0xBE, 0x2168, 0x212B]:
        entries[chr(cp)] = unicodedata.normalize("NFKC", chr(cp))
    for base in "aeiounAEIOUN":
        for mark in "\u0300\u0301\u0303\u0308":
            entries[base + mark] = unicodedata.normalize("NFC", base + mark)
    for cp in range(0xFF76, 0xFF80):  # halfwidth kana, alone and with a voiced mark
        entries[chr(cp)] = unicodedata.normalize("NFKC", chr(cp))
        entries[chr(cp) + "\uff9e"] = unicodedata.normalize("NFKC", chr(cp) + "\uff9e")
    return {k.encode(): v.encode() for k, v in entries.items()}


def double_array(values):
    """Units of a double-array trie of {bytes: number}, as darts-clone lays them out."""
    units, taken = {}, {0}

    def place(node, keys, depth):
        labels = sorted({k[depth] if len(k) > depth else 0 for k in keys})
        base = 1
        while any(base ^ label in taken for label in labels):
            base += 1
        taken.update(base ^ label for label in labels)
        units[node] = units.get(node, 0) | (node ^ base) << 10
        assert node ^ base < 1 << 21
        for label in labels:
            below = [k for k in keys if (k[depth] if len(k) > depth else 0) == label]
            if label == 0:
                units[node] |= 1 << 8
                units[base] = 1 << 31 | values[below[0]]
            else:
                units[base ^ label] = label
                place(base ^ label, below, depth + 1)

    place(0, sorted(values), 0)
    return [units.get(i, 0) for i in range(max(units) + 1)]


def charsmap():
    texts, at, values = b"", {}, {}
    for key, value in sorted(charsmap_entries().items()):
        if value not in at:
            at[value] = len(texts)
            texts += value + b"\0"
        values[key] = at[value]
    units = double_array(values)
    return struct.pack("<I", 4 * len(units)) + struct.pack(f"<{len(units)}I", *units) + texts


def pieces(lines):
    counts = collections.Counter()
    for line in lines:
        text = MARK + line.replace(" ", MARK)
        for n in range(1, 9):
            for i in range(len(text) - n + 1):
                piece = text[i:i + n]
                if MARK not in piece[1:]:
                    counts[piece] += 1
    for special in SPECIALS + ["<mask>"]:
        counts.pop(special, None)
    chars = [p for p, n in counts.most_common() if len(p) == 1 and n > 20 and p.isprintable()][:400]
    words = sorted((p for p in counts if len(p) > 1 and p.isprintable()), key=lambda p: (-counts[p] * (len(p) - 1), p))[:1100]
    total = sum(counts[p] for p in chars + words)
    return [[p, round(64 * math.log(counts[p] / total)) / 64] for p in chars + words]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--corpus", required=True)
    ap.add_argument("--out", required=True)
    a = ap.parse_args()
    lines = [s.decode("utf-8", "replace") for s in read_corpus(a.corpus)]
    vocab = [[s, 0.0] for s in SPECIALS] + pieces(lines) + [["<mask>", 0.0]]
    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    ids = {s: i for i, (s, _) in enumerate(vocab)}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [dict(special, id=ids[s], content=s) for s in SPECIALS + ["<mask>"]],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap()).decode()},
            {"type": "Strip", "strip_left": False, "strip_right": True},
            {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": MARK}]},
        "pre_tokenizer": {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "always", "split": True},
        "post_processor": {"type": "TemplateProcessing", "pair": [{"Sequence": {"id": "A", "type_id": 0}}], "single": [
            {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
            {"SpecialToken": {"id": "</s>", "type_id": 0}}],
            "special_tokens": {s: {"id": s, "ids": [ids[s]], "tokens": [s]} for s in ("<s>", "</s>")}},
        "decoder": {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "always", "split": True},
        "model": {"type": "Unigram", "unk_id": 3, "byte_fallback": False, "vocab": vocab},
    }
    with open(a.out, "w") as f:
        json.dump(tokenizer, f, ensure_ascii=False)
        f.write("\n")


if __name__ == "__main__":
    main()
