#!/usr/bin/env python3
"""transformers' continuous batching over Llama 3 8B's shape with random bf16 weights: output tokens/s by streams and settings, as JSON.

    transformers_serve.py [--streams 1,64,256] [--prompt 512] [--decode 128] [--requests 3] [--settings sdpa,fa3] [--json FILE]

Prompts are random ids, distinct; each answer has --decode tokens. A run has --requests requests a stream and at most so many
streams at once, as `ga bench --serve` keeps them, but without a server or sockets between. A warm-up of one request a stream
comes before. The packages fa3-fwd and transformers are to be installed; transformers takes FlashAttention-3 by the name of
another package, so the script writes a module of that name which passes calls on.
"""
import argparse
import json
import os
import random
import sys
import tempfile
import time
import traceback

# name: attention, keywords of ContinuousBatchingConfig
SETTINGS = {
    "sdpa": ("paged|sdpa", {}),
    "sdpa-graph": ("paged|sdpa", {"use_cuda_graph": True}),
    "fa3": ("flash_attention_3", {}),
    "fa3-graph": ("flash_attention_3", {"use_cuda_graph": True}),
    "fa3-async": ("flash_attention_3", {"use_cuda_graph": True, "use_async_batching": True}),
    "fa3-compile": ("flash_attention_3", {"use_cuda_graph": True, "use_async_batching": True, "default_compile_level": 1}),
}


def lend_fa3_its_name():
    folder = tempfile.mkdtemp()
    with open(os.path.join(folder, "flash_attn_interface.py"), "w") as f:
        f.write("from fa3_fwd_interface import *\nfrom fa3_fwd_interface import flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache\n")
    info = os.path.join(folder, "flash_attn_3-3.0.0.dist-info")
    os.mkdir(info)
    for name, text in (("METADATA", "Metadata-Version: 2.1\nName: flash-attn-3\nVersion: 3.0.0\n"), ("top_level.txt", "flash_attn_interface\n"),
                       ("RECORD", "flash_attn_interface.py,,\n")):
        with open(os.path.join(info, name), "w") as f:
            f.write(text)
    sys.path.insert(0, folder)


def make_model(torch, transformers):
    config = transformers.LlamaConfig(vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
                                      num_key_value_heads=8, max_position_embeddings=8192, rope_theta=500000.0, tie_word_embeddings=False,
                                      bos_token_id=None, eos_token_id=None, pad_token_id=None)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        return transformers.LlamaForCausalLM(config).eval()


def run(manager, rng, n, a):
    """Output tokens a second of n requests."""
    prompts = [[rng.randrange(1000, 128000) for _ in range(a.prompt)] for _ in range(n)]
    begin = time.monotonic()
    manager.add_requests(inputs=prompts, max_new_tokens=a.decode)
    tokens = done = 0
    while done < n:
        result = manager.get_result(timeout=1)
        if result is None:
            if not manager.is_running():
                raise RuntimeError(f"the manager ended after {done} of {n} requests")
        elif result.is_finished():
            if result.error:
                raise RuntimeError(result.error)
            done += 1
            tokens += len(result.generated_tokens)
    if tokens != n * a.decode:
        raise RuntimeError(f"{tokens} tokens instead of {n * a.decode}")
    return tokens / (time.monotonic() - begin)


def timed(transformers, model, setting, streams, a):
    from transformers.generation.continuous_batching.utils import WorkloadHints
    rng = random.Random(streams)
    attention, keywords = SETTINGS[setting]
    model.set_attn_implementation(attention)
    n = max(streams * a.requests, 2)
    generation = transformers.GenerationConfig(max_new_tokens=a.decode, do_sample=False, eos_token_id=-1, pad_token_id=0)
    batching = transformers.ContinuousBatchingConfig(max_requests_per_batch=streams, allow_block_sharing=False, **keywords)
    hints = WorkloadHints(max_prompt_length=a.prompt, max_generated_length=a.decode, num_requests=n)
    with model.continuous_batching_context_manager(generation_config=generation, continuous_batching_config=batching, timeout=30, workload_hints=hints) as m:
        run(m, rng, streams, a)
        return run(m, rng, n, a)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--streams", default="1,64,256")
    p.add_argument("--prompt", type=int, default=512)
    p.add_argument("--decode", type=int, default=128)
    p.add_argument("--requests", type=int, default=3, help="of a stream in a measured run")
    p.add_argument("--settings", default="sdpa,fa3", help="of " + ", ".join(SETTINGS))
    p.add_argument("--seconds", type=float, default=1e9, help="no further run begins after so many")
    p.add_argument("--json")
    a = p.parse_args()
    lend_fa3_its_name()
    import torch
    import transformers
    begin = time.monotonic()
    model = make_model(torch, transformers)
    out = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "transformers": transformers.__version__, "shape": "llama-3-8b", "weights": "bf16",
           "prompt": a.prompt, "decode": a.decode, "rows": []}
    for setting in a.settings.split(","):
        for streams in map(int, a.streams.split(",")):
            if time.monotonic() - begin > a.seconds:
                break
            row = {"setting": setting, "streams": streams}
            try:
                row["out_tok_s"] = round(timed(transformers, model, setting, streams, a), 1)
            except Exception as e:
                row["error"] = f"{type(e).__name__}: {e}"[:300]
                traceback.print_exc()
            print(row, file=sys.stderr, flush=True)
            out["rows"].append(row)
            if a.json:
                with open(a.json, "w") as f:
                    json.dump(out, f, indent=1)
    json.dump(out, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
