#!/usr/bin/env python3
"""Sums over the GPUs of one host: `ga dist reduce` beside NCCL through PyTorch, as one JSON file.

    all_reduce.py GA -o OUT.json [-n 2] [--bytes 4096,8192,...] [--type bf16] [--rounds 3]

In each round all sizes are timed by `ga dist reduce` (a process on each GPU), then by a process of PyTorch on each GPU,
which lives as long as the script. They never work at once. Both time graphs of 64 calls behind one more call, 20
replays, and take the median over replays of the slowest rank.

nccl         torch.distributed.all_reduce in place, in a CUDA graph
nccl + norm  the same, then residual.add_ and F.rms_norm, in one graph; rows of 4096: three kernels behind NCCL's own
ga           ga_all_reduce_run
ga norm      ga_all_reduce_norm: sum, residual and norm in one launch

NCCL runs without NVLink multicast (NCCL_NVLS_ENABLE=0), which GA does not use either. --check runs the peer's part on
CPUs with gloo and without graphs; it needs no GPU and no GA."""
import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys

import ranks

CALLS, WARM, REPLAYS, WIDTH = 64, 5, 20, 4096


# --- a rank of PyTorch ---

def import_torch():
    global torch, dist, F
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F


def calls_of(count, dtype, device, normed):
    """What is called: a sum of `count` numbers in place, or with residual and norm behind it. Zeros, so that sums of sums
    stay finite."""
    x = torch.zeros(count, dtype=dtype, device=device)
    if not normed:
        return lambda: dist.all_reduce(x)
    residual, weight = torch.zeros(count // WIDTH, WIDTH, dtype=dtype, device=device), torch.ones(WIDTH, dtype=dtype, device=device)

    def call():
        dist.all_reduce(x)
        residual.add_(x.view(-1, WIDTH))
        return F.rms_norm(residual, (WIDTH,), weight, 1e-6)
    return call


def time_graphs(call):
    """Microseconds of a call: median over replays of the slowest rank."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):  # a thread of NCCL asks for events meanwhile
        for _ in range(CALLS):
            call()
    found = []
    for i in range(WARM + REPLAYS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        dist.barrier()
        call()
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        us = torch.tensor([begin.elapsed_time(end) * 1e3 / CALLS], device="cuda")
        dist.all_reduce(us, op=dist.ReduceOp.MAX)
        found += [us.item()] * (i >= WARM)
    return statistics.median(found)


def time_sizes(sizes, dtype):
    found = []
    for size in sizes:
        count, row = size // torch.empty(0, dtype=dtype).element_size(), {}
        for name, normed in (("nccl", False), ("nccl + norm", True)):
            if normed and count % WIDTH:
                continue
            try:
                row[name] = time_graphs(calls_of(count, dtype, "cuda", normed))
            except Exception as error:  # a peer that cannot is named, and the others go on
                row[name] = repr(error)[:300]
        found.append(row)
    return found


def live_as_rank():
    """Sizes and a type come as lines on rank 0's standard input; a line of JSON answers each."""
    import_torch()
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    if rank == 0:
        print(json.dumps({"torch": torch.__version__, "nccl": ".".join(map(str, torch.cuda.nccl.version())),
                          "gpu": torch.cuda.get_device_name(0)}), flush=True)
    orders = dist.new_group(backend="gloo")
    while True:
        torch.cuda.synchronize()
        order = ranks.next_order(dist, orders)
        if order is None:
            break
        found = time_sizes(order[0], getattr(torch, order[1]))
        if rank == 0:
            print(json.dumps(found), flush=True)
    dist.destroy_process_group()


def check_as_rank():
    import_torch()
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for normed in (False, True):
        calls_of(2 * WIDTH, torch.float32, "cpu", normed)()
    x = torch.full((8,), float(rank + 1))
    dist.all_reduce(x)
    assert x[0].item() == ranks * (ranks + 1) / 2
    if rank == 0:
        print(f"{ranks} ranks: sums, residual and norm run")
    dist.destroy_process_group()


# --- the script ---

def time_ga(args, sizes):
    command = [args.ga, "dist", "reduce", "-n", str(args.ranks), "--transport", args.transport, "--type", args.type, "--device",
               ",".join(f"cuda:{i}" for i in range(args.ranks)), "--bytes", ",".join(map(str, sizes)), "--timeout", "20", "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed with {done.returncode}: {done.stderr[-800:]}")
    return [{name: row[key] for name, key in (("ga", "us"), ("ga norm", "us_norm")) if row[key] is not None}
            for row in json.loads(done.stdout)["rows"]]


def table_of(sizes, found):
    rows = []
    for i, size in enumerate(sizes):
        row = {"bytes": size, "us": {}}
        for name in sorted({name for r in found for name in r[i]}):
            all_us = [r[i].get(name) for r in found]
            good = all(isinstance(us, float) for us in all_us)
            row["us"][name] = {"median": round(statistics.median(all_us), 3), "all": [round(x, 3) for x in all_us]} if good else \
                {"error": next(str(us) for us in all_us if not isinstance(us, float))}
        rows.append(row)
    return rows


def main():
    if sys.argv[1:] in (["--rank"], ["--check-rank"]):
        return live_as_rank() if sys.argv[1] == "--rank" else check_as_rank()
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("ga", nargs="?", help="the program")
    p.add_argument("-o", "--out", help="JSON file")
    p.add_argument("-n", "--ranks", type=int, default=2)
    p.add_argument("--bytes", default="4096,8192,16384,32768,65536,131072,262144,1048576,4194304")
    p.add_argument("--type", default="bf16", choices=["bf16", "f16", "f32"])
    p.add_argument("--transport", default="processes", choices=["processes", "threads"])
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--check", action="store_true")
    args = p.parse_args()
    if args.check:
        started = ranks.start_ranks(__file__, args.ranks, "--check-rank")
        print(started[0].stdout.read(), end="")
        raise SystemExit(max(abs(rank.wait()) for rank in started))
    if not args.ga or not args.out:
        p.error("GA and -o are needed")
    sizes = [int(text) for text in args.bytes.split(",")]
    name = {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}[args.type]
    started = ranks.start_ranks(__file__, args.ranks, "--rank")
    about, found = json.loads(started[0].stdout.readline()), []
    for number in range(args.rounds):
        rows = time_ga(args, sizes)
        print(json.dumps([sizes, name]), file=started[0].stdin, flush=True)
        for row, peer in zip(rows, json.loads(started[0].stdout.readline())):
            row.update(peer)
        found.append(rows)
        for size, row in zip(sizes, rows):
            print(f"round {number + 1} of {args.rounds}, {size} bytes: {row}", file=sys.stderr, flush=True)
    started[0].stdin.close()
    for rank in started:
        rank.wait()
    result = {"date": datetime.date.today().isoformat(), "ranks": args.ranks, "type": args.type, "transport": args.transport, **about,
              "calls": CALLS, "replays": REPLAYS, "norm_width": WIDTH, "rounds": args.rounds, "rows": table_of(sizes, found)}
    with open(args.out, "w") as f:
        json.dump(result, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
