#!/usr/bin/env python3
"""The library exports ga_ symbols only, and neither exits, aborts nor prints. Usage: check_symbols.py LIBGA.so LIBGA.a"""
import subprocess
import sys

FORBIDDEN = {"exit", "_exit", "_Exit", "abort", "quick_exit", "printf", "puts", "putchar", "fprintf", "vprintf", "vfprintf",
             "fputs", "fputc", "perror", "__printf_chk", "__fprintf_chk", "__vprintf_chk", "__vfprintf_chk", "__assert_fail",
             "stdout", "stderr", "system"}


def nm(*args):
    return subprocess.run(["nm", "-P", *args], check=True, capture_output=True, text=True).stdout.splitlines()


def main():
    shared, static = sys.argv[1:3]
    bad = 0
    exported = [line.split()[0] for line in nm("-D", "--defined-only", shared)]
    for symbol in exported:
        if not symbol.startswith("ga_"):
            print(f"{shared}: exports {symbol}; exported symbols start with ga_")
            bad += 1
    member = static
    for line in nm(static):
        if line.endswith(":"):
            member = line[:-1]
            continue
        fields = line.split()
        if fields[1:2] == ["U"] and fields[0].split("@")[0] in FORBIDDEN:
            print(f"{member}: uses {fields[0]}; the library returns a status")
            bad += 1
    print(f"symbols: {len(exported)} exported, {bad} bad")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
