"""GA in Python: exact attention, the other ops of a transformer, models and the batching engine.

Arrays come in by the buffer protocol, __dlpack__ or __cuda_array_interface__, and nothing is copied. Results are
gpu_accel.Array, or what is given as out=. Importing opens no device and imports no framework."""
from ._core import (
    ArgumentError, Array, BusyError, CancelledError, CommError, Context, Detokenizer, DeviceError, DtypeError, Error, FileError,
    FormatError, InternalError, OutOfMemoryError, Plan, Session, ShapeError, StateError, TimedOutError, UnsupportedError,
    act, add, asarray, attention, attention_8bit, attention_backward, attn_quant, backends, convert, default_context,
    distributed_attention, distributed_methods, embed, gemm, kv_store, norm, rng, rope, rope_freqs, sample, softmax, version)

__version__ = version()

_LATER = {"Model": "_model", "Engine": "_engine", "Request": "_engine", "Token": "_engine", "LLM": "_llm",
          "SamplingParams": "_llm", "RequestOutput": "_llm", "CompletionOutput": "_llm", "Llama": "_llama",
          "FlashAttention3": "_flash_attention3", "RingAttention": "_flash_attention3"}
_LATER |= dict.fromkeys(("flash_attn_func", "flash_attn_kvpacked_func", "flash_attn_qkvpacked_func", "flash_attn_varlen_func",
                         "flash_attn_varlen_kvpacked_func", "flash_attn_varlen_qkvpacked_func", "flash_attn_with_kvcache"), "_flash_attn")


def quantize(x, dtype, *, out=None):
    """x [..., width] f32, f16 or bf16 as blocks of `dtype` ('q8_0', 'q4_0', ...): convert() under its usual name."""
    return convert(x, dtype, out=out)


def dequantize(x, dtype="f32", *, out=None):
    """x, an Array of a quantised type, as f32, f16 or bf16."""
    return convert(x, dtype, out=out)


def __getattr__(name):
    if name not in _LATER:
        raise AttributeError(f"module 'gpu_accel' has no attribute {name!r}")
    from importlib import import_module
    value = getattr(import_module("." + _LATER[name], __name__), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted([*globals(), *_LATER])
