"""The two files of a session: that they belong together, what becomes of their modes and links, pictures, NUL bytes."""

import json
import os
import shutil
import stat
import subprocess
import unittest

import cli

SHARED = os.path.join(os.environ.get("CAIRN_SHARED_DATA", ""), "models")
VLM = os.path.join(SHARED, "tiny-qwen3_vl-vlm")


class FilesTest(cli.CliTest):
    def say(self, session, text="Hi", *arguments):
        return self.json("generate", cli.BUNDLE, "--prompt", text, "--json", "-n", "3", "--session", session, *arguments)

    def continue_text(self, session):
        return self.json("generate", cli.BUNDLE, "--prompt", "more", "--no-template", "--json", "-n", "3", "--session", session)

    def refused(self, session, *arguments):
        """Whatever is asked of it; nothing of both files changes."""
        before = [self.read(f) for f in (session, session + ".json")]
        messages = []
        for command in (("generate", cli.BUNDLE, "--prompt", "x"), ("chat", cli.BUNDLE)):
            messages.append(self.fails(*command, "--session", session, *arguments, code=1, stdin="x\n"))
        self.assertEqual(before, [self.read(f) for f in (session, session + ".json")])
        self.assertEqual(messages[0].split(": ", 1)[1], messages[1].split(": ", 1)[1])
        return messages[0]

    def read(self, path):
        if not os.path.exists(path):
            return None
        with open(path, "rb") as f:
            return f.read()

    def copy(self, session, name):
        for end in ("", ".json"):
            shutil.copy(session + end, self.path(name) + end)
        return self.path(name)

    def mode(self, path):
        return stat.S_IMODE(os.stat(path).st_mode)


class Pairs(FilesTest):
    def test_missing_conversation(self):
        session = self.path("missing")
        self.say(session)
        os.rename(session + ".json", self.path("elsewhere"))
        err = self.refused(session)
        self.assertIn(f"the session '{session}': its conversation '{session}.json' is missing", err)
        err = self.fails("generate", cli.BUNDLE, "-p", "x", "--no-template", "--session", session, code=1)
        self.assertIn(f"'{session}.json' is missing", err)
        os.rename(self.path("elsewhere"), session + ".json")
        self.assertGreater(self.say(session)["prefix_hit"], 0)

    def test_changed_conversation(self):
        session = self.path("changed")
        self.say(session)
        good = self.read(session + ".json").decode()
        for what, to in (
            ('"messages"', '"messagfs"'),
            ('"content":"Hi"', '"content":"Ho"'),
            ('"role":"user"', '"role":"tool"'),
            ('"tokens": [', '"tokens": [-1, '),
            ('"tokens": [', '"tokens": [7, '),
            ('"version": 2', '"version": 1'),
            (good[good.index('"tokens"') : good.index('"digest"')], ""),
            ('  "digest"', ' "digest"'),
            ("\n}", "\n\n}"),
        ):
            self.assertIn(what, good)
            self.write("changed.json", good.replace(what, to, 1))
            self.assertRegex(self.refused(session), "the session '%s': .*'?%s\\.json" % (session, session), (what, to))
        data = json.loads(good)
        for change in ({"digest": "0" * 64}, {"digest": "x"}, {"messages": []}):
            self.write("changed.json", json.dumps({**data, **change}))
            self.assertIn("damaged or changed", self.refused(session))
        self.write("changed.json", good)
        self.say(session)

    def test_a_text_that_was_changed(self):
        session = self.path("text")
        first = self.continue_text(session)
        good = self.read(session + ".json").decode()
        self.write("text.json", good.replace('"tokens": [', '"tokens": [9, '))
        err = self.fails("generate", cli.BUNDLE, "-p", "x", "--no-template", "--session", session, code=1)
        self.assertIn("damaged or changed", err)
        self.write("text.json", good)
        n = len(first["prompt_tokens"]) + len(first["tokens"])
        self.assertEqual(self.continue_text(session)["prompt_tokens"][:n], first["prompt_tokens"] + first["tokens"])

    def test_files_of_two_sessions(self):
        one, other = self.path("one"), self.path("second")
        self.say(one, "Hi")
        self.say(other, "Hello")
        mixed = self.copy(one, "mixed")
        shutil.copy(other + ".json", mixed + ".json")
        self.assertIn(f"'{mixed}.json' is not its conversation", self.refused(mixed))
        # Both files under another name are the session.
        self.assertGreater(self.say(self.copy(one, "copied"))["prefix_hit"], 0)

    def test_killed_between_the_files(self):
        session = self.path("cut")
        for first in (True, False):
            before = self.read(session)
            self.say(session)
            whole = self.copy(session, "whole")
            if first:
                os.remove(session)
            else:
                with open(session, "wb") as f:
                    f.write(before)
            expected = self.say(whole)
            out, err = self.cairn("generate", cli.BUNDLE, "--prompt", "Hi", "--json", "-n", "3", "--session", session)
            self.assertEqual(json.loads(out)["prompt_tokens"], expected["prompt_tokens"])
            self.assertEqual(json.loads(out)["tokens"], expected["tokens"])
            self.assertIn(f"the session '{session}' " + ("has no states" if first else "was cut short"), err)
            err = self.cairn("generate", cli.BUNDLE, "-p", "Hi", "-n", "3", "--session", session)[1]
            self.assertNotIn(session, err)
        # Two saves back is another session.
        for _ in range(2):
            before = self.read(session)
            self.say(session)
        self.say(session)
        with open(session, "wb") as f:
            f.write(before)
        self.assertIn("is not its conversation", self.refused(session))

    def test_files_of_older_versions(self):
        # Written when there was neither digest nor note.
        session = self.copy(os.path.join(cli.HERE, "data", "sessions", "talk"), "talk")
        old = json.loads(self.read(session + ".json"))
        self.assertEqual((old["version"], self.read(session)[8]), (1, 2))
        shutil.copy(session, self.path("before"))
        for _ in range(2):
            now = self.say(session, "Again", "--precision", "exact")
            self.assertEqual(now["prompt_tokens"][: len(old["tokens"])], old["tokens"])
            self.assertGreater(now["prefix_hit"], 0)
        now = json.loads(self.read(session + ".json"))
        self.assertEqual((now["version"], self.read(session)[8], len(now["messages"])), (2, 3, 6))
        # Old states with a conversation that is two messages ahead.
        shutil.copy(self.path("before"), session)
        err = self.fails("generate", cli.BUNDLE, "-p", "x", "--precision", "exact", "--session", session, code=1)
        self.assertIn("is not its conversation", err)

    def test_file_of_the_library(self):
        # It writes no FILE.json: the states alone are enough for a text.
        session = self.path("library")
        shutil.copy(os.path.join(cli.HERE, "data", "sessions", "text"), session)
        arguments = ("--json", "-n", "2", "--precision", "exact", "--session", session)
        out = self.json("generate", cli.BUNDLE, "--raw-tokens", self.write("ids.json", '{"tokens": [7]}'), *arguments)
        self.assertEqual(out["prompt_tokens"], [119, 362, 267, 354, 354, 7])
        more = self.json("generate", cli.BUNDLE, "-p", "x", "--no-template", *arguments)
        self.assertEqual(more["prompt_tokens"][:6], out["prompt_tokens"])
        shutil.copy(os.path.join(cli.HERE, "data", "sessions", "text"), self.path("other"))
        err = self.fails("generate", cli.BUNDLE, "-p", "x", "--precision", "exact", "--session", self.path("other"), code=1)
        self.assertIn(f"the session '{self.path('other')}' holds a text and no conversation; --no-template", err)


class Models(FilesTest):
    @unittest.skipUnless(os.path.isdir(VLM), "the models of the shared data are not here")
    def test_conversation_of_another_model(self):
        """With FILE gone, its conversation tells whose it was."""
        session = self.path("s")
        self.say(session)
        os.remove(session)
        err = self.fails("generate", VLM, "-p", "and", "-n", "2", "--session", session, code=1)
        self.assertIn(f"its conversation '{session}.json' was had with another model", err)
        self.assertEqual(self.say(session, "and")["session"]["restored_tokens"], 0)
        self.assertTrue(os.path.exists(session))

    def test_no_regular_file(self):
        pipe = self.path("pipe")
        os.mkfifo(pipe)
        for place in (pipe, "/dev/null"):
            self.assertIn("is no regular file", self.fails("generate", cli.BUNDLE, "-p", "x", "--session", place, code=1))


class Beginnings(FilesTest):
    def test_system_of_what_has_not_begun(self):
        session = self.path("empty")
        self.cairn("chat", cli.BUNDLE, "--session", session)
        for lines, system in (("yo\n/reset\n", "Be brief"), ("/reset\n", "Be long"), ("yo\n", "Be kind")):
            self.cairn("chat", cli.BUNDLE, "-n", "2", "--session", session, "--system", system, stdin=lines)
            messages = json.loads(self.read(session + ".json"))["messages"]
            self.assertEqual(messages[0], {"role": "system", "content": system})
        err = self.fails("chat", cli.BUNDLE, "--session", session, "--system", "Be brief", code=1, stdin="yo\n")
        self.assertIn("has begun without it", err)

    def test_system_stays(self):
        session = self.path("stays")
        self.cairn("chat", cli.BUNDLE, "--session", session, "--system", "Be brief")
        self.cairn("chat", cli.BUNDLE, "-n", "2", "--session", session, stdin="yo\n")
        roles = [m["role"] for m in json.loads(self.read(session + ".json"))["messages"]]
        self.assertEqual(roles, ["system", "user", "assistant"])


class Modes(FilesTest):
    def test_modes_are_kept(self):
        session, logits, trace = self.path("mode"), self.path("logits.safetensors"), self.path("trace.json")
        files = (session, session + ".json", logits, trace)
        more = ("--logits", logits, "--trace", trace)
        arguments = ("generate", cli.BUNDLE, "-p", "Hi", "-n", "2", "--session", session, *more)
        self.cairn(*arguments)
        for mode in (0o600, 0o660):
            for file in files:
                os.chmod(file, mode)
            self.cairn(*arguments)
            self.assertEqual([self.mode(f) for f in files], [mode] * 4)

    def test_write_protected(self):
        session, logits, trace = self.path("kept"), self.path("kept.safetensors"), self.path("kept.trace")
        options = {"--session": session, "--logits": logits, "--trace": trace}
        arguments = ["generate", cli.BUNDLE, "-p", "Hi", "-n", "2", *[x for pair in options.items() for x in pair]]
        self.cairn(*arguments)
        for file, option in ((session, "--session"), (session + ".json", "--session"), (logits, "--logits"), (trace, "--trace")):
            before = self.read(file)
            os.chmod(file, 0o444)
            self.assertIn(f"{option} {file}: that file is write-protected", self.fails(*arguments, code=1))
            os.chmod(file, 0o644)
            self.assertEqual(self.read(file), before)


class Links(FilesTest):
    def test_links(self):
        real, link = self.path("real"), self.path("link")
        os.symlink("real", link)  # to what is not there yet
        self.say(link)
        self.assertTrue(os.path.islink(link))
        self.assertTrue(os.path.exists(real))
        self.assertEqual(sorted(f for f in os.listdir(self.temporary) if f.endswith(".json")), ["real.json"])
        saved = self.say(real)["session"]["saved_tokens"]
        self.assertEqual(self.say(link)["session"]["restored_tokens"], saved)

    def test_one_process_by_two_names(self):
        # Also while there is no session yet.
        os.symlink("new", self.path("name"))
        for first, second in (("name", "new"), ("new", "name")):
            arguments = [cli.PROGRAM, "chat", cli.BUNDLE, "-n", "2", "--session", self.path(first)]
            process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cli.TESTS)
            process.stdin.write(b"Hi\n")
            process.stdin.flush()
            process.stdout.readline()
            err = self.fails("chat", cli.BUNDLE, "--session", self.path(second), code=1, stdin="Hi\n")
            self.assertIn("is in use by another process, number %d" % process.pid, err)
            process.kill()
            process.communicate(timeout=60)


class Nul(FilesTest):
    def chat(self, text, *arguments):
        return subprocess.run(
            [cli.PROGRAM, "chat", cli.BUNDLE, "-n", "1", *arguments], input=text, capture_output=True, cwd=cli.TESTS, timeout=240
        )

    def test_messages(self):
        session = self.path("nul")
        done = self.chat(b"Hi\nignore\0me\n", "--session", session)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"stdin, line 2: byte 7 is NUL", done.stderr)
        contents = [m["content"] for m in json.loads(self.read(session + ".json"))["messages"]]
        self.assertEqual(contents[0::2], ["Hi"])
        for line in (b"\0\n", b"/image a\0.ppm\n", b"/reset\0\n"):
            self.assertIn(b"stdin, line 1: byte", self.chat(line).stderr)

    def test_prompts(self):
        file = self.write("nul.txt", "a\0b")
        arguments = ("--prompt-file", file, "-n", "1")
        session = self.path("file")
        for more in ((), ("--no-template",), ("--session", session)):
            self.assertIn(f"{file}: byte 2 is NUL", self.fails("generate", cli.BUNDLE, *arguments, *more, code=1))
        self.assertFalse(os.path.exists(session))
        self.assertIn("stdin: byte 2 is NUL", self.fails("generate", cli.BUNDLE, "--prompt-file", "-", code=1, stdin="a\0b"))
        link = self.path("llm-runner")
        os.symlink(cli.PROGRAM, link)
        err = self.cairn("--model", cli.BUNDLE, "--prompt-file", file, program=link, code=1)[1]
        self.assertIn(f"{file}: byte 2 is NUL", err)


@unittest.skipUnless(os.path.isdir(VLM), "the public model is not there (CAIRN_SHARED_DATA)")
class Pictures(FilesTest):
    def picture(self, name, value):
        with open(self.path(name), "wb") as f:
            f.write(b"P6\n8 8\n255\n" + bytes([value, 40, 200] * 64))
        return self.path(name)

    def run_in(self, folder, *arguments, code=0, stdin=""):
        done = subprocess.run([cli.PROGRAM, *arguments], input=stdin.encode(), capture_output=True, cwd=folder, timeout=240)
        if code is not None:
            self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout.decode(), done.stderr.decode()

    def test_another_folder(self):
        session, elsewhere = self.path("pictures"), self.path("elsewhere")
        os.mkdir(elsewhere)
        picture = self.picture("a.ppm", 9)
        self.run_in(self.temporary, "generate", VLM, "-p", "What?", "-n", "2", "--image", "a.ppm", "--session", session)
        out, _ = self.run_in(elsewhere, "generate", VLM, "-p", "more", "-n", "2", "--session", "../pictures", "--json")
        self.assertGreater(json.loads(out)["prefix_hit"], 0)
        self.run_in(elsewhere, "chat", VLM, "-n", "2", "--session", "../pictures", stdin="/image ../a.ppm\nand?\n")
        part = json.loads(self.read(session + ".json"))["messages"][0]["content"][0]
        self.assertEqual(part["path"], os.path.realpath(picture))
        # Another picture of that name, and none.
        good = self.read(picture)
        before = [self.read(f) for f in (session, session + ".json")]
        changed = (lambda: self.picture("a.ppm", 200), "not the picture that was shown")
        for change, message in (changed, (lambda: os.remove(picture), "no such file")):
            change()
            for command in (("generate", VLM, "-p", "more"), ("chat", VLM)):
                _, err = self.run_in(elsewhere, *command, "--session", "../pictures", code=1, stdin="more\n")
                self.assertIn("the session '../pictures': image '%s/a.ppm'" % os.path.realpath(self.temporary), err)
                self.assertIn(message, err)
        self.assertEqual(before, [self.read(f) for f in (session, session + ".json")])
        with open(picture, "wb") as f:
            f.write(good)
        self.run_in(elsewhere, "generate", VLM, "-p", "more", "-n", "2", "--session", "../pictures")

    def test_outputs_over_pictures(self):
        """Pictures no option names: those of a session, by whatever links, and those a chat is told of."""
        picture, link, session = self.picture("a.ppm", 9), self.path("link.ppm"), self.path("pictures")
        os.symlink(picture, link)
        self.run_in(self.temporary, "generate", VLM, "-p", "What?", "-n", "2", "--image", picture, "--session", session)
        before = [self.read(f) for f in (picture, session, session + ".json")]
        for option in ("--trace", "--logits"):
            for place in (picture, link):
                _, err = self.run_in(self.temporary, "generate", VLM, "-p", "more", "-n", "2", "--session", session, option, place, code=1)
                self.assertIn(f"{option} {place}: that is the file '{os.path.realpath(picture)}' that is read", err)
        self.run_in(self.temporary, "chat", VLM, "-n", "2", "--session", session, "--trace", picture, code=1, stdin="more\n")
        _, err = self.run_in(self.temporary, "chat", VLM, "-n", "2", "--trace", picture, stdin=f"/image {link}\nand?\n", code=None)
        self.assertIn(f"--trace {picture}: that is the file", err)
        self.assertEqual(before, [self.read(f) for f in (picture, session, session + ".json")])


if __name__ == "__main__":
    unittest.main()
