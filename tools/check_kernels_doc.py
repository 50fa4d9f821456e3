#!/usr/bin/env python3
"""Fails when docs/reference/kernels.md is not what the table of kernels gives. Usage: check_kernels_doc.py GA KERNELS.md"""
import difflib
import subprocess
import sys
from pathlib import Path


def main():
    ga, doc = sys.argv[1:3]
    made = subprocess.run([ga, "kernels", "--markdown"], check=True, capture_output=True, text=True).stdout
    kept = Path(doc).read_text() if Path(doc).exists() else ""
    if made == kept:
        return 0
    sys.stdout.writelines(list(difflib.unified_diff(kept.splitlines(True), made.splitlines(True), doc, "now", n=0))[:20])
    print(f"{doc} is stale; make it anew: make golden")
    return 1


if __name__ == "__main__":
    sys.exit(main())
