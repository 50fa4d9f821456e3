"""A plugin of pytest for the tests of llama.cpp's server: paths get their /v1, and no request names a model.

What llama_server.md lists is left out."""
import os
import re

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
WITHOUT_V1 = {"/chat/completions", "/completions", "/embeddings", "/models"}


def excluded():
    """Name of a test, or of a file: why."""
    with open(os.path.join(HERE, "llama_server.md")) as f:
        return dict(re.findall(r"^\| `(.*?)` \| (.*?) \|$", f.read(), re.M))


def tokens(original):
    """/tokenize and /detokenize in the form of vLLM."""
    def call(self, method, path, data=None, *rest, **named):
        names = {"content": "prompt", "add_special": "add_special_tokens", "with_pieces": "return_token_strs"}
        if path not in ("/tokenize", "/detokenize"):
            return original(self, method, path, data, *rest, **named)
        reply = original(self, method, path, {"add_special_tokens": False, **{names.get(k, k): v for k, v in data.items()}}, *rest, **named)
        if "prompt" in reply.body:
            reply.body["content"] = reply.body["prompt"]
        if reply.body.get("token_strs"):
            reply.body["tokens"] = [{"id": i, "piece": p} for i, p in zip(reply.body["tokens"], reply.body["token_strs"])]
        return reply
    return call


def opened(original):
    """The first chunk of a chat has an empty content, as OpenAI's has; llama.cpp sends null."""
    def call(self, *rest, **named):
        for event in original(self, *rest, **named):
            for choice in event.get("choices", []):
                if choice.get("delta", {}).get("content") == "" and "role" in choice["delta"]:
                    choice["delta"]["content"] = None
            yield event
    return call


def rewrite(original):
    def call(self, method, path, data=None, *rest, **named):
        if path in WITHOUT_V1:
            path = "/v1" + path
        if isinstance(data, dict) and "model" in data:
            data = {key: value for key, value in data.items() if key != "model"}
        return original(self, method, path, data, *rest, **named)
    return call


def pytest_collection_modifyitems(items):
    import utils
    utils.ServerPreset.load_all = staticmethod(lambda: None)
    for name in ("make_request", "make_stream_request"):
        setattr(utils.ServerProcess, name, rewrite(getattr(utils.ServerProcess, name)))
    utils.ServerProcess.make_request = tokens(utils.ServerProcess.make_request)
    utils.ServerProcess.make_stream_request = opened(utils.ServerProcess.make_stream_request)
    reasons = excluded() if not os.environ.get("GA_RUN_EXCLUDED") else {}
    for item in items:
        file = os.path.basename(str(item.path))
        for name in (file, f"{file}::{item.originalname}", f"{file}::{item.name}"):
            if name in reasons:
                item.add_marker(pytest.mark.skip(reason=reasons[name]))
