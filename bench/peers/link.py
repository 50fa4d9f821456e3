#!/usr/bin/env python3
"""Two GPUs of one host: what copies between them reach by the copy engine, which `ga dist` uses, and by NCCL, and what each
costs an attention kernel that runs beside. One JSON file.

    link.py -o OUT.json [--runs 20]

GB/s of one GPU while both send, median over runs of the slower GPU: copy engine by Tensor.copy_ between devices in one
process, NCCL by send and receive of two processes. Attention: 16 heads of 128, 8192 tokens, causal, bf16, on GPU 0 alone,
and while 256 MB go both ways all along."""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys

SIZES = [2**n for n in range(16, 29, 2)]  # 64 KB to 256 MB


def import_torch():
    global torch, dist, F
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F


class CopyEngine:
    """Both GPUs push, each on a stream of its own."""

    def __init__(self, size):
        self.pairs = [(torch.zeros(size, dtype=torch.uint8, device=i), torch.zeros(size, dtype=torch.uint8, device=1 - i)) for i in range(2)]
        self.streams = [torch.cuda.Stream(i) for i in range(2)]

    def start(self):
        for (source, target), stream in zip(self.pairs, self.streams):
            with torch.cuda.stream(stream):
                target.copy_(source, non_blocking=True)

    def time(self, times):
        begin, end = ([torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(2))
        for i, stream in enumerate(self.streams):
            with torch.cuda.device(i), torch.cuda.stream(stream):
                torch.cuda._sleep(2_000_000)
                begin[i].record()
        for _ in range(times):
            self.start()
        for i, stream in enumerate(self.streams):
            with torch.cuda.device(i), torch.cuda.stream(stream):
                end[i].record()
        for i in range(2):
            torch.cuda.synchronize(i)
        return max(b.elapsed_time(e) for b, e in zip(begin, end)) / times


class Nccl:
    def __init__(self, size):
        self.stream = torch.cuda.Stream()
        self.send, self.got = (torch.zeros(size, dtype=torch.uint8, device="cuda") for _ in range(2))

    def start(self):
        other = 1 - dist.get_rank()
        with torch.cuda.stream(self.stream):
            for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, self.send, other), dist.P2POp(dist.irecv, self.got, other)]):
                work.wait()

    def time(self, times):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.cuda.stream(self.stream):
            torch.cuda._sleep(2_000_000)
            begin.record()
        for _ in range(times):
            self.start()
        with torch.cuda.stream(self.stream):
            end.record()
        torch.cuda.synchronize()
        ms = torch.tensor([begin.elapsed_time(end) / times], device="cuda")
        dist.all_reduce(ms, op=dist.ReduceOp.MAX)
        return ms.item()


def rates(kind, runs):
    found = {}
    for size in SIZES:
        copies, times = kind(size), max(2, min(50, 2**29 // size))
        copies.time(times)
        found[str(size)] = round(size / statistics.median(copies.time(times) for _ in range(runs)) * 1e-6, 1)
    return found


def attention_beside(copies, runs):
    """Milliseconds of a kernel; copies is what runs all along, or None."""
    q, k, v = (torch.randn(1, 16, 8192, 128, device="cuda:0", dtype=torch.bfloat16) for _ in range(3))
    found = []
    for run in range(runs + 2):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for _ in range(6 if copies else 0):
            copies.start()
        torch.cuda._sleep(1_000_000)
        begin.record()
        F.scaled_dot_product_attention(q, k, v, is_causal=True)
        end.record()
        torch.cuda.synchronize()
        found += [begin.elapsed_time(end)] * (run > 1)
    return round(statistics.median(found), 4)


def live_as_rank(runs):
    import_torch()
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    found = {"torch": torch.__version__, "nccl": ".".join(map(str, torch.cuda.nccl.version())), "gpu": torch.cuda.get_device_name()}
    found["nccl_gb_s"] = rates(Nccl, runs)
    copies = Nccl(SIZES[-1])
    if rank == 1:  # the other side of what runs beside
        for _ in range(runs + 2):
            for _ in range(6):
                copies.start()
            torch.cuda.synchronize()
    beside_nccl = attention_beside(copies, runs) if rank == 0 else None
    torch.cuda.synchronize()
    dist.barrier()
    if rank == 0:
        found["copy_engine_gb_s"] = rates(CopyEngine, runs)
        found["attention_ms"] = {"alone": attention_beside(None, runs), "beside copy engine": attention_beside(CopyEngine(SIZES[-1]), runs),
                                 "beside nccl": beside_nccl}
        print(json.dumps(found), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def main():
    if sys.argv[1:2] == ["--rank"]:
        return live_as_rank(int(sys.argv[2]))
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-o", "--out", required=True, help="JSON file")
    p.add_argument("--runs", type=int, default=20)
    args = p.parse_args()
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    ranks = []
    for rank in range(2):
        env = dict(os.environ, RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), NCCL_NVLS_ENABLE="0")
        ranks.append(subprocess.Popen([sys.executable, os.path.abspath(__file__), "--rank", str(args.runs)], env=env, text=True,
                                      stdout=subprocess.PIPE if rank == 0 else None))
    text = ranks[0].communicate()[0]
    if any(rank.wait() for rank in ranks):
        raise SystemExit("a rank failed")
    with open(args.out, "w", encoding="utf-8") as f:
        json.dump(json.loads(text.strip().splitlines()[-1]), f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
