#include "engines/llm/turn.h"

cairn_status crn_llm_turn_initialize(crn_llm_turn *turn, bool waits) {
  *turn = (crn_llm_turn){.waits = waits};
  atomic_init(&turn->is_cancelled, false);
  if (pthread_mutex_init(&turn->lock, NULL)) return CRN_FAIL(OUT_OF_MEMORY, "no memory for a lock");
  if (!pthread_cond_init(&turn->changed, NULL)) return CAIRN_OK;
  pthread_mutex_destroy(&turn->lock);
  return CRN_FAIL(OUT_OF_MEMORY, "no memory for a condition");
}

void crn_llm_turn_deinitialize(crn_llm_turn *turn) {
  pthread_cond_destroy(&turn->changed);
  pthread_mutex_destroy(&turn->lock);
}

cairn_status crn_llm_turn_take(crn_llm_turn *turn) {
  pthread_mutex_lock(&turn->lock);
  const bool is_own = turn->is_taken && pthread_equal(turn->owner, pthread_self());
  const bool is_refused = is_own || (turn->is_taken && !turn->waits);
  if (!is_refused) {
    const uint64_t number = turn->next++;
    while (turn->is_taken || turn->serving != number) pthread_cond_wait(&turn->changed, &turn->lock);
    turn->is_taken = true;
    turn->owner = pthread_self();
    atomic_store(&turn->is_cancelled, false);
  }
  pthread_mutex_unlock(&turn->lock);
  return is_refused ? CRN_FAIL(BUSY, "the engine is in use by another call") : CAIRN_OK;
}

void crn_llm_turn_give(crn_llm_turn *turn) {
  pthread_mutex_lock(&turn->lock);
  turn->is_taken = false;
  turn->serving++;
  pthread_cond_broadcast(&turn->changed);
  pthread_mutex_unlock(&turn->lock);
}

void crn_llm_turn_cancel(crn_llm_turn *turn) {
  pthread_mutex_lock(&turn->lock);
  if (turn->is_taken) atomic_store(&turn->is_cancelled, true);
  pthread_mutex_unlock(&turn->lock);
}
