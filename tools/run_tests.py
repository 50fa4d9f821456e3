#!/usr/bin/env python3
"""Builds and runs one tier of tests (cmake/tests.cmake) and says what it cost: what was left out and why, the slowest tests, processor time.
  run_tests.py BUILD quick|full|deep [-j JOBS]
  run_tests.py BUILD --cpu [REGEX]    builds nothing: processor seconds of each test whose name matches, one at a time, longest first"""
import argparse
import json
import os
import re
import resource
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

# Processor seconds of a tier's tests on the machine of docs/log/test-time.md; more is said, not failed, since machines differ.
BUDGET = {"quick": 120, "full": 1500, "deep": float("inf")}
TARGET = {"quick": "quick_tests", "full": "all", "deep": "all"}
SLOWEST = 10
SKIPPED = re.compile(r"\bskipped=(\d+)\)|^\[  SKIPPED \] (\d+) test", re.M)  # unittest's last line, cmocka's


def cpu():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Part:
    """What a part of the work took: seconds on the clock and of processors."""

    def __init__(self, command, **more):
        clock, used = time.monotonic(), cpu()
        self.rc = subprocess.run(list(map(str, command)), **more).returncode
        self.wall, self.cpu = time.monotonic() - clock, cpu() - used

    def __str__(self):
        return f"{self.wall:.0f} s, {self.cpu:.0f} s of processor time"


def results(junit):
    """Of ctest's report: (name, seconds, ran, output) of each test."""
    for case in ElementTree.parse(junit).getroot().iter("testcase"):
        yield case.get("name"), float(case.get("time")), case.get("status") not in ("notrun", "disabled"), case.findtext("system-out") or ""


def left_out(build, tests):
    """What these tests could not do, and why."""
    if re.search(r"^GA_NVCC:.*NOTFOUND$", (build / "CMakeCache.txt").read_text(), re.M):
        yield "images of CUDA kernels (no nvcc here; their sources run under the emulator)"
    models = [name for name, _, _, text in tests if "is not here (make models)" in text]
    if models:
        yield f"what {', '.join(models)} do with models that are not fetched (make models)"
    for name, _, ran, text in tests:
        skipped = sum(int(a or b) for a, b in SKIPPED.findall(text))
        if ran and skipped:
            yield f"{skipped} of {name}"
        if not ran:
            yield f"{name} ({text.strip().splitlines()[-1] if text.strip() else 'no word why'})"


def run(build, tier, jobs):
    built = Part(["cmake", "--build", build, "-j", jobs, "--target", TARGET[tier]])
    if built.rc:
        return built.rc
    junit = (build / f"tests-{tier}.xml").resolve()
    tested = Part(["ctest", "--test-dir", build, "-L", f"^{tier}$", "-j", jobs, "--output-on-failure", "--no-tests=error", "--output-junit", junit,
                   "--test-output-size-passed", 1 << 20],
                  env=os.environ | {"PYTHONUNBUFFERED": "1"})  # a script that hangs is killed, and what it had not written yet is lost
    tests = list(results(junit))
    slowest = sorted(tests, key=lambda t: -t[1])[:SLOWEST]
    print("slowest: " + ", ".join(f"{name} {seconds:.1f} s" for name, seconds, *_ in slowest))
    print(f"{tier} tier: build {built}; {len(tests)} tests {tested}")
    left = list(left_out(build, tests))
    if os.environ.get("GA_TEST_BUDGETS") and tested.cpu > BUDGET[tier]:  # the maintainers' concern, on machines that they know
        print(f"{tier} tier: its tests are over their budget of {BUDGET[tier]} s of processor time (docs/log/test-time.md)")
    print(f"left out: {len(left)}" + "".join(f"; {what}" for what in left))
    return tested.rc


def run_alone(test):
    """Processor seconds, exit status."""
    env, folder = dict(os.environ), None
    for p in test.get("properties", []):
        if p["name"] == "WORKING_DIRECTORY":
            folder = p["value"]
        if p["name"] == "ENVIRONMENT":
            env.update(e.split("=", 1) for e in p["value"])
    done = Part(test["command"], cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return done.cpu, done.rc


def list_cpu(build, pattern):
    text = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True, capture_output=True, text=True).stdout
    rows = [(*run_alone(t), t["name"]) for t in json.loads(text)["tests"] if re.search(pattern, t["name"]) and "command" in t]
    for seconds, rc, name in sorted(rows, reverse=True):
        print(f"{seconds:8.2f} {name}" + (f" (exit {rc})" if rc else ""))
    print(f"{sum(r[0] for r in rows):8.2f} all {len(rows)}")
    return 0


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("build", type=Path)
    parser.add_argument("tier", nargs="?", choices=sorted(TARGET))
    parser.add_argument("-j", type=int, default=os.cpu_count())
    parser.add_argument("--cpu", nargs="?", const="", metavar="REGEX")
    args = parser.parse_args()
    if (args.tier is None) == (args.cpu is None):
        parser.error("give a tier or --cpu")
    return run(args.build, args.tier, args.j) if args.tier else list_cpu(args.build, args.cpu)


if __name__ == "__main__":
    sys.exit(main())
