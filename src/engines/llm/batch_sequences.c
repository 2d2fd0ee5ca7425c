/// The sequences of a batch: which one a prompt begins on. Tokens that another sequence has already are not computed again.
#include "engines/llm/batch.h"
#include "engines/llm/sequence.h"

// A copy costs memory, and time unless the cache is in pages; from some tokens on that is less than computing them.
enum { WORTH = CRN_BATCH_LEAST };

/// The sequence that agrees with a prompt the longest way.
typedef struct best {
  cairn_llm *llm;
  int64_t common;
  int idle_at;  ///< its place among the idle ones; -1 = a member has it
} best;

// One token at least must be computed: it gives the logits of what follows.
static void consider(best *b, cairn_llm *llm, int idle_at, const crn_batch_member *m) {
  const crn_id_vec *fed = &m->generator.fed;
  const int64_t common = crn_llm_reachable(llm, crn_history_common_prefix(&llm->history, fed->items, (int64_t)fed->size - 1));
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

static bool is_exact(const crn_batch_member *m) {
  return cairn_function_get_precision(m->generator.llm->model->function) == CAIRN_PRECISION_EXACT;
}

static cairn_llm *take_idle(cairn_llm_batch *b, int at) {
  cairn_llm *llm = b->idle.items[at];
  crn_vec_remove(&b->idle, at);
  return llm;
}

static bool has_room(const cairn_llm_batch *b) { return b->n_sequences < b->options.max_sequences; }

// Where modes round, few rows are computed in another way than many: enough of the prompt is left to be many, so that it gets the bits it
// would have alone.
static int64_t most_shared(const crn_batch_member *m) {
  const int64_t n = (int64_t)m->generator.fed.size;
  return is_exact(m) ? n - 1 : n - CRN_BATCH_LEAST;
}

static cairn_status try_fork(cairn_llm_batch *b, crn_batch_member *m, const best *from, cairn_llm **out_llm) {
  const int64_t most = most_shared(m), n = from->llm ? crn_llm_reachable(from->llm, from->common < most ? from->common : most) : 0;
  *out_llm = NULL;
  if (n < WORTH) return CAIRN_OK;
  // What a member has is worth more than what nobody goes on with.
  if (!has_room(b) && from->idle_at < 0 && b->idle.size) {
    cairn_llm_close(take_idle(b, 0));
    b->n_sequences--;
  }
  if (!has_room(b)) return CAIRN_OK;
  cairn_status status = cairn_llm_fork(from->llm, n, out_llm);
  if (status == CAIRN_UNSUPPORTED) {
    crn_error_clear();
    return CAIRN_OK;
  }
  if (status == CAIRN_OK) {
    b->n_sequences++;
    m->n_borrowed = n;
  }
  return status;
}

static cairn_status find_sharing(cairn_llm_batch *b, crn_batch_member *m, cairn_llm **out_llm) {
  const best found = find_best(b, m);
  *out_llm = NULL;
  // One that is the beginning of the prompt goes on with it: nobody else is likely to want less of it.
  if (found.idle_at >= 0 && found.common == found.llm->history.n) {
    *out_llm = take_idle(b, found.idle_at);
    return CAIRN_OK;
  }
  CRN_TRY(try_fork(b, m, &found, out_llm));
  if (!*out_llm && found.idle_at >= 0 && !has_room(b)) *out_llm = take_idle(b, found.idle_at);
  return CAIRN_OK;
}

cairn_status crn_batch_find_sequence(cairn_llm_batch *b, crn_batch_member *m, cairn_llm **out_llm, bool *out_keep) {
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

// --- prompts that begin alike -----------------------------------------------------------------------------------------

static bool shares(const cairn_llm_batch *b, const crn_batch_member *m) {
  return !b->options.no_sharing && !(m->options.prefill_logits && m->options.on_logits);
}

// Whether a fork at `common` is possible when the prompt of `p` has been computed up to there. States that cannot be cut back are those of
// that moment only: then the piece has to end there, which only exact mode does not see.
static bool can_branch(crn_batch_member *p, int64_t common) {
  const cairn_llm *llm = p->generator.llm;
  const crn_llm_model *model = llm->model;
  const int64_t end = (int64_t)p->generator.fed.size;
  if (crn_llm_can_cut(&model->contract, end) && llm->states.strategy != CRN_LLM_KV_CHUNKED) return true;
  if (!is_exact(p) || (model->prefill && model->prefill_contract.query)) return false;
  if (p->branch <= llm->history.n || common < p->branch) p->branch = common;
  return true;
}

bool crn_batch_waits_for_prefix(cairn_llm_batch *b, const crn_batch_member *m) {
  const crn_id_vec *fed = &m->generator.fed;
  if (!shares(b, m)) return false;
  const int64_t most = most_shared(m), have = find_best(b, m).common;
  for (size_t i = 0; i < b->active.size; i++) {
    crn_batch_member *p = b->active.items[i];
    if (p->phase != CRN_BATCH_PROMPT) continue;
    const crn_id_vec *other = &p->generator.fed;
    const int64_t n = most < (int64_t)other->size ? most : (int64_t)other->size;
    int64_t common = 0;
    while (common < n && fed->items[common] == other->items[common]) common++;
    // So much is won, and so much has to be computed for it: a little is worth it only when it comes at once.
    const int64_t won = common - have, missing = common - p->generator.llm->history.n;
    if (missing > 0 && common >= WORTH && (won >= WORTH || (won > 0 && won >= missing)) && can_branch(p, common)) return true;
  }
  return false;
}

void crn_batch_return_sequence(cairn_llm_batch *b, cairn_llm *llm) {
  if (!llm) return;
  if (crn_vec_push(&b->context->allocator, &b->idle, llm) == CAIRN_OK) return;
  cairn_llm_close(llm);
  b->n_sequences--;
}
