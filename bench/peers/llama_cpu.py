#!/usr/bin/env python3
"""Speed of llama.cpp on the CPU: decode tokens/s and prefill tokens/s, as JSON on standard output.

    llama_cpu.py MODEL.gguf [-t 1] [-r 5] [--prompt 512] [--decode 64] [--depth 16] [--no-repack] [--ours 'CMD']

prefill: one batch of --prompt tokens into an empty cache. decode: --decode single tokens after --depth tokens. Default context settings
(f16 cache, flash attention as llama.cpp chooses), no sampling, so the time is that of the model alone. One unmeasured round first;
then -r rounds, of which medians and extremes are given. --ours runs CMD once a round, between two rounds of llama.cpp, and reads
{"decode_tok_s": x, "prefill_tok_s": y} from the last line of its output, so that both see the same noise.
Needs llama-cpp-python, built for this very CPU (CMAKE_ARGS=-DGGML_NATIVE=ON): "system" in the result says what it uses. With gcc 12 its
AMX code crashes (the compiler drops the stores of the tile configuration before ldtilecfg): build with a memory barrier there, or with
CFLAGS and CXXFLAGS "-mno-amx-tile -mno-amx-int8 -mno-amx-bf16".
"""
import argparse, json, os, resource, sys

import llama


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    llama.add_arguments(ap, threads=1, repeats=5, prompt=512, depth=16)
    ap.add_argument("--no-repack", action="store_true", help="no load-time weight layouts (no AMX either)")
    a = ap.parse_args()
    llama.start()
    peer = llama.Peer(llama.load(a.model, 0, not a.no_repack), a)
    peer.round(a)
    theirs, mine = [], []
    for _ in range(a.repeats):
        theirs.append(peer.round(a))
        if a.ours:
            mine.append(llama.ours(a.ours))
    out = {**llama.setting(a), "load_average": os.getloadavg()[0],
           "peak_rss_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1), "llama": llama.summary(theirs)}
    if mine:
        out["ours"] = llama.summary(mine)
        out["ratio"] = llama.ratio(out["ours"], out["llama"])
    json.dump(out, sys.stdout)
    print()


if __name__ == "__main__":
    main()
