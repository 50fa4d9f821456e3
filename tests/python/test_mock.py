"""Calls on tensors of a GPU over the mock driver (mock_backend.c): they enqueue on PyTorch's current stream, and neither wait
nor allocate. PyTorch is a stand-in, whose tensors are memory of the mock."""
import ctypes
import sys
import types
import unittest
from unittest import mock

import gpu_accel as ga
import xla_frame
from gpu_accel import _core, flashinfer

DRIVER = ctypes.CDLL(_core.__file__)
DRIVER.mock_new_stream.restype = ctypes.c_void_p
DRIVER.mock_breach.restype = ctypes.c_char_p


class Tensor:
    """As far as the wrappers look."""
    __module__ = "torch"
    is_cuda, requires_grad = True, False

    def __init__(self, shape, dtype="bf16"):
        self.shape, self.dtype = tuple(shape), dtype
        DRIVER.mock_pause(1)  # PyTorch has its own allocator, which is not under test
        self.array = CONTEXT.empty(self.shape, dtype)
        KEPT.append(self.array)
        DRIVER.mock_pause(0)
        self.device = types.SimpleNamespace(type="cuda", index=0)

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __getitem__(self, index):
        if index is None:
            return self.seen_as(1, *self.shape)
        if index == (slice(None), None):
            return self.seen_as(self.shape[0], 1, *self.shape[1:])
        if isinstance(index, tuple):  # o[:, 0]
            return self
        return self.seen_as(*self.shape[1:])

    def seen_as(self, *shape):
        return Tensor(shape, self.dtype)

    def flatten(self, *_):
        return self.seen_as(self.shape[0] * self.shape[1], *self.shape[2:]) if len(self.shape) > 1 else self

    def __add__(self, _):
        return self

    __floordiv__ = __mod__ = __mul__ = __add__

    def contiguous(self):
        return self

    def dim(self):
        return len(self.shape)

    def gather(self, *_):
        return self.seen_as(*self.shape)

    int = long = contiguous

    def transpose(self, *_, **__):
        return self

    to = clamp = transpose

    def is_floating_point(self):
        return self.dtype in ("f32", "bf16")


STREAM = None
CONTEXT = None
KEPT = []


def stand_in():
    def empty(shape, dtype=None, device=None):
        return Tensor(shape, dtype)
    return types.SimpleNamespace(
        Tensor=Tensor, float32="f32", int32="i32", empty=empty, is_grad_enabled=lambda: True, from_dlpack=lambda x: x,
        bool="bool", as_tensor=lambda x, **_: x, full=lambda shape, *_, **__: empty(shape, "i32"), arange=lambda n, **_: empty((n,), "i32"),
        cuda=types.SimpleNamespace(current_stream=lambda device: types.SimpleNamespace(cuda_stream=STREAM)))


class NoWaits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        global STREAM, CONTEXT
        CONTEXT = ga.default_context("cuda:0")
        STREAM = DRIVER.mock_new_stream()

    def setUp(self):
        patch = mock.patch.dict(sys.modules, torch=stand_in())
        patch.start()
        self.addCleanup(patch.stop)

    def check(self, call, launches):
        """Once for what the first call loads; then under watch."""
        call()
        before = DRIVER.mock_launches()
        DRIVER.mock_watch(1)
        try:
            call()
        finally:
            DRIVER.mock_watch(0)
        self.assertEqual(DRIVER.mock_breach(), b"")
        self.assertGreaterEqual(DRIVER.mock_launches() - before, launches)

    def draw(self, *shapes):
        return [Tensor(s) for s in shapes]

    def test_flash_attn(self):
        q, k, v = self.draw((2, 64, 4, 64), (2, 64, 4, 64), (2, 64, 4, 64))
        slopes = Tensor((4,), "f32")
        self.check(lambda: ga.flash_attn_func(q, k, v, causal=True, alibi_slopes=slopes), 1)
        p, start = Tensor((90, 4, 64)), Tensor((3,), "i32")
        self.check(lambda: ga.flash_attn_varlen_func(p, p, p, start, start, 60, 60, causal=True, alibi_slopes=slopes), 1)

    def test_kvcache(self):
        q, kc, vc = self.draw((2, 1, 4, 64), (9, 16, 2, 64), (9, 16, 2, 64))
        table, lengths = Tensor((2, 4), "i32"), Tensor((2,), "i32")
        self.check(lambda: ga.flash_attn_with_kvcache(q, kc, vc, cache_seqlens=lengths, block_table=table, causal=True), 1)
        self.check(lambda: ga.flash_attn_with_kvcache(q, kc, vc, cache_seqlens=lengths, block_table=table, causal=True, return_softmax_lse=True), 1)

    def test_flashinfer(self):
        q, kc, vc = self.draw((2, 4, 64), (9, 16, 2, 64), (9, 16, 2, 64))
        wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper()
        wrapper.plan([0, 1, 3], [0, 1, 2], [7, 9], 4, 2, 64, 16)
        self.check(lambda: wrapper.run(q, (kc, vc)), 1)
        packed = flashinfer.BatchPrefillWithPagedKVCacheWrapper()
        packed.plan([0, 3, 5], [0, 1, 3], [0, 1, 2], [7, 9], 4, 2, 64, 16, causal=True)
        p = Tensor((5, 4, 64))
        self.check(lambda: packed.run(p, (kc, vc)), 1)

    def test_the_watch_sees(self):
        """Without a stream the module waits, and the mock tells."""
        q, = self.draw((1, 64, 4, 64))
        out = Tensor((1, 64, 4, 64))
        CONTEXT.attention(q, q, q, out=out)
        DRIVER.mock_watch(1)
        CONTEXT.attention(q, q, q, out=out)
        DRIVER.mock_watch(0)
        self.assertIn(b"while the caller records", DRIVER.mock_breach())


class JaxStreams(unittest.TestCase):
    def test_the_stream_of_each_call(self):
        """A call enqueues on the stream that XLA names for it, whichever came before, and asks for it with its own context."""
        context = ga.default_context("cuda:0")
        arrays = [context.empty((4, 272), "i8"), context.empty((3,), "i32"), context.empty((3, 256), "f32")]
        table, ids, y = (xla_frame.buffer(dtype, memory_of(a), *shape) for a, dtype, shape in zip(arrays, (6, 4, 11), ((4, 272), (3,), (3, 256))))
        DRIVER.mock_launched_on.restype = ctypes.c_void_p
        first, second = DRIVER.mock_new_stream(), DRIVER.mock_new_stream()
        xla, rows = xla_frame.Xla(), xla_frame.handler("gpu_accel_rows", "CUDA")
        for number, stream in enumerate((first, second, first, second, second)):
            before = DRIVER.mock_launches()
            self.assertIsNone(xla.call(rows, [table, ids], [y], 100 + number, stream, w_dtype="q8_0"), xla.said)
            self.assertEqual(DRIVER.mock_launches(), before + 1)
            self.assertEqual(DRIVER.mock_launched_on(), stream)
        self.assertEqual(xla.asked, [100, 101, 102, 103, 104])


def memory_of(array):
    """The address of an array on the mock, as DLPack tells it."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    capsule = array.__dlpack__(stream=-1)
    at = pointer(capsule, b"dltensor")
    KEPT.append(capsule)
    return ctypes.cast(at, ctypes.POINTER(ctypes.c_void_p))[0]


if __name__ == "__main__":
    unittest.main()
