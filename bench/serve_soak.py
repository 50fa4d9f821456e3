#!/usr/bin/env python3
"""A server that is asked for more than it can do, by clients that behave badly.

Starts `ga serve` with few sequences and few pages, and keeps about twice as many requests coming as it has places for,
waiting ones included. Some clients go away in mid-answer, read slowly, send garbage or half a request. At the end: nothing
but 200, 400, 429 and 503 was answered, each answer came once and whole, the memory of the process did not grow, no request
and no page is left. With --swap-space pages of preempted requests and of cached prompts went to host memory and came back.

Usage: serve_soak.py GA MODEL [--seconds 600] [--clients 64] [--seed 1] [--swap-space GIB] [--json FILE]
"""
import argparse
import http.client
import json
import random
import socket
import subprocess
import sys
import threading
import time

ALLOWED = {200, 400, 429, 503}


class Counts:
    def __init__(self):
        self.lock = threading.Lock()
        self.by = {}
        self.wrong = []
        self.began = time.monotonic()

    def add(self, what):
        with self.lock:
            self.by[what] = self.by.get(what, 0) + 1

    def fail(self, text):
        with self.lock:
            if len(self.wrong) < 20:
                self.wrong.append(f"after {time.monotonic() - self.began:.0f} s: {text}")


def rss_mib(pid):
    with open(f"/proc/{pid}/statm") as f:
        return int(f.read().split()[1]) * 4096 / 2**20


def metrics(port):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    c.request("GET", "/metrics")
    text = c.getresponse().read().decode()
    return {line.split("{")[0]: float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line and line[0] != "#" and "_bucket" not in line}


def body_of(rng, stream):
    shared = "Once upon a time there was a small town by the sea. " * rng.randrange(0, 6)
    words = " ".join(rng.choice(("rain", "salt", "copper", "owl", "bridge", "map", "tea")) for _ in range(rng.randrange(1, 60)))
    body = {"prompt": shared + words, "max_tokens": rng.randrange(1, 250), "temperature": rng.choice((0, 0.8)), "seed": rng.randrange(1000),
            "stream": stream, "ignore_eos": rng.random() < 0.5, "priority": rng.randrange(0, 4), "n": rng.choice((1, 1, 1, 2))}
    if rng.random() < 0.2:
        body["cache_salt"] = f"s{rng.randrange(4)}"
    if rng.random() < 0.1:
        body["logprobs"] = 3
    if rng.random() < 0.2:
        body["cache_ttl"] = rng.choice((0, 2, 30))
    return body


def whole_answer(port, rng, counts):
    body = body_of(rng, False)
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    c.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    reply = c.getresponse()
    data = json.loads(reply.read())
    counts.add(reply.status)
    if reply.status not in ALLOWED:
        counts.fail(f"status {reply.status}: {data}")
    if reply.status == 429 and not reply.getheader("Retry-After"):
        counts.fail("429 without Retry-After")
    if reply.status == 200 and sorted(x["index"] for x in data["choices"]) != list(range(body["n"])):
        counts.fail(f"choices {data}")
    if reply.status == 429:
        time.sleep(rng.random())


def stream(port, rng, counts, leaves, slow):
    body = body_of(rng, True)
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    c.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    reply = c.getresponse()
    counts.add(reply.status)
    if reply.status != 200:
        reply.read()
        if reply.status not in ALLOWED:
            counts.fail(f"stream: status {reply.status}")
        time.sleep(rng.random())
        return
    done, finishes, seen = False, 0, 0
    for line in reply:
        if leaves and seen > rng.randrange(1, 20):
            c.close()
            counts.add("left")
            return
        if slow:
            time.sleep(0.05)
        if not line.startswith(b"data: "):
            continue
        seen += 1
        if line.strip() == b"data: [DONE]":
            done = True
            continue
        event = json.loads(line[6:])
        if "error" in event:
            counts.fail(f"stream: {event}")
        finishes += sum(1 for x in event.get("choices", ()) if x["finish_reason"])
    if not done or finishes != body["n"]:
        counts.fail(f"stream ended with {finishes} of {body['n']} choices, done {done}")


def garbage(port, rng, counts):
    s = socket.create_connection(("127.0.0.1", port), timeout=60)
    kind = rng.randrange(4)
    if kind == 0:
        s.sendall(bytes(rng.randrange(256) for _ in range(rng.randrange(1, 400))) + b"\r\n\r\n")
    elif kind == 1:
        s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"prompt\":")
    elif kind == 2:
        text = bytes(rng.choice(b'{}[]",:0aetrunl\\ ') for _ in range(200))
        s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 200\r\n\r\n" + text)
    if kind == 2:
        s.settimeout(60)
        counts.add(int(s.recv(200).split()[1]))
    counts.add("garbage")
    s.close()


def client(port, seed, until, counts):
    rng = random.Random(seed)
    while time.monotonic() < until:
        kind, began = rng.random(), time.monotonic()
        try:
            if kind < 0.35:
                whole_answer(port, rng, counts)
            elif kind < 0.9:
                stream(port, rng, counts, kind > 0.7, 0.65 < kind < 0.7)
            else:
                garbage(port, rng, counts)
        except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
            what = "whole answer" if kind < 0.35 else "stream" if kind < 0.9 else "garbage"
            counts.fail(f"{what}, {time.monotonic() - began:.1f} s: {type(error).__name__}: {error}")
            time.sleep(0.1)


def settle(port, counts):
    for _ in range(300):
        m = metrics(port)
        left = {k: m[k] for k in ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc")}
        if not any(left.values()):
            return m
        time.sleep(0.1)
    counts.fail(f"30 s after the last client: {left}")
    return m


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("ga")
    p.add_argument("model")
    p.add_argument("--seconds", type=float, default=600)
    p.add_argument("--clients", type=int, default=64)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--swap-space", type=float, default=0)
    p.add_argument("--json")
    a = p.parse_args()
    command = [a.ga, "serve", "-m", a.model, "--port", "0", "--max-sequences", "8", "--max-waiting", str(max(1, a.clients // 4)), "--context", "512",
               "--kv-tokens", "1536", "--request-seconds", "5"]
    if a.swap_space:
        command += ["--swap-space", str(a.swap_space), "--offload-prefixes"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    port = int(server.stdout.readline().split(":")[2].split()[0])
    counts, began = Counts(), time.monotonic()
    threads = [threading.Thread(target=client, args=(port, a.seed * 1000 + i, began + a.seconds, counts)) for i in range(a.clients)]
    for t in threads:
        t.start()
    memory = []
    while time.monotonic() < began + a.seconds and server.poll() is None:
        time.sleep(min(5, a.seconds / 20))
        memory.append(rss_mib(server.pid))
    for t in threads:
        t.join()
    last = settle(port, counts) if server.poll() is None else {}
    server.terminate()
    rc = server.wait(timeout=60)
    third = max(1, len(memory) // 3)
    grown = max(memory[-third:]) / max(memory[third : 2 * third] or memory)
    if grown > 1.05:
        counts.fail(f"memory grew by {100 * (grown - 1):.1f} % from the second third to the last")
    if a.swap_space and not (last.get("vllm:kv_offload_store_bytes_total") and last.get("vllm:kv_offload_load_bytes_total")):
        counts.fail("no page went to the swap space and came back")
    if rc:
        counts.fail(f"the server ended with {rc}")
    result = {"seconds": round(time.monotonic() - began, 1), "answers": {str(k): v for k, v in sorted(counts.by.items(), key=str)}, "rss_mib": [round(m, 1) for m in memory[:: max(1, len(memory) // 12)]],
              "swapped_out_bytes": last.get("vllm:kv_offload_store_bytes_total"), "swapped_in_bytes": last.get("vllm:kv_offload_load_bytes_total"),
              "preemptions": last.get("vllm:num_preemptions_total"), "prefix_hits": last.get("vllm:prefix_cache_hits_total"),
              "generated": last.get("vllm:generation_tokens_total"), "wrong": counts.wrong}
    print(json.dumps(result, indent=1))
    if a.json:
        with open(a.json, "w") as f:
            json.dump(result, f, indent=1)
    return 1 if counts.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
