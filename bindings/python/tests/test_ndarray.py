"""Arrays: zero-copy both ways, proven by address; layouts, types, lifetimes."""

import gc
import unittest
import weakref

import numpy as np

import cairn
from cairn import NDArray

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None


class Sharing(unittest.TestCase):
    def test_numpy_memory_is_shared(self):
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        array = NDArray(x)
        self.assertEqual(array.address, x.ctypes.data)
        self.assertEqual((array.shape, array.strides, array.dtype), ((2, 3), (3, 1), "float32"))
        back = array.numpy()
        self.assertEqual(back.ctypes.data, x.ctypes.data)
        back[1, 2] = 7
        self.assertEqual(x[1, 2], 7)

    def test_asarray_and_memoryview_share(self):
        array = NDArray.zeros([2, 2], "int32")
        self.assertEqual(np.asarray(array).ctypes.data, array.address)
        view = memoryview(array)
        view[1, 1] = 5
        self.assertEqual(array.tolist(), [[0, 0], [0, 5]])

    def test_strided_memory_is_shared(self):
        x = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
        part = x.transpose(2, 0, 1)[1:4:2]
        array = NDArray(part)
        self.assertEqual((array.address, array.strides), (part.ctypes.data, tuple(s // 2 for s in part.strides)))
        np.testing.assert_array_equal(array.numpy(), part)
        self.assertFalse(array.is_contiguous)
        np.testing.assert_array_equal(array.copy().numpy(), part)
        self.assertTrue(array.copy().is_contiguous)

    def test_what_cannot_be_shared_is_copied_or_refused(self):
        x = np.arange(4, dtype=np.float32)[::-1]
        array = NDArray(x)
        np.testing.assert_array_equal(array.numpy(), x)
        self.assertFalse(np.shares_memory(array.numpy(), x))
        with self.assertRaises(BufferError):
            NDArray(x, copy=False)

    def test_unaligned_memory_is_copied(self):
        raw = np.arange(33, dtype=np.uint8)
        offset = 1 if raw.ctypes.data % 4 == 0 else 0
        x = raw[offset : offset + 32].view(np.float32)
        self.assertNotEqual(x.ctypes.data % 4, 0)
        array = NDArray(x)
        self.assertNotEqual(array.address, x.ctypes.data)
        self.assertEqual(array.numpy().tobytes(), x.tobytes())

    def test_copy_is_a_copy(self):
        x = np.ones(3, np.float32)
        array = NDArray(x, copy=True)
        x[0] = 9
        self.assertEqual(array.tolist(), [1, 1, 1])

    def test_dlpack_out(self):
        array = NDArray(np.arange(6, dtype=np.float32).reshape(2, 3))
        out = np.from_dlpack(array)
        self.assertEqual(out.ctypes.data, array.address)
        np.testing.assert_array_equal(out, array.numpy())
        self.assertEqual(array.__dlpack_device__(), (1, 0))

    def test_dlpack_in(self):
        class Lender:
            def __init__(self, array):
                self.array = array

            def __dlpack__(self, **options):
                return self.array.__dlpack__()

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

        x = np.arange(6, dtype=np.float64).reshape(3, 2).T
        array = NDArray(Lender(x))
        self.assertEqual((array.address, array.shape, array.strides), (x.ctypes.data, (2, 3), (1, 2)))

    def test_a_capsule_nobody_takes_is_freed(self):
        array = NDArray.zeros([1000, 1000])
        before = gc.get_count()
        for _ in range(100):
            array.__dlpack__()
            array.__dlpack__(max_version=(1, 0))
            array.__dlpack__(copy=True)
        self.assertIsNotNone(before)

    def test_memory_lives_as_long_as_the_last_view(self):
        class Owner(bytearray):
            pass

        owner = Owner(16)
        alive = weakref.ref(owner)
        array = NDArray(owner, dtype="uint8")
        view = array.slice([4], [8])
        del owner, array
        gc.collect()
        self.assertIsNotNone(alive())
        self.assertEqual(view.tolist(), [0, 0, 0, 0])
        del view
        gc.collect()
        self.assertIsNone(alive())

    def test_numpy_view_keeps_the_array(self):
        out = NDArray.zeros([3], "int64").numpy()
        gc.collect()
        self.assertEqual(out.tolist(), [0, 0, 0])

    def test_read_only(self):
        x = np.ones(2, np.float32)
        x.flags.writeable = False
        array = NDArray(x)
        self.assertTrue(array.is_read_only)
        self.assertFalse(array.numpy().flags.writeable)
        with self.assertRaises(cairn.FailedPreconditionError):
            array.zero()
        with self.assertRaises(BufferError):
            array.__dlpack__()


class Types(unittest.TestCase):
    def test_every_type_of_numpy(self):
        names = "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64 complex64 complex128".split()
        for name in names:
            with self.subTest(name):
                x = np.array([[0, 1], [1, 0]]).astype(name)
                array = NDArray(x)
                self.assertEqual(array.address, x.ctypes.data)
                self.assertEqual(array.numpy().dtype, x.dtype)
                np.testing.assert_array_equal(array.numpy(), x)

    def test_names_are_those_of_the_runtime(self):
        self.assertEqual(NDArray(np.zeros(1, np.complex64)).dtype, "cfloat32")
        for name in ("bfloat16", "float8e4m3fn", "float8e5m2", "float8e8m0fn", "float4e2m1fn", "int4", "uint2"):
            self.assertEqual(NDArray.zeros([2], name).dtype, name)
        self.assertEqual(NDArray.zeros([2], "float8_e4m3fn").dtype, "float8e4m3fn")
        with self.assertRaisesRegex(ValueError, "float99"):
            NDArray.zeros([2], "float99")

    def test_bfloat16_as_raw_bits(self):
        array = NDArray.zeros([2], "bfloat16")
        raw = array.view("uint16")
        self.assertEqual(raw.address, array.address)
        raw.numpy()[:] = 0x3F80
        again = NDArray(raw.numpy(), dtype="bfloat16")
        self.assertEqual((again.dtype, again.address), ("bfloat16", array.address))
        if ml_dtypes is None:
            self.assertEqual(array.numpy().dtype, np.uint16)

    @unittest.skipIf(ml_dtypes is None, "there is no ml_dtypes")
    def test_types_of_ml_dtypes(self):
        for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"):
            with self.subTest(name):
                x = np.array([1, 2, 0.5], getattr(ml_dtypes, name))
                array = NDArray(x)
                self.assertEqual(array.address, x.ctypes.data)
                self.assertEqual(array.numpy().dtype, x.dtype)
                self.assertEqual(np.asarray(array).dtype, x.dtype)
                self.assertEqual(array.numpy().astype(np.float32).tolist(), [1, 2, 0.5])
        for name, values in (("int4", [-8, 0, 7]), ("uint4", [15, 0, 7])):
            with self.subTest(name):
                self.assertEqual(NDArray(np.array(values, getattr(ml_dtypes, name))).numpy().astype(np.int32).tolist(), values)

    def test_the_buffer_protocol_does_not_lie(self):
        with self.assertRaisesRegex(BufferError, "element type"):
            memoryview(NDArray.zeros([2], "bfloat16"))

    def test_lists_and_scalars(self):
        self.assertEqual(NDArray([1, 2]).dtype, "int64")
        self.assertEqual(NDArray([[1.5]], dtype="float32").dtype, "float32")
        self.assertEqual(NDArray(np.array(3.0)).shape, ())
        self.assertEqual(NDArray(np.zeros((0, 3))).numpy().shape, (0, 3))

    def test_wrong_things_are_refused(self):
        for wrong in (np.ones(2, ">f4"), np.array(["a"]), object(), None, "text", np.ones((1,) * 13, np.float32)):
            with self.subTest(type(wrong)), self.assertRaises(TypeError):
                NDArray(wrong)
        with self.assertRaisesRegex(RuntimeError, "metal"):
            NDArray([1], cairn.StorageKind.METAL)
        with self.assertRaisesRegex(TypeError, "StorageKind"):
            NDArray([1], "bytes")

    def test_slices(self):
        array = NDArray(np.arange(12, dtype=np.float32).reshape(3, 4))
        part = array.slice([1, 0], [3, 2])
        self.assertEqual(part.tolist(), [[4, 5], [8, 9]])
        part.zero()
        self.assertEqual(array.tolist()[1], [0, 0, 6, 7])
        with self.assertRaises(cairn.Error):
            array.slice([0, 0], [4, 4])
        with self.assertRaises(ValueError):
            array.slice([0], [1])
        array.slice([0, 0], [1, 4]).copy_from(NDArray(np.full((1, 4), 3, np.float32)))
        self.assertEqual(array.tolist()[0], [3, 3, 3, 3])

    def test_torch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("there is no torch")
        x = torch.ones(2, 3, dtype=torch.bfloat16)
        array = NDArray(x)
        self.assertEqual((array.address, array.dtype), (x.data_ptr(), "bfloat16"))
        self.assertEqual(torch.from_dlpack(array).data_ptr(), x.data_ptr())


if __name__ == "__main__":
    unittest.main()
