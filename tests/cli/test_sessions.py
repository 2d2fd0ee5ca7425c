"""--session of cairn generate and cairn chat: sequences that go on in the next call."""

import json
import os
import shutil
import signal
import subprocess
import time
import unittest

import cli

PROMPT = [119, 362, 267, 138, 52, 301, 153, 227, 238]
OTHER = "data/gguf/f32.gguf"


class SessionTest(cli.CliTest):
    def tokens(self, ids, name="tokens.json"):
        return self.write(name, json.dumps({"tokens": ids}))

    def generate(self, *arguments, model=cli.BUNDLE, **options):
        return self.json("generate", model, "--json", "--max-tokens", "6", *arguments, **options)

    def read(self, path):
        with open(path, "rb") as f:
            return f.read()

    def fresh(self, name):
        path = self.path(name)
        for file in (path, path + ".json"):
            if os.path.exists(file):
                os.remove(file)
        return path


class Text(SessionTest):
    def test_goes_on_behind_the_last_token(self):
        for more in ((), ("--engine", "pipelined"), ("--kv", "paged"), ("--temperature", "2", "--seed", "5")):
            session = self.fresh("text.session")
            arguments = ("--ignore-eos", "--session", session, *more)
            first = self.generate("--raw-tokens", self.tokens(PROMPT), *arguments)
            self.assertEqual(first["session"]["restored_tokens"], 0)
            self.assertTrue(first["session"]["saved"])
            self.assertEqual(first["session"]["file"], session)
            self.assertGreaterEqual(first["session"]["saved_tokens"], len(PROMPT) + 5)
            second = self.generate("--raw-tokens", self.tokens([7, 8]), *arguments)
            self.assertEqual(second["prompt_tokens"], PROMPT + first["tokens"] + [7, 8])
            self.assertEqual(second["session"]["restored_tokens"], first["session"]["saved_tokens"])
            self.assertGreaterEqual(second["prefix_hit"], len(PROMPT) + 5)
            cold = self.generate("--raw-tokens", self.tokens(second["prompt_tokens"]), "--ignore-eos", *more)
            self.assertEqual(second["tokens"], cold["tokens"])
            self.assertNotIn("session", cold)

    def test_text_without_a_template(self):
        session = self.fresh("raw.session")
        arguments = ("--no-template", "--ignore-eos", "--session", session)
        first = self.generate("--prompt", "Once upon", *arguments)
        second = self.generate("--prompt", " a time", *arguments)
        added = self.json("tokenize", cli.BUNDLE, "--json", "--no-special-tokens", " a time")["ids"]
        self.assertEqual(second["prompt_tokens"], first["prompt_tokens"] + first["tokens"] + added)
        # A conversation cannot go on from there.
        err = self.fails("generate", cli.BUNDLE, "--prompt", "x", "--session", session, code=1)
        self.assertIn("holds a text and no conversation; --no-template", err)
        self.assertIn("holds a text and no conversation", self.fails("chat", cli.BUNDLE, "--session", session, code=1, stdin="Hi\n"))


class Conversation(SessionTest):
    def test_generate_and_chat_go_on_with_each_other(self):
        session = self.fresh("talk.session")
        whole, _ = self.cairn("chat", cli.BUNDLE, "--max-tokens", "6", stdin="Hi\nAgain\nOnce more\n")
        first = self.generate("--prompt", "Hi", "--session", session)
        out, _ = self.cairn("chat", cli.BUNDLE, "--max-tokens", "6", "--session", session, stdin="Again\n")
        third = self.generate("--prompt", "Once more", "--session", session)
        self.assertEqual(first["text"] + "\n" + out + third["text"] + "\n", whole)
        self.assertGreater(third["prefix_hit"], len(first["prompt_tokens"]))
        with open(session + ".json", encoding="utf-8") as f:
            roles = [m["role"] for m in json.load(f)["messages"]]
        self.assertEqual(roles, ["user", "assistant"] * 3)

    def test_chat(self):
        session = self.fresh("chat.session")
        arguments = ("chat", cli.BUNDLE, "--max-tokens", "5", "--system", "Be brief.")
        whole, _ = self.cairn(*arguments, stdin="Hi\nAgain\n")
        halves = "".join(self.cairn(*arguments, "--session", session, stdin=line)[0] for line in ("Hi\n", "Again\n"))
        self.assertEqual(halves, whole)
        err = self.fails("chat", cli.BUNDLE, "--system", "Be long.", "--session", session, code=1, stdin="Hi\n")
        self.assertIn("--system: the conversation of the session", err)
        # Without --system it stays what it was; /reset begins anew.
        self.cairn("chat", cli.BUNDLE, "--max-tokens", "5", "--session", session, stdin="Hi\n")
        self.cairn("chat", cli.BUNDLE, "--max-tokens", "5", "--session", session, stdin="/reset\n")
        with open(session + ".json", encoding="utf-8") as f:
            self.assertEqual(json.load(f)["messages"], [])


    def test_a_text_option_does_not_forget_what_was_said(self):
        session = self.fresh("said.session")
        self.generate("--prompt", "Hi", "--session", session)
        before = [self.read(f) for f in (session, session + ".json")]
        for arguments, option, instead in (
            (("--prompt", "x", "--no-template"), "--no-template", "give the prompt without it"),
            (("--raw-tokens", self.tokens([7])), "--raw-tokens", "give --prompt or --prompt-file instead"),
        ):
            err = self.fails("generate", cli.BUNDLE, *arguments, "--session", session, code=1)
            self.assertIn(f"'{session}' holds a conversation of 2 messages, and {option} goes on with texts only; {instead}", err)
        self.assertEqual(before, [self.read(f) for f in (session, session + ".json")])
        # Nothing is lost where nothing was said.
        self.cairn("chat", cli.BUNDLE, "--session", session, stdin="/reset\n")
        self.assertEqual(self.generate("--prompt", "x", "--no-template", "--session", session)["prompt_form"], "raw")

    def test_commands_without_their_text(self):
        out, err = self.cairn("chat", cli.BUNDLE, "--max-tokens", "3", stdin="/tool\n/image\nHi\n")
        self.assertEqual(out.count("\n"), 1)
        self.assertIn("'/tool' wants the result of a tool call: /tool TEXT", err)
        self.assertIn("'/image' wants the file of a picture: /image FILE", err)
        self.assertNotIn("is no command", err)


class Saving(SessionTest):
    def start(self, session, *arguments):
        return subprocess.Popen(
            [cli.PROGRAM, *arguments, "--session", session], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cli.TESTS
        )

    def test_interrupted(self):
        session = self.fresh("interrupted.session")
        tokens = self.tokens(PROMPT)
        process = self.start(session, "generate", cli.BUNDLE, "--raw-tokens", tokens, "--ignore-eos", "--max-tokens", "4000")
        first = os.read(process.stdout.fileno(), 1)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertTrue(first)
        self.assertEqual(process.returncode, 1)
        with open(session + ".json", encoding="utf-8") as f:
            saved = json.load(f)["tokens"]
        self.assertEqual(saved[: len(PROMPT)], PROMPT)
        more = self.generate("--raw-tokens", self.tokens([7]), "--session", session)
        self.assertEqual(more["prompt_tokens"], saved + [7])
        self.assertGreaterEqual(more["prefix_hit"], len(saved) - 1)

    def test_chat_interrupted_at_its_input(self):
        session = self.fresh("input.session")
        process = self.start(session, "chat", cli.BUNDLE, "--max-tokens", "3")
        process.stdin.write(b"Hi\n")
        process.stdin.flush()
        reply = process.stdout.readline()
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, err), (0, b""))
        self.assertTrue(reply + out)
        with open(session + ".json", encoding="utf-8") as f:
            self.assertEqual([m["role"] for m in json.load(f)["messages"]], ["user", "assistant"])

    def test_one_process_at_a_time(self):
        session = self.fresh("shared.session")
        process = self.start(session, "chat", cli.BUNDLE, "--max-tokens", "3")
        process.stdin.write(b"Hi\n")
        process.stdin.flush()
        process.stdout.readline()
        for arguments in (("generate", cli.BUNDLE, "--prompt", "x"), ("chat", cli.BUNDLE)):
            err = self.fails(*arguments, "--session", session, code=1, stdin="Hi\n")
            self.assertIn(f"'{session}' is in use by another process, number {process.pid}", err)
            self.assertIn("choose another file", err)
        # By another name it is the same session.
        process.communicate(timeout=60)
        os.symlink(session, self.path("other.session"))
        process = self.start(session, "chat", cli.BUNDLE, "--max-tokens", "3")
        process.stdin.write(b"Hi\n")
        process.stdin.flush()
        process.stdout.readline()
        self.assertIn("in use", self.fails("chat", cli.BUNDLE, "--session", self.path("other.session"), code=1, stdin="Hi\n"))
        # A process that was killed holds nothing, and what it left goes with the next.
        process.kill()
        process.communicate(timeout=60)
        for name in ("shared.session.tmp-Abc123", "shared.session.json.tmp-Abc123"):
            self.write(name, "x")
        self.generate("--prompt", "x", "--session", session)
        left = [name for name in os.listdir(self.temporary) if ".tmp-" in name]
        self.assertEqual(left, [])

    def test_conversation_without_its_session(self):
        session = self.fresh("orphan.session")
        beside = self.write("orphan.session.json", "mine")
        for arguments in (("generate", cli.BUNDLE, "--prompt", "x"), ("chat", cli.BUNDLE)):
            err = self.fails(*arguments, "--session", session, code=1, stdin="Hi\n")
            self.assertIn(f"there is no such session, and a new one would write over '{beside}'", err)
        self.assertEqual(self.read(beside), b"mine")
        self.assertEqual([name for name in os.listdir(self.temporary) if ".tmp-" in name], [])

    def test_what_is_refused_changes_nothing(self):
        session = self.fresh("kept.session")
        self.generate("--prompt", "Hi", "--session", session)
        before = [self.read(f) for f in (session, session + ".json")]
        arguments = ("--prompt", "Hi", "--max-tokens", "2", "--session", session)
        self.assertIn("another model", self.fails("generate", OTHER, *arguments, code=1))
        self.assertIn("precision", self.fails("generate", cli.BUNDLE, *arguments, "--precision", "int8", code=1))
        self.assertEqual(before, [self.read(f) for f in (session, session + ".json")])
        damaged = self.path("damaged.session")
        with open(damaged, "wb") as f:
            f.write(before[0][:-40])
        for command in ("generate", "chat"):
            more = ("--prompt", "Hi") if command == "generate" else ()
            err = self.fails(command, cli.BUNDLE, *more, "--session", damaged, code=1, stdin="Hi\n")
            self.assertIn(f"the session '{damaged}': ", err)
        shutil.copy(session, damaged)
        for text in ("{}", '{"format":"cairn-conversation","version":9}', "[", '{"format":"cairn-conversation","version":1,"messages":3}'):
            self.write("damaged.session.json", text)
            self.assertIn("damaged.session.json", self.fails("generate", cli.BUNDLE, "--prompt", "x", "--session", damaged, code=1))

    def test_places_and_flags(self):
        prompt = ("generate", cli.BUNDLE, "--prompt", "Hi")
        self.assertIn("--kv chunked", self.fails(*prompt, "--session", self.path("x"), "--kv", "chunked", code=64))
        self.assertIn("--image", self.fails(*prompt, "--no-template", "--image", "x.png", "--session", self.path("x"), code=64))
        self.assertIn("does not exist", self.fails(*prompt, "--session", self.path("no/x"), code=1))
        self.assertIn("that is a folder", self.fails(*prompt, "--session", self.temporary, code=1))
        self.assertIn("/dev/stdout", self.fails(*prompt, "--session", "-", code=1))
        tokens = self.tokens(PROMPT)
        err = self.fails("generate", cli.BUNDLE, "--raw-tokens", tokens, "--session", tokens, code=1)
        self.assertIn("is read; choose another", err)
        # A model that came from no file has no name that a session could be recognised by.
        err = self.fails("generate", "synthetic:tiny", "--raw-tokens", tokens, "--session", self.path("y"), code=1)
        self.assertIn("--session: a session is recognised by the file of its model", err)
        self.assertFalse(os.path.exists(self.path("y")))


if __name__ == "__main__":
    unittest.main()
