"""cairn run: arrays in and out, states, steps, looking inside."""

import glob
import json
import os
import shutil
import struct
import subprocess

import cli
import safetensors_io as st

GOLDEN = "data/golden/"
STATE = GOLDEN + "test_stateful--TestStatefulDtypes--test_buffer_dtype-dtype2/model.aimodel"  # state + x, int32 [2,4]
FLOAT_STATE = GOLDEN + "test_stateful--TestStatefulCornerCases--test_no_non_state_outputs/model.aimodel"
FMOD = GOLDEN + "ops.test_ops--test_fmod_scalar-2.5-tensor_shape2-dtype2/model.aimodel"  # float32 [5]
SCALAR = GOLDEN + "ops.test_ops--test_min-x5-True/model.aimodel"  # float32 [1] -> []
BITWISE = GOLDEN + "ops.test_ops--test_binary_bitwise_ops-bitwise_and-y0-x0-False/model.aimodel"  # int8 [3], [3]
BF16 = GOLDEN + "composite_ops.test_rms_norm--TestTorchRMSNormConversion--test_rms_norm_basic-dtype2-True/model.aimodel"
NO_INPUT = GOLDEN + "ops.test_custom_ops--TestLutToDense--test_numerical-indices_shape0-4/model.aimodel"
TYPES = "cli/data/types.aimodel"
BUNDLE_ASSET = cli.BUNDLE + "/tiny-qwen3-macos-4bit.aimodel"
SHAPES = ["--state-shape", "keyCache=2,1,2,16,32", "--state-shape", "valueCache=2,1,2,16,32"]


def npy(path):
    """(descr, shape, bytes) of a .npy file."""
    with open(path, "rb") as f:
        data = f.read()
    assert data[:8] == b"\x93NUMPY\x01\x00" and (10 + struct.unpack("<H", data[8:10])[0]) % 64 == 0
    end = 10 + struct.unpack("<H", data[8:10])[0]
    header = eval(data[10:end], {"__builtins__": {}})  # the format is a Python literal
    assert header["fortran_order"] is False
    return header["descr"], header["shape"], data[end:]


class RunTest(cli.CliTest):
    def run_model(self, model, arrays, *arguments, code=0):
        st.save(self.path("in.safetensors"), arrays)
        out, err = self.cairn(
            "run",
            model,
            "--io",
            self.path("in.safetensors"),
            "--out",
            self.path("out.safetensors"),
            *arguments,
            code=code
        )
        if code:
            return err
        self.assertEqual(out, "")
        return st.load(self.path("out.safetensors"))


class Run(RunTest):
    def test_values(self):
        out = self.run_model(FMOD, {"x": ("F32", [5], [1.0, 2.5, 3.0, -4.0, 7.25])})
        self.assertEqual(out, {"fmod": ("F32", [5], [1.0, 0.0, 0.5, -1.5, 2.25])})

    def test_no_inputs(self):
        out, _ = self.cairn("run", NO_INPUT)
        self.assertRegex(out, r"^lut_to_dense +float32 \[2,3\] +min ")

    def test_summary(self):
        st.save(self.path("in.safetensors"), {"x": ("F32", [5], [0.5, 1.0, 1.5, 2.0, float("inf")])})
        out, _ = self.cairn("run", FMOD, "--io", self.path("in.safetensors"), "-q")
        self.assertEqual(out.split(), "fmod float32 [5] min 0.5 max 2 mean 1.25 (1 not finite)".split())

    def test_summary_of_nothing_finite(self):
        st.save(self.path("in.safetensors"), {"x": ("F32", [5], [float("nan")] * 5)})
        out, _ = self.cairn("run", FMOD, "--io", self.path("in.safetensors"), "-q")
        self.assertEqual(out.split(), "fmod float32 [5] min - max - mean - (5 not finite)".split())

    def test_scalars(self):
        self.assertEqual(self.run_model(SCALAR, {"x": ("F32", [1], [3.0])}), {"min_1": ("F32", [], [3.0])})
        # [] and [1] stand for each other on the way in.
        self.assertEqual(self.run_model(SCALAR, {"x": ("F32", [], [4.0])}), {"min_1": ("F32", [], [4.0])})

    def test_state_is_zero_unless_given(self):
        x = ("I32", [2, 4], list(range(8)))
        zeroed = self.run_model(STATE, {"x": x})["state.state"]
        self.assertEqual(
            zeroed, self.run_model(STATE, {"x": x, "state.state": ("I32", [2, 4], [0] * 8)})["state.state"]
        )
        given = self.run_model(STATE, {"x": x, "state.state": ("I32", [2, 4], [100] * 8)})["state.state"]
        self.assertEqual(given[2], [v + 100 for v in zeroed[2]])

    def test_steps_carry_states_over(self):
        def x(value):
            return ("F32", [4], [value] * 4)

        once = self.run_model(FLOAT_STATE, {"x": x(2.0)})["state.state"][2]
        thrice = self.run_model(FLOAT_STATE, {"x": x(2.0)}, "--steps", "3")
        self.assertEqual(thrice["state.state"][2], [3 * v for v in once])
        # A step's own input is used at that step, the common one at the others.
        mixed = self.run_model(FLOAT_STATE, {"x": x(2.0), "x.1": x(10.0)}, "--steps", "3")
        self.assertEqual(mixed["state.state"][2], [7 * v for v in once])
        own = self.run_model(FLOAT_STATE, {"x.0": x(1.0), "x.1": x(2.0), "x.2": x(4.0)}, "--steps", "3")
        self.assertEqual(own["state.state"][2], [3.5 * v for v in once])
        err = self.run_model(FLOAT_STATE, {"x.0": x(1.0)}, "--steps", "2", code=1)
        self.assertIn("input 'x' of 'main' is missing (step 1)", err)

    def test_outputs_of_steps(self):
        model = "data/execute/stateful.aimodel"
        (f,) = [f for f in self.json("inspect", model, "--json")["functions"]][:1]
        arrays = {
            i["name"]: ("F32" if i["dtype"] == "float32" else "I32", [d or 2 for d in i["shape"]], None)
            for i in f["inputs"]
        }
        for name, (dtype, shape, _) in arrays.items():
            n = 1
            for d in shape:
                n *= d
            arrays[name] = (dtype, shape, [1] * n)
        shapes = [
            a
            for s in f["states"]
            if None in s["shape"]
            for a in ("--state-shape", "%s=%s" % (s["name"], ",".join(str(d or 4) for d in s["shape"])))
        ]
        out = self.run_model(model, arrays, "--function", f["name"], "--steps", "2", *shapes)
        wanted = {"%s.%d" % (o["name"], k) for o in f["outputs"] for k in range(2)} | {
            "state." + s["name"] for s in f["states"]
        }
        self.assertEqual(set(out), wanted)

    def test_language_model_by_hand(self):
        # One prefill of two tokens equals two steps of one token: the same rows of the cache, the same last logits.
        ids, two = [7, 9], 2
        whole = self.run_model(
            BUNDLE_ASSET, {"input_ids": ("I32", [1, two], ids), "position_ids": ("I32", [1, two], [0, 1])}, *SHAPES
        )
        steps = self.run_model(
            BUNDLE_ASSET,
            {
                "input_ids.0": ("I32", [1, 1], ids[:1]),
                "position_ids.0": ("I32", [1, 1], [0]),
                "input_ids.1": ("I32", [1, 1], ids[1:]),
                "position_ids.1": ("I32", [1, 2], [0, 1]),
            },
            *SHAPES,
            "--steps",
            "2"
        )
        self.assertEqual(whole["state.keyCache"][1], [2, 1, 2, 16, 32])
        for state in ("state.keyCache", "state.valueCache"):
            for a, b in zip(whole[state][2], steps[state][2]):
                self.assertAlmostEqual(a, b, delta=0.01)
        last = whole["logits"][2][384:]
        self.assertEqual(max(range(384), key=last.__getitem__), max(range(384), key=steps["logits.1"][2].__getitem__))

    def test_dynamic_state_needs_a_shape(self):
        arrays = {"input_ids": ("I32", [1, 1], [7]), "position_ids": ("I32", [1, 1], [0])}
        err = self.run_model(BUNDLE_ASSET, arrays, code=1)
        self.assertIn("--state-shape keyCache=2,1,2,N,32", err)
        self.assertIn("no state of that name", self.run_model(BUNDLE_ASSET, arrays, "--state-shape", "k=1", code=1))
        for shape in ("a,b", "2,one", "", "2,1,", ",2", "2,-1", "2,,3", "9" * 30, ",".join(["1"] * 40)):
            err = self.run_model(BUNDLE_ASSET, arrays, "--state-shape", "keyCache=" + shape, code=64)
            self.assertIn("NAME=2,1,8,64", err)
        self.assertIn("=DIMS is missing", self.run_model(BUNDLE_ASSET, arrays, "--state-shape", "keyCache", code=64))
        self.assertIn(
            "keyCache",
            self.run_model(BUNDLE_ASSET, arrays, "--state-shape", "keyCache=2,1,3,16,32", *SHAPES[2:], code=1),
        )

    def test_component_of_a_bundle(self):
        arrays = {"input_ids": ("I32", [1, 1], [7]), "position_ids": ("I32", [1, 1], [0])}
        by_bundle = self.run_model(cli.BUNDLE, arrays, *SHAPES)
        self.assertEqual(by_bundle["logits"], self.run_model(BUNDLE_ASSET, arrays, *SHAPES)["logits"])
        message = self.run_model(cli.BUNDLE, arrays, "--component", "vision", code=1)
        self.assertIn("the bundle has no component 'vision'; it has main", message)

    def test_gguf(self):
        (f,) = self.json("inspect", "data/gguf/f32.gguf", "--json")["functions"]
        shapes = [
            a
            for s in f["states"]
            for a in ("--state-shape", "%s=%s" % (s["name"], ",".join(str(d or 8) for d in s["shape"])))
        ]
        out = self.run_model(
            "data/gguf/f32.gguf",
            {"input_ids": ("I32", [1, 2], [1, 2]), "position_ids": ("I32", [1, 2], [0, 1])},
            *shapes
        )
        self.assertEqual(out["logits"][1], [1, 2, f["outputs"][0]["shape"][2]])
        self.assertEqual(out["state.keyCache"][1][3], 8)


class Types(RunTest):
    """Every function of types.aimodel gives back its input."""

    def round_trip(self, function, dtype, values, shape=None, wanted=None):
        out = self.run_model(TYPES, {"x": (dtype, shape or [len(values) // 2, 2], values)}, "--function", function)
        self.assertEqual(out["y"], wanted or (dtype, shape or [len(values) // 2, 2], values), function)

    def test_plain(self):
        self.round_trip("bool", "BOOL", [True, False, False, True])
        self.round_trip("float64", "F64", [1e300, -0.1])
        self.round_trip("bfloat16", "BF16", [1.5, -3.0])
        self.round_trip("int64", "I64", [-(2**63), 2**63 - 1])
        self.round_trip("uint64", "U64", [0, 2**64 - 1])
        self.round_trip("uint32", "U32", [0, 2**32 - 1])
        self.round_trip("uint16", "U16", [0, 65535])
        self.round_trip("tfloat32", "F32", [1.0, -2.5])

    def test_sub_byte_integers_take_a_byte_each(self):
        self.round_trip("int4", "I8", [-8, 7, 0, -1])
        self.round_trip("int2", "I8", [-2, 1])
        self.round_trip("uint6", "U8", [0, 63])
        self.round_trip("uint4", "U8", [0, 15])
        self.round_trip("uint3", "U8", [0, 7])
        self.round_trip("uint2", "U8", [0, 3])
        self.round_trip("uint1", "U8", [0, 1])
        self.round_trip("float4_e2m1fn", "U8", [0, 15])
        err = self.run_model(TYPES, {"x": ("I8", [1, 2], [0, 8])}, "--function", "int4", code=1)
        self.assertIn("element 1 is 8, int4 holds -8 to 7", err)
        self.assertIn("uint8", self.run_model(TYPES, {"x": ("U8", [1, 2], [0, 1])}, "--function", "int4", code=1))

    def test_bytes_stand_for_bools_and_small_floats(self):
        self.round_trip("bool", "U8", [1, 0], wanted=("BOOL", [1, 2], [True, False]))
        self.assertIn(
            "element 0 is 2", self.run_model(TYPES, {"x": ("U8", [1, 2], [2, 0])}, "--function", "bool", code=1)
        )
        self.round_trip("float8_e5m2", "U8", [60, 188], wanted=("F8_E5M2", [1, 2], [60, 188]))
        self.round_trip("float8_e4m3fn", "U8", [56, 184], wanted=("F8_E4M3", [1, 2], [56, 184]))
        self.round_trip("float8_e8m0fnu", "U8", [127, 128], wanted=("F8_E8M0", [1, 2], [127, 128]))

    def test_complex_is_float32_with_a_dim_of_two(self):
        values = [1.0, -2.0, 0.5, 4.0]
        for function in ("complex128", "complex64", "complex32", "complex_bfloat16", "complex_float8_e5m2"):
            self.round_trip(function, "F32", values, [1, 2, 2])
        self.round_trip("complex128", "F64", values, [1, 2, 2], ("F32", [1, 2, 2], values))
        err = self.run_model(TYPES, {"x": ("F32", [2, 2], values)}, "--function", "complex64", code=1)
        self.assertIn("complex64 [?,2] (as float32 with a last dim of 2)", err)

    def test_npy(self):
        for function, dtype, values, descr, data in (
            ("complex32", "F32", [1.0, -2.0, 0.5, 4.0], "<c8", struct.pack("<4f", 1, -2, 0.5, 4)),
            ("complex128", "F32", [1.0, -2.0, 0.5, 4.0], "<c16", struct.pack("<4d", 1, -2, 0.5, 4)),
            ("int4", "I8", [-8, 7], "|i1", struct.pack("<2b", -8, 7)),
            ("uint6", "U8", [63, 0], "|u1", bytes([63, 0])),
            ("float8_e5m2", "U8", [60, 188], "<f4", struct.pack("<2f", 1, -1)),
            ("float4_e2m1fn", "U8", [7, 9], "<f4", struct.pack("<2f", 6, -0.5)),
            ("bool", "BOOL", [True, False], "|b1", b"\1\0"),
        ):
            shape = [1, 2, 2] if "complex" in function else [1, 2]
            self.run_model(
                TYPES, {"x": (dtype, shape, values)}, "--function", function, "--npy-dir", self.path(function)
            )
            self.assertEqual(npy(self.path(function + "/y.npy")), (descr, (1, 2), data), function)

    def test_interleaved_state_is_in_logical_order(self):
        state = [float(i) for i in range(2 * 16 * 4)]
        arrays = {"step": ("I32", [1], [5]), "state.kv": ("F16", [2, 16, 4], state)}
        out = self.run_model("data/assets/interfaces.aimodel", arrays, "--function", "cache")
        self.assertEqual(out, {"next": ("I32", [1], [5]), "state.kv": ("F16", [2, 16, 4], state)})

    def test_images_have_a_size(self):
        arrays = {"pixels": ("U8", [480, 640, 4], [0] * (480 * 640 * 4)), "image": ("U8", [1], [0])}
        err = self.run_model("data/assets/interfaces.aimodel", arrays, "--function", "picture", code=1)
        self.assertIn("input 'image': the file holds uint8 [1], the function takes image BGRA 640x480", err)


class Mistakes(RunTest):
    def test_missing_input(self):
        self.assertIn("input 'x' of 'main' is missing", self.run_model(FMOD, {}, code=1))
        self.assertIn("give them with --io", self.fails("run", FMOD, code=1))

    def test_wrong_types(self):
        err = self.run_model(FMOD, {"x": ("I64", [5], [1] * 5)}, code=1)
        self.assertIn("input 'x': the file holds int64 [5], the function takes float32 [5]", err)
        self.assertIn("float32 [4]", self.run_model(FMOD, {"x": ("F32", [4], [1.0] * 4)}, code=1))
        self.assertIn("float32 [1,5]", self.run_model(FMOD, {"x": ("F32", [1, 5], [1.0] * 5)}, code=1))

    def test_unknown_names(self):
        st.save(self.path("a"), {"x": ("F32", [5], [1.0] * 5), "y": ("F32", [1], [1.0]), "z": ("F32", [1], [1.0])})
        _, err = self.cairn("run", FMOD, "--io", self.path("a"))
        self.assertEqual(err, "note: 2 arrays of %s are not used by 'main', the first is 'y'\n" % self.path("a"))
        _, err = self.cairn("run", FMOD, "--io", self.path("a"), "-q")
        self.assertEqual(err, "")

    def test_misspelt_state(self):
        err = self.run_model(STATE, {"x": ("I32", [2, 4], [0] * 8), "state.stat": ("I32", [2, 4], [0] * 8)}, code=1)
        self.assertIn("'state.stat' is no state of 'main', whose states are state.state", err)

    def test_functions(self):
        self.assertIn("'other'", self.fails("run", FMOD, "--function", "other", code=1))

    def test_files(self):
        self.assertIn("missing.safetensors", self.fails("run", FMOD, "--io", "missing.safetensors", code=1))
        self.assertIn(
            ".safetensors", self.fails("run", FMOD, "--io", self.write("bad.safetensors", "nonsense"), code=1)
        )
        st.save(self.path("in.safetensors"), {"x": ("F32", [5], [1.0] * 5)})
        self.assertIn(
            "no/dir", self.fails("run", FMOD, "--io", self.path("in.safetensors"), "--out", "no/dir/out", code=1)
        )

    def test_precisions(self):
        st.save(self.path("in.safetensors"), {"x": ("F32", [5], [1.0] * 5)})
        for precision in ("exact", "bf16", "int8", "auto"):
            report = self.json("run", FMOD, "--io", self.path("in.safetensors"), "--precision", precision, "--json")
            self.assertEqual(report["precision"], "exact" if precision == "auto" else precision)


class LookingInside(RunTest):
    def test_json(self):
        st.save(self.path("in.safetensors"), {"x": ("I32", [2, 4], [1] * 8)})
        report = self.json("run", STATE, "--io", self.path("in.safetensors"), "--steps", "2", "--json")
        self.assertEqual(report["steps"], 2)
        self.assertEqual(report["states"], [{"name": "state.state", "dtype": "int32", "shape": [2, 4]}])
        self.assertEqual((report["device"], report["precision"]), ("cpu", "exact"))
        self.assertEqual(set(report["timing"]), {"load_s", "prepare_s", "run_s"})

    def test_trace(self):
        st.save(self.path("in.safetensors"), {"x": ("F32", [5], [1.0] * 5)})
        out, _ = self.cairn("run", FMOD, "--io", self.path("in.safetensors"), "--out", self.path("out"), "--trace-ops")
        lines = [line.split() for line in out.splitlines()]
        self.assertEqual([line[0] for line in lines], [str(i) for i in range(len(lines))])
        self.assertTrue(all(line[1].startswith("coreai.") for line in lines), out)
        document, trace = self.cairn("run", FMOD, "--io", self.path("in.safetensors"), "--json", "--trace-ops")
        self.assertEqual(json.loads(document)["function"], "main")
        self.assertEqual(trace.count("\n"), len(lines))

    def test_dump(self):
        st.save(self.path("in.safetensors"), {"x": ("F32", [5], [1.0, 2.5, 3.0, -4.0, 7.25])})
        self.cairn(
            "run",
            FMOD,
            "--io",
            self.path("in.safetensors"),
            "--out",
            self.path("out"),
            "--dump-intermediates",
            self.path("dump"),
        )
        files = sorted(glob.glob(self.path("dump/*")))
        self.assertRegex(os.path.basename(files[-1]), r"^\d{4}_coreai\..*_0\.npy$")
        descr, shape, data = npy(files[-1])
        self.assertEqual((descr, shape, struct.unpack("<5f", data)), ("<f4", (5,), (1.0, 0.0, 0.5, -1.5, 2.25)))
        self.cairn(
            "run",
            FMOD,
            "--io",
            self.path("in.safetensors"),
            "--out",
            self.path("out"),
            "--dump-intermediates",
            self.path("steps"),
            "--steps",
            "2",
        )
        self.assertEqual(sorted(os.listdir(self.path("steps"))), ["0", "1"])
        self.assertEqual(len(os.listdir(self.path("steps/1"))), len(files))

    def test_npy(self):
        st.save(self.path("in.safetensors"), {"x": ("I32", [2, 4], list(range(8)))})
        self.cairn("run", STATE, "--io", self.path("in.safetensors"), "--npy-dir", self.path("npy"))
        descr, shape, data = npy(self.path("npy/state.state.npy"))
        self.assertEqual((descr, shape, len(data)), ("<i4", (2, 4), 32))

    def test_npy_of_types_numpy_lacks(self):
        st.save(self.path("in.safetensors"), {"x": ("BF16", [1, 1, 4], [1.0, -2.0, 3.0, -4.0])})
        self.cairn(
            "run",
            BF16,
            "--io",
            self.path("in.safetensors"),
            "--npy-dir",
            self.path("bf16"),
            "--out",
            self.path("bf16.safetensors"),
        )
        descr, shape, data = npy(glob.glob(self.path("bf16/*.npy"))[0])
        ((dtype, _, values),) = st.load(self.path("bf16.safetensors")).values()
        self.assertEqual((descr, shape, dtype), ("<f4", (1, 1, 4), "BF16"))
        self.assertEqual(list(struct.unpack("<4f", data)), values)

    def test_composites_by_their_bodies(self):
        arrays = {"x": ("BF16", [1, 1, 4], [1.0, -2.0, 3.0, -4.0])}
        (fast,), (body,) = (self.run_model(BF16, arrays, "--composites", how).values() for how in ("fast", "body"))
        for a, b in zip(fast[2], body[2]):
            self.assertAlmostEqual(a, b, delta=0.02)
        st.save(self.path("in.safetensors"), arrays)
        traces = [
            self.cairn(
                "run",
                BF16,
                "--io",
                self.path("in.safetensors"),
                "--trace-ops",
                "-q",
                "--composites",
                how,
                "--out",
                self.path("o"),
            )[0]
            for how in ("fast", "body")
        ]
        self.assertIn("rms_norm", traces[0])
        self.assertGreater(traces[1].count("\n"), traces[0].count("\n"))


class Goldens(RunTest):
    """Every golden case of the repository through the program: names, types, and values within the case's tolerance."""

    def close(self, a, b, tolerance):
        return a == b or a != a and b != b or abs(a - b) <= tolerance["atol"] + tolerance["rtol"] * abs(b)

    def test_all(self):
        n = 0
        for manifest in sorted(glob.glob(os.path.join(cli.TESTS, GOLDEN, "*", "manifest.json"))):
            with open(manifest, encoding="utf-8") as f:
                case = json.load(f)
            folder = os.path.dirname(manifest)
            if "calls" in case and "atol" in case.get("tolerance", {}):
                with self.subTest(os.path.basename(folder)):
                    self.check(folder, case)
                    n += 1
        self.assertGreater(n, 50)

    @staticmethod
    def as_stored(array, dtype):
        """Goldens hold float4 as numbers, the program takes and gives its codes."""
        if dtype != "f4E2M1FN" or array[0] == "U8":
            return array
        sizes = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
        codes = [sizes.index(abs(v)) + (8 if v < 0 or str(v) == "-0.0" else 0) for v in array[2]]
        return ("U8", array[1], codes)

    def check(self, folder, case):
        golden = st.load(folder + "/golden.safetensors")
        for call in case["calls"]:
            for a in call["inputs"] + call["outputs"]:
                golden[a["key"]] = self.as_stored(golden[a["key"]], a.get("dtype"))
        io, wanted, own, steps = {}, {}, {}, len(case["calls"])
        for k, call in enumerate(case["calls"]):
            suffix = ".%d" % k if steps > 1 else ""
            io.update({a["name"] + suffix: golden[a["key"]] for a in call["inputs"]})
            wanted.update({a["name"] + suffix: golden[a["key"]] for a in call["outputs"]})
            own.update({a["name"] + suffix: a["tolerance"] for a in call["outputs"] if a.get("tolerance")})
        io.update({"state." + a["name"]: golden[a["key"]] for a in case["calls"][0]["states_in"]})
        wanted.update({"state." + a["name"]: golden[a["key"]] for a in case["calls"][-1]["states_out"]})
        out = self.run_model(
            folder + "/model.aimodel",
            io,
            "--function",
            case["function"],
            *(["--steps", str(steps)] if steps > 1 else [])
        )
        # Interpreter results in 16 bits are a second opinion: their roundings depend on the order of summation.
        second_opinion = "interpreter" in case["expected_source"]
        for name, (dtype, shape, values) in wanted.items():
            self.assertEqual(out[name][0], dtype, name)
            if out[name][1] or shape != [1]:
                self.assertEqual(out[name][1], shape, name)
            tolerance = dict(zip(("rtol", "atol"), own[name])) if name in own else dict(case["tolerance"])
            if dtype in ("F16", "BF16") and second_opinion:
                tolerance["atol"] = 0.01 * max(abs(v) for v in values)
            self.assertTrue(all(self.close(a, b, tolerance) for a, b in zip(out[name][2], values)), name)


class Places(RunTest):
    """Where results go is checked before anything runs."""

    X = {"x": ("F32", [5], [1.0, 2.5, 3.0, -4.0, 7.25])}

    def refused(self, *arguments):
        """Runs with --trace-ops, so that a run that began would print."""
        st.save(self.path("in.safetensors"), self.X)
        return self.fails("run", FMOD, "--io", self.path("in.safetensors"), "--trace-ops", *arguments, code=1)

    def test_missing_folder(self):
        missing = self.path("missing/out.safetensors")
        self.assertIn(
            "--out %s: the folder '%s' does not exist" % (missing, self.path("missing")), self.refused("--out", missing)
        )
        self.assertIn("that is a folder", self.refused("--out", self.temporary))
        self.assertIn("is no folder", self.refused("--out", self.path("in.safetensors") + "/x"))
        self.assertIn("is no folder", self.refused("--npy-dir", self.path("in.safetensors") + "/x"))
        self.assertIn("is no folder", self.refused("--dump-intermediates", self.path("in.safetensors")))

    def test_unwritable_folder(self):
        if os.geteuid() == 0:
            self.skipTest("everything is writable for root")
        os.mkdir(self.path("closed"), 0o500)
        self.assertIn("cannot write in", self.refused("--out", self.path("closed/out.safetensors")))
        self.assertIn("cannot write in", self.refused("--npy-dir", self.path("closed/npy")))

    def test_folders_are_made(self):
        self.run_model(FMOD, self.X, "--npy-dir", self.path("new/deep"))
        self.assertTrue(os.path.exists(self.path("new/deep/fmod.npy")))

    def test_a_name_without_a_folder(self):
        st.save(self.path("in.safetensors"), self.X)
        model = os.path.join(cli.TESTS, FMOD)
        script = 'cd "$1" && "$2" run "$3" --io in.safetensors --out plain.safetensors'
        subprocess.run(["sh", "-c", script, "sh", self.temporary, cli.PROGRAM, model], check=True)
        self.assertEqual(st.load(self.path("plain.safetensors"))["fmod"][1], [5])

    def test_out_is_the_input(self):
        st.save(self.path("in.safetensors"), self.X)
        os.symlink("in.safetensors", self.path("link.safetensors"))
        os.link(self.path("in.safetensors"), self.path("hard.safetensors"))
        for name in (
            "in.safetensors",
            "link.safetensors",
            "hard.safetensors",
            "../%s/in.safetensors" % os.path.basename(self.temporary),
        ):
            err = self.fails("run", FMOD, "--io", self.path("in.safetensors"), "--out", self.path(name), code=1)
            self.assertIn("--out " + self.path(name), err)
            self.assertIn("that is read", err)
        self.assertEqual(st.load(self.path("in.safetensors")), self.X)

    def test_out_is_inside_of_the_model(self):
        copy, io = self.path("bundle"), self.path("in.safetensors")
        shutil.copytree(os.path.join(cli.TESTS, cli.BUNDLE), copy)
        asset = copy + "/tiny-qwen3-macos-4bit.aimodel"
        os.symlink(copy, self.path("alias"))
        before = sorted(os.listdir(asset)), sorted(os.listdir(copy))
        for model, option, place in (
            (copy, "--out", copy + "/out.safetensors"),
            (copy, "--out", asset + "/main.mlirb"),
            (copy, "--out", self.path("alias/out.safetensors")),
            (self.path("alias"), "--out", copy + "/out.safetensors"),
            (asset, "--out", asset + "/out.safetensors"),
            (asset + "/main.mlirb", "--out", asset + "/main.hash"),
            (asset, "--npy-dir", asset + "/new/folder"),
            (asset, "--dump-intermediates", asset),
        ):
            err = self.fails("run", model, "--io", io, option, place, code=1)
            self.assertIn("%s %s: that is inside of" % (option, place), err)
        self.assertEqual(before, (sorted(os.listdir(asset)), sorted(os.listdir(copy))))
        # Beside the model is fine, also when the names start alike.
        ids = {"input_ids": ("I32", [1, 1], [7]), "position_ids": ("I32", [1, 1], [0])}
        st.save(io, ids)
        self.cairn("run", asset, "--io", io, "--out", asset + ".out.safetensors", *SHAPES)


if __name__ == "__main__":
    cli.main()
