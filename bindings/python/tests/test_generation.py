"""What a generation can do: log-probabilities, full contexts, drafts, grammars, images, traces, interruptions."""

import asyncio
import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import numpy
from data import DYNAMIC, GGUF, SMOLLM2, TINY_LLM, TINY_VLM, needs_shared

import cairn
from cairn import LLM, Status

PROMPT = [1, 5, 9, 2, 7, 11, 3]
GREEDY = {"max_tokens": 10, "ignore_eos": True}
ENGINES = ({"engine": "sequential"}, {"engine": "pipelined"}, {"kv": "growing"})


def log_softmax(row):
    row = row.astype(numpy.float64)
    row = row - row.max()
    return row - math.log(numpy.exp(row).sum())


class LogProbabilities(unittest.TestCase):
    def test_of_every_token_by_every_engine(self):
        for engine in ENGINES:
            with self.subTest(engine), LLM(GGUF, **engine) as llm:
                llm.forward(PROMPT[:4])
                result = llm.generate(PROMPT, top_logprobs=3, logits=True, temperature=1.0, seed=5, **GREEDY)
                self.assertEqual(result.prefix_hit, 4)
                self.check(result)

    def check(self, result):
        self.assertEqual([position for position, _ in result.logits], list(range(len(PROMPT) - 1, len(PROMPT) + 9)))
        self.assertEqual(len(result.logprobs), len(result.tokens))
        for token, logprob, top, (_, row) in zip(
            result.tokens, result.logprobs, result.top_logprobs, result.logits, strict=True
        ):
            expected = log_softmax(row.numpy())
            self.assertAlmostEqual(logprob, expected[token], places=9)
            best = sorted(range(len(expected)), key=lambda i: (-expected[i], i))[:3]
            self.assertEqual([i for i, _ in top], best)
            numpy.testing.assert_allclose([p for _, p in top], expected[best], atol=1e-9)

    def test_of_forced_tokens(self):
        with LLM(GGUF) as llm:
            chosen = llm.generate(PROMPT, logprobs=True, **GREEDY)
            forced = llm.generate(PROMPT, forced=chosen.tokens, logprobs=True)
            self.assertEqual(forced.tokens, chosen.tokens)
            numpy.testing.assert_allclose(forced.logprobs, chosen.logprobs, rtol=1e-6)
            self.assertEqual((chosen.top_logprobs, forced.stop_reason), ([], "max_tokens"))
            other = llm.generate(PROMPT, forced=[token ^ 1 for token in chosen.tokens], logprobs=True)
            self.assertLess(sum(other.logprobs), sum(chosen.logprobs))

    def test_across_a_full_context_and_with_drafts(self):
        with LLM(GGUF) as llm:
            result = llm.generate(PROMPT, max_tokens=100, ignore_eos=True, overflow="slide", speculate="lookup", logprobs=True)
            self.assertGreater(result.n_overflows, 0)
            self.assertEqual((len(result.logprobs), len(result.tokens)), (100, 100))
            self.assertTrue(all(-20 < p <= 0 for p in result.logprobs))

    def test_in_a_stream(self):
        with LLM(GGUF) as llm:
            stream = llm.stream(PROMPT, top_logprobs=1, **GREEDY)
            events = [event for event in stream if event.token >= 0]
            self.assertEqual([event.logprob for event in events], stream.result.logprobs)
            self.assertEqual([event.token for event in events], [top[0][0] for top in stream.result.top_logprobs])
            with llm.stream(PROMPT, **GREEDY) as stream:
                self.assertIsNone(next(stream).logprob)

    def test_rows(self):
        with LLM(GGUF) as llm:
            self.assertEqual(llm.generate(PROMPT, logits=True, **GREEDY).logits[0][0], len(PROMPT))
            rows = llm.generate(PROMPT, logits=True, first_logits=True, **GREEDY)
            self.assertEqual(rows.logits[0][0], len(PROMPT) - 1)
            rows = llm.generate(PROMPT, logits=True, prefill_logits=True, first_logits=True, **GREEDY)
            self.assertEqual([p for p, _ in rows.logits], list(range(len(PROMPT) + 9)))


class FullContexts(unittest.TestCase):
    """The context of the model has 64 tokens."""

    def setUp(self):
        self.llm = LLM(GGUF)

    def test_refused(self):
        with self.assertRaises(cairn.ContextFullError):
            self.llm.generate([1] * 64, max_tokens=1)
        result = self.llm.generate([1] * 60, ignore_eos=True)
        self.assertEqual((result.stop_reason, len(result.tokens)), ("context_full", 4))
        self.assertEqual((result.overflow, result.n_overflows), ("none", 0))

    def test_slides(self):
        options = {"max_tokens": 80, "ignore_eos": True, "overflow": "slide"}
        result = self.llm.generate([1, 2, 3, 4, 5] * 10, **options)
        self.assertEqual((result.stop_reason, len(result.tokens), result.overflow), ("max_tokens", 80, "slide"))
        self.assertGreater(result.n_overflows, 1)
        self.assertEqual(result.overflow_dropped, 16 * result.n_overflows)
        self.assertGreater(result.overflow_fed, 0)
        other = self.llm.generate([1, 2, 3, 4, 5] * 10, overflow_sinks=-1, overflow_margin=8, **options)
        self.assertEqual(other.overflow_dropped, 8 * other.n_overflows)

    def test_summarised_by_a_function(self):
        calls = []

        def summarise(tokens, most):
            calls.append((tokens, most))
            return tokens[:2] + tokens[-5:]

        result = self.llm.generate([1, 2, 3, 4, 5] * 10, max_tokens=40, ignore_eos=True, overflow=summarise, overflow_margin=4)
        self.assertEqual((result.overflow, len(result.tokens)), ("summarise", 40))
        self.assertEqual(len(calls), result.n_overflows)
        tokens, most = calls[0]
        self.assertEqual((tokens[:50], most), ([1, 2, 3, 4, 5] * 10, 59))
        self.assertEqual(tokens[50:], result.tokens[: len(tokens) - 50])
        seam = len(tokens) - 50
        with LLM(GGUF) as other:
            again = other.generate(tokens[:2] + tokens[-5:], max_tokens=3, ignore_eos=True)
        self.assertEqual(result.tokens[seam : seam + 3], again.tokens)

    def test_summarised_with_text_by_another_sequence(self):
        def summarise(tokens, most):
            with self.llm.create_sequence() as other:
                self.assertEqual(len(other.generate(tokens[-10:], max_tokens=3, ignore_eos=True).tokens), 3)
            return "ab"

        result = self.llm.generate([1] * 60, max_tokens=20, ignore_eos=True, overflow=summarise)
        self.assertEqual(result.overflow, "summarise")
        self.assertEqual(self.llm.history[:2], self.llm.tokenizer.encode("ab")[:2])

    def test_what_the_function_does_wrong(self):
        def raises(tokens, most):
            raise ZeroDivisionError("no summary")

        for function, error, text in (
            (raises, ZeroDivisionError, "no summary"),
            (lambda tokens, most: None, TypeError, "None"),
            (lambda tokens, most: 5, TypeError, ""),
            (lambda tokens, most: [], cairn.InvalidArgumentError, "0 tokens"),
            (lambda tokens, most: [1] * (most + 1), cairn.InvalidArgumentError, "are expected"),
            (lambda tokens, most: [1 << 20], cairn.OutOfRangeError, "replacement"),
            (lambda tokens, most: ["x"], TypeError, ""),
        ):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                self.llm.generate([1] * 60, max_tokens=20, ignore_eos=True, overflow=function)
            self.assertEqual(len(self.llm.generate(PROMPT, **GREEDY).tokens), 10)
        with self.assertRaisesRegex(TypeError, "a function"):
            self.llm.generate(PROMPT, overflow="summarise")
        with self.assertRaisesRegex(cairn.InvalidArgumentError, '"refuse", "slide"'):
            self.llm.generate(PROMPT, overflow="grow")


class Drafts(unittest.TestCase):
    def test_tokens_are_those_without(self):
        for model, draft_model in ((GGUF, GGUF), (DYNAMIC, DYNAMIC)):
            for options in ({}, {"temperature": 1.0, "seed": 3}):
                options = {"max_tokens": 30, "ignore_eos": True, **options}
                with LLM(model) as llm, LLM(draft_model) as draft, llm.create_sequence() as plain:
                    expected = plain.generate(PROMPT * 2, **options)
                    self.assertFalse(expected.speculates)
                    for how in ({"speculate": "lookup"}, {"speculate": "auto"}, {"draft": draft}, {"speculate": "auto", "draft": draft}):
                        llm.reset()
                        result = llm.generate(PROMPT * 2, always_draft=True, max_draft=4, **how, **options)
                        self.assertEqual(result.tokens, expected.tokens, how)
                        self.assertTrue(result.speculates or result.speculation_note)
                        if "draft" in how and not options.get("temperature"):
                            # The same model guesses right, and at least two tokens come of a run.
                            self.assertGreater(result.accepted_tokens, 10)
                            self.assertLess(result.decode_runs, result.decode_tokens)

    def test_refused(self):
        llm = LLM(GGUF)
        with self.assertRaisesRegex(TypeError, "draft model"):
            llm.generate(PROMPT, speculate="draft")
        with self.assertRaises(TypeError):
            llm.generate(PROMPT, draft="model.gguf")
        with self.assertRaises(cairn.InvalidArgumentError):
            llm.generate(PROMPT, speculate="always")
        with self.assertRaises(cairn.IncompatibleError):
            llm.generate(PROMPT, draft=LLM(DYNAMIC))
        # One token a run leaves no room for guesses: by name it is refused, "auto" says so.
        one = LLM(DYNAMIC.parent / "lm_static_one")
        with self.assertRaises(cairn.UnsupportedError):
            one.generate(PROMPT, speculate="lookup", max_tokens=2)
        self.assertTrue(one.generate(PROMPT, speculate="auto", max_tokens=2).speculation_note)

    def test_a_draft_is_in_use_meanwhile(self):
        llm, draft, seen = LLM(GGUF), LLM(GGUF), []

        def on_token(index, token, text):
            for call in (draft.close, lambda: draft.history):
                try:
                    call()
                except cairn.BusyError as error:
                    seen.append(error.status)
            return False

        llm.generate(PROMPT, draft=draft, on_token=on_token, **GREEDY)
        self.assertEqual(seen, [Status.BUSY] * 2)
        draft.close()


SCHEMA = {
    "type": "object",
    "properties": {"kind": {"enum": ["cat", "dog"]}, "age": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["kind", "age"],
    "additionalProperties": False,
}


@unittest.skipUnless(cairn.has_guides(), "the build has no guided generation")
class Guides(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.models = [LLM(TINY_LLM, **engine) for engine in ENGINES] if TINY_LLM.is_dir() else [LLM(GGUF, **e) for e in ENGINES]

    def generate(self, llm, **options):
        return llm.generate([1, 2], **{"max_tokens": 150, **options})

    def test_schemas(self):
        for llm in self.models:
            for schema in (SCHEMA, json.dumps(SCHEMA)):
                result = self.generate(llm, json_schema=schema, compact_json=True, temperature=1.0, seed=11)
                if not result.guide_complete:
                    self.assertIn(result.stop_reason, ("max_tokens", "context_full"))
                    continue
                document = result.json()
                self.assertEqual(sorted(document), ["age", "kind"])
                self.assertIn(document["kind"], ("cat", "dog"))
                self.assertTrue(0 <= document["age"] <= 99)
            self.assertTrue(result.guided)

    def test_a_regex_and_a_grammar(self):
        for llm in self.models:
            result = self.generate(llm, regex="[ab]{3}-[0-9]{2}")
            self.assertTrue(result.guide_complete, result)
            self.assertRegex(result.text, r"\A[ab]{3}-[0-9]{2}\Z")
            result = self.generate(llm, grammar='root ::= "yes" | "no" | "maybe"')
            self.assertIn(result.text, ("yes", "no", "maybe"))
            self.assertIn(result.stop_reason, ("eos", "grammar"))

    def test_any_json(self):
        for llm in self.models:
            result = self.generate(llm, any_json=True, compact_json=True, max_tokens=30, temperature=0.8, seed=4)
            self.assertTrue(result.guided)
            if result.guide_complete:
                result.json()
            else:
                self.assertEqual(result.stop_reason, "max_tokens")

    def test_with_drafts_and_in_batches(self):
        llm = self.models[0]
        options = {"regex": "(abc|abd)[0-9]{6}", "max_tokens": 40}
        expected = llm.generate([1, 2], **options)
        drafted = llm.create_sequence().generate([1, 2], speculate="auto", **options)
        self.assertEqual(drafted.text, expected.text)
        self.assertEqual([g.text for g in llm.create_batch().generate([[1, 2]] * 2, **options)], [expected.text] * 2)

    def test_refused(self):
        llm = self.models[0]
        for options, error in (
            ({"json_schema": {"type": "unheard-of"}}, cairn.InvalidArgumentError),
            ({"json_schema": "{"}, cairn.InvalidArgumentError),
            ({"json_schema": False}, cairn.InvalidArgumentError),
            ({"regex": "("}, cairn.InvalidArgumentError),
            ({"regex": 5}, TypeError),
            ({"grammar": "root ::= nothing"}, cairn.InvalidArgumentError),
            ({"regex": "a", "any_json": True}, TypeError),
            ({}, TypeError),
        ):
            with self.subTest(options), self.assertRaises(error):
                cairn.check_guide(**options)
            if options:
                with self.subTest(options), self.assertRaises(error):
                    llm.generate([1, 2], max_tokens=3, **options)
        cairn.check_guide(json_schema=SCHEMA)
        with self.assertRaises(cairn.Error):
            llm.generate([1, 2], regex="a", forced=[3])


class Interruptions(unittest.TestCase):
    def setUp(self):
        self.llm = LLM(GGUF)
        self.expected = LLM(GGUF).generate(PROMPT, **GREEDY).tokens

    def interrupt_at(self, n):
        def on_token(index, token, text):
            if index == n:
                os.kill(os.getpid(), signal.SIGINT)

        return on_token

    def usable(self):
        self.assertEqual(self.llm.generate(PROMPT, **GREEDY).tokens, self.expected)

    def test_ctrl_c_ends_a_generation(self):
        for engine in ENGINES:
            with self.subTest(engine):
                self.llm = LLM(GGUF, **engine)
                with self.assertRaises(KeyboardInterrupt):
                    self.llm.generate(PROMPT, on_token=self.interrupt_at(2), max_tokens=50, ignore_eos=True)
                self.assertLess(len(self.llm.history), len(PROMPT) + 10)
                self.usable()

    def test_ctrl_c_between_tokens(self):
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        with self.assertRaises(KeyboardInterrupt):
            timer.start()
            self.llm.generate(PROMPT, max_tokens=10_000_000, ignore_eos=True, overflow="slide")
        self.usable()

    def test_ctrl_c_while_a_stream_is_read(self):
        more = threading.Event()

        def on_logits(position, row):
            more.wait(20)

        stream = self.llm.stream(PROMPT, on_logits=on_logits, max_tokens=10_000_000, ignore_eos=True, overflow="slide")
        next(stream)
        timer = threading.Timer(0.2, lambda: (os.kill(os.getpid(), signal.SIGINT), more.set()))
        with self.assertRaises(KeyboardInterrupt):
            timer.start()
            for _ in stream:
                pass
        self.assertFalse(stream._thread.is_alive())
        self.assertEqual(stream.result.stop_reason, "cancelled")
        self.usable()

    def test_exceptions_of_every_callback(self):
        def fails(*unused):
            raise LookupError("mine")

        for options in (
            {"on_token": fails},
            {"on_logits": fails},
            {"on_logits": fails, "prefill_logits": True},
            {"on_logits": fails, "first_logits": True},
            {"should_cancel": fails},
        ):
            for engine in ENGINES:
                with self.subTest(options, engine=engine):
                    self.llm = LLM(GGUF, **engine)
                    with self.assertRaisesRegex(LookupError, "mine"):
                        self.llm.generate(PROMPT, **GREEDY, **options)
                    self.usable()

    def test_a_cancelled_task_leaves_the_sequence_usable(self):
        async def main():
            started = asyncio.Event()
            loop = asyncio.get_running_loop()
            options = {"max_tokens": 10_000_000, "ignore_eos": True, "overflow": "slide"}

            def on_token(*unused):
                loop.call_soon_threadsafe(started.set)

            task = asyncio.create_task(self.llm.agenerate(PROMPT, on_token=on_token, **options))
            await started.wait()
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            async for token in self.llm.astream(PROMPT, **options):
                if token.index == 5:
                    break

        asyncio.run(main())
        self.usable()

    def test_who_leaves_a_loop_has_ended_the_generation(self):
        options = {"max_tokens": 400, "ignore_eos": True}

        def leave():
            for token in self.llm.stream(PROMPT, **options):
                return token

        async def main():
            async for _ in self.llm.astream(PROMPT, **options):
                break
            return await self.llm.agenerate(PROMPT, max_tokens=1)

        for _ in range(5):
            for _ in self.llm.stream(PROMPT, **options):
                break
            self.llm.generate(PROMPT, max_tokens=1)
            leave()
            self.llm.generate(PROMPT, max_tokens=1)
            with contextlib.suppress(ZeroDivisionError):
                for _ in self.llm.stream(PROMPT, **options):
                    1 / 0
            self.llm.generate(PROMPT, max_tokens=1)
            self.assertEqual(len(asyncio.run(main()).tokens), 1)

    def test_schemas_that_are_true_or_false(self):
        with self.assertRaisesRegex(cairn.Error, "no text"):
            self.llm.generate(PROMPT, json_schema=False, max_tokens=5)
        with self.assertRaisesRegex(cairn.Error, "no text"):
            cairn.check_guide(json_schema=False)
        self.assertTrue(self.llm.generate(PROMPT, json_schema=True, max_tokens=5).guided)
        self.assertFalse(self.llm.generate(PROMPT, any_json=False, max_tokens=2).guided)
        with self.assertRaises(TypeError):
            self.llm.generate(PROMPT, regex=False, max_tokens=2)

    def test_a_program_that_ends_in_the_middle(self):
        program = (
            "import cairn, sys; llm = cairn.LLM(sys.argv[1]); "
            "stream = llm.stream([1, 2], max_tokens=10**7, ignore_eos=True, overflow='slide'); next(stream); print('end')"
        )
        run = subprocess.run([sys.executable, "-c", program, GGUF], capture_output=True, text=True, timeout=60)
        self.assertEqual((run.returncode, run.stdout, run.stderr), (0, "end\n", ""))


class Facts(unittest.TestCase):
    def test_of_a_result(self):
        with LLM(GGUF) as llm:
            result = llm.generate(PROMPT, **GREEDY)
            self.assertEqual((result.engine, result.seed, result.prefix_hit), ("sequential", 0, 0))
            self.assertEqual((result.prefill_tokens, result.decode_tokens, result.decode_runs), (7, 9, 9))
            self.assertGreater(result.time_to_first_token, 0)
            self.assertGreater(result.tokens_per_second, 0)
            again = llm.generate(PROMPT, max_tokens=1, temperature=1.0, ignore_eos=True)
            self.assertEqual((again.prefix_hit, again.tokens_per_second), (6, 0))
            self.assertGreater(again.seed, 0)
            repeated = llm.generate(PROMPT, max_tokens=1, temperature=1.0, ignore_eos=True, seed=again.seed)
            self.assertEqual(repeated.tokens, again.tokens)

    def test_options_are_checked_at_once(self):
        with LLM(GGUF) as llm:
            for call in (llm.stream, llm.create_batch().join):
                with self.assertRaisesRegex(TypeError, "no option 'speed'"):
                    call(PROMPT, speed=9)
            for options, error, text in (
                ({"temperature": "hot"}, TypeError, "temperature"),
                ({"top_k": 2.5}, TypeError, "top_k"),
                ({"top_k": 0}, cairn.InvalidArgumentError, "top"),
                ({"top_p": 1.5}, cairn.InvalidArgumentError, "top"),
                ({"seed": -1}, OverflowError, "seed"),
                ({"stop": [3]}, TypeError, ""),
                ({"max_tokens": None}, None, ""),
                ({"top_logprobs": 1 << 30}, None, ""),
                ({"top_logprobs": -1}, cairn.InvalidArgumentError, "top_logprobs"),
            ):
                with self.subTest(options):
                    options = {"max_tokens": 2, **options}
                    if error is None:
                        self.assertGreater(len(llm.generate(PROMPT, **options).tokens), 0)
                    else:
                        self.assertRaisesRegex(error, text, llm.generate, PROMPT, **options)

    def test_penalties(self):
        with LLM(GGUF) as llm:
            plain = llm.generate(PROMPT, max_tokens=30, ignore_eos=True).tokens
            options = {"max_tokens": 30, "ignore_eos": True, "repetition_penalty": 50.0}
            penalised = llm.generate(PROMPT, **options).tokens
            self.assertGreater(len(set(penalised)), len(set(plain)))
            self.assertNotEqual(llm.generate(PROMPT, repetition_window=1, **options).tokens, penalised)

    def test_trace(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace.json"
            with cairn.trace(path), LLM(GGUF) as llm:
                cairn.set_threads(1)
                llm.generate(PROMPT, **GREEDY)
                with self.assertRaises(cairn.AlreadyExistsError):
                    cairn.start_trace()
            cairn.set_threads(0)
            events = json.loads(path.read_text())
            events = events["traceEvents"] if isinstance(events, dict) else events
            self.assertTrue({"load", "inference", "engine"} <= {event.get("cat") for event in events})
            with self.assertRaises(cairn.FailedPreconditionError):
                cairn.stop_trace(path)
            with self.assertRaises(cairn.NotFoundError), cairn.trace(Path(folder) / "none" / "trace.json"):
                pass
            with self.assertRaises(ZeroDivisionError), cairn.trace(path):
                raise ZeroDivisionError


@needs_shared
class Images(unittest.TestCase):
    def test_forms_of_an_image(self):
        llm = LLM(TINY_VLM)
        facts = llm.images()
        self.assertGreater(facts["image_tokens"], 0)
        size = facts["image_size"]
        pixels = numpy.random.default_rng(1).integers(0, 256, (size, size, 3), numpy.uint8)
        prompt = [1, facts["image_token"], 2]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "image.ppm"
            path.write_bytes(b"P6 %d %d 255\n" % (size, size) + pixels.tobytes())
            from_file = llm.generate(prompt, images=[path], max_tokens=4, ignore_eos=True)
        self.assertEqual(len(from_file.prompt_tokens), 2 + facts["image_tokens"])
        from_array = llm.generate(prompt, images=[pixels], max_tokens=4, ignore_eos=True)
        self.assertEqual((from_array.tokens, from_array.prefix_hit), (from_file.tokens, len(from_file.prompt_tokens) - 1))
        other = llm.generate(prompt, images=[255 - pixels], max_tokens=4, ignore_eos=True)
        self.assertEqual(other.prefix_hit, 1)
        values = numpy.zeros((1, 3, size, size), numpy.float32)
        self.assertEqual(len(llm.generate(prompt, images=[values], max_tokens=4, ignore_eos=True).tokens), 4)
        batched = llm.create_batch().generate([prompt], images=[pixels], max_tokens=4, ignore_eos=True)
        self.assertEqual(batched[0].tokens, from_file.tokens)

    def test_refused(self):
        llm = LLM(TINY_VLM)
        token = llm.images()["image_token"]
        with self.assertRaises(cairn.NotFoundError):
            llm.generate([1, token], images=["/there/is/nothing.png"])
        with self.assertRaises(cairn.InvalidArgumentError):
            llm.generate([1, token], images=[numpy.zeros((4, 4), numpy.uint8)])
        with self.assertRaises(TypeError):
            llm.generate([1, token], images=[5])
        with self.assertRaises(cairn.UnsupportedError):
            LLM(GGUF).generate([1], images=[numpy.zeros((4, 4, 3), numpy.uint8)])


@unittest.skipUnless(SMOLLM2.is_dir(), "there is no SmolLM2")
class RealModel(unittest.TestCase):
    """Everything at once on a model that writes sentences."""

    @classmethod
    def setUpClass(cls):
        cls.llm = LLM(SMOLLM2, prefix_bytes=64 << 20)

    def test_a_chat_that_is_forked(self):
        chat = [{"role": "user", "content": "What is the capital of France?"}]
        first = self.llm.generate(messages=chat, max_tokens=12)
        self.assertEqual(first.prompt_form, "template")
        chat += [{"role": "assistant", "content": first.text}, {"role": "user", "content": "And of Italy?"}]
        with self.llm.fork() as fork, self.llm.create_sequence() as other:
            second = fork.generate(messages=chat, max_tokens=12)
            self.assertGreaterEqual(second.prefix_hit, len(first.prompt_tokens))
            again = "".join(token.text for token in other.stream(messages=chat, max_tokens=12))
        self.assertEqual(again, second.text)

    def test_copied_text_is_drafted(self):
        text = "Red, green, blue, yellow, orange, purple, pink, brown. " * 4
        with self.llm.create_sequence() as llm, self.llm.create_sequence() as other:
            plain = llm.generate(text, form="raw", max_tokens=40, logprobs=True)
            # Whether drafts pay is measured, so beside other work they may end early unless they are asked for.
            drafted = other.generate(text, form="raw", max_tokens=40, speculate="lookup", always_draft=True, logprobs=True)
        self.assertEqual(drafted.tokens, plain.tokens)
        numpy.testing.assert_allclose(drafted.logprobs, plain.logprobs, atol=1e-3)
        self.assertGreater(drafted.accepted_tokens, 10)

    @unittest.skipUnless(cairn.has_guides(), "the build has no guided generation")
    def test_guided(self):
        with self.llm.create_sequence() as llm:
            prompt = "Describe a house cat as JSON with its kind and age."
            result = llm.generate(prompt, json_schema=SCHEMA, max_tokens=60)
        self.assertTrue(result.guide_complete)
        self.assertIn(result.json()["kind"], ("cat", "dog"))


if __name__ == "__main__":
    unittest.main()
