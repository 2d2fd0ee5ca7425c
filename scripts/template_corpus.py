#!/usr/bin/env python3
"""Compares cairn's rendering of real models' chat templates with jinja2, set up as Hugging Face Transformers sets it up.

    template_corpus.py --program CAIRN [--cache FOLDER] [--only PART] [--verbose]

The templates are those of vendor/llama.cpp/models/templates in the source distribution of `llama-cpp-python`, which pip fetches once into
the cache folder. Each is rendered with every conversation below: the texts must be equal, or both sides must refuse. Needs jinja2.
"""
import argparse
import copy
import glob
import json
import os
import subprocess
import sys
import tarfile

from template_oracle import ENV

PACKAGE = "llama-cpp-python"
FOLDER = "/vendor/llama.cpp/models/templates/"
TAG = "CONTINUE_FINAL_MESSAGE_TAG "


# --- conversations ------------------------------------------------------------------------------------------------------


def system(text):
    return {"role": "system", "content": text}


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def tool_result(name, call_id, text):
    return {"role": "tool", "name": name, "tool_call_id": call_id, "content": text}


def call(name, arguments, call_id="abcdef123"):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def tool(name, properties, required):
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": f"Does {name}, “quickly”", "parameters": parameters}}


TOOLS = [
    tool(
        "get_weather",
        {
            "city": {"type": "string", "description": "The city, e.g. Zürich & <others>"},
            "unit": {"type": "string", "enum": ["c", "f"], "default": "c"},
            "days": {"type": "integer", "default": 3},
            "options": {"type": "object", "properties": {"deep": {"type": "array", "items": {"type": "number"}}, "n": {"type": ["string", "null"]}}},
        },
        ["city"],
    ),
    tool("now", {}, []),
    tool("search", {"q": {"type": "string"}, "k": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}, ["q", "k"]),
]

IMAGES = [
    {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": "x"}}]},
    {"role": "assistant", "content": [{"type": "text", "text": "A cat."}]},
    {"role": "user", "content": [{"type": "text", "text": "Sure?"}]},
]
TURNS = [user("Hello"), assistant("Hi! How can I help?"), user(" 2+2? "), assistant("4\n"), user("Thanks")]
TOOL_TURNS = [
    user("Weather in Zürich?"),
    assistant("Let me look.", tool_calls=[call("get_weather", {"city": "Zürich", "days": 2, "options": {"deep": [1.5, 2], "n": None}})]),
    tool_result("get_weather", "abcdef123", '{"t": 20}'),
    assistant("20 degrees."),
    user("And the time?"),
]
TOOL_TEXT_TURNS = [
    user("Both?"),
    assistant(None, tool_calls=[call("get_weather", '{"city": "A"}', "aaaaaaaa1"), call("now", "{}", "bbbbbbbb2")]),
    tool_result("get_weather", "aaaaaaaa1", "cold"),
    tool_result("now", "bbbbbbbb2", "12:00"),
]
THOUGHTS = [
    user("1+1"),
    assistant("<think>\nhm\n</think>\n\n2", reasoning_content="hm"),
    user("2+2"),
    assistant("4", reasoning_content="easy", reasoning="easy", thinking="easy"),
    user("3+3"),
]
UNICODE = [
    system("日本語のシステム 👩‍👩‍👧"),
    user("ÄÖÜ ß ﬁ İ \u00a0\u2028x \"quoted\" 'single' \\ back"),
    assistant("Ελλάς 🎉 \t tab"),
    user("привет\r\nмир"),
]

# name -> variables
CONVERSATIONS = {
    "empty": {"messages": [], "add_generation_prompt": True},
    "user": {"messages": [user("Hi")], "add_generation_prompt": True},
    "user without a prompt": {"messages": [user("Hi")], "add_generation_prompt": False},
    "system": {"messages": [system("  Be <b>terse</b> & \"kind\".\n"), user("Hello\nworld")], "add_generation_prompt": True},
    "turns": {"messages": TURNS, "add_generation_prompt": True},
    "turns without a prompt": {"messages": [system("S"), *TURNS], "add_generation_prompt": False},
    "ends with the assistant": {"messages": TURNS[:4], "add_generation_prompt": False},
    "tools": {"messages": [system("S"), user("Weather?")], "tools": TOOLS, "add_generation_prompt": True},
    "tool results": {"messages": TOOL_TURNS, "tools": TOOLS, "add_generation_prompt": True},
    "tool results, arguments as text": {"messages": TOOL_TEXT_TURNS, "tools": TOOLS, "add_generation_prompt": True},
    "images": {"messages": IMAGES, "add_generation_prompt": True},
    "reasoning": {"messages": THOUGHTS, "add_generation_prompt": True},
    "reasoning off": {"messages": THOUGHTS, "add_generation_prompt": True, "enable_thinking": False, "thinking": False, "reasoning_effort": "low"},
    "unicode": {"messages": UNICODE, "add_generation_prompt": True},
    "empty texts": {"messages": [user(""), assistant(""), user("q")], "add_generation_prompt": True},
    "wrong order": {"messages": [assistant("x"), assistant("y"), {"role": "strange", "content": "z"}], "add_generation_prompt": True},
    "developer": {"messages": [{"role": "developer", "content": "D"}, user("q")], "tools": TOOLS, "add_generation_prompt": True},
    "documents": {"messages": [user("q")], "documents": [{"title": "T", "text": "some text"}], "add_generation_prompt": True},
    "continue": {"messages": [user("Count"), assistant("one, two")], "continue_final_message": True},
    "continue with spaces": {"messages": [system("S"), user("Count"), assistant(" one, two  ")], "continue_final_message": True},
    "continue parts": {"messages": [user("q"), {"role": "assistant", "content": [{"type": "text", "text": "It is"}]}], "continue_final_message": True},
    "continue thoughts": {"messages": [user("q"), assistant("", reasoning_content="Let me")], "continue_final_message": "reasoning_content"},
    "continue and prompt": {"messages": [user("q"), assistant("a")], "continue_final_message": True, "add_generation_prompt": True},
    "continue nothing": {"messages": [user("q"), assistant(None)], "continue_final_message": True},
}


# --- the reference ------------------------------------------------------------------------------------------------------


def tag_last(messages, field, source):
    """Marks the end of what is continued, and gives its text."""
    last = messages[-1]
    text = last.get(field)
    if text is None or field not in source:
        raise ValueError("nothing to continue")
    if isinstance(text, list):
        part = next(p for p in reversed(text) if "text" in p)
        text = part["text"]
        part["text"] += TAG
    else:
        last[field] = text + TAG
    return text


def cut(rendered, text):
    """The rendering up to the end of what is continued."""
    if text.strip() not in rendered or TAG.strip() not in rendered:
        raise ValueError("what is continued is not there")
    at = rendered.rindex(TAG.strip())
    return rendered[:at] if rendered[at:].startswith(TAG) else rendered[:at].rstrip()


def by_jinja(template, source, variables):
    variables = copy.deepcopy(variables)
    field = variables.pop("continue_final_message", False)
    try:
        text = None
        if field:
            if variables.get("add_generation_prompt"):
                raise ValueError("both")
            text = tag_last(variables["messages"], field if isinstance(field, str) else "content", source)
        rendered = template.render(**{"tools": None, "documents": None, "add_generation_prompt": False, **variables})
        return "text", cut(rendered, text) if field else rendered
    except Exception as e:  # pylint: disable=broad-except
        return "error", f"{type(e).__name__}: {e}"


def by_program(program, path, variables):
    done = subprocess.run([program, "template", path, "--input", "-"], input=json.dumps(variables).encode(), capture_output=True, timeout=120, check=False)
    if done.returncode not in (0, 1):
        return "crash", f"{done.returncode}: {done.stderr.decode(errors='replace')}"
    return ("text", done.stdout.decode()) if done.returncode == 0 else ("error", done.stderr.decode(errors="replace").strip())


# --- the package --------------------------------------------------------------------------------------------------------


def fetch(cache):
    found = sorted(glob.glob(os.path.join(cache, "llama_cpp_python-*.tar.gz")))
    if not found:
        os.makedirs(cache, exist_ok=True)
        subprocess.run([sys.executable, "-m", "pip", "-q", "download", "--no-deps", "--no-binary", PACKAGE, "-d", cache, PACKAGE], check=True)
        found = sorted(glob.glob(os.path.join(cache, "llama_cpp_python-*.tar.gz")))
    return found[-1]


def unpack(archive, cache):
    """Puts the templates into a folder of the cache and gives their paths."""
    folder = os.path.join(cache, os.path.basename(archive)[: -len(".tar.gz")] + "-templates")
    if not os.path.isdir(folder):
        os.makedirs(folder)
        with tarfile.open(archive) as tar:
            for member in tar:
                if FOLDER in member.name and member.name.endswith(".jinja") and member.isfile():
                    with open(os.path.join(folder, os.path.basename(member.name)), "wb") as f:
                        f.write(tar.extractfile(member).read())
    return sorted(glob.glob(os.path.join(folder, "*.jinja")))


def show(name, conversation, wanted, got):
    print(f"{name}: {conversation}")
    if wanted[0] == got[0] == "text":
        a, b = wanted[1], got[1]
        at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
        wanted, got = a[max(0, at - 60) : at + 80], b[max(0, at - 60) : at + 80]
    print(f"  jinja2: {wanted!r}\n  cairn:  {got!r}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = os.path.join(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "cairn", "packages")
    parser.add_argument("--program", required=True)
    parser.add_argument("--cache", default=default)
    parser.add_argument("--only", default="", help="part of a template's name")
    parser.add_argument("--verbose", action="store_true", help="show the messages where both sides refuse")
    args = parser.parse_args()
    archive = fetch(args.cache)
    counts = {"text": 0, "error": 0, "different": 0}
    paths = [p for p in unpack(archive, args.cache) if args.only in os.path.basename(p)]
    tokens = {"bos_token": "<s>", "eos_token": "</s>"}
    for path in paths:
        with open(path, encoding="utf-8", newline="") as f:
            source = f.read()
        template = ENV.from_string(source)
        for conversation, variables in CONVERSATIONS.items():
            variables = {**tokens, **variables}
            wanted, got = by_jinja(template, source, variables), by_program(args.program, path, variables)
            same = wanted[0] == got[0] and (wanted[0] == "error" or wanted[1] == got[1])
            counts[wanted[0] if same else "different"] += 1
            if not same or (args.verbose and wanted[0] == "error"):
                show(os.path.basename(path), conversation, wanted, got)
    print(
        f"{os.path.basename(archive)}: {len(paths)} templates, {len(CONVERSATIONS)} conversations each: {counts['text']} equal texts, "
        f"{counts['error']} refused by both, {counts['different']} different"
    )
    return 1 if counts["different"] or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
