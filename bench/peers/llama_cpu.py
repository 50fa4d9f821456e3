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
import argparse, ctypes, json, os, resource, shlex, statistics, subprocess, sys, time
import llama_cpp as L


@L.llama_log_callback
def quiet(level, text, user):
    if level == 4:
        os.write(2, text)


class Peer:
    def __init__(self, a):
        L.llama_log_set(quiet, ctypes.c_void_p(0))
        L.llama_backend_init()
        mp = L.llama_model_default_params()
        mp.n_gpu_layers = 0
        mp.use_extra_bufts = not a.no_repack
        self.model = L.llama_model_load_from_file(a.model.encode(), mp)
        if not self.model:
            raise SystemExit(f"cannot load {a.model}")
        cp = L.llama_context_default_params()
        cp.n_ctx = max(a.prompt, a.depth + a.decode)
        cp.n_batch = cp.n_ubatch = a.prompt
        cp.n_threads = cp.n_threads_batch = a.threads
        cp.no_perf = True
        self.ctx = L.llama_init_from_model(self.model, cp)
        self.batch = L.llama_batch_init(max(a.prompt, a.depth), 0, 1)
        self.n_vocab = L.llama_vocab_n_tokens(L.llama_model_get_vocab(self.model))

    def eval(self, pos, n):
        b = self.batch
        b.n_tokens = n
        for i in range(n):
            b.token[i] = 1000 + (pos + i) * 7919 % (self.n_vocab - 2000)
            b.pos[i], b.n_seq_id[i], b.seq_id[i][0], b.logits[i] = pos + i, 1, 0, int(i == n - 1)
        t = time.perf_counter()
        if L.llama_decode(self.ctx, b):
            raise SystemExit("llama_decode failed")
        L.llama_synchronize(self.ctx)
        return time.perf_counter() - t

    def round(self, a):
        L.llama_memory_clear(L.llama_get_memory(self.ctx), True)
        prefill = a.prompt / self.eval(0, a.prompt)
        L.llama_memory_clear(L.llama_get_memory(self.ctx), True)
        self.eval(0, a.depth)
        decode = a.decode / sum(self.eval(a.depth + i, 1) for i in range(a.decode))
        return {"decode_tok_s": decode, "prefill_tok_s": prefill}


def ours(cmd):
    out = subprocess.run(shlex.split(cmd), stdout=subprocess.PIPE, text=True, check=True).stdout
    r = json.loads(out.strip().splitlines()[-1])
    return {k: float(r[k]) for k in ("decode_tok_s", "prefill_tok_s")}


def summary(rounds):
    out = {}
    for k in ("decode_tok_s", "prefill_tok_s"):
        v = [r[k] for r in rounds]
        out[k] = round(statistics.median(v), 2)
        out[k + "_min"], out[k + "_max"] = round(min(v), 2), round(max(v), 2)
    return out


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model")
    ap.add_argument("-t", "--threads", type=int, default=1)
    ap.add_argument("-r", "--repeats", type=int, default=5)
    ap.add_argument("--prompt", type=int, default=512)
    ap.add_argument("--decode", type=int, default=64)
    ap.add_argument("--depth", type=int, default=16)
    ap.add_argument("--no-repack", action="store_true", help="no load-time weight layouts (no AMX either)")
    ap.add_argument("--ours", metavar="CMD")
    a = ap.parse_args()
    peer = Peer(a)
    peer.round(a)
    theirs, mine = [], []
    for _ in range(a.repeats):
        theirs.append(peer.round(a))
        if a.ours:
            mine.append(ours(a.ours))
    out = {"model": os.path.basename(a.model), "threads": a.threads, "repeats": a.repeats, "prompt": a.prompt, "decode": a.decode,
           "depth": a.depth, "peer": f"llama-cpp-python {L.__version__}", "system": L.llama_print_system_info().decode().strip(),
           "load_average": os.getloadavg()[0],
           "peak_rss_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1), "llama": summary(theirs)}
    if mine:
        out["ours"] = summary(mine)
        out["ratio"] = {k: round(out["ours"][k] / out["llama"][k], 3) for k in ("decode_tok_s", "prefill_tok_s")}
    json.dump(out, sys.stdout)
    print()


if __name__ == "__main__":
    main()
