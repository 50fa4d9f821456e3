"""What the programs of tests/clients share: where the server is, what `ga run` answers, and a table of results."""
import json
import os
import sys
import time
import traceback
import urllib.request

BASE = os.environ.get("GA_URL", "http://127.0.0.1:8080")
ENCODER = os.environ.get("GA_ENCODER_URL", "")
MODEL = os.environ.get("GA_MODEL_NAME", "")
QUESTION = "What is the capital of France?"
SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
TOKENS = 24
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "The weather of a city.", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}


def said():
    """What `ga run --temp 0` answers to QUESTION; run.sh asks it once."""
    return os.environ["GA_SAID"]


def continued():
    """What `ga run --temp 0 --no-template` writes behind QUESTION."""
    return os.environ["GA_CONTINUED"]


def same(got, wanted):
    assert (got or "").strip() == wanted.strip(), f"got {got!r}, wanted {wanted!r}"


def raises(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def encoder_name():
    with urllib.request.urlopen(ENCODER + "/v1/models") as reply:
        return json.load(reply)["data"][0]["id"]


def main(client, version, paths):
    """Runs each path; a line each: client, path, result. Exits 1 if one failed."""
    failed = 0
    for path in paths:
        try:
            note = path() or ""
            result = "ok"
        except Exception as error:  # the table goes on
            traceback.print_exc()
            result, note = "FAILED", f"{type(error).__name__}: {error}"[:150]
            failed += 1
        print(f"| {client} {version} | {path.__name__} | {result} | {note} |".replace("\n", " "), flush=True)
    sys.exit(failed != 0)


def idle(seconds=10):
    """Waits until the server runs no request."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        text = urllib.request.urlopen(BASE + "/metrics").read().decode()
        if all(float(line.split()[-1]) == 0 for line in text.splitlines() if line.startswith("vllm:num_requests_")):
            return
        time.sleep(0.1)
    raise AssertionError("the server still runs a request")
