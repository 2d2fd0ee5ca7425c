"""Batches: results as of sequences alone, joining and leaving, budgets, failures, interruptions, lifetimes."""

import asyncio
import gc
import os
import signal
import threading
import time
import unittest
import weakref
from functools import partial

from data import GGUF, TINY_LLM, needs_shared, resident_bytes

import cairn
from cairn import LLM, Batch, Status

PROMPTS = [[1, 5, 9], [1, 5, 9, 2, 7], [30, 31], [8] * 12, [1, 5]]
OPTIONS = {"max_tokens": 12, "ignore_eos": True}
ENDLESS = {"max_tokens": 10_000_000, "ignore_eos": True, "overflow": "slide"}


class Batches(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.llm = LLM(GGUF)

    def alone(self, prompt, **options):
        with self.llm.create_sequence() as llm:
            return llm.generate(prompt, **options)

    def test_results_are_those_of_sequences_alone(self):
        for options in (OPTIONS, {**OPTIONS, "temperature": 1.0, "top_k": 40, "seed": 3, "repetition_penalty": 1.2}):
            expected = [self.alone(prompt, **options) for prompt in PROMPTS]
            for settings in ({}, {"max_sequences": 2}, {"sharing": False}, {"max_step_tokens": 24}):
                with self.subTest(settings), self.llm.create_batch(**settings) as batch:
                    results = batch.generate(PROMPTS, logprobs=True, logits=True, **options)
                    self.assertEqual([r.tokens for r in results], [e.tokens for e in expected])
                    self.assertEqual([r.seed for r in results], [e.seed for e in expected])
                    for result in results:
                        self.assertEqual((result.stop_reason, result.engine), ("max_tokens", "sequential"))
                        self.assertEqual((len(result.logprobs), len(result.logits)), (12, 12))

    def test_steps_one_by_one(self):
        batch = Batch(self.llm, max_sequences=2)
        self.assertEqual(batch.step().n_active, 0)
        members = [batch.join(prompt, **OPTIONS) for prompt in PROMPTS[:3]]
        self.assertEqual([member.ended for member in members], [False] * 3)
        step = batch.step()
        self.assertEqual((step.n_active, step.n_waiting, step.n_ended), (3, 1, 0))
        self.assertEqual((step.tokens, step.prompt_tokens), (2, sum(map(len, PROMPTS[:2]))))
        with self.assertRaises(cairn.FailedPreconditionError):
            members[0].result()
        late = batch.join(PROMPTS[3], **OPTIONS)
        while batch.step().n_active:
            pass
        for member, prompt in zip([*members, late], PROMPTS, strict=False):
            self.assertTrue(member.ended)
            self.assertEqual(member.result().tokens, self.alone(prompt, **OPTIONS).tokens)
            self.assertIs(member.result(), member.result())
        self.assertEqual(len({member.id for member in [*members, late]}), 4)

    def test_budgets(self):
        with self.llm.create_batch(max_step_tokens=24) as batch:
            first = batch.join([1, 2], **{**OPTIONS, "max_tokens": 30})
            batch.step()
            batch.join([3] * 50, **OPTIONS)
            step = batch.step()
            self.assertEqual((step.prompt_tokens, step.n_prompting, step.n_generating), (24, 1, 1))
            self.assertGreater(step.seconds, 0)
            batch.run()
            self.assertEqual(len(first.result().tokens), 30)
        for wrong in ({"max_sequences": -1}, {"max_step_seconds": -1.0}, {"max_step_tokens": -1}):
            with self.subTest(wrong), self.assertRaises(cairn.InvalidArgumentError):
                self.llm.create_batch(**wrong)
        with self.assertRaises(TypeError):
            Batch("model.gguf")

    def test_leaving_and_cancelling(self):
        batch = self.llm.create_batch()
        stays, cancelled, leaves = (batch.join(PROMPTS[0], **options) for options in (OPTIONS, ENDLESS, ENDLESS))
        for _ in range(3):
            batch.step()
        cancelled.cancel()
        leaves.leave()
        batch.run()
        self.assertEqual(cancelled.result().stop_reason, "cancelled")
        self.assertGreater(len(cancelled.result().tokens), 0)
        self.assertEqual(stays.result().tokens, self.alone(PROMPTS[0], **OPTIONS).tokens)
        self.assertEqual(batch.step().n_ended, 0)
        cancelled.cancel()
        # What has left has no result, before the step that ends it and after.
        with self.assertRaisesRegex(cairn.FailedPreconditionError, f"sequence {leaves.id} has left the batch: there is no result"):
            leaves.result()
        self.assertTrue(leaves.ended)
        leaves.cancel()
        early = batch.join(PROMPTS[1], **ENDLESS)
        early.leave()
        early.leave()
        with self.assertRaisesRegex(cairn.FailedPreconditionError, "has left the batch"):
            early.result()
        batch.run()
        with self.assertRaisesRegex(cairn.FailedPreconditionError, "has left the batch"):
            early.result()
        self.assertEqual(batch.step().n_ended, 0)
        # A result that was taken stays.
        cancelled.leave()
        self.assertEqual(cancelled.result().stop_reason, "cancelled")

    def test_callbacks_may_join_and_cancel(self):
        batch, joined, texts = self.llm.create_batch(), [], []

        def on_token(index, token, text):
            texts.append(text)
            if index == 2:
                joined.append(batch.join(PROMPTS[1], **OPTIONS))
                endless.cancel()
            return index < 5

        endless = batch.join(PROMPTS[2], **ENDLESS)
        first = batch.join(PROMPTS[0], on_token=on_token, **OPTIONS)
        batch.run()
        self.assertEqual((first.result().stop_reason, len(first.result().tokens)), ("cancelled", 6))
        self.assertEqual("".join(texts), first.result().text)
        self.assertEqual(endless.result().stop_reason, "cancelled")
        self.assertEqual(joined[0].result().tokens, self.alone(PROMPTS[1], **OPTIONS).tokens)

    def test_a_failure_is_that_of_its_sequence(self):
        def fails(*unused):
            raise LookupError("mine")

        with self.llm.create_batch() as batch:
            good = batch.join(PROMPTS[0], **OPTIONS)
            for name in ("on_token", "on_logits", "should_cancel"):
                bad = batch.join(PROMPTS[1], **{name: fails}, **OPTIONS)
                batch.run()
                for _ in range(2):
                    with self.subTest(name), self.assertRaisesRegex(LookupError, "mine"):
                        bad.result()
                self.assertTrue(bad.ended)
            summary = batch.join([1] * 40, **{**OPTIONS, "overflow": fails})
            batch.run()
            with self.assertRaisesRegex(LookupError, "mine"):
                summary.result()
            self.assertEqual(good.result().tokens, self.alone(PROMPTS[0], **OPTIONS).tokens)
            with self.assertRaisesRegex(LookupError, "mine"):  # already when it joins
                batch.join([1] * 64, **{**OPTIONS, "overflow": fails})
            for wrong, error in (
                ({"prompt": [1 << 20]}, cairn.OutOfRangeError),
                ({"prompt": [1] * 64}, cairn.ContextFullError),
                ({"prompt": [1], "temperature": -1.0}, cairn.InvalidArgumentError),
                ({}, TypeError),
            ):
                with self.subTest(wrong), self.assertRaises(error):
                    batch.join(**wrong)
            batch.run()
            self.assertEqual(batch.step().n_ended, 0)

    def test_drafts_and_full_contexts(self):
        expected = [self.alone(prompt, **OPTIONS).tokens for prompt in PROMPTS]
        for options in ({"speculate": "lookup"}, {"speculate": "auto", "always_draft": True}):
            with self.llm.create_batch() as batch:
                self.assertEqual([r.tokens for r in batch.generate(PROMPTS, **options, **OPTIONS)], expected)
        with self.llm.create_batch() as batch:
            draft = LLM(GGUF)
            members = [batch.join(prompt, draft=draft, **OPTIONS) for prompt in PROMPTS]
            draft.close()
            batch.run()
            self.assertEqual([member.result().tokens for member in members], expected)
            slid = batch.generate([[1] * 60], **{**OPTIONS, "overflow": "slide"})[0]
            self.assertEqual(slid.overflow, "slide")

    def test_as_ended(self):
        with self.llm.create_batch() as batch:
            lengths = [9, 3, 6]
            members = [batch.join(PROMPTS[0], max_tokens=n, ignore_eos=True) for n in lengths]
            self.assertEqual([len(member.result().tokens) for member in batch.as_ended(members)], [3, 6, 9])

    def test_ctrl_c(self):
        with self.llm.create_batch() as batch:
            kill = partial(os.kill, os.getpid(), signal.SIGINT)
            endless, other = batch.join(PROMPTS[1], **ENDLESS), batch.join(PROMPTS[0], **OPTIONS)

            def kill_later():
                while not other.ended:
                    time.sleep(0.01)
                kill()

            thread = threading.Thread(target=kill_later)
            with self.assertRaises(KeyboardInterrupt):
                thread.start()
                batch.run()
            thread.join()
            self.assertEqual(other.result().tokens, self.alone(PROMPTS[0], **OPTIONS).tokens)
            self.assertFalse(endless.ended)
            self.assertEqual(batch.step().n_active, 1)
            interrupted = batch.join(PROMPTS[0], on_token=lambda *unused: kill(), **OPTIONS)
            with self.assertRaises(KeyboardInterrupt):
                while True:
                    batch.step()
            endless.cancel()
            batch.run()
            self.assertEqual((interrupted.result().stop_reason, endless.result().stop_reason), ("cancelled", "cancelled"))

    def test_beside_an_event_loop(self):
        async def main():
            batch = self.llm.create_batch()
            member = batch.join(PROMPTS[0], **OPTIONS)
            await batch.arun()
            endless = batch.join(PROMPTS[0], **ENDLESS)
            task = asyncio.create_task(batch.arun())
            await asyncio.sleep(0.05)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assertFalse(endless.ended)
            endless.cancel()
            await batch.arun()
            return member.result().tokens, endless.result().stop_reason

        tokens, reason = asyncio.run(main())
        self.assertEqual((tokens, reason), (self.alone(PROMPTS[0], **OPTIONS).tokens, "cancelled"))

    def test_one_step_at_a_time(self):
        batch, seen = self.llm.create_batch(), []

        def on_token(index, token, text):
            for call in (batch.step, batch.close):
                try:
                    call()
                except cairn.BusyError as error:
                    seen.append(error.status)
            return False

        batch.join(PROMPTS[0], on_token=on_token, **OPTIONS)
        batch.run()
        self.assertEqual(seen, [Status.BUSY] * 2)
        batch.close()

    def test_threads_join_while_one_steps(self):
        expected = self.alone(PROMPTS[1], **OPTIONS).tokens
        batch, members, done = self.llm.create_batch(max_sequences=4), [], threading.Event()

        def work():
            for _ in range(15):
                members.append(batch.join(PROMPTS[1], **OPTIONS))
                batch.join(PROMPTS[1], **ENDLESS).leave()

        def step():
            while not done.is_set() or batch.step().n_active:
                batch.step()

        threads = [threading.Thread(target=work) for _ in range(3)]
        stepper = threading.Thread(target=step)
        for thread in (stepper, *threads):
            thread.start()
        for thread in threads:
            thread.join()
        done.set()
        stepper.join()
        self.assertEqual([member.result().tokens for member in members], [expected] * 45)
        self.assertEqual(batch.step().n_ended, 0)

    def test_lifetimes(self):
        llm = LLM(GGUF)
        batch = llm.create_batch()
        llm.close()
        member = batch.join(PROMPTS[0], **OPTIONS)
        batch.run()
        self.assertEqual(member.result().tokens, self.alone(PROMPTS[0], **OPTIONS).tokens)
        left = batch.join(PROMPTS[0], **ENDLESS)
        batch.step()
        batch.close()
        self.assertTrue(batch.closed)
        for call in (batch.step, batch.run, left.result, left.cancel, lambda: left.ended, lambda: batch.join([1])):
            with self.assertRaisesRegex(cairn.FailedPreconditionError, "closed"):
                call()
        batch.close()
        with self.assertRaises(cairn.FailedPreconditionError):
            llm.create_batch()

    def test_a_cycle_through_a_callback_is_found(self):
        batch = self.llm.create_batch()
        batch.join(PROMPTS[0], on_token=lambda *unused: batch is None, **ENDLESS)
        batch.step()
        gone = weakref.ref(batch)
        del batch
        gc.collect()
        self.assertIsNone(gone())

    def test_no_memory_is_left_behind(self):
        def round_of(n):
            for _ in range(n):
                with self.llm.create_batch() as batch:
                    batch.generate(PROMPTS, top_logprobs=2, stop=["never"], **OPTIONS)
                    batch.join(PROMPTS[0], on_token=lambda *unused: None, **OPTIONS)
                    batch.step()

        round_of(30)
        before = resident_bytes()
        round_of(150)
        self.assertLess(resident_bytes() - before, 4 << 20)

    @needs_shared
    def test_on_other_models(self):
        for name in ("tiny-qwen3-macos-4bit", "tiny-mistral-macos", "tiny-qwen3-ios"):
            for engine in ("sequential", "pipelined") if name.endswith("macos") else ("auto",):
                with self.subTest(name, engine=engine), LLM(TINY_LLM.parent / name, engine=engine) as llm:
                    expected = [llm.create_sequence().generate(prompt, **OPTIONS).tokens for prompt in PROMPTS]
                    results = llm.create_batch(sharing=False).generate(PROMPTS, **OPTIONS)
                    self.assertEqual([result.tokens for result in results], expected)


if __name__ == "__main__":
    unittest.main()
