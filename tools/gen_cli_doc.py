#!/usr/bin/env python3
"""Writes docs/reference/cli.md from the help of `ga`, of each of its commands and of their verbs; with --check fails when the file is not
that. Usage: gen_cli_doc.py GA docs/reference/cli.md [--check]"""
import re
import subprocess
import sys
from pathlib import Path


def help_of(ga, *command):
    return subprocess.run([ga, *command, "--help"], check=True, capture_output=True, text=True).stdout.rstrip()


def named(text):
    """The commands, or the verbs of one, that a help text lists."""
    return re.findall(r"^  ([a-z]\w*) +\S", text, re.M)


def made(ga):
    top = help_of(ga)
    parts = ["# The program `ga`", "Made by `make golden` from the help texts of the program; do not edit.", f"```text\n{top}\n```"]
    for command in named(top):
        text = help_of(ga, command)
        parts += [f"## ga {command}", f"```text\n{text}\n```"]
        for verb in named(text):
            parts += [f"### ga {command} {verb}", f"```text\n{help_of(ga, command, verb)}\n```"]
    return "\n\n".join(parts) + "\n"


def main():
    ga, path = sys.argv[1], Path(sys.argv[2])
    text = made(ga)
    if "--check" not in sys.argv:
        path.write_text(text)
    elif not path.exists() or path.read_text() != text:
        print(f"{path} is stale; make it anew: make golden")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
