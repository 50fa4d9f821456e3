#!/usr/bin/env python3
"""Decode of a model on CPUs that others use, too. Usage: shared_cpu.py GA [GA...] -m MODEL [--turns N] [--seconds N] [-o FILE.json]

Takes 0 to n of the n usable CPUs with one busy process each (pinned to it), and times `ga bench -m MODEL` with n threads
beside n - k threads on the CPUs that are left, in turns. Several programs are timed side by side in each turn. Prints
tokens/s: median, lowest, highest. GA means to reach 0.8 x what n - k threads give."""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time

BUSY = [sys.executable, "-c", "while True: pass"]


def decode(ga, model, threads, cpus):
    command = [ga, "bench", "-m", model, "--prompt", "16", "--decode", "64", "-r", "1", "-t", str(threads)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, preexec_fn=lambda: os.sched_setaffinity(0, cpus))
    return float(re.search(r"decode after \d+\s+([\d.]+) tok/s", done.stdout)[1])


def start_busy(cpus):
    started = []
    for cpu in cpus:
        started.append(subprocess.Popen(BUSY, preexec_fn=lambda cpu=cpu: os.sched_setaffinity(0, {cpu})))
    return started


def measure(args, cpus):
    figures, until = {}, time.monotonic() + args.seconds
    for _ in range(args.turns):
        for taken in range(len(cpus) + 1):
            if time.monotonic() > until:
                return figures
            busy = start_busy(cpus[:taken])
            try:
                for ga in args.ga:
                    figures.setdefault((ga, taken, "all"), []).append(decode(ga, args.model, len(cpus), set(cpus)))
                    if taken < len(cpus):
                        rest = set(cpus[taken:])
                        figures.setdefault((ga, taken, "rest"), []).append(decode(ga, args.model, len(rest), rest))
            finally:
                for process in busy:
                    process.kill()
                    process.wait()
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ga", nargs="+")
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start nothing after so long")
    parser.add_argument("-o", "--out")
    args = parser.parse_args()
    cpus = sorted(os.sched_getaffinity(0))
    rows = []
    for (ga, taken, what), values in measure(args, cpus).items():
        row = {"ga": ga, "cpus": len(cpus), "taken": taken, "threads": len(cpus) if what == "all" else len(cpus) - taken,
               "pinned_to_free_cpus": what == "rest", "tokens_per_second": round(statistics.median(values), 1),
               "turns": len(values), "lowest": min(values), "highest": max(values)}
        rows.append(row)
        where = "on the free CPUs" if what == "rest" else "on all CPUs"
        print(f"{ga}: {taken} of {len(cpus)} CPUs taken, {row['threads']} threads {where}: {row['tokens_per_second']} tok/s [{row['lowest']} {row['highest']}]")
    if args.out:
        with open(args.out, "w") as out:
            json.dump(rows, out, indent=1)
            out.write("\n")


if __name__ == "__main__":
    main()
