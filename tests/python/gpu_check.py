#!/usr/bin/env python3
"""What only a GPU can show of the Python module, in one command: the whole grid of attention (GA_TEST_GRID=all), packed sequences with
fewer keys than their borders say (seqused_k), and models that share weights (ga_model_share) under Llama. Needs PyTorch.
usage: gpu_check.py BUILD [--device cuda:0|cpu|emu] [--limit SECONDS] [--grid all|N]
cpu and emu (the emulator) are for trying this script: they take 8 cases of the grid. A table is printed at the end; exit code 1 when
a part failed, was skipped, or had no time left."""
import argparse
import itertools
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent


def greedy(model, ids):
    return list(model.generate_ids(ids, 8, ignore_eos=True))


def share(device):
    """One copy of the weights under Llama's engine, its sequence and two further handles, which compute at the same time."""
    import gpu_accel as ga
    import tiny_gguf
    with tempfile.TemporaryDirectory(prefix="ga-share-") as folder:
        path = os.path.join(folder, "tiny.gguf")
        Path(path).write_bytes(tiny_gguf.build())
        model = ga.Model(path, "cpu", threads=1)
        ids = model.tokenize("hello")
        wanted = greedy(model, ids)
        llama = ga.Llama(path, n_ctx=64, device=device)
        text = llama("hello", max_tokens=6, temperature=0.0)["choices"][0]["text"]
        assert list(itertools.islice(llama.generate(ids, temp=0.0, repeat_penalty=1.0), 8)) == wanted, "tokens of generate are not the CPU's"
        others = [llama.model.share() for _ in range(2)]
        if device != "cpu":  # there weights are the mapped file
            owner = ga.Model(path, device)
            used = [m.context.memory()["used_bytes"] for m in (owner, owner.share())]
            assert used[0] > 0 and used[1] < used[0] / 2, f"bytes in use are {used}; a second model must not have the weights again"
        seen = {}

        def run(name, call):
            seen[name] = call()
        calls = {"first": lambda: [greedy(others[0], ids) for _ in range(3)], "second": lambda: [greedy(others[1], ids) for _ in range(3)],
                 "engine": lambda: [llama("hello", max_tokens=6, temperature=0.0)["choices"][0]["text"] for _ in range(3)]}
        threads = [threading.Thread(target=run, args=item) for item in calls.items()]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert seen == {"first": [wanted] * 3, "second": [wanted] * 3, "engine": [text] * 3}, seen
        llama.close()
        del llama
        assert greedy(others[1], ids) == wanted, "weights did not outlive the first model"
        other = "ref" if device == "cpu" else "cpu"
        try:
            others[0].share(ga.Context(other))
            raise AssertionError(f"a model on {device} was shared with {other}")
        except ga.ArgumentError as e:
            assert other in str(e), e
    print("Ran 1 test")


def parts(build, device, grid):
    """name: (command, environment)."""
    module = build / ("python_emu" if device == "emu" else "python")
    # The engine's cache takes most of the memory, which the emulator fills.
    env = {"GA_TEST_GRID": grid, "GA_EMU": "memory=256"} if device == "emu" else {"GA_TEST_GRID": grid, "GA_TEST_TORCH_DEVICE": device}
    tests = "test_emu.Emulated" if device == "emu" else "test_grid.Grid"
    unit = lambda *names: ([sys.executable, HERE / "run.py", module, *names], env)
    yield "seqused_k", unit(f"{tests}.test_seqused")
    yield "ga_model_share", ([sys.executable, __file__, build, "--device", device, "--share", module], env)
    yield f"grid, {grid} cases", unit(f"{tests}.test_grid")
    yield "packed, pages, fp8", unit(*(f"{tests}.test_{name}" for name in ("packed", "paged", "fp8")))
    if device.startswith("cuda"):
        yield "streams and graphs", unit("test_cuda_torch")


def run_part(command, env, seconds):
    """result, seconds, what it said. The part's own processes are ended with it."""
    began = time.monotonic()
    p = subprocess.Popen(list(map(str, command)), env=os.environ | env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                         start_new_session=True)
    try:
        said, _ = p.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, signal.SIGKILL)
        said, _ = p.communicate()
        return "no time left", time.monotonic() - began, said
    skipped = re.search(r"skipped=\d+", said)
    ran = re.search(r"^Ran [1-9]", said, re.M)
    result = "FAILED" if p.returncode or not ran else "skipped" if skipped else "ok"
    return result, time.monotonic() - began, said


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("build", type=Path)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--limit", type=float, default=300)
    parser.add_argument("--grid")
    parser.add_argument("--share", metavar="MODULE", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if not re.fullmatch(r"cuda:\d+|cpu|emu", args.device):
        parser.error(f"--device is {args.device}; allowed are cuda:N, cpu, emu")
    if args.limit <= 0:
        parser.error(f"--limit is {args.limit:g}; allowed are seconds, more than 0")
    if args.share:
        sys.path[:0] = [args.share, str(HERE), str(HERE.parent)]
        return share(args.device)
    grid = args.grid or ("all" if args.device.startswith("cuda") else "8")
    end, rows = time.monotonic() + args.limit, []
    for name, (command, env) in parts(args.build.resolve(), args.device, grid):
        left = end - time.monotonic()
        result, seconds, said = run_part(command, env, left) if left > 0 else ("no time left", 0.0, "")
        rows.append((name, result, seconds))
        if result != "ok":
            print(f"--- {name}: {result}\n{said[-4000:]}")
    print(f"{'part':24} {'result':14} {'seconds':>8}   on {args.device}")
    for name, result, seconds in rows:
        print(f"{name:24} {result:14} {seconds:8.1f}")
    return any(result != "ok" for _, result, _ in rows)


if __name__ == "__main__":
    sys.exit(main())
