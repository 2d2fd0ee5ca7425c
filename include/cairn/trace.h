/// Traces: what a context does and how long it takes, as a file that Chrome (about:tracing) and Perfetto show.
///
/// Categories: specialization, load, setup (before each run), inference (runs), stream (queued work), engine (prompts,
/// decode steps). While no trace is made, a place that could record one costs a load and a branch.
#ifndef CAIRN_TRACE_H
#define CAIRN_TRACE_H

#include "cairn/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Starts recording. Errors: ALREADY_EXISTS when a trace is being made, OUT_OF_MEMORY.
CAIRN_API cairn_status cairn_trace_start(cairn_context *context);
/// Stops recording and writes the file (JSON, under a temporary name first). A context that is released while it records
/// writes nothing. Errors: FAILED_PRECONDITION when no trace is being made, NOT_FOUND (the
/// folder), IO, OUT_OF_MEMORY; the records are gone then, too.
CAIRN_API cairn_status cairn_trace_stop(cairn_context *context, const char *path);

#ifdef __cplusplus
}
#endif
#endif
