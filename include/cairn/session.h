/// Sequences of language models: several of one model, copies of one, and what is kept of them.
#ifndef CAIRN_SESSION_H
#define CAIRN_SESSION_H

#include "cairn/llm.h"

#ifdef __cplusplus
extern "C" {
#endif

// --- further sequences of a model -------------------------------------------------------------------------------------

/// An empty sequence of the model of `llm`: weights, tokenizer and images are shared, states are not. It is used and closed like one
/// that was opened, in any order; the model lives as long as any of them.
/// Thread: safe, also while `llm` is in use. Errors: OUT_OF_MEMORY.
CAIRN_API cairn_status cairn_llm_create_sequence(const cairn_llm *llm, cairn_llm **out_llm);

/// A second sequence that begins with the first `n_tokens` tokens of `llm` (negative = all). With paged storage nothing of the caches is
/// copied until one of both writes to it. `cairn_llm_info.kv_bytes_copied` of the fork tells what was.
/// Errors: OUT_OF_RANGE, UNSUPPORTED (a state of the model is not known at that token), FAILED_PRECONDITION (a run failed before), BUSY,
/// OUT_OF_MEMORY.
CAIRN_API cairn_status cairn_llm_fork(cairn_llm *llm, int64_t n_tokens, cairn_llm **out_fork);

/// Cuts the sequence back to `n` tokens, or, where a state of the model is not known there, to the last point before at which it is (the
/// start at worst). Stores how many tokens were kept. Errors: BUSY, OUT_OF_MEMORY.
CAIRN_API cairn_status cairn_llm_trim(cairn_llm *llm, int64_t n, int64_t *out_kept);

/// Keeps the first `n_tokens` tokens (negative = all) in memory for other sequences of the model, as closing the sequence does; needs
/// cairn_llm_options.prefix_bytes. Errors: FAILED_PRECONDITION (no memory was given), OUT_OF_RANGE, UNSUPPORTED (as cairn_llm_fork), BUSY,
/// OUT_OF_MEMORY.
CAIRN_API cairn_status cairn_llm_register_prefix(cairn_llm *llm, int64_t n_tokens);

// --- files of sequences -------------------------------------------------------------------------------------------------

/// Writes the sequence to a file: tokens, states, snapshots and the features of its images. The file is there whole or not at all.
/// It can be restored into any sequence of the same model files with the same precision, whatever its engine and storage.
/// Errors: FAILED_PRECONDITION (a run failed before; an image is not kept any more), UNSUPPORTED (rows were dropped by a window; the model
/// came from no file), BUSY, IO.
CAIRN_API cairn_status cairn_llm_save(cairn_llm *llm, const char *path);

/// As cairn_llm_save with a note of the caller, which the file carries and cairn_llm_restore_with_note gives back: what belongs to the
/// sequence and the file does not tell. At most CAIRN_SESSION_NOTE_BYTES; none makes the file of cairn_llm_save. Errors: those of
/// cairn_llm_save, OUT_OF_RANGE.
enum { CAIRN_SESSION_NOTE_BYTES = 256 };
CAIRN_API cairn_status cairn_llm_save_with_note(cairn_llm *llm, const char *path, const void *note, size_t note_bytes);

/// Makes the sequence the one that was saved; its next generation goes on from there. A file that is refused changes nothing; when memory
/// runs out on the way the sequence is empty. Rows are used again as they were computed: see cairn_llm_options.prefill_chunk about
/// precisions other than exact. Errors: INVALID_ARGUMENT (the name is empty), NOT_FOUND, IO, CORRUPT (no such file, damaged, cut off),
/// INCOMPATIBLE (another version, model, precision or storage of rows; the message names what differs), CONTEXT_FULL, BUSY, OUT_OF_MEMORY.
CAIRN_API cairn_status cairn_llm_restore(cairn_llm *llm, const char *path);

/// As cairn_llm_restore; stores the note of the file in `out_note`, which has room for CAIRN_SESSION_NOTE_BYTES, and its size: 0 = the file
/// has none.
CAIRN_API cairn_status cairn_llm_restore_with_note(cairn_llm *llm, const char *path, void *out_note, size_t *out_note_bytes);

/// The model's identity as files of sequences have it: the SHA-256 of its files, in hex with a NUL, to `out_text`, which has room for
/// CAIRN_LLM_IDENTITY_BYTES. The first call may read the files. Thread: safe. Errors: UNSUPPORTED (the model came from no file), IO,
/// OUT_OF_MEMORY.
enum { CAIRN_LLM_IDENTITY_BYTES = 65 };
CAIRN_API cairn_status cairn_llm_identify(const cairn_llm *llm, char *out_text);

// --- models that are loaded when they are needed ------------------------------------------------------------------------

/// A model to be loaded: path and options. Equal ones of a context are one object, so nothing is loaded twice; it is forgotten with its
/// last reference. Owner: shared and counted. Thread: safe.
typedef struct cairn_llm_loader cairn_llm_loader;

/// `options` as for cairn_llm_open, copied. With `is_eager` the model is loaded now, else when a sequence is first borrowed.
/// Errors: OUT_OF_MEMORY; with `is_eager` also those of cairn_llm_open.
CAIRN_API cairn_status cairn_llm_loader_open(cairn_context *context, const char *path, const cairn_llm_options *options, bool is_eager,
                                             cairn_llm_loader **out_loader);
CAIRN_API void cairn_llm_loader_retain(cairn_llm_loader *loader);
CAIRN_API void cairn_llm_loader_release(cairn_llm_loader *loader);

/// An empty sequence of the model, closed with cairn_llm_close. Callers that come while it is being loaded wait for that one load; a load
/// that failed is tried again by the next. Errors: those of cairn_llm_open.
CAIRN_API cairn_status cairn_llm_loader_borrow(cairn_llm_loader *loader, cairn_llm **out_llm);
/// Loads the model and runs `n_tokens` dummy tokens, so that the first sequence finds everything prepared.
CAIRN_API cairn_status cairn_llm_loader_prewarm(cairn_llm_loader *loader, int64_t n_tokens);
/// Gives the model up: its memory goes with the last sequence that was borrowed, and the next one loads it again. Nothing happens when it
/// is not loaded; a load that is going on is not kept.
CAIRN_API void cairn_llm_loader_unload(cairn_llm_loader *loader);

typedef struct cairn_llm_loader_counts {
  bool is_loaded;
  int64_t n_loads;     ///< that succeeded
  int64_t n_borrowed;  ///< sequences of the loaded model that are open
} cairn_llm_loader_counts;
CAIRN_API void cairn_llm_loader_count(cairn_llm_loader *loader, cairn_llm_loader_counts *out_counts);

#ifdef __cplusplus
}
#endif
#endif
