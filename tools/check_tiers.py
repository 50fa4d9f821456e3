#!/usr/bin/env python3
"""Every test has exactly one tier, quick, full or deep, and a time limit (cmake/tests.cmake). Usage: check_tiers.py BUILD"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

TIERS = {"quick", "full", "deep"}


def main():
    with tempfile.TemporaryDirectory() as folder:  # a ctest in the build's own folder would empty the log of the one that runs this
        (Path(folder) / "CTestTestfile.cmake").write_text(f'subdirs("{Path(sys.argv[1]).resolve()}")\n')
        text = subprocess.run(["ctest", "--test-dir", folder, "--show-only=json-v1"], check=True, capture_output=True, text=True).stdout
    tests, bad = json.loads(text)["tests"], 0
    for test in tests:
        properties = {p["name"]: p["value"] for p in test.get("properties", [])}
        tiers = TIERS & set(properties.get("LABELS", []))
        if len(tiers) != 1:
            print(f"{test['name']}: tiers {sorted(tiers) or 'none'}; must be one of {sorted(TIERS)}: add it by ga_test()")
            bad += 1
        if "TIMEOUT" not in properties:
            print(f"{test['name']}: no time limit")
            bad += 1
    print(f"tiers: {len(tests)} tests, {bad} complaints")
    return bad > 0 or not tests


if __name__ == "__main__":
    sys.exit(main())
