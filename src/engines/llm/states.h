/// The states of one sequence: allocation, growth of the key/value caches, zeroing.
#ifndef CRN_ENGINES_LLM_STATES_H
#define CRN_ENGINES_LLM_STATES_H

#include "engines/llm/contract.h"

typedef enum crn_llm_kv {
  CRN_LLM_KV_AUTO,
  CRN_LLM_KV_FIXED,    ///< all rows from the start
  CRN_LLM_KV_GROWING,  ///< doubles, with a copy
  CRN_LLM_KV_PAGED,    ///< pages: grows without a copy, and forks have them in common
  CRN_LLM_KV_CHUNKED   ///< pages, of which a window and the first rows are kept
} crn_llm_kv;

/// The strategy of a name (NULL = auto). Errors: INVALID_ARGUMENT.
cairn_status crn_llm_kv_parse(const char *name, crn_llm_kv *out_kv);
const char *crn_llm_kv_text(crn_llm_kv kv);
/// What pages store: "auto" (also NULL) or "int8". Errors: INVALID_ARGUMENT.
cairn_status crn_llm_kv_type_parse(const char *name, bool *out_is_int8);

typedef struct crn_llm_states {
  cairn_context *context;
  const crn_llm_contract *contract;
  cairn_named_array arrays[CRN_LLM_MAX_CACHES];
  crn_llm_kv strategy;      ///< not AUTO
  int64_t capacity, limit;  ///< rows now, rows at most
  size_t bytes;
  int64_t bytes_copied;  ///< by growth and by the fork that made it
  int64_t page_rows;     ///< of PAGED and CHUNKED
  int64_t window;        ///< of CHUNKED: rows that are kept, the first `sinks` among them
  int64_t sinks;
  bool is_int8;    ///< pages hold int8 and scales
  bool is_uneven;  ///< a growth failed midway: some of the caches in pages are longer than `capacity`
} crn_llm_states;

/// What was asked for. `max_context` is the number of tokens the model takes.
typedef struct crn_llm_states_options {
  crn_llm_kv strategy;
  int64_t capacity;  ///< 0 = default
  int64_t max_context;
  int64_t page_rows;  ///< 0 = default; 64, 128 or 256
  int64_t window;     ///< of CHUNKED; 0 = default
  int64_t sinks;      ///< of CHUNKED; -1 = none, 0 = default
  bool is_int8;
  bool fits_pages;  ///< whatever reads the caches takes pages: AUTO may choose them
} crn_llm_states_options;

/// Allocates every state, zeroed. `contract` must outlive the states. On failure nothing is held.
/// Errors: UNSUPPORTED (a strategy that does not go with the contract, saying why), INVALID_ARGUMENT, OUT_OF_MEMORY.
cairn_status crn_llm_states_initialize(crn_llm_states *s, cairn_context *context, const crn_llm_contract *contract,
                                       const crn_llm_states_options *options);
void crn_llm_states_deinitialize(crn_llm_states *s);

/// Makes room for `rows`, keeping the first `used`; new rows are zero. Errors: CONTEXT_FULL (more than the limit),
/// OUT_OF_MEMORY (nothing changed).
cairn_status crn_llm_states_reserve(crn_llm_states *s, int64_t rows, int64_t used);
/// The same for whoever writes rows [used, rows) as a whole, or shares pages of others for them: what lies in pages gets none yet.
cairn_status crn_llm_states_extend(crn_llm_states *s, int64_t rows, int64_t used);
/// Makes `out` the states of a second sequence that agrees with `from` in its first `rows` tokens. Pages are shared until either writes to
/// them; other storage is copied: the rows of caches, and all of states without rows, which are those of the moment. `out` is not
/// initialized yet, and nothing may run on `from`. On failure nothing is held. Errors: INVALID_ARGUMENT (rows), OUT_OF_MEMORY.
cairn_status crn_llm_states_fork(const crn_llm_states *from, int64_t rows, crn_llm_states *out);
/// Whether the states can stand for their first `n` rows: a window that has dropped rows may have to begin anew.
bool crn_llm_states_can_cut(const crn_llm_states *s, int64_t n);
/// Memory of all states now. Pages that others hold too count in full.
size_t crn_llm_states_bytes(const crn_llm_states *s);
/// Zeroes everything.
cairn_status crn_llm_states_zero(crn_llm_states *s);

/// A view of the places [first, end) of one axis, whatever the layout. Errors: OUT_OF_RANGE, OUT_OF_MEMORY.
cairn_status crn_llm_slice_axis(cairn_ndarray *array, int axis, int64_t first, int64_t end, cairn_ndarray **out_view);
/// Copies the places [first, end) of one axis to the same places of another array. Errors: as crn_llm_slice_axis.
cairn_status crn_llm_copy_axis(cairn_ndarray *from, int axis, int64_t first, int64_t end, cairn_ndarray *to);

// --- states in pages (states_pages.c) ---------------------------------------------------------------------------------

static inline bool crn_llm_states_are_paged(const crn_llm_states *s) {
  return s->strategy == CRN_LLM_KV_PAGED || s->strategy == CRN_LLM_KV_CHUNKED;
}
/// Whether this state lies in pages.
bool crn_llm_state_is_paged(const crn_llm_states *s, const crn_llm_state *state);
/// Checks the options of pages and windows and takes them over. `s->limit` and `s->strategy` are set. Errors: INVALID_ARGUMENT,
/// UNSUPPORTED.
cairn_status crn_llm_pages_choose(crn_llm_states *s, const crn_llm_states_options *o);
/// A zeroed array in pages for a state.
cairn_status crn_llm_pages_create(const crn_llm_states *s, const crn_llm_state *state, const int64_t *shape, cairn_ndarray **out);
/// crn_llm_states_reserve for pages.
cairn_status crn_llm_pages_reserve(crn_llm_states *s, int64_t rows, int64_t used);
/// Makes the tables of pages long enough for `rows`, which the limit allows.
cairn_status crn_llm_pages_extend(crn_llm_states *s, int64_t rows);

#endif
