#!/usr/bin/env python3
"""Draws docs/results/*.svg and writes the tables of docs/results/*.md (between <!-- table: NAME --> and <!-- end -->)
from bench/h200/*.json and bench/cpu-*/*.json. With --check it writes nothing and fails when a file is not what it would
write. Usage: plot_results.py [ROOT] [--check]"""
import json
import math
import re
import sys
from pathlib import Path

COLOURS = {"GA": "#00875a", "GA, fast sums": "#00875a", "GA, exact sums": "#5cc8a0", "GA, deterministic": "#5cc8a0", "FlashAttention-3": "#d1495b", "FlashAttention-4": "#e07b39",
           "cuDNN": "#2f6fb7", "FlashAttention-2": "#8d99ae", "FlashCore": "#8d6bb8", "llama.cpp": "#2f6fb7", "bf16": "#8d99ae"}
NAMES = {"fa3": "FlashAttention-3", "fa4": "FlashAttention-4", "cudnn": "cuDNN", "fa2": "FlashAttention-2", "flashcore": "FlashCore"}
PANEL_W, PANEL_H, PAD_L, PAD_R, PAD_T, PAD_B = 320, 190, 46, 22, 26, 34
DECODE_BYTES = 4.62e9 + 0.07e9  # weights and cache of a token of the 8B shape in Q4_K_M after 512 (docs/log/models.md)
TOKEN_FLOP = 15e9  # of a token of that shape (docs/log/models.md, Energy)


# --- SVG ---

def escape(text):
    return str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


class Svg:
    def __init__(self, width, height, title):
        self.width, self.height, self.parts = width, height, []
        self.rect(0, 0, width, height, "#ffffff")
        self.text(width / 2, 18, title, anchor="middle", size=13, bold=True)

    def rect(self, x, y, w, h, fill):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" fill="{fill}"/>')

    def line(self, x0, y0, x1, y1, colour="#d0d4da", width=1, dash=""):
        dash = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" stroke="{colour}" stroke-width="{width}"{dash}/>')

    def path(self, points, colour, width=2):
        at = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{at}" fill="none" stroke="{colour}" stroke-width="{width}"/>')

    def dot(self, x, y, colour, r=3):
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r}" fill="{colour}"/>')

    def text(self, x, y, what, anchor="start", size=10, bold=False, colour="#333333"):
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}"{weight}>{escape(what)}</text>')

    def legend(self, names, y):
        x = self.width / 2 - 75 * len(names)
        for name in names:
            self.rect(x, y - 8, 12, 8, COLOURS[name])
            self.text(x + 17, y, name)
            x += 150

    def done(self):
        head = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height}" '
                f'viewBox="0 0 {self.width} {self.height}" font-family="Helvetica, Arial, DejaVu Sans, sans-serif">')
        return "\n".join([head, *self.parts, "</svg>"]) + "\n"


def nice_top(value):
    step = 10 ** math.floor(math.log10(value))
    return next(step * m for m in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if step * m >= value)


def lines_panel(svg, x0, y0, title, series, unit):
    """series: {name: [(length, value)]}; lengths on a logarithmic axis."""
    lengths = sorted({x for points in series.values() for x, _ in points})
    top = nice_top(max(y for points in series.values() for _, y in points))
    left, right, up, down = x0 + PAD_L, x0 + PANEL_W - PAD_R, y0 + PAD_T, y0 + PANEL_H - PAD_B
    low, high = math.log(lengths[0]), math.log(lengths[-1])
    def at(x, y):
        return left + (math.log(x) - low) / (high - low) * (right - left), down - y / top * (down - up)
    svg.text((left + right) / 2, y0 + 16, title, anchor="middle", bold=True)
    for i in range(5):
        y = at(lengths[0], top * i / 4)[1]
        svg.line(left, y, right, y)
        svg.text(left - 5, y + 3, f"{top * i / 4:g}", anchor="end", size=9)
    for x in lengths:
        svg.text(at(x, 0)[0], down + 13, x, anchor="middle", size=9)
    svg.text(left, y0 + PANEL_H - 8, f"{unit} by sequence length", size=9, colour="#777777")
    for name, points in series.items():
        drawn = [at(x, y) for x, y in points]
        svg.path(drawn, COLOURS[name])
        for p in drawn:
            svg.dot(*p, COLOURS[name])


def lines_figure(title, panels, unit, columns):
    names = list(dict.fromkeys(name for series in panels.values() for name in series))
    rows = -(-len(panels) // columns)
    svg = Svg(columns * PANEL_W, 52 + rows * PANEL_H, title)
    svg.legend(names, 38)
    for i, (name, series) in enumerate(panels.items()):
        lines_panel(svg, i % columns * PANEL_W, 48 + i // columns * PANEL_H, name, series, unit)
    return svg.done()


def bars_figure(title, groups, unit, names):
    """groups: {label: {name: value}}, each group scaled by itself."""
    width, height = 60 + 150 * len(groups), 250
    svg = Svg(width, height, title)
    svg.legend(names, 38)
    for i, (label, values) in enumerate(groups.items()):
        x, top = 60 + 150 * i, max(values.values())
        for j, name in enumerate(names):
            h = values[name] / top * 130
            svg.rect(x + 46 * j, 205 - h, 40, h, COLOURS[name])
            svg.text(x + 46 * j + 20, 200 - h, f"{values[name]:,.0f}", anchor="middle", size=9)
        svg.text(x + 43, 221, label, anchor="middle", bold=True)
        svg.text(x + 43, 235, f"{values[names[0]] / values[names[1]]:.2f} x", anchor="middle", size=9, colour="#777777")
    svg.text(8, height - 6, f"{unit}; each model has its own scale", size=9, colour="#777777")
    return svg.done()


# --- what is measured ---

def load(root, name):
    return json.loads((root / "bench" / name).read_text())


def own(shape, fast=False):
    """The result of our row: of 8-bit files that with fast sums, or that without."""
    ids = [i for i in shape["ours"] if i.startswith("attn_")]
    if len(ids) > 1:
        ids = [i for i in ids if ("_flow" in i or "_fast_sum" in i) == fast]
    return shape["results"][ids[0]]["median"]


def attention(root):
    rows = []
    for s in load(root, "h200/attention_long.json")["shapes"]:
        r = {"GA": own(s)} | {NAMES[k]: s["results"][k]["median"] for k in ("fa3", "fa4", "cudnn", "fa2")}
        rows.append((f"D {s['d']}, {'causal' if s['causal'] else 'full'}", s["s"], r))
    return rows


def attention_fp8(root):
    rows = []
    for s in load(root, "h200/attention_fp8_fast.json")["shapes"]:
        bf16 = next(v["median"] for k, v in s["results"].items() if k.startswith("attn_fwd_bf16"))
        r = {"GA, fast sums": own(s, True), "GA, exact sums": own(s), "FlashAttention-3": s["results"]["fa3"]["median"], "bf16": bf16}
        rows.append((f"D {s['d']}, {'causal' if s['causal'] else 'full'}", s["s"], r))
    return rows


def attention_bwd(root):
    rows = []
    for s in load(root, "h200/attention-bwd.json"):
        d = s["dim"].split("x")
        d = d[0] if d[0] == d[1] else "/".join(d)
        r = {"GA": s["ga"], "GA, deterministic": s["ga ordered"]}
        r |= {NAMES[k]: s[k] for k in ("fa3", "cudnn") if k in s}
        rows.append((f"D {d}, {'causal' if s['causal'] else 'full'}", s["length"], r))
    return rows


def short(root):
    rows = []
    for s in load(root, "h200/attention_short.json")["shapes"]:
        r = {"GA": own(s)} | {NAMES[k]: s["results"][k]["median"] for k in ("fa2", "cudnn", "fa3", "fa4")}
        rows.append((f"{s['b']} x {s['s']}", r))
    return rows


def few(root):
    rows = []
    for s in load(root, "h200/attention_few.json")["shapes"]:
        r = {"GA": own(s)} | {NAMES[k]: s["results"][k]["median"] for k in ("cudnn", "fa2")}
        rows.append(((s["d"], s["b"], s["q"], s["kv"]), r))
    return rows


MODELS = {"llama-8b": "Llama 3 8B", "llama-gemma-3-1b": "Gemma 3 1B", "llama-gemma-3-270m": "Gemma 3 270M", "llama-smollm2-135m": "SmolLM2 135M"}


def models(root):
    for file, name in MODELS.items():
        d = load(root, f"h200/{file}.json")
        peers = [v for k, v in d.items() if k.startswith("fa-")]
        yield name, {what: {"GA": d["ours"][f"{what}_tok_s"], "llama.cpp": max(p[f"{what}_tok_s"] for p in peers)} for what in ("decode", "prefill")}


def cpu_models(root):
    for path in sorted((root / "bench/cpu-xeon-amx").glob("*.json")):
        d = json.loads(path.read_text())
        yield path.stem, d


# --- figures ---

def by_panel(rows):
    panels = {}
    for panel, length, results in rows:
        for name, value in results.items():
            panels.setdefault(panel, {}).setdefault(name, []).append((length, value))
    return panels


def roofline(root):
    probe = load(root, "h200/probe.json")["figures"]
    memory, tensor = probe["read_gbs"] * 1e9, probe["bf16_tflops"] * 1e12
    svg = Svg(640, 380, "Roofline of an H200: measured ceilings, and where GA is")
    left, right, up, down = 70, 610, 50, 320
    x_low, x_high, y_low, y_high = 0, 4, 12, 15.3  # powers of ten of FLOP a byte, FLOP/s
    def at(x, y):
        return left + (math.log10(x) - x_low) / (x_high - x_low) * (right - left), down - (math.log10(y) - y_low) / (y_high - y_low) * (down - up)
    for p in range(x_low, x_high + 1):
        x = at(10 ** p, 1e12)[0]
        svg.line(x, up, x, down)
        svg.text(x, down + 14, f"{10 ** p}", anchor="middle", size=9)
    for p in range(y_low, 16):
        y = at(1, 10 ** p)[1]
        svg.line(left, y, right, y)
        svg.text(left - 6, y + 3, f"{10 ** p / 1e12:g}", anchor="end", size=9)
    svg.text(left, 350, "FLOP for each byte of memory traffic (least possible)", size=9, colour="#777777")
    svg.text(8, up - 6, "TFLOP/s", size=9, colour="#777777")
    knee = tensor / memory
    svg.path([at(1, memory), at(knee, tensor), at(1e4, tensor)], "#333333")
    svg.text(at(12, memory * 12)[0] - 10, at(12, memory * 12)[1] - 12, f"memory, read: {memory / 1e12:.2f} TB/s", anchor="end", size=9)
    svg.text(right - 4, at(1, tensor)[1] - 6, f"tensor cores, bf16, for a second: {tensor / 1e12:.0f} TFLOP/s", anchor="end", size=9)
    for s in load(root, "h200/attention_long.json")["shapes"]:
        flop = 4 * s["b"] * s["h"] * s["s"] ** 2 * s["d"] / (2 if s["causal"] else 1)
        svg.dot(*at(flop / (4 * 2 * s["b"] * s["h"] * s["s"] * s["d"]), own(s) * 1e12), COLOURS["GA"] if not s["causal"] else "#5cc8a0", 3)
    eight = dict(models(root))["Llama 3 8B"]
    speed = eight["decode"]["GA"]
    for label, intensity, rate in (("8B, one token", TOKEN_FLOP / DECODE_BYTES, speed * TOKEN_FLOP),
                                   ("8B, prompt of 2048", 2048 * TOKEN_FLOP / DECODE_BYTES, eight["prefill"]["GA"] * TOKEN_FLOP)):
        x, y = at(intensity, rate)
        svg.dot(x, y, "#d1495b", 4)
        svg.text(x, y + 16, label, anchor="middle" if intensity > 1000 else "start", size=9)
    svg.dot(left + 290, 361, COLOURS["GA"])
    svg.text(left + 298, 364, "attention, full", size=9)
    svg.dot(left + 380, 361, "#5cc8a0")
    svg.text(left + 388, 364, "attention, causal", size=9)
    svg.dot(left + 490, 361, "#d1495b")
    svg.text(left + 498, 364, "a model", size=9)
    return svg.done()


def figures(root):
    found = dict(models(root))
    return {
        "attention.svg": lines_figure("Attention forward, bf16, one H200", by_panel(attention(root)), "TFLOP/s", 2),
        "attention-fp8.svg": lines_figure("Attention forward in 8 bits, one H200", by_panel(attention_fp8(root)), "TFLOP/s", 2),
        "attention-bwd.svg": lines_figure("Attention backward, bf16, one H200", by_panel(attention_bwd(root)), "TFLOP/s", 2),
        "decode.svg": bars_figure("One token after 512, Q4_K_M, one H200", {k: v["decode"] for k, v in found.items()}, "tokens a second", ["GA", "llama.cpp"]),
        "prefill.svg": bars_figure("A prompt of 2048, Q4_K_M, one H200", {k: v["prefill"] for k, v in found.items()}, "tokens a second", ["GA", "llama.cpp"]),
        "roofline.svg": roofline(root),
    }


# --- tables ---

def mean(values):
    return math.exp(sum(math.log(v) for v in values) / len(values))


def table(head, rows):
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(r) + " |" for r in rows)])


def lengths_table(rows, names, ratio):
    out, ratios = [], []
    for panel, length, results in rows:
        cells = [f"{results[n]:.0f}" if n in results else "" for n in names]
        r = ratio(results)
        ratios += [r] if r else []
        out.append([panel, str(length), *cells, f"{r:.2f}" if r else ""])
    text = table(["shape", "length", *names, "ratio"], out)
    return text + f"\n\nThe geometric mean of the ratios is {mean(ratios):.2f}; the lowest is {min(ratios):.2f}."


def best_of(results, *rivals):
    there = [results[r] for r in rivals if r in results]
    return results["GA"] / max(there) if there else None


def short_table(root):
    names = ["GA", "FlashAttention-2", "cuDNN", "FlashAttention-3", "FlashAttention-4"]
    return table(["sequences x tokens", *names, "ratio"],
                 [[shape, *(f"{r[n]:.3f}" for n in names), f"{min(v for k, v in r.items() if k != 'GA') / r['GA']:.2f}"] for shape, r in short(root)])


def few_table(root):
    names = ["GA", "cuDNN", "FlashAttention-2"]
    return table(["head dim", "sequences", "queries", "keys", *names, "ratio"],
                 [[*map(str, key), *(f"{r[n]:.1f}" for n in names), f"{min(v for k, v in r.items() if k != 'GA') / r['GA']:.2f}"] for key, r in few(root)])


def models_table(root, what):
    return table(["model", "GA", "llama.cpp", "ratio"],
                 [[name, *(f"{v[what][n]:,.0f}" for n in ("GA", "llama.cpp")), f"{v[what]['GA'] / v[what]['llama.cpp']:.2f}"] for name, v in models(root)])


def cpu_table(root):
    return table(["model", "threads", "decode: GA", "llama.cpp", "ratio", "prompt of 512: GA", "llama.cpp", "ratio"],
                 [[d["model"], str(d["threads"]), f"{d['ours']['decode_tok_s']:.0f}", f"{d['llama']['decode_tok_s']:.0f}", f"{d['ratio']['decode_tok_s']:.2f}",
                   f"{d['ours']['prefill_tok_s']:.0f}", f"{d['llama']['prefill_tok_s']:.0f}", f"{d['ratio']['prefill_tok_s']:.2f}"] for _, d in cpu_models(root)])


PROBE = [("read_gbs", "read, GB/s"), ("copy_gbs", "copy, GB/s"), ("l2_read_gbs", "read of L2, GB/s"), ("l2_latency_cycles", "latency of L2, cycles"),
         ("memory_latency_cycles", "latency of memory, cycles"), ("f32_fma_tflops", "f32 multiply-adds, TFLOP/s"), ("mma_bf16_tflops", "mma.sync bf16, TFLOP/s"),
         ("bf16_tflops", "wgmma bf16 for a second, TFLOP/s"), ("f16_tflops", "wgmma f16 for a second, TFLOP/s"), ("e4m3_tflops", "wgmma e4m3 for a second, TFLOP/s")]


def probe_table(root):
    found = load(root, "h200/probe.json")["figures"]
    return table(["figure", "measured"], [[name, f"{found[key]:,.4g}" if found[key] < 100 else f"{found[key]:,.0f}"] for key, name in PROBE if key in found])


def tables(root):
    return {
        "attention": lengths_table(attention(root), ["GA", "FlashAttention-3", "FlashAttention-4", "cuDNN", "FlashAttention-2"],
                                   lambda r: best_of(r, "FlashAttention-3", "FlashAttention-4", "cuDNN", "FlashAttention-2")),
        "attention-fp8": lengths_table(attention_fp8(root), ["GA, fast sums", "GA, exact sums", "FlashAttention-3", "bf16"],
                                       lambda r: r["GA, fast sums"] / r["FlashAttention-3"]),
        "attention-bwd": lengths_table(attention_bwd(root), ["GA", "GA, deterministic", "FlashAttention-3", "cuDNN"],
                                       lambda r: best_of(r, "FlashAttention-3", "cuDNN")),
        "short": short_table(root), "few": few_table(root), "decode": models_table(root, "decode"), "prefill": models_table(root, "prefill"),
        "cpu": cpu_table(root), "probe": probe_table(root),
    }


def filled(text, found):
    def put(match):
        return f"<!-- table: {match.group(1)} -->\n\n{found[match.group(1)]}\n\n<!-- end -->"
    return re.sub(r"<!-- table: ([\w-]+) -->.*?<!-- end -->", put, text, flags=re.S)


def main():
    names = [a for a in sys.argv[1:] if a != "--check"]
    root = Path(names[0] if names else ".")
    folder, found, stale = root / "docs/results", tables(root), 0
    wanted = {folder / name: text for name, text in figures(root).items()}
    wanted |= {path: filled(path.read_text(), found) for path in sorted(folder.glob("*.md"))}
    for path, text in wanted.items():
        if path.exists() and path.read_text() == text:
            continue
        stale += 1
        if "--check" in sys.argv:
            print(f"{path} is stale; make it anew: python3 tools/plot_results.py")
        else:
            path.write_text(text)
    print(f"results: {len(wanted)} files, {stale} {'stale' if '--check' in sys.argv else 'written'}")
    return "--check" in sys.argv and stale > 0


if __name__ == "__main__":
    sys.exit(main())
