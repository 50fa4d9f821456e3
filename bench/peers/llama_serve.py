#!/usr/bin/env python3
"""`ga serve` beside llama-server on the CPU, taking turns under one load client: output tokens/s by streams, as JSON on standard output.

    llama_serve.py MODEL.gguf --ga GA --llama-server PATH [--streams 1,2,4,8,16] [-r 3] [-t 1] [--cpus 0] [--prompt 128] [--decode 64]

Each run starts a server for so many streams, pinned to --cpus with -t threads, and asks it by `ga bench --serve` for --requests
requests a stream of random ids of one length, distinct, with ignore_eos; its warm-up is one request a stream. Both get the same seeds.
llama-server runs with a slot a stream, continuous batching (its default), contexts just large enough, no copies of prompts in
host memory; each of --settings (with and without flash attention) runs, and the ratio of medians is against the best of them.
"""
import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request

READY_SECONDS = 120
SETTINGS = {"fa": ["-fa", "on"], "plain": ["-fa", "off"]}


class Server:
    def __init__(self, command, cpus, port):
        self.url = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(["taskset", "-c", cpus, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + READY_SECONDS
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"{' '.join(command)}: not ready after {READY_SECONDS} s, or ended with {self.process.poll()}")
            time.sleep(0.1)

    def is_ready(self):
        try:
            return urllib.request.urlopen(self.url + "/health", timeout=5).status == 200
        except (urllib.error.URLError, OSError):
            return False

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def command_of(name, streams, a, port):
    context = a.prompt + a.decode + 8
    if name == "ours":
        return [a.ga, "serve", "-m", a.model, "--device", "cpu", "-t", str(a.threads), "--port", str(port), "--context", str(context),
                "--max-sequences", str(max(streams, 1))]
    return [a.llama_server, "-m", a.model, "--port", str(port), "-t", str(a.threads), "-tb", str(a.threads), "-np", str(streams),
            "-c", str(streams * context), "--cache-ram", "0", "--no-ui", "-fit", "off", *SETTINGS[name]]


def ask(a, server, streams, requests, seed):
    command = [a.ga, "bench", "--serve", server.url, "--streams", str(streams), "-n", str(requests), "--prompt", str(a.prompt), "--decode", str(a.decode),
               "--prompt-ids", "--vocab", str(a.vocab), "--seed", str(seed), "--json"]
    out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    row = json.loads(out)["rows"][0]
    if row["failed"] or row["output_tokens"] != requests * a.decode:
        raise SystemExit(f"{streams} streams: {row['failed']} failed, {row['output_tokens']} tokens instead of {requests * a.decode}: {row['errors']}")
    return row


def run(name, streams, turn, a):
    port = a.port + turn % 50
    server = Server(command_of(name, streams, a, port), a.cpus, port)
    try:
        ask(a, server, streams, streams, 1000 + turn)
        load, spent = os.getloadavg()[0], server.cpu_seconds()
        row = ask(a, server, streams, a.requests * streams, 1 + turn)
        spent = server.cpu_seconds() - spent
    finally:
        server.stop()
    return {"out_tok_s": row["output_tok_s"], "ttft_ms": row["ttft_ms"]["median"], "itl_ms": row["itl_ms"]["median"], "load_average": load,
            "tok_cpu_s": row["output_tokens"] / spent}


def median(rounds, key):
    return round(statistics.median(r[key] for r in rounds), 2)


def level(streams, a):
    names = ["ours", *a.settings.split(",")]
    rounds = {name: [] for name in names}
    for turn in range(a.repeats):
        for name in random.sample(names, len(names)):
            rounds[name].append(run(name, streams, turn * len(names) + names.index(name), a))
            print(streams, name, {k: round(v, 1) for k, v in rounds[name][-1].items()}, file=sys.stderr, flush=True)
    keys = list(rounds["ours"][0])
    out = {"streams": streams, **{name: {k: median(r, k) for k in keys} for name, r in rounds.items()}}
    for key in ("out_tok_s", "tok_cpu_s"):
        out["ratio_" + key] = round(out["ours"][key] / max(out[name][key] for name in names[1:]), 3)
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("--ga", required=True)
    p.add_argument("--llama-server", required=True)
    p.add_argument("--streams", default="1,2,4,8,16")
    p.add_argument("--settings", default="fa,plain", help="of " + ", ".join(SETTINGS))
    p.add_argument("-r", "--repeats", type=int, default=3)
    p.add_argument("-t", "--threads", type=int, default=1)
    p.add_argument("--cpus", default="0", help="as taskset -c takes them")
    p.add_argument("--prompt", type=int, default=128)
    p.add_argument("--decode", type=int, default=64)
    p.add_argument("--requests", type=int, default=3, help="of a stream in a measured run")
    p.add_argument("--vocab", type=int, default=30000)
    p.add_argument("--port", type=int, default=18300)
    a = p.parse_args()
    with open("/proc/cpuinfo") as f:
        cpu = next((line.split(":")[1].strip() for line in f if line.startswith("model name")), "")
    out = {"cpu": cpu, "model": os.path.basename(a.model), "threads": a.threads, "cpus": a.cpus, "prompt": a.prompt, "decode": a.decode, "repeats": a.repeats,
           "levels": [level(int(n), a) for n in a.streams.split(",")]}
    json.dump(out, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
