"""Pictures on the command line: cairn generate --image, /image in a chat, llm-runner --image, on the public vision bundle."""

import os
import unittest

import cli
import safetensors_io as st

MODEL = os.path.join(os.environ.get("CAIRN_SHARED_DATA", ""), "models", "tiny-qwen3_vl-vlm")
PICTURES = os.path.join(cli.TESTS, "data", "vision")
IMAGE, START, END = 5, 3, 4


@unittest.skipUnless(os.path.isdir(MODEL), "the public vision bundle is not there (CAIRN_SHARED_DATA)")
class ImagesTest(cli.CliTest):
    def picture(self, name="rgb.ppm"):
        return os.path.join(PICTURES, name)

    def test_generate(self):
        one = self.json("generate", MODEL, "--image", self.picture(), "--prompt", "hi", "-n", "3", "--json")
        self.assertEqual(one["engine"], "vision")
        self.assertEqual(one["prompt_tokens"].count(IMAGE), 4)
        at = one["prompt_tokens"].index(IMAGE)
        self.assertEqual((one["prompt_tokens"][at - 1], one["prompt_tokens"][at + 4]), (START, END))
        two = self.json(
            "generate", MODEL, "--image", self.picture(), "--image", self.picture("gray.pgm"), "--prompt", "hi", "--no-template", "--json"
        )
        self.assertEqual(two["prompt_tokens"].count(IMAGE), 8)
        self.assertEqual(two["prompt_form"], "raw")

    def test_raw_tokens(self):
        tokens = self.write("tokens.json", '{"tokens":[7,%d,8]}' % IMAGE)
        out = self.json("generate", MODEL, "--image", self.picture(), "--raw-tokens", tokens, "-n", "2", "--json")
        self.assertEqual(out["prompt_tokens"], [7, IMAGE, IMAGE, IMAGE, IMAGE, 8])
        self.assertIn(
            "found 1 image placeholder tokens, expected 2",
            self.fails("generate", MODEL, *["--image", self.picture()] * 2, "--raw-tokens", tokens, "-n", "2", code=1),
        )

    def test_pixel_values(self):
        """Zeros as .npy give the tokens of a gray picture: (pixel / 255 - 0.5) / 0.5 is 0 for no byte, so only the path is compared."""
        header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3, 32, 32), }"
        header += b" " * (118 - 10 - len(header)) + b"\n" if len(header) < 107 else b"\n"
        with open(self.path("pixels.npy"), "wb") as f:
            f.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(3 * 32 * 32 * 4))
        out = self.json("generate", MODEL, "--image", self.path("pixels.npy"), "--prompt", "hi", "-n", "2", "--json")
        self.assertEqual(out["prompt_tokens"].count(IMAGE), 4)
        with open(self.path("short.npy"), "wb") as f:
            f.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(16))
        message = self.fails("generate", MODEL, "--image", self.path("short.npy"), "--prompt", "hi", "-n", "2", code=1)
        self.assertIn("[1, 3, 32, 32]", message)
        wrong = self.write("wrong.npy", "nothing")
        self.assertIn("'<f4'", self.fails("generate", MODEL, "--image", wrong, "--prompt", "hi", "-n", "2", code=1))

    def test_pixel_values_of_safetensors(self):
        path = self.path("pixels.safetensors")
        st.save(path, {"pixel_values": ("F32", [1, 3, 32, 32], [0.5] * 3072)})
        out = self.json("generate", MODEL, "--image", path, "--prompt", "hi", "-n", "2", "--json")
        self.assertEqual(out["prompt_tokens"].count(IMAGE), 4)
        st.save(path, {"pixels": ("F32", [1, 3, 32, 32], [0.5] * 3072)})
        self.assertIn("'pixel_values'", self.fails("generate", MODEL, "--image", path, "--prompt", "hi", code=1))

    def test_refusals(self):
        self.assertIn("none.png", self.fails("generate", MODEL, "--image", "none.png", "--prompt", "hi", code=1))
        self.assertIn("takes no images", self.fails("generate", cli.BUNDLE, "--image", self.picture(), "--prompt", "hi", code=1))
        text = self.write("text.png", "no picture")
        self.assertIn("are accepted", self.fails("generate", MODEL, "--image", text, "--prompt", "hi", code=1))

    def test_chat(self):
        lines = "/image %s\nhello\nand more\n/image %s\nlook\n" % (self.picture(), self.picture("gray.pgm"))
        out, err = self.cairn("chat", MODEL, "-n", "4", "-v", stdin=lines)
        self.assertEqual(err.count("generated"), 3)
        self.assertEqual(err.count("partly reused"), 2)
        self.assertIn("none.png", self.fails("chat", MODEL, stdin="/image none.png\n", code=1))
        self.assertIn("takes no images", self.fails("chat", cli.BUNDLE, stdin="/image %s\n" % self.picture(), code=1))

    def test_llm_runner(self):
        alias = self.path("llm-runner")
        os.symlink(cli.PROGRAM, alias)
        runner = ["--model", MODEL, "--image", self.picture(), "--prompt", "hi", "--max-tokens", "3"]
        self.assertIn("Generating...", "".join(self.cairn(*runner, program=alias)))
        refused = self.cairn(*runner, "--image-strategy", "pad", code=1, program=alias)
        self.assertIn("--image-strategy pad", "".join(refused))


if __name__ == "__main__":
    unittest.main()
