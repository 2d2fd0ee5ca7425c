"""Drafts: the same text, fewer runs, and what is told of them."""

import json

import cli

PROMPT = [119, 362, 267, 138, 52, 301, 153, 227, 238] * 2


class Speculate(cli.CliTest):
    def generate(self, *arguments):
        tokens = self.write("tokens.json", json.dumps({"tokens": PROMPT}))
        return self.json("generate", cli.BUNDLE, "--json", "--raw-tokens", tokens, "--max-tokens", "40", "--ignore-eos", *arguments)

    def test_the_same_tokens(self):
        for sampling in ([], ["--temperature", "0.7", "--top-k", "3", "--seed", "5"], ["--repetition-penalty", "1.3"]):
            plain = self.generate(*sampling)
            self.assertNotIn("speculation", plain)
            for flags in (["--speculate", "lookup"], ["--draft", cli.BUNDLE], ["--speculate", "auto", "--draft", cli.BUNDLE, "--max-draft", "4"]):
                fast = self.generate(*sampling, *flags)
                self.assertEqual(fast["tokens"], plain["tokens"])
                told = fast["speculation"]
                self.assertEqual(set(told), {"drafted", "accepted", "runs"})
                self.assertEqual(told["runs"], fast["timing"]["decode_tokens"] - told["accepted"])
                self.assertLessEqual(told["accepted"], told["drafted"])

    def test_off(self):
        self.assertNotIn("speculation", self.generate("--speculate", "off"))

    def test_usage(self):
        for arguments in (
            ["--speculate", "magic"],
            ["--speculate", "draft"],
            ["--speculate", "lookup", "--draft", cli.BUNDLE],
            ["--speculate", "off", "--draft", cli.BUNDLE],
            ["--max-draft", "4"],
            ["--speculate", "lookup", "--max-draft", "17"],
        ):
            self.fails("generate", cli.BUNDLE, "--prompt", "a", *arguments, code=64)
            self.fails("chat", cli.BUNDLE, *arguments, code=64)

    def test_a_draft_model_that_is_not_there(self):
        self.assertIn("no/such", self.fails("generate", cli.BUNDLE, "--prompt", "a", "--draft", "no/such", code=1))


if __name__ == "__main__":
    cli.main()
