"""Llama with llama-cpp-python's names. Requests of any number of threads go through one Engine."""
import itertools
import random
import re
import secrets
import threading
import time

from . import _core
from ._engine import Engine
from ._llama_sequence import LoneRequest, Sequence
from ._llm import cut_at, stop_texts
from ._model import Model
from ._options import check_options

_numbers = itertools.count(1)

# Options of llama-cpp-python that GA has only as they are by default: what may be given. 10000.0 and 1.0 are what langchain's LlamaCpp
# passes when its user asked for nothing: RoPE is always the model's own.
_FIXED = {
    "split_mode": (1,), "main_gpu": (0,), "tensor_split": (None,), "use_mlock": (False,), "kv_overrides": (None, {}),
    "rope_scaling_type": (None, -1), "pooling_type": (-1,), "attention_type": (-1,), "rope_freq_base": (0.0, 10000.0),
    "rope_freq_scale": (0.0, 1.0), "yarn_ext_factor": (-1.0,), "yarn_attn_factor": (1.0,), "yarn_beta_fast": (32.0,),
    "yarn_beta_slow": (1.0,), "yarn_orig_ctx": (0,), "swa_full": (None, False), "lora_base": (None,), "lora_scale": (1.0,),
    "lora_path": (None,), "numa": (False, 0), "chat_handler": (None,), "draft_model": (None,), "tokenizer": (None,), "type_k": (None, 1),
    "type_v": (None, 1), "spm_infill": (False,), "f16_kv": (True,), "n_parts": (-1,)}
# Options that change how llama.cpp computes, never what: any value may be given.
_HINTS = {"n_ubatch", "n_threads_batch", "offload_kqv", "flash_attn", "op_offload", "no_perf", "verbose"}
_CALL = {"grammar": (None,), "tfs_z": (1.0,), "mirostat_mode": (0,), "mirostat_tau": None, "mirostat_eta": None, "model": None,
         "xtc_threshold": None, "xtc_probability": (0.0,)}
_CHAT = _CALL | {"response_format": (None, {"type": "text"}), "functions": (None,), "function_call": (None, "none"),
                 "tool_choice": (None, "auto", "none"), "logprobs": (None, False), "top_logprobs": (None, 0)}
# As the models' cards describe them.
_FORMATS = {
    "chatml": "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
              "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "llama-2": "{% set ns = namespace(system='') %}{% for m in messages %}{% if m.role == 'system' %}"
               "{% set ns.system = '<<SYS>>\n' + m.content + '\n<</SYS>>\n\n' %}{% elif m.role == 'user' %}"
               "{{ bos_token }}[INST] {{ ns.system }}{{ m.content }} [/INST]{% set ns.system = '' %}"
               "{% else %} {{ m.content }} {{ eos_token }}{% endif %}{% endfor %}"}


class Llama:
    """Llama(model_path, *, n_ctx=512, n_gpu_layers=-1, n_threads=None, n_batch=0, seed=None, device='auto', embedding=False,
    vocab_only=False, logits_all=False, last_n_tokens_size=64, chat_format=None, use_mmap=True, max_sequences=0, ...)

    n_ctx 0: the model's own. seed: calls without one draw theirs from it, so that they differ; None: by chance. With embedding=True there is embed() and no completion (encoders need it); with vocab_only=True the
    tokenizer alone. chat_format: None (the model's template), 'chatml' or 'llama-2'. Options of llama-cpp-python that GA does not have are
    refused by name unless they have their default; those that only say how to compute are taken and not looked at.

    Completions of all threads run in one Engine. eval(), sample(), generate() and states, and completions with processors of logits,
    run beside it, by the same weights and a context of their own; one thread at a time may use that state."""

    def __init__(self, model_path, *, n_ctx=512, n_gpu_layers=-1, n_threads=None, n_batch=0, seed=None, device="auto", embedding=False,
                 vocab_only=False, logits_all=False, last_n_tokens_size=64, chat_format=None, use_mmap=True, max_sequences=0, **options):
        check_options("Llama", options, _FIXED, _HINTS)
        if chat_format is not None and chat_format not in _FORMATS:
            raise _core.UnsupportedError(f"Llama: chat_format is {chat_format!r}; allowed are None, {', '.join(map(repr, _FORMATS))}")
        self.model_path, self.chat_format = str(model_path), chat_format
        self._seed_with(seed)
        n_batch = n_batch and max(n_batch, 16)  # the engine's least; it is only how many tokens are computed at once
        self._sizes = {"n_ctx": n_ctx, "n_batch": n_batch, "last": last_n_tokens_size}
        self._logits_all, self._lock, self._second, self._state = logits_all, threading.RLock(), None, None
        self.model = Model(model_path, device, threads=n_threads or 0, gpu_layers=n_gpu_layers, n_ctx=n_ctx, no_mmap=not use_mmap,
                           vocab_only=vocab_only)
        self.engine = None if embedding or vocab_only else Engine(self.model, n_ctx=n_ctx, step_tokens=n_batch, max_sequences=max_sequences)

    @classmethod
    def from_pretrained(cls, repo_id, filename, **options):
        """A model that `ga pull hf:REPO_ID` has fetched. filename: a file of it, or '*TYPE.gguf'. Nothing is fetched here."""
        kind = re.fullmatch(r"\*-?([A-Za-z0-9_]+)\.gguf", filename)
        if not kind and set(filename) & set("*?["):
            raise _core.UnsupportedError(f"from_pretrained: filename is {filename!r}; allowed is a file's name, or '*TYPE.gguf' such as '*Q8_0.gguf'")
        return cls(f"hf:{repo_id}:{kind[1]}" if kind else f"hf:{repo_id}/{filename}", **options)

    @property
    def _ctx(self):
        """What llama-cpp-python's own tests look at: an object with `ctx`."""
        from types import SimpleNamespace
        return SimpleNamespace(ctx=self.model.context)

    def n_ctx(self):
        return self.engine.stats()["context"] if self.engine else self.model.info["context"]

    def n_vocab(self):
        return self.model.info["vocab"]

    def n_embd(self):
        return self.model.info["width"]

    def token_bos(self):
        token = self.model.special("bos")
        return -1 if token is None else token

    def token_eos(self):
        token = self.model.special("eos")
        return -1 if token is None else token

    def token_nl(self):
        ids = self.model.tokenize("\n", False)
        return ids[-1] if ids else -1

    def tokenize(self, text, add_bos=True, special=False):
        """Ids of bytes or a text."""
        return self.model.tokenize(text.decode("utf-8", "replace") if isinstance(text, bytes) else text, add_bos, special)

    def detokenize(self, tokens, prev_tokens=None, special=False):
        """Bytes of ids. Those that begin a text, by the token bos, lose the space that SentencePiece puts before each text; those that
        go on from others, as prev_tokens says or for lack of bos, keep it."""
        tokens = list(tokens)
        if tokens and not prev_tokens and tokens[0] == self.token_bos():
            return self.model.detokenize(tokens, special).encode()
        detok = _core.Detokenizer(self.model, special)
        return ("".join(map(detok.push, tokens)) + detok.flush()).encode()

    def embed(self, input):
        """A list of floats, or one a text when `input` is a list of texts; L2-normalised. Needs embedding=True."""
        if self.engine:
            raise _core.StateError("embed: this Llama completes text; allowed is one made with embedding=True")
        one = lambda text: memoryview(self.model.embed(text)).tolist()
        return one(input) if isinstance(input, str) else [one(text) for text in input]

    def create_embedding(self, input):
        texts = [input] if isinstance(input, str) else input
        data = [{"object": "embedding", "embedding": row, "index": i} for i, row in enumerate(self.embed(texts))]
        used = sum(len(self.model.tokenize(text)) for text in texts)
        return {"object": "list", "data": data, "model": self.model_path, "usage": {"prompt_tokens": used, "total_tokens": used}}

    # --- one sequence, token by token ---

    def _model_alone(self):
        """The model that no engine uses."""
        with self._lock:
            if self._second is None:
                self._second = self.model.share() if self.engine else self.model
            return self._second

    def _sequence(self):
        with self._lock:
            if self._state is None:
                self._state = Sequence(self._model_alone(), logits_all=self._logits_all, seed=self.seed, **self._sizes)
            return self._state

    n_tokens = property(lambda self: len(self._sequence().ids), doc="How many ids eval() has got.")
    _is_recurrent = _is_hybrid = False  # what llama-cpp-python calls models of state-space layers; GA's sessions hold keys and values

    @property
    def input_ids(self):
        from array import array
        return array("i", self._sequence().ids)

    @property
    def eval_logits(self):
        """Lists of logits: one a token with logits_all=True, else of the last token."""
        return [row.tolist() for row in self._sequence().rows if row is not None]

    @property
    def logits(self):
        """Logits of the last token, [vocab] f32: a memoryview, which numpy.asarray and torch.frombuffer take as it is."""
        return self._sequence().row()

    def _seed_with(self, seed):
        """A seed in 32 bits, of which calls without one draw theirs; None and llama.cpp's -1: by chance."""
        self.seed = secrets.randbits(32) if seed is None or seed in (-1, 0xFFFFFFFF) else seed
        self._seeds = random.Random(self.seed)

    def set_seed(self, seed):
        """For the calls to come, and for sample() and generate(). None or -1: a seed by chance."""
        self._seed_with(seed)
        if self._state:
            self._state.seed, self._state.rng = self.seed, _core.rng(self.seed)

    def reset(self):
        """Forgets all ids."""
        self._sequence().keep(0)

    def eval(self, tokens):
        """Appends ids; their logits are what sample() looks at."""
        self._sequence().eval(tokens)

    def sample(self, top_k=40, top_p=0.95, min_p=0.05, typical_p=1.0, temp=0.8, repeat_penalty=1.0, frequency_penalty=0.0,
               presence_penalty=0.0, logits_processor=None, idx=None, **options):
        """An id drawn from the logits of the last token, or of the one at idx."""
        check_options("sample", options, _CALL)
        return self._sequence().sample(idx, logits_processor, top_k=max(top_k, 0), top_p=top_p, min_p=min_p, typical_p=typical_p,
                                       temperature=temp, repetition_penalty=repeat_penalty, frequency_penalty=frequency_penalty,
                                       presence_penalty=presence_penalty)[0]

    def generate(self, tokens, top_k=40, top_p=0.95, min_p=0.05, typical_p=1.0, temp=0.8, repeat_penalty=1.0, reset=True,
                 frequency_penalty=0.0, presence_penalty=0.0, logits_processor=None, stopping_criteria=None, **options):
        """Yields ids without end. With reset what eval() got before counts only as far as `tokens` begin with it."""
        check_options("generate", options, _CALL)
        made = self._sequence().generate(tokens, logits_processor, stopping_criteria, (lambda: self.reset()) if reset else None, top_k=max(top_k, 0),
                                         top_p=top_p, min_p=min_p, typical_p=typical_p, temperature=temp, repetition_penalty=repeat_penalty,
                                         frequency_penalty=frequency_penalty, presence_penalty=presence_penalty)
        return (token for token, _ in made)

    def save_state(self):
        return self._sequence().save()

    def load_state(self, state):
        self._sequence().load(state)

    # --- completions ---

    def __call__(self, prompt, *args, **options):
        return self.create_completion(prompt, *args, **options)

    def create_completion(self, prompt, suffix=None, max_tokens=16, temperature=0.8, top_p=0.95, min_p=0.05, typical_p=1.0,
                          logprobs=None, echo=False, stop=None, frequency_penalty=0.0, presence_penalty=0.0, repeat_penalty=1.0,
                          top_k=40, stream=False, seed=None, logits_processor=None, stopping_criteria=None, logit_bias=None, **options):
        """A dict as OpenAI's completions have it, or with stream=True an iterator over such. prompt: a text or ids. suffix: a text that
        follows: the completion fills the gap, where the model has tokens for that. With logits_processor or stopping_criteria the request runs outside of the engine."""
        check_options("create_completion", options, _CALL)
        gap = self._gap_ids(prompt, suffix)
        ids, suffix = (gap, None) if gap else (self.model.ids_of(prompt), suffix)
        head = self._head("cmpl", "text_completion")
        events = self._events(ids, max_tokens, stop, logprobs, logits_processor, stopping_criteria, temperature=temperature, top_p=top_p,
                              min_p=min_p, typical_p=typical_p, frequency_penalty=frequency_penalty, presence_penalty=presence_penalty,
                              repetition_penalty=repeat_penalty, top_k=max(top_k, 0), seed=seed, logit_bias=logit_bias,
                              stop_ids=self._specials("fim_pad", "fim_repo", "fim_file") if gap else ())
        start = (prompt if isinstance(prompt, str) else self.model.detokenize(prompt)) if echo else ""
        choice = lambda text, reason, lp=None: {"index": 0, "text": text, "logprobs": lp, "finish_reason": reason}
        if stream:
            return self._stream(head, events, choice, start, suffix or "", None if logprobs is None else self._logprobs)
        text, reason, tokens = self._collect(events)
        lp = self._logprobs(tokens, len(start)) if logprobs is not None else None
        return head | {"choices": [choice(start + text + (suffix or ""), reason, lp)], "usage": self._usage(ids, tokens)}

    def _specials(self, *names):
        return [token for token in map(self.model.special, names) if token is not None]

    def _gap_ids(self, prompt, suffix):
        """Ids of the texts on both sides of a gap, with the model's tokens around them; None: there is no gap, or no such tokens."""
        around = self._specials("fim_prefix", "fim_suffix", "fim_middle")
        if suffix is None or len(around) < 3:
            return None
        before = self.model.tokenize(prompt, False) if isinstance(prompt, str) else list(prompt)
        bos = [token for token in self.model.tokenize("")[:1] if token == self.token_bos()]
        return [*bos, around[0], *before, around[1], *self.model.tokenize(suffix, False), around[2]]

    def create_chat_completion(self, messages, *, max_tokens=None, temperature=0.2, top_p=0.95, top_k=40, min_p=0.05, typical_p=1.0,
                               stream=False, stop=None, seed=None, presence_penalty=0.0, frequency_penalty=0.0, repeat_penalty=1.0,
                               logits_processor=None, logit_bias=None, tools=None, **options):
        """A dict as OpenAI's chat completions have it, or with stream=True an iterator over chunks of one."""
        check_options("create_chat_completion", options, _CHAT)
        ids = self.model.chat_ids(messages, tools=tools, chat_template=_FORMATS.get(self.chat_format))
        events = self._events(ids, max_tokens, stop, None, logits_processor, None, temperature=temperature, top_p=top_p, min_p=min_p,
                              typical_p=typical_p, frequency_penalty=frequency_penalty, presence_penalty=presence_penalty,
                              repetition_penalty=repeat_penalty, top_k=max(top_k, 0), seed=seed, logit_bias=logit_bias)
        if stream:
            delta = lambda text, reason, lp=None: {"index": 0, "delta": {"content": text} if reason is None else {}, "logprobs": lp,
                                                   "finish_reason": reason}
            head = self._head("chatcmpl", "chat.completion.chunk")
            first = head | {"choices": [{"index": 0, "delta": {"role": "assistant"}, "logprobs": None, "finish_reason": None}]}
            return itertools.chain([first], self._stream(head, events, delta, "", "", None))
        text, reason, tokens = self._collect(events)
        message = {"role": "assistant", "content": text}
        return self._head("chatcmpl", "chat.completion") | {
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": reason}], "usage": self._usage(ids, tokens)}

    def close(self):
        if self.engine:
            self.engine.close()

    def _head(self, prefix, kind):
        return {"id": f"{prefix}-{next(_numbers)}", "object": kind, "created": int(time.time()), "model": self.model_path}

    def _usage(self, ids, tokens):
        return {"prompt_tokens": len(ids), "completion_tokens": len(tokens), "total_tokens": len(ids) + len(tokens)}

    def _events(self, ids, max_tokens, stop, logprobs, processor, criteria, *, seed, **options):
        """(text, token, reason): the request is queued at once; texts that may begin a stop text are held back."""
        if not self.engine:
            raise _core.StateError("create_completion: this Llama was made with embedding=True or vocab_only=True; allowed is one without")
        limit = -1 if max_tokens is None or max_tokens <= 0 else max_tokens
        with self._lock:
            seed = self._seeds.getrandbits(32) if seed is None or seed == -1 else seed
        if processor or criteria:
            if logprobs:
                raise _core.UnsupportedError(f"create_completion: logprobs is {logprobs} with a logits_processor; allowed are None and 0")
            model = self._model_alone()
            request = LoneRequest(model, Sequence(model, seed=seed, **self._sizes), ids, limit, processor, criteria, **options)
        else:
            room = self.n_ctx() - len(ids)  # a longer prompt is refused by the engine
            limit = min(limit, room) if limit > 0 and room > 0 else limit
            request = self.engine.submit(ids, limit, logprobs=-1 if logprobs is None else logprobs, seed=seed, **options)
        return self._read(request, stop_texts(stop))

    @staticmethod
    def _read(request, stops):
        held = ""
        for token in request:
            held += token.text
            if (place := cut_at(held, stops)) >= 0:
                request.cancel()
                yield held[:place], token, "stop"
                return
            keep = max((n for stop in stops for n in range(1, len(stop)) if held.endswith(stop[:n])), default=0)
            yield held[:len(held) - keep], token, None
            held = held[len(held) - keep:]
        reason = "stop" if request.finish_reason == "stop" else "length"
        yield held + request._detok.flush(), None, reason

    @staticmethod
    def _collect(events):
        text, tokens, reason = "", [], None
        for piece, token, reason in events:
            text += piece
            tokens += [token] if token else []
        return text, reason, tokens

    @staticmethod
    def _stream(head, events, choice, start, end, logprobs):
        offset = len(start)
        for piece, token, reason in events:
            if piece or start or (logprobs and token):
                yield head | {"choices": [choice(start + piece, None, logprobs([token], offset) if logprobs and token else None)]}
                start, offset = "", offset + len(token.text if token else "")
            if reason:
                yield head | {"choices": [choice(end, reason)]}

    def _logprobs(self, tokens, offset):
        name = lambda i: self.model.piece(i).decode("utf-8", "replace")
        starts = itertools.accumulate((len(t.text) for t in tokens[:-1]), initial=offset)
        return {"tokens": [name(t.id) for t in tokens], "text_offset": list(starts), "token_logprobs": [t.logprob for t in tokens],
                "top_logprobs": [{name(i): lp for i, lp in t.top or ()} for t in tokens]}
