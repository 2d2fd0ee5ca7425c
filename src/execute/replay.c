#include "execute/replay.h"

#include <string.h>

#include "backend/cpu/fused/gather.h"
#include "backend/cpu/fused/linear.h"
#include "execute/pages.h"
#include "execute/run.h"

enum { CHANGED_VIEW = 1, CHANGED_VALUES = 2 };

// --- what depends on values ---------------------------------------------------------------------------------------------------

static bool is_control(const crn_step *s) {
  return s->kind == CRN_STEP_IF || s->kind == CRN_STEP_LOOP || s->kind == CRN_STEP_TEST || s->kind == CRN_STEP_JUMP;
}

// Steps whose results have the same sizes whatever their operands hold. Most of what indices are computed with is among them, which is
// different in every run.
static bool ignores_values(const crn_plan *p, const crn_step *s) {
  if (s->view) return false;
  if (s->kind == CRN_STEP_UPDATE || s->kind == CRN_STEP_COMPOSITE || s->fused) return true;
  switch (s->id) {
    case CRN_OP_concat:
      return p->is_constant[s->in[0]];
    case CRN_OP_get_shape:
    case CRN_OP_gather_nd:
      return true;
    default:
      return (crn_op_info_of(s->id)->traits & CRN_ELEMENTWISE) != 0;
  }
}

// The two ops whose sizes depend on elements other than a few integers.
static bool reads_any_elements(const crn_step *s) { return s->id == CRN_OP_non_zero || s->id == CRN_OP_range; }

static bool may_hold_sizes(cairn_dtype d) { return d == CAIRN_BOOL || crn_dtype_is_integer(d); }

// A view's shape and place do not depend on the elements seen.
static uint32_t first_read(const crn_step *s) { return s->view ? 1 : 0; }

static void find_watched(const crn_plan *p, crn_replay *r) {
  for (uint32_t i = 0; i < p->n_steps; i++) {
    const crn_step *s = &p->steps[i];
    crn_step_memo *m = &r->steps[i];
    m->is_always_new = reads_any_elements(s);
    bool has_call = s->kind == CRN_STEP_KERNEL || s->kind == CRN_STEP_UPDATE || s->kind == CRN_STEP_COMPOSITE;
    m->kernel = s->kernel;
    m->is_streaming = s->infer == crn_infer_fused_linear || s->infer == crn_infer_fused_gather;
    m->reads_values = has_call && !ignores_values(p, s);
    for (uint32_t k = first_read(s); k < s->n_in && m->reads_values; k++) {
      uint32_t slot = s->in[k];
      if (!p->is_constant[slot] && may_hold_sizes(p->slot_types[slot]->dtype) && !r->watch[slot]) r->watch[slot] = (uint32_t)++r->n_values;
    }
  }
}

// --- making and forgetting ----------------------------------------------------------------------------------------------------

static cairn_status make_tables(crn_workspace *w, crn_replay *r) {
  const crn_plan *p = w->plan;
  const cairn_allocator *a = w->allocator;
  for (uint32_t i = 0; i < p->n_steps; i++) r->n_tensors += (size_t)p->steps[i].n_in + p->steps[i].n_out;
  CRN_TRY(crn_alloc_array(a, p->n_steps, sizeof *r->steps, &r->steps));
  // Not cleared: the bodies of composites, which are most of the steps, are seldom run, and their part is then no memory.
  r->n_tensors++;
  CRN_TRY(crn_alloc(a, r->n_tensors * sizeof *r->tensors, &r->tensors));
  CRN_TRY(crn_alloc_array(a, p->n_slots, sizeof *r->released, &r->released));
  CRN_TRY(crn_alloc_array(a, p->n_slots, sizeof *r->changed, &r->changed));
  CRN_TRY(crn_alloc_array(a, p->n_slots, sizeof *r->watch, &r->watch));
  CRN_TRY(crn_alloc_array(a, p->n_inputs, sizeof *r->inputs, &r->inputs));
  CRN_TRY(crn_alloc_array(a, p->n_states, sizeof *r->states, &r->states));
  CRN_TRY(crn_alloc_array(a, p->n_states, sizeof *r->is_state_changed, &r->is_state_changed));
  CRN_TRY(crn_alloc_array(a, p->n_inputs, sizeof *r->differing, &r->differing));
  CRN_TRY(crn_alloc_array(a, p->n_inputs, sizeof *r->seen, &r->seen));
  CRN_TRY(crn_alloc_array(a, (size_t)p->n_steps + 1, sizeof *r->next_active, &r->next_active));
  crn_tensor *next = r->tensors;
  for (uint32_t i = 0; i < p->n_steps; i++) {
    r->steps[i].operands = next;
    r->steps[i].results = next + p->steps[i].n_in;
    next += p->steps[i].n_in + p->steps[i].n_out;
  }
  find_watched(p, r);
  return crn_alloc_array(a, r->n_values, sizeof *r->values, &r->values);
}

static cairn_status create(crn_workspace *w) {
  const crn_plan *p = w->plan;
  crn_replay *r;
  CRN_TRY(crn_alloc_zero(w->allocator, sizeof *r, &r));
  w->replay = r;
  r->is_straight = true;
  for (uint32_t i = 0; i < p->n_steps && r->is_straight; i++) {
    r->is_straight = !is_control(&p->steps[i]) && p->steps[i].n_in <= CRN_MAX_STEP_TENSORS && p->steps[i].n_out <= CRN_MAX_STEP_TENSORS;
  }
  cairn_status status = r->is_straight ? make_tables(w, r) : CAIRN_OK;
  if (status != CAIRN_OK) crn_replay_destroy(w);
  return status;
}

void crn_replay_destroy(crn_workspace *w) {
  crn_replay *r = w->replay;
  const crn_plan *p = w->plan;
  const cairn_allocator *a = w->allocator;
  if (!r) return;
  crn_free(a, r->steps, p->n_steps * sizeof *r->steps);
  crn_free(a, r->tensors, r->n_tensors * sizeof *r->tensors);
  crn_free(a, r->released, p->n_slots * sizeof *r->released);
  crn_free(a, r->changed, p->n_slots * sizeof *r->changed);
  crn_free(a, r->watch, p->n_slots * sizeof *r->watch);
  crn_free(a, r->values, r->n_values * sizeof *r->values);
  crn_free(a, r->inputs, p->n_inputs * sizeof *r->inputs);
  crn_free(a, r->states, p->n_states * sizeof *r->states);
  crn_free(a, r->is_state_changed, p->n_states * sizeof *r->is_state_changed);
  crn_free(a, r->differing, p->n_inputs * sizeof *r->differing);
  crn_free(a, r->seen, p->n_inputs * sizeof *r->seen);
  crn_free(a, r->next_active, ((size_t)p->n_steps + 1) * sizeof *r->next_active);
  crn_free(a, r, sizeof *r);
  w->replay = NULL;
}

// --- leaving the record -------------------------------------------------------------------------------------------------------

// The step behind `i` on the way the record took.
static uint32_t step_behind(const crn_workspace *w, uint32_t i) {
  const crn_step *s = &w->plan->steps[i];
  bool is_direct = s->kind == CRN_STEP_COMPOSITE && s->body_end && w->replay->steps[i].way != CRN_WAY_BODY;
  return (is_direct ? s->body_end : i) + 1;
}

static void mark(bool *is_live, const uint32_t *slots, uint32_t n, bool live) {
  for (uint32_t k = 0; k < n; k++) is_live[slots[k]] = live;
}

// Which slots are in use in front of step `stop`.
static void find_live(const crn_workspace *w, uint32_t stop, bool *is_live) {
  const crn_plan *p = w->plan;
  memset(is_live, 0, p->n_slots * sizeof *is_live);
  mark(is_live, p->input_slots, p->n_inputs, true);
  for (uint32_t i = 0; i < stop; i = step_behind(w, i)) {
    const crn_step *s = &p->steps[i], *last = &p->steps[step_behind(w, i) - 1];
    if (w->replay->steps[i].way != CRN_WAY_BODY) mark(is_live, s->out, s->n_out, true);
    mark(is_live, s->release, s->n_release, false);
    if (last != s) mark(is_live, last->release, last->n_release, false);
  }
}

// Counts the references to all buffers anew. Slots that are not live are emptied, buffers without a slot are free.
static void count_anew(crn_workspace *w, const bool *is_live) {
  const crn_plan *p = w->plan;
  for (crn_buffer *b = w->owned; b; b = b->next_owned) b->references = 0;
  for (uint32_t i = 0; i < p->n_states; i++) w->states[i].buffer.references = 0;
  for (uint32_t i = 0; i < p->n_slots; i++) {
    if (p->is_constant[i]) continue;
    if (!is_live[i]) {
      // Of a slot that a step before released, the record needs what it was.
      w->replay->released[i] = w->slots[i];
      w->slots[i] = (crn_slot){0};
    }
    if (w->slots[i].buffer) w->slots[i].buffer->references++;
  }
  crn_workspace_find_free(w);
}

// From step `stop` on this run is a first one.
static void leave(crn_workspace *w, uint32_t stop) {
  crn_replay *r = w->replay;
  crn_workspace_end_scratch(w);
  bool *is_live = (bool *)r->changed;  // nobody asks any more what changed
  find_live(w, stop, is_live);
  count_anew(w, is_live);
  for (uint32_t i = stop; i < w->plan->n_steps; i++) r->steps[i].way = CRN_WAY_NONE;
  r->mode = CRN_REPLAY_RECORDING;
  r->is_complete = r->has_schedule = r->is_scheduled = false;
}

bool crn_replay_reset(crn_workspace *w) {
  crn_replay *r = w->replay;
  if (!r || !r->is_straight) return false;
  bool has_counts = !r->is_complete;
  r->mode = CRN_REPLAY_OFF;
  r->is_complete = false;
  if (has_counts) return false;
  memset(r->changed, 0, w->plan->n_slots);
  count_anew(w, (const bool *)r->changed);
  return true;
}

// --- begin and end ------------------------------------------------------------------------------------------------------------

// Views over pages look into the table when they are used, so it may change behind them.
static bool same_view(const crn_tensor *a, const crn_tensor *b) {
  size_t bytes = (size_t)a->rank * sizeof *a->dims;
  return a->pages == b->pages && a->data == b->data && a->dtype == b->dtype && a->rank == b->rank && a->packed == b->packed &&
         !memcmp(a->dims, b->dims, bytes) && !memcmp(a->strides, b->strides, bytes);
}

static bool is_plain(const crn_workspace *w) {
  for (uint32_t i = 0; i < w->plan->n_inputs; i++) {
    const crn_slot *slot = &w->slots[w->plan->input_slots[i]];
    if (slot->buffer || slot->tensor.pages) return false;
  }
  for (uint32_t i = 0; i < w->plan->n_states; i++) {
    if (w->states[i].array->is_interleaved) return false;
  }
  return true;
}

// Whether the elements are others than before, which are forgotten.
static bool take_values(crn_replay_values *v, const crn_tensor *t) {
  int64_t n = crn_tensor_count(t);
  size_t bytes = (size_t)n * cairn_dtype_bytes(t->dtype);
  bool is_known = n <= CRN_REPLAY_VALUES && bytes <= sizeof v->bytes && !t->packed && !t->pages && crn_tensor_is_contiguous(t);
  bool is_same = is_known && v->n == n && !memcmp(v->bytes, t->data, bytes);
  v->n = is_known ? n : -1;
  if (is_known && !is_same) memcpy(v->bytes, t->data, bytes);
  return !is_same;
}

static void note_values(crn_workspace *w, uint32_t slot) {
  crn_replay *r = w->replay;
  if (!r->watch[slot] || !w->slots[slot].tensor.data) return;
  if (take_values(&r->values[r->watch[slot] - 1], &w->slots[slot].tensor)) r->changed[slot] |= CHANGED_VALUES;
}

// --- the schedule -------------------------------------------------------------------------------------------------------------

// What of a step's results may differ, for what may differ of its operands; says whether the step must be looked at. Here elements of all
// slots count, also of those whose elements nobody compares.
static bool schedule_step(const crn_workspace *w, const crn_step *s, crn_step_memo *m, uint8_t *may) {
  const crn_replay *r = w->replay;
  uint8_t in = 0;
  bool has_other_sizes = false, is_watched = false;
  for (uint32_t k = 0; k < s->n_in; k++) {
    in |= may[s->in[k]];
    has_other_sizes |= k >= first_read(s) && r->watch[s->in[k]] && (may[s->in[k]] & CHANGED_VALUES);
  }
  bool differs = (in & CHANGED_VIEW) || (m->reads_values && has_other_sizes) || m->is_always_new;
  bool has_other_values = s->kind == CRN_STEP_READ || differs || ((in & CHANGED_VALUES) && s->id != CRN_OP_get_shape);
  for (uint32_t k = 0; k < s->n_out; k++) {
    // A view that has not changed yet is taken to stay; the run that shows otherwise leaves the schedule (put_view).
    may[s->out[k]] |= (uint8_t)((differs && m->is_changing ? CHANGED_VIEW : 0) | (has_other_values ? CHANGED_VALUES : 0));
    is_watched |= has_other_values && r->watch[s->out[k]];
  }
  m->is_settled = m->way == CRN_WAY_COMPUTE && !differs && !is_watched;
  return m->way == CRN_WAY_COMPUTE || m->way == CRN_WAY_UPDATE || differs || is_watched;
}

static void make_schedule(crn_workspace *w) {
  crn_replay *r = w->replay;
  const crn_plan *p = w->plan;
  uint8_t *may = r->changed;  // compared anew behind this
  memset(may, 0, p->n_slots);
  for (uint32_t i = 0; i < p->n_inputs; i++) {
    uint32_t slot = p->input_slots[i];
    may[slot] = r->differing[i] | (r->watch[slot] ? 0 : CHANGED_VALUES);
  }
  for (uint32_t i = 0; i <= p->n_steps; i++) r->next_active[i] = p->n_steps;
  for (uint32_t i = 0; i < p->n_steps; i = step_behind(w, i)) {
    if (r->steps[i].way != CRN_WAY_BODY && r->steps[i].way != CRN_WAY_NONE && schedule_step(w, &p->steps[i], &r->steps[i], may))
      r->next_active[i] = i;
  }
  for (uint32_t i = p->n_steps; i-- > 0;) {
    if (r->next_active[i] != i) r->next_active[i] = r->next_active[i + 1];
  }
  r->has_schedule = true;
}

// A prompt differs in more ways than the tokens behind it: what has not differed for a while is not reckoned with any more.
static void forget_differences(crn_workspace *w) {
  enum { A_WHILE = 6 };
  crn_replay *r = w->replay;
  uint32_t n = w->plan->n_inputs;
  for (uint32_t i = 0; i < n; i++) r->seen[i] |= r->changed[w->plan->input_slots[i]];
  if (++r->n_seen < A_WHILE) return;
  if (memcmp(r->seen, r->differing, n)) {
    memcpy(r->differing, r->seen, n);
    for (uint32_t i = 0; i < w->plan->n_steps; i++) r->steps[i].is_changing = false;
    r->has_schedule = false;
  }
  memset(r->seen, 0, n);
  r->n_seen = 0;
}

// The schedule is for inputs that differ as they did in some run before. Other states or rows are rare: such a run asks every step.
static void choose_schedule(crn_workspace *w) {
  crn_replay *r = w->replay;
  const crn_plan *p = w->plan;
  forget_differences(w);
  r->is_scheduled = !r->has_other_rows;
  for (uint32_t i = 0; i < p->n_states; i++) r->is_scheduled &= !r->is_state_changed[i];
  for (uint32_t i = 0; i < p->n_inputs; i++) {
    uint8_t changed = r->changed[p->input_slots[i]];
    if (!(changed & ~r->differing[i])) continue;
    r->differing[i] |= changed;
    r->has_schedule = false;
  }
  if (r->has_schedule || !r->is_scheduled) return;
  make_schedule(w);
  // The marks of this run were lost on the way: all that may differ is taken to.
  memset(r->changed, 0, p->n_slots);
  for (uint32_t i = 0; i < p->n_inputs; i++) r->changed[p->input_slots[i]] = r->differing[i];
}

static void compare_arguments(crn_workspace *w) {
  crn_replay *r = w->replay;
  const crn_plan *p = w->plan;
  memset(r->changed, 0, p->n_slots);
  for (uint32_t i = 0; i < p->n_inputs; i++) {
    uint32_t slot = p->input_slots[i];
    const crn_tensor *now = &w->slots[slot].tensor;
    if (!same_view(now, &r->inputs[i])) r->changed[slot] |= CHANGED_VIEW;
    r->inputs[i] = *now;
    note_values(w, slot);
  }
  for (uint32_t i = 0; i < p->n_states; i++) {
    const crn_tensor *now = &w->states[i].array->view;
    r->is_state_changed[i] = !same_view(now, &r->states[i]);
    r->states[i] = *now;
  }
  r->has_other_rows = r->last_rows != w->last_rows;
  r->last_rows = w->last_rows;
  const bool is_alike = r->rows_as_one == w->rows_as_one && r->blind_rows_unused == w->blind_rows_unused;
  for (uint32_t i = 0; i < p->n_steps && r->is_complete && !is_alike; i++) {
    r->steps[i].args.rows_as_one = w->rows_as_one;
    r->steps[i].args.blind_rows_unused = w->blind_rows_unused;
  }
  r->rows_as_one = w->rows_as_one;
  r->blind_rows_unused = w->blind_rows_unused;
}

cairn_status crn_replay_begin(crn_workspace *w) {
  if (!w->has_run) {
    // Many functions run once: a record is for those that run again.
    w->has_run = true;
    return CAIRN_OK;
  }
  if (!w->replay) CRN_TRY(create(w));
  crn_replay *r = w->replay;
  if (!r->is_straight) return CAIRN_OK;
  r->is_void = !is_plain(w);
  if (r->is_complete && r->is_void) leave(w, 0);
  compare_arguments(w);
  r->mode = r->is_complete ? CRN_REPLAY_RUNNING : CRN_REPLAY_RECORDING;
  if (r->is_complete) {
    choose_schedule(w);
  } else {
    for (uint32_t i = 0; i < w->plan->n_steps; i++) r->steps[i].way = CRN_WAY_NONE;
  }
  return CAIRN_OK;
}

// Slots that were emptied get back what they had: it is there, and the next run will use it in the same order.
static void restore_slots(crn_workspace *w) {
  const crn_plan *p = w->plan;
  for (uint32_t i = 0; i < p->n_steps; i = step_behind(w, i)) {
    const crn_step *s = &p->steps[i], *last = &p->steps[step_behind(w, i) - 1];
    for (uint32_t k = 0; k < s->n_release; k++) w->slots[s->release[k]] = w->replay->released[s->release[k]];
    for (uint32_t k = 0; k < last->n_release && last != s; k++) w->slots[last->release[k]] = w->replay->released[last->release[k]];
  }
}

bool crn_replay_finish(crn_workspace *w) {
  crn_replay *r = w->replay;
  if (!r || r->mode == CRN_REPLAY_OFF) return false;
  if (r->mode == CRN_REPLAY_RECORDING && !r->is_void) {
    restore_slots(w);
    r->is_complete = true;
  }
  r->mode = CRN_REPLAY_OFF;
  return r->is_complete;
}

void crn_replay_pass(crn_workspace *w, const crn_step *s) {
  crn_replay *r = w->replay;
  for (uint32_t k = 0; k < s->n_out; k++) note_values(w, s->out[k]);
  for (uint32_t k = 0; k < s->n_release && r->mode == CRN_REPLAY_RECORDING; k++) r->released[s->release[k]] = w->slots[s->release[k]];
}

// --- a step -------------------------------------------------------------------------------------------------------------------

static bool is_new(const crn_replay *r, const crn_step *s, const crn_step_memo *m) {
  uint8_t changed = 0, read = 0;
  for (uint32_t k = 0; k < s->n_in; k++) {
    changed |= r->changed[s->in[k]];
    read |= k >= first_read(s) ? r->changed[s->in[k]] : 0;
  }
  return (changed & CHANGED_VIEW) || (m->reads_values && read) || m->is_always_new || (s->cuts_rows && r->has_other_rows);
}

// The result of a step is another view now. The steps behind it are asked one by one if the schedule did not reckon with that.
static void note_change(crn_replay *r, crn_step_memo *m, uint32_t slot) {
  r->changed[slot] |= CHANGED_VIEW;
  if (m->is_changing) return;
  m->is_changing = true;
  r->has_schedule = r->is_scheduled = false;
}

static void put_view(crn_workspace *w, const crn_step *s, crn_step_memo *m, uint32_t k, const crn_tensor *now) {
  m->results[k] = *now;
  crn_tensor *slot = &w->slots[s->out[k]].tensor;
  if (same_view(slot, now)) return;
  *slot = *now;
  note_change(w->replay, m, s->out[k]);
}

// Results that have other sizes now keep their memory while it is large enough.
static bool resize_results(crn_workspace *w, const crn_step *s, crn_step_memo *m, crn_tensor *fresh) {
  for (uint32_t k = 0; k < s->n_out; k++) {
    const crn_buffer *buffer = w->slots[s->out[k]].buffer;
    size_t bytes;
    if (fresh[k].dtype == m->results[k].dtype && crn_tensor_same_shape(&fresh[k], &m->results[k])) continue;
    if (!buffer || !crn_shape_bytes(fresh[k].dtype, fresh[k].dims, fresh[k].rank, &bytes) || bytes > buffer->bytes) return false;
    crn_run_lay_out(s, &fresh[k], buffer->data);
    put_view(w, s, m, k, &fresh[k]);
  }
  return true;
}

// The call of a step whose operands are where they were, but for some. Operands that have to be copied to be plain are found the long way.
static cairn_status find_call_again(crn_workspace *w, const crn_step *s, crn_step_memo *m, crn_tensor *fresh) {
  bool is_plain_call = !m->is_always_new && !s->cuts_rows;
  for (uint32_t k = 0; k < s->n_in && is_plain_call; k++) {
    const crn_tensor *t = &w->slots[s->in[k]].tensor;
    if (!(w->replay->changed[s->in[k]] & CHANGED_VIEW)) continue;
    is_plain_call = !t->packed && !t->pages;
    m->operands[k] = *t;
  }
  if (!is_plain_call) return crn_run_find_call(w, s, &m->args, m->operands, fresh);
  m->args.results = fresh;
  return crn_run_infer(w, s, &m->args);
}

// Prepares a step again. `*out_stays` tells whether it can still go the recorded way.
static cairn_status prepare(crn_workspace *w, const crn_step *s, crn_step_memo *m, bool *out_stays) {
  crn_tensor fresh[CRN_MAX_STEP_TENSORS];
  bool is_view = false;
  *out_stays = true;
  CRN_TRY(find_call_again(w, s, m, fresh));
  if (s->view) CRN_TRY(crn_run_view(w, s, &m->args, m->operands, &is_view));
  m->args.results = m->results;
  if (is_view != (m->way == CRN_WAY_VIEW)) {
    *out_stays = false;
  } else if (is_view) {
    for (uint32_t k = 0; k < s->n_out; k++) put_view(w, s, m, k, &fresh[k]);
  } else if (m->way == CRN_WAY_UPDATE) {
    memcpy(m->results, fresh, s->n_out * sizeof *fresh);
  } else {
    *out_stays = resize_results(w, s, m, fresh);
  }
  return CAIRN_OK;
}

static cairn_status update(crn_workspace *w, const crn_step *s, crn_step_memo *m, bool *out_done) {
  const crn_slot *base = &w->slots[s->in[0]];
  // A value that lies where it lay is the one of the record, as is the result, which lies there, too: slots need not be looked at.
  const bool stays = !(w->replay->changed[s->in[0]] & CHANGED_VIEW);
  crn_tensor target = stays ? m->operands[0] : base->tensor;
  int64_t bytes = -1;
  *out_done = false;
  if (!base->buffer->is_state && !crn_tensor_is_contiguous(&target)) return CAIRN_OK;
  CRN_TRY(crn_run_apply_update(w, s, &m->args, &target, &bytes));
  if (bytes < 0) return CAIRN_OK;
  if (base->buffer->is_state) w->bytes_written += bytes;
  *out_done = true;
  if (!stays || m->is_changing) put_view(w, s, m, 0, &target);
  return CAIRN_OK;
}

static cairn_status replay_call(crn_workspace *w, const crn_step *s, crn_step_memo *m, bool runs_kernel, bool *out_done) {
  bool is_settled = m->is_settled && w->replay->is_scheduled;
  *out_done = true;
  if (!is_settled && is_new(w->replay, s, m)) CRN_TRY(prepare(w, s, m, out_done));
  if (!*out_done || m->way == CRN_WAY_VIEW) return CAIRN_OK;
  m->args.pool = w->pool;
  if (m->way == CRN_WAY_UPDATE) return update(w, s, m, out_done);
  cairn_status status = runs_kernel ? s->kernel(&m->args) : CAIRN_OK;
  // A composite's kernel does not do this any more: its body will.
  if (status == CAIRN_UNSUPPORTED && s->kind == CRN_STEP_COMPOSITE && s->body_end) {
    *out_done = false;
    return CAIRN_OK;
  }
  return status;
}

// An alias, a read, or a write of what lies in the state already.
static void replay_plain(crn_workspace *w, const crn_step *s, bool *out_done) {
  crn_replay *r = w->replay;
  if (s->kind == CRN_STEP_WRITE) {
    *out_done = !(r->changed[s->in[0]] & CHANGED_VIEW) || same_view(&w->slots[s->in[0]].tensor, &r->states[s->state]);
    return;
  }
  bool is_read = s->kind == CRN_STEP_READ;
  *out_done = true;
  if (is_read ? !r->is_state_changed[s->state] : !(r->changed[s->in[0]] & CHANGED_VIEW)) return;
  w->slots[s->out[0]].tensor = is_read ? r->states[s->state] : w->slots[s->in[0]].tensor;
  note_change(r, crn_memo_of(w, s), s->out[0]);
}

static cairn_status replay(crn_workspace *w, const crn_step *s, bool runs_kernel, bool *out_done) {
  crn_step_memo *m = crn_memo_of(w, s);
  cairn_status status = CAIRN_OK;
  *out_done = true;
  if (m->way == CRN_WAY_PLAIN) {
    replay_plain(w, s, out_done);
  } else if (m->way != CRN_WAY_NONE) {
    status = replay_call(w, s, m, runs_kernel, out_done);
  }
  if (!*out_done) leave(w, (uint32_t)(s - w->plan->steps));
  return status;
}

cairn_status crn_replay_step(crn_workspace *w, const crn_step *s, bool *out_done) { return replay(w, s, true, out_done); }

cairn_status crn_replay_prepare(crn_workspace *w, const crn_step *s, bool *out_done) { return replay(w, s, false, out_done); }
