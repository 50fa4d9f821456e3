#!/usr/bin/env python3
"""Token ids of small tokenizers that differ in one part or a few, by HuggingFace tokenizers, as tests/data/token-parts.json.

    make_parts.py --out tests/data/token-parts.json [--seed 1 --random 60]

Each case is a tokenizer.json without vocabulary, which `vocabs` has, and texts with their ids. Named cases come first; the others are
drawn: normalizers, added tokens, pre-tokenizers and templates in any combination that GA reads. Texts are encoded with special tokens
added and parsed.
"""
import argparse
import json
import random

from tokenizers import Tokenizer

MARK = "\u2581"
TEXTS = ["", " ", "a", " a", "a ", "hello world", "Hello  World", "HELLO\tw\n", "  two  spaces  ", "na\u00efve caf\u00e9", "nai\u0308ve CAFE\u0301",
         "\u0130stanbul \u03a3\u03a3", "\ufb01ne \uff21\uff22 \u2460 x\u00b2", "\u4e2d\u6587abc\u5b57", "a\u0000b\u200bc\u00ad\ufffdd", "it's 12,345!", "un_der-score$+x",
         "<sp>", "<sp>hello", "<sp> hello", "hello<sp>", "hello <sp> a", "<usr>a<usr> b", "x<usr>y <USR>", "foo foobar foo.", "<l> a <r> b <w>",
         " <l>  <r>  <l>", "a<w>b <w> c", f"{MARK}a{MARK}b {MARK}", "aaaaaaaaaaaaaaaaaaaa", "q\U0001f600z", "\u00a0a\u3000b\u2003c"]


def byte_chars():
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(others)}


def merged(vocab, words):
    """Merges that make the words from the left, and their tokens."""
    merges = []
    for word in words:
        left = word[0]
        for c in word[1:]:
            if left + c not in vocab:
                vocab[left + c] = len(vocab)
            if [left, c] not in merges:
                merges.append([left, c])
            left += c
    return merges


def make_vocabs():
    chars = byte_chars()
    bpe = {"<s>": 0, "</s>": 1, "<sp>": 2}
    for b in range(256):
        bpe[chars[b]] = len(bpe)
    bpe_merges = merged(bpe, ["hello", "\u0120hello", "\u0120world", "\u0120a", "foo", "aa", "aaaa", "\u0120\u0120", "12"])
    few = {"<s>": 0, "</s>": 1, "<sp>": 2, "<unk>": 3} | {c: i + 4 for i, c in enumerate("abcdefhlorwx\u0120.1")}
    few_merges = merged(few, ["hello", "\u0120a"])
    spm = {"<unk>": 0, "<s>": 1, "</s>": 2, "<sp>": 3} | {f"<0x{b:02X}>": b + 4 for b in range(256)}
    for c in MARK + "abcdefhilnorwxy.,'12AEHLOW\u00e9\u00ef\u4e2d":
        spm[c] = len(spm)
    spm_words = ["hello", MARK + "hello", MARK + "world", MARK + "a", "foo", "aa", "aaaa", MARK + MARK, "12"]
    spm_merges = merged(spm, spm_words)
    holes = {t: i for i, t in enumerate(t for t in spm if not t.startswith("<0x") or t in ("<0x0A>", "<0xC3>", "<0xB2>"))}
    wpm = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "<sp>": 4}
    for c in "abcdefghilnorstuwxyABCEHLNORW.,'!-_$+1234\u00e9\u00ef\u4e2d\u6587i\u03c3\u03a3":
        wpm.setdefault(c, len(wpm))
        wpm.setdefault("##" + c, len(wpm))
    for word in ["hello", "Hello", "##llo", "world", "na\u00efve", "naive", "cafe", "caf\u00e9", "foo", "##bar", "##\u0307", "aaaa", "##aaaa"]:
        wpm.setdefault(word, len(wpm))
    at = {t.replace("##", "@@"): i for t, i in wpm.items()}
    return {"bpe": {"vocab": bpe, "merges": bpe_merges}, "few": {"vocab": few, "merges": few_merges},
            "spm": {"vocab": spm, "merges": spm_merges}, "holes": {"vocab": holes, "merges": spm_merges},
            "wpm": {"vocab": wpm}, "at": {"vocab": at}}


# --- parts ---

def added(content, vocab, **bits):
    token = {"id": None, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
    return token | bits


REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": MARK}
PREPEND = {"type": "Prepend", "prepend": MARK}
SQUEEZE = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
BERT = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}


def sequence(steps, kind="normalizers"):
    return None if not steps else steps[0] if len(steps) == 1 else {"type": "Sequence", kind: steps}


def metaspace(scheme, split):
    return {"type": "Metaspace", "replacement": MARK, "prepend_scheme": scheme, "split": split}


def template(vocab, before, after):
    pieces = [{"SpecialToken": {"id": t, "type_id": 0}} for t in before] + [{"Sequence": {"id": "A", "type_id": 0}}]
    pieces += [{"SpecialToken": {"id": t, "type_id": 0}} for t in after]
    special = {t: {"id": t, "ids": [vocab[t]], "tokens": [t]} for t in before + after}
    return {"type": "TemplateProcessing", "single": pieces, "pair": pieces + [{"Sequence": {"id": "B", "type_id": 1}}], "special_tokens": special}


def tokenizer(kind, vocabs, normalizer=None, pre="default", tokens=(), post=None, **model):
    vocab = vocabs[kind]["vocab"]
    first = "[CLS]" if kind in ("wpm", "at") else "<s>"
    specials = [t for t in (first, "[SEP]", "</s>", "<unk>", "[UNK]", "<sp>") if t in vocab]
    all_tokens = [added(t, vocab, special=True) for t in specials] + list(tokens)
    next_id = len(vocab)
    for t in all_tokens:
        t["id"] = vocab.get(t["content"], next_id)
        next_id += t["id"] == next_id
    all_tokens.sort(key=lambda t: t["id"])
    if kind in ("bpe", "few"):
        base = {"type": "BPE", "dropout": None, "unk_token": "<unk>" if kind == "few" else None, "continuing_subword_prefix": None,
                "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False}
        pre = BYTES if pre == "default" else pre
    elif kind in ("spm", "holes"):
        base = {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": None,
                "fuse_unk": True, "byte_fallback": True, "ignore_merges": False}
        pre = None if pre == "default" else pre
    else:
        base = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##" if kind == "wpm" else "@@",
                "max_input_chars_per_word": 100}
        pre = {"type": "BertPreTokenizer"} if pre == "default" else pre
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": all_tokens, "normalizer": normalizer, "pre_tokenizer": pre,
            "post_processor": post, "decoder": None, "model": base | model}


USER = dict(content="<usr>", normalized=False)


def user_tokens(vocab):
    return [added("<usr>", vocab), added("<USR>", vocab, normalized=True), added("foo", vocab, single_word=True),
            added("<l>", vocab, lstrip=True), added("<r>", vocab, rstrip=True, special=True),
            added("<w>", vocab, single_word=True, lstrip=True, rstrip=True, normalized=True)]


def named(vocabs):
    def case(name, kind, *args, **more):
        return name, kind, tokenizer(kind, vocabs, *args, **more)
    v = {k: vocabs[k]["vocab"] for k in vocabs}
    for step in ("Lowercase", "NFC", "NFD", "NFKC", "NFKD", "StripAccents", "Nmt"):
        yield case(f"bpe {step}", "bpe", {"type": step})
        yield case(f"spm {step}", "spm", sequence([{"type": step}, PREPEND, REPLACE]))
    yield case("bpe NFD, StripAccents", "bpe", sequence([{"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"}]))
    yield case("bpe Strip", "bpe", {"type": "Strip", "strip_left": True, "strip_right": True})
    yield case("bpe Strip right", "bpe", {"type": "Strip", "strip_left": False, "strip_right": True})
    yield case("bpe Prepend", "bpe", {"type": "Prepend", "prepend": "a "})
    yield case("bpe Replace", "bpe", {"type": "Replace", "pattern": {"String": "lo"}, "content": "LO!"})
    yield case("bpe Replace runs", "bpe", {"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": " "})
    yield case("bpe Bert", "bpe", BERT)
    yield case("bpe prefix space", "bpe", pre=BYTES | {"add_prefix_space": True}, tokens=user_tokens(v["bpe"]))
    yield case("bpe two before, three after", "bpe", post=template(v["bpe"], ["<s>", "<sp>"], ["<sp>", "</s>", "<s>"]))
    yield case("bpe ByteLevel, then a template", "bpe", post={"type": "Sequence", "processors": [
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}, template(v["bpe"], ["<sp>"], ["</s>"])]})
    yield case("bpe ignore_merges", "bpe", ignore_merges=True)
    yield case("bpe unknown", "few")
    yield case("bpe fused unknown", "few", fuse_unk=True)
    yield case("bpe added tokens", "bpe", {"type": "Lowercase"}, tokens=user_tokens(v["bpe"]))
    for scheme in ("always", "first", "never"):
        for split in (True, False):
            yield case(f"spm Metaspace {scheme} {split}", "spm", pre=metaspace(scheme, split), tokens=user_tokens(v["spm"]),
                       post=template(v["spm"], ["<s>"], []))
    yield case("spm legacy", "spm", sequence([PREPEND, REPLACE]), tokens=user_tokens(v["spm"]))
    yield case("spm no normalized token", "spm", sequence([PREPEND, REPLACE]), tokens=[added("<usr>", v["spm"])])
    yield case("spm gemma", "spm", REPLACE, {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False})
    yield case("spm Strip, Prepend", "spm", sequence([{"type": "Strip", "strip_left": True, "strip_right": True}, SQUEEZE, PREPEND, REPLACE]))
    yield case("spm Prepend first", "spm", sequence([PREPEND, {"type": "Strip", "strip_left": True, "strip_right": True}, REPLACE]))
    yield case("spm unknown", "holes", sequence([PREPEND, REPLACE]), fuse_unk=False)
    yield case("spm fused unknown", "holes", sequence([PREPEND, REPLACE]))
    yield case("spm fused unknown, split", "holes", pre=metaspace("always", True))
    for clean in (True, False):
        for accents in (None, True, False):
            for lower in (True, False):
                yield case(f"wpm {clean} {accents} {lower}", "wpm",
                           BERT | {"clean_text": clean, "strip_accents": accents, "lowercase": lower, "handle_chinese_chars": clean != lower},
                           post=template(v["wpm"], ["[CLS]"], ["[SEP]"]))
    yield case("wpm null", "wpm")
    yield case("wpm 4 characters", "wpm", BERT, max_input_chars_per_word=4)
    yield case("wpm 20 characters", "wpm", BERT, max_input_chars_per_word=20)
    yield case("wpm NFD", "wpm", sequence([{"type": "NFD"}, {"type": "Lowercase"}, {"type": "StripAccents"}]))
    yield case("wpm Bert in the middle", "wpm", sequence([{"type": "NFKC"}, BERT, {"type": "Replace", "pattern": {"String": "l"}, "content": "r"}]))
    yield case("wpm Whitespace", "wpm", BERT, {"type": "Whitespace"})
    yield case("wpm WhitespaceSplit", "wpm", None, {"type": "WhitespaceSplit"})
    yield case("wpm WhitespaceSplit, Punctuation", "wpm", BERT, sequence([{"type": "WhitespaceSplit"}, {"type": "Punctuation", "behavior": "Isolated"}],
                                                                       "pretokenizers"))
    yield case("wpm prefix @@", "at", BERT, tokens=user_tokens(v["at"]))
    yield case("wpm two before", "wpm", BERT, post=template(v["wpm"], ["[CLS]", "<sp>"], ["[SEP]", "[SEP]"]))


def drawn(rng, vocabs, n):
    plain = [{"type": t} for t in ("Lowercase", "NFC", "NFD", "NFKC", "NFKD", "StripAccents", "Nmt")]
    plain += [BERT | {"lowercase": False}, BERT | {"strip_accents": False}, SQUEEZE,
              {"type": "Replace", "pattern": {"Regex": "\\s{2,}"}, "content": " "}, {"type": "Replace", "pattern": {"String": "l"}, "content": "LL"},
              {"type": "Strip", "strip_left": True, "strip_right": False}, {"type": "Strip", "strip_left": False, "strip_right": True},
              {"type": "Prepend", "prepend": "x"}]
    for i in range(n):
        kind = rng.choice(sorted(vocabs))
        vocab, steps = vocabs[kind]["vocab"], rng.sample(plain, rng.choice([0, 0, 1, 1, 2, 3]))
        names = [t for t in ("<s>", "<sp>", "</s>", "[CLS]", "[SEP]") if t in vocab]
        tokens = [t for t in user_tokens(vocab) if rng.random() < 0.5]
        for t in tokens:
            t["normalized"] = not t["special"] and t["content"] != "<usr>" and rng.random() < 0.4  # of two with one normal form, any may win
        post = template(vocab, rng.choices(names, k=rng.randrange(3)), rng.choices(names, k=rng.randrange(3))) if rng.random() < 0.6 else None
        pre, model = "default", {}
        if kind in ("spm", "holes"):
            if rng.random() < 0.5:
                pre = metaspace(rng.choice(["always", "first", "never"]), rng.random() < 0.5)
                if pre["prepend_scheme"] == "first":  # depends on offsets in the text before the normalizer
                    steps = [s for s in steps if s["type"] in ("Lowercase", "NFC", "Replace")]
            else:
                steps = steps + ([PREPEND] if rng.random() < 0.5 else []) + [REPLACE]
            model["fuse_unk"] = rng.random() < 0.5
        elif kind in ("wpm", "at"):
            pre = rng.choice([{"type": t} for t in ("BertPreTokenizer", "Whitespace", "WhitespaceSplit")])
            model["max_input_chars_per_word"] = rng.choice([3, 100])
        else:
            pre = BYTES | {"add_prefix_space": rng.random() < 0.3}
            model["fuse_unk"] = rng.random() < 0.5
        yield f"drawn {i}", kind, tokenizer(kind, vocabs, sequence(steps), pre, tokens, post, **model)


def draw_text(rng):
    parts = ["a", " ", "  ", "hello", "World", "\u00e9", "e\u0301", "<usr>", "<USR>", "<sp>", "foo", "<l>", "<r>", "<w>", MARK, "\t", "\n", "'s", "12", "\u4e2d", ".", "\u0130",
             "\uff21", "\U0001f600", "_", "\u00a0", "\u0307", "\u1100\u1161", "l"]
    return "".join(rng.choices(parts, k=rng.randrange(1, 9)))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--out", required=True)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--random", type=int, default=60)
    a = ap.parse_args()
    rng, vocabs, cases = random.Random(a.seed), make_vocabs(), []
    for name, kind, parts in [*named(vocabs), *drawn(rng, vocabs, a.random)]:
        whole = json.loads(json.dumps(parts))
        whole["model"] |= vocabs[kind]
        t = Tokenizer.from_str(json.dumps(whole))
        texts = TEXTS if not name.startswith("drawn") else [draw_text(rng) for _ in range(8)]
        cases.append({"name": name, "vocab": kind, "parts": parts, "texts": [[s, t.encode(s).ids] for s in texts]})
    with open(a.out, "w") as f:
        f.write('{"vocabs": ' + json.dumps(vocabs) + ',\n"cases": [\n')
        f.write(",\n".join(json.dumps(c) for c in cases) + "\n]}\n")


if __name__ == "__main__":
    main()
