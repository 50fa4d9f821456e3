#!/usr/bin/env python3
"""Vectors for tests/test_chat_vectors.c: templates rendered by python3-jinja2 with the settings of chat templates.

    tests/refs/make_templates.py                       writes tests/data/templates/*.json
    tests/refs/make_templates.py --extra DIR --out DIR2   templates *.jinja of DIR, written to DIR2 (for models' own ones)
    tests/refs/make_templates.py --random N --seed S --out DIR2   N more random expressions

A vector file is {"made_by", "now", "template" or "", "context"?, "cases": [{"name", "template"?, "expect" | "error"}]}; "error"
is the text given to raise_exception, or "" for any other failure. Without "context", a case's is found in contexts.json by
its name.
"""

import argparse
import json
import pathlib
import random
import re
import time

import jinja2
import jinja2.ext
import jinja2.sandbox

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE.parent / "data" / "templates"
NOW = 1721988000  # 2024-07-26 10:00:00 UTC


class GenerationBlock(jinja2.ext.Extension):
    """{% generation %}: what is inside is written as it stands, in a scope of its own."""

    tags = {"generation"}

    def parse(self, parser):
        block = jinja2.nodes.Scope(lineno=parser.stream.current.lineno)
        parser.stream.skip()
        block.body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return block


JSON_STYLE = ["ensure_ascii", "indent", "separators", "sort_keys"]


def written_as_json(value, *places, **names):
    """The tojson that chat templates know: options by place or name, no HTML escapes, characters as they are."""
    if len(places) > len(JSON_STYLE) or not set(names) <= set(JSON_STYLE[len(places) :]):
        raise TypeError("tojson: unknown, doubled or too many options")
    style = {"ensure_ascii": False, **dict(zip(JSON_STYLE, places)), **names}
    return json.JSONEncoder(**style).encode(value)


class Refusal(jinja2.TemplateError):
    """What a template says by raise_exception."""


def refuse(text):
    raise Refusal(text)


def date_of_test(pattern):
    return time.strftime(pattern, time.gmtime(NOW))


def environment(kind=jinja2.sandbox.ImmutableSandboxedEnvironment):
    made = kind(extensions=["jinja2.ext.loopcontrols", GenerationBlock])
    made.trim_blocks = made.lstrip_blocks = True
    made.filters.update(tojson=written_as_json)
    made.globals.update(raise_exception=refuse, strftime_now=date_of_test)
    return made


ENV = environment()


class Strict(jinja2.sandbox.ImmutableSandboxedEnvironment):
    """Where constants are folded, 1[2:3] is undefined; in a variable, 1 makes it an error. Always an error here."""

    def getitem(self, obj, argument):
        return obj[argument] if isinstance(argument, slice) else super().getitem(obj, argument)


STRICT = environment(Strict)


def case(name, template, context, env=ENV):
    """What jinja2 makes of it. Contexts go through JSON, so that they are what the engine under test will see."""
    context = json.loads(json.dumps(context))
    out = {"name": name, "context": context}
    try:
        out["expect"] = env.from_string(template).render(**json.loads(json.dumps(context)))
        out["expect"].encode()
    except Refusal as e:
        out.pop("expect", None)
        out["error"] = e.message or ""
    except Exception:
        out.pop("expect", None)
        out["error"] = ""
    return out


def m(role, content, **more):
    return {"role": role, "content": content, **more}


TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a place.\nUnits are metric.",
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"type": "string", "description": 'Town "and" country'},
                "days": {"type": "integer", "default": 3},
                "unit": {"type": "string", "enum": ["C", "F"]},
                "tags": {"type": "array", "items": {"type": ["string", "null"]}},
                "box": {
                    "type": "object",
                    "properties": {"n": {"type": "number"}, "s": {"type": "number", "default": 1.5}},
                    "required": ["n"],
                },
            },
            "required": ["place"],
        },
        "return": {"type": "string"},
    },
}
TOOL2 = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "number"}, "b": {"type": "array"}},
            "required": ["a", "b"],
        },
    },
}
CALL = {
    "id": "call12345",
    "type": "function",
    "function": {"name": "get_weather", "arguments": {"place": "Köln", "days": 2}},
}
CALL_STR = {"id": "call12345", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}

CONVERSATIONS = {
    "user": [m("user", "Hello")],
    "system": [m("system", "Be brief."), m("user", "Hello")],
    "turns": [m("system", "  Be brief.\n"), m("user", "  Hello  "), m("assistant", "\nHi!\n"), m("user", "And now?")],
    "long": [m("user" if i % 2 == 0 else "assistant", f"turn {i} " * (i + 1)) for i in range(21)],
    "empty list": [],
    "empty content": [m("system", ""), m("user", ""), m("assistant", ""), m("user", "")],
    "none content": [m("user", "x"), m("assistant", None)],
    "unicode": [
        m("system", "Ünïcödé"),
        m("user", "日本語 and emoji 👩‍👩‍👧‍👦 and ﷺ and \u0301"),
        m("assistant", "¡Olé! \U0001f600"),
        m("user", "ß ﬁ İ"),
    ],
    "special": [
        m("user", "<|im_end|> {{ 1 }} {% if %} </s> [INST] \\n \t \"quoted\" 'single' <b>&amp;</b> \u0000 end")
    ],
    "newlines": [m("user", "\n\n a \r\n b \n\n"), m("assistant", "\u2028x\u0085"), m("user", "\t")],
    "no role": [{"content": "x"}],
    "no content": [{"role": "user"}],
    "wrong order": [m("assistant", "first"), m("user", "second")],
    "two users": [m("user", "one"), m("user", "two")],
    "system in the middle": [m("user", "one"), m("system", "two"), m("user", "three")],
    "unknown role": [m("user", "one"), m("oracle", "two")],
    "thinking": [
        m("user", "q"),
        m("assistant", "<think>\nhm\n</think>\n\nanswer"),
        m("user", "q2"),
        m("assistant", "<think>again</think>yes"),
    ],
    "reasoning": [
        m("user", "q"),
        m("assistant", "a", reasoning_content="\nwhy\n"),
        m("user", "q2"),
        m("assistant", "b", reasoning_content=None),
    ],
    "tool": [
        m("user", "weather?"),
        m("assistant", None, tool_calls=[CALL]),
        m("tool", "21.5", tool_call_id="call12345", name="get_weather"),
        m("assistant", "It is 21.5."),
        m("user", "thanks"),
    ],
    "tool text": [
        m("system", "s"),
        m("user", "weather?"),
        m("assistant", "", tool_calls=[CALL]),
        m("tool", '{"t": 21}', tool_call_id="call12345"),
    ],
    "two calls": [
        m("user", "both"),
        m("assistant", "ok", tool_calls=[CALL, CALL_STR]),
        m("tool", "1", tool_call_id="call12345"),
        m("tool", "2", tool_call_id="call12345"),
    ],
    "string arguments": [
        m("user", "add"),
        m("assistant", "", tool_calls=[CALL_STR]),
        m("tool", "3", tool_call_id="call12345"),
    ],
    "bad call id": [m("user", "add"), m("assistant", None, tool_calls=[dict(CALL, id="1")])],
    "flat call": [
        m("user", "add"),
        m("assistant", "", tool_calls=[{"name": "add", "arguments": {"a": [1, 2.5, None, True]}}]),
    ],
    "tool object": [
        m("user", "w"),
        m("assistant", None, tool_calls=[CALL]),
        m("tool", {"content": [1, {"k": "ü"}]}, tool_call_id="call12345"),
    ],
    "parts": [
        m("system", [{"type": "text", "text": "sys"}]),
        m("user", [{"type": "image"}, {"type": "text", "text": " look "}]),
    ],
    "number content": [m("user", 42)],
}
VARIANTS = {
    "": {},
    "prompt": {"add_generation_prompt": True},
    "tokens": {"add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>"},
    "tools": {"add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>", "tools": [TOOL, TOOL2]},
    "native": {
        "bos_token": "<s>",
        "native_tools": ["interpreter", "get_weather", "search"],
        "date_string": "1 May 2025",
        "tools_up_front": True,
        "tools": [TOOL],
    },
    "no thinking": {"add_generation_prompt": True, "enable_thinking": False, "eos_token": "</s>"},
}


def contexts():
    out = {"no messages": {}}
    for kind, messages in CONVERSATIONS.items():
        for variant, more in VARIANTS.items():
            out[f"{kind}, {variant}" if variant else kind] = {"messages": messages, **more}
    return out


def conversations(template):
    """Cases without their contexts, which contexts.json holds by name."""
    for name, context in contexts().items():
        yield {k: v for k, v in case(name, template, context).items() if k != "context"}


CONTEXT = {
    "i": 7,
    "j": -3,
    "z": 0,
    "big": 2**20,
    "f": 2.5,
    "g": -0.125,
    "e": 1e22,
    "t": True,
    "n": None,
    "s": "Hello World",
    "u": "Grüße, 日本 ß",
    "w": "  pad\t\n",
    "q": 'it\'s "q"',
    "empty": "",
    "num": " 42 ",
    "flo": "3.75",
    "lines": "a\nb\n\n c",
    "l": [3, 1, 2],
    "ll": [[1, "a"], [2, "b"]],
    "words": ["pear", "Apple", "fig", "apple"],
    "mixed": [1, 2.0, "x", None, True, [1], {"k": "v"}],
    "el": [],
    "d": {"b": 1, "a": 2, "items": 3, "nested": {"x": [10, 20, {"y": "deep"}]}},
    "ed": {},
    "people": [
        {"name": "Ann", "age": 31, "tags": ["x"], "boss": {"name": "Zoe"}},
        {"name": "bob", "age": 25, "tags": []},
        {"name": "Cy", "age": 31, "tags": ["y", "z"], "boss": {"name": "Ann"}},
    ],
}
SOURCE_FILES = ["expressions.txt", "statements.txt"]


def listed(path):
    """Templates separated by lines of ----."""
    return [t for t in path.read_text(encoding="utf-8").split("\n----\n")]


class Random:
    """Random expressions: mostly well-typed, so that more than errors are compared."""

    def __init__(self, seed):
        self.r = random.Random(seed)

    def pick(self, *options):
        return self.r.choice(options)

    def expr(self, kind=None, depth=3):
        kind = kind or self.pick("int", "float", "str", "list", "bool", "any", "dict")
        if self.r.random() < 0.06:
            kind = self.pick("int", "str", "list", "bool", "dict")
        return getattr(self, "x_" + kind)(depth - 1)

    def x_int(self, n):
        if n <= 0:
            return self.pick("i", "j", "z", "0", "1", "5", "12", "big", "loop.index", "missing|length")
        a = lambda: self.expr("int", n)
        return self.pick(
            lambda: f"({a()} {self.pick('+', '-', '*', '//', '%', '+', '-')} {a()})",
            lambda: f"{self.expr('list', n)}|length",
            lambda: f"{self.expr('str', n)}|length",
            lambda: f"(-{a()})",
            lambda: f"({a()} % 50) ** 2",
            lambda: f"({a()})|abs",
            lambda: f"{self.expr('str', n)}.find({self.expr('str', n)})",
            lambda: f"({self.expr('float', n)})|int",
            lambda: f"({a()} if {self.expr('bool', n)} else {a()})",
            lambda: f"{self.expr('str', n)}|int({a()})",
            lambda: f"l[{a()}]",
            lambda: f"{self.expr('str', n)}.count({self.expr('str', n)})",
            lambda: f"{self.expr('list', n)}|sum",
        )()

    def x_float(self, n):
        if n <= 0:
            return self.pick("f", "g", "1.5", "0.1", "2.5e9", "100.0", "1e-7", "2.0")
        a = lambda: self.expr(self.pick("float", "int"), n)
        return self.pick(
            lambda: f"({a()} {self.pick('+', '-', '*', '/', '//', '%')} {a()})",
            lambda: f"({a()})|round({self.pick('', '1', '2')})",
            lambda: f"({a()})|float",
            lambda: f"(-{a()})",
            lambda: f"({a()})|abs",
        )()

    def x_str(self, n):
        if n <= 0:
            return self.pick(
                "s",
                "u",
                "w",
                "q",
                "empty",
                "num",
                "flo",
                "lines",
                "'a'",
                '"b c"',
                "'ö\\n'",
                "d.nested.x[2].y",
                "'%s'",
                "'-'",
            )
        a = lambda: self.expr("str", n)
        i = lambda: self.expr("int", n)
        method = lambda: self.pick(
            "strip()",
            "lstrip()",
            "rstrip('\\n ')",
            "upper()",
            "lower()",
            "title()",
            "capitalize()",
            f"replace({a()}, {a()})",
            f"replace('a', 'b', {i()})",
            "swapcase()",
            f"zfill({i()} % 20)",
            f"ljust({i()} % 20, '*')",
            f"rjust({i()} % 20)",
            f"center({i()} % 20)",
            f"removeprefix({a()})",
            f"strip({a()})",
        )
        filt = lambda: self.pick(
            "trim",
            "upper",
            "lower",
            "title",
            "capitalize",
            f"replace({a()}, {a()})",
            "string",
            "indent(2)",
            "indent(1, true, true)",
            "reverse",
            f"default({a()})",
            f"default({a()}, true)",
            "tojson",
            "center(20)",
            f"trim({a()})",
        )
        return self.pick(
            lambda: f"({a()} + {a()})",
            lambda: f"({self.expr(None, n)} ~ {self.expr(None, n)})",
            lambda: f"{a()}.{method()}",
            lambda: f"({a()}|{filt()})",
            lambda: f"{a()}[{self.slice(n)}]",
            lambda: f"{a()}[{i()}]",
            lambda: f"({self.expr('list', n)}|join({a()}))",
            lambda: f"({a()} * ({i()} % 5))",
            lambda: f"({self.expr(None, n)}|string)",
            lambda: f"({self.expr(None, n)}|tojson)",
            lambda: f"({a()} if {self.expr('bool', n)} else {a()})",
            lambda: f"'%{self.pick('', '5', '-6', '05', '+', '.2')}{self.pick('s', 'd', 'f', 'r', 'x', 'g')}' % {self.expr(None, n)}",
            lambda: f"'{{}}|{{}}'.format({self.expr(None, n)}, {a()})",
            lambda: f"({self.expr('list', n)}|first)",
        )()

    def slice(self, n):
        part = lambda: self.pick("", "", "1", "-1", "2", "-2", "0", self.expr("int", 1))
        return f"{part()}:{part()}" + self.pick("", f":{self.pick('', '1', '-1', '2', '-2')}")

    def x_list(self, n):
        if n <= 0:
            return self.pick(
                "l", "words", "mixed", "el", "ll", "[1, 2]", "[]", "range(4)", "people", "(1, 'x')", "d.keys()|list"
            )
        a = lambda: self.expr("list", n)
        x = lambda: self.expr(None, n)
        return self.pick(
            lambda: f"[{x()}, {x()}]",
            lambda: f"({x()}, {x()})",
            lambda: f"({a()} + {a()})",
            lambda: f"{a()}[{self.slice(n)}]",
            lambda: f"({a()}|sort)",
            lambda: f"({a()}|map('{self.pick('string', 'upper', 'length', 'tojson', 'int', 'float')}')|list)",
            lambda: f"({a()}|unique|list)",
            lambda: "(%s|%s('%s')|list)"
            % (
                a(),
                self.pick("select", "reject"),
                self.pick("string", "number", "defined", "none", "odd", "mapping", "iterable"),
            ),
            lambda: f"({a()}|reverse|list)",
            lambda: f"{self.expr('str', n)}.split({self.pick('', self.expr('str', n))})",
            lambda: f"({self.expr('str', n)}|list)",
            lambda: f"{self.expr('str', n)}.splitlines()",
            lambda: f"({self.expr('dict', n)}|dictsort)",
            lambda: f"({self.expr('dict', n)}|items|list)",
            lambda: f"(people|map(attribute='{self.pick('name', 'age', 'boss.name', 'tags.0', 'zip')}')|list)",
            lambda: "(people|selectattr('%s'%s)|map(attribute='name')|list)"
            % (
                self.pick("age", "boss", "tags", "name"),
                self.pick("", "", ", %r, %s" % (self.pick("eq", "lt", "in", "ge", "ne"), x())),
            ),
            lambda: f"({a()}|batch({self.pick(0, 1, 2, 3)})|list)",
            lambda: f"({a()} * ({self.expr('int', n)} % 4))",
            lambda: f"({self.expr('dict', n)}|list)",
            lambda: f"range({self.expr('int', n)} % 9, {self.expr('int', n)} % 9)",
            lambda: f"{self.expr('str', n)}.rsplit({self.expr('str', n)}, 1)",
            lambda: f"({a()}|groupby({self.pick(0, 1, repr('name'))})|list)",
            lambda: f"{self.expr('str', n)}.partition({self.expr('str', n)})",
        )()

    def x_dict(self, n):
        if n <= 0:
            return self.pick("d", "ed", "d.nested", "{'k': 1}", "people[0]", "{}")
        return self.pick(
            lambda: f"{{{self.expr('str', n)}: {self.expr(None, n)}, 'z': {self.expr(None, n)}}}",
            lambda: f"dict(d, x={self.expr(None, n)})",
            lambda: f"dict({self.expr('dict', n)}|items)",
            lambda: f"{{{self.expr('int', n)}: 1, 1.0: 2, true: 3}}",
        )()

    def x_bool(self, n):
        if n <= 0:
            return self.pick("t", "true", "false", "missing is defined", "i > 3", "s is string")
        x = lambda: self.expr(None, n)
        b = lambda: self.expr("bool", n)
        test = lambda: self.pick(
            "defined",
            "none",
            "string",
            "mapping",
            "iterable",
            "sequence",
            "number",
            "integer",
            "float",
            "boolean",
            "true",
            "false",
            "not none",
            "undefined",
            "callable",
            "not defined",
            f"eq({x()})",
            f"ne {x()}",
            f"in {self.expr('list', n)}",
            "upper",
            "lower",
            "odd",
            "even",
            f"divisibleby({self.expr('int', n)})",
            f"sameas({self.pick('none', 'true')})",
            f"lt({x()})",
        )
        return self.pick(
            lambda: f"({self.expr('int', n)} {self.pick('<', '<=', '>', '>=', '==', '!=')} {self.expr(self.pick('int', 'float'), n)})",
            lambda: f"({x()} == {x()})",
            lambda: f"({x()} is {test()})",
            lambda: f"({b()} and {b()})",
            lambda: f"({b()} or {b()})",
            lambda: f"(not {b()})",
            lambda: f"({x()} in {self.expr('list', n)})",
            lambda: f"({self.expr('str', n)} {self.pick('in', 'not in')} {self.expr('str', n)})",
            lambda: f"({self.expr('int', n)} < {self.expr('int', n)} <= {self.expr('int', n)})",
            lambda: f"({self.expr('str', n)} < {self.expr('str', n)})",
            lambda: f"{self.expr('str', n)}.startswith({self.expr('str', n)})",
            lambda: f"{self.expr('str', n)}.{self.pick('isdigit', 'isalpha', 'isspace', 'islower', 'isupper', 'isalnum')}()",
        )()

    def x_any(self, n):
        if n <= 0:
            return self.pick("n", "missing", "t", "i", "f", "s", "l", "d", "none")
        return self.pick(
            lambda: f"({self.expr(None, n)} or {self.expr(None, n)})",
            lambda: f"({self.expr(None, n)} and {self.expr(None, n)})",
            lambda: f"{self.expr('list', n)}|{self.pick('first', 'last', 'max', 'min')}",
            lambda: f"{self.expr('dict', n)}.{self.pick('a', 'k', 'name', 'nested', 'zip', 'items()', 'values()', 'keys()')}",
            lambda: f"{self.expr('dict', n)}[{self.expr('str', n)}]",
            lambda: f"{self.expr('dict', n)}.get({self.expr('str', n)}, {self.expr(None, n)})",
            lambda: f"{self.expr('list', n)}[{self.expr('int', n)}]",
            lambda: f"{self.expr(None, n)}|default({self.expr(None, n)})",
            lambda: f"({self.expr(None, n)} if {self.expr('bool', n)})",
        )()

    def template(self):
        text = "{{ " + self.expr(depth=self.pick(2, 3, 3, 4)) + " }}"
        if self.r.random() < 0.3:
            text = (
                self.pick("{%", "{%-", "{%+")
                + " for x in "
                + self.expr("list", 2)
                + self.pick("", " if loop is defined", " if x")
                + self.pick(" %}\n", " -%}\n", " +%}\n")
                + "  "
                + self.pick(
                    "{{ x }}",
                    "{{- loop.index }}",
                    "{{ loop.last }} ",
                    "{{ loop.revindex0 -}} ",
                    "{% set i = i + 1 %}{{ i }}",
                )
                + text
                + "\n"
                + self.pick("{%", " {%-", "\t{%+")
                + self.pick("", " else %}none{%")
                + " endfor"
                + self.pick(" %}", " -%}")
                + "\n ."
            )
        return text


def out_of_reach(text):
    """Not comparable: integers of more than 64 bits, addresses of objects."""
    return (
        re.search(r"\d{18}|object at 0x|Markup|function |method |of 'range'|<generator|<list_reverse|_iterator", text)
        is not None
    )


def random_cases(seed, count):
    r, seen = Random(seed), set()
    while len(seen) < count:
        template = r.template()
        c = case(f"random {len(seen)}", template, CONTEXT, STRICT)
        if template in seen or out_of_reach(c.get("expect", "")) or ("expect" not in c and r.r.random() < 0.8):
            continue
        seen.add(template)
        c["template"] = template
        del c["context"]
        yield c


def write(path, template, cases, context=None):
    made = {"made_by": f"tests/refs/make_templates.py, jinja2 {jinja2.__version__}", "now": NOW, "template": template}
    if context is not None:
        made["context"] = context  # of the cases that have none
    text = (
        json.dumps(made, ensure_ascii=False)[:-1]
        + ', "cases": [\n'
        + ",\n".join(json.dumps(c, ensure_ascii=False) for c in cases)
        + "\n]}\n"
    )
    path.write_text(text, encoding="utf-8")
    (path.parent / "contexts.json").write_text(
        "{\n"
        + ",\n".join(json.dumps(k) + ": " + json.dumps(v, ensure_ascii=False) for k, v in contexts().items())
        + "\n}\n",
        encoding="utf-8",
    )
    print(f"{path.name}: {len(cases)} cases, {sum('error' in c for c in cases)} of them errors, {len(text)} bytes")


def shared_context_cases(name):
    cases = []
    for template in listed(DATA / "src" / name):
        c = case(template[:60], template, CONTEXT)
        if out_of_reach(c.get("expect", "")):
            print("not comparable:", template)
            continue
        del c["context"]
        cases.append({**c, "template": template})
    return cases


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=pathlib.Path, default=DATA)
    p.add_argument("--extra", type=pathlib.Path)
    p.add_argument("--random", type=int)
    p.add_argument("--seed", type=int, default=1)
    args = p.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    if args.random:
        write(args.out / f"random_{args.seed}.json", "", list(random_cases(args.seed, args.random)), CONTEXT)
        return
    for source in sorted((args.extra or DATA / "src").glob("*.jinja")):
        template = source.read_text(encoding="utf-8")
        write(args.out / (source.stem + ".json"), template, list(conversations(template)))
    if not args.extra:
        for name in SOURCE_FILES:
            write(args.out / (name.split(".")[0] + ".json"), "", shared_context_cases(name), CONTEXT)
        write(args.out / "random.json", "", list(random_cases(1, 500)), CONTEXT)


if __name__ == "__main__":
    main()
