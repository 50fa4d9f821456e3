#!/usr/bin/env python3
"""llama.cpp's own Python package reads what `ga quantize` writes: the same metadata, and the same values from the blocks.

    gguf_reader.py GA [MODEL]     MODEL: a GGUF file to quantise instead of a random one

Needs the packages gguf and numpy (python3 -m pip install gguf numpy); without them it says so and ends with 77."""
import os
import subprocess
import sys
import tempfile

try:
    import gguf
    import numpy as np
except ImportError as missing:
    print(f"gguf_reader: skipped: {missing}")
    sys.exit(77)

GA = os.path.abspath(sys.argv[1])
TYPES = "f16 bf16 q8_0 q4_0 q4_1 q5_0 q5_1 q2_k q3_k_s q3_k_m q4_k_m q5_k_m q6_k iq4_nl iq4_xs mxfp4".split()
SIMPLE = {"q4_0": "Q4_0", "q4_1": "Q4_1", "q5_0": "Q5_0", "q5_1": "Q5_1", "q8_0": "Q8_0"}  # types that the package can write


def ga(*args):
    subprocess.run([GA, *args], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def values(tensor):
    return gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float64)


def rms(a):
    return float(np.sqrt(np.mean(np.square(a))))


def read(path):
    reader = gguf.GGUFReader(path)
    return reader, {t.name: t for t in reader.tensors}


def compare(kind, source, folder):
    """Blocks by their package, and by ga, which writes what it reads as f32."""
    path, plain = os.path.join(folder, kind + ".gguf"), os.path.join(folder, "plain.gguf")
    ga("quantize", source, path, kind, "--force")
    ga("quantize", path, plain, "f32", "--force")
    reader, theirs = read(path)
    _, ours = read(plain)
    _, first = read(source)
    worst, kinds = 0.0, set()
    for name, t in theirs.items():
        kinds.add(t.tensor_type.name)
        a, b = values(t), values(ours[name])
        worst = max(worst, float(np.max(np.abs(a - b)) / (np.max(np.abs(b)) + 1e-30)))
    assert worst < 1e-6, (kind, worst)
    name = "blk.0.ffn_up.weight"
    x = values(first[name])
    line = f"{kind:8} {', '.join(sorted(kinds)):34} differs by {worst:.1e}, error of {name} {rms(values(theirs[name]) - x) / rms(x):.5f}"
    if kind in SIMPLE:
        of = gguf.GGMLQuantizationType[SIMPLE[kind]]
        simple = gguf.quants.dequantize(gguf.quants.quantize(x.astype(np.float32), of), of)
        line += f" (theirs {rms(simple - x) / rms(x):.5f})"
        assert rms(values(theirs[name]) - x) <= rms(simple - x) * 1.0001, kind
    fields = reader.fields
    assert fields["general.architecture"].contents() == gguf.GGUFReader(source).fields["general.architecture"].contents()
    assert len(fields["tokenizer.ggml.tokens"].data) == len(gguf.GGUFReader(source).fields["tokenizer.ggml.tokens"].data)
    print(line, f"file_type {gguf.LlamaFileType(fields['general.file_type'].contents()).name}")


def check_imatrix(source, folder):
    text, path = os.path.join(folder, "text"), os.path.join(folder, "m.gguf")
    with open(text, "w") as f:
        f.write("abcdefgh ijklmnop " * 200)
    ga("imatrix", "-m", source, "-f", text, "-o", path, "-w", "64", "--limit", "4", "-d", "cpu")
    reader, tensors = read(path)
    assert reader.fields["general.type"].contents() == "imatrix"
    assert reader.fields["imatrix.chunk_count"].contents() == 4
    sums = tensors["blk.0.ffn_down.weight.in_sum2"]
    assert float(tensors["blk.0.ffn_down.weight.counts"].data.reshape(-1)[0]) == 256
    assert np.all(sums.data > 0) and list(sums.shape)[1:] in ([1], []), sums.shape
    print("imatrix  is read")


def main():
    with tempfile.TemporaryDirectory(prefix="ga-gguf-") as folder:
        source = sys.argv[2] if len(sys.argv) > 2 else os.path.join(folder, "source.gguf")
        if len(sys.argv) < 3:
            ga("synth", "--shape", "tiny", "--type", "f32", source)
        for kind in TYPES:
            compare(kind, source, folder)
        check_imatrix(source, folder)


if __name__ == "__main__":
    main()
