#!/usr/bin/env python3
"""What `ga dist simulate` predicts for 2, 4 and 8 GPUs of one host, as one JSON file: written before anybody measures.

    dist_predict.py GA -o OUT.json

A tile's rate is that of one GPU's calls of its shape, measured on one and two H200 (H100 and H200 compute alike). Tiles
of methods that gather keys are plain calls; all others carry their partial result in f32, by slower kernels. The link is
the copy engine's: 370 GB/s each way. A method that gathers sends its keys in `GROUPS` groups of heads and computes one
while the next comes; the simulator knows one group, so the link is taken to be as many times faster."""
import argparse
import json
import subprocess

METHODS = "ring,zigzag,zigzag-direct,distflash,mesh,wallfacer,llama3,ulysses,usp"
GATHERS = ("llama3", "ulysses", "usp")
GROUPS = 4
LINK = 370.0
# TFLOP/s of a GPU's plain causal calls, by tokens a GPU: heads 16/16 and 32/8, head dim 128, bf16.
PLAIN = {8192: (735, 755), 16384: (755, 765), 32768: (700, 710), 65536: (660, 662), 131072: (661, 663), 262144: (661, 663)}
CARRIED = {8192: 0.82, 16384: 0.83, 32768: 0.80, 65536: 0.78, 131072: 0.77, 262144: 0.77}  # of the plain rate
BACKWARD = {8192: 570.0}
BACKWARD_LONG = 590.0
HEADS = ((16, 16), (32, 8))


def simulate(ga, ranks, method, tokens, heads, kv_heads, backward, rate, link):
    command = [ga, "dist", "simulate", "-n", str(ranks), "-m", method, "--type", "bf16", "--tokens", str(tokens * ranks), "--heads", str(heads),
               "--kv-heads", str(kv_heads), "--head-dim", "128", "--tflops", str(rate), "--gbytes", str(link), "--latency", "8", "--json"]
    done = subprocess.run(command + ["--backward"] * backward, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        return {"error": done.stderr.strip()[:200]}
    found = json.loads(done.stdout)
    return (found[0] if isinstance(found, list) else found)["seconds"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("ga", help="the program")
    p.add_argument("-o", "--out", required=True, help="JSON file")
    args = p.parse_args()
    rows = []
    for ranks in (2, 4, 8):
        for tokens, plain in PLAIN.items():
            for which, (heads, kv_heads) in enumerate(HEADS):
                row = {"ranks": ranks, "tokens_a_gpu": tokens, "heads": heads, "kv_heads": kv_heads, "methods": {}}
                for method in METHODS.split(","):
                    gathers = method in GATHERS
                    rate = plain[which] * (1 if method == "llama3" else CARRIED[tokens])
                    link = LINK * (GROUPS if gathers and method == "llama3" else 1)
                    forward = simulate(args.ga, ranks, method, tokens, heads, kv_heads, False, rate, link)
                    backward = simulate(args.ga, ranks, method, tokens, heads, kv_heads, True, BACKWARD.get(tokens, BACKWARD_LONG), LINK)
                    row["methods"][method] = {"forward_s": forward, "backward_s": backward}
                rows.append(row)
    with open(args.out, "w", encoding="utf-8") as f:
        json.dump({"link_gbytes": LINK, "plain_tflops": {str(k): v for k, v in PLAIN.items()}, "carried": {str(k): v for k, v in CARRIED.items()},
                   "groups": GROUPS, "rows": rows}, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
