"""Which stream the wrappers give to ops: that of PyTorch for its tensors on a GPU. PyTorch and the ops are stand-ins."""
import sys
import types
import unittest
from pathlib import Path
from unittest import mock

import gpu_accel as ga
from gpu_accel import _flash_attention3, flashinfer

ALIASES = Path(__file__).resolve().parents[2] / "python" / "aliases"
STREAM = 77


class Tensor:
    """A tensor on GPU 1, as far as the wrappers look."""
    __module__ = "torch"
    is_cuda, device, dtype = True, "cuda:1", "bf16"
    shape = (1, 4, 2, 16)

    def __dlpack_device__(self):
        return 2, 1

    def transpose(self, *axes):
        return self

    def __getitem__(self, index):
        return self

    def __mul__(self, factor):
        return self

    T = property(lambda self: self)


def torch_of(seen):
    """torch with one current stream on GPU 1."""
    def current_stream(device):
        seen.append(device)
        return types.SimpleNamespace(cuda_stream=STREAM)
    return types.SimpleNamespace(Tensor=Tensor, empty=lambda *shape, **options: Tensor(), float32="f32", cuda=types.SimpleNamespace(current_stream=current_stream), from_dlpack=lambda x: x)


class Core:
    """The ops, which record the stream that they were given."""
    def __init__(self):
        self.streams, self.device = [], "cuda:1"

    def default_context(self, device):
        return self

    def asarray(self, x):
        return x

    def plan(self, op, *args, **options):
        return types.SimpleNamespace(kernel="none")

    def to_device(self, x):
        return x

    def op(self, *args, **options):
        self.streams.append(options.get("stream"))
        return Tensor()

    def pair(self, *args, **options):
        self.op(*args, **options)
        return Tensor(), Tensor()

    convert = gemm = attention_8bit = op
    attn_quant = pair

    def attention(self, *args, lse=False, **options):
        return self.pair(**options) if lse else self.op(**options)


class Streams(unittest.TestCase):
    def setUp(self):
        self.core, self.devices = Core(), []
        for patch in (mock.patch.dict(sys.modules, torch=torch_of(self.devices)), mock.patch.object(_flash_attention3, "_core", self.core),
                      mock.patch.object(flashinfer, "_core", self.core), mock.patch.object(sys, "path", [str(ALIASES), *sys.path])):
            patch.start()
            self.addCleanup(patch.stop)

    def on_torchs(self, calls):
        self.assertEqual(self.core.streams, [STREAM] * calls)
        self.assertEqual(set(self.devices), {"cuda:1"})

    def test_flash_attention3(self):
        x = Tensor()
        for precision, calls in (("bf16", 1), ("fp16", 4), ("int8", 4)):
            with self.subTest(precision):
                self.core.streams.clear()
                ga.FlashAttention3(precision).forward(x, x, x)
                self.on_torchs(calls)

    def test_ring(self):
        x = Tensor()
        ga.RingAttention().forward(x, x, x)
        self.on_torchs(1)

    def test_flashinfer(self):
        x = Tensor()
        flashinfer.single_prefill_with_kv_cache(x, x, x)
        wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper()
        wrapper.plan([0, 1], [0], [1], 2, 2, 16, 4)
        wrapper.run(x, (x, x))
        self.on_torchs(2)

    def test_aliases(self):
        import thunderkittens
        from flashcore.fast import attention_production
        x = Tensor()
        with mock.patch.object(thunderkittens, "gpu_accel", self.core):
            thunderkittens.gemm(x, x)
        with mock.patch.object(attention_production, "gpu_accel", self.core), mock.patch.object(Tensor, "dtype", "f32"):
            attention_production.attention(x, x, x)
        self.on_torchs(2)

    def test_others_get_none(self):
        from gpu_accel._streams import torch_stream
        self.assertEqual(torch_stream([1.0]), {})
        with mock.patch.object(Tensor, "is_cuda", False):
            self.assertEqual(torch_stream(Tensor()), {})


if __name__ == "__main__":
    unittest.main()
