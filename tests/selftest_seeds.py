#!/usr/bin/env python3
"""`ga check --selftest` finds every planted fault whatever its seed draws. Usage: selftest_seeds.py GA SEED...; a SEED may be FIRST-LAST."""
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor


def complaint(program, seed):
    """None when all verdicts of a seed are right."""
    done = subprocess.run([program, "check", "--selftest", "-s", str(seed)], capture_output=True, text=True)
    wrong = [line for line in done.stdout.splitlines() if line.startswith("FAIL")]
    return f"seed {seed}: exit {done.returncode} " + "; ".join(wrong) if done.returncode or wrong else None


def main():
    program, seeds = sys.argv[1], []
    for word in sys.argv[2:]:
        first, _, last = word.partition("-")
        seeds += range(int(first), int(last or first) + 1)
    # One of the faults hangs: each seed waits for its time limit, two seconds.
    with ThreadPoolExecutor(4 * (os.cpu_count() or 1)) as pool:
        complaints = [c for c in pool.map(lambda seed: complaint(program, seed), seeds) if c]
    print("\n".join(complaints + [f"{len(seeds)} seeds, {len(complaints)} complaints"]))
    return bool(complaints) or not seeds


if __name__ == "__main__":
    sys.exit(main())
