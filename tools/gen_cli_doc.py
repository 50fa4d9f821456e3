#!/usr/bin/env python3
"""Writes docs/reference/cli.md from the help of `ga` and of each of its commands; with --check fails when the file is not
that. Usage: gen_cli_doc.py GA docs/reference/cli.md [--check]"""
import re
import subprocess
import sys
from pathlib import Path


def help_of(ga, *command):
    return subprocess.run([ga, *command, "--help"], check=True, capture_output=True, text=True).stdout.rstrip()


def made(ga):
    top = help_of(ga)
    commands = re.findall(r"^  (\w+) +\S", top, re.M)
    parts = ["# The program `ga`", "Made by `make golden` from the help texts of the program; do not edit.", f"```text\n{top}\n```"]
    for command in commands:
        parts += [f"## ga {command}", f"```text\n{help_of(ga, command)}\n```"]
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
