/// Whose turn it is with a sequence: one call at a time has it. Others are refused, or wait in the order they came.
#ifndef CRN_ENGINES_LLM_TURN_H
#define CRN_ENGINES_LLM_TURN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct crn_llm_turn {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  uint64_t next, serving;  ///< numbers of callers; those from `serving` to `next` have the sequence or wait for it
  bool is_taken;
  bool waits;       ///< callers wait instead of being refused
  pthread_t owner;  ///< the thread that has it, while `is_taken`
  /// Asked for the end of the call that has it. Cleared with every turn, so that a late one cannot end the next call.
  atomic_bool is_cancelled;
} crn_llm_turn;

/// Errors: OUT_OF_MEMORY.
cairn_status crn_llm_turn_initialize(crn_llm_turn *turn, bool waits);
void crn_llm_turn_deinitialize(crn_llm_turn *turn);

/// Errors: BUSY; also where callers wait, when the thread that calls has the sequence itself (a callback): it would wait for itself.
cairn_status crn_llm_turn_take(crn_llm_turn *turn);
void crn_llm_turn_give(crn_llm_turn *turn);
/// Marks the call that goes on as cancelled; nothing happens when there is none.
void crn_llm_turn_cancel(crn_llm_turn *turn);

#endif
