/// The contract of a language model function, read from its descriptors: which input takes the tokens, which states
/// there are and how they behave, what the logits look like. Names are believed first, positions second.
#ifndef CRN_ENGINES_LLM_CONTRACT_H
#define CRN_ENGINES_LLM_CONTRACT_H

#include "cairn/bundle.h"
#include "cairn/model.h"

enum {
  CRN_LLM_MIN_STATES = 2,
  CRN_LLM_MAX_STATES = 4,
  CRN_LLM_MAX_CACHES = 256,  ///< states, or plain inputs and outputs that a cache goes through (often two for every layer)
  CRN_LLM_MAX_EXTRAS = 4
};

typedef struct crn_llm_state {
  const cairn_descriptor *descriptor;
  cairn_state_kind kind;
  int axis;         ///< of the positions: the dynamic one, else the last but one
  bool is_dynamic;  ///< the axis has no fixed size
  int64_t size;     ///< of the axis when fixed
  /// Of a cache that is no state: the output that gives its rows back, all of them or only the new ones.
  const cairn_descriptor *output;
} crn_llm_state;

typedef struct crn_llm_contract {
  const cairn_descriptor *ids;        ///< NULL when the function takes embeddings instead
  const cairn_descriptor *embeds;     ///< [1, n, width]; NULL when it takes ids
  const cairn_descriptor *positions;  ///< NULL when it takes none
  const cairn_descriptor *logits;
  const cairn_descriptor *extras[CRN_LLM_MAX_EXTRAS];  ///< further inputs [1, n, …]: a value for every token
  int n_extras;
  int64_t vocab_size;
  int64_t query;          ///< tokens a run takes exactly; 0 = any number
  bool one_token;         ///< takes one token a run
  bool current_position;  ///< wants only the position of the token, not those of the whole sequence
  bool last_row_only;     ///< gives logits of the last token only, however many it is fed
  bool host_cache;        ///< the caches are plain inputs and outputs
  bool stateless;         ///< keeps nothing: every run takes the whole sequence
  int n_states;           ///< or plain caches
  crn_llm_state states[CRN_LLM_MAX_CACHES];
  bool has_dynamic_kv;
  int64_t fixed_rows;  ///< smallest fixed kv_cache; 0 when there is none
  bool hybrid;         ///< some state is a running summary
} crn_llm_contract;

/// Reads the contract of a function. `bundle` (may be NULL) can say what a state is. Errors: UNSUPPORTED naming what is
/// expected and what was found, and the engine that would be needed when there is one.
/// A contract with a `query` other than 0 and 1 is only good for the function of a prompt, beside one that takes 1.
cairn_status crn_llm_contract_read(const cairn_function_info *function, const cairn_bundle *bundle, crn_llm_contract *out_contract);

/// Whether a function of prompts fits the main one: equal states, logits and further inputs. Errors: UNSUPPORTED naming what differs.
cairn_status crn_llm_contract_check_pair(const cairn_function_info *prefill, const crn_llm_contract *a, const crn_llm_contract *b);

/// What the functions of a model together are.
typedef enum crn_llm_structure { CRN_LLM_DYNAMIC, CRN_LLM_STATIC_SHAPE, CRN_LLM_SEGMENTER, CRN_LLM_UNKNOWN_STRUCTURE } crn_llm_structure;
crn_llm_structure crn_llm_structure_of(const char *const *names, int n_names);

/// Whether the states still stand for `n` tokens when the count of `processed` tokens is set back to it.
bool crn_llm_can_cut(const crn_llm_contract *contract, int64_t processed);

#endif
