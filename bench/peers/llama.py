"""What llama_cpu.py and llama_cuda.py share: llama.cpp through llama-cpp-python, and `ga bench -m` as a process of its own."""
import ctypes, json, os, shlex, statistics, subprocess, time

import llama_cpp as L

SPEEDS = ("decode_tok_s", "prefill_tok_s")


@L.llama_log_callback
def quiet(level, text, user):
    if level == 4:
        os.write(2, text)


def start():
    L.llama_log_set(quiet, ctypes.c_void_p(0))
    L.llama_backend_init()


def load(path, gpu_layers, repack=True):
    mp = L.llama_model_default_params()
    mp.n_gpu_layers = gpu_layers
    mp.use_extra_bufts = repack
    model = L.llama_model_load_from_file(path.encode(), mp)
    if not model:
        raise SystemExit(f"cannot load {path}")
    return model


class Peer:
    """A context of a loaded model. a: prompt, decode, depth, threads; settings: fields of llama_context_params."""

    def __init__(self, model, a, **settings):
        cp = L.llama_context_default_params()
        cp.n_ctx = max(a.prompt, a.depth + a.decode)
        cp.n_batch = cp.n_ubatch = a.prompt
        cp.n_threads = cp.n_threads_batch = a.threads
        cp.no_perf = True
        for name, value in settings.items():
            setattr(cp, name, value)
        self.ctx = L.llama_init_from_model(model, cp)
        if not self.ctx:
            raise SystemExit(f"no context with {settings}")
        self.batch = L.llama_batch_init(max(a.prompt, a.depth), 0, 1)
        self.n_vocab = L.llama_vocab_n_tokens(L.llama_model_get_vocab(model))

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


def add_arguments(ap, threads, repeats, prompt, depth):
    ap.add_argument("model")
    ap.add_argument("-t", "--threads", type=int, default=threads)
    ap.add_argument("-r", "--repeats", type=int, default=repeats)
    ap.add_argument("--prompt", type=int, default=prompt)
    ap.add_argument("--decode", type=int, default=64)
    ap.add_argument("--depth", type=int, default=depth)
    ap.add_argument("--ours", metavar="CMD")


def ours(cmd):
    """Runs CMD, whose last line of output is {"decode_tok_s": x, "prefill_tok_s": y}."""
    out = subprocess.run(shlex.split(cmd), stdout=subprocess.PIPE, text=True, check=True).stdout
    r = json.loads(out.strip().splitlines()[-1])
    return {k: float(r[k]) for k in SPEEDS}


def summary(rounds):
    out = {}
    for k in SPEEDS:
        v = [r[k] for r in rounds]
        out[k] = round(statistics.median(v), 2)
        out[k + "_min"], out[k + "_max"] = round(min(v), 2), round(max(v), 2)
    return out


def setting(a):
    """What was run, for the report."""
    return {"model": os.path.basename(a.model), "threads": a.threads, "repeats": a.repeats, "prompt": a.prompt, "decode": a.decode,
            "depth": a.depth, "peer": f"llama-cpp-python {L.__version__}", "system": L.llama_print_system_info().decode().strip()}


def ratio(mine, theirs):
    return {k: round(mine[k] / theirs[k], 3) for k in SPEEDS}
