"""Where the test data is."""

import os
import unittest
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[3]
TEST_DATA = Path(os.environ.get("CAIRN_TEST_DATA", _ROOT / "tests" / "data"))
SHARED_DATA = Path(os.environ.get("CAIRN_SHARED_DATA", _ROOT.parent / "shared"))

STATEFUL = TEST_DATA / "execute" / "stateful.aimodel"  # x[4], state[4] -> doubled, plus_one; state += x
INTERFACES = TEST_DATA / "assets" / "interfaces.aimodel"
GGUF = TEST_DATA / "gguf" / "f32.gguf"
FORMS = TEST_DATA / "llm-forms"
HYBRID = FORMS / "lm_hybrid"  # a cache and a running summary
DYNAMIC = FORMS / "lm_dynamic"
TINY_LLM = SHARED_DATA / "models" / "tiny-qwen3-macos"
SMOLLM2 = SHARED_DATA / "models" / "smollm2-4bit-macos"
TINY_VLM = SHARED_DATA / "models" / "tiny-qwen3_vl-vlm"

needs_shared = unittest.skipUnless(TINY_LLM.is_dir(), "there is no shared data")


def resident_bytes():
    """Memory of the process that is in use."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
