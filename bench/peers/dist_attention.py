#!/usr/bin/env python3
"""Attention over several GPUs of one host: `ga dist bench` beside PyTorch's context parallel, and beside yunchang,
ring-flash-attn and schedules of this file over FlashAttention-3, as one JSON file.

    dist_attention.py GA -o OUT.json [-n 2] [--shapes 8192:32/8,65536:16/16] [--head-dim 128] [--rounds 3] [--backward]

A shape is tokens of one GPU : heads of queries / of keys. In each round a shape is timed by all: `ga dist bench` (two
processes, its own rounds), then by a process of PyTorch on each GPU, which lives as long as the script. They never work
at once. Causal, bf16, random normal data, one sequence of ranks x tokens.

torch cp    torch.distributed.tensor.experimental.context_parallel over cuDNN, keys alltoall and allgather
zigzag fa3  this file's schedule: rank r has chunks r and 2n - 1 - r, keys go round by NCCL, results merge by LSE
ulysses fa3 this file's schedule: heads for tokens by an all-to-all, attention, and back
yunchang    the package: Ulysses, and USP of its other degrees with zigzag rings. Forward
ring-flash-attn  the package: its zigzag. Forward
one GPU fa3 one GPU that has all tokens: what "of one" of the peers is measured with

FlashAttention-3 is the package fa3-fwd (forward alone), which yunchang and ring-flash-attn call by
flash_attn_stand_in.py. Peers that are missing are named in the JSON. --check compares the schedules and those packages
with PyTorch's attention over all tokens, on CPUs with gloo; it needs no GPU and no GA."""
import argparse
import datetime
import functools
import json
import os
import statistics
import subprocess
import sys
import types

import flash_attn_stand_in
import ranks

METHODS = "llama3,zigzag,zigzag-direct,ulysses,ring"


# --- a rank of PyTorch ---

def import_torch():
    global torch, dist, F
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F


def plain_attention(q, k, v, causal):
    """[1, tokens, heads, dim] -> O and LSE [1, heads, tokens], in f32. A causal mask ends at the last key."""
    k, v = (x.repeat_interleave(q.shape[2] // x.shape[2], 2) for x in (k, v))
    logits = torch.einsum("bqhd,bkhd->bhqk", q.float(), k.float()) * q.shape[-1] ** -0.5
    if causal:
        logits = logits + torch.full(logits.shape[-2:], float("-inf")).triu(1 + k.shape[1] - q.shape[1])
    lse = logits.logsumexp(-1)
    return torch.einsum("bhqk,bkhd->bqhd", (logits - lse[..., None]).exp(), v.float()).to(q.dtype), lse


def fa3_attention():
    from fa3_fwd_interface import _flash_attn_forward

    def run(q, k, v, causal):
        found = _flash_attn_forward(q, k, v, softmax_scale=q.shape[-1] ** -0.5, causal=causal)
        return found[0], found[1]
    return run


def chunks_of(x, rank, ranks):
    """The rows of a rank of zigzag: chunks rank and 2 ranks - 1 - rank of 2 ranks, along dimension 1."""
    parts = x.chunk(2 * ranks, 1)
    return torch.cat([parts[rank], parts[2 * ranks - 1 - rank]], 1).contiguous()


class Zigzag:
    """Step s has the keys of rank r - s: own ones causal; of an earlier rank its first chunk for all queries; of a later
    one all for the second chunk of queries."""

    def __init__(self, attention, q, k, v):
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.attention = attention
        self.q, k, v = (chunks_of(x, self.rank, self.ranks) for x in (q, k, v))
        self.own = torch.stack([k, v])
        self.slots = [torch.empty_like(self.own) for _ in range(2)]

    def exchange(self, step, kv):
        other = self.slots[step % 2]
        ops = [dist.P2POp(dist.isend, kv, (self.rank + 1) % self.ranks), dist.P2POp(dist.irecv, other, (self.rank - 1) % self.ranks)]
        return other, dist.batch_isend_irecv(ops)

    def run(self):
        half, kv, out, lse = self.q.shape[1] // 2, self.own, None, None
        for step in range(self.ranks):
            following, under_way = self.exchange(step, kv) if step + 1 < self.ranks else (None, [])
            if step == 0:
                out, lse = self.attention(self.q, kv[0], kv[1], True)
                out, lse = out.float(), lse.float().transpose(1, 2)[..., None]
            elif step <= self.rank:
                self.merge(out, lse, *self.attention(self.q, kv[0][:, :half], kv[1][:, :half], False))
            else:
                self.merge(out[:, half:], lse[:, half:], *self.attention(self.q[:, half:], kv[0], kv[1], False))
            for work in under_way:
                work.wait()
            kv = following
        return out.to(self.q.dtype)

    @staticmethod
    def merge(out, lse, more, more_lse):
        more_lse = more_lse.float().transpose(1, 2)[..., None]
        both = torch.logaddexp(lse, more_lse)
        out.mul_((lse - both).exp()).add_(more.float() * (more_lse - both).exp())
        lse.copy_(both)


class Ulysses:
    """Rank r has the r-th of equal stretches of tokens, and computes the r-th group of heads. Keys of fewer heads than
    ranks are not its case."""

    def __init__(self, attention, q, k, v):
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.attention = attention
        self.rows = [x.chunk(self.ranks, 1)[self.rank].contiguous() for x in (q, k, v)]

    def to_heads(self, x):
        b, tokens, heads, dim = x.shape
        send = x.reshape(tokens, self.ranks, heads // self.ranks, dim).transpose(0, 1).contiguous()
        got = torch.empty_like(send)
        dist.all_to_all_single(got, send)
        return got.reshape(b, tokens * self.ranks, heads // self.ranks, dim)

    def run(self):
        out, _ = self.attention(*(self.to_heads(x) for x in self.rows), True)
        _, tokens, heads, dim = out.shape
        send = out.reshape(self.ranks, tokens // self.ranks, heads, dim).contiguous()
        got = torch.empty_like(send)
        dist.all_to_all_single(got, send)
        return got.transpose(0, 1).reshape(1, tokens // self.ranks, heads * self.ranks, dim)


def yunchang_layers(attention, rank, ranks):
    """{name: (attention of this rank's rows, how to take them from all rows)}, for each degree of Ulysses; the rest of USP
    is a zigzag ring. LongContextAttention would turn O to f32 and back where there is no ring."""
    flash_attn_stand_in.install(attention)
    import yunchang
    from yunchang.globals import PROCESS_GROUP
    from yunchang.kernels import AttnType
    layers = {}
    for heads in (d for d in range(1, ranks + 1) if ranks % d == 0):
        yunchang.set_seq_parallel_pg(heads, ranks // heads, rank, ranks)
        if heads == ranks:
            layer, name = yunchang.UlyssesAttention(PROCESS_GROUP.ULYSSES_PG, attn_type=AttnType.FA), "yunchang ulysses"
            take = functools.partial(yunchang.EXTRACT_FUNC_DICT["basic"], rank=rank, world_size=ranks)
        else:
            layer = yunchang.LongContextAttention(ring_impl_type="zigzag", attn_type=AttnType.FA)
            name, at = f"yunchang usp {heads} x {ranks // heads}", (dist.get_rank(PROCESS_GROUP.RING_PG), dist.get_rank(PROCESS_GROUP.ULYSSES_PG))
            take = functools.partial(rows_of_usp, at=at, ring=ranks // heads, heads=heads)
        layers[name] = (functools.partial(layer, causal=True), take, heads)
    return layers


def rows_of_usp(x, at, ring, heads):
    """yunchang's own function reads the groups that were set last."""
    return chunks_of(x, at[0], ring).chunk(heads, 1)[at[1]].contiguous()


def ring_flash_attn_layers(attention, rank, ranks):
    flash_attn_stand_in.install(attention)
    adapters = types.ModuleType("ring_flash_attn.adapters")  # not needed here; they want some version of transformers
    adapters.substitute_hf_flash_attn = adapters.update_ring_flash_attn_params = None
    sys.modules.setdefault(adapters.__name__, adapters)
    import ring_flash_attn
    return {"ring-flash-attn zigzag": (functools.partial(ring_flash_attn.zigzag_ring_flash_attn_func, causal=True),
                                       functools.partial(chunks_of, rank=rank, ranks=ranks), 1)}


def packages(attention):
    """All layers, and what is missing."""
    layers, missing = {}, {}
    for name, make in (("yunchang", yunchang_layers), ("ring-flash-attn", ring_flash_attn_layers)):
        try:
            layers.update(make(attention, dist.get_rank(), dist.get_world_size()))
        except Exception as error:
            missing[name] = repr(error)[:300]
    return layers, missing


def context_parallel(mesh, rotate, q, k, v, backward):
    """What to time, within PyTorch's own context; keys are repeated, since it takes equal heads."""
    from torch.distributed.tensor.experimental import context_parallel as cp
    from torch.distributed.tensor.experimental._attention import set_rotate_method
    from torch.nn.attention import SDPBackend, sdpa_kernel
    set_rotate_method(rotate)
    k, v = (x.repeat_interleave(q.shape[2] // x.shape[2], 2) for x in (k, v))
    rows = [x.transpose(1, 2).contiguous() for x in (q, k, v)]

    def timed(timer):
        with cp(mesh, buffers=tuple(rows), buffer_seq_dims=(2, 2, 2)), sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            if not backward:
                return timer(lambda: F.scaled_dot_product_attention(*rows, is_causal=True))
            leaves = [x.detach().requires_grad_() for x in rows]
            gradient = torch.randn_like(rows[0])
            return timer(lambda: torch.autograd.grad(F.scaled_dot_product_attention(*leaves, is_causal=True), leaves, gradient))
    return timed


def time_on_gpus(run, runs=5):
    """Milliseconds, median over runs of the slower rank. A run that is not timed precedes each timed one: the host is ahead
    then, ranks start together, and the GPUs are at their power limit, as in the runs of `ga dist bench`, which follow each other."""
    found = []
    for i in range(runs + 1):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        run()
        dist.all_reduce(torch.ones(1, device="cuda"))
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        ms = torch.tensor([begin.elapsed_time(end)], device="cuda")
        dist.all_reduce(ms, op=dist.ReduceOp.MAX)
        found += [ms.item()] * (i > 0)
    return statistics.median(found)


def time_peers(mesh, fa3, layers, shape, dim, backward):
    tokens, heads, kv_heads = shape
    ranks = dist.get_world_size()
    torch.manual_seed(1)
    q, k, v = (torch.randn(1, tokens * ranks, h, dim, device="cuda", dtype=torch.bfloat16) for h in (heads, kv_heads, kv_heads))
    found = {}

    def note(name, run):
        try:
            found[name] = run()
        except Exception as error:  # a peer that cannot is named, and the others go on
            found[name] = repr(error)[:300]
        torch.cuda.empty_cache()

    for rotate in ("alltoall", "allgather"):
        note(f"torch cp {rotate}", lambda: context_parallel(mesh, rotate, q, k, v, backward)(time_on_gpus))
    if fa3 and not backward:
        note("zigzag fa3", lambda: time_on_gpus(Zigzag(fa3, q, k, v).run))
        if kv_heads % ranks == 0:
            note("ulysses fa3", lambda: time_on_gpus(Ulysses(fa3, q, k, v).run))
        for name, (layer, take, heads_ways) in layers.items():
            if kv_heads % heads_ways == 0:
                note(name, lambda: time_on_gpus(functools.partial(layer, *map(take, (q, k, v)))))
        note("one GPU fa3", lambda: time_on_gpus(lambda: fa3(q, k, v, True), 3))
    return found


def live_as_rank():
    """Shapes come as lines on rank 0's standard input; a line of JSON answers each."""
    import_torch()
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    from torch.distributed.device_mesh import init_device_mesh
    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    orders = dist.new_group(backend="gloo")
    try:
        fa3 = fa3_attention()
        layers, missing = packages(fa3)
    except Exception as error:
        fa3, layers, missing = None, {}, {"fa3": repr(error)[:300]}
    if rank == 0:
        print(json.dumps({"torch": torch.__version__, "nccl": ".".join(map(str, torch.cuda.nccl.version())), "missing": missing}), flush=True)
    while True:
        torch.cuda.synchronize()
        order = ranks.next_order(dist, orders)
        if order is None:
            break
        found = time_peers(mesh, fa3, layers, *order)
        if rank == 0:
            print(json.dumps(found), flush=True)
    dist.destroy_process_group()


def check_as_rank():
    import_torch()
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    q, k, v = (torch.randn(1, 24 * ranks, h, 16) for h in (2 * ranks, ranks, ranks))
    whole, _ = plain_attention(q, k, v, True)
    torch.testing.assert_close(Zigzag(plain_attention, q, k, v).run(), chunks_of(whole, rank, ranks), rtol=0, atol=1e-5)
    torch.testing.assert_close(Ulysses(plain_attention, q, k, v).run(), whole.chunk(ranks, 1)[rank], rtol=0, atol=1e-5)
    layers, missing = packages(plain_attention)
    for name, (layer, take, _) in layers.items():
        out = layer(*map(take, (q, k, v)))
        torch.testing.assert_close(out[0] if isinstance(out, tuple) else out, take(whole), rtol=0, atol=1e-5, msg=lambda text: f"{name}: {text}")
    if rank == 0:
        print(f"packages that agree: {', '.join(layers)}; missing: {missing}")
        print(f"{ranks} ranks: zigzag and ulysses agree with attention over all tokens")
    dist.destroy_process_group()


# --- the script ---

def time_ga(args, shape):
    tokens, heads, kv_heads = shape
    command = [args.ga, "dist", "bench", "-n", str(args.ranks), "-m", args.methods, "--transport", "processes", "--type", "bf16",
               "--device", ",".join(f"cuda:{i}" for i in range(args.ranks)), "--tokens", str(tokens * args.ranks), "--heads", str(heads),
               "--kv-heads", str(kv_heads), "--head-dim", str(args.head_dim), "--runs", str(args.runs), "--timeout", "60", "--json"]
    done = subprocess.run(command + ["--backward", "--unordered"] * args.backward, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed with {done.returncode}: {done.stderr[-800:]}")
    return {f"ga {row['method']}": row["seconds"] * 1e3 for row in json.loads(done.stdout)["rows"]}


def read_shape(text):
    tokens, _, heads = text.partition(":")
    heads, _, kv_heads = heads.partition("/")
    return [int(tokens), int(heads), int(kv_heads or heads)]


def table_of(args, shapes, found):
    rows = []
    for i, (tokens, heads, kv_heads) in enumerate(shapes):
        n = tokens * args.ranks
        forward = 2 * n * n * heads * args.head_dim
        row = {"tokens_a_gpu": tokens, "heads": heads, "kv_heads": kv_heads, "contenders": {}}
        for name in sorted({name for r in found for name in r[i]}):
            all_ms = [r[i].get(name) for r in found]
            if not all(isinstance(ms, float) for ms in all_ms):
                row["contenders"][name] = {"error": next(str(ms) for ms in all_ms if not isinstance(ms, float))}
                continue
            ms, one = statistics.median(all_ms), "one" in name
            flops = forward * (1 if not args.backward else 2.5 if name.startswith("ga ") else 3.5)
            row["contenders"][name] = {"ms": round(ms, 4), "all_ms": [round(x, 4) for x in all_ms],
                                       "tflops_a_gpu": round(flops / ms * 1e-9 / (1 if one else args.ranks), 1)}
        rows.append(row)
    return rows


def main():
    if sys.argv[1:] in (["--rank"], ["--check-rank"]):
        return live_as_rank() if sys.argv[1] == "--rank" else check_as_rank()
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("ga", nargs="?", help="the program")
    p.add_argument("-o", "--out", help="JSON file")
    p.add_argument("-n", "--ranks", type=int, default=2)
    p.add_argument("--shapes", default="8192:16/16,8192:32/8,16384:16/16,16384:32/8,65536:16/16,65536:32/8")
    p.add_argument("--head-dim", type=int, default=128)
    p.add_argument("--methods", default=METHODS)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--runs", type=int, default=5, help="of GA in a round")
    p.add_argument("--backward", action="store_true", help="gradients alone for GA, sums in any order; forward and backward for PyTorch")
    p.add_argument("--check", action="store_true")
    args = p.parse_args()
    if args.check:
        started = ranks.start_ranks(__file__, args.ranks, "--check-rank")
        print(started[0].stdout.read(), end="")
        raise SystemExit(max(abs(rank.wait()) for rank in started))
    if not args.ga or not args.out:
        p.error("GA and -o are needed")
    shapes = [read_shape(text) for text in args.shapes.split(",")]
    started = ranks.start_ranks(__file__, args.ranks, "--rank")
    about, found = json.loads(started[0].stdout.readline()), []
    for number in range(args.rounds):
        found.append([])
        for shape in shapes:
            row = time_ga(args, shape)
            print(json.dumps([shape, args.head_dim, args.backward]), file=started[0].stdin, flush=True)
            row.update(json.loads(started[0].stdout.readline()))
            found[-1].append(row)
            print(f"round {number + 1} of {args.rounds}, {shape}: {row}", file=sys.stderr, flush=True)
    started[0].stdin.close()
    for rank in started:
        rank.wait()
    result = {"date": datetime.date.today().isoformat(), "ranks": args.ranks, "head_dim": args.head_dim, "backward": args.backward, **about,
              "rounds": args.rounds, "rows": table_of(args, shapes, found)}
    with open(args.out, "w") as f:
        json.dump(result, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
