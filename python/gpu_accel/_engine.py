"""Engine: many requests through one model at once."""
import sys
from typing import NamedTuple

from . import _core
from ._model import Model


class Token(NamedTuple):
    """One generated token. logprob and top ([(id, logprob), ...]) are set where they were asked for."""
    id: int
    text: str
    logprob: "float | None" = None
    top: "list | None" = None


class Request:
    """What Engine.submit() gives: iterate (also with `async for`) for Tokens as they come. One thread at a time reads one
    request. Afterwards finish_reason is 'stop', 'length', 'context' or 'cancelled'; a failure is raised."""

    def __init__(self, engine, base, with_logprobs):
        self._base, self._with_logprobs = base, with_logprobs
        self._detok = _core.Detokenizer(engine.model)
        self.finish_reason, self.prompt_logprobs = None, []

    def __iter__(self):
        return self

    def _token(self, event):
        """A Token, or None for what is none. The last one has the rest of the text."""
        kind, value, logprob, top = event
        if kind == "prompt":
            self.prompt_logprobs.append((value, logprob, top))
        elif kind == "end":
            self.finish_reason = value
            raise StopIteration
        else:
            text = self._detok.push(value)
            return Token(value, text, logprob, top) if self._with_logprobs else Token(value, text)

    def __next__(self):
        if self.finish_reason:
            raise StopIteration
        while (token := self._token(self._base.poll())) is None:
            pass
        return token

    def __aiter__(self):
        return self

    async def __anext__(self):
        import asyncio
        loop = asyncio.get_running_loop()
        while not self.finish_reason:
            event = self._base.poll(0)
            if event is None:
                event = await self._wait(loop)
            if event is None:
                continue
            try:
                if (token := self._token(event)) is not None:
                    return token
            except StopIteration:
                pass
        raise StopAsyncIteration

    async def _wait(self, loop):
        """Until the engine has something new; None after waking by the descriptor."""
        import os
        fd = self._base.fileno()
        if fd < 0:  # submitted outside of a loop: a thread waits
            return await loop.run_in_executor(None, self._base.poll, 100)
        woken = loop.create_future()
        loop.add_reader(fd, lambda: woken.done() or woken.set_result(None))
        try:
            if (event := self._base.poll(0)) is not None:  # it may have come before the reader
                return event
            await woken
            try:
                os.read(fd, 8)
            except BlockingIOError:
                pass
            return None
        finally:
            loop.remove_reader(fd)

    def text(self):
        """Waits for the end; all of the text, without the end token's."""
        return "".join(token.text for token in self) + self._detok.flush()

    def cancel(self):
        """Asks for the end; returns at once."""
        self._base.cancel()

    @property
    def info(self):
        """A dict: n_prompt, n_cached, n_generated, queue_seconds, first_token_seconds, total_seconds."""
        return self._base.info


class Engine(_core.EngineBase):
    """Engine(model, *, n_ctx=0, max_sequences=0, step_tokens=0, max_waiting=0, kv_tokens=0, kv_dtype=None, prefix_cache=True,
    deterministic=False, swap_bytes=0, offload_prefixes=False)

    Continuous batching over paged KV. model: a Model or a path. swap_bytes: host memory for pages of preempted requests, and
    with offload_prefixes for those of cached prefixes. While an engine lives it alone uses the model's context; all
    methods may be called from any thread. close(), or a `with` block, ends it."""

    def __new__(cls, model, *, device="auto", n_ctx=0, max_sequences=0, step_tokens=0, max_waiting=0, kv_tokens=0, kv_dtype=None,
                prefix_cache=True, deterministic=False, swap_bytes=0, offload_prefixes=False):
        model = model if isinstance(model, Model) else Model(model, device)
        return super().__new__(cls, model, n_ctx, max_sequences, step_tokens, max_waiting, kv_tokens, kv_dtype, prefix_cache,
                               deterministic, swap_bytes, offload_prefixes)

    def submit(self, text_or_ids, max_tokens=-1, *, logprobs=-1, **options):
        """Queues a request and returns a Request at once.

        max_tokens -1: what the context has room for. Further options: temperature, top_p, min_p, typical_p, top_k,
        repetition_penalty, presence_penalty, frequency_penalty, seed, min_tokens, stop_ids, prompt_logprobs, ignore_eos,
        logit_bias {id: bias}, priority, tenant, cache_salt, first_token_deadline, keep_seconds (how long its pages
        stay cached; below 0: not at all). logprobs: -1 none, else how many most
        probable tokens, 0 to 20. Raises ShapeError (prompt too long), BusyError (queue full), ArgumentError."""
        asyncio = sys.modules.get("asyncio")
        events = asyncio is not None and asyncio._get_running_loop() is not None
        ids = self.model.ids_of(text_or_ids)
        base = self._submit(ids, max_tokens, logprobs=logprobs, events=events, **options)
        return Request(self, base, logprobs >= 0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
