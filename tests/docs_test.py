#!/usr/bin/env python3
"""Runs every shell block of README.md, CONTRIBUTING.md, docs/guide and docs/howto, in order and all in one temporary folder, as a reader
who follows one guide after another: no guide needs a name that another one has written. Runs them with the `ga` of this build first in the path and tiny models under the names of real ones. A block behind
<!-- run: network -->, <!-- run: gpu --> or <!-- run: build --> is counted, not run. A block of another language behind
<!-- file: NAME --> is written to that file. Usage: docs_test.py GA SOURCE BUILD"""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

GA, SOURCE, BUILD = (Path(a).resolve() for a in sys.argv[1:4])
BLOCK = re.compile(r"(?:<!--\s*(run|file):\s*(\S+)\s*-->\s*\n)?^```(\w*)\n(.*?)^```$", re.M | re.S)


def environment(folder):
    prefix = folder / "prefix"
    subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix], check=True, capture_output=True)
    models = folder / "models"
    models.mkdir()
    known = re.findall(r'\.file = "([^"]+)"', (SOURCE / "src/names/known.c").read_text())
    assert known, "src/names/known.c names no files"
    first = models / "tiny.gguf"
    subprocess.run([GA, "synth", "--shape", "tiny", first], check=True, capture_output=True)
    for name in known:
        os.link(first, models / name)
    env = {k: v for k, v in os.environ.items() if not k.startswith("GA_")}
    libs = [str(p.parent) for p in prefix.rglob("libga.so")]
    return env | {"PATH": f"{GA.parent}:{env['PATH']}", "GA_MODELS": str(models), "GA_LAST_CACHE": "16", "LC_ALL": "C.UTF-8",
                  "PKG_CONFIG_PATH": ":".join(f"{p}/pkgconfig" for p in libs), "LD_LIBRARY_PATH": ":".join(libs)}


def stand_in(folder):
    """What a reader has at hand: the tree's folders, and `ga` where the build puts it."""
    for name in ("docs", "examples", "src", "tests", "tools", "bench", "include"):
        (folder / name).symlink_to(SOURCE / name)
    for name in ("build", "build-lean"):
        (folder / name).mkdir()
        (folder / name / "ga").symlink_to(GA)
    subprocess.run([GA, "synth", "--shape", "tiny", folder / "model.gguf"], check=True, capture_output=True)


def run_document(path, folder, env):
    run, left, bad = 0, [], 0
    text = path.read_text()
    for found in BLOCK.finditer(text):
        kind, value, language, body = found.groups()
        line = text[: found.start(3)].count("\n") + 1
        if kind == "file":
            if (folder / value).exists():
                bad += 1
                print(f"{path.relative_to(SOURCE)}:{line}: another guide has a file {value}, too")
            (folder / value).write_text(body)
        if language != "sh":
            continue
        if kind == "run":
            left.append(value)
            continue
        p = subprocess.run(["bash", "-euo", "pipefail", "-c", body], cwd=folder, env=env, stdin=subprocess.DEVNULL,
                           capture_output=True, text=True, errors="replace")
        run += 1
        if p.returncode:
            bad += 1
            print(f"{path.relative_to(SOURCE)}:{line}: exit code {p.returncode}\n{body}{p.stdout[-800:]}{p.stderr[-800:]}")
    return run, left, bad


def written_names(text):
    """Names of models that the blocks of a document write anew, those that are not run here, too."""
    names = set()
    for found in BLOCK.finditer(text):
        for line in found[4].splitlines() if found[3] == "sh" else ():
            words = line.split("#")[0].split()
            command = words[1] if len(words) > 1 and words[0].endswith("ga") else ""
            files = [w for w in words[2:] if w.endswith(".gguf")]
            if command in ("synth", "quantize", "convert") and files and not {"--force", "--dry-run"} & set(words):
                names.add(files[-1])
    return names


def check_names(documents):
    """No two documents write a model of one name: the second command would be refused."""
    owner, bad = {}, 0
    for path in documents:
        for name in sorted(written_names(path.read_text())):
            if name in owner:
                bad += 1
                print(f"{path.relative_to(SOURCE)} and {owner[name]} write {name}")
            owner[name] = path.relative_to(SOURCE)
    return bad


def check_served():
    """README's first server has a page that chats."""
    chats = re.findall(r'\.name = "([^"]+)"(?:(?!\.name).)*?\.what = "[^"]*chat model', (SOURCE / "src/names/known.c").read_text(), re.S)
    served = re.findall(r"ga serve -m (\S+)", (SOURCE / "README.md").read_text())
    bad = [name for name in served if name not in chats]
    if bad or not served:
        print(f"README.md serves {bad or 'nothing'}; models that chat: {', '.join(chats)}")
    return len(bad) + (not served)


def main():
    documents = [SOURCE / "README.md", SOURCE / "CONTRIBUTING.md", *sorted((SOURCE / "docs/guide").glob("*.md")), *sorted((SOURCE / "docs/howto").glob("*.md"))]
    run, left, bad = 0, [], check_served() + check_names(documents)
    with tempfile.TemporaryDirectory(prefix="ga-docs-") as name:
        folder = Path(name) / "reader"
        folder.mkdir()
        stand_in(folder)
        env = environment(Path(name))
        for path in documents:
            r, l, b = run_document(path, folder, env)
            run, left, bad = run + r, left + l, bad + b
    for what in sorted(set(left)):
        print(f"not run, for they need {what}: {left.count(what)} blocks")
    print(f"docs: {len(documents)} documents, {run} blocks run, {bad} failed")
    return bad > 0 or run == 0


if __name__ == "__main__":
    sys.exit(main())
