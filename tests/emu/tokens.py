#!/usr/bin/env python3
"""Whole models on the CUDA emulator, Llama- and Gemma-shaped, in f32, quantised and FP8, with short and long prompts: the same tokens as on the
CPU, greedy and by chance with every filter and penalty, with caches of several types; --explain names every op.
usage: tokens.py PART GA_EMU; parts are tiny, gemma, packed, fp8, fp8_activations (models), chains (of sampling), and quick: a little of the first and last"""
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
import fp8_folder  # noqa: E402
import tiny_gguf  # noqa: E402


# Chains that draw inside of the step: all tokens, filters, penalties over a few tokens and over all.
CHAINS = (("--temp", "1.3"), ("--temp", "0.9", "--top-k", "9", "--top-p", "0.8"), ("--temp", "2", "--min-p", "0.2", "--repeat-penalty", "1.4", "--repeat-last", "3"),
          ("--temp", "1", "--top-p", "0.7", "--presence-penalty", "0.5", "--frequency-penalty", "0.3", "--repeat-last", "-1"), ("--repeat-penalty", "1.5"),
          ("--temp", "1.2", "--typical", "0.6"), ("--temp", "1.5", "--top-k", "20", "--typical", "0.5", "--top-p", "0.9", "--repeat-penalty", "1.3"))
SHORT, LONG = "ab", "abcd" * 20  # of a long prompt attention and products are other rows


# GGUF's number of a type: a scale (2^-10, 2^-7, 2^-6), bytes of a block of 32 behind it.
BLOCKS = {8: (b"\x00\x14", 32), 6: (b"\x00\x20", 20), 2: (b"\x00\x24", 16)}
NARROW = {"attn_k": 6, "ffn_up": 6, "attn_output": 2}  # q5_0 and q4_0, which become q8_0 on a GPU


def blocks(shape, kind, seed):
    """Codes of all sizes."""
    scale, size = BLOCKS[kind]
    n = math.prod(shape) // 32
    return b"".join(scale + bytes((i * size + j + seed) * 2654435761 >> 11 & 0xFF for j in range(size)) for i in range(n))


def quantised():
    """The tiny model with matrices of q8_0, but for some of fewer bits, and for one v of f32: a layer whose q, k and v are not alike."""
    out = {}
    for seed, (name, (shape, kind, raw)) in enumerate(tiny_gguf.tensors().items()):
        plain = len(shape) == 1 or name in ("token_embd.weight", "blk.1.attn_v.weight")
        kind = kind if plain else NARROW.get(name.split(".")[-2], 8)
        out[name] = (shape, kind, raw) if plain else (shape, kind, blocks(shape, kind, seed))
    return out


def answer(program, model, device, prompt, *options):
    env = {**os.environ, "GA_EMU": "seed=5"}
    command = [program, "run", "-m", model, "-d", device, "--no-template", "--temp", "0", "-n", "6", "-q", "--ignore-eos", *options, prompt]
    done = subprocess.run(command, capture_output=True, env=env, timeout=600)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stderr.decode()}")
    return done.stdout, done.stderr.decode()


def build(folder, name):
    path = Path(folder) / f"{name}.gguf"
    path.write_bytes({"tiny": tiny_gguf.build, "gemma": lambda: tiny_gguf.build(*tiny_gguf.gemma()),
                      "packed": lambda: tiny_gguf.build(None, quantised())}[name]())
    return path


# A prompt and options each, with which both devices must say the same.
CASES = {"tiny": ((SHORT,), (LONG,), (SHORT, "--kv-type", "f32")),
         "gemma": ((SHORT,), (LONG,), (SHORT, "--kv-type", "q8_0"), (LONG, "--kv-type", "e4m3")),
         "packed": ((SHORT,), (LONG,), (LONG, "-b", "40"))}


def compare(program, model, prompt, *options):
    want, _ = answer(program, model, "cpu", prompt, *options)
    got, text = answer(program, model, "emu", prompt, *options)
    if got != want:
        sys.exit(f"{model.name} {prompt} {options}: emulator {got!r}, CPU {want!r}\n{text}")
    return want, text


def draw(program, model, chains):
    drawn = set()
    for chain in chains:
        want, text = compare(program, model, SHORT, "-s", "11", "-n", "8", "--explain", *chain)
        if "sample_f32_rows_" not in text:
            sys.exit(f"{chain}: no draw by a row of CUDA\n{text}")
        drawn.add(want)
    if len(drawn) < len(chains) - 1:
        sys.exit(f"chains differ too little to tell: {drawn}")


def explain_packed(program, model):
    _, text = answer(program, model, "emu", LONG, "--explain")
    for op in ("gemm", "attn", "kv_store", "sample", "attn     attn_f16_prefill_f32_", "gemm     gemm_q8_0_split_int8_sm90a_", "gemm     gemm_q8_0_prefill_"):
        if f"\n{op}" not in "\n" + text:
            sys.exit(f"--explain does not tell of {op}:\n{text}")
    chosen = [line for line in text.splitlines() if line.startswith("gemm ")]  # lines behind them tell of other rows
    if any(line.split()[1].startswith(("gemm_q5_0", "gemm_q4_0")) for line in chosen):
        sys.exit(f"weights were not promoted:\n{text}")


def chosen_rows(text):
    return [line.split()[1] for line in text.splitlines() if line.startswith("gemm ")]


def surprise(program, model, device, *options):
    text = model / "text"
    text.write_text("abcdefgh ijklmnop " * 5)
    command = [program, "perplexity", "-m", model, "-d", device, "-w", "24", *options, text]
    done = subprocess.run(command, capture_output=True, env={**os.environ, "GA_EMU": "seed=5"}, timeout=600)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stderr.decode()}")
    return float(done.stdout.split()[1])


def compare_fp8(program, folder):
    """Codes and scales on the GPU say what bf16 says on the CPU. Of a matrix whose columns are no whole blocks bf16 is there, too."""
    for scales, ff in (("tensor", None), ("row", 320), ("block", None)):
        model = fp8_folder.build(Path(folder) / scales, "tiny", scales, ff=ff)
        _, few = compare(program, model, SHORT, "--explain")
        _, many = compare(program, model, LONG, "--explain")
        rows = chosen_rows(few) + chosen_rows(many)
        for row, wanted in (("gemm_e4m3_128_split_bf16_sm90a_", True), ("gemm_e4m3_128_prefill_sm90a_", True), ("gemm_bf16_prefill_sm90a_", bool(ff))):
            if any(r.startswith(row) for r in rows) != wanted:
                sys.exit(f"{scales}: {row} {'is not' if wanted else 'is'} there:\n{few}{many}")
        if scales == "row":
            continue
        got, want = (surprise(program, model, device) for device in ("emu", "cpu"))
        if abs(got / want - 1) > 2e-3:
            sys.exit(f"{scales}: perplexity {got} on the emulator, {want} on the CPU")


ROUNDED = ("--activations", "e4m3")


def refused(program, words, *command):
    done = subprocess.run([program, *command], capture_output=True, text=True, timeout=600)
    if done.returncode == 0 or words not in done.stderr:
        sys.exit(f"{command}: {done.returncode}, '{words}' is not in: {done.stderr}")


def answers(program, model, folder, prompts, *options):
    """Of an engine: the texts of a batch of requests."""
    requests, out = folder / "requests.jsonl", folder / "answers.jsonl"
    out.unlink(missing_ok=True)
    bodies = [{"model": model.name, "prompt": p, "max_tokens": 4, "temperature": 0, "ignore_eos": True, "logprobs": 0} for p in prompts]
    lines = [{"custom_id": str(i), "method": "POST", "url": "/v1/completions", "body": b} for i, b in enumerate(bodies)]
    requests.write_text("".join(json.dumps(line) + "\n" for line in lines))
    # The default cache takes most of a GPU's memory, which the emulator fills: 60 s of processor time in three runs.
    command = [program, "batch", "-m", model, "-d", "emu", "-c", "256", "--kv-tokens", "1024", *options, "--explain", "-o", out, requests]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "GA_EMU": "seed=5"}, timeout=600)
    if done.returncode:
        sys.exit(f"{command}: {done.returncode}\n{done.stderr}")
    got = {a["custom_id"]: a["response"]["body"]["choices"][0] for a in map(json.loads, out.read_text().splitlines())}
    return [(got[str(i)]["text"], got[str(i)]["logprobs"]["token_logprobs"]) for i in range(len(prompts))], chosen_rows(done.stderr)


def round_activations(program, folder):
    """Activations in e4m3: by the rows that are for it, only where they are asked for and there are nine tokens; other results, but not far off."""
    for scales, ff in (("block", None), ("row", 320)):
        model = fp8_folder.build(folder / scales, "tiny", scales, ff=ff)
        got, text = answer(program, model, "emu", SHORT, *ROUNDED)
        if got != answer(program, model, "emu", SHORT)[0]:
            sys.exit(f"{scales}: steps of few tokens have other results")
        _, text = answer(program, model, "emu", LONG, *ROUNDED, "--explain")
        for row, wanted in (("gemm_e4m3_128_x_e4m3_sm90a_", True), ("gemm_e4m3_128_prefill_sm90a_", False), ("gemm_bf16_prefill_sm90a_", bool(ff))):
            if any(r.startswith(row) for r in chosen_rows(text)) != wanted:
                sys.exit(f"{scales}: {row} {'is not' if wanted else 'is'} there:\n{text}")
        full, rounded = surprise(program, model, "emu"), surprise(program, model, "emu", *ROUNDED)
        if full == rounded or abs(rounded / full - 1) > 1e-2:
            sys.exit(f"{scales}: perplexity {rounded} with activations of e4m3, {full} without")
    refused(program, "activations of e4m3 need weights of e4m3", "run", "-m", model, "-d", "cpu", *ROUNDED, "-n", "1", "x")
    refused(program, "batch 1 with activations of e4m3", "run", "-m", model, "-d", "emu", *ROUNDED, "--deterministic", "-n", "1", "x")
    refused(program, "allowed are full, e4m3", "run", "-m", model, "--activations", "e5m2", "-n", "1", "x")
    prompts = [LONG, SHORT, LONG[1:] + "x", "hgfedcba" * 3]
    together, rows = answers(program, model, folder, prompts, *ROUNDED, "--deterministic")
    if "gemm_e4m3_128_x_e4m3_sm90a_128x128" not in rows or any("_few_" in r or "e4m3_128_prefill" in r for r in rows):
        sys.exit(f"a deterministic engine took {rows}")
    for prompt, want in zip(prompts[:2], together):
        if answers(program, model, folder, [prompt], *ROUNDED, "--deterministic")[0] != [want]:
            sys.exit(f"{prompt}: other bits alone than among others")


def main():
    part, program = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        if part == "fp8":
            compare_fp8(program, folder)
        elif part == "fp8_activations":
            round_activations(program, Path(folder))
        elif part in CASES:
            model = build(folder, part)
            for case in CASES[part]:
                compare(program, model, *case)
            if part == "packed":
                explain_packed(program, model)
        elif part == "chains":
            draw(program, build(folder, "tiny"), CHAINS)
        elif part == "quick":
            model = build(folder, "tiny")
            compare(program, model, SHORT)
            draw(program, model, CHAINS[1:2])
        else:
            sys.exit(f"no part {part}")
    print("tokens agree")


if __name__ == "__main__":
    main()
