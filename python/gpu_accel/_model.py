"""Model: a file of weights, its tokenizer and chat template, and generation by one sequence."""
import json
import threading

from . import _core


class Model(_core.ModelBase):
    """Model(path, device='auto', *, threads=0, context=None, gpu_layers=-1, no_mmap=False, n_ctx=0,
    vocab_only=False, cpu_moe=False, n_cpu_moe=-1, expert_cache=0)

    path: a GGUF or safetensors model, or a name as `ga run -m` takes it; nothing is fetched. It has a Context of its own
    unless one is given. vocab_only: the tokenizer without weights. cpu_moe: the experts of all layers stay in host memory, where the CPU multiplies by them; n_cpu_moe: those of
    the first layers, -1: as few as the GPU's memory needs. expert_cache: bytes of GPU memory for a cache of these experts. Raises FileError, FormatError, UnsupportedError, OutOfMemoryError. Any number of threads may
    share a Model; calls take turns."""

    def __new__(cls, path, device="auto", *, threads=0, context=None, gpu_layers=-1, no_mmap=False, n_ctx=0, vocab_only=False, cpu_moe=False,
                n_cpu_moe=-1, expert_cache=0):
        if cpu_moe and n_cpu_moe >= 0:
            raise _core.ArgumentError(f"Model: cpu_moe means all layers, n_cpu_moe={n_cpu_moe} the first; give one of them")
        context = _core.Context(device, threads) if context is None else context
        self = super().__new__(cls, path, context, gpu_layers, no_mmap, n_ctx, vocab_only, 2**31 - 1 if cpu_moe else n_cpu_moe,
                               expert_cache)
        self.path = str(path)
        return self

    def share(self, context=None):
        """Another Model of the same weights, with a Context of its own: it computes while an Engine uses this one. The weights are
        there once. context: one of the same device; None: a new one. Raises ArgumentError (another device)."""
        other = self._share(_core.Context(self.context.device, self.context.threads) if context is None else context)
        other.path = self.path
        return other

    def tokenize(self, text, add_special=True, parse_special=False):
        """Ids of a text. add_special: the tokens that the model wants before and after. parse_special: names of control
        tokens become those tokens; never for text of users."""
        return self._tokenize(text, add_special, parse_special)

    def detokenize(self, ids, special=False):
        """The text of ids; control tokens are hidden unless special."""
        return self._detokenize(ids, special)

    def chat_ids(self, messages, *, add_generation_prompt=True, tools=None, chat_template=None, **variables):
        """Ids of a conversation by the model's template. messages: [{'role': ..., 'content': ...}, ...]. What a message
        says never becomes a control token. chat_template: Jinja text that stands for the model's. Further keywords are variables of the template."""
        context = {"messages": messages, "add_generation_prompt": add_generation_prompt, **variables}
        if tools is not None:
            context["tools"] = tools
        for name in ("bos", "eos"):
            token = self.special(name)
            context.setdefault(f"{name}_token", "" if token is None else self.piece(token).decode("utf-8", "replace"))
        return self._encode_json(json.dumps(context), chat_template, bool(context.get("tools")))

    def embed(self, text_or_ids):
        """Embedding of a text or of ids, L2-normalised: Array [info["embedding_width"]] f32."""
        return self._embed_ids(self.ids_of(text_or_ids))

    def ids_of(self, text_or_ids):
        return self.tokenize(text_or_ids) if isinstance(text_or_ids, str) else list(text_or_ids)

    def generate(self, text_or_ids, max_tokens=256, temperature=0.0, *, top_p=1.0, top_k=0, min_p=0.0, typical_p=1.0,
                 repetition_penalty=1.0, presence_penalty=0.0, frequency_penalty=0.0, penalty_last=64, seed=0, logit_bias=None,
                 ignore_eos=False, n_ctx=0):
        """Iterates over pieces of text as tokens come; ends at the model's end token, max_tokens or a full context.
        Closing the iterator stops. For many requests at once use Engine."""
        ids = self.ids_of(text_or_ids)
        detok = _core.Detokenizer(self)
        for token in self.generate_ids(ids, max_tokens, temperature, top_p=top_p, top_k=top_k, min_p=min_p, typical_p=typical_p,
                                       repetition_penalty=repetition_penalty, presence_penalty=presence_penalty,
                                       frequency_penalty=frequency_penalty, penalty_last=penalty_last, seed=seed,
                                       logit_bias=logit_bias, ignore_eos=ignore_eos, n_ctx=n_ctx):
            if text := detok.push(token):
                yield text
        if text := detok.flush():
            yield text

    def generate_ids(self, ids, max_tokens=256, temperature=0.0, *, penalty_last=64, seed=0, ignore_eos=False, n_ctx=0, **sampling):
        """As generate(), but gives ids. The end token is not given."""
        session = _core.Session(self, n_ctx)
        rng, seen, vocab = _core.rng(seed), list(ids), self.info["tokens"]
        following = ids
        for _ in range(max_tokens):
            logits = memoryview(session.eval(following, 1)).cast("B").cast("f")[:vocab]
            history = seen if penalty_last < 0 else seen[-penalty_last:] if penalty_last else []
            if history:
                from array import array
                sampling["history"] = array("i", history)
            token, _ = _core.sample(logits, temperature=temperature, rng=rng, **sampling)
            if self.is_eog(token) and not ignore_eos:
                return
            yield token
            seen.append(token)
            following = [token]
            if session.length >= session.n_ctx:
                return
