/// Models of known shapes with random weights: speed and memory of a model that is not at hand. The name of one is
/// "synthetic:SHAPE[:TYPE]" and stands where the path of a model stands.
///
/// The weights become a GGUF file in memory, which then takes the way of every GGUF file; the same bytes can be written for other
/// programs. The same name gives the same bytes everywhere.
#ifndef CRN_IMPORT_SYNTHETIC_SYNTHETIC_H
#define CRN_IMPORT_SYNTHETIC_SYNTHETIC_H

#include "base/pool.h"
#include "base/region.h"
#include "import/imported.h"

#define CRN_SYNTHETIC_PREFIX "synthetic:"
/// The names there are, for help texts.
#define CRN_SYNTHETIC_SHAPES "qwen3-0.6b, llama-3.2-1b, qwen3-4b, smollm2-135m, moe-32x4, tiny, tiny-moe"
#define CRN_SYNTHETIC_TYPES "q4, q8, f16"

bool crn_synthetic_is(const char *path);

/// Makes the bytes of the GGUF file in `region`, whose owner the caller is, also after a failure.
/// Errors: NOT_FOUND (a shape or type that there is not; names those that there are), OUT_OF_MEMORY.
cairn_status crn_synthetic_make(const cairn_allocator *allocator, crn_pool *pool, const char *path, crn_memory_region *region,
                                const void **out_data, size_t *out_bytes);

cairn_status crn_synthetic_import(cairn_context *context, const char *path, crn_imported_model *out_model);

#endif
