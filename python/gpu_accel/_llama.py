"""Llama with llama-cpp-python's names, for the plain cases. Requests of any number of threads go through one Engine."""
import itertools
import time

from . import _core
from ._engine import Engine
from ._llm import cut_at, stop_texts
from ._model import Model

_numbers = itertools.count(1)


class Llama:
    """Llama(model_path, *, n_ctx=512, n_gpu_layers=-1, n_threads=None, seed=0, device='auto', embedding=False)

    n_ctx 0: the model's own. With embedding=True there is embed() and no completion (encoders need it). Options of
    llama-cpp-python that GA does not have are refused by name, as Python does."""

    def __init__(self, model_path, *, n_ctx=512, n_gpu_layers=-1, n_threads=None, n_batch=0, seed=0, device="auto", embedding=False,
                 max_sequences=0, verbose=False):
        self.model_path, self.seed = str(model_path), seed
        self.model = Model(model_path, device, threads=n_threads or 0, gpu_layers=n_gpu_layers, n_ctx=n_ctx)
        self.engine = None if embedding else Engine(self.model, n_ctx=n_ctx, step_tokens=n_batch, max_sequences=max_sequences)

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

    def tokenize(self, text, add_bos=True, special=False):
        """Ids of bytes or a text."""
        return self.model.tokenize(text.decode("utf-8", "replace") if isinstance(text, bytes) else text, add_bos, special)

    def detokenize(self, tokens, special=False):
        """Bytes of ids."""
        return self.model.detokenize(tokens, special).encode()

    def embed(self, input):
        """A list of floats, or one a text when `input` is a list of texts. Needs embedding=True."""
        if self.engine:
            raise _core.StateError("embed: this Llama completes text; allowed is one made with embedding=True")
        one = lambda text: memoryview(self.model.embed(text)).tolist()
        return one(input) if isinstance(input, str) else [one(text) for text in input]

    def create_embedding(self, input):
        texts = [input] if isinstance(input, str) else input
        data = [{"object": "embedding", "embedding": row, "index": i} for i, row in enumerate(self.embed(texts))]
        used = sum(len(self.model.tokenize(text)) for text in texts)
        return {"object": "list", "data": data, "model": self.model_path, "usage": {"prompt_tokens": used, "total_tokens": used}}

    def __call__(self, prompt, **options):
        return self.create_completion(prompt, **options)

    def create_completion(self, prompt, *, suffix=None, max_tokens=16, temperature=0.8, top_p=0.95, min_p=0.05, typical_p=1.0,
                          logprobs=None, echo=False, stop=None, frequency_penalty=0.0, presence_penalty=0.0, repeat_penalty=1.0,
                          top_k=40, stream=False, seed=None, logit_bias=None):
        """A dict as OpenAI's completions have it, or with stream=True an iterator over such. prompt: a text or ids."""
        ids = self.model.ids_of(prompt)
        head = self._head("cmpl", "text_completion")
        events = self._events(ids, max_tokens, stop, logprobs, temperature=temperature, top_p=top_p, min_p=min_p, typical_p=typical_p,
                              frequency_penalty=frequency_penalty, presence_penalty=presence_penalty, repetition_penalty=repeat_penalty,
                              top_k=max(top_k, 0), seed=seed, logit_bias=logit_bias)
        start = (prompt if isinstance(prompt, str) else self.model.detokenize(ids)) if echo else ""
        choice = lambda text, reason, lp=None: {"index": 0, "text": text, "logprobs": lp, "finish_reason": reason}
        if stream:
            return self._stream(head, events, choice, start, suffix or "")
        text, reason, tokens = self._collect(events)
        lp = self._logprobs(tokens) if logprobs is not None else None
        return head | {"choices": [choice(start + text + (suffix or ""), reason, lp)], "usage": self._usage(ids, tokens)}

    def create_chat_completion(self, messages, *, max_tokens=None, temperature=0.2, top_p=0.95, top_k=40, min_p=0.05, typical_p=1.0,
                               stream=False, stop=None, seed=None, presence_penalty=0.0, frequency_penalty=0.0, repeat_penalty=1.0,
                               logit_bias=None, tools=None):
        """A dict as OpenAI's chat completions have it, or with stream=True an iterator over chunks of one."""
        ids = self.model.chat_ids(messages, tools=tools)
        events = self._events(ids, max_tokens, stop, None, temperature=temperature, top_p=top_p, min_p=min_p, typical_p=typical_p,
                              frequency_penalty=frequency_penalty, presence_penalty=presence_penalty, repetition_penalty=repeat_penalty,
                              top_k=max(top_k, 0), seed=seed, logit_bias=logit_bias)
        if stream:
            delta = lambda text, reason, lp=None: {"index": 0, "delta": {"content": text} if reason is None else {}, "logprobs": lp,
                                                   "finish_reason": reason}
            head = self._head("chatcmpl", "chat.completion.chunk")
            first = head | {"choices": [{"index": 0, "delta": {"role": "assistant"}, "logprobs": None, "finish_reason": None}]}
            return itertools.chain([first], self._stream(head, events, delta, "", ""))
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

    def _events(self, ids, max_tokens, stop, logprobs, *, seed, **options):
        """(text, token, reason): the request is queued at once; texts that may begin a stop text are held back."""
        if not self.engine:
            raise _core.StateError("create_completion: this Llama was made with embedding=True; allowed is one without")
        limit = -1 if max_tokens is None or max_tokens <= 0 else max_tokens
        request = self.engine.submit(ids, limit, logprobs=-1 if logprobs is None else logprobs,
                                     seed=self.seed if seed is None else seed, **options)
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
    def _stream(head, events, choice, start, end):
        for piece, _, reason in events:
            if piece or start:
                yield head | {"choices": [choice(start + piece, None)]}
                start = ""
            if reason:
                yield head | {"choices": [choice(end, reason)]}

    def _logprobs(self, tokens):
        name = lambda i: self.model.piece(i).decode("utf-8", "replace")
        return {"tokens": [name(t.id) for t in tokens], "token_logprobs": [t.logprob for t in tokens],
                "top_logprobs": [{name(i): lp for i, lp in t.top} for t in tokens]}
