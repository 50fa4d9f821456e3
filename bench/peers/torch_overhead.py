#!/usr/bin/env python3
"""What a call of gpu_accel costs from Python beside PyTorch and FlashAttention-3, in one process on one NVIDIA GPU; JSON with --json FILE.

    torch_overhead.py [--lib LIBGA.so] [--rounds 15] [--seconds 60] [--json FILE]

Tiny (bf16, B 1, S 16, H 2, D 64, causal): microseconds of the host for a call, by 60 calls that are enqueued, and waited for outside of
the clock; contenders take turns in random order.
    module        Context.attention(q, k, v, out=, stream=): tensors by DLPack
    operator      gpu_accel.torch.attention, forward; and forward with backward
    sdpa          scaled_dot_product_attention, PyTorch's choice
    fa3           FlashAttention-3's Python package (flash_attn_interface or fa3_fwd_interface), when it can be imported
In a graph: microseconds of the GPU for a call, of graphs with 50 calls; the operator beside the same kernel by Plan.run, and beside sdpa.
Long (bf16, H 16, D 128, causal, S 2048 to 16384): the operator by PyTorch's events beside libga by its C functions (--lib), in turns."""
import argparse, importlib, json, random, statistics, time

import torch
import torch.nn.functional as F

import gpu_accel as ga
import gpu_accel.torch as gt


def fa3():
    """flash_attn_func of FlashAttention-3, or None."""
    for name in ("flash_attn_interface", "fa3_fwd_interface"):
        try:
            return importlib.import_module(name).flash_attn_func
        except (ImportError, OSError) as why:
            print(f"# {name}: {why}")
    return None


def host_us(call, n=60):
    """Few enough that the GPU's queue does not fill."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(n):
        call()
    took = time.perf_counter() - start
    torch.cuda.synchronize()
    return took / n * 1e6


def in_turns(calls, rounds, time_of, until):
    """{name: times}, in random order each round; at least 3 rounds."""
    times, names = {name: [] for name in calls}, list(calls)
    for i in range(rounds):
        if i >= 3 and time.monotonic() > until:
            break
        random.shuffle(names)
        for name in names:
            times[name].append(time_of(calls[name]))
    return times


def row(times):
    q = statistics.quantiles(times, n=10, method="inclusive") if len(times) > 1 else [times[0]] * 9
    return {"median_us": statistics.median(times), "p10_us": q[0], "p90_us": q[-1], "rounds": len(times)}


def tiny(theirs):
    q, k, v = (torch.randn(1, 16, 2, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    heads = [x.transpose(1, 2) for x in (q, k, v)]
    out, context = torch.empty_like(q), ga.default_context("cuda:0")
    wanted = F.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2)

    def by_module():
        context.attention(q, k, v, causal=True, out=out, stream=torch.cuda.current_stream().cuda_stream)
        return out
    calls = {"module": by_module,
             "operator": lambda: gt.attention(q, k, v, causal=True),
             "sdpa": lambda: F.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2)}
    if theirs:
        def by_fa3():
            found = theirs(q, k, v, causal=True)
            return found[0] if isinstance(found, tuple) else found
        calls["fa3"] = by_fa3
    for name, call in calls.items():
        torch.testing.assert_close(call().float(), wanted.float(), rtol=2e-2, atol=2e-2, msg=lambda text: f"{name}: {text}")
    grads = [x.detach().clone().requires_grad_() for x in (q, k, v)]
    dout = torch.randn_like(q)

    def both(forward):
        torch.autograd.grad(forward(*grads), grads, dout)
    with_backward = {"operator": lambda: both(lambda *x: gt.attention(*x, causal=True)),
                     "sdpa": lambda: both(lambda *x: F.scaled_dot_product_attention(*(a.transpose(1, 2) for a in x), is_causal=True).transpose(1, 2))}
    return calls, with_backward


def graph_of(call, n):
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(n):
            call()
    return graph


def gpu_us(call, n):
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e3 / n


def graphs(rounds, until):
    """A call inside of a graph costs what its kernel takes."""
    q, k, v = (torch.randn(1, 16, 2, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    context, out = ga.default_context("cuda:0"), torch.empty_like(q)
    plan = context.plan("attention", q, k, v, causal=True, out=out)
    workspace = torch.empty(max(plan.workspace_bytes, 256), dtype=torch.uint8, device="cuda")
    by_plan = lambda: plan.run(q, k, v, causal=True, out=out, workspace=workspace, stream=torch.cuda.current_stream().cuda_stream)
    n, heads = 50, [x.transpose(1, 2) for x in (q, k, v)]
    made = {"operator": graph_of(lambda: gt.attention(q, k, v, causal=True), n), "plan": graph_of(by_plan, n),
            "sdpa": graph_of(lambda: F.scaled_dot_product_attention(*heads, is_causal=True), n)}
    return in_turns({name: g.replay for name, g in made.items()}, 4 * rounds, lambda call: gpu_us(call, n), until)


def long(library, rounds, until):
    """The operator's calls and the library's, back to back on the GPU."""
    from attention import Ga, Ours
    import types
    rows = []
    for s in (2048, 4096, 8192, 16384):
        q, k, v = (torch.randn(1, s, 16, 128, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        n = max(4, (16384 // s) ** 2 * 4)

        def by_operator():
            for _ in range(n):  # one result at a time: the allocator hands out the same memory
                gt.attention(q, k, v, causal=True)
        calls = {"operator": by_operator}
        times = {}
        if library:
            shape = types.SimpleNamespace(b=1, s=s, h=16, d=128, causal=True)
            c = Ours(library, library.context(""), shape, [(q, k, v)])
            torch.testing.assert_close(gt.attention(q, k, v, causal=True), c.result(), rtol=0, atol=0)

            def by_c():
                c.mark(0)
                for _ in range(n):
                    c.call(0)
                c.mark(1)
                return c.elapsed_us() / n
            torch.cuda.synchronize()
            calls["c"] = by_c
        times = in_turns(calls, rounds, lambda call: call() if call is calls.get("c") else gpu_us(call, n), until)
        rows.append({"s": s, "kernel": c.kernel if library else None} | {name: row(t) for name, t in times.items()})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lib")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--json")
    options = parser.parse_args()
    begin = time.monotonic()
    forward, backward = tiny(fa3())
    report = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
    for call in (*forward.values(), *backward.values()):
        host_us(call)
    part = lambda i: begin + options.seconds * i / 4
    report["forward"] = {name: row(t) for name, t in in_turns(forward, options.rounds, host_us, part(1)).items()}
    report["forward_backward"] = {name: row(t) for name, t in in_turns(backward, options.rounds, host_us, part(2)).items()}
    report["in_graph"] = {name: row(t) for name, t in graphs(options.rounds, part(3)).items()}
    if options.lib:
        from attention import Ga
        report["long"] = long(Ga(options.lib), options.rounds, part(4))
    else:
        report["long"] = long(None, options.rounds, part(4))
    for name in ("forward", "forward_backward", "in_graph"):
        for who, r in report[name].items():
            print(f"{name:18} {who:10} {r['median_us']:9.2f} us  ({r['p10_us']:.2f} to {r['p90_us']:.2f})")
    for r in report["long"]:
        ratio = f"  operator / c {r['operator']['median_us'] / r['c']['median_us']:.4f}" if "c" in r else ""
        print(f"S {r['s']:6} operator {r['operator']['median_us']:9.1f} us" + (f"  c {r['c']['median_us']:9.1f} us" if "c" in r else "") + ratio)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(report, file, indent=1)


if __name__ == "__main__":
    main()
