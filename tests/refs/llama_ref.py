"""A thin layer over llama-cpp-python's C bindings: load, tokenise, evaluate, read logits. Used by the make_*.py scripts.

Evaluation is made as exact as llama.cpp allows on a CPU: f32 KV cache, flash attention off, full sliding-window cache.
What is left is its rounding of activations to 8 bits before each quantised matrix product.
"""
import ctypes, os
import numpy as np
import llama_cpp as L
from text_escape import escape  # noqa: F401 (used by the scripts that import this one)


@L.llama_log_callback
def _quiet(level, text, user):
    if level == 4:  # GGML_LOG_LEVEL_ERROR
        os.write(2, text)


L.llama_log_set(_quiet, ctypes.c_void_p(0))
L.llama_backend_init()


def versions():
    return f"llama-cpp-python {L.__version__}; {L.llama_print_system_info().decode().strip()}"


class Model:
    def __init__(self, path, n_ctx=0, threads=1, exact=True, vocab_only=False, n_outputs=None):
        mp = L.llama_model_default_params()
        mp.vocab_only, mp.n_gpu_layers = vocab_only, 0
        self.model = L.llama_model_load_from_file(path.encode(), mp)
        if not self.model:
            raise SystemExit(f"cannot load {path}")
        self.vocab = L.llama_model_get_vocab(self.model)
        self.n_vocab = L.llama_vocab_n_tokens(self.vocab)
        self.bos = L.llama_vocab_bos(self.vocab)
        self.add_bos = L.llama_vocab_get_add_bos(self.vocab)
        self.ctx = None
        if n_ctx:
            cp = L.llama_context_default_params()
            cp.n_ctx = cp.n_batch = n_ctx
            cp.n_ubatch = min(512, n_ctx)
            cp.n_threads = cp.n_threads_batch = threads
            cp.no_perf = True
            if exact:
                cp.type_k = cp.type_v = 0    # GGML_TYPE_F32
                cp.flash_attn_type = 0       # disabled
                cp.swa_full = True
            self.ctx = L.llama_init_from_model(self.model, cp)
            self.batch = L.llama_batch_init(n_ctx, 0, 1)
            self.pos = 0

    def tokenize(self, text, special=False, add_special=True):
        """ids of text (str or bytes)"""
        raw = text.encode() if isinstance(text, str) else bytes(text)
        n = len(raw) + 16
        buf = (ctypes.c_int32 * n)()
        got = L.llama_tokenize(self.vocab, raw, len(raw), buf, n, add_special, special)
        if got < 0:
            n = -got
            buf = (ctypes.c_int32 * n)()
            got = L.llama_tokenize(self.vocab, raw, len(raw), buf, n, add_special, special)
        return list(buf[:got])

    def piece(self, token):
        buf = ctypes.create_string_buffer(256)
        n = L.llama_token_to_piece(self.vocab, token, buf, 256, 0, True)
        return buf.raw[:max(n, 0)]

    def is_eog(self, token):
        return L.llama_vocab_is_eog(self.vocab, token)

    def reset(self):
        L.llama_memory_clear(L.llama_get_memory(self.ctx), True)
        self.pos = 0

    def eval(self, ids, want=None):
        """Appends ids; returns logits [len(want), n_vocab] of the positions in want (default: the last of ids)."""
        want = {len(ids) - 1} if want is None else set(want)
        b = self.batch
        b.n_tokens = len(ids)
        for i, t in enumerate(ids):
            b.token[i], b.pos[i], b.n_seq_id[i], b.seq_id[i][0], b.logits[i] = t, self.pos + i, 1, 0, int(i in want)
        if L.llama_decode(self.ctx, b):
            raise SystemExit("llama_decode failed")
        self.pos += len(ids)
        rows = [np.ctypeslib.as_array(L.llama_get_logits_ith(self.ctx, i), (self.n_vocab,)).copy() for i in sorted(want)]
        return np.stack(rows) if rows else None


def top(row, k):
    """The k largest, ties broken by the lower id."""
    idx = np.argpartition(-row, k)[:k]
    return sorted(((int(i), float(row[i])) for i in idx), key=lambda p: (-p[1], p[0]))


def f32(x):
    return f"{np.float32(x):.9g}"
