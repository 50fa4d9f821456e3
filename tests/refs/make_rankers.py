#!/usr/bin/env python3
"""Tiny random cross-encoders, with scores of pairs in f64. Usage: make_rankers.py tests/data/rank

For each: NAME/config.json, NAME/model.safetensors (f32, seeded) and NAME/expected.txt: a line `pair N ID ... = SCORE` for each pair, whose first N ids
are the query's. Needs torch and transformers."""
import os
import sys

import torch
import transformers as hf
from safetensors.torch import save_file

SMALL = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_attention_heads=2, num_hidden_layers=2, num_labels=1)
MODELS = {
    "bert": lambda: hf.BertForSequenceClassification(hf.BertConfig(**SMALL, max_position_embeddings=64)),
    "xlm_roberta": lambda: hf.XLMRobertaForSequenceClassification(
        hf.XLMRobertaConfig(**SMALL, max_position_embeddings=66, type_vocab_size=1, pad_token_id=1, bos_token_id=0, eos_token_id=2)),
}
PAIRS = [(3, [2, 10, 3, 11, 12, 3]), (5, [2, 7, 8, 9, 3, 20, 21, 22, 23, 24, 25, 3]), (4, [2, 40, 41, 3, 40, 41, 3]), (2, [2, 3, 50, 3]),
         (9, [2, *range(4, 11), 3, *range(20, 44), 3])]


def main():
    for name, make in MODELS.items():
        folder = os.path.join(sys.argv[1], name)
        os.makedirs(folder, exist_ok=True)
        torch.manual_seed(7)
        model = make().eval()
        with torch.no_grad():
            for p in model.parameters():  # larger than the initial ones, so that every part counts
                p.copy_(torch.randn_like(p) * 0.3 + (1 if p.dim() == 1 and p.numel() == 32 else 0) * 0.5)
        model.config.architectures = [type(model).__name__]
        model.config.to_json_file(os.path.join(folder, "config.json"))
        save_file({k: v.contiguous() for k, v in model.state_dict().items()}, os.path.join(folder, "model.safetensors"))
        model = model.double()
        with open(os.path.join(folder, "expected.txt"), "w") as f:
            f.write(f"# transformers {hf.__version__}, torch {torch.__version__}, f64\n")
            for n, ids in PAIRS:
                types = [0] * n + [1 if name == "bert" else 0] * (len(ids) - n)
                with torch.no_grad():
                    score = model(input_ids=torch.tensor([ids]), token_type_ids=torch.tensor([types])).logits.item()
                f.write(f"pair {n} {' '.join(map(str, ids))} = {score:.9g}\n")
        print(name)


if __name__ == "__main__":
    main()
