#!/usr/bin/env python3
"""llama.cpp's CUDA backend beside `ga bench -m` on one NVIDIA GPU, taking turns: decode and prefill tokens/s, as JSON on standard output.

    llama_cuda.py MODEL.gguf --backend libggml-cuda.so --ours 'ga bench -m MODEL.gguf --device cuda:0 ... -r 1 --json'
                  [-r 5] [--prompt 2048] [--decode 64] [--depth 512] [--settings fa-ub512,fa-ub2048,ub512]

As llama-bench does: prefill is one llama_decode of --prompt tokens into an empty cache, decode is --decode single tokens after --depth,
each waited for with its logits on the host, f16 cache, all layers on the GPU. A setting has flash attention or not, and the physical
batch. Each run is a warm-up round and a measured one, ours too, as the GPU idles while a model is loaded; the runs of a turn are in random order.
Medians and extremes of -r turns; the ratio is against the best setting of each kind.
Needs llama-cpp-python and the backend, built from the same sources with -DGGML_CUDA=ON -DGGML_BACKEND_DL=ON -DGGML_CUDA_GRAPHS=ON
-DCMAKE_CUDA_ARCHITECTURES=90-real; ggml's libraries must be found by name (LD_LIBRARY_PATH), and cudart and cuBLAS 13.
"""
import argparse, ctypes, json, os, random, subprocess, sys

import llama
import llama_cpp as L


def load_backend(path):
    ggml = ctypes.CDLL(os.path.join(os.path.dirname(L.__file__), "lib", "libggml.so"))
    ggml.ggml_backend_load.restype = ctypes.c_void_p
    if not ggml.ggml_backend_load(path.encode()) or not L.llama_supports_gpu_offload():
        raise SystemExit(f"{path}: no backend with a GPU")


def settings_of(name):
    """"fa-ub512": flash attention, physical batches of 512."""
    fa, ub = name.startswith("fa-"), int(name.rpartition("ub")[2])
    return {"flash_attn_type": L.LLAMA_FLASH_ATTN_TYPE_ENABLED if fa else L.LLAMA_FLASH_ATTN_TYPE_DISABLED, "n_batch": 2048, "n_ubatch": ub}


def gpu():
    query = ["nvidia-smi", "-i", "0", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    return subprocess.run(query, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def warm_round(peer, a):
    peer.round(a)
    return peer.round(a)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    llama.add_arguments(ap, threads=4, repeats=5, prompt=2048, depth=512)
    ap.add_argument("--backend", required=True)
    ap.add_argument("--settings", default="fa-ub512,fa-ub2048")
    a = ap.parse_args()
    llama.start()
    load_backend(a.backend)
    model = llama.load(a.model, 999)
    peers = {name: llama.Peer(model, a, **settings_of(name)) for name in a.settings.split(",")}
    runs = {name: lambda p=p: warm_round(p, a) for name, p in peers.items()}
    if a.ours:
        runs["ours"] = lambda: llama.ours(a.ours)
    rounds = {name: [] for name in runs}
    for _ in range(a.repeats):
        for name in random.sample(list(runs), len(runs)):
            rounds[name].append(runs[name]())
            print(name, {k: round(v, 1) for k, v in rounds[name][-1].items()}, file=sys.stderr, flush=True)
    out = {**llama.setting(a), "gpu": gpu(), **{name: llama.summary(r) for name, r in rounds.items()}}
    if a.ours:
        best = {k: max(out[name][k] for name in peers) for k in llama.SPEEDS}
        out["ratio"] = llama.ratio(out["ours"], best)
    json.dump(out, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
