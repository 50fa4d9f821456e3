"""Arrays in and out without NumPy: protocols, error texts, import."""
import array
import ctypes
import gc
import mmap
import os
import subprocess
import sys
import threading
import tracemalloc
import unittest

import gpu_accel as ga

CALLS = 1_000_000  # of ops, in the test for leaks
SANITIZED = "libasan" in open("/proc/self/maps").read()


def f32(*values):
    return array.array("f", values)


def rss():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * mmap.PAGESIZE


class OldCapsule:
    """A producer from before DLPack 1: __dlpack__ takes no max_version."""

    def __init__(self, inner):
        self.inner = inner

    def __dlpack__(self, stream=None):
        return self.inner.__dlpack__()

    def __dlpack_device__(self):
        return self.inner.__dlpack_device__()


class NewCapsule(OldCapsule):
    def __dlpack__(self, *, stream=None, max_version=None):
        return self.inner.__dlpack__(max_version=max_version)


class OnGpu:
    """Says that it lies on a GPU; the address is never read."""
    __cuda_array_interface__ = {"shape": (1, 8), "typestr": "<f4", "data": (4096, False), "version": 3}


class Producer:
    """Says that it lies on a GPU, and records the streams that __dlpack__ was asked with."""

    def __init__(self):
        self.asked = []

    def __dlpack__(self, *, stream=None, max_version=None):
        self.asked.append(stream)
        return ga.asarray(f32(1)).__dlpack__(max_version=max_version)

    def __dlpack_device__(self):
        return 2, 0


class Arrays(unittest.TestCase):
    def test_order_behind_a_producer(self):
        producer = Producer()
        self.assertEqual((ga._core._producer_stream(producer), producer.asked), (0, [1]))  # DLPack's 1 is CUDA's 0 too
        for given, wanted in ((None, None), (1, 0), (2, 2), (4096, 4096)):
            x = OnGpu()
            x.__cuda_array_interface__ = OnGpu.__cuda_array_interface__ | {"stream": given}
            self.assertEqual(ga._core._producer_stream(x), wanted)
        for x in (OnGpu(), f32(1), ga.asarray(f32(1))):
            self.assertIsNone(ga._core._producer_stream(x))

    def test_buffer_in_and_out(self):
        x = f32(1, 2, 3, 4)
        y = ga.add(x, f32(10, 10, 10, 10))
        self.assertEqual(memoryview(y).tolist(), [11, 12, 13, 14])
        self.assertEqual((y.shape, y.strides, y.dtype, y.device), ((4,), (1,), "f32", "cpu"))

    def test_out_is_given_back(self):
        x, out = f32(1, 2), f32(0, 0)
        self.assertIs(ga.add(x, x, out=out), out)
        self.assertEqual(list(out), [2, 4])

    def test_dlpack_old_and_new(self):
        x = ga.asarray(f32(1, 2, 3))
        for kind in (OldCapsule, NewCapsule):
            self.assertEqual(memoryview(ga.add(kind(x), x)).tolist(), [2, 4, 6])
        self.assertEqual(x.__dlpack_device__(), (1, 0))
        with self.assertRaises(BufferError):
            x.__dlpack__(copy=True)
        with self.assertRaises(BufferError):
            x.__dlpack__(dl_device=(2, 0))

    def test_dlpack_is_the_same_memory(self):
        store = f32(1, 2, 3)
        ga.add(NewCapsule(ga.asarray(store)), scale=2.0, out=NewCapsule(ga.asarray(store)))
        self.assertEqual(list(store), [2, 4, 6])

    def test_a_view_keeps_its_owner(self):
        view = ga.asarray(f32(*range(1000)))
        gc.collect()
        self.assertEqual(memoryview(view).tolist()[999], 999)

    def test_types_by_name(self):
        raw = array.array("H", [0x3F80, 0x4000])  # 1 and 2 in bf16
        self.assertEqual(memoryview(ga.convert(ga.asarray(raw, dtype="bf16"), "f32")).tolist(), [1, 2])
        with self.assertRaisesRegex(BufferError, "bf16"):
            memoryview(ga.asarray(raw, "bf16"))
        self.assertEqual(ga.asarray(bytes(36), "q4_0").shape, (64,))
        with self.assertRaisesRegex(ga.ShapeError, "q4_0 needs a multiple of 18"):
            ga.asarray(bytes(35), "q4_0")

    def check(self, error, text, call, *args, **kwargs):
        with self.assertRaises(error) as caught:
            call(*args, **kwargs)
        self.assertIn(text, str(caught.exception))

    def test_error_texts(self):
        x = f32(1, 2, 3, 4)
        self.check(ga.ArgumentError, "add: out: is read-only; allowed is an array that may be written", ga.add, x, out=bytes(16))
        self.check(ga.ArgumentError, "act: out: is read-only", ga.act, x, out=memoryview(x).toreadonly())
        self.check(ga.ShapeError, "add: x: stride of dimension 0 is -1 elements; allowed are 0 and more", ga.add, memoryview(x)[::-1])
        self.check(ga.ShapeError, "softmax: x: is f32 [2] strides [2]; allowed is", ga.softmax, memoryview(x)[::2])
        raw = memoryview(bytearray(17))[1:].cast("f")
        self.check(ga.ArgumentError, "is no multiple of 4 bytes, as f32 needs", ga.add, raw)
        big = (ctypes.c_float.__ctype_be__ * 4)()
        self.check(ga.DtypeError, "its byte order is not this machine's", ga.add, big)
        self.check(ga.ArgumentError, "add: x: lies on cuda:0; allowed is the device of the context, cpu", ga.default_context().add, OnGpu())
        self.check(ga.ArgumentError, "add: stream is 7; allowed on cpu is None", ga.add, x, stream=7)
        self.check(ga.ArgumentError, "forget_stream: 7; allowed are streams that an op was given", ga.default_context().forget_stream, 7)
        self.check(TypeError, "has none of buffer protocol, __dlpack__, __cuda_array_interface__", ga.add, 3)
        self.check(TypeError, "no argument is named 'gates'", ga.act, x, gates=x)
        self.check(TypeError, "add: x is missing", ga.add)
        self.check(ga.ArgumentError, "act: kind is 'relu'; allowed are 'none', 'silu', 'gelu_tanh', 'gelu', 'relu2', 'tanh'", ga.act, x, kind="relu")
        self.check(ga.ShapeError, "allowed is f32 [4]", ga.add, x, out=f32(1))

    def test_arguments_by_place(self):
        """As many as a signature has before its *, and not one more."""
        context = ga.default_context()
        x, lse, flat = context.empty((1, 2, 1, 4), "f32"), context.empty((1, 1, 2), "f32"), context.empty((4,), "f32")
        self.assertEqual(len(ga.attention_backward(x, x, x, x, lse, x)), 3)
        self.check(TypeError, "attention_backward", ga.attention_backward, x, x, x, x, lse, x, True)
        self.assertEqual(len(ga.attn_quant(x, "rows", "e4m3")), 2)
        self.check(TypeError, "attn_quant", ga.attn_quant, x, "rows", "e4m3", 64)
        self.check(ga.ShapeError, "allowed is [batch, tokens, heads, dim], contiguous along the last dimension", ga.attn_quant, flat)

    def test_strides_of_a_gpu_array(self):
        """The strides of __cuda_array_interface__ are read: as many as dimensions, and whole elements."""
        for strides, said in (((4,), "1 strides for 2 dimensions"), ((32, 6), "stride of dimension 1 is 6 bytes; allowed are multiples of 4"),
                              ((32, 4), "lies on cuda:0"), (None, "lies on cuda:0")):
            x = OnGpu()
            x.__cuda_array_interface__ = OnGpu.__cuda_array_interface__ | {"strides": strides}
            self.check(ga.Error, said, ga.default_context().add, x)

    def test_errors_are_pythons_too(self):
        self.assertTrue(issubclass(ga.ShapeError, ValueError) and issubclass(ga.ShapeError, ga.Error))
        self.assertTrue(issubclass(ga.OutOfMemoryError, MemoryError))
        self.assertEqual(ga.ShapeError.status, 2)
        with self.assertRaises(ga.Error):
            ga.Context("abacus")

    def test_distributed_sizes(self):
        """Empty arrays, so that no memory is needed: 2^32 must not be taken as 0."""
        for at in (0, 2, 3):
            shape = [1, 0, 1, 1]
            shape[at] = 1 << 32
            x = ga.default_context().empty(tuple(shape))
            self.check(ga.ShapeError, f"q: dimension {at} is 4294967296; allowed are at most 2147483647", ga.distributed_attention, x, x, x)

    @unittest.skipIf(SANITIZED, "the sanitizer ends a process that asks for so much")
    def test_distributed_result_without_memory(self):
        """Inputs of 32 MiB whose result, of 2^48 bytes, no address space has."""
        q, v = (memoryview(mmap.mmap(-1, 4 << 23)).cast("f", shape) for shape in ((1, 1, 1 << 23, 1), (1, 1, 1, 1 << 23)))
        k = array.array("f", [0])
        k = memoryview(k).cast("B").cast("f", (1, 1, 1, 1))
        with self.assertRaises(ga.OutOfMemoryError):
            ga.distributed_attention(q, k, v, ranks=1)

    def test_empty(self):
        self.assertEqual(ga.add(array.array("f")).shape, (0,))

    def test_plan(self):
        c = ga.default_context()
        x = f32(*range(8))
        plan = c.plan("add", x, x)
        self.assertIn(plan.kernel, plan.describe())
        self.assertEqual(memoryview(plan.run(x, x)).tolist(), [2 * i for i in range(8)])
        self.check(ga.ShapeError, "was made for other shapes", plan.run, f32(1), f32(1))
        self.check(ga.ArgumentError, "workspace: allowed in Plan.run() only", c.add, x, workspace=x)

    def test_ctypes(self):
        """Arrays of ctypes have shapes and no strides, whatever is asked for."""
        flat, rows = (ctypes.c_float * 4)(1, 2, 3, 4), (ctypes.c_float * 3 * 2)((1, 2, 3), (4, 5, 6))
        self.assertEqual(memoryview(ga.add(flat, flat)).tolist(), [2, 4, 6, 8])
        self.assertEqual(memoryview(ga.add(rows, rows)).tolist(), [[2, 4, 6], [8, 10, 12]])

    def test_no_leak(self):
        x, out = f32(*range(64)), f32(*range(64))
        c = ga.default_context()
        plan = c.plan("softmax", x)

        def calls(n):
            for _ in range(n):
                c.add(x, x, out=out)
                c.act(x)
                NewCapsule(c.softmax(x)).__dlpack__(max_version=(1, 0))
                plan.run(OldCapsule(ga.asarray(x)))
                try:
                    c.add(x, out[:3], out=out)
                except ga.ShapeError:
                    pass
        calls(1000)
        if SANITIZED:  # whose shadow and quarantine grow; a use after the end is what it looks for
            return
        before, held = rss(), (sys.getrefcount(x), sys.getrefcount(out))
        calls(CALLS // 5)
        self.assertLess(rss() - before, 1 << 20)
        tracemalloc.start()
        try:
            calls(1000)  # what caches keep
            traced = tracemalloc.get_traced_memory()[0]
            calls(CALLS // 50)
            self.assertLess(tracemalloc.get_traced_memory()[0] - traced, 1 << 12)
        finally:
            tracemalloc.stop()
        self.assertEqual((sys.getrefcount(x), sys.getrefcount(out)), held)
        x.append(0)  # BufferError while somebody still looks at its memory

    def test_threads_on_one_context(self):
        c = ga.Context("cpu", threads=1)
        bad = []

        def work(seed):
            x = f32(*[seed + i for i in range(256)])
            for _ in range(2000):
                if memoryview(c.add(x, x))[7] != 2 * (seed + 7):
                    bad.append(seed)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(bad, [])

    def test_import(self):
        code = ("import sys, time; t = time.perf_counter(); import gpu_accel; s = time.perf_counter() - t\n"
                "names = {'numpy', 'torch', 'jax', 'asyncio'} & set(sys.modules)\n"
                "maps = open('/proc/self/maps').read()\n"
                "print(s * 1e3, sorted(names), 'libcuda' in maps)")
        path = os.path.dirname(os.path.dirname(ga.__file__))
        runs = [subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
                               check=True).stdout.split(maxsplit=1) for _ in range(3)]
        self.assertLess(min(float(r[0]) for r in runs), 2000 if SANITIZED else 60)
        self.assertEqual(runs[0][1].strip(), "[] False")


if __name__ == "__main__":
    unittest.main()
