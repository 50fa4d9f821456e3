#!/usr/bin/env python3
"""Models with experts of tests/data/arch against Hugging Face transformers in f64: each folder is loaded by its config.json, and its logits are
compared with expected.txt, to 1e-5 of their spread. Skips (77) without torch and transformers. Usage: experts_transformers_test.py DATA [NAME ...]

test_arch compares GA with the same expected.txt, from the folders, and test_convert from the GGUF files that GA makes of them."""
import json
import sys
import tempfile
from pathlib import Path

try:
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

BOUND = 1e-5
VALUES = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=torch.float64)


def read_expected(path):
    ids, rows = [], []
    for text in path.read_text().splitlines():
        word, *values = text.split()
        if word == "ids":
            ids = [int(v) for v in values[1:]]
        elif word == "row":
            rows.append([float(v) for v in values])
    return ids, torch.tensor(rows, dtype=torch.float64)


def expand_mxfp4(tensors):
    """Codes and scales become matrices [experts, in, out], as the model's class has them."""
    for name in [name for name in tensors if name.endswith("_blocks")]:
        codes, scales = tensors.pop(name), tensors.pop(name.replace("_blocks", "_scales"))
        pairs = torch.stack([VALUES[(codes & 15).long()], VALUES[(codes >> 4).long()]], -1)
        matrix = pairs.flatten(-2) * torch.exp2(scales.double() - 127)[..., None]
        tensors[name.removesuffix("_blocks")] = matrix.flatten(-2).transpose(1, 2)
    return tensors


def expand_fp8(tensors):
    """Codes of e4m3 are multiplied by the scales of their blocks of 128 x 128."""
    for name in [name for name in tensors if name.endswith("_scale_inv")]:
        codes, scales = tensors[name.removesuffix("_scale_inv")], tensors.pop(name)
        spread = scales.repeat_interleave(128, 0).repeat_interleave(128, 1)[: codes.shape[0], : codes.shape[1]]
        tensors[name.removesuffix("_scale_inv")] = codes.float() * spread
    return tensors


def load_fp8(folder):
    """The same folder without scales."""
    with tempfile.TemporaryDirectory() as plain:
        config = json.loads((folder / "config.json").read_text())
        del config["quantization_config"]
        (Path(plain) / "config.json").write_text(json.dumps(config))
        save_file(expand_fp8(load_file(folder / "model.safetensors")), Path(plain) / "model.safetensors", {"format": "pt"})
        return load(Path(plain))


def load(folder):
    config = transformers.AutoConfig.from_pretrained(folder)
    config._experts_implementation = "eager"  # the other ways have no f64
    if hasattr(config, "quantization_config"):
        if config.quantization_config["quant_method"] == "fp8":
            return load_fp8(folder)
        del config.quantization_config
        model = transformers.AutoModelForCausalLM.from_config(config)
        model.load_state_dict(expand_mxfp4(load_file(folder / "model.safetensors")))
        return model.double().eval()
    kind = getattr(transformers, (config.architectures or ["AutoModelForCausalLM"])[0], transformers.AutoModelForCausalLM)
    return kind.from_pretrained(folder, config=config, dtype=torch.float64).eval()


def error_of(folder):
    ids, want = read_expected(folder / "expected.txt")
    with torch.no_grad():
        got = load(folder)(torch.tensor([ids])).logits[0].double()
    return float((got - want).abs().max() / want.square().mean().sqrt())


def has_experts(folder):
    path = folder / "config.json"
    return path.exists() and any("expert" in key for key in json.loads(path.read_text()))


def main():
    data = Path(sys.argv[1])
    folders = [data / name for name in sys.argv[2:]] or [f for f in sorted(data.iterdir()) if has_experts(f)]
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    failed = 0
    for folder in folders:
        error = error_of(folder)
        failed += not error < BOUND
        print(f"{folder.name}: {error:.2g}{'' if error < BOUND else f', allowed {BOUND:g}'}")
    print(f"{len(folders) - failed} passed, {failed} failed; transformers {transformers.__version__}, torch {torch.__version__}")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
