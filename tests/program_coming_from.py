#!/usr/bin/env python3
"""docs/guide/coming-from.md: every command and option of ours in its tables is taken by the program, and what is missing says why.
Usage: program_coming_from.py GA"""
import os
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

import serve_rig
from serve_rig import Server

GA = os.path.abspath(sys.argv.pop(1))
PAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "docs", "guide", "coming-from.md")
# Commands that an option alone may belong to, by section.
COMMANDS = {"Ollama": ("run", "chat", "serve"), "llama-cli": ("run", "chat"), "llama-server": ("serve",), "vLLM": ("serve",),
            "llama-quantize, llama-imatrix, conversion": ("quantize", "imatrix", "convert"),
            "llama-bench, llama-perplexity and others": ("bench", "perplexity", "run", "embed")}
VALUES = {"N": "16", "T": "1", "K": "8", "P": "0.5", "X": "1", "S": "1"}  # of placeholders
OTHERS = {"cp", '"""', "GA_MODELS", "HF_TOKEN", "examples/chat.c"}
# What the help texts of theirs list (Ollama 0.30, llama.cpp b11434): the first name of each.
OLLAMA = """ollama run|ollama pull|ollama list|ollama ls|ollama ps|ollama stop|ollama rm|ollama show|ollama create|ollama cp|ollama push|ollama serve|
ollama signin|ollama signout|ollama launch|ollama help|--verbose|--format|--think|--hidethinking|--keepalive|--nowordwrap|--truncate|--dimensions|
--draft|--experimental|--insecure|--quantize|--license|--modelfile|--parameters|--system|--template|--version|/set system|/set parameter|/set verbose|
/set quiet|/set history|/set nohistory|/set format|/set noformat|/set think|/set nothink|/set wordwrap|/set nowordwrap|/show info|/show system|
/show license|/show modelfile|/show parameters|/show template|/save|/load|/clear|/bye|/?|OLLAMA_HOST|OLLAMA_MODELS|OLLAMA_DEBUG|OLLAMA_CONTEXT_LENGTH|
OLLAMA_KEEP_ALIVE|OLLAMA_MAX_LOADED_MODELS|OLLAMA_MAX_QUEUE|OLLAMA_NUM_PARALLEL|OLLAMA_NOPRUNE|OLLAMA_ORIGINS|OLLAMA_SCHED_SPREAD|OLLAMA_NOHISTORY|
OLLAMA_FLASH_ATTENTION|OLLAMA_KV_CACHE_TYPE|OLLAMA_LLM_LIBRARY|OLLAMA_GPU_OVERHEAD|OLLAMA_LOAD_TIMEOUT"""
LLAMA_CLI = """-h|--version|--completion-bash|-m|-hf|-hff|-hft|-mu|-dr|-cl|--offline|-p|-f|-bf|-e|-sys|-sysf|-n|-c|-b|-ub|-t|-tb|-C|--prio|--poll|--numa|-s|-ngl|
-dev|-ts|-sm|-mg|-fit|-nkvo|-ot|-cmoe|-ncmoe|--rpc|--list-devices|--temp|--top-k|--top-p|--min-p|--typical|--top-nsigma|--xtc-|--dry-|--dynatemp-|--mirostat|
--adaptive-|--samplers|--repeat-penalty|--repeat-last-n|--presence-penalty|--frequency-penalty|-l|--ignore-eos|--grammar|-j|-jf|--chat-template|
--chat-template-file|--chat-template-kwargs|--jinja|-rea|--reasoning-format|--reasoning-budget|-r|-sp|-cnv|-no-cnv|-st|-i|-mli|--in-prefix|--keep|
--context-shift|-gan|-ctk|-ctv|-fa|--swa-full|-kvu|--no-mmap|--mlock|-lm|--check-tensors|--rope-|--yarn-|--override-kv|--lora|--control-vector|-md|--spec-|
--mmproj|--prompt-cache|--no-display-prompt|--verbose-prompt|--perf|--show-timings|--warmup|-v|-lv|--log-file|--log-disable|--color|--simple-io|/regen|
/read|/glob|/image|/clear|/exit"""
QUANTIZE = """--imatrix|--pure|--tensor-type|--tensor-type-file|--output-tensor-type|--token-embedding-type|--leave-output-tensor|--allow-requantize|
--include-weights|--exclude-weights|--keep-split|--override-kv|--prune-layers|--dry-run|--max-buffer-size"""
WANTED = ("llama-cli", "llama-quantize", "llama-server", "llama-bench", "llama-imatrix", "llama-perplexity", "ollama")


def rows():
    """(section, theirs, ours, note) of each row."""
    section = ""
    with open(PAGE) as f:
        for line in f:
            if line.startswith("## "):
                section = line[3:].strip()
            cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")] if line.startswith("| ") else []
            if len(cells) >= 2 and cells[1] != "GA":
                yield section, cells[0], cells[1], cells[2].rstrip("| ") if len(cells) > 2 else ""


def takes(words):
    """--help comes last: the options before it have been read by then."""
    previous = [""] + words[:-1]
    words = [VALUES.get(word, word) if before.startswith("-") and before not in ("-f", "-m", "-o") else word for before, word in zip(previous, words)]
    r = subprocess.run([GA, *words, "--help"], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    return r.returncode == 0 and ("usage: ga" in r.stdout or words[0].startswith("--"))


class ComingFrom(unittest.TestCase):
    def test_rows(self):
        commands = subprocess.run([GA, "--help"], capture_output=True, text=True, check=True).stdout
        with open(os.path.join(os.path.dirname(PAGE), "../../cli/chat_command.c")) as f:
            chat = set(re.findall(r'"(/[a-z?]+)"', f.read()))
        n = 0
        for section, theirs, ours, note in rows():
            for span in re.findall(r"`([^`]+)`", ours):
                with self.subTest(section=section, theirs=theirs, span=span):
                    n += 1
                    words = shlex.split(span) if span != '"""' else [span]
                    if words[0] == "ga":
                        known = words[1].startswith("--") or re.search(rf"^  {words[1]} ", commands, re.M) or words[1] == "help"
                        self.assertTrue(known and (words[1] == "help" or takes(words[1:])))
                    elif words[0].startswith("-"):
                        self.assertTrue(any(takes([command, *words]) for command in COMMANDS[section]))
                    elif words[0].startswith("/"):
                        self.assertIn(words[0], chat)
                    else:
                        self.assertIn(span, OTHERS)
        self.assertGreater(n, 120)

    def test_what_is_missing_says_why(self):
        for _, theirs, ours, note in rows():
            with self.subTest(theirs):
                self.assertTrue("`" in ours or ours in ("none", "the same paths"))
                self.assertTrue(ours != "none" or len(note) > 10)

    def test_every_option_is_there(self):
        for section, names in (("Ollama", OLLAMA), ("llama-cli", LLAMA_CLI), ("llama-quantize, llama-imatrix, conversion", QUANTIZE)):
            spans = [span for row in rows() if row[0] == section for span in re.findall(r"`([^`]+)`", row[1])]
            words = {tuple(re.split("[ =]", span)[i : i + 2]) for span in spans for i in range(len(span.split()))}
            for name in names.replace("\n", "").split("|"):
                with self.subTest(section=section, name=name):
                    self.assertTrue(any(" ".join(pair).startswith(name) if name.endswith("-") else " ".join(pair[: name.count(" ") + 1]) == name
                                        for pair in words))

    def test_host(self):
        """A server on all addresses starts without keys, and says who may use it; page and help say no other thing."""
        with tempfile.TemporaryDirectory(prefix="ga host ") as folder:
            with Server(GA, serve_rig.write_model(folder), "--host", "0.0.0.0") as server:
                rc, said = server.end()
        self.assertEqual(rc, 0)
        self.assertIn("whoever reaches 0.0.0.0 may use this server", said)
        said = subprocess.run([GA, "serve", "--help"], capture_output=True, text=True, check=True).stdout
        lines = [line for line in said.splitlines() if "--host " in line] + [note for _, theirs, ours, note in rows() if "--host HOST" in ours]
        self.assertEqual(len(lines), 3)
        for line in lines:
            self.assertNotIn("need", line)
            self.assertIn("ithout", line)

    def test_every_program_is_there(self):
        theirs = " ".join(row[1].replace("`", "") for row in rows()) + " "
        for program in WANTED:
            self.assertIn(program + " ", theirs)


if __name__ == "__main__":
    unittest.main()
