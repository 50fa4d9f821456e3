#!/usr/bin/env python3
"""The 64 largest logits of llama.cpp at the last position of four prompts, and the log of the sum of exponentials of all.

    make_logits.py MODEL.gguf [--chat] > tests/data/logits-NAME.txt

Format: tests/data/README.md.
"""
import argparse
import numpy as np
from llama_ref import Model, escape, f32, top, versions
from make_tokens import chat_render
from prompts import PROMPTS

PICK = ("capital", "python", "chinese", "emoji")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model")
    ap.add_argument("--chat", action="store_true")
    ap.add_argument("--threads", type=int, default=1)
    a = ap.parse_args()
    m = Model(a.model, n_ctx=1024, threads=a.threads)
    render = chat_render(m) if a.chat else (lambda text: text)
    print(f"# {versions()}")
    print(f"prompts {len(PICK)} top 64 vocab {m.n_vocab}")
    for k, name in enumerate(PICK):
        full = render(dict(PROMPTS)[name])
        ids = m.tokenize(full, special=a.chat)
        m.reset()
        row = m.eval(ids)[0].astype(np.float64)
        lse = row.max() + np.log(np.exp(row - row.max()).sum())
        print(f"\nprompt {k} {name}")
        print("text", escape(full))
        print("ids", len(ids), *ids)
        print("lse", f"{lse:.9g}", "mean", f"{row.mean():.9g}", "rms", f"{np.sqrt((row * row).mean()):.9g}")
        for i, v in top(row, 64):
            print("logit", i, f32(v))


if __name__ == "__main__":
    main()
