"""cairn: runs Core AI assets, with the names of Apple's ``coreai.runtime``, and language models.

>>> import asyncio, numpy, cairn
>>> async def main():
...     model = await cairn.AIModel.load("model.aimodel")
...     function = model.load_function("main")
...     outputs = await function(inputs={"x": cairn.NDArray(numpy.ones((1, 4), numpy.float32))})
...     print(outputs["y"].numpy())
>>> asyncio.run(main())
"""

from cairn._asset import AIModelAsset, AIModelAssetMetadata, AIModelAssetSummary
from cairn._batch import Batch, BatchMember, BatchStep
from cairn._errors import (
    AlreadyExistsError,
    BusyError,
    CancelledError,
    ContextFullError,
    CorruptError,
    Error,
    FailedPreconditionError,
    IncompatibleError,
    InternalError,
    InvalidArgumentError,
    IoError,
    NotFoundError,
    OutOfMemoryError,
    OutOfRangeError,
    Status,
    UnsupportedError,
)
from cairn._generation import Generation, Token, check_guide
from cairn._llm import LLM, ChatTemplate, LLMLoader, Tokenizer, TokenStream
from cairn._native import find_model, has_guides, set_threads, start_trace, stop_trace, threads, version
from cairn._ndarray import NDArray, StorageKind
from cairn._observe import CompileIdentifiers, IntermediateLogger, LogEvent, Profiler, trace
from cairn._runtime import (
    HAS_IMAGE_SUPPORT,
    AIModel,
    ComputeUnitKind,
    ImageDescriptor,
    InferenceFunction,
    InferenceFunctionDescriptor,
    NDArrayDescriptor,
    SpecializationOptions,
)

__version__ = version()

__all__ = [
    "HAS_IMAGE_SUPPORT",
    "LLM",
    "AIModel",
    "AIModelAsset",
    "AIModelAssetMetadata",
    "AIModelAssetSummary",
    "AlreadyExistsError",
    "Batch",
    "BatchMember",
    "BatchStep",
    "BusyError",
    "CancelledError",
    "ChatTemplate",
    "CompileIdentifiers",
    "ComputeUnitKind",
    "ContextFullError",
    "CorruptError",
    "Error",
    "FailedPreconditionError",
    "Generation",
    "ImageDescriptor",
    "IncompatibleError",
    "InferenceFunction",
    "InferenceFunctionDescriptor",
    "IntermediateLogger",
    "InternalError",
    "InvalidArgumentError",
    "IoError",
    "LLMLoader",
    "LogEvent",
    "NDArray",
    "NDArrayDescriptor",
    "NotFoundError",
    "OutOfMemoryError",
    "OutOfRangeError",
    "Profiler",
    "SpecializationOptions",
    "Status",
    "StorageKind",
    "Token",
    "TokenStream",
    "Tokenizer",
    "UnsupportedError",
    "__version__",
    "check_guide",
    "find_model",
    "has_guides",
    "set_threads",
    "start_trace",
    "stop_trace",
    "threads",
    "trace",
    "version",
]
