#!/usr/bin/env python3
"""Runs the tests of the Python module. Usage: run.py FOLDER [NAME...]: FOLDER holds gpu_accel as it was built.

Without names: all but those of frameworks, which take long where those are installed. The last line says what was skipped."""
import sys
import unittest
from collections import Counter
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
FRAMEWORKS = ("test_torch", "test_torch_transforms", "test_transformers", "test_jax", "test_grid", "test_cuda_torch", "test_cuda_jax")
OTHER_MODULES = ("test_mock", "test_emu")  # over the mock driver, and over the emulator


def main():
    sys.path[:0] = [sys.argv[1], str(FOLDER), str(FOLDER.parent)]
    names = sys.argv[2:] or [path.stem for path in sorted(FOLDER.glob("test_*.py")) if path.stem not in FRAMEWORKS + OTHER_MODULES]
    suite = unittest.defaultTestLoader.loadTestsFromNames(names)
    result = unittest.TextTestRunner(verbosity=1).run(suite)
    for test, why in result.skipped:
        print(f"skipped: {test.id()}: {why}")
    reasons = ", ".join(f"{n} since {why}" for why, n in Counter(why for _, why in result.skipped).items())
    print(f"{result.testsRun} tests; skipped: {reasons or 'none'}")
    return not result.wasSuccessful() or result.testsRun == 0


if __name__ == "__main__":
    sys.exit(main())
