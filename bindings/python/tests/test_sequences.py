"""Sequences of one model: further ones, forks, going back, files, prefixes, caches, engines, loaders, lifetimes."""

import gc
import tempfile
import threading
import unittest
import weakref
from pathlib import Path

from data import DYNAMIC, GGUF, HYBRID, TINY_LLM, needs_shared, resident_bytes

import cairn
from cairn import LLM, LLMLoader, Status

PROMPT = [1, 5, 9, 2, 7, 11, 3]
GREEDY = {"max_tokens": 10, "ignore_eos": True}


def fresh(prompt, path=GGUF, **options):
    """What a model gives that was opened for this alone."""
    with LLM(path) as llm:
        return llm.generate(prompt, **{**GREEDY, **options})


class Sequences(unittest.TestCase):
    def test_sequences_share_the_model_and_nothing_else(self):
        llm = LLM(GGUF)
        other = llm.create_sequence()
        self.assertIsInstance(other, LLM)
        first, second = llm.generate(PROMPT, **GREEDY), other.generate(PROMPT[::-1], **GREEDY)
        self.assertEqual(first.tokens, fresh(PROMPT).tokens)
        self.assertEqual(second.tokens, fresh(PROMPT[::-1]).tokens)
        self.assertEqual(llm.history[: len(PROMPT)], PROMPT)
        self.assertEqual(other.history[: len(PROMPT)], PROMPT[::-1])
        self.assertEqual(other.tokenizer.vocab_size, llm.tokenizer.vocab_size)

    def test_the_model_outlives_the_sequence_it_was_opened_with(self):
        llm = LLM(GGUF)
        other, tokenizer = llm.create_sequence(), llm.tokenizer
        llm.close()
        self.assertTrue(llm.closed)
        self.assertFalse(other.closed)
        gone = weakref.ref(llm)
        del llm
        gc.collect()
        self.assertIsNone(gone())
        self.assertEqual(other.generate(PROMPT, **GREEDY).tokens, fresh(PROMPT).tokens)
        other.close()
        self.assertGreater(tokenizer.vocab_size, 0)

    def test_a_closed_sequence(self):
        llm = LLM(GGUF)
        with llm:
            pass
        llm.close()
        llm.cancel()
        for call in (
            lambda: llm.generate(PROMPT),
            lambda: llm.forward(PROMPT),
            lambda: llm.stream(PROMPT),
            lambda: llm.reset(),
            lambda: llm.info(),
            lambda: llm.history,
            lambda: llm.tokenizer,
            lambda: llm.stop_ids,
            lambda: llm.fork(),
            lambda: llm.create_sequence(),
            lambda: llm.create_batch(),
            lambda: llm.save("/nowhere"),
            lambda: llm.check_text(),
            lambda: llm.render([]),
            lambda: LLM(GGUF).generate(PROMPT, draft=llm, max_tokens=2),
        ):
            with self.assertRaisesRegex(cairn.FailedPreconditionError, "closed"):
                call()

    def test_subclasses_stay_what_they_are(self):
        class Own(LLM):
            pass

        llm = Own(GGUF)
        llm.generate(PROMPT, **GREEDY)
        self.assertIs(type(llm.fork()), Own)
        self.assertIs(type(llm.create_sequence()), Own)

    def test_forks(self):
        llm = LLM(GGUF, kv="paged")
        llm.forward(PROMPT)
        fork = llm.fork()
        self.assertEqual(fork.history, PROMPT)
        self.assertEqual(fork.info()["kv_bytes_copied"], 0)
        short = llm.fork(3)
        self.assertEqual(short.history, PROMPT[:3])
        result = fork.generate([*PROMPT, 4, 4], **GREEDY)
        self.assertEqual((result.prefix_hit, result.tokens), (len(PROMPT), fresh([*PROMPT, 4, 4]).tokens))
        self.assertEqual(llm.history, PROMPT)
        self.assertEqual(llm.generate(PROMPT, **GREEDY).tokens, fresh(PROMPT).tokens)
        for wrong in (len(llm.history) + 1, -1):
            with self.assertRaises(cairn.OutOfRangeError):
                llm.fork(wrong)
        growing = LLM(GGUF, kv="growing")
        growing.forward(PROMPT)
        self.assertGreater(growing.fork().info()["kv_bytes_copied"], 0)

    def test_going_back(self):
        llm = LLM(GGUF)
        llm.forward(PROMPT)
        self.assertEqual(llm.trim(4), 4)
        self.assertEqual(llm.history, PROMPT[:4])
        llm.reset(2)
        self.assertEqual(llm.history, PROMPT[:2])
        with self.assertRaises(cairn.OutOfRangeError):
            llm.reset(3)
        llm.reset()
        self.assertEqual(llm.history, [])

    def test_going_back_where_a_state_is_not_known(self):
        llm = LLM(HYBRID, snapshot_interval=4)
        self.assertTrue(llm.info()["hybrid"])
        llm.generate(list(range(1, 20)), max_tokens=1)
        self.assertGreater(llm.info()["n_snapshots"], 0)
        kept = llm.trim(10)
        self.assertTrue(0 < kept <= 10, kept)
        self.assertEqual(llm.history, list(range(1, 20))[:kept])
        none = LLM(HYBRID, max_snapshots=-1)
        none.forward(list(range(1, 20)))
        with self.assertRaises(cairn.UnsupportedError):
            none.reset(10)
        self.assertEqual(none.trim(10), 0)

    def test_a_sequence_in_use(self):
        llm = LLM(GGUF)
        seen = {}

        def attempt(name, call):
            try:
                call()
                seen[name] = None
            except cairn.Error as error:
                seen[name] = error.status

        def on_token(index, token, text):
            if index == 0:
                seen["own history"] = llm.history[: len(PROMPT)]
                seen["own engine"] = llm.info()["engine"]
                attempt("close", llm.close)
                attempt("reset", llm.reset)
                attempt("sequence", lambda: llm.create_sequence().close())
                calls = {"other history": lambda: llm.history, "other info": llm.info, "other close": llm.close}
                for name, call in calls.items():
                    thread = threading.Thread(target=attempt, args=(name, call))
                    thread.start()
                    thread.join()

        result = llm.generate(PROMPT, on_token=on_token, **GREEDY)
        self.assertEqual(result.tokens, fresh(PROMPT).tokens)
        busy = dict.fromkeys(("close", "reset", "other history", "other info", "other close"), Status.BUSY)
        expected = {"own history": PROMPT, "own engine": "sequential", "sequence": None, **busy}
        self.assertEqual(seen, expected)
        more = threading.Event()
        with llm.stream(PROMPT, on_logits=lambda *unused: more.wait(20), **GREEDY) as stream:
            next(stream)
            self.assertRaises(cairn.BusyError, llm.close)
            with self.assertRaises(ZeroDivisionError), llm:
                raise ZeroDivisionError
            self.assertFalse(llm.closed)
            more.set()
        llm.close()

    def test_waiting_for_a_sequence(self):
        llm = LLM(GGUF, when_busy="wait")
        expected, results = fresh(PROMPT).tokens, []
        threads = [threading.Thread(target=lambda: results.append(llm.generate(PROMPT, **GREEDY).tokens)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, [expected] * 4)
        with self.assertRaises(cairn.BusyError):
            llm.generate(PROMPT, on_token=lambda *unused: llm.reset(), **GREEDY)
        with self.assertRaisesRegex(cairn.InvalidArgumentError, '"error", "wait"'):
            LLM(GGUF, when_busy="perhaps")

    def test_many_sequences_leave_no_memory_behind(self):
        llm = LLM(GGUF)
        llm.generate(PROMPT, **GREEDY)

        def round_of(n):
            for _ in range(n):
                with llm.fork() as fork:
                    fork.generate([*PROMPT, 3], logprobs=True, top_logprobs=2, stop=["never"], **GREEDY)
                    llm.create_sequence()
                    with self.assertRaises(cairn.OutOfRangeError):
                        llm.generate([1 << 20])

        round_of(60)
        before = resident_bytes()
        round_of(300)
        self.assertLess(resident_bytes() - before, 4 << 20)


class Files(unittest.TestCase):
    def test_save_and_restore(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "session"
            llm = LLM(GGUF)
            llm.generate(PROMPT, **GREEDY)
            history = llm.history
            llm.save(path)
            other = LLM(GGUF, kv="growing", engine="pipelined")
            other.restore(path)
            self.assertEqual(other.history, history)
            result = other.generate([*history, 4], **GREEDY)
            self.assertEqual((result.prefix_hit, result.tokens), (len(history), fresh([*history, 4]).tokens))
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 1
            path.write_bytes(data)
            before = other.history
            with self.assertRaises(cairn.CorruptError):
                other.restore(path)
            self.assertEqual(other.history, before)
            with self.assertRaises(cairn.NotFoundError):
                other.restore(Path(folder) / "none")
            with self.assertRaises(cairn.Error):
                llm.save(Path(folder) / "no folder" / "session")
            llm.save(path)
            with self.assertRaises(cairn.IncompatibleError):
                LLM(DYNAMIC).restore(path)

    def test_prompt_cache(self):
        prompt = [token % 40 + 1 for token in range(130)]
        with tempfile.TemporaryDirectory() as folder:
            for expected in (0, 64):
                with LLM(DYNAMIC, max_context=80, prompt_cache=Path(folder) / "cache", prompt_cache_bytes=1 << 20) as llm:
                    result = llm.generate(prompt[:70], max_tokens=2)
                    self.assertEqual(result.prefix_from_disk, expected)
                    self.assertEqual(result.prefix_hit, expected)
            self.assertEqual(result.tokens, fresh(prompt[:70], DYNAMIC, max_tokens=2, ignore_eos=False).tokens)
            self.assertTrue(any((Path(folder) / "cache").rglob("*")))

    def test_prefixes_in_memory(self):
        llm = LLM(GGUF, prefix_bytes=1 << 20)
        with llm.create_sequence() as first:
            first.generate(PROMPT, **GREEDY)
        result = llm.create_sequence().generate([*PROMPT, 8], **GREEDY)
        self.assertEqual((result.prefix_from_memory, result.prefix_hit), (len(PROMPT), len(PROMPT)))
        self.assertEqual(result.tokens, fresh([*PROMPT, 8]).tokens)
        other = llm.create_sequence()
        other.forward([9, 9, 9, 9, 9])
        other.register_prefix(4)
        self.assertEqual(llm.create_sequence().generate([9, 9, 9, 9, 1], **GREEDY).prefix_from_memory, 4)
        with self.assertRaises(cairn.OutOfRangeError):
            other.register_prefix(6)
        with self.assertRaises(cairn.FailedPreconditionError):
            LLM(GGUF).register_prefix()


class Storage(unittest.TestCase):
    VARIANTS = (
        {"engine": "sequential"},
        {"engine": "pipelined"},
        {"engine": "pipelined", "pipeline_depth": 1},
        {"engine": "pipelined", "pipeline_depth": 8},
        {"kv": "fixed"},
        {"kv": "fixed", "kv_capacity": 32},
        {"kv": "growing", "kv_capacity": 4},
        {"kv": "paged", "kv_page": 128},
        {"kv": "chunked", "kv_window": 40, "kv_sinks": 2},
        {"prefill_chunk": 2},
    )

    def test_engines_and_caches_give_the_same_tokens(self):
        expected = fresh(PROMPT).tokens
        for options in self.VARIANTS:
            with self.subTest(options), LLM(GGUF, **options) as llm:
                info = llm.info()
                self.assertEqual(info["kv_strategy"], options.get("kv", info["kv_strategy"]))
                result = llm.generate(PROMPT, **GREEDY)
                self.assertEqual(result.tokens, expected)
                self.assertEqual((result.engine, llm.engine), (options.get("engine", "sequential"),) * 2)

    def test_int8_rows_take_less(self):
        sizes = []
        for kind in ("auto", "int8"):
            with LLM(GGUF, kv="paged", kv_type=kind) as llm:
                llm.forward(PROMPT)
                sizes.append(llm.info()["kv_bytes"])
        self.assertLess(sizes[1], 0.6 * sizes[0])

    def test_what_does_not_go_together_is_refused(self):
        for options, error in (
            ({"engine": "warp"}, cairn.Error),
            ({"engine": "static-shape"}, cairn.IncompatibleError),
            ({"pipeline_depth": 9, "engine": "pipelined"}, cairn.InvalidArgumentError),
            ({"kv": "elastic"}, cairn.Error),
            ({"kv": "paged", "kv_page": 100}, cairn.InvalidArgumentError),
            ({"kv_type": "int3", "kv": "paged"}, cairn.Error),
            ({"max_context": 1 << 20}, cairn.InvalidArgumentError),
            ({"token_tables": {"no_input": bytearray(8)}}, cairn.Error),
            ({"precision": "guess"}, ValueError),
            ({"kv_page": "wide"}, TypeError),
            ({"engine": 3}, TypeError),
        ):
            with self.subTest(options), self.assertRaises(error):
                LLM(GGUF, **options)
        with self.assertRaisesRegex(TypeError, "kv_page"):
            LLM(GGUF, kv="paged", kv_page=2.5)

    def test_what_would_be_left_out_is_refused_by_name(self):
        for options, message in (
            ({"pipeline_depth": 2}, 'pipeline_depth belongs to engine="pipelined"'),
            ({"pipeline_depth": 2, "engine": "sequential"}, 'pipeline_depth belongs to engine="pipelined"'),
            ({"kv_page": 128}, 'kv_page belongs to kv="paged" or "chunked"'),
            ({"kv_type": "int8", "kv": "growing"}, 'kv_type belongs to kv="paged" or "chunked"'),
            ({"kv_window": 64, "kv": "paged"}, 'kv_window belongs to kv="chunked"'),
            ({"kv_sinks": -1}, 'kv_sinks belongs to kv="chunked"'),
            ({"prompt_cache_bytes": 1 << 20}, "prompt_cache_bytes belongs to prompt_cache"),
        ):
            for opened in (LLM, LLMLoader):
                with self.subTest(options, opened=opened), self.assertRaises(TypeError) as caught:
                    opened(GGUF, **options)
                self.assertEqual(str(caught.exception), message)
        # What says nothing is no mistake.
        LLM(GGUF, pipeline_depth=0, kv_page=0, kv_type="auto", kv_window=0, kv_sinks=0, prompt_cache_bytes=0).close()

    def test_tables_for_tokens(self):
        import numpy

        path = DYNAMIC.parent / "lm_extra_input"
        with self.assertRaisesRegex(cairn.InvalidArgumentError, "token_tables"):
            LLM(path)
        shape = [int(n) for n in self.table_shape(path)]
        tables = [numpy.full(shape, value, numpy.float32) for value in (0.0, 3.0)]
        rows = [LLM(path, token_tables={"per_layer_inputs": table}).forward([1, 2, 3])[0][1].numpy() for table in tables]
        self.assertFalse(numpy.allclose(rows[0], rows[1]))

    @staticmethod
    def table_shape(path):
        model = cairn.AIModel.load_sync(path / "model.aimodel")
        descriptor = model.function_descriptor(model.function_names[0]).input_descriptor("per_layer_inputs")
        return [48, *descriptor.shape[2:]]

    @needs_shared
    def test_a_bundle_with_functions_of_fixed_shapes(self):
        path = TINY_LLM.parent / "tiny-qwen3-ios"
        with LLM(path) as llm:
            self.assertEqual(llm.engine, "static-shape")
            result = llm.generate([1, 2, 3], max_tokens=6, ignore_eos=True)
            self.assertEqual((result.engine, len(result.tokens)), ("static-shape", 6))


class Loaders(unittest.TestCase):
    def test_a_model_is_loaded_when_it_is_needed(self):
        loader = LLMLoader(GGUF, kv="paged")
        self.assertEqual(loader.counts(), {"is_loaded": False, "n_loads": 0, "n_borrowed": 0})
        with loader.borrow() as first, loader.borrow() as second:
            self.assertIs(type(first), LLM)
            self.assertEqual(loader.counts(), {"is_loaded": True, "n_loads": 1, "n_borrowed": 2})
            self.assertEqual(first.generate(PROMPT, **GREEDY).tokens, fresh(PROMPT).tokens)
            loader.unload()
            self.assertEqual(second.generate(PROMPT, **GREEDY).tokens, fresh(PROMPT).tokens)
        self.assertFalse(loader.counts()["is_loaded"])
        loader.prewarm(4)
        self.assertEqual(loader.counts()["n_loads"], 2)
        borrowed = loader.borrow()
        del loader
        gc.collect()
        self.assertEqual(borrowed.generate(PROMPT, **GREEDY).tokens, fresh(PROMPT).tokens)

    def test_equal_loaders_share_the_model(self):
        first, second = LLMLoader(GGUF, eager=True), LLMLoader(GGUF)
        sequence = second.borrow()
        self.assertEqual(first.counts()["n_borrowed"], 1)
        self.assertEqual(LLMLoader(GGUF, kv="fixed").counts()["n_loads"], 0)
        sequence.close()
        with self.assertRaises(cairn.NotFoundError):
            LLMLoader("/there/is/nothing", eager=True)
        with self.assertRaises(cairn.NotFoundError):
            LLMLoader("/there/is/nothing").borrow()
        with self.assertRaisesRegex(TypeError, "no option 'speed'"):
            LLMLoader(GGUF, speed=9)


if __name__ == "__main__":
    unittest.main()
