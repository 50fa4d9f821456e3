"""Files of ga dist run --timeline."""
import json


def read_spans(test, path):
    """Spans of each rank and stream in the order of their beginnings, which must not overlap; ranks with names of streams."""
    with open(path, encoding="utf-8") as f:
        events = json.load(f)["traceEvents"]
    spans = {}
    for e in sorted((e for e in events if e["ph"] == "X"), key=lambda e: (e["ts"], e["ts"] + e["dur"])):
        spans.setdefault((e["pid"], e["tid"]), []).append(e)
    for stream in spans.values():
        test.assertTrue(all(e["dur"] >= 0 for e in stream))
        test.assertTrue(all(a["ts"] + a["dur"] <= b["ts"] + 1e-3 for a, b in zip(stream, stream[1:])), stream)
    return spans, {(e["pid"], e["args"]["name"]) for e in events if e["name"] == "thread_name"}
