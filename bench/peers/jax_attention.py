#!/usr/bin/env python3
"""gpu_accel.jax.attention beside jax.nn.dot_product_attention(implementation='cudnn') on one NVIDIA GPU, in one process.

    jax_attention.py [--rounds 12] [--seconds 60] [--json FILE]

Six shapes, bf16, [batch, tokens, heads, dim]: forward, and forward with backward. A timed program is one jit with several calls in a row,
each on the result of the one before (jax.lax.scan), so that the host's part of a call is not in it. Contenders take turns in random order;
microseconds a call: median, 10th and 90th percentile. Results are compared first. The last lines are geometric means of cuDNN's time over ours."""
import argparse, json, math, os, random, statistics, time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
import jax
import jax.numpy as jnp

import gpu_accel.jax as gj

# batch, tokens, heads, kv_heads, dim, causal
SHAPES = ((8, 2048, 16, 16, 128, True), (2, 8192, 16, 16, 128, True), (2, 8192, 16, 16, 128, False), (8, 2048, 32, 8, 64, True),
          (2, 8192, 32, 8, 64, True), (1, 16384, 32, 8, 128, True))


def ours(causal):
    return lambda q, k, v: gj.attention(q, k, v, causal=causal)


def cudnn(causal):
    return lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=causal, implementation="cudnn")


def forward(attend, n):
    return jax.jit(lambda q, k, v: jax.lax.scan(lambda x, _: (attend(x, k, v), None), q, None, length=n)[0])


def backward(attend, n):
    grad = jax.grad(lambda *x: attend(*x).astype(jnp.float32).mean(), (0, 1, 2))

    def one(x, _):
        dq, dk, dv = grad(*x)
        return (x[0] + dq, x[1] + dk, x[2] + dv), None
    return jax.jit(lambda q, k, v: jax.lax.scan(one, (q, k, v), None, length=n)[0])


def us(program, inputs, n):
    start = time.perf_counter()
    jax.block_until_ready(program(*inputs))
    return (time.perf_counter() - start) / n * 1e6


def compare(causal, inputs):
    """Largest relative difference (Frobenius) of o, dq, dk, dv."""
    @jax.jit
    def apart(*inputs):
        seen = []
        for attend in (ours(causal), cudnn(causal)):
            o, back = jax.vjp(attend, *inputs)
            seen.append((o, *back(jnp.cos(jnp.arange(o.size)).reshape(o.shape).astype(o.dtype))))
        norm = lambda x: jnp.sqrt(jnp.square(x.astype(jnp.float32)).sum())
        return [norm(a.astype(jnp.float32) - b.astype(jnp.float32)) / norm(b) for a, b in zip(*seen)]
    off = [float(x) for x in apart(*inputs)]
    if not max(off) < 2e-2:
        raise RuntimeError(f"results are {off} apart")
    return off


def one_shape(shape, rounds, until):
    batch, n, heads, kv_heads, dim, causal = shape
    keys = jax.random.split(jax.random.key(0), 3)
    inputs = [jax.random.normal(key, (batch, n, h, dim), jnp.bfloat16) for key, h in zip(keys, (heads, kv_heads, kv_heads))]
    made = {"shape": shape, "apart": compare(causal, inputs)}
    calls = max(4, int(4e12 / (4 * batch * heads * n * n * dim)) * 2)
    for what, program in (("forward", forward), ("forward_backward", backward)):
        programs = {"gpu_accel": program(ours(causal), calls), "cudnn": program(cudnn(causal), calls)}
        for p in programs.values():
            for _ in range(2):
                jax.block_until_ready(p(*inputs))
        times, names = {name: [] for name in programs}, list(programs)
        for i in range(rounds):
            if i >= 4 and time.monotonic() > until:
                break
            random.shuffle(names)
            for name in names:
                times[name].append(us(programs[name], inputs, calls))
        q = {name: statistics.quantiles(t, n=10, method="inclusive") for name, t in times.items()}
        made[what] = {name: {"median_us": statistics.median(t), "p10_us": q[name][0], "p90_us": q[name][-1], "rounds": len(t)} for name, t in times.items()}
        made[what]["ratio"] = made[what]["cudnn"]["median_us"] / made[what]["gpu_accel"]["median_us"]
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--json")
    options = parser.parse_args()
    begin, rows = time.monotonic(), []
    for i, shape in enumerate(SHAPES):
        rows.append(one_shape(shape, options.rounds, begin + options.seconds * (i + 1) / len(SHAPES)))
        r = rows[-1]
        print(f"{str(shape):40} " + "  ".join(f"{what}: ours {r[what]['gpu_accel']['median_us']:.0f} us, cudnn {r[what]['cudnn']['median_us']:.0f} us, "
                                             f"ratio {r[what]['ratio']:.3f}" for what in ("forward", "forward_backward")), flush=True)
        report = {"gpu": jax.devices()[0].device_kind, "jax": jax.__version__, "rows": rows}
        for what in ("forward", "forward_backward"):
            report[f"{what}_mean"] = math.exp(statistics.fmean(math.log(r[what]["ratio"]) for r in rows))
        if options.json:  # after each shape: a run that is ended leaves what it has
            with open(options.json, "w") as file:
                json.dump(report, file, indent=1)
    for what in ("forward", "forward_backward"):
        print(f"{what}: geometric mean of cudnn / ours {report[f'{what}_mean']:.4f} over {len(rows)} shapes")


if __name__ == "__main__":
    main()
