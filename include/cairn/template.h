/// Chat templates: Jinja as Hugging Face Transformers configures it (trim_blocks, lstrip_blocks, break and continue,
/// `raise_exception`, `strftime_now`, `tojson`, generation tags).
///
/// Templates come from files nobody checked, so rendering is bounded: steps, output bytes and nesting have limits, and
/// nothing outside of the given variables can be reached.
#ifndef CAIRN_TEMPLATE_H
#define CAIRN_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cairn/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/// A compiled template. Owner: shared and counted. Thread: safe (immutable after creation).
typedef struct cairn_template cairn_template;

typedef struct cairn_template_limits {
  uint64_t max_steps;       ///< evaluated nodes, default 20 million
  size_t max_output_bytes;  ///< default 64 MiB
  int max_depth;            ///< nesting of expressions, blocks and macro calls, default 200
} cairn_template_limits;

/// Compiles `source`. `what` names it in messages. Errors: CORRUPT with the line, UNSUPPORTED, OUT_OF_MEMORY.
CAIRN_API cairn_status cairn_template_create(cairn_context *context, const char *source, size_t source_bytes, const char *what,
                                             cairn_template **out_template);
CAIRN_API void cairn_template_retain(cairn_template *t);
CAIRN_API void cairn_template_release(cairn_template *t);

/// Renders with the variables of a JSON object (`messages`, `tools`, `add_generation_prompt`, `bos_token`, …).
/// `limits` NULL = defaults. The clock of `strftime_now` is local time.
/// Writes up to `capacity` bytes (no NUL) and stores the full size in `*out_bytes`; a full size above the capacity
/// means the buffer was too small (not an error).
/// Errors: INVALID_ARGUMENT (variables are no JSON object; the template called raise_exception, with its text in the
/// record), FAILED_PRECONDITION (an operation the values do not allow, with the line), OUT_OF_RANGE (a limit).
CAIRN_API cairn_status cairn_template_render(const cairn_template *t, const char *variables_json, size_t variables_bytes,
                                             const cairn_template_limits *limits, char *out_text, size_t capacity, size_t *out_bytes);

#ifdef __cplusplus
}
#endif
#endif
