"""A plugin of pytest for the tests of llama.cpp's server: options of its that say how tokens are drawn go into requests, and no request names a model.

What llama_server.md lists is left out."""
import os
import re

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
NATIVE = {"/completion", "/completions"}
GENERATE = NATIVE | {"/chat/completions", "/v1/chat/completions", "/v1/completions"}


def excluded():
    """Name of a test, or of a file: why."""
    with open(os.path.join(HERE, "llama_server.md")) as f:
        return dict(re.findall(r"^\| `(.*?)` \| (.*?) \|$", f.read(), re.M))


def opened(original):
    """The first chunk of a chat has an empty content, as OpenAI's has; llama.cpp sends null."""
    def call(self, *rest, **named):
        for event in original(self, *rest, **named):
            for choice in event.get("choices", []):
                if choice.get("delta", {}).get("content") == "" and "role" in choice["delta"]:
                    choice["delta"]["content"] = None
            yield event
    return call


def options(server, data, path):
    """--seed, --temp and --n-predict of the server as fields of a request. llama.cpp's tiny model ends no text soon; SmolLM2 does."""
    found = {"seed": server.seed, "temperature": server.temperature}
    if path in NATIVE:
        found["ignore_eos"] = True
    if server.n_predict and not {"n_predict", "max_tokens", "max_completion_tokens"} & set(data):
        found["n_predict" if path in NATIVE else "max_tokens"] = server.n_predict
    return found


def rewrite(original):
    def call(self, method, path, data=None, *rest, **named):
        if path == "/embeddings":
            path = "/v1" + path
        if isinstance(data, dict) and "model" in data:
            data = {key: value for key, value in data.items() if key != "model"}
        if isinstance(data, dict) and path in GENERATE:
            data = {**options(self, data, path), **data}
        return original(self, method, path, data, *rest, **named)
    return call


def pytest_collection_modifyitems(items):
    import utils
    utils.ServerPreset.load_all = staticmethod(lambda: None)
    for name in ("make_request", "make_stream_request"):
        setattr(utils.ServerProcess, name, rewrite(getattr(utils.ServerProcess, name)))
    utils.ServerProcess.make_stream_request = opened(utils.ServerProcess.make_stream_request)
    reasons = excluded() if not os.environ.get("GA_RUN_EXCLUDED") else {}
    for item in items:
        file = os.path.basename(str(item.path))
        for name in (file, f"{file}::{item.originalname}", f"{file}::{item.name}"):
            if name in reasons:
                item.add_marker(pytest.mark.skip(reason=reasons[name]))
