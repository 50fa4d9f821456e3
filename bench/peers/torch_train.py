#!/usr/bin/env python3
"""A training step of a transformer of the shapes of a 1B model, with gpu_accel's attention beside PyTorch's, on one NVIDIA GPU.

    torch_train.py [--layers 4] [--lengths 2048,8192] [--steps 12] [--seconds 60] [--json FILE]

Random weights and tokens, bf16: width 2048, 32 heads of 64 with 8 of keys and values, hidden width 8192, 16384 tokens a step. A step is
forward, backward and SGD. Contenders: gpu_accel.torch.attention, and scaled_dot_product_attention with the cuDNN and the FlashAttention-2
backend alone; they take turns in random order. Their first losses and gradients must agree. Milliseconds a step: median, 10th and 90th
percentile; the ratio is that of the faster of PyTorch's to ours."""
import argparse, json, random, statistics, time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import gpu_accel.torch as gt

WIDTH, HEADS, KV_HEADS, DIM, HIDDEN, VOCAB, TOKENS = 2048, 32, 8, 64, 8192, 32000, 16384


def ours(q, k, v):
    return gt.attention(q, k, v, causal=True)


def by_backend(backend):
    def attend(q, k, v):
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)), is_causal=True, enable_gqa=True).transpose(1, 2)
    return attend


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        linear = lambda n, m: nn.Linear(n, m, bias=False)
        self.norm, self.norm2 = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.qkv, self.out = linear(WIDTH, (HEADS + 2 * KV_HEADS) * DIM), linear(HEADS * DIM, WIDTH)
        self.gate_up, self.down = linear(WIDTH, 2 * HIDDEN), linear(HIDDEN, WIDTH)

    def forward(self, x, turn, attend):
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (-1, DIM)).split((HEADS, KV_HEADS, KV_HEADS), 2)
        q, k = (rotate(a, turn) for a in (q, k))
        x = x + self.out(attend(q, k, v).flatten(2))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


def rotate(x, turn):
    cos, sin = turn
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Model(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.embed, self.norm, self.head = nn.Embedding(VOCAB, WIDTH), nn.RMSNorm(WIDTH), nn.Linear(WIDTH, VOCAB, bias=False)
        self.layers = nn.ModuleList(Layer() for _ in range(layers))

    def forward(self, tokens, attend):
        at = torch.arange(tokens.shape[1], device=tokens.device)[:, None] * 10000 ** (-torch.arange(DIM // 2, device=tokens.device) / (DIM // 2))
        turn = [f(at).bfloat16()[:, None] for f in (torch.cos, torch.sin)]
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, turn, attend)
        return F.cross_entropy(self.head(self.norm(x))[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())


def step(model, optimizer, tokens, attend):
    loss = model(tokens, attend)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss


def timed(call):
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


def first_results(model, tokens, attend):
    loss = model(tokens, attend)
    loss.backward()
    grad = model.layers[0].qkv.weight.grad.float().clone()
    model.zero_grad(set_to_none=True)
    return loss.item(), grad


def contenders(model, tokens):
    """Those that can do it, with equal results: {name: attention}."""
    found, first = {}, None
    for name, attend in (("gpu_accel", ours), ("cudnn", by_backend(SDPBackend.CUDNN_ATTENTION)), ("fa2", by_backend(SDPBackend.FLASH_ATTENTION))):
        try:
            loss, grad = first_results(model, tokens, attend)
        except RuntimeError as why:
            if name == "gpu_accel":
                raise
            print(f"# {name}: {why}")
            model.zero_grad(set_to_none=True)
            continue
        first = first or (loss, grad)
        off = ((grad - first[1]).norm() / first[1].norm()).item()
        if abs(loss - first[0]) > 2e-2 or off > 5e-2:
            raise RuntimeError(f"{name}: loss {loss}, gpu_accel {first[0]}; gradients {off:.3g} apart")
        print(f"# {name}: loss {loss:.5f}, gradient of the first layer {off:.3g} away from gpu_accel's")
        found[name] = attend
    return found


def one_length(n, layers, steps, until):
    torch.manual_seed(1)
    with torch.device("cuda"):
        model = Model(layers).bfloat16()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    tokens = torch.randint(VOCAB, (TOKENS // n, n), device="cuda")
    attends = contenders(model, tokens)
    for attend in attends.values():
        step(model, optimizer, tokens, attend)
    times, names = {name: [] for name in attends}, list(attends)
    for i in range(steps):
        if i >= 4 and time.monotonic() > until:
            break
        random.shuffle(names)
        for name in names:
            times[name].append(timed(lambda: step(model, optimizer, tokens, attends[name])))
    q = {name: statistics.quantiles(t, n=10, method="inclusive") for name, t in times.items()}
    made = {"length": n, "layers": layers, "ms": {name: {"median": statistics.median(t), "p10": q[name][0], "p90": q[name][-1], "steps": len(t)} for name, t in times.items()}}
    rivals = [r["median"] for name, r in made["ms"].items() if name != "gpu_accel"]
    made["ratio"] = min(rivals) / made["ms"]["gpu_accel"]["median"] if rivals else None
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--lengths", default="2048,8192")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--json")
    options = parser.parse_args()
    lengths, begin = [int(n) for n in options.lengths.split(",")], time.monotonic()
    report = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": []}
    for i, n in enumerate(lengths):
        report["rows"].append(one_length(n, options.layers, options.steps, begin + options.seconds * (i + 1) / len(lengths)))
        torch.cuda.empty_cache()
    for r in report["rows"]:
        for name, ms in r["ms"].items():
            print(f"S {r['length']:6} {name:10} {ms['median']:9.2f} ms  ({ms['p10']:.2f} to {ms['p90']:.2f}, {ms['steps']} steps)")
        print(f"S {r['length']:6} the best of PyTorch's / gpu_accel: {r['ratio']:.4f}" if r["ratio"] else f"S {r['length']:6} no rival could run")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(report, file, indent=1)


if __name__ == "__main__":
    main()
