"""Array as Python's sequences are: sizes, indices, weak references, and what NumPy makes of its types."""
import gc
import unittest
import weakref
from array import array

import gpu_accel as ga

try:
    import numpy as np
except ImportError:
    np = None


class ArrayAsSequence(unittest.TestCase):
    """ndim, len(), indices and weak references, without NumPy."""

    def setUp(self):
        self.x = ga.default_context().empty((3, 4, 5))
        memoryview(self.x).cast("B").cast("f")[:] = array("f", range(60))

    def test_sizes(self):
        self.assertEqual((self.x.ndim, len(self.x), len(self.x[0]), self.x[0].ndim), (3, 3, 4, 2))
        one = ga.asarray(array("f", [7]))[0:1]
        self.assertEqual((one.shape, one[0], one[-1]), ((1,), 7.0, 7.0))
        with self.assertRaisesRegex(TypeError, "len"):
            len(ga.default_context().empty(()))

    def test_indices(self):
        whole = memoryview(self.x).tolist()
        for index, wanted in ((0, whole[0]), (-1, whole[2]), (slice(1, None), whole[1:]), ((1, 2), whole[1][2]), ((1, 2, 3), whole[1][2][3]), ((-1, -1, -1), 59.0),
                              ((slice(None), 1), [a[1] for a in whole]), ((..., 2), [[b[2] for b in a] for a in whole]), ((0, ..., 2), [b[2] for b in whole[0]]),
                              ((slice(None), slice(0, 4, 2), slice(1, 5, 3)), [[b[1:5:3] for b in a[0:4:2]] for a in whole]), (..., whole), (slice(5, 9), []),
                              ((2, slice(3, 3)), [])):
            with self.subTest(index=index):
                seen = self.x[index]
                self.assertEqual(memoryview(seen).tolist() if isinstance(seen, ga.Array) and 0 not in seen.shape else [] if isinstance(seen, ga.Array) else seen, wanted)
        self.assertEqual([memoryview(row).tolist() for row in self.x], whole)  # iteration ends
        for error, index in ((IndexError, 3), (IndexError, (0, 4)), (IndexError, (0, 0, 0, 0)), (IndexError, (..., 0, ...)), (TypeError, "a"), (TypeError, 1.5),
                             (ga.ArgumentError, slice(None, None, -1))):
            with self.subTest(index=index), self.assertRaises(error):
                self.x[index]

    def test_views_keep_the_memory(self):
        row = self.x[1]
        memoryview(row).cast("B").cast("f")[0] = -1
        self.assertEqual(self.x[1, 0, 0], -1)
        self.x = None
        gc.collect()
        self.assertEqual(row[0, 1], 21)
        self.assertEqual(memoryview(ga.add(row[:, 1:3])).tolist(), [[21, 22], [26, 27], [31, 32], [36, 37]])

    def test_elements_of_other_types(self):
        for dtype, values in (("f16", [0.5, -2.0, 6.103515625e-05, 5.960464477539063e-08, 65504.0]), ("bf16", [0.5, -2.0, 3.0]), ("f32", [1.25])):
            x = ga.convert(ga.asarray(array("f", values)), dtype)
            self.assertEqual([x[i] for i in range(len(x))], values)
        self.assertEqual([ga.asarray(array(kind, [-1, 5]))[1] for kind in "bhiq"], [5] * 4)
        blocks = ga.quantize(self.rows(), "q8_0")
        self.assertEqual(blocks[1].shape, (32,))
        with self.assertRaisesRegex(ga.UnsupportedError, "last dimension"):
            blocks[0, 3]

    def rows(self):
        x = ga.default_context().empty((2, 32))
        memoryview(x).cast("B").cast("f")[:] = array("f", range(64))
        return x

    def test_weak_references(self):
        gone = []
        reference = weakref.ref(self.x, gone.append)
        self.assertIs(reference(), self.x)
        self.x = None
        gc.collect()
        self.assertEqual((reference(), len(gone)), (None, 1))

    @unittest.skipIf(np is None, "numpy is missing")
    def test_types_that_numpy_lacks(self):
        x = ga.convert(np.ones((2, 32), "f4"), "bf16")
        for call in (lambda: np.asarray(x), lambda: np.array(x), lambda: x.numpy(), lambda: np.add(x, 1), lambda: np.asarray(ga.quantize(np.ones((2, 32), "f4"), "q8_0"))):
            with self.assertRaisesRegex(ga.DtypeError, "NumPy has no such type; allowed are convert"):
                call()
        np.testing.assert_array_equal(np.asarray(self.x), np.arange(60, dtype="f4").reshape(3, 4, 5))
        self.assertEqual(np.asarray(self.x, dtype="f8").dtype, np.float64)
        self.assertTrue(np.shares_memory(np.asarray(self.x), np.asarray(self.x[1])))


if __name__ == "__main__":
    unittest.main()
