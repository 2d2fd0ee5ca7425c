"""Language models: generation, streams, logits, tokenizers, templates."""

import asyncio
import gc
import json
import threading
import time
import unittest

from data import GGUF, TINY_LLM, needs_shared

import cairn
from cairn import LLM, Status

PROMPT = [1, 5, 9, 2]


class Tokens(unittest.TestCase):
    """On a tiny GGUF model of this repository."""

    @classmethod
    def setUpClass(cls):
        cls.llm = LLM(GGUF)

    def setUp(self):
        self.llm.reset()

    def test_info(self):
        info = self.llm.info()
        self.assertEqual(info["source"], "gguf")
        self.assertTrue(info["decisions"])
        self.assertGreater(info["vocab_size"], 10)

    def test_generate_and_stream_agree(self):
        whole = self.llm.generate(PROMPT, max_tokens=8, ignore_eos=True, logits=True)
        self.assertEqual((len(whole.tokens), whole.stop_reason, whole.prompt_tokens), (8, "max_tokens", PROMPT))
        self.assertEqual(whole.logits[0][1].shape, (self.llm.info()["vocab_size"],))
        stream = self.llm.stream(PROMPT, max_tokens=8, ignore_eos=True)
        self.assertEqual([event.token for event in stream if event.token >= 0], whole.tokens)
        self.assertEqual(stream.result.tokens, whole.tokens)
        self.assertGreater(stream.result.prefix_hit, 0)

    def test_seeded_sampling_repeats(self):
        options = {"max_tokens": 12, "temperature": 1.0, "top_k": 20, "top_p": 0.9, "seed": 7, "ignore_eos": True}
        first, second = (self.llm.generate(PROMPT, **options).tokens for _ in range(2))
        self.assertEqual(first, second)

    def test_what_would_be_left_out_is_refused_by_name(self):
        messages = [{"role": "user", "content": "Hi"}]
        for prompt, options, message in (
            (PROMPT, {"form": "raw"}, "form belongs to a prompt that is text"),
            (None, {"messages": messages, "form": "template"}, "form belongs to a prompt that is text"),
            ("Hi", {"tools": [{"name": "f"}]}, "tools belongs to messages"),
            (PROMPT, {"template_variables": {"a": 1}}, "template_variables belongs to messages"),
            (PROMPT, {"forced": [1], "stop_ids": [2]}, "stop_ids belongs to tokens that are chosen, not forced"),
            (PROMPT, {"forced": [], "stop": "x"}, "stop belongs to tokens that are chosen, not forced"),
            (PROMPT, {"repetition_window": 4}, "repetition_window belongs to repetition_penalty"),
            (PROMPT, {"compact_json": True}, "compact_json belongs to json_schema or any_json"),
            (PROMPT, {"compact_json": True, "regex": "a"}, "compact_json belongs to json_schema or any_json"),
            (PROMPT, {"overflow_sinks": -1}, 'overflow_sinks belongs to overflow="slide" or a function'),
            (PROMPT, {"overflow_margin": 9, "overflow": "refuse"}, 'overflow_margin belongs to overflow="slide" or a function'),
            (PROMPT, {"max_draft": 4}, "max_draft belongs to speculate or draft"),
            (PROMPT, {"always_draft": True, "speculate": "off"}, "always_draft belongs to speculate or draft"),
            (PROMPT, {"prefill_logits": True}, "prefill_logits belongs to logits or on_logits"),
            (PROMPT, {"first_logits": True, "logprobs": True}, "first_logits belongs to logits or on_logits"),
        ):
            for call in (self.llm.generate, self.llm.stream, self.llm.create_batch().join):
                with self.subTest(options, call=call), self.assertRaises(TypeError) as caught:
                    call(prompt, **options)
                self.assertEqual(str(caught.exception), message)

    def test_what_says_nothing_is_taken(self):
        plain = self.llm.generate(PROMPT, max_tokens=3).tokens
        silent = {"form": "auto", "tools": [], "template_variables": {}, "stop": [], "stop_ids": (), "compact_json": False}
        silent |= {"overflow_sinks": 0, "max_draft": 0, "always_draft": False, "repetition_window": None}
        self.assertEqual(self.llm.generate(PROMPT, max_tokens=3, **silent).tokens, plain)
        # An empty list of forced tokens is none, not no list.
        self.assertEqual(self.llm.generate(PROMPT, forced=[], stop_ids=[]).tokens, [])
        self.assertEqual(self.llm.generate(PROMPT, max_tokens=0).tokens, [])

    def test_values_that_are_none(self):
        for option, value, error, message in (
            ("temperature", float("inf"), cairn.InvalidArgumentError, r"must be 0 \(greedy\) or a finite number above it \(got inf\)"),
            ("temperature", float("nan"), cairn.InvalidArgumentError, r"must be 0 \(greedy\) or a finite number above it \(got nan\)"),
            ("repetition_penalty", float("inf"), cairn.InvalidArgumentError, "must be 1 or more, and finite"),
            ("stop_ids", [1, 10**6], cairn.OutOfRangeError, "token 1 is 1000000; the vocabulary has the ids 0 to"),
            ("stop_ids", [-1], cairn.OutOfRangeError, "token 0 is -1"),
            ("ignore_eos", "no", TypeError, "True or False expected, not 'no'"),
            ("logits", "no", TypeError, "True or False expected, not 'no'"),
        ):
            with self.subTest(option, value=value), self.assertRaisesRegex(error, f"{option}:? .*{message}|{option}:? {message}"):
                self.llm.generate(PROMPT, max_tokens=2, **{option: value})
            with self.assertRaisesRegex(error, message):
                self.llm.create_batch().join(PROMPT, max_tokens=2, **{option: value})

    def test_forward_equals_generate(self):
        rows = self.llm.forward(PROMPT)
        self.assertEqual([position for position, _ in rows], [3])
        best = int(rows[0][1].numpy().argmax())
        self.assertEqual(self.llm.history, PROMPT)
        self.llm.reset()
        self.assertEqual(self.llm.generate(PROMPT, max_tokens=1, ignore_eos=True).tokens, [best])
        with self.assertRaises(cairn.InvalidArgumentError):
            self.llm.forward([3], positions=[0])

    def test_cancelling(self):
        seen = []

        def on_token(index, token, text):
            seen.append(token)
            return len(seen) < 3

        result = self.llm.generate(PROMPT, max_tokens=50, ignore_eos=True, on_token=on_token)
        self.assertEqual((result.stop_reason, len(seen)), ("cancelled", 3))
        with self.llm.stream(PROMPT, ignore_eos=True) as stream:
            next(stream)
        self.assertIn(stream.result.stop_reason, ("cancelled", "context_full"))

    def test_a_dropped_stream_ends(self):
        stream = self.llm.stream(PROMPT, ignore_eos=True)
        thread = stream._thread
        next(stream)
        del stream
        gc.collect()
        thread.join(20)
        self.assertFalse(thread.is_alive())

    def test_exceptions_of_callbacks_come_through(self):
        def on_token(index, token, text):
            raise ZeroDivisionError("from the callback")

        with self.assertRaisesRegex(ZeroDivisionError, "from the callback"):
            self.llm.generate(PROMPT, max_tokens=4, on_token=on_token)

        def on_logits(position, row):
            raise ZeroDivisionError(f"row of {row.size}")

        with self.assertRaisesRegex(ZeroDivisionError, "row of"):
            self.llm.generate(PROMPT, max_tokens=4, on_logits=on_logits)

    def test_busy(self):
        release, entered, seen = threading.Event(), threading.Event(), []

        def on_token(index, token, text):
            entered.set()
            release.wait(20)
            return False

        thread = threading.Thread(target=lambda: self.llm.generate(PROMPT, max_tokens=4, on_token=on_token, ignore_eos=True))
        thread.start()
        entered.wait(20)
        try:
            self.llm.generate(PROMPT, max_tokens=1)
        except cairn.BusyError as error:
            seen.append(error.status)
        release.set()
        thread.join()
        self.assertEqual(seen, [Status.BUSY])

    def test_wrong_arguments(self):
        with self.assertRaises(cairn.OutOfRangeError):
            self.llm.generate([1 << 30], max_tokens=1)
        with self.assertRaises(cairn.InvalidArgumentError):
            self.llm.generate(PROMPT, temperature=-1.0)
        with self.assertRaises(TypeError):
            self.llm.generate()
        with self.assertRaises(TypeError):
            self.llm.generate(PROMPT, messages=[])
        with self.assertRaises(ValueError):
            self.llm.generate("text", form="magic")
        with self.assertRaises(cairn.NotFoundError):
            LLM("/there/is/nothing")
        with self.assertRaises(cairn.IncompatibleError):
            LLM(GGUF, engine="static-shape")
        self.assertEqual(LLM(GGUF, engine="pipelined").info()["engine"], "pipelined")
        paged = LLM(GGUF, kv="chunked", kv_page=128, kv_window=48, kv_sinks=8, kv_type="int8")
        self.assertEqual(paged.info()["kv_strategy"], "chunked")
        with self.assertRaises(cairn.InvalidArgumentError):
            LLM(GGUF, kv="paged", kv_page=100)
        with self.assertRaises(TypeError):
            self.llm.stream(PROMPT, on_token=print)

    def test_await(self):
        async def main():
            whole = await self.llm.agenerate(PROMPT, max_tokens=5, ignore_eos=True)
            events = [event async for event in self.llm.astream(PROMPT, max_tokens=5, ignore_eos=True)]
            return whole.tokens, [event.token for event in events if event.token >= 0]

        whole, streamed = asyncio.run(main())
        self.assertEqual(whole, streamed)

    def test_a_cancelled_task_ends_the_generation(self):
        async def main():
            task = asyncio.create_task(self.llm.agenerate(PROMPT, ignore_eos=True, on_token=lambda *unused: time.sleep(0.01)))
            await asyncio.sleep(0.05)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        asyncio.run(main())
        self.llm.generate(PROMPT, max_tokens=1)


@needs_shared
class Text(unittest.TestCase):
    """On a tiny bundle with a tokenizer."""

    @classmethod
    def setUpClass(cls):
        cls.llm = LLM(TINY_LLM)

    def test_golden_tokens(self):
        self.llm.reset()
        golden = json.loads((TINY_LLM / "greedy.json").read_text())[0]
        result = self.llm.generate(golden["prompt"], max_tokens=len(golden["tokens"]), ignore_eos=True)
        self.assertEqual(result.tokens, golden["tokens"])

    def test_text(self):
        result = self.llm.generate("Hello", form="raw", max_tokens=4, ignore_eos=True)
        self.assertEqual(result.prompt_form, "raw")
        tokenizer = self.llm.tokenizer
        self.assertEqual(result.prompt_tokens, tokenizer.encode("Hello"))
        self.assertEqual(str(result), result.text)
        pieces = "".join(event.text for event in self.llm.stream("Hello", form="raw", max_tokens=4, ignore_eos=True))
        self.assertEqual(pieces, result.text)

    def test_tokenizer(self):
        tokenizer = cairn.Tokenizer(TINY_LLM / "tokenizer")
        for text in ("Hello, world", "äöü 日本語 🎉", "", " a  b"):
            self.assertEqual(tokenizer.decode(tokenizer.encode(text, add_special_tokens=False), skip_special_tokens=False), text)
        ids = tokenizer.encode("Hello")
        token = tokenizer.id_to_token(ids[0])
        self.assertEqual(tokenizer.token_to_id(token), ids[0])
        self.assertIsNone(tokenizer.token_to_id("there is no such token"))
        with self.assertRaises(cairn.NotFoundError):
            cairn.Tokenizer("/there/is/nothing")


class Templates(unittest.TestCase):
    def test_render(self):
        template = cairn.ChatTemplate("{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{{ extra }}")
        self.assertEqual(template.render([{"role": "user", "content": "hé"}], extra="!"), "[user]hé!")
        self.assertEqual(len(cairn.ChatTemplate("{{ 'x' * 100000 }}").render()), 100000)
        with self.assertRaises(cairn.CorruptError):
            cairn.ChatTemplate("{% for %}")
        with self.assertRaisesRegex(cairn.InvalidArgumentError, "no way"):
            cairn.ChatTemplate("{{ raise_exception('no way') }}").render()


if __name__ == "__main__":
    unittest.main()
