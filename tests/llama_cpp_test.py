#!/usr/bin/env python3
"""Files of llama.cpp's own converter: it makes GGUF of the folders of tests/data/arch, and GA has the logits of expected.txt from them, to the
bounds of test_arch. $GA_LLAMA_CPP is llama.cpp's source folder, such as vendor/llama.cpp of llama-cpp-python's source package. Skips (77) without
it, torch or transformers. Usage: llama_cpp_test.py TEST_ARCH DATA [NAME ...]

The folders have no tokenizer, and the files neither. Of a folder whose config.json says what the converter's files cannot, CHANGES has another value,
and transformers the logits in f64. OLDER are fields of configs before transformers 5. REFUSED are folders that the converter does not take, with
what it says, and LOST those whose files lack what the model has: one that passes nevertheless fails the test, so that the lists stay true."""
import json
import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path

if not os.environ.get("GA_LLAMA_CPP"):
    print("skipped: $GA_LLAMA_CPP is not set")
    sys.exit(77)
SOURCE = Path(os.environ["GA_LLAMA_CPP"])
sys.path[:0] = [str(SOURCE), str(SOURCE / "gguf-py"), str(Path(__file__).parent)]
try:
    import conversion
    import gguf
    import torch
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as KINDS
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)
import experts_transformers_test as witness

GPT_OSS_YARN = {"rope_parameters.truncate": True}
CHANGES = {
    "deepseek_v2": {"rope_scaling.mscale": 0.8},
    "glm4_moe_lite": {"rms_norm_eps": 1e-6},
    "gemma2": {"query_pre_attn_scalar": 32},
    "gpt_oss_folder": GPT_OSS_YARN,
    "gpt_oss_mxfp4": GPT_OSS_YARN,
    "llama4_folder": {"floor_scale": 8192},
    "mistral": {"sliding_window": None},
    "mistral3_of_mistral4": {"text_config.rope_parameters.llama_4_scaling_beta": 0},
    "mistral4": {"rope_parameters.llama_4_scaling_beta": 0},
    "starcoder2": {"sliding_window": None},
}
OLDER = {
    "cohere2": {"rotary_pct": 1},
    "glm4_moe_lite": {"first_k_dense_replace": 2, "scoring_func": "sigmoid"},
    "gpt2": {"n_ctx": 128},
}
REFUSED = {
    "gptneox": "KeyError: 'rotary_pct'",  # which transformers 5 drops
    "gptneoxfast": "KeyError: 'rotary_pct'",
    "gptneoxserial": "KeyError: 'rotary_pct'",
    "hunyuan_moe_folder": "KeyError: 'moe_intermediate_size'",  # made for the sizes of Hunyuan A13B alone
    "jina_bert_v2": "'BertLMHeadModel' not supported",
    "nomic_bert": "KeyError: 'n_positions'",  # transformers has other fields
    "qwen2_moe_mixed": "Can not map tensor 'model.layers.0.mlp",
    "qwen3_moe_mixed": "Can not map tensor 'model.layers.0.mlp",
    "stablelmnorms": "Unprocessed norms",
}
LOST = {
    "gpt_oss_mxfp4": "on cpu, chunks of 40",  # the CPU rounds activations, and a router turns: the changed folder has the same error
    "phi2": "blk.0.attn_k.weight has 2 dimensions",  # the file has as many heads of keys as of queries
}
CLASSES = {"mistral4": "Mistral3ForConditionalGeneration"}  # where the converter has another than transformers
TOKENIZER = {"model": {"type": "WordPiece", "vocab": {str(i): i for i in range(96)}, "merges": []}, "added_tokens": []}


def changed_config(folder):
    config = json.loads((folder / "config.json").read_text())
    for path, value in CHANGES.get(folder.name, {}).items():
        *parts, last = path.split(".")
        at = config
        for part in parts:
            at = at[part]
        at[last] = value
    return config


def write_folder(folder, out, config):
    """The same folder with that config."""
    out.mkdir()
    (out / "config.json").write_text(json.dumps(config))
    (out / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    (out / "model.safetensors").symlink_to(folder / "model.safetensors")
    return out


def convert(folder, out):
    config = changed_config(folder)
    kind = config["model_type"]
    if kind in CLASSES or "architectures" not in config:
        config["architectures"] = [CLASSES.get(kind) or KINDS[kind]]
    plain = write_folder(folder, out / "folder", config | OLDER.get(folder.name, {}))
    model = conversion.get_model_class(config["architectures"][0])
    for each in conversion.ModelBase._model_classes[conversion.ModelType.TEXT].values():
        each.set_vocab = lambda self: None
    with torch.inference_mode():
        model(plain, gguf.LlamaFileType.ALL_F32, out / "model.gguf", model_name=folder.name).write()
    return out / "model.gguf"


def expected(folder, out):
    """A folder with what transformers computes by the changed config."""
    ids, _ = witness.read_expected(folder / "expected.txt")
    model = witness.load(write_folder(folder, out / "changed", changed_config(folder)))
    with torch.no_grad():
        rows = model(torch.tensor([ids])).logits[0].double()
    text = [f"model {folder.name}", f"ids {len(ids)} " + " ".join(map(str, ids))]
    text += ["row " + " ".join(f"{v:.9g}" for v in row) for row in rows.tolist()]
    (out / "changed" / "expected.txt").write_text("\n".join(text) + "\n")
    return out / "changed"


def what_is_wrong(program, folder, out):
    """None if GA has the same logits."""
    try:
        made = convert(folder, out)
    except Exception as e:  # whatever the converter raises
        return f"is not converted: {type(e).__name__}: {e}"
    done = subprocess.run([program, folder.name, made, expected(folder, out) if folder.name in CHANGES else folder], capture_output=True, text=True)
    lines = [line for line in (done.stdout + done.stderr).splitlines() if "error" in line.lower()]
    return None if done.returncode == 0 else " ".join(lines[:1]) or f"test_arch ends with {done.returncode}"


def check(program, folder):
    with tempfile.TemporaryDirectory() as out:
        wrong = what_is_wrong(program, folder, Path(out))
    listed = REFUSED.get(folder.name) or LOST.get(folder.name)
    is_right = listed in (wrong or "") if listed else wrong is None
    print(f"{folder.name}: {wrong or 'same logits'}{', as listed' if listed and is_right else ''}", flush=True)
    return is_right


def main():
    program, data = sys.argv[1], Path(sys.argv[2]).resolve()
    logging.disable(logging.CRITICAL)
    transformers.logging.disable_progress_bar()
    folders = [data / name for name in sys.argv[3:]] or sorted(f for f in data.iterdir() if (f / "config.json").exists())
    passed = sum(check(program, folder) for folder in folders)
    print(f"{passed} passed, {len(folders) - passed} failed")
    return passed != len(folders)


if __name__ == "__main__":
    sys.exit(main())
