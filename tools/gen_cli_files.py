#!/usr/bin/env python3
"""Writes man pages and completions (bash, zsh, fish) of `ga` into a folder. They are made of the help texts, which the program makes of its
tables of commands and options. Usage: gen_cli_files.py GA FOLDER"""
import re
import subprocess
import sys
from pathlib import Path

OPTION = re.compile(r"^  (?:-(\w), |    )--([\w-]+)(?: ([A-Z]+)(?= |$))? +(\S.*)$")
# What a value is: words to choose from; for all else files are offered.
WORDS = {"device": "auto cpu cuda:0 ref", "kv-type": "f16 f32 bf16 e4m3 q8_0 q4_0", "chat-template": "chatml gemma llama3 mistral plain"}

# Names of models: the first column of `ga list`. They are other people's text: no shell may expand them a second time, as `compgen -W` would.
LIST = "ga list 2>/dev/null | sed -E '/^$/,$d; 1d; s/ +[0-9.]+ [MG]B  [a-z0-9 ]+$//'"

NAMED = {"show", "rm", "info"}  # commands that take a model without an option

def help_of(ga, *command):
    return subprocess.run([ga, *command, "--help"], check=True, capture_output=True, text=True).stdout.rstrip()

def listed(text):
    """Names and summaries of the commands, or of a command's verbs, in a help text."""
    return re.findall(r"^  ([a-z]\w*) +(\S.*)$", text, re.M)

class Command:
    """A command of `ga`, or a verb of one: its own options, and its verbs."""
    def __init__(self, ga, summary, *words):
        text = help_of(ga, *words)
        lines = text.split("\n")
        self.name, self.summary, self.usage = words[-1], summary, lines[0].removeprefix("usage: ")
        self.options = [m.groups() for m in map(OPTION.match, lines) if m and m[2] != "help"]  # letter, name, value, text
        self.options.append(("h", "help", None, "this text"))
        self.verbs = [Command(ga, s, *words, name) for name, s in listed(text)] if len(words) == 1 else []

    def all_options(self):
        """With those of its verbs; of each name the first."""
        found = {}
        for command in (self, *self.verbs):
            for option in command.options:
                found.setdefault(option[1], option)
        return list(found.values())

def read_commands(ga):
    top = help_of(ga)
    return [Command(ga, summary, name) for name, summary in listed(top)], top

# --- man pages (man-pages(7)) ---

def roff(text):
    return re.sub(r"^([.'])", r"\\&\1", text.replace("\\", "\\e").replace("-", "\\-"), flags=re.M)

def man_option(letter, name, value, text):
    short = f"\\fB\\-{letter}\\fR, " if letter else ""
    argument = f" \\fI{value}\\fR" if value else ""
    return f".TP\n{short}\\fB{roff('--' + name)}\\fR{argument}\n{roff(text)}\n"

def man_command(c, version):
    title = f"GA-{c.name.upper()}"
    return (f'.TH "{title}" "1" "" "ga {version}" "GA"\n.SH NAME\n{roff(f"ga-{c.name} - {c.summary}")}\n.SH SYNOPSIS\n.B {roff(c.usage)}\n'
            f".SH OPTIONS\n{''.join(man_option(*o) for o in c.options)}{''.join(map(man_verb, c.verbs))}.SH SEE ALSO\n.BR ga (1)\n")

def man_verb(v):
    return f".SS {roff(v.name)}\n{roff(v.summary)}\n{''.join(man_option(*o) for o in v.options)}"

def man_top(commands, top, version):
    rows = "".join(f".TP\n\\fBga\\-{c.name}\\fR(1)\n{roff(c.summary)}\n" for c in commands)
    notes = "\n.br\n".join(roff(line) for line in top.split("\n\n")[-1].split("\n"))
    return (f'.TH "GA" "1" "" "ga {version}" "GA"\n.SH NAME\nga \\- exact attention and LLM inference on CPUs and GPUs\n.SH SYNOPSIS\n'
            f".B ga COMMAND\n[options]\n.SH COMMANDS\n{rows}.SH NOTES\n{notes}\n")

# --- completions ---

def bash(commands):
    rows = "".join(f"    {key}) options='{' '.join('--' + o[1] for o in options)}' ;;\n" for c in commands
                   for key, options in ((f"{c.name}:{v.name}", v.options) for v in c.verbs))
    rows += "".join(f"    {c.name}:*) options='{' '.join('--' + o[1] for o in c.all_options())}' ;;\n" for c in commands)
    verbs = "".join(f"    {c.name}:2) COMPREPLY=($(compgen -W '{' '.join(v.name for v in c.verbs)}' -- \"$word\")) ;;\n" for c in commands if c.verbs)
    words = "".join(f"    --{name}) COMPREPLY=($(compgen -W '{w}' -- \"$word\")); return ;;\n" for name, w in WORDS.items())
    return f"""# bash completion of ga
_ga_models() {{
  local name
  while IFS= read -r name; do
    [[ $name == "$1"* ]] && COMPREPLY+=("$name")
  done < <({LIST}; compgen -f -- "$1")
}}
_ga() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} command=${{COMP_WORDS[1]}} options=
  COMPREPLY=()
  if [ "$COMP_CWORD" = 1 ]; then
    COMPREPLY=($(compgen -W '{' '.join(c.name for c in commands)} help --help --version' -- "$word"))
    return
  fi
  case $command:${{COMP_WORDS[2]}} in
{rows}    help:*) COMPREPLY=($(compgen -W '{' '.join(c.name for c in commands)}' -- "$word")); return ;;
  esac
  case $command:$COMP_CWORD in
{verbs}  esac
  (( ${{#COMPREPLY[@]}} )) && return
  case $before in
{words}    -m|--model) _ga_models "$word"; return ;;
  esac
  case $command:$word in
    *:-*) COMPREPLY=($(compgen -W "$options" -- "$word")) ;;
    {'|'.join(n + ':*' for n in sorted(NAMED))}) _ga_models "$word" ;;
    *) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
  esac
}}
complete -o filenames -F _ga ga
"""

def zsh_quote(text):
    return re.sub(r"([\[\]:])", r"\\\1", text).replace("'", "'\\''")

def zsh_option(letter, name, value, text):
    action = f":{value}:({zsh_quote(WORDS[name])})" if name in WORDS else ":MODEL:_ga_models" if name == "model" else f":{value}:_files" if value else ""
    dashes = [f"-{letter}", f"--{name}"] if letter else [f"--{name}"]
    return "".join(f"      '{dash}[{zsh_quote(text)}]{action}' \\\n" for dash in dashes)

def zsh_verbs(c):
    return f"      '1:verb:({' '.join(v.name for v in c.verbs)})' \\\n" if c.verbs else ""

def zsh(commands):
    names = "".join(f"    '{c.name}:{zsh_quote(c.summary)}'\n" for c in commands)
    cases = ""
    for c in commands:
        options, rest = "".join(zsh_option(*o) for o in c.all_options()), "_ga_models" if c.name in NAMED else "_files"
        cases += f"    {c.name}) _arguments \\\n{options}{zsh_verbs(c)}      '*:file:{rest}' ;;\n"
    return f"""#compdef ga
_ga_models() {{
  local -a models
  models=(${{(f)"$({LIST})"}})
  compadd -a models
  _files
}}
_ga() {{
  local -a commands
  commands=(
{names}    'help:the help of a command'
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
    help) _describe command commands ;;
{cases}  esac
}}
if [ "$funcstack[1]" = _ga ]; then _ga "$@"; else compdef _ga ga; fi
"""

def fish_quote(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

def fish(commands):
    lines = ["# fish completion of ga", f"function __ga_models; {LIST}; end"]
    lines += [f"complete -c ga -n __fish_use_subcommand -f -a {c.name} -d {fish_quote(c.summary)}" for c in commands]
    lines.append("complete -c ga -n __fish_use_subcommand -f -a help -d 'the help of a command'")
    lines.append(f"complete -c ga -n '__fish_seen_subcommand_from help' -f -a '{' '.join(c.name for c in commands)}'")
    for c in commands:
        seen = f"complete -c ga -n '__fish_seen_subcommand_from {c.name}'"
        if c.name in NAMED:
            lines.append(f"{seen} -a '(__ga_models)'")
        for v in c.verbs:
            lines.append(f"{seen} -f -a {v.name} -d {fish_quote(v.summary)}")
        for letter, name, value, text in c.all_options():
            values = f" -x -a '{WORDS[name]}'" if name in WORDS else " -r -a '(__ga_models)'" if name == "model" else " -r" if value else ""
            short = f" -s {letter}" if letter else ""
            lines.append(f"{seen}{short} -l {name}{values} -d {fish_quote(text)}")
    return "\n".join(lines) + "\n"

def main():
    ga, folder = sys.argv[1], Path(sys.argv[2])
    version = subprocess.run([ga, "--version"], check=True, capture_output=True, text=True).stdout.split()[1]
    commands, top = read_commands(ga)
    files = {"man/ga.1": man_top(commands, top, version), "ga.bash": bash(commands), "_ga": zsh(commands), "ga.fish": fish(commands)}
    files |= {f"man/ga-{c.name}.1": man_command(c, version) for c in commands}
    (folder / "man").mkdir(parents=True, exist_ok=True)
    for old in (folder / "man").glob("*.1"):
        old.unlink()
    for name, text in files.items():
        (folder / name).write_text(text)

if __name__ == "__main__":
    main()
