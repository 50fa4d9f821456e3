"""Single faults in C text: where each can stand, and what the text then is. Pure functions; tools/mutate_host.py builds and tests.

A site is found in a copy of the text whose comments, strings and preprocessor lines are blank, so that offsets stay. Code is expected as
.clang-format writes it: binary operators have blanks on both sides."""
import random
import re
from dataclasses import dataclass

KINDS = ("comparison", "constant", "statement", "arguments", "condition", "check")

COMPARISON = re.compile(r"(?<= )(<=|>=|==|!=|<|>)(?= )")
OTHER = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
CONSTANT = re.compile(r"(?<![\w.])(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)(?![\w.])")
CONDITION = re.compile(r"\bif \(")
CHECK = re.compile(r"\b(GA_TRY|GA_TRY_OUT|GA_REQUIRE|GA_CHECK_\w+)\(")
STATEMENT = re.compile(r"(?<=[;{}:\n)])[ \t\n]*(?=[A-Za-z_*(])")
LABEL = re.compile(r"\n\s*(case\b[^;{}]*|default|\w+):$")
CALL = re.compile(r"\b([a-z_]\w*)\(")
NOT_CALLS = {"if", "for", "while", "switch", "return", "sizeof", "offsetof", "defined", "va_arg", "va_start", "_Alignof"}
KEYWORD = re.compile(r"(return|break|continue|goto|if|else|for|while|do|switch|case|default|typedef|static|const|extern|struct|union|enum|unsigned|GA_\w+)\b")
DECLARATION = re.compile(r"[A-Za-z_]\w*(\s+\**|\s*\*+\s*)[A-Za-z_]\w*\s*(=|,|;|\[)")
BLANK = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^[ \t]*#(?:\\\n|[^\n])*', re.S | re.M)


@dataclass(frozen=True)
class Site:
    """text[start:end] becomes `new`."""
    kind: str
    start: int
    end: int
    new: str

    def apply(self, text):
        return text[:self.start] + self.new + text[self.end:]

    def lines(self, text):
        """First and last line, from 1."""
        first = text.count("\n", 0, self.start) + 1
        return first, first + text.count("\n", self.start, self.end)


def blank(text):
    return BLANK.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


def closing(code, at):
    """Offset behind the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(code)):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(code[i], 0)
        if depth == 0:
            return i + 1
    return len(code)


def opening(code, end):
    """Offset of the bracket that the one in front of `end` closes."""
    depth, i = 0, end
    while i > 0:
        i -= 1
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(code[i], 0)
        if depth == 0:
            break
    return i


def regions(code):
    """(begin, end, is_function) of each outermost pair of braces: a function's body, or the values of a table."""
    i = 0
    while (i := code.find("{", i)) >= 0:
        end, before = closing(code, i), code[:i].rstrip()
        if before.endswith((")", "=")):
            yield i, end, before.endswith(")")
        i = end


def comparisons(code, begin, end):
    for m in COMPARISON.finditer(code, begin, end):
        yield Site("comparison", m.start(), m.end(), OTHER[m[1]])


def constants(code, begin, end):
    for m in CONSTANT.finditer(code, begin, end):
        line = code[code.rfind("\n", 0, m.start()) + 1:m.start()]
        if re.match(r"\s*(static |const )*\w+ .*\[$", line) and "=" not in line:  # the size of an array that is declared
            continue
        value = int(m[1], 0) if not re.fullmatch(r"0\d+", m[1]) else int(m[1], 8)
        for other in (value + 1, value - 1):
            if other >= 0:
                yield Site("constant", m.start(), m.end(), f"{other}{m[2]}")


def statement_end(code, at, end):
    """Offset behind the ; that ends the statement at `at`; None: a block comes first."""
    i = at
    while i < end:
        if code[i] in "([":
            i = closing(code, i)
        elif code[i] in "{}":
            return None
        elif code[i] == ";":
            return i + 1
        else:
            i += 1
    return None


def statements(code, begin, end):
    seen = set()
    for m in STATEMENT.finditer(code, begin, end):
        at = m.end()
        if at in seen or KEYWORD.match(code, at) or DECLARATION.match(code, at) or code[at:at + 2] == "))":
            continue
        seen.add(at)
        before = code[begin:at].rstrip()
        if before.endswith(")") and not re.search(r"\b(if|for|while) $", code[begin:opening(code, begin + len(before))]):
            continue  # inside an expression
        if before.endswith(":") and not LABEL.search(before):
            continue  # the last part of a ? b : c
        stop = statement_end(code, at, end)
        if stop and inside(code, begin, at) and re.search(r"\(|=|\+\+|--", code[at:stop]):
            yield Site("statement", at, stop, ";")


def inside(code, begin, at):
    """No round or square bracket is open at `at`."""
    depth = 0
    for c in code[max(begin, code.rfind("\n\n", begin, at)):at]:
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(c, 0)
    return depth <= 0


def split_arguments(code, at, stop):
    """(start, end) of each argument of the call whose brackets are code[at:stop]."""
    parts, depth, first = [], 0, at + 1
    for i in range(at + 1, stop):
        c = code[i]
        if (c == "," and depth == 0) or i == stop - 1:
            parts.append((first, i))
            first = i + 1
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(c, 0)
    trim = []
    for a, b in parts:
        a += len(code[a:b]) - len(code[a:b].lstrip())
        trim.append((a, a + len(code[a:b].rstrip())))
    return trim


def swaps(text, code, begin, end):
    for m in CALL.finditer(code, begin, end):
        if m[1] in NOT_CALLS:
            continue
        at = m.end() - 1
        parts = split_arguments(code, at, closing(code, at))
        for (a, b), (c, d) in zip(parts, parts[1:]):
            x, y = text[a:b], text[c:d]
            if x and y and x != y:
                yield Site("arguments", a, d, y + text[b:c] + x)


def conditions(text, code, begin, end):
    for m in CONDITION.finditer(code, begin, end):
        stop = closing(code, m.end() - 1)
        yield Site("condition", m.end(), stop - 1, f"!({text[m.end():stop - 1]})")


def checks(text, code, begin, end):
    for m in CHECK.finditer(code, begin, end):
        stop = closing(code, m.end() - 1)
        if code[stop:stop + 1] == ";":
            inner = text[m.end():stop - 1]
            yield Site("check", m.start(), stop, f"(void)!({inner})" if m[1].startswith("GA_TRY") else "")
    for m in CONDITION.finditer(code, begin, end):
        stop = closing(code, m.end() - 1)
        tail = re.compile(r"\s+return\b[^;{}]*;").match(code, stop)
        if tail and not re.match(r"\s*else\b", code[tail.end():tail.end() + 20]) and not code[:m.start()].rstrip().endswith("else"):
            yield Site("check", m.start(), tail.end(), ";")


def sites(text):
    """All faults that can be planted in a file, by kind."""
    code = blank(text)
    found = {kind: [] for kind in KINDS}
    for begin, end, function in regions(code):
        found["constant"] += constants(code, begin, end)
        if function:
            found["comparison"] += comparisons(code, begin, end)
            found["statement"] += statements(code, begin, end)
            found["arguments"] += swaps(text, code, begin, end)
            found["condition"] += conditions(text, code, begin, end)
            found["check"] += checks(text, code, begin, end)
    return found


def draw(texts, seed):
    """Endless draws (path, site): first a kind, then a place where that kind can stand, each place once. texts: {path: text}."""
    rng = random.Random(seed)
    left = {kind: [] for kind in KINDS}
    for path in sorted(texts):
        for kind, found in sites(texts[path]).items():
            left[kind] += [(path, site) for site in found]
    while any(left.values()):
        kind = rng.choice([k for k in KINDS if left[k]])
        at = rng.randrange(len(left[kind]))
        left[kind][at], left[kind][-1] = left[kind][-1], left[kind][at]
        yield left[kind].pop()
