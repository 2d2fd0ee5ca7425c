// Constant folding: steps whose operands are constant are computed once, when the function is made. This is also how
// compressed weights are expanded that no pass could pack: a weight is a small graph of constants.
#include <string.h>

#include "execute/fold.h"
#include "execute/run.h"
#include "specialize/edit.h"

// Whether passes may want to pack what the step expands.
static bool is_compressed(const crn_plan *p, const crn_step *s) {
  if (s->id == CRN_OP_blockwise_shift_scale) return crn_dtype_is_integer(p->slot_types[s->in[0]]->dtype);
  return s->id == CRN_OP_unpack_blocks || (s->id == CRN_OP_lut_to_dense && s->is_kept);
}

static bool can_fold(const crn_plan *p, const crn_step *s, bool keep_compressed) {
  if (s->fused || (keep_compressed && is_compressed(p, s))) return false;
  if (s->kind != CRN_STEP_KERNEL && s->kind != CRN_STEP_UPDATE) return false;
  if (!(crn_op_info_of(s->id)->traits & CRN_PURE)) return false;
  for (uint32_t i = 0; i < s->n_in; i++) {
    if (!p->is_constant[s->in[i]]) return false;
  }
  return true;
}

enum { MAX_GROWTH = 64, FREE_BYTES = 1 << 20 };

// Expanding a compressed weight makes it a few times larger. What grows far beyond its operands (a mask made of a range,
// a hostile file) is computed when it is needed instead of being kept. Views take no memory at all.
static bool is_worth_keeping(crn_workspace *w, const crn_step *s) {
  size_t result, operands;
  if (s->view) return true;
  return crn_step_sizes(w, s, &result, &operands) == CAIRN_OK && (result <= FREE_BYTES || result / MAX_GROWTH <= operands);
}

static void keep_results(crn_plan *p, const crn_workspace *w, const crn_step *s) {
  for (uint32_t i = 0; i < s->n_out; i++) {
    p->is_constant[s->out[i]] = true;
    p->constants[s->out[i]] = w->slots[s->out[i]];
  }
}

// Constants that only folded steps used give their memory back.
static void drop_unused(crn_plan *p, crn_workspace *w, bool *used) {
  for (uint32_t i = 0; i < p->n_steps; i++) {
    for (uint32_t k = 0; k < p->steps[i].n_in; k++) used[p->steps[i].in[k]] = true;
  }
  for (uint32_t i = 0; i < p->n_outputs; i++) used[p->output_slots[i]] = true;
  for (uint32_t i = 0; i < p->n_slots; i++) {
    if (!p->is_constant[i] || used[i]) continue;
    crn_workspace_clear_slot(w, i);
    // Nobody may look at it any more: its memory can be gone.
    p->is_constant[i] = false;
    p->constants[i] = (crn_slot){0};
  }
}

static void free_idle_buffers(crn_plan *p, crn_workspace *w) {
  crn_buffer **link = &w->owned;
  memset((void *)w->free_lists, 0, sizeof w->free_lists);
  memset((void *)w->scratch_lists, 0, sizeof w->scratch_lists);
  p->folded_bytes = 0;
  while (*link) {
    crn_buffer *b = *link;
    if (b->references > 0) {
      p->folded_bytes += (int64_t)b->bytes;
      link = &b->next_owned;
      continue;
    }
    *link = b->next_owned;
    crn_free(w->allocator, b->data, b->bytes);
    crn_free(w->allocator, b, sizeof *b);
  }
}

// A step inside of a composite's body is needed only if the direct kernel declines: it is left for then.
static uint32_t skip_body(const crn_plan *p, uint32_t i) {
  const crn_step *s = &p->steps[i];
  return s->kind == CRN_STEP_COMPOSITE && s->body_end ? s->body_end : i;
}

// Whoever keeps only a part of a program must know which constants folding needs.
static cairn_status note_reads(crn_plan *p, const crn_workspace *w, const crn_step *s) {
  bool is_view = s->n_out == 1 && s->n_in > 0 && w->slots[s->out[0]].buffer == w->slots[s->in[0]].buffer;
  for (uint32_t k = 0; k < s->n_in; k++) {
    if (is_view && k == 0) continue;
    CRN_TRY(crn_vec_push(&p->context->allocator, &p->folded_reads, p->constants[s->in[k]].tensor));
  }
  return CAIRN_OK;
}

typedef struct fold_run {
  crn_plan *plan;
  crn_workspace *workspace;
  bool keep_compressed;
  bool *folded;
  void (*progress)(void *user, const char *phase, int64_t done, int64_t total);
  void *progress_user;
} fold_run;

static cairn_status fold_steps(const fold_run *r) {
  crn_plan *p = r->plan;
  crn_workspace *w = r->workspace;
  for (uint32_t i = 0; i < p->n_steps; i++) {
    i = skip_body(p, i);
    const crn_step *s = &p->steps[i];
    if (r->progress && i % 16 == 0) r->progress(r->progress_user, "prepare", i, p->n_steps);
    if (!can_fold(p, s, r->keep_compressed) || !is_worth_keeping(w, s)) continue;
    cairn_status status = crn_run_step(w, s);
    if (status == CAIRN_OUT_OF_MEMORY) return status;
    if (status != CAIRN_OK) {
      // What cannot be computed now fails when it is run, with the same message; it may never be run at all.
      for (uint32_t k = 0; k < s->n_out; k++) crn_workspace_clear_slot(w, s->out[k]);
      crn_error_clear();
      continue;
    }
    CRN_TRY(note_reads(p, w, s));
    keep_results(p, w, s);
    r->folded[i] = true;
  }
  if (r->progress) r->progress(r->progress_user, "prepare", p->n_steps, p->n_steps);
  return CAIRN_OK;
}

// The workspace of the first folding serves the second one as well: it holds what was folded.
static cairn_status folding_workspace(crn_plan *p, crn_workspace **out) {
  if (!p->folded) {
    CRN_TRY(crn_workspace_create(p, &p->folded));
    p->release_folded = crn_workspace_destroy;
  }
  *out = p->folded;
  return CAIRN_OK;
}

cairn_status crn_plan_fold(crn_plan *p, bool keep_compressed, void (*progress)(void *user, const char *phase, int64_t done, int64_t total),
                           void *user) {
  const cairn_allocator *a = &p->context->allocator;
  size_t n_flags = (size_t)p->n_steps + p->n_slots;
  fold_run r = {.plan = p, .keep_compressed = keep_compressed, .progress = progress, .progress_user = user};
  uint32_t n_steps = p->n_steps;
  CRN_TRY(folding_workspace(p, &r.workspace));
  CRN_TRY(crn_alloc_array(a, n_flags, sizeof *r.folded, &r.folded));
  cairn_status status = fold_steps(&r);
  if (status == CAIRN_OK) status = crn_plan_drop(p, r.folded);
  if (status == CAIRN_OK) {
    drop_unused(p, r.workspace, r.folded + n_steps);
    free_idle_buffers(p, r.workspace);
  }
  crn_free(a, r.folded, n_flags * sizeof *r.folded);
  return status;
}
