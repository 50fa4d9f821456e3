#!/usr/bin/env python3
"""Runs the tests of the Python module. Usage: run.py FOLDER [NAME...]: FOLDER holds gpu_accel as it was built."""
import sys
import unittest
from pathlib import Path

FOLDER = Path(__file__).resolve().parent


def main():
    sys.path[:0] = [sys.argv[1], str(FOLDER), str(FOLDER.parent)]
    names = sys.argv[2:] or [path.stem for path in sorted(FOLDER.glob("test_*.py"))]
    suite = unittest.defaultTestLoader.loadTestsFromNames(names)
    result = unittest.TextTestRunner(verbosity=1).run(suite)
    for test, why in result.skipped:
        print(f"skipped: {test.id()}: {why}")
    return not result.wasSuccessful() or result.testsRun == 0


if __name__ == "__main__":
    sys.exit(main())
