"""Mixtral as GGUF has it, by the name of Llama. keys, shapes and logits are what make_arch.py takes."""
from arch import llamagguf as base


def keys():
    return base.expert_sizes("llama")


def shapes():
    return base.decoder_shapes(base.expert_shapes())


def logits(w, ids):
    return base.decoder_logits(w, ids, lambda h, one: base.experts(h, one, base.share_of_chosen))
