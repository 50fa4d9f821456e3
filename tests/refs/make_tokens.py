#!/usr/bin/env python3
"""Greedy continuations by llama.cpp: prompt ids, 64 ids, and at each step the five largest logits.

    make_tokens.py MODEL.gguf [--chat] [--steps 64] [--threads 1] > tests/data/greedy-NAME.txt

--chat renders each prompt as one user message with the model's own chat template (needs jinja2).
The end of generation is not obeyed: the steps go on past an end token, so every prompt has the same number of them.
Format: tests/data/README.md.
"""
import argparse
import jinja2, jinja2.sandbox
import llama_cpp as L
from llama_ref import Model, escape, f32, top, versions
from prompts import PROMPTS


def chat_render(model):
    template = L.llama_model_chat_template(model.model, None).decode()
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    t = env.from_string(template)
    return lambda text: t.render(messages=[{"role": "user", "content": text}], add_generation_prompt=True)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model")
    ap.add_argument("--chat", action="store_true")
    ap.add_argument("--steps", type=int, default=64)
    ap.add_argument("--threads", type=int, default=1)
    a = ap.parse_args()
    m = Model(a.model, n_ctx=1024, threads=a.threads)
    render = chat_render(m) if a.chat else (lambda text: text)
    print(f"# {versions()}")
    print(f"prompts {len(PROMPTS)} steps {a.steps} vocab {m.n_vocab}")
    for k, (name, text) in enumerate(PROMPTS):
        full = render(text)
        ids = m.tokenize(full, special=a.chat)
        m.reset()
        row, out, steps = m.eval(ids)[0], [], []
        for _ in range(a.steps):
            best = top(row, 5)
            out.append(best[0][0])
            steps.append(best)
            row = m.eval([out[-1]])[0]
        print(f"\nprompt {k} {name}")
        print("text", escape(full))
        print("ids", len(ids), *ids)
        print("out", len(out), *out)
        print("gen", escape(b"".join(m.piece(t) for t in out)))
        for s in steps:
            print("top", *(f"{i}:{f32(v)}" for i, v in s))


if __name__ == "__main__":
    main()
