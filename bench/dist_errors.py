#!/usr/bin/env python3
"""How far `ga dist simulate` is from what was measured, by sets of rows: those that its defaults were fitted to, and others.

    dist_errors.py GA [--rates] [--rows]

Each row is simulated with one device's rate in the same run; --rates takes bench/h200/dist-rates.json instead, for H200s.
An H100's memory has 0.7 of an H200's speed."""
import argparse
import json
import statistics
import subprocess
from pathlib import Path

BENCH = Path(__file__).resolve().parent
FILES = (("H200", "h200/dist-gpus.json"), ("H100", "h100/dist-held-out.json"), ("H100", "h100/dist-long-and-dims.json"),
         ("H100", "h100/dist-ulysses.json"))
MEMORY = {"H200": 2200.0, "H100": 2200.0 * 3.35 / 4.8}  # GB/s: the default, and by the memories' own rates
STATE = 0.78  # the default's part of one device's rate

# One device's rate fell there, which ranks do not: K and V of all heads passed through L2 at once, as they no longer do.
FALLS = {("H200", 262144, 16), ("H100", 1048576, 32)}
# Forward, methods that merge left f32 states for each pair of chunks then, and no run does so any more: their rows are left out.
PLAIN_FORWARD = ("one device", "llama3", "ulysses")
# Before, Ulysses ran tile by tile, which it no longer does.
PLAIN_ULYSSES = "h100/dist-ulysses.json"


def benches(x):
    if isinstance(x, dict) and "rows" in x and "heads" in x:
        yield x
    elif isinstance(x, (dict, list)):
        for y in x.values() if isinstance(x, dict) else x:
            yield from benches(y)


def other_machine(rows):
    """Backward of dist-gpus.json's other machine: shape, seconds, one device's TFLOP/s.
    Runs with other groups and without a graph are left out."""
    kept = [r for r in rows if r["pass"] == "backward"]
    for i, r in enumerate(kept[:8] + kept[11:]):
        pairs = r["tokens"] * (r["tokens"] + 1) / 2 * r["heads"]
        yield {**r, "unordered": i % 2 == 0 if i < 8 else i < 10, "seconds": r["llama3_ms"] / 1e3,
               "one": pairs * 5 * 2 * 128 / r["one_device_ms"] / 1e9}


def measured():
    for machine, file in FILES:
        with open(BENCH / file, encoding="utf-8") as f:
            found = json.load(f)
        for b in benches(found):
            one = next(r["tflops_a_rank"] for r in b["rows"] if r["method"] == "one device")
            for r in b["rows"]:
                if not b["backward"] and r["method"] not in PLAIN_FORWARD:
                    continue
                if r["method"] != "one device" and (r["method"] != "ulysses" or file == PLAIN_ULYSSES):
                    yield {"machine": machine, "ranks": b["ranks"], "tokens": int(b["tokens"]), "heads": b["heads"], "kv_heads": b["kv_heads"],
                           "dim": b["head_dim"], "method": r["method"], "backward": b["backward"], "unordered": b.get("unordered", b["backward"]), "one": one,
                           "seconds": r["seconds"], "now": file == PLAIN_ULYSSES}
        for r in other_machine(found["another_machine"]["rows"]) if "another_machine" in found else ():
            yield {"machine": machine, "ranks": r["ranks"], "tokens": r["tokens"], "heads": r["heads"], "kv_heads": r["kv_heads"], "dim": 128,
                   "method": "llama3", "backward": True, "unordered": r["unordered"], "one": r["one"], "seconds": r["seconds"], "now": False}


def set_of(r):
    """What a row is for. Fitted: latency and launch, the memory, sums in a fixed order."""
    two = r["machine"] == "H200" and r["ranks"] == 2
    gathers = r["method"] == "llama3"
    if r["now"]:
        order = "" if not r["backward"] else " backward, any order" if r["unordered"] else " backward, fixed order"
        return f"{'gathered' if gathers else 'Ulysses'}{order}, of November 28"
    if r["backward"]:
        kind = "backward, any order" if r["unordered"] else "backward, fixed order"
        return kind + (", fitted" if two and not r["unordered"] else ", held out")
    if (r["machine"], r["tokens"], r["heads"]) in FALLS and r["one"] < 540:
        return "forward, one device falls"
    if gathers:
        return "gathered, fitted" if r["machine"] == "H200" and r["tokens"] <= 16384 * r["ranks"] else "gathered, held out"
    raise ValueError(f"a forward row of {r['method']}")


def predict(ga, r, curve=False):
    command = [ga, "dist", "simulate", "--json", "-n", str(r["ranks"]), "-m", r["method"], "--type", "bf16", "--device", "cuda:0", "--tokens",
               str(r["tokens"]), "--heads", str(r["heads"]), "--kv-heads", str(r["kv_heads"]), "--head-dim", str(r["dim"]), "--memory-gbytes",
               str(MEMORY[r["machine"]]), "--tflops", str(r["one"]), "--backward-tflops", str(r["one"]), "--merged-tflops", str(STATE * r["one"])]
    if r["backward"]:
        command += ["--backward"] + ["--unordered"] * r["unordered"]
    if curve:
        command += ["--rates", str(BENCH / "h200" / "dist-rates.json")]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout)["seconds"]


def passes_of_then(r):
    """Seconds of what these runs did and no run does any more: dQ of a rank's first chunk began at zero, and the call added to it.
    A pass over f32 writes the zeros, a pass reads them."""
    chunk = r["tokens"] // (2 * r["ranks"])
    return 2 * 4 * chunk * r["heads"] * r["dim"] / (MEMORY[r["machine"]] * 1e9) if r["backward"] and not r["now"] else 0


def errors(ga, curve=False):
    """Of each set: its rows with predicted by measured seconds."""
    sets = {}
    for r in measured():
        if not curve or (r["machine"] == "H200" and not (r["backward"] and not r["unordered"])):
            sets.setdefault(set_of(r), []).append(((predict(ga, r, curve) + passes_of_then(r)) / r["seconds"], r))
    return sets


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("ga", help="the program")
    p.add_argument("--rates", action="store_true", help="H200s, by one device's rates of all lengths")
    p.add_argument("--rows", action="store_true", help="each row, too")
    args = p.parse_args()
    print(f"{'set':48} rows  median  largest error; predicted by measured, least and most")
    for name, rows in sorted(errors(args.ga, args.rates).items()):
        found = [x for x, _ in rows]
        off = [abs(x - 1) for x in found]
        print(f"{name:48} {len(rows):4} {statistics.median(off):6.1%} {max(off):8.1%}   {min(found):.2f} to {max(found):.2f}")
        for x, r in rows if args.rows else ():
            print(f"    {r['machine']} {r['ranks']} x {r['tokens'] // r['ranks']:7} {r['heads']}/{r['kv_heads']} of {r['dim']:3} {r['method']:14} "
                  f"{r['seconds'] * 1e3:9.2f} ms {x:6.2f}")


if __name__ == "__main__":
    main()
