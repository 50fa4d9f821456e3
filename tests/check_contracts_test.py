#!/usr/bin/env python3
"""tools/check_contracts.py must find what it is for. Usage: check_contracts_test.py ROOT"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(sys.argv[1]).resolve() / "tools"))
import check_contracts  # noqa: E402


def main():
    """Each fault is found, and the sound header is not refused."""
    sound = ["/* KERNEL    k, sm90a", " * COMPUTES  y = x,", " *           rounded", " * CONTRACT  any x", " * BARRIERS  name    arrivals  waiter  orders",
             " *           k_full  1+tx      all     TMA write of K ->", " *                                     wgmma read", " * BUDGET    what     how much",
             " *           threads  384", " */"]
    plants = {
        "a text that begins early": (2, " * rounded"), "a word inside of a text": (2, " *           rounded) BUDGET    384"),
        "a row out of its columns": (5, " *           k_full  1+tx        all   TMA write of K ->"), "a row without a cell": (5, " *           k_full  1+tx              TMA write"),
        "a head without a column": (4, " * BARRIERS  name    arrivals  orders"), "a cell that goes on in front": (6, " *           wgmma read"),
        "no contract": (3, " * DATA      any x"), "barriers as prose": (4, " * BARRIERS  one of the block"), "a budget out of its columns": (8, " *           threads 384"),
        "no barriers": (4, " * SUMS      name    arrivals  waiter  orders"), "a word twice": (7, " * COMPUTES  what     how much"), "a line too long": (2, " *           " + "x" * 120)}
    check_contracts.check("sound", sound, True)
    for what, (at, line) in plants.items():
        try:
            check_contracts.check(what, sound[:at] + [line] + sound[at + 1:], True)
        except check_contracts.Fault:
            continue
        print(f"{what} is not found")
        return 1
    print(f"contracts: {len(plants)} planted faults found")
    return 0


if __name__ == "__main__":
    sys.exit(main())
