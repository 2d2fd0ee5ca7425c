/// The sequences of a batch: which one a prompt begins on. Tokens that another sequence has already are not computed again.
#include "engines/llm/batch.h"
#include "engines/llm/sequence.h"

/// The sequence that agrees with a prompt the longest way.
typedef struct best {
  cairn_llm *llm;
  int64_t common;
  int idle_at;  ///< its place among the idle ones; -1 = a member has it
} best;

static void consider(best *b, cairn_llm *llm, int idle_at, const crn_batch_member *m) {
  if (llm->is_dirty) return;
  const int64_t common = crn_history_common_prefix(&llm->history, m->generator.fed.items, (int64_t)m->generator.fed.size);
  if (common > b->common) *b = (best){llm, common, idle_at};
}

static best find_best(const cairn_llm_batch *b, const crn_batch_member *m) {
  best found = {NULL, 0, -1};
  for (size_t i = 0; i < b->idle.size; i++) consider(&found, b->idle.items[i], (int)i, m);
  for (size_t i = 0; i < b->active.size; i++) {
    cairn_llm *llm = b->active.items[i]->generator.llm;
    if (llm != b->prototype) consider(&found, llm, -1, m);
  }
  return found;
}

static cairn_llm *take_idle(cairn_llm_batch *b, int at) {
  cairn_llm *llm = b->idle.items[at];
  for (size_t i = (size_t)at + 1; i < b->idle.size; i++) b->idle.items[i - 1] = b->idle.items[i];
  b->idle.size--;
  return llm;
}

static bool has_room(const cairn_llm_batch *b) { return b->n_sequences < b->options.max_sequences; }

// A copy costs memory, and time unless the cache is in pages; from some tokens on that is less than computing them.
static cairn_status try_fork(cairn_llm_batch *b, const best *from, cairn_llm **out_llm) {
  enum { WORTH = CRN_BATCH_LEAST };
  *out_llm = NULL;
  if (!from->llm || from->common < WORTH || !has_room(b)) return CAIRN_OK;
  const int64_t n = crn_llm_reachable(from->llm, from->common);
  if (n < WORTH) return CAIRN_OK;
  cairn_status status = cairn_llm_fork(from->llm, n, out_llm);
  if (status == CAIRN_UNSUPPORTED) {
    crn_error_clear();
    return CAIRN_OK;
  }
  if (status == CAIRN_OK) b->n_sequences++;
  return status;
}

static cairn_status find_sharing(cairn_llm_batch *b, const crn_batch_member *m, cairn_llm **out_llm) {
  const best found = find_best(b, m);
  *out_llm = NULL;
  // One that is the beginning of the prompt goes on with it: nobody else is likely to want less of it.
  if (found.idle_at >= 0 && found.common == found.llm->history.n) {
    *out_llm = take_idle(b, found.idle_at);
    return CAIRN_OK;
  }
  CRN_TRY(try_fork(b, &found, out_llm));
  if (!*out_llm && found.idle_at >= 0 && !has_room(b)) *out_llm = take_idle(b, found.idle_at);
  return CAIRN_OK;
}

cairn_status crn_batch_find_sequence(cairn_llm_batch *b, const crn_batch_member *m, cairn_llm **out_llm, bool *out_keep) {
  *out_keep = !b->options.no_sharing;
  *out_llm = NULL;
  if (*out_keep) CRN_TRY(find_sharing(b, m, out_llm));
  if (!*out_llm && has_room(b)) {
    CRN_TRY(crn_llm_sequence_create(b->prototype->model, out_llm));
    b->n_sequences++;
  }
  if (!*out_llm) *out_llm = take_idle(b, 0);
  atomic_store(&(*out_llm)->turn.is_cancelled, false);
  return CAIRN_OK;
}

void crn_batch_return_sequence(cairn_llm_batch *b, cairn_llm *llm) {
  if (!llm) return;
  if (crn_vec_push(&b->context->allocator, &b->idle, llm) == CAIRN_OK) return;
  cairn_llm_close(llm);
  b->n_sequences--;
}
