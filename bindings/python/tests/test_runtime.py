"""Models and functions: runs, states in place, output views, names in errors, threads, event loops, leaks."""

import asyncio
import gc
import pickle
import threading
import time
import unittest

import numpy as np
from data import INTERFACES, STATEFUL, resident_bytes

import cairn
from cairn import AIModel, NDArray, Status


def load(path=STATEFUL, name="main", **options):
    return AIModel.load_sync(path).load_function(name, **options)


class Runs(unittest.TestCase):
    def setUp(self):
        self.function = load()
        self.x = np.arange(4, dtype=np.float32)
        self.state = np.ones(4, np.float32)

    def test_await(self):
        async def main():
            model = await AIModel.load(STATEFUL)
            self.assertEqual(model.function_names, ["main"])
            function = model.load_function("main")
            state = {"state": NDArray(np.zeros(4, np.float32))}
            for step in (1, 2):
                out = await function(inputs={"x": NDArray(self.x)}, state=state)
                np.testing.assert_array_equal(state["state"].numpy(), step * self.x)
            return out

        out = asyncio.run(main())
        self.assertEqual(sorted(out), ["doubled", "plus_one"])
        self.assertIsInstance(out["doubled"], NDArray)
        np.testing.assert_array_equal(out["doubled"].numpy(), 4 * self.x)

    def test_all_ways_to_give_inputs(self):
        for give in (lambda s: self.function.run({"x": self.x}, s), lambda s: self.function.run(x=self.x, state=s),
                     lambda s: self.function.run(inputs={"x": NDArray(self.x)}, state=s)):  # fmt: skip
            out = give({"state": np.zeros(4, np.float32)})
            np.testing.assert_array_equal(out["doubled"].numpy(), 2 * self.x)

    def test_many_at_once_in_one_loop(self):
        async def one(i):
            x = np.full(4, i, np.float32)
            out = await self.function({"x": x}, {"state": np.zeros(4, np.float32)})
            return out["doubled"].numpy()[0]

        async def main():
            return await asyncio.gather(*(one(i) for i in range(50)))

        self.assertEqual(asyncio.run(main()), [2.0 * i for i in range(50)])

    def test_state_is_changed_in_place(self):
        address = self.state.ctypes.data
        self.function.run({"x": self.x}, {"state": self.state})
        self.assertEqual(self.state.ctypes.data, address)
        np.testing.assert_array_equal(self.state, 1 + self.x)

    def test_output_views(self):
        buffer = np.full((2, 8), -1, np.float32)
        view = buffer[1, ::2]
        out = self.function.run({"x": self.x}, {"state": np.zeros(4, np.float32)}, {"doubled": view})
        self.assertEqual(list(out), ["plus_one"])
        np.testing.assert_array_equal(view, 2 * self.x)
        self.assertTrue((buffer[0] == -1).all() and (buffer[1, 1::2] == -1).all())
        both = {"doubled": np.empty(4, np.float32), "plus_one": np.empty(4, np.float32)}
        self.assertEqual(self.function.run({"x": self.x}, {"state": self.state}, both), {})

    def test_outputs_are_taken_once(self):
        out = self.function.run({"x": self.x}, {"state": self.state})
        out.pop("doubled")
        with self.assertRaises(KeyError):
            out.pop("doubled")
        self.assertEqual(list(out), ["plus_one"])

    def test_outputs_outlive_everything(self):
        out = self.function.run({"x": self.x}, {"state": self.state})["plus_one"].numpy()
        del self.function
        gc.collect()
        np.testing.assert_array_equal(out, self.x + 2)

    def test_function_keeps_its_model(self):
        function = AIModel.load_sync(STATEFUL).load_function("main")
        gc.collect()
        out = function.run({"x": self.x}, {"state": np.zeros(4, np.float32)})
        np.testing.assert_array_equal(out["doubled"].numpy(), 2 * self.x)

    def test_threads_share_a_function(self):
        failures = []

        def work(seed):
            rng = np.random.default_rng(seed)
            for _ in range(300):
                x = rng.standard_normal(4).astype(np.float32)
                state = np.zeros(4, np.float32)
                out = self.function.run({"x": x}, {"state": state})
                if not (np.array_equal(out["doubled"].numpy(), 2 * x) and np.array_equal(state, x)):
                    failures.append(x)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.assertEqual(self.function.stats["n_runs"], 600)

    def test_a_shared_state_is_busy(self):
        # The callback runs inside of the first run, so the second one finds the state taken.
        state = {"state": NDArray.zeros([4])}
        seen = []

        def callback(arrays, kind, identifiers):
            try:
                self.function.run({"x": self.x}, state)
            except cairn.BusyError as error:
                seen.append(error.status)

        load(intermediate_logger=cairn.IntermediateLogger(None, callback)).run({"x": self.x}, state)
        self.assertEqual(set(seen), {Status.BUSY})

    def test_the_interpreter_goes_on_during_a_run(self):
        # A thread counts while another runs functions: with the GIL held it could not.
        counted = 0
        ended = threading.Event()

        def work():
            big = AIModel.load_sync(INTERFACES).load_function("plain")
            x = np.zeros((1 << 21, 3), np.float32)
            for _ in range(3):
                big.run({"x": x, "flag": np.array(True)})
            ended.set()

        thread = threading.Thread(target=work)
        thread.start()
        while not ended.is_set():
            counted += 1
            time.sleep(0.0005)
        thread.join()
        self.assertGreater(counted, 5)


class Names(unittest.TestCase):
    def setUp(self):
        self.function = load()
        self.good = {"x": np.zeros(4, np.float32)}
        self.state = {"state": np.zeros(4, np.float32)}

    def check(self, kind, pattern, inputs, state=None, outputs=None, status=Status.INVALID_ARGUMENT):
        with self.assertRaisesRegex(kind, pattern) as caught:
            self.function.run(inputs, self.state if state is None else state, outputs)
        if status is not None:
            error = caught.exception
            self.assertEqual((error.status, error.name, error.code), (status, status.name, int(status)))
            self.assertIn(error.message, str(error))

    def test_wrong_inputs_are_named(self):
        error = cairn.InvalidArgumentError
        self.check(error, "'x'.*missing", {})
        self.check(error, "'other'.*x", {**self.good, "other": np.zeros(4, np.float32)})
        self.check(error, "'x'.*rank", {"x": np.zeros((4, 1), np.float32)})
        self.check(error, "'x'.*5", {"x": np.zeros(5, np.float32)})
        self.check(error, "'x'.*float32.*int64", {"x": np.zeros(4, np.int64)})
        self.check(TypeError, '"x"', {"x": "text"}, status=None)
        self.check(TypeError, '"x"', {"x": [1, 2, 3, 4]}, status=None)
        self.check(TypeError, '"x"', {"x": np.array(["a"] * 4)}, status=None)

    def test_wrong_states_are_named(self):
        error = cairn.InvalidArgumentError
        self.check(error, "'state'.*missing", self.good, {})
        self.check(error, "'other'", self.good, {**self.state, "other": np.zeros(1, np.float32)})
        self.check(error, "'state'", self.good, {"state": np.zeros(3, np.float32)})
        frozen = np.zeros(4, np.float32)
        frozen.flags.writeable = False
        self.check(cairn.Error, "'state'.*read-only", self.good, {"state": frozen}, status=None)
        self.check(TypeError, '"state"', self.good, {"state": np.zeros(4, np.float32)[::-1]}, status=None)

    def test_nothing_happens_when_something_is_wrong(self):
        self.check(cairn.Error, "'x'", {}, status=None)
        self.assertFalse(self.state["state"].any())

    def test_wrong_outputs_are_named(self):
        self.check(cairn.InvalidArgumentError, "'nothing'", self.good, None, {"nothing": np.zeros(4, np.float32)})
        self.check(cairn.InvalidArgumentError, "'doubled'", self.good, None, {"doubled": np.zeros(5, np.float32)})

    def test_unknown_functions_and_files(self):
        model = AIModel.load_sync(STATEFUL)
        with self.assertRaisesRegex(KeyError, "'absent'.*main"):
            model.load_function("absent")
        with self.assertRaises(cairn.NotFoundError):
            model.load_function("absent")
        self.assertIsNone(model.function_descriptor("absent"))
        with self.assertRaises(cairn.NotFoundError) as caught:
            AIModel.load_sync("/there/is/nothing.aimodel")
        self.assertIn("/there/is/nothing.aimodel", str(caught.exception))
        with self.assertRaises(TypeError):
            AIModel()
        with self.assertRaises(TypeError):
            cairn.InferenceFunction()

    def test_errors_can_be_pickled(self):
        with self.assertRaises(cairn.Error) as caught:
            self.function.run({})
        again = pickle.loads(pickle.dumps(caught.exception))
        self.assertIs(type(again), type(caught.exception))
        self.assertEqual((again.status, str(again)), (caught.exception.status, str(caught.exception)))

    def test_statuses_match_the_library(self):
        self.assertEqual({each.name: int(each) for each in Status}, cairn._native.statuses())
        for status in Status:
            if status is not Status.OK:
                error = cairn._errors.make(int(status), status.name, "m", ("n",))
                self.assertIsInstance(error, cairn.Error)
                self.assertEqual(str(error), f"{status.name}: m (n)")


class Descriptors(unittest.TestCase):
    def test_dynamic(self):
        function = load(INTERFACES, "cache")
        descriptor = function.desc.state_descriptor("kv")
        self.assertEqual((descriptor.shape, descriptor.dtype, descriptor.has_dynamic_shape), ([2, 16, None], "float16", True))
        self.assertEqual(str(descriptor), "[2, 16, None], float16, bytes")
        with self.assertRaises(cairn.FailedPreconditionError):
            _ = descriptor.minimum_byte_count
        with self.assertRaises(cairn.FailedPreconditionError):
            NDArray.from_descriptor(descriptor)
        resolved = descriptor.resolving_dynamic_dimensions([2, 16, 5])
        self.assertEqual((resolved.shape, resolved.minimum_byte_count >= 320), ([2, 16, 5], True))
        self.assertEqual(NDArray.from_descriptor(resolved).shape, (2, 16, 5))
        with self.assertRaises(cairn.InvalidArgumentError):
            descriptor.resolving_dynamic_dimensions([2, 15, 5])
        state = function.make_state({"kv": [2, 16, 3]})
        self.assertEqual(state["kv"].shape, (2, 16, 3))
        self.assertFalse(state["kv"].numpy().any())
        out = function.run({"step": np.array([1], np.int32)}, state)
        self.assertEqual(list(out), ["next"])
        with self.assertRaises(KeyError):
            function.make_state({"absent": [1]})

    def test_names(self):
        desc = AIModel.load_sync(INTERFACES).function_descriptor("unnamed")
        self.assertEqual((desc.name, desc.input_names, desc.output_names, desc.state_names),
                         ("unnamed", ["input0", "input1"], ["output0", "output1"], []))  # fmt: skip
        self.assertEqual(desc.input_descriptor("input0").shape, [None, 3])
        for find in (desc.input_descriptor, desc.output_descriptor, desc.state_descriptor):
            with self.assertRaisesRegex(KeyError, "absent"):
                find("absent")

    def test_threads(self):
        before = cairn.threads()
        try:
            cairn.set_threads(1)
            self.assertEqual(cairn.threads(), 1)
            out = load().run({"x": np.ones(4, np.float32)}, {"state": np.zeros(4, np.float32)})
            self.assertEqual(out["doubled"].tolist(), [2, 2, 2, 2])
            with self.assertRaises(cairn.InvalidArgumentError):
                cairn.set_threads(-1)
        finally:
            cairn.set_threads(before)

    def test_image(self):
        image = AIModel.load_sync(INTERFACES).function_descriptor("picture").input_descriptor("image")
        self.assertIsInstance(image, cairn.ImageDescriptor)
        self.assertEqual((image.width, image.height), (640, 480))

    def test_image_values(self):
        class Picture:
            """Like an image of Pillow."""

            def __init__(self, array):
                self.array = array

            @property
            def __array_interface__(self):
                return self.array.__array_interface__

        function = load(INTERFACES, "picture")
        image = np.arange(480 * 640 * 4, dtype=np.uint32).astype(np.uint8).reshape(480, 640, 4)
        for value in (image, Picture(image)):
            self.assertEqual(function.run(pixels=image, image=value)["out"].shape, (480, 640, 4))
        with self.assertRaisesRegex(cairn.InvalidArgumentError, "'image'"):
            function.run(pixels=image, image=image[:, :, :3])

    def test_options(self):
        options = cairn.SpecializationOptions.default().with_composites("body")
        self.assertEqual(AIModel.load_sync(STATEFUL, options).specialization_options, options)
        with self.assertRaisesRegex(cairn.UnsupportedError, "gpu"):
            cairn.SpecializationOptions.from_preferred_compute_unit_kind(cairn.ComputeUnitKind.gpu())
        for wrong in (options.with_composites("magic"), options.with_precision("magic")):
            with self.assertRaisesRegex(ValueError, "magic"):
                AIModel.load_sync(STATEFUL, wrong)
        function = AIModel.load_sync(STATEFUL, options.with_precision("exact")).load_function("main")
        self.assertEqual(function.precision, "exact")
        self.assertIn("read", function.plan)


class Observation(unittest.TestCase):
    def test_intermediates(self):
        seen = []
        logger = cairn.IntermediateLogger(None, lambda arrays, kind, ids: seen.append((kind, ids, arrays)))
        x = np.arange(4, dtype=np.float32)
        out = load(intermediate_logger=logger).run({"x": x}, {"state": np.zeros(4, np.float32)})
        self.assertTrue(seen and all(kind == "output" for kind, _, _ in seen))
        values = [array.numpy().tolist() for _, _, arrays in seen for array in arrays]
        self.assertIn(out["doubled"].tolist(), values)
        only = []
        asked = [seen[-1][1]]
        logger = cairn.IntermediateLogger(asked, lambda arrays, kind, ids: only.append(ids))
        load(intermediate_logger=logger).run({"x": x}, {"state": np.zeros(4, np.float32)})
        self.assertEqual(only, asked)
        none = cairn.IntermediateLogger([], lambda *unused: self.fail("nothing was asked for"))
        load(intermediate_logger=none).run({"x": x}, {"state": np.zeros(4, np.float32)})
        off = cairn.IntermediateLogger(None, lambda *unused: self.fail("it is switched off"), is_enabled=False)
        load(intermediate_logger=off).run({"x": x}, {"state": np.zeros(4, np.float32)})

    def test_an_exception_of_the_callback_is_raised_by_the_run(self):
        def callback(*unused):
            raise ZeroDivisionError("from the callback")

        function = load(intermediate_logger=cairn.IntermediateLogger(None, callback))
        for _ in range(2):
            with self.assertRaisesRegex(ZeroDivisionError, "from the callback"):
                function.run({"x": np.zeros(4, np.float32)}, {"state": np.zeros(4, np.float32)})

    def test_profiler(self):
        begun, ended, single = [], [], []

        def begin(event):
            begun.append(event)
            return len(begun)

        profiler = cairn.Profiler(single.append, begin, lambda event, number: ended.append((event, number)))
        load(profiler=profiler).run({"x": np.zeros(4, np.float32)}, {"state": np.zeros(4, np.float32)})
        self.assertEqual([event.phase for event in begun].count("load"), 1)
        self.assertGreater([event.phase for event in begun].count("inference"), 2)
        self.assertEqual([number for _, number in ended], list(range(1, len(begun) + 1)))
        self.assertTrue(all(end.timestamp >= start.timestamp for start, (end, _) in zip(begun, ended)))
        self.assertEqual(len(single), len(begun))
        self.assertIsInstance(single[0].encoded_data, bytes)


class Leaks(unittest.TestCase):
    def measure(self, loop, n=1000, warm_up=100, allowed=1 << 20):
        for _ in range(warm_up):
            loop()
        # The allocator takes a while to have what it needs; a leak goes on growing.
        for _ in range(3):
            gc.collect()
            before = resident_bytes()
            for _ in range(n):
                loop()
            gc.collect()
            grown = resident_bytes() - before
            if grown < allowed:
                return
        self.fail(f"{grown} bytes more after {n} rounds, three times in a row")

    def test_create_run_release(self):
        x = np.zeros(4, np.float32)

        def loop():
            function = AIModel.load_sync(STATEFUL).load_function("main")
            function.run({"x": x}, function.make_state())

        self.measure(loop)

    def test_failures(self):
        function = load()

        def loop():
            for wrong in ({}, {"x": np.zeros(3, np.float32)}, {"x": "text"}):
                try:
                    function.run(wrong, {"state": np.zeros(4, np.float32)})
                except (cairn.Error, TypeError):
                    pass
            try:
                AIModel.load_sync("/there/is/nothing.aimodel")
            except cairn.Error:
                pass

        self.measure(loop)

    def test_arrays(self):
        big = np.zeros(1 << 16, np.float32)

        def loop():
            array = NDArray(big, copy=True)
            np.from_dlpack(array)
            memoryview(array)
            NDArray(array.numpy()).slice([1], [5]).view("uint32").const_view()

        self.measure(loop)

    def test_watched_functions(self):
        # The callback holds the function, which holds the callback.
        def loop():
            box = []
            logger = cairn.IntermediateLogger(None, lambda *unused: box)
            function = load(intermediate_logger=logger)
            box.append(function)
            function.run({"x": np.zeros(4, np.float32)}, function.make_state())
            del box, logger, function
            gc.collect()

        self.measure(loop, n=200, warm_up=20)

    def test_awaited_runs(self):
        async def rounds(n):
            for _ in range(n):
                model = await AIModel.load(STATEFUL)
                function = model.load_function("main")
                await function({"x": np.zeros(4, np.float32)}, function.make_state())

        self.measure(lambda: asyncio.run(rounds(20)), n=50, warm_up=10)


if __name__ == "__main__":
    unittest.main()
