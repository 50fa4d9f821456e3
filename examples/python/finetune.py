#!/usr/bin/env python3
"""Trains a small transformer of Hugging Face to count, with GA's attention forward and backward. Usage: finetune.py [STEPS]"""
import sys

import gpu_accel.transformers
import torch
from transformers import AutoModelForCausalLM, LlamaConfig

WORDS = 32


def batch(rows, length, generator):
    """Rows that count up from a random number."""
    first = torch.randint(0, WORDS, (rows, 1), generator=generator)
    return (first + torch.arange(length)) % WORDS


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    gpu_accel.transformers.register()
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=WORDS, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, pad_token_id=0)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="gpu_accel")
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(1)
    first = None
    for step in range(steps):
        ids = batch(8, 24, generator)
        loss = model(input_ids=ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        first = loss.item() if first is None else first
        if step % 20 == 0 or step == steps - 1:
            print(f"step {step}: loss {loss.item():.3f}")
    asked = torch.tensor([[3, 4, 5]])
    seen = model.eval().generate(asked, attention_mask=torch.ones_like(asked), max_new_tokens=5, do_sample=False, eos_token_id=None)
    print("after 3 4 5:", *seen[0, 3:].tolist())
    return loss.item() >= first


if __name__ == "__main__":
    sys.exit(main())
