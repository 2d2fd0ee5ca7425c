"""Help, versions, bad usage, completion: what everybody meets first."""

import subprocess

import cli

COMMANDS = ["run", "generate", "chat", "bench", "inspect", "import", "tokenize", "template", "compile", "cache", "completion", "version"]


class Help(cli.CliTest):
    def test_overview(self):
        out, err = self.cairn("help")
        self.assertEqual(err, "")
        self.expect("help.txt", out)
        self.assertEqual(self.cairn("--help")[0], out)
        self.assertEqual(self.cairn("-h")[0], out)

    def test_every_command(self):
        for command in COMMANDS:
            out, err = self.cairn(command, "--help")
            self.assertEqual(err, "")
            self.assertEqual(self.cairn("help", command)[0], out)
            self.assertTrue(out.startswith("usage: cairn " + command))
            self.assertTrue(all(len(line) <= 120 for line in out.splitlines()), command)
        self.expect("help-run.txt", self.cairn("run", "--help")[0])

    def test_help_wins_over_missing_arguments(self):
        self.cairn("run", "--steps", "3", "-h")

    def test_json(self):
        everything = self.json("help", "--json")
        self.assertEqual([c["name"] for c in everything["commands"]], COMMANDS)
        run = self.json("run", "--help", "--json")
        self.assertEqual(run, everything["commands"][0])
        options = {o["name"]: o for o in run["options"]}
        self.assertEqual(options["device"]["choices"], ["cpu"])
        self.assertEqual(options["quiet"]["short"], "q")
        self.assertTrue(options["state-shape"]["repeatable"])

    def test_version(self):
        out = self.cairn("version")[0]
        self.assertRegex(out, r"^cairn \d+\.\d+\.\d+\n$")
        self.assertEqual(self.cairn("--version")[0], out)
        self.assertEqual(self.json("version", "--json")["version"], out.split()[1])


class Usage(cli.CliTest):
    def test_no_command(self):
        self.assertIn("usage: cairn COMMAND", self.fails(code=64))

    def test_unknown_command(self):
        err = self.fails("rnu", code=64)
        self.assertIn("'rnu' is no command", err)
        self.assertIn("inspect", err)

    def check(self, arguments, message):
        err = self.fails(*arguments, code=64)
        self.assertEqual(err.splitlines()[0], "cairn %s: %s" % (arguments[0], message))
        self.assertIn("usage: cairn %s " % arguments[0], err)
        self.assertIn("--help", err)

    def test_messages(self):
        self.check(["run"], "MODEL is missing")
        self.check(["run", "a", "b"], "unexpected argument 'b'")
        self.check(["run", "a", "--nonsense"], "unknown option --nonsense")
        self.check(["run", "a", "--nonsense=3"], "unknown option --nonsense")
        self.check(["run", "a", "-x"], "unknown option -x")
        self.check(["run", "a", "--io"], "option --io needs a value")
        self.check(["run", "a", "--json=yes"], "option --json takes no value")
        self.check(["run", "a", "--steps", "many"], "--steps must be a whole number, not 'many'")
        self.check(["run", "a", "--steps", "0"], "--steps must be from 1 to 1000000000, not '0'")
        self.check(["run", "a", "--steps", "2000000000"], "--steps must be from 1 to 1000000000, not '2000000000'")
        huge = "99999999999999999999"
        self.check(["run", "a", "--steps", huge], "--steps %s is too large: it must be from 1 to 1000000000" % huge)
        self.check(
            ["run", "a", "--steps", "-" + huge], "--steps -%s is too small: it must be from 1 to 1000000000" % huge
        )
        for threads in ("0", "257", "-1"):
            self.check(["run", "a", "--threads", threads], "--threads must be from 1 to 256, not '%s'" % threads)
        seed = ["generate", "a", "--prompt", "x", "--seed"]
        most = "18446744073709551615"
        self.check(
            seed + ["18446744073709551616"], "--seed 18446744073709551616 is too large: it must be from 0 to " + most
        )
        self.check(seed + ["-1"], "--seed -1 is too small: it must be from 0 to " + most)
        self.check(seed + ["1.5"], "--seed must be a whole number, not '1.5'")
        self.check(["run", "a", "--device", "gpu"], "--device must be one of cpu, not 'gpu'")
        self.check(
            ["generate", "a", "--prompt", "x", "--temperature", "warm"], "--temperature must be a number, not 'warm'"
        )
        self.check(
            ["generate", "a", "--prompt", "x", "--top-p", "1.5"], "--top-p must be above 0 and at most 1, not '1.5'"
        )
        self.check(["import", "a", "--check", "-o", "b"], "--check writes nothing; leave -o out")
        self.check(["completion", "fish"], "'fish' is no shell with completion; there is bash")

    def test_empty_paths(self):
        self.check(["run", ""], "MODEL is empty")
        self.check(["tokenize", "", "x"], "PATH is empty")
        for option in ("--io", "--out", "--npy-dir", "--dump-intermediates"):
            self.check(["run", "a", option, ""], option + " is empty; a path is expected")
            self.check(["run", "a", option + "="], option + " is empty; a path is expected")
        for option in ("--logits", "--tokenizer", "--prompt-file", "--raw-tokens", "--force"):
            self.check(["generate", "a", option, ""], option + " is empty; a path is expected")
        self.check(["inspect", "a", "--save-contract", ""], "--save-contract is empty; a path is expected")

    def test_abbreviations_are_refused(self):
        self.check(["run", "a", "--prec", "exact"], "unknown option --prec (did you mean --precision?)")
        self.check(["run", "a", "--prec=exact"], "unknown option --prec (did you mean --precision?)")
        self.check(["run", "a", "--trace-op"], "unknown option --trace-op (did you mean --trace-ops?)")

    def test_the_last_of_several_counts_and_is_told(self):
        self.assertIn("--prompt was given before; the last one, 'b', counts", self.fails("generate", "missing", "-q", "-p", "a", "--prompt=b", code=1))
        self.assertNotIn("before", self.fails("generate", "missing", "-p", "a", "--stop", "x", "--stop", "y", "-q", "-q", code=1))

    def test_options_after_arguments_and_double_dash(self):
        self.fails("run", "missing", "-q", code=1)
        self.fails("run", "-q", "--", "--missing", code=1)

    def test_missing_file(self):
        for command in (
            ["inspect"],
            ["run"],
            ["generate", "--prompt", "x"],
            ["chat"],
            ["tokenize"],
            ["template"],
            ["import"],
        ):
            err = self.fails(command[0], "no/such/model", *command[1:], code=1, stdin="{}")
            self.assertIn("no/such/model", err)
            self.assertNotIn("usage", err)

    def test_not_a_model(self):
        err = self.fails("inspect", "cli/cli.py", code=1)
        self.assertIn("is no model; accepted are", err)
        err = self.fails("run", "cli/expected", code=1)
        self.assertIn("holds neither main.mlirb nor metadata.json", err)
        self.assertIn("did you mean the asset in it, 'cli/data/types.aimodel'", self.fails("run", "cli/data", code=1))

    def test_full_disk(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([cli.PROGRAM, "help", "--json"], stdout=full, stderr=subprocess.PIPE, cwd=cli.TESTS)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"cannot write the output", done.stderr)


class Completion(cli.CliTest):
    def complete(self, line):
        """The words bash offers for a command line whose last word is being typed."""
        words = line.split(" ")
        script = self.write("completion.bash", self.cairn("completion", "bash")[0])
        code = "source %s; COMP_WORDS=(%s); COMP_CWORD=%d; _cairn; printf '%%s\\n' \"${COMPREPLY[@]}\"" % (
            script,
            " ".join("'%s'" % w for w in words),
            len(words) - 1,
        )
        return (
            subprocess.run(["bash", "-c", code], capture_output=True, check=True, cwd=cli.TESTS).stdout.decode().split()
        )

    def test_commands(self):
        self.assertEqual(self.complete("cairn in"), ["inspect"])
        self.assertEqual(set(self.complete("cairn ")), set(COMMANDS))

    def test_options_and_values(self):
        self.assertEqual(self.complete("cairn run --tr"), ["--trace-ops", "--trace"])
        self.assertEqual(self.complete("cairn run --precision "), ["auto", "exact", "bf16", "int8"])
        self.assertIn("cli/expected", self.complete("cairn run --npy-dir cli/ex"))


if __name__ == "__main__":
    cli.main()
