/// The public object: sequences come in, are looked for, and go.
#include "engines/llm/batch.h"

#include "engines/llm/sequence.h"

enum { DEFAULT_SEQUENCES = 16, MOST_SEQUENCES = 4096 };
static const double kDefaultSeconds = 0.1;

// --- making and ending ------------------------------------------------------------------------------------------------

static cairn_status check_options(cairn_llm_batch_options *o) {
  if (o->max_sequences < 0 || o->max_sequences > MOST_SEQUENCES)
    return CRN_FAIL(INVALID_ARGUMENT, "max_sequences is %d, 0 (default) to %d expected", o->max_sequences, MOST_SEQUENCES);
  if (!(o->max_step_seconds >= 0))
    return CRN_FAIL(INVALID_ARGUMENT, "max_step_seconds is %g, 0 (default) or more expected", o->max_step_seconds);
  if (o->max_step_tokens < 0)
    return CRN_FAIL(INVALID_ARGUMENT, "max_step_tokens is %lld, 0 (default) or more expected", (long long)o->max_step_tokens);
  if (!o->max_sequences) o->max_sequences = DEFAULT_SEQUENCES;
  if (o->max_step_seconds == 0) o->max_step_seconds = kDefaultSeconds;
  return CAIRN_OK;
}

// A sequence that prompts are made with. It has neither states nor runs.
static cairn_status create_prototype(const cairn_llm *llm, cairn_llm **out) {
  crn_llm_model_retain(llm->model);
  cairn_status status = crn_llm_sequence_allocate(llm->model, false, out);
  if (status != CAIRN_OK) {
    crn_llm_model_release(llm->model);
    return status;
  }
  (*out)->max_context = llm->max_context;
  return CAIRN_OK;
}

cairn_status cairn_llm_batch_create(const cairn_llm *llm, const cairn_llm_batch_options *options, cairn_llm_batch **out_batch) {
  CRN_REQUIRE(out_batch);
  cairn_llm_batch_options o = options ? *options : (cairn_llm_batch_options){0};
  cairn_llm_batch *b;
  *out_batch = NULL;
  if (!llm) return CRN_FAIL(INVALID_ARGUMENT, "a batch needs a model: none was given");
  CRN_TRY(check_options(&o));
  CRN_TRY(crn_alloc_zero(&llm->context->allocator, sizeof *b, &b));
  cairn_status status = create_prototype(llm, &b->prototype);
  if (status != CAIRN_OK) {
    crn_free(&llm->context->allocator, b, sizeof *b);
    return status;
  }
  b->context = llm->context;
  b->options = o;
  b->next_id = 1;
  pthread_mutex_init(&b->lock, NULL);
  atomic_init(&b->is_stepping, false);
  *out_batch = b;
  return CAIRN_OK;
}

void cairn_llm_batch_destroy(cairn_llm_batch *b) {
  if (!b) return;
  const cairn_allocator a = b->context->allocator;
  for (size_t i = 0; i < b->members.size; i++) {
    crn_batch_member *m = b->members.items[i];
    cairn_llm *llm = m->generator.llm;
    crn_batch_member_destroy(m);
    if (llm != b->prototype) cairn_llm_close(llm);
  }
  for (size_t i = 0; i < b->idle.size; i++) cairn_llm_close(b->idle.items[i]);
  for (size_t i = 0; i < b->drafters.size; i++) cairn_llm_close(b->drafters.items[i]);
  crn_vec_free(&a, &b->members);
  crn_vec_free(&a, &b->active);
  crn_vec_free(&a, &b->idle);
  crn_vec_free(&a, &b->drafters);
  crn_vec_free(&a, &b->args);
  crn_vec_free(&a, &b->statuses);
  crn_vec_free(&a, &b->together);
  pthread_mutex_destroy(&b->lock);
  cairn_llm *prototype = b->prototype;
  crn_free(&a, b, sizeof *b);
  cairn_llm_close(prototype);  // the context may go with the last of its model
}

// --- coming and going -------------------------------------------------------------------------------------------------

cairn_status cairn_llm_batch_join(cairn_llm_batch *b, const cairn_generate_options *options, int64_t *out_id) {
  CRN_REQUIRE_NAMED(b, "batch");
  CRN_REQUIRE(options);
  CRN_REQUIRE(out_id);
  crn_batch_member *m;
  *out_id = 0;
  CRN_TRY(crn_batch_member_create(b->prototype, options, &m));
  pthread_mutex_lock(&b->lock);
  cairn_status status = crn_vec_push(&b->context->allocator, &b->members, m);
  if (status == CAIRN_OK) *out_id = m->id = b->next_id++;
  pthread_mutex_unlock(&b->lock);
  if (status != CAIRN_OK) crn_batch_member_destroy(m);
  return status;
}

// With the lock held.
static cairn_status find(const cairn_llm_batch *b, int64_t id, size_t *out_at) {
  for (size_t i = 0; i < b->members.size; i++) {
    if (b->members.items[i]->id != id) continue;
    *out_at = i;
    return CAIRN_OK;
  }
  return CRN_FAIL(NOT_FOUND, "the batch has no sequence %lld", (long long)id);
}

cairn_status cairn_llm_batch_cancel(cairn_llm_batch *b, int64_t id) {
  CRN_REQUIRE_NAMED(b, "batch");
  size_t at;
  pthread_mutex_lock(&b->lock);
  cairn_status status = find(b, id, &at);
  if (status == CAIRN_OK) atomic_store(&b->members.items[at]->is_cancelled, true);
  pthread_mutex_unlock(&b->lock);
  return status;
}

cairn_status cairn_llm_batch_has_ended(cairn_llm_batch *b, int64_t id, bool *out_ended) {
  CRN_REQUIRE_NAMED(b, "batch");
  CRN_REQUIRE(out_ended);
  size_t at;
  *out_ended = false;
  pthread_mutex_lock(&b->lock);
  cairn_status status = find(b, id, &at);
  if (status == CAIRN_OK) *out_ended = atomic_load(&b->members.items[at]->has_ended);
  pthread_mutex_unlock(&b->lock);
  return status;
}

// Takes a member that has ended out of the list.
static cairn_status take_out(cairn_llm_batch *b, int64_t id, crn_batch_member **out) {
  size_t at;
  CRN_TRY(find(b, id, &at));
  if (!atomic_load(&b->members.items[at]->has_ended))
    return CRN_FAIL(FAILED_PRECONDITION, "sequence %lld has not ended yet", (long long)id);
  *out = b->members.items[at];
  crn_vec_remove(&b->members, at);
  return CAIRN_OK;
}

cairn_status cairn_llm_batch_take(cairn_llm_batch *b, int64_t id, cairn_generation **out_generation) {
  CRN_REQUIRE(out_generation);
  *out_generation = NULL;
  CRN_REQUIRE_NAMED(b, "batch");
  crn_batch_member *m = NULL;
  pthread_mutex_lock(&b->lock);
  cairn_status status = take_out(b, id, &m);
  pthread_mutex_unlock(&b->lock);
  if (status != CAIRN_OK) return status;
  *out_generation = m->result;
  m->result = NULL;
  status = m->status;
  if (status != CAIRN_OK) crn_failure_restore(m->failure, status);
  crn_batch_member_destroy(m);
  return status;
}

cairn_status cairn_llm_batch_run(cairn_llm_batch *b) {
  CRN_REQUIRE_NAMED(b, "batch");
  cairn_llm_batch_step_info info;
  do {
    CRN_TRY(cairn_llm_batch_step(b, &info));
  } while (info.n_active);
  return CAIRN_OK;
}
