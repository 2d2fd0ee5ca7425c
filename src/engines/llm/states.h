/// The states of one sequence: allocation, growth of the key/value caches, zeroing.
#ifndef CRN_ENGINES_LLM_STATES_H
#define CRN_ENGINES_LLM_STATES_H

#include "engines/llm/contract.h"

typedef enum crn_llm_kv { CRN_LLM_KV_AUTO, CRN_LLM_KV_FIXED, CRN_LLM_KV_GROWING } crn_llm_kv;

/// The strategy of a name (NULL = auto). Errors: UNSUPPORTED for the known ones not built yet, INVALID_ARGUMENT.
cairn_status crn_llm_kv_parse(const char *name, crn_llm_kv *out_kv);
const char *crn_llm_kv_text(crn_llm_kv kv);

typedef struct crn_llm_states {
  cairn_context *context;
  const crn_llm_contract *contract;
  cairn_named_array arrays[CRN_LLM_MAX_CACHES];
  crn_llm_kv strategy;      ///< FIXED or GROWING
  int64_t capacity, limit;  ///< rows now, rows at most
  size_t bytes;
} crn_llm_states;

/// What was asked for. `max_context` is the number of tokens the model takes.
typedef struct crn_llm_states_options {
  crn_llm_kv strategy;
  int64_t capacity;  ///< 0 = default
  int64_t max_context;
} crn_llm_states_options;

/// Allocates every state, zeroed. `contract` must outlive the states. On failure nothing is held.
/// Errors: UNSUPPORTED (growing a cache of fixed size), INVALID_ARGUMENT, OUT_OF_MEMORY.
cairn_status crn_llm_states_initialize(crn_llm_states *s, cairn_context *context, const crn_llm_contract *contract,
                                       const crn_llm_states_options *options);
void crn_llm_states_deinitialize(crn_llm_states *s);

/// Makes room for `rows`, keeping the first `used`; new rows are zero. Errors: CONTEXT_FULL (more than the limit),
/// OUT_OF_MEMORY (nothing changed).
cairn_status crn_llm_states_reserve(crn_llm_states *s, int64_t rows, int64_t used);
/// Zeroes everything.
cairn_status crn_llm_states_zero(crn_llm_states *s);

#endif
