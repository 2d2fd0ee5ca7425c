/// The contract of a language model function, read from its descriptors: which input takes the tokens, which states
/// there are and how they behave, what the logits look like. Names are believed first, positions second.
#ifndef CRN_ENGINES_LLM_CONTRACT_H
#define CRN_ENGINES_LLM_CONTRACT_H

#include "cairn/bundle.h"
#include "cairn/model.h"

enum { CRN_LLM_MIN_STATES = 2, CRN_LLM_MAX_STATES = 4 };

typedef struct crn_llm_state {
  const cairn_descriptor *descriptor;
  cairn_state_kind kind;
  int axis;         ///< of the positions: the dynamic one, else the last but one
  bool is_dynamic;  ///< the axis has no fixed size
  int64_t size;     ///< of the axis when fixed
} crn_llm_state;

typedef struct crn_llm_contract {
  const cairn_descriptor *ids, *positions, *logits;
  int64_t vocab_size;
  bool one_token;         ///< takes one token a run
  bool current_position;  ///< wants only the position of the token, not those of the whole sequence
  bool last_row_only;     ///< gives logits of the last token only, however many it is fed
  int n_states;
  crn_llm_state states[CRN_LLM_MAX_STATES];
  bool has_dynamic_kv;
  int64_t fixed_rows;  ///< smallest fixed kv_cache; 0 when there is none
  bool hybrid;         ///< some state is a running summary
} crn_llm_contract;

/// Reads the contract of a function. `bundle` (may be NULL) can say what a state is. Errors: UNSUPPORTED naming what is
/// expected and what was found, and the engine that would be needed when there is one.
cairn_status crn_llm_contract_read(const cairn_function_info *function, const cairn_bundle *bundle, crn_llm_contract *out_contract);

/// What the functions of a model together are.
typedef enum crn_llm_structure { CRN_LLM_DYNAMIC, CRN_LLM_STATIC_SHAPE, CRN_LLM_SEGMENTER, CRN_LLM_UNKNOWN_STRUCTURE } crn_llm_structure;
crn_llm_structure crn_llm_structure_of(const char *const *names, int n_names);

/// Whether the states still stand for `n` tokens when the count of `processed` tokens is set back to it.
bool crn_llm_can_cut(const crn_llm_contract *contract, int64_t processed);

#endif
