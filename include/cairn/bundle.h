/// Model bundles: a folder with `metadata.json` (version "0.2"), one or more assets and a tokenizer.
///
/// A bundle comes from a download, so every field is checked and no path may lead out of the folder.
#ifndef CAIRN_BUNDLE_H
#define CAIRN_BUNDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cairn/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/// X(NAME, value, "text"): the kinds of bundles. Values are ABI.
#define CAIRN_BUNDLE_KIND_LIST(X) \
  X(LLM, 1, "llm")                \
  X(VLM, 2, "vlm")                \
  X(DIFFUSION, 3, "diffusion")    \
  X(SEGMENTER, 4, "segmenter")    \
  X(SPEECH_RECOGNIZER, 5, "speech_recognizer")

typedef enum cairn_bundle_kind {
#define CAIRN_BUNDLE_KIND_ENUM(name, value, text) CAIRN_BUNDLE_##name = value,
  CAIRN_BUNDLE_KIND_LIST(CAIRN_BUNDLE_KIND_ENUM)
#undef CAIRN_BUNDLE_KIND_ENUM
} cairn_bundle_kind;

/// Owner: shared and counted. Thread: safe (immutable after opening).
typedef struct cairn_bundle cairn_bundle;

/// Opens the bundle folder `path` ("~" at its start is the home folder) and checks the fields every kind has. The blocks
/// of a kind (`language`, `vision`) are checked when they are asked for.
/// Errors: NOT_FOUND (no metadata.json), CORRUPT (malformed, or a required field is missing), INCOMPATIBLE (another
/// metadata_version), INVALID_ARGUMENT (the path is an asset, not a bundle), OUT_OF_MEMORY.
CAIRN_API cairn_status cairn_bundle_open(cairn_context *context, const char *path, cairn_bundle **out_bundle);
CAIRN_API void cairn_bundle_retain(cairn_bundle *bundle);
CAIRN_API void cairn_bundle_release(cairn_bundle *bundle);

/// The folder, "~" expanded. Owner of all texts here: borrowed from the bundle.
CAIRN_API const char *cairn_bundle_path(const cairn_bundle *bundle);
CAIRN_API const char *cairn_bundle_name(const cairn_bundle *bundle);
CAIRN_API cairn_bundle_kind cairn_bundle_get_kind(const cairn_bundle *bundle);
/// "llm", "vlm", …
CAIRN_API const char *cairn_bundle_kind_text(cairn_bundle_kind kind);
/// The whole of metadata.json as it is in the file.
CAIRN_API const char *cairn_bundle_metadata_json(const cairn_bundle *bundle);

/// Components, sorted by role ("main", "vision", …). `cairn_bundle_asset_file` is the name written in the metadata.
CAIRN_API int cairn_bundle_asset_count(const cairn_bundle *bundle);
CAIRN_API const char *cairn_bundle_asset_role(const cairn_bundle *bundle, int i);
CAIRN_API const char *cairn_bundle_asset_file(const cairn_bundle *bundle, const char *role);

/// The path of a component that exists: the declared one, else (for a declared `.aimodel`) the compiled `.aimodelc` of
/// the same name, with or without this machine's architecture before the extension.
/// Writes up to `capacity` bytes with the NUL and stores the size needed (without the NUL) in `*out_bytes` (may be NULL).
/// Errors: CORRUPT (`assets.ROLE` is missing, or its path leads out of the bundle), NOT_FOUND (naming the path).
CAIRN_API cairn_status cairn_bundle_asset_path(const cairn_bundle *bundle, const char *role, char *out_path, size_t capacity,
                                               size_t *out_bytes);
/// Checks that every component exists. Errors: as cairn_bundle_asset_path.
CAIRN_API cairn_status cairn_bundle_verify(const cairn_bundle *bundle);

/// Free texts the producer added. NULL when the key is absent.
CAIRN_API int cairn_bundle_user_data_count(const cairn_bundle *bundle);
CAIRN_API const char *cairn_bundle_user_data_key(const cairn_bundle *bundle, int i);
CAIRN_API const char *cairn_bundle_user_data(const cairn_bundle *bundle, const char *key);

// --- kind llm and vlm -----------------------------------------------------------------------------------------------

/// The `language` block. Texts are borrowed from the bundle.
typedef struct cairn_bundle_language {
  const char *tokenizer;       ///< Hugging Face id (or local name) of the tokenizer
  int64_t vocab_size;          ///< width of a logits row
  int64_t max_context_length;  ///< tokens
  bool embedded_tokenizer;     ///< default true
} cairn_bundle_language;

/// How a state behaves when a sequence is cut back.
typedef enum cairn_state_kind {
  CAIRN_STATE_UNKNOWN = 0,
  CAIRN_STATE_KV_CACHE = 1,       ///< rows by position: cut back by counting
  CAIRN_STATE_SLIDING_CACHE = 2,  ///< rows by position in a window of fixed size
  CAIRN_STATE_FIXED = 3           ///< a running summary: can only be zeroed
} cairn_state_kind;
/// "kv_cache", "sliding_cache", "fixed", "unknown".
CAIRN_API const char *cairn_state_kind_text(cairn_state_kind kind);

/// Checks and gives the `language` block of a bundle of kind llm or vlm.
/// Errors: INCOMPATIBLE (another kind), CORRUPT (a field is missing or of the wrong type or range).
CAIRN_API cairn_status cairn_bundle_get_language(const cairn_bundle *bundle, cairn_bundle_language *out_language);
/// The function `language.function_map` names first for a role; "main" when it names none.
CAIRN_API const char *cairn_bundle_function(const cairn_bundle *bundle, const char *role);
/// Whether the metadata names a function for the role itself.
CAIRN_API bool cairn_bundle_has_function(const cairn_bundle *bundle, const char *role);
/// What `language.states` says of a state; UNKNOWN when it says nothing.
CAIRN_API cairn_state_kind cairn_bundle_state_kind(const cairn_bundle *bundle, const char *state);

typedef enum cairn_image_strategy { CAIRN_IMAGE_STRETCH = 0, CAIRN_IMAGE_CENTER_CROP = 1, CAIRN_IMAGE_PAD = 2 } cairn_image_strategy;

/// The `vision` block of a vlm.
typedef struct cairn_bundle_vision {
  int64_t image_size, patch_size, image_token_count, image_token_id;
  double image_mean[3], image_std[3];  ///< default: CLIP's
  double rescale_factor;               ///< default 1
  cairn_image_strategy image_strategy;
  bool include_image_info;
  int64_t max_video_frames;  ///< 0 = no video
  int64_t tokens_per_frame;  ///< default image_token_count
} cairn_bundle_vision;

/// Errors: CORRUPT, also for values no image can be prepared with (a zero size, a standard deviation of 0, …).
CAIRN_API cairn_status cairn_bundle_get_vision(const cairn_bundle *bundle, cairn_bundle_vision *out_vision);

// --- finding bundles ------------------------------------------------------------------------------------------------

/// Finds a model by name. An absolute path, and one that starts with "./", "../" or "~", stands for itself. Any other
/// name is looked for in the folders of `search` (separated by ":"; NULL = none), else of CAIRN_MODEL_PATH, else of COREAI_MODEL_PATH,
/// else in ".", "./exports" and "~/.coreai-models"; the first that exists wins. No extension is added.
/// Writes the path as cairn_bundle_asset_path does. Errors: NOT_FOUND listing where was looked, INVALID_ARGUMENT.
CAIRN_API cairn_status cairn_model_find(const char *name, const char *search, char *out_path, size_t capacity, size_t *out_bytes);

#ifdef __cplusplus
}
#endif
#endif
