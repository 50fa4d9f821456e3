"""LLM and SamplingParams with vLLM's names, for the plain cases."""
import secrets
from dataclasses import dataclass, field

from . import _core
from ._engine import Engine
from ._model import Model


@dataclass
class SamplingParams:
    """What vLLM's class of that name has, for one answer a prompt. `stop`: texts that end an answer and are cut off."""
    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    seed: "int | None" = None
    stop: "str | list[str] | None" = None
    stop_token_ids: "list[int] | None" = None
    ignore_eos: bool = False
    max_tokens: "int | None" = 16
    min_tokens: int = 0
    logprobs: "int | None" = None
    logit_bias: "dict[int, float] | None" = None

    def options(self, index=0):
        """The options of Engine.submit() for answer `index`."""
        sampling = {name: getattr(self, name) for name in ("temperature", "top_p", "min_p", "presence_penalty", "frequency_penalty",
                                                           "repetition_penalty", "ignore_eos", "min_tokens", "logit_bias")}
        return sampling | {"max_tokens": -1 if self.max_tokens is None else self.max_tokens, "top_k": max(self.top_k, 0),
                           "seed": secrets.randbits(63) if self.seed is None else self.seed + index, "stop_ids": self.stop_token_ids,
                           "logprobs": -1 if self.logprobs is None else self.logprobs}


@dataclass
class CompletionOutput:
    index: int
    text: str
    token_ids: list
    finish_reason: "str | None" = None
    logprobs: "list | None" = None
    cumulative_logprob: "float | None" = None


@dataclass
class RequestOutput:
    request_id: str
    prompt: "str | None"
    prompt_token_ids: list
    outputs: list = field(default_factory=list)
    finished: bool = True


def is_number(x):
    return hasattr(type(x), "__index__") and not hasattr(x, "__len__")


def stop_texts(stop):
    return [stop] if isinstance(stop, str) else list(stop or [])


def cut_at(text, stops):
    """Where the first of the stop texts begins, -1 when there is none."""
    found = [place for place in (text.find(stop) for stop in stops if stop) if place >= 0]
    return min(found, default=-1)


class LLM:
    """LLM(model, *, device='auto', max_model_len=0, max_num_seqs=0): a model behind an engine, as vLLM has it."""

    def __init__(self, model, *, device="auto", max_model_len=0, max_num_seqs=0, **engine):
        self.model = model if isinstance(model, Model) else Model(model, device, n_ctx=max_model_len)
        self.engine = Engine(self.model, n_ctx=max_model_len, max_sequences=max_num_seqs, **engine)

    def generate(self, prompts, sampling_params=None):
        """All prompts at once. prompts: a text, ids, or a list of either, or of {'prompt_token_ids': ids}. sampling_params:
        one SamplingParams, or one a prompt. Returns [RequestOutput], in the order of the prompts."""
        if isinstance(prompts, str) or (len(prompts) and is_number(prompts[0])):
            prompts = [prompts]
        params = sampling_params or SamplingParams()
        params = params if isinstance(params, list) else [params] * len(prompts)
        if len(params) != len(prompts):
            raise _core.ArgumentError(f"generate: {len(params)} sampling_params for {len(prompts)} prompts; allowed are 1 or as many")
        runs = []
        for prompt, p in zip(prompts, params):
            if isinstance(prompt, dict):
                prompt = prompt["prompt_token_ids"] if prompt.get("prompt_token_ids") is not None else prompt.get("prompt")
            ids = self.model.ids_of(prompt)
            runs.append((prompt, ids, p, [self._submit(ids, p, i) for i in range(p.n)]))
        return [RequestOutput(str(number), prompt if isinstance(prompt, str) else None, ids,
                              [self._answer(i, request, p) for i, request in enumerate(requests)])
                for number, (prompt, ids, p, requests) in enumerate(runs)]

    def _submit(self, ids, params, index):
        options = params.options(index)
        limit, room = options.pop("max_tokens"), self.engine.stats()["context"] - len(ids)
        limit = min(limit, room) if room > 0 else limit  # a longer prompt is refused by the engine
        return self.engine.submit(ids, limit, **{k: v for k, v in options.items() if v is not None})

    def _answer(self, index, request, params):
        stops, text, ids, logprobs = stop_texts(params.stop), "", [], []
        for token in request:
            text, ids = text + token.text, ids + [token.id]
            logprobs.append({token.id: token.logprob} | dict(token.top or []) if token.logprob is not None else None)
            if (place := cut_at(text, stops)) >= 0:
                request.cancel()
                return self._output(index, text[:place], ids, "stop", params, logprobs)
        return self._output(index, text + request._detok.flush(), ids, request.finish_reason, params, logprobs)

    @staticmethod
    def _output(index, text, ids, reason, params, logprobs):
        if params.logprobs is None:
            return CompletionOutput(index, text, ids, reason)
        return CompletionOutput(index, text, ids, reason, logprobs, sum(row[i] for row, i in zip(logprobs, ids)))

    def chat(self, messages, sampling_params=None, **variables):
        """One conversation or a list of them, by the model's template."""
        many = messages if messages and isinstance(messages[0], list) else [messages]
        return self.generate([{"prompt_token_ids": self.model.chat_ids(m, **variables)} for m in many], sampling_params)

    def close(self):
        self.engine.close()
