#!/usr/bin/env python3
"""GA beside llama-bench on CPUs: prompt and decode tokens/s of synthetic models, in turns, as one JSON file.

    llama_bench.py --ga build/ga --llama avx2=build-avx2/bin/llama-bench [--llama v4=...] -o OUT.json [--seconds 240]

Each class of CPU names a build of llama.cpp. GA hides the instruction sets that the class does not have:

    avx2     AVX2, FMA, F16C and no more
    v4       AVX-512 with VNNI, no AMX
    native   everything this machine has

`ga synth` writes a model of each type into --folder, with Llama 3.2 1B's widths and fewer layers and tokens, so that a
turn takes seconds. In a turn each model is timed by both programs, one after the other, with the same number of
threads, pinned to the same cores. Cores are whole ones: no two CPUs of one core. Turns go on until --turns or
--seconds; the file has every figure, medians, and their ratios. Needs Python 3.8 and nothing else."""
import argparse
import datetime
import json
import os
import statistics
import subprocess
import time

HIDDEN = {"avx2": "*avx512*,*amx*", "v4": "*amx*", "native": ""}
SHAPE = ["--shape", "llama-3.2-1b"]


def cpuinfo():
    fields = {}
    with open("/proc/cpuinfo") as f:
        for line in f:
            name, _, value = line.partition(":")
            fields.setdefault(name.strip(), value.strip())
    return {"name": fields.get("model name", "?"), "flags": fields.get("flags", "").split()}


def missing_flags(kind, flags):
    needed = {"avx2": "avx2 fma f16c bmi2", "native": "avx2",
              "v4": "avx512f avx512bw avx512vl avx512dq avx512_vnni avx512vbmi avx512_bf16"}[kind]
    return [f for f in needed.split() if f not in flags]


def whole_cores():
    """One usable CPU of each core, in order."""
    seen, cpus = set(), []
    for cpu in sorted(os.sched_getaffinity(0)):
        try:
            with open(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") as f:
                core = f.read().strip()
        except OSError:
            core = str(cpu)
        if core not in seen:
            seen.add(core)
            cpus.append(cpu)
    return cpus


def run(command, cpus, **more):
    environment = dict(os.environ, **more)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
                          preexec_fn=lambda: os.sched_setaffinity(0, cpus))
    if done.returncode:
        raise SystemExit(f"{command[0]} failed with {done.returncode}: {done.stderr[-800:]}")
    return done.stdout


def time_ga(args, kind, model, threads, cpus):
    out = run([args.ga, "bench", "-m", model, "-t", str(threads), "--prompt", str(args.prompt), "--decode", str(args.decode),
               "--depth", "1", "-r", "1", "--json"], cpus, GA_DISABLE_KERNELS=HIDDEN[kind])
    figures = json.loads(out.strip().splitlines()[-1])
    return {"prefill": figures["prefill_tok_s"], "decode": figures["decode_tok_s"]}


def time_llama(args, program, model, threads, cpus):
    out = run([program, "-m", model, "-t", str(threads), "-p", str(args.prompt), "-n", str(args.decode), "-r", "1", "-o", "json"],
              cpus)
    rows = json.loads(out)
    return {"prefill" if row["n_prompt"] else "decode": row["avg_ts"] for row in rows}


def make_models(args):
    os.makedirs(args.folder, exist_ok=True)
    models = {}
    for kind in args.types.split(","):
        path = os.path.join(args.folder, f"peer-{kind}.gguf")
        subprocess.run([args.ga, "synth", *SHAPE, "--layers", str(args.layers), "--vocab", str(args.vocab), "--type", kind, "--force",
                        path], check=True, stdout=subprocess.DEVNULL)
        models[kind] = path
    return models


def take_turns(args, models, builds, cores, until):
    """{(class, type, threads): {"ga": [..], "llama": [..]}}"""
    found = {}
    for turn in range(args.turns):
        for kind, program in builds.items():
            for threads in args.threads:
                for name, model in models.items():
                    if time.monotonic() > until:
                        return found, turn
                    cpus = set(cores[:threads])
                    pair = [("ga", lambda: time_ga(args, kind, model, threads, cpus)),
                            ("llama", lambda: time_llama(args, program, model, threads, cpus))]
                    figures = {who: call() for who, call in (pair if turn % 2 == 0 else pair[::-1])}
                    cell = found.setdefault((kind, name, threads), {"ga": [], "llama": []})
                    for who in figures:
                        cell[who].append(figures[who])
    return found, args.turns


def summary(found):
    rows = []
    for (kind, name, threads), cell in found.items():
        row = {"class": kind, "type": name, "threads": threads, "turns": len(cell["ga"])}
        for what in ("prefill", "decode"):
            for who in ("ga", "llama"):
                values = [f[what] for f in cell[who]]
                row[f"{who}_{what}_tok_s"] = round(statistics.median(values), 2)
                row[f"{who}_{what}_all"] = [round(v, 2) for v in values]
            row[f"{what}_ratio"] = round(row[f"ga_{what}_tok_s"] / row[f"llama_{what}_tok_s"], 3)
        rows.append(row)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ga", default="build/ga")
    parser.add_argument("--llama", action="append", required=True, metavar="CLASS=PROGRAM")
    parser.add_argument("-o", "--out", required=True)
    parser.add_argument("--folder", default="/dev/shm")
    parser.add_argument("--types", default="q4_k_m,q5_k_m,q6_k,q4_0,q8_0,iq4_xs")
    parser.add_argument("--threads", type=lambda s: [int(t) for t in s.split(",")], default=[1, 2])
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--vocab", type=int, default=32768)
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--decode", type=int, default=32)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=240)
    args = parser.parse_args()
    until = time.monotonic() + args.seconds
    cpu, cores, builds, skipped = cpuinfo(), whole_cores(), {}, {}
    for given in args.llama:
        kind, _, program = given.partition("=")
        if kind not in HIDDEN:
            raise SystemExit(f"--llama {given}: the class must be one of {', '.join(HIDDEN)}")
        lacks = missing_flags(kind, cpu["flags"])
        if lacks:
            skipped[kind] = "the CPU has no " + ", ".join(lacks)
        else:
            builds[kind] = os.path.abspath(program)
    args.ga, args.threads = os.path.abspath(args.ga), [t for t in args.threads if t <= len(cores)]
    models, load = make_models(args), os.getloadavg()[0]
    try:
        found, turns = take_turns(args, models, builds, cores, until)
    finally:
        for path in models.values():
            os.unlink(path)
    report = {"cpu": cpu["name"], "cores": len(cores), "pinned_to": cores[:max(args.threads)], "load_before": load,
              "date": datetime.date.today().isoformat(), "ga": subprocess.run([args.ga, "-V"], capture_output=True, text=True).stdout.strip(),
              "shape": f"llama-3.2-1b, {args.layers} layers, {args.vocab} tokens", "prompt": args.prompt, "decode": args.decode,
              "whole_turns": turns, "skipped": skipped, "rows": summary(found)}
    with open(args.out, "w") as out:
        json.dump(report, out, indent=1)
        out.write("\n")
    for row in report["rows"]:
        print(f"{row['class']:6} {row['type']:7} {row['threads']} threads: prefill {row['ga_prefill_tok_s']:8.1f} beside {row['llama_prefill_tok_s']:8.1f}"
              f" = {row['prefill_ratio']:.2f} x, decode {row['ga_decode_tok_s']:7.1f} beside {row['llama_decode_tok_s']:7.1f}"
              f" = {row['decode_ratio']:.2f} x ({row['turns']} turns)")


if __name__ == "__main__":
    main()
