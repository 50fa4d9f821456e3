#!/usr/bin/env python3
"""Token ids of every line of a corpus, by independent tokenizers, as tests/data/ids-NAME.bin.

    make_tokenizer.py llama MODEL.gguf     --corpus tests/data/corpus.bin --out ids-NAME.bin [--special]
    make_tokenizer.py hf    tokenizer.json --corpus tests/data/corpus.bin --out ids-NAME.bin [--special]
    make_tokenizer.py split gpt2|smollm|llama3|qwen2 --corpus tests/data/corpus.bin --out split-NAME.bin [--check MODEL.gguf]
    make_tokenizer.py hf-split tekken|gpt-4o --corpus tests/data/corpus.bin --out split-NAME.bin

llama: llama.cpp (a vocabulary-only GGUF is enough); BOS/EOS added where the file wants them; --special turns parse_special on.
hf:    HuggingFace tokenizers; without --special, "[CLS]" in a text is plain text.
       Both see invalid UTF-8 with U+FFFD for each maximal ill-formed part (llama.cpp aborts on some of it when given raw).
split: the pre-tokeniser alone, by the regex module; the "ids" are the pieces' lengths in bytes; a line of invalid UTF-8 has
       count 0xffffffff. --check also tokenises each piece alone with llama.cpp and says how many lines then differ.
hf-split: the same by Split of HuggingFace tokenizers, whose Unicode is that of our tables.
Format: tests/data/README.md.
"""
import argparse, re, struct, sys
import numpy as np
from make_corpus import read_corpus

STRIDE = 50
ENGLISH = r"'s|'t|'re|'ve|'m|'ll|'d"
GPT2 = ENGLISH + r"| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = r"(?i:" + ENGLISH + r")|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
P = r"[^\r\n\p{L}\p{N}]?"
U = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
W = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
TEKKEN = P + U + "*" + W + "+|" + P + U + "+" + W + r"*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
PATTERNS = {  # applied one after another, each to the pieces of the one before
    "gpt2": [GPT2],
    "smollm": [r"\p{N}", GPT2],
    "llama3": [LLAMA3],
    "qwen2": [LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")],
    "tekken": [TEKKEN],
    "gpt-4o": [re.sub(r"(?<=\+|\*)\|", "(?i:" + ENGLISH + ")?|", TEKKEN, count=2).replace(r"|\p{N}|", r"|\p{N}{1,3}|")],
}


def fnv1a(ids):
    h = 0xcbf29ce484222325
    for b in np.asarray(ids, dtype="<u4").tobytes():
        h = ((h ^ b) * 0x100000001b3) & 0xffffffffffffffff
    return h


def write(path, rows):
    with open(path, "wb") as f:
        f.write(b"GAIDS1\n\0" + struct.pack("<II", len(rows), STRIDE))
        for r in rows:
            f.write(struct.pack("<IQ", 0xffffffff if r is None else len(r), fnv1a(r or [])))
        for r in rows[::STRIDE]:
            f.write(np.asarray(r or [], dtype="<u4").tobytes())


def splitter(name):
    import regex
    stages = [regex.compile(p) for p in PATTERNS[name]]

    def split(text):
        pieces = [text]
        for rx in stages:
            out = []
            for p in pieces:
                at = 0
                for m in rx.finditer(p):
                    if m.start() > at:
                        out.append(p[at:m.start()])
                    out.append(m.group())
                    at = m.end()
                if at < len(p):
                    out.append(p[at:])
            pieces = out
        return pieces
    return split


def hf_splitter(name):
    from tokenizers import Regex, pre_tokenizers
    [pattern] = PATTERNS[name]
    step = pre_tokenizers.Split(Regex(pattern), "isolated")
    return lambda text: [piece for piece, _ in step.pre_tokenize_str(text)]


def decode(raw):
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("engine", choices=("llama", "hf", "split", "hf-split"))
    ap.add_argument("what")
    ap.add_argument("--corpus", required=True)
    ap.add_argument("--out", required=True)
    ap.add_argument("--special", action="store_true")
    ap.add_argument("--check")
    a = ap.parse_args()
    lines = read_corpus(a.corpus)
    if a.engine == "llama":
        from llama_ref import Model
        m = Model(a.what, vocab_only=True)
        rows = [m.tokenize(s.decode("utf-8", "replace"), special=a.special) for s in lines]
    elif a.engine == "hf":
        from tokenizers import Tokenizer
        t = Tokenizer.from_file(a.what)
        t.no_padding()
        t.no_truncation()
        t.encode_special_tokens = not a.special
        rows = [t.encode(s.decode("utf-8", "replace")).ids for s in lines]
    else:
        split = hf_splitter(a.what) if a.engine == "hf-split" else splitter(a.what)
        texts = [decode(s) for s in lines]
        rows = [None if t is None else [len(p.encode()) for p in split(t)] for t in texts]
        if a.check:
            from llama_ref import Model
            m = Model(a.check, vocab_only=True)
            bad = []
            for i, t in enumerate(texts):
                if t is not None:
                    parts = [x for p in split(t) for x in m.tokenize(p, add_special=False)]
                    if parts != m.tokenize(t, add_special=False):
                        bad.append(i)
            print(f"{a.what}: {len(bad)} lines differ from llama.cpp", [(i, lines[i]) for i in bad[:8]], file=sys.stderr)
    write(a.out, rows)


if __name__ == "__main__":
    main()
