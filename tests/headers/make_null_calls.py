#!/usr/bin/env python3
"""Writes calls of every function of the public headers with NULL for each pointer argument in turn: make_null_calls.py OUT HEADER...

The list of functions comes from the headers alone. A function that takes a type for which VALUES (or BY_NAME, or OF) has no valid value
stops the build, and so does an entry of these tables that no function uses, so that they cannot fall behind. What a call of null_test.c
is expected to give follows from the declaration: INVALID_ARGUMENT where a status is given, else nothing (0, false, NULL, an empty text).
Exceptions are in ALLOWED and NOTHING, where the headers document them.
"""
import re
import sys

# A valid value by the type of an argument; `f` is the fixture of null_test.c.
HANDLES = {
    "cairn_context": "context", "cairn_asset": "asset", "cairn_bundle": "bundle", "cairn_model": "model", "cairn_function": "function",
    "cairn_outputs": "outputs", "cairn_state": "state", "cairn_ndarray": "array", "cairn_value": "value", "cairn_stream": "stream",
    "cairn_llm": "llm", "cairn_llm_batch": "batch", "cairn_generation": "generation", "cairn_llm_loader": "loader",
    "cairn_tokenizer": "tokenizer", "cairn_detokenizer": "detokenizer", "cairn_template": "template_", "cairn_template_set": "templates",
    "cairn_dialogue": "dialogue", "cairn_grammar": "grammar", "cairn_grammar_compiler": "compiler", "cairn_matcher": "matcher"}
STRUCTS = [
    "asset_options", "print_options", "llm_batch_options", "generate_options", "llm_batch_step_info", "bundle_language", "bundle_vision",
    "context_options", "dialogue_options", "dialogue_result", "grammar_source", "llm_options", "llm_info", "llm_images",
    "generation_info", "forward_options", "model_options", "function_options", "run_args", "function_stats", "descriptor",
    "ndarray_wrap_options", "segments", "ndarray_window", "segment_counts", "llm_loader_counts", "stream_options", "encode_args",
    "call_args", "template_limits"]
VALUES = {"cairn_" + s + " *": "&f." + s for s in STRUCTS}
VALUES.update({name + " *": "f." + field for name, field in HANDLES.items()})
VALUES.update({
    "int *": "&f.integer", "int64_t *": "&f.count", "uint64_t *": "&f.bytes", "size_t *": "&f.size", "bool *": "&f.truth",
    "int32_t *": "f.ids", "uint32_t *": "f.words", "char *": "f.text", "const char *": '"a"', "void *": "f.data",
    "const char **": "&f.borrowed", "cairn_status *": "&f.status", "cairn_dialogue_format *": "&f.format",
    "const cairn_template **": "&f.borrowed_template", "cairn_value_completed_fn": "on_completed",
    "int": "1", "int32_t": "1", "int64_t": "1", "size_t": "1", "bool": "false", "cairn_dtype": "CAIRN_F32"})
# By the name of an argument, where its type is not enough.
BY_NAME = {
    "i": "0", "index": "0", "position": "0", "capacity": "sizeof f.text / 8", "rows": "64", "first": "0", "end": "64", "n": "0",
    "n_words": "f.n_words",
    "max_in_flight": "0", "n_tokens": "0", "vocab_size": "0", "path": "f.path", "folder": "f.folder", "write": "write_text",
    "out_strides": "f.strides", "shape": "f.shape", "search": '""'}
# By function and argument.
OF = {
    ("cairn_asset_open", "path"): "f.asset_path", ("cairn_model_load", "path"): "f.asset_path",
    ("cairn_llm_open", "path"): "f.bundle_path", ("cairn_bundle_open", "path"): "f.bundle_path",
    ("cairn_llm_loader_open", "path"): "f.bundle_path", ("cairn_tokenizer_open", "path"): "f.tokenizer_path",
    ("cairn_template_set_open", "folder"): "f.tokenizer_path", ("cairn_asset_count_operations", "visit"): "visit_operation",
    ("cairn_asset_visit_weights", "visit"): "visit_weight", ("cairn_model_function", "name"): '"main"', ("cairn_model_function_with", "name"): '"main"',
    ("cairn_bundle_asset_path", "role"): '"main"', ("cairn_dialogue_format_parse", "text"): '"hermes"',
    ("cairn_ndarray_slice", "end"): "NULL", ("cairn_ndarray_reslice", "end"): "NULL", ("cairn_ndarray_slice", "start"): "f.start",
    ("cairn_ndarray_reslice", "start"): "f.start", ("cairn_ndarray_read", "bytes"): "16", ("cairn_model_find", "name"): "f.folder",
    ("cairn_ndarray_write", "bytes"): "16", ("cairn_ndarray_copy", "target"): "f.other",
    ("cairn_ndarray_share_rows", "source"): "f.segmented", ("cairn_ndarray_share_rows", "target"): "f.segmented",
    ("cairn_ndarray_set_window", "array"): "f.segmented", ("cairn_ndarray_create_segmented", "shape"): "f.rows",
    ("cairn_template_render", "variables_json"): '"{}"', ("cairn_template_render", "variables_bytes"): "2",
    ("cairn_template_set_pick", "name"): "NULL", ("cairn_template_set_render", "conversation_json"): '"[]"',
    ("cairn_template_set_render", "conversation_bytes"): "2", ("cairn_template_set_render", "tokens_json"): '"{}"',
    ("cairn_llm_render", "conversation_json"): '"[]"', ("cairn_llm_render", "bytes"): "2",
    ("cairn_tokenizer_create_from_json", "json"): '"{}"', ("cairn_tokenizer_create_from_json", "json_bytes"): "2",
    ("cairn_function_run", "out_outputs"): "OUT", ("cairn_state_create", "shapes"): "&f.state_shape",
    ("cairn_state_create", "n_shapes"): "1", ("cairn_llm_save", "path"): "f.path", ("cairn_function_run_batch", "n"): "1",
    ("cairn_llm_save_with_note", "path"): "f.path", ("cairn_llm_save_with_note", "note_bytes"): "16",
    ("cairn_tokenizer_encode_offsets", "out_spans"): "f.spans", ("cairn_cache_clear", "out_bytes"): "&f.bytes",
}
# NULL that a header allows, by function and argument: the call must succeed. "*" stands for every argument of that name.
ALLOWED = {
    ("cairn_asset_open", "options"), ("cairn_asset_print", "options"), ("cairn_llm_batch_create", "options"),
    ("cairn_context_create", "options"), ("cairn_dialogue_create", "options"), ("cairn_llm_open", "options"),
    ("cairn_model_load", "options"), ("cairn_model_create", "options"), ("cairn_model_function_with", "options"),
    ("cairn_llm_loader_open", "options"),
    ("cairn_stream_create", "options"), ("cairn_template_render", "limits"), ("cairn_template_set_render", "limits"),
    ("cairn_template_set_render", "tokens_json"), ("cairn_template_set_pick", "name"), ("cairn_template_set_pick", "out_template"),
    ("cairn_template_set_pick", "out_source"), ("cairn_template_set_pick", "out_source_bytes"), ("cairn_matcher_mask", "out_n_allowed"),
    ("cairn_llm_batch_step", "out_info"), ("cairn_template_create", "what"), ("cairn_template_set_create", "what"),
    ("cairn_function_run_batch", "out_statuses"), ("cairn_function_run_batch", "out_outputs"), ("cairn_function_run", "out_outputs"),
    ("cairn_stream_encode", "out_values"), ("cairn_stream_encode_call", "out_values"), ("cairn_ndarray_slice", "start"),
    ("cairn_ndarray_slice", "end"), ("cairn_ndarray_reslice", "start"), ("cairn_ndarray_reslice", "end"),
    ("cairn_descriptor_resolve", "shape"), ("cairn_descriptor_resolve", "out_strides"), ("cairn_descriptor_resolve", "out_bytes"),
    ("cairn_model_find", "search"), ("cairn_model_find", "out_bytes"), ("cairn_bundle_asset_path", "out_bytes"),
    ("cairn_ndarray_create_from_descriptor", "shape"), ("cairn_tokenizer_encode_pair", "pair"),
    ("cairn_tokenizer_encode_offsets", "pair"), ("cairn_tokenizer_encode_pair", "out_type_ids"),
}
# NULL that a header allows, where the valid values above are refused for another reason: anything but INVALID_ARGUMENT.
TAKEN = {("cairn_tokenizer_create_from_json", "what"), ("cairn_tokenizer_create_from_sentencepiece", "what")}
# What calls that give no status give instead of nothing: the value for "there is none" that the header names, or a result that does
# not need the argument (None).
NOTHING = {
    ("cairn_tokenizer_id", "*"): "-1", ("cairn_token_spans_find", "*"): "SIZE_MAX", ("cairn_dialogue_detect", "*"): None,
    ("cairn_asset_is_compiled", "out_architecture"): None, ("cairn_asset_is_compiled", "out_precision"): None,
    ("cairn_grammar_compiler_bytes", "out_n"): None, ("cairn_llm_stop_ids", "out_n"): None, ("cairn_llm_history", "out_n"): None,
    ("cairn_dialogue_markers", "out_n"): None, ("cairn_state_arrays", "out_n"): None, ("cairn_value_is_done", "*"): None,
    ("cairn_last_error_text", "*"): None, ("cairn_bundle_function", "role"): None,
}
TABLES = {"OF": OF, "BY_NAME": BY_NAME, "VALUES": VALUES, "ALLOWED": ALLOWED, "TAKEN": TAKEN, "NOTHING": NOTHING}


def declarations(paths):
    for path in paths:
        with open(path, encoding="utf-8") as file:
            text = re.sub(r"//[^\n]*", "", file.read())
        for match in re.finditer(r"^CAIRN_API\s+([^;]*);", text, re.M):
            yield read_declaration(" ".join(match.group(1).split()))


def read_declaration(text):
    """(result, name, [(type, name of the argument)]); a type is without const, but for `const char` and pointers to pointers."""
    head, _, rest = text.partition("(")
    name = re.search(r"\w+$", head).group()
    parts = re.split(r",\s*(?![^()]*\))", rest[:rest.rindex(")")])
    return head[:-len(name)].strip(), name, [read_argument(p) for p in parts if p != "void"]


def read_argument(text):
    function = re.search(r"\(\*(\w+)\)", text)
    if function:
        return "function", function.group(1)
    name = re.search(r"\w+$", text).group()
    kind = text[:-len(name)].strip().replace("*", " *").replace("* *", "**").replace("  ", " ")
    if not kind.startswith("const char *") and not kind.endswith("**"):
        kind = kind.replace("const ", "")
    return kind, name


def is_pointer(argument):
    kind, name = argument
    return (kind in ("function", "cairn_value_completed_fn") or "*" in kind) and name != "user"


class Writer:
    def __init__(self, functions):
        self.functions = functions
        self.used = set()
        self.enders = {a[0][0]: name for result, name, a in functions
                       if re.search(r"_(release|destroy|close)$", name) and len(a) == 1 and result == "void"}
        self.calls, self.rows = [], []

    def value(self, function, argument):
        kind, name = argument
        if name == "user":
            return "&f"
        tables = (("OF", OF, (function, name)), ("BY_NAME", BY_NAME, name), ("VALUES", VALUES, kind))
        if kind.endswith("**") and not kind.startswith("const"):
            tables = tables[:1]
        for table, values, key in tables:
            if key in values and not (table == "BY_NAME" and kind != "const char *" and kind != "function" and "*" in kind and
                                      name not in ("out_strides", "shape")):
                self.used.add((table, key))
                return values[key]
        if kind.endswith("**"):
            return "OUT"
        sys.exit(f"make_null_calls.py: {function} takes '{kind} {name}', for which VALUES, BY_NAME and OF have no valid value")

    def exception(self, table, function, argument):
        for key in ((function, argument), (function, "*")):
            if key in table:
                self.used.add((next(n for n, t in TABLES.items() if t is table), key))
                return key
        return None

    def write(self, result, function, arguments, i):
        number, name = len(self.calls), arguments[i][1]
        values, outs, body = [], [], []
        for k, argument in enumerate(arguments):
            value = "NULL" if k == i else self.value(function, argument)
            if value == "OUT":
                out = f"o{k}"
                body.append(f"  {argument[0][:-1]}{out}[4] = {{NULL}};")
                outs.append((out, argument[0][:-1].strip()))
                value = out
            values.append(value)
        call = f"{function}({', '.join(values)})"
        allowed = self.exception(ALLOWED, function, name)
        if result == "cairn_status" and self.exception(TAKEN, function, name):
            body.append(f"  bool is_right = is_nothing({call} != CAIRN_INVALID_ARGUMENT);")
        elif result == "cairn_status":
            body.append(f"  bool is_right = is_expected({call}, {'CAIRN_OK' if allowed else 'CAIRN_INVALID_ARGUMENT'});")
        elif result == "void":
            body.append(f"  {call};\n  bool is_right = true;")
        else:
            key = self.exception(NOTHING, function, name)
            body.append("  bool is_right = " + self.nothing(result, call, NOTHING[key] if key else "") + ";")
        for out, kind in outs:
            if not allowed and kind in self.enders:
                body.append(f"  if ({out}[0]) is_right = not_cleared();")
            if kind in self.enders:
                body.append(f"  for (int i = 0; i < 4; i++) {self.enders[kind]}({out}[i]);")
        lines = "\n".join(body)
        self.calls.append(f"static bool call_{number}(void) {{\n{lines}\n  return is_right;\n}}\n")
        self.rows.append(f'  {{"{function}", "{name}", call_{number}}},')

    @staticmethod
    def nothing(result, call, expected):
        if expected is None:
            return f"is_anything({call} == 0)"
        if expected:
            return f"is_nothing({call} == {expected})"
        if result == "const char *":
            return f"is_no_text({call})"
        return f"is_nothing(!{call})"

    def check_tables(self):
        for name, table in TABLES.items():
            unused = [key for key in table if (name, key) not in self.used]
            if unused:
                sys.exit(f"make_null_calls.py: nothing uses {name} of {unused}")


def main():
    out, headers = sys.argv[1], sys.argv[2:]
    functions = list(declarations(headers))
    writer = Writer(functions)
    for result, function, arguments in functions:
        for i, argument in enumerate(arguments):
            if is_pointer(argument):
                writer.write(result, function, arguments, i)
    writer.check_tables()
    with open(out, "w", encoding="utf-8") as file:
        file.write("// Made by make_null_calls.py from the public headers.\n" + "\n".join(writer.calls))
        file.write("\nstatic const null_call kCalls[] = {\n" + "\n".join(writer.rows) + "\n};\n")
        file.write(f"enum {{ N_FUNCTIONS = {len(functions)} }};\n")


main()
