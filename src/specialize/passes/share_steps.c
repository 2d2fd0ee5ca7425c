// Common subexpressions: of two equal pure steps the second is dropped and its readers read the first.
#include <string.h>

#include "specialize/edit.h"
#include "specialize/passes.h"

typedef struct share_pass {
  crn_plan *plan;
  const cairn_allocator *allocator;
  crn_plan_index index;
  bool *views_state;      ///< by slot: may lie in the memory of a state, which changes while the plan runs
  uint32_t *replacement;  ///< by slot: what is read instead
  bool *is_dropped;
  uint32_t *buckets, *next;  ///< chained hash of the steps kept, by index + 1; 0 ends a chain
  uint32_t n_buckets;
} share_pass;

static bool touches_state(const share_pass *x, const crn_step *s) {
  if (s->kind == CRN_STEP_READ) return true;
  for (uint32_t k = 0; k < s->n_in; k++) {
    if (x->views_state[s->in[k]]) return true;
  }
  return false;
}

static bool can_share(const share_pass *x, uint32_t i) {
  const crn_step *s = &x->plan->steps[i];
  if (x->index.is_inner[i] || s->kind != CRN_STEP_KERNEL || s->fused || !(crn_op_info_of(s->id)->traits & CRN_PURE)) return false;
  if (s->op->n_regions) return false;
  for (uint32_t k = 0; k < s->n_out; k++) {
    if (x->index.made_by[s->out[k]] != i) return false;
  }
  return !touches_state(x, s);
}

static uint32_t hash_step(const crn_step *s) {
  uint32_t h = 2166136261u ^ (uint32_t)s->id;
  for (uint32_t k = 0; k < s->n_in; k++) h = (h ^ s->in[k]) * 16777619u;
  return h;
}

static bool same_type(const crn_type *a, const crn_type *b) {
  return a->dtype == b->dtype && a->rank == b->rank && !memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims);
}

static bool same_step(const crn_plan *p, const crn_step *a, const crn_step *b) {
  if (a->id != b->id || a->n_in != b->n_in || a->n_out != b->n_out || memcmp(a->in, b->in, a->n_in * sizeof *a->in)) return false;
  if (memcmp(&a->op->attr, &b->op->attr, sizeof a->op->attr)) return false;
  for (uint32_t k = 0; k < a->n_out; k++) {
    if (!same_type(p->slot_types[a->out[k]], p->slot_types[b->out[k]])) return false;
  }
  return true;
}

// Constants that hold the same small value are one: lists of axes and bounds are stored once an op.
static bool same_constant(const crn_tensor *a, const crn_tensor *b) {
  if (a->packed || b->packed || a->dtype != b->dtype || !crn_tensor_same_shape(a, b) || !crn_tensor_is_contiguous(a) ||
      !crn_tensor_is_contiguous(b))
    return false;
  size_t bytes = (size_t)crn_tensor_count(a) * cairn_dtype_bytes(a->dtype);
  return bytes <= 128 && !memcmp(a->data, b->data, bytes);
}

static void share_constants(share_pass *x) {
  const crn_plan *p = x->plan;
  uint32_t first[512];
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->n_slots; i++) {
    if (!p->is_constant[i] || !x->index.n_uses[i]) continue;
    uint32_t k = 0;
    while (k < n && !same_constant(&p->constants[first[k]].tensor, &p->constants[i].tensor)) k++;
    if (k < n) {
      x->replacement[i] = first[k];
    } else if (n < sizeof first / sizeof *first && crn_tensor_count(&p->constants[i].tensor) <= 16) {
      first[n++] = i;
    }
  }
}

static void share_step(share_pass *x, uint32_t i) {
  crn_plan *p = x->plan;
  crn_step *s = &p->steps[i];
  for (uint32_t k = 0; k < s->n_in; k++) s->in[k] = x->replacement[s->in[k]];
  bool state = touches_state(x, s);
  for (uint32_t k = 0; k < s->n_out; k++) x->views_state[s->out[k]] |= state;
  if (!can_share(x, i)) return;
  uint32_t *bucket = &x->buckets[hash_step(s) % x->n_buckets];
  for (uint32_t k = *bucket; k; k = x->next[k - 1]) {
    const crn_step *kept = &p->steps[k - 1];
    if (!same_step(p, kept, s)) continue;
    for (uint32_t j = 0; j < s->n_out; j++) x->replacement[s->out[j]] = kept->out[j];
    x->is_dropped[i] = true;
    return;
  }
  x->next[i] = *bucket;
  *bucket = i + 1;
}

static void free_pass(share_pass *x, uint32_t n_steps) {
  const crn_plan *p = x->plan;
  crn_free(x->allocator, x->views_state, p->n_slots * sizeof *x->views_state);
  crn_free(x->allocator, x->replacement, p->n_slots * sizeof *x->replacement);
  crn_free(x->allocator, x->is_dropped, n_steps * sizeof *x->is_dropped);
  crn_free(x->allocator, x->next, n_steps * sizeof *x->next);
  crn_free(x->allocator, x->buckets, x->n_buckets * sizeof *x->buckets);
  crn_plan_index_destroy(&x->index);
}

static cairn_status make_pass(share_pass *x) {
  const crn_plan *p = x->plan;
  CRN_TRY(crn_plan_index_create(p, &x->index));
  CRN_TRY(crn_alloc_array(x->allocator, p->n_slots, sizeof *x->views_state, &x->views_state));
  CRN_TRY(crn_alloc_array(x->allocator, p->n_slots, sizeof *x->replacement, &x->replacement));
  CRN_TRY(crn_alloc_array(x->allocator, p->n_steps, sizeof *x->is_dropped, &x->is_dropped));
  CRN_TRY(crn_alloc_array(x->allocator, p->n_steps, sizeof *x->next, &x->next));
  CRN_TRY(crn_alloc_array(x->allocator, x->n_buckets, sizeof *x->buckets, &x->buckets));
  for (uint32_t i = 0; i < p->n_slots; i++) x->replacement[i] = i;
  return CAIRN_OK;
}

cairn_status crn_pass_share_steps(crn_plan *p) {
  share_pass x = {.plan = p, .allocator = &p->context->allocator, .n_buckets = p->n_steps + 1};
  uint32_t n_steps = p->n_steps;
  cairn_status status = make_pass(&x);
  if (status == CAIRN_OK) {
    share_constants(&x);
    for (uint32_t i = 0; i < n_steps; i++) share_step(&x, i);
    for (uint32_t i = 0; i < p->n_outputs; i++) p->output_slots[i] = x.replacement[p->output_slots[i]];
    status = crn_plan_drop(p, x.is_dropped);
  }
  free_pass(&x, n_steps);
  return status;
}
