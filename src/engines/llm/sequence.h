/// Sequences of one model. What they share is crn_llm_model; nothing else passes from one to another but pages of states, which are
/// copied when either writes to them.
#ifndef CRN_ENGINES_LLM_SEQUENCE_H
#define CRN_ENGINES_LLM_SEQUENCE_H

#include "cairn/session.h"
#include "engines/llm/internal.h"

/// A sequence without states and runner, which cairn_llm_close takes as it does a complete one. Takes over a reference of the model
/// when it succeeds. Errors: OUT_OF_MEMORY.
cairn_status crn_llm_sequence_allocate(crn_llm_model *model, bool waits, cairn_llm **out_llm);
/// The last step of making one: the arrays of its runs. The states are there.
cairn_status crn_llm_sequence_start(cairn_llm *llm);
/// An empty sequence of the model. Thread: safe.
cairn_status crn_llm_sequence_create(crn_llm_model *model, cairn_llm **out_llm);

#endif
