#!/usr/bin/env python3
"""Stands in for llama-server: translates its options into those of `ga serve`, and becomes that process.

GA is the program, GA_MODEL and GA_ENCODER are the models that take the place of those that the options name."""
import os
import sys
import tempfile

WITH_VALUE = {"--host": "--host", "--port": "--port", "--ctx-size": "--context", "--parallel": "--max-sequences", "--threads": "-t",
              "--cors-origins": "--cors-origin"}

OTHER_NAMES = ["gpt-3.5-turbo-instruct", "gpt-3.5-turbo", "davinci-002", "text-embedding-3-small"]


def translate(words):
    options, names, encoder, rest = [], "model", "--embedding" in words, iter(words)
    for word in rest:
        if word in WITH_VALUE:
            options += [WITH_VALUE[word], next(rest)]
        elif word == "--alias":
            names = next(rest)
        elif word == "--api-key":
            with tempfile.NamedTemporaryFile("w", prefix="keys-", delete=False) as keys:
                keys.write("\n".join(next(rest).split(",")) + "\n")
            options += ["--api-keys", keys.name]
    # Their tests ask for models by names of others.
    options += ["--alias", ",".join([names, *OTHER_NAMES])]
    model = os.environ["GA_ENCODER" if encoder else "GA_MODEL"]
    return [os.environ["GA"], "serve", "-m", model, *options]


if __name__ == "__main__":
    command = translate(sys.argv[1:])
    os.execv(command[0], command)
