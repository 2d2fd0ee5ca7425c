"""Makes an installed ``coreai-core`` use cairn as its runtime.

As a pytest plugin, so that a test suite written for Core AI runs on cairn unchanged::

    pytest -p cairn.coreai_plugin

or in a program, before anything of ``coreai`` is imported::

    import cairn.coreai_plugin
    cairn.coreai_plugin.install()

``coreai.runtime`` (AIModel, NDArray, …) then runs models with cairn, and ``AIModelAsset.executable()`` gives a model that
cairn loaded straight from the asset. The compiled part of Apple's runtime is never loaded.
"""

from __future__ import annotations

import importlib
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from cairn._coreai_native import make_module

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

# Under the first name coreai.runtime looks for a compiled part that was loaded already.
_ALIAS = "odie_runner.coreai_runtime._coreai_runtime"
_NAME = "coreai.runtime._coreai_runtime"


def _is_installed() -> bool:
    return getattr(sys.modules.get(_NAME), "_is_cairn", False)


def install() -> None:
    """Puts cairn in the place of Core AI's runtime. Nothing happens the second time."""
    if _is_installed():
        return
    if "coreai.runtime" in sys.modules:
        message = "coreai.runtime was imported already: install cairn's plugin before it"
        raise RuntimeError(message)
    native = make_module(_NAME)
    native._is_cairn = True  # type: ignore[attr-defined]
    for suffix in ("", "_os"):
        sys.modules[_ALIAS + suffix] = native
        sys.modules[_NAME + suffix] = native
    runtime = importlib.import_module("coreai.runtime")
    runtime.NDArray.numpy = _numpy
    asset = importlib.import_module("coreai.authoring.asset")
    asset.AIModelAsset.executable = _executable


def _numpy(self: Any) -> Any:
    """The elements as numpy sees them. Sub-byte values take a byte each in cairn's arrays, nothing is unpacked."""
    return self._tensor.numpy()


@asynccontextmanager
async def _executable(self: Any, specialization_options: Any = None) -> AsyncGenerator[Any, None]:
    """The asset as a model, without lowering it to Apple's executable form first."""
    model_type = importlib.import_module("coreai.runtime").AIModel
    yield await model_type.load(path=self.path, specialization_options=specialization_options)


def pytest_configure(config: Any) -> None:
    """Called by pytest when the plugin is loaded with ``-p``."""
    del config
    install()


def pytest_report_header(config: Any) -> str:
    """Says in the header of the report what runs the models."""
    del config
    from cairn import version

    return f"Core AI runtime: cairn {version()}"


if "pytest" in sys.modules:
    # `-p` loads plugins before conftest files, which may import coreai at once.
    install()
