#!/usr/bin/env python3
"""ga quantize beside llama-quantize: each type's size, processor seconds, perplexity and divergence from the source.

    beside_llama.py GA COMPARE LLAMA_QUANTIZE SOURCE.gguf FOLDER OUT.json [TYPE...] [--timed SMALL.gguf] [--windows N] [--scored BYTES]

COMPARE is bench/quantize/compare.c, built; it measures the files of both. Both get the same importance matrix of
ga imatrix where a type is weighted. FOLDER takes the files; those that are there are not made again. Processor seconds
are of one thread on SMALL.gguf, even weights, best of 3. `same_kinds` tells whether both gave every tensor the same type.
llama.cpp writes q2_k_s only with a matrix. Prints rows of a Markdown table."""
import argparse
import json
import os
import resource
import statistics
import subprocess

TYPES = "bf16 q8_0 q6_k q5_k_m q5_k_s q5_1 q5_0 q4_k_m q4_k_s iq4_nl iq4_xs q4_1 q4_0 q3_k_l q3_k_m q3_k_s q2_k q2_k_s".split()
WEIGHTED = "q4_k_m iq4_xs q4_0 q3_k_m q2_k q2_k_s".split()
ONLY_WEIGHTED = ["q2_k_s"]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def timed(command):
    """Processor seconds of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, 2)


def kinds(ga, path):
    info = json.loads(subprocess.run([ga, "info", "-m", path, "--tensors", "--json"], check=True, capture_output=True).stdout)
    return {t["name"]: t["type"] for t in info["tensors"]}


def make_texts(folder, scored_bytes):
    with open(os.path.join(ROOT, "tests/data/english.txt"), "rb") as f:
        text = f.read()
    scored, read = os.path.join(folder, "scored.txt"), os.path.join(folder, "read.txt")
    for path, part in ((scored, text[:scored_bytes]), (read, text[150_000:250_000])):
        with open(path, "wb") as f:
            f.write(part)
    return scored, read


def commands(args, source, stem, kind, matrix):
    """{who: command}; matrix: None for even weights."""
    more = ["-i", matrix] if matrix else []
    theirs = ["--imatrix", matrix] if matrix else []
    return {"ga": [args.ga, "quantize", source, stem + ".gguf", kind, "--force", "-t", "1", *more],
            "llama": [args.llama, "--allow-requantize", *theirs, source, stem + "-llama.gguf", kind.upper(), "1"]}


def make_files(args, matrix):
    rows = []
    for kind in args.types or TYPES:
        for weighted in (False, True) if kind in WEIGHTED else (False,):
            if kind in ONLY_WEIGHTED and not weighted:
                continue
            row = {"type": kind, "weighted": weighted, "ga": {}, "llama": {}}
            stem = os.path.join(args.folder, kind + ("-i" if weighted else ""))
            for who, command in commands(args, args.source, stem, kind, matrix if weighted else None).items():
                row[who]["file"] = stem + (".gguf" if who == "ga" else "-llama.gguf")
                if not os.path.exists(row[who]["file"]):
                    timed(command)
            row["same_kinds"] = kinds(args.ga, row["ga"]["file"]) == kinds(args.ga, row["llama"]["file"])
            if args.timed and not weighted:
                stem = os.path.join(args.folder, "timed")
                for who, command in commands(args, args.timed, stem, kind, None).items():
                    row[who]["cpu_seconds"] = min(timed(command) for _ in range(3))
            rows.append(row)
    return rows


def paired(ours, theirs):
    """Mean of the differences of windows' losses (nats), and its standard error."""
    d = [a - b for a, b in zip(ours, theirs)]
    return round(statistics.fmean(d), 6), round(statistics.stdev(d) / len(d) ** 0.5, 6) if len(d) > 1 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("ga", "compare", "llama", "source", "folder", "out"):
        parser.add_argument(name)
    parser.add_argument("types", nargs="*")
    parser.add_argument("--windows", type=int, default=40)
    parser.add_argument("--scored", type=int, default=100_000, help="bytes of the text; an importance matrix is measured on bytes 150,000 to 250,000")
    parser.add_argument("--timed")
    args = parser.parse_args()
    scored, read = make_texts(args.folder, args.scored)
    matrix = os.path.join(args.folder, "matrix.gguf")
    subprocess.run([args.ga, "imatrix", "-m", args.source, "-f", read, "-o", matrix, "--limit", "24", "--force"], check=True, stdout=subprocess.DEVNULL)
    rows = make_files(args, matrix)
    files = [row[who]["file"] for row in rows for who in ("ga", "llama")]
    out = subprocess.run([args.compare, scored, "256", str(args.windows), args.source, *files], check=True, stdout=subprocess.PIPE, text=True).stdout
    found = [json.loads(line) for line in out.splitlines()]
    print("| type | MB | perplexity, GA | llama.cpp | KL, GA | llama.cpp | seconds, GA | llama.cpp |\n|---|---|---|---|---|---|---|---|")
    for row, *pair in zip(rows, found[1::2], found[2::2]):
        for who, f in zip(("ga", "llama"), pair):
            row[who].update(bytes=os.path.getsize(row[who].pop("file")), perplexity=f["perplexity"], kl=f["kl"], same_top=f["same_top"])
        row["loss_difference"], row["standard_error"] = paired(pair[0]["windows"], pair[1]["windows"])
        a, b = row["ga"], row["llama"]
        print(f"| {row['type']}{', weighted' if row['weighted'] else ''} | {a['bytes'] / 1e6:.1f}{'' if row['same_kinds'] else ' / %.1f' % (b['bytes'] / 1e6)} | {a['perplexity']:.3f} | {b['perplexity']:.3f} "
              f"| {a['kl']:.5f} | {b['kl']:.5f} | {a.get('cpu_seconds', '')} | {b.get('cpu_seconds', '')} |")
    with open(args.out, "w") as f:
        json.dump({"source": os.path.basename(args.source), "source_perplexity": found[0]["perplexity"], "tokens": found[0]["tokens"],
                   "rows": rows}, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
