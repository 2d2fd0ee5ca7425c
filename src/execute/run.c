#include "execute/run.h"

#include <string.h>
#include <time.h>

#include "base/checked.h"
#include "execute/pages.h"
#include "execute/replay.h"

// Kernels that do not read bit streams get their packed operands unpacked.
static cairn_status gather_operands(crn_workspace *w, const crn_step *s, crn_tensor *operands) {
  for (uint32_t i = 0; i < s->n_in; i++) {
    operands[i] = w->slots[s->in[i]].tensor;
    if (operands[i].pages && !crn_step_takes_pages(s, i)) CRN_TRY(crn_run_gather(w, s, i, &operands[i]));
    if (!operands[i].packed || crn_kernel_takes_packed(s->id)) continue;
    crn_tensor plain = crn_tensor_make(operands[i].dtype, operands[i].dims, operands[i].rank, NULL);
    size_t bytes;
    if (!crn_shape_bytes(plain.dtype, plain.dims, plain.rank, &bytes)) return CRN_FAIL(OUT_OF_RANGE, "operand %u is too large", i);
    CRN_TRY(w->scratch.take(&w->scratch, bytes, &plain.data));
    crn_tensor_unpack(&operands[i], &plain);
    operands[i] = plain;
  }
  return CAIRN_OK;
}

static cairn_status check_declared(const crn_tensor *result, const crn_type *type, uint32_t i) {
  if (result->dtype != type->dtype || result->rank != type->rank) {
    return CRN_FAIL(INVALID_ARGUMENT, "result %u is %s of rank %d, the program declares %s of rank %d", i, cairn_dtype_name(result->dtype),
                    result->rank, cairn_dtype_name(type->dtype), type->rank);
  }
  for (int d = 0; d < type->rank; d++) {
    if (type->dims[d] >= 0 && type->dims[d] != result->dims[d]) {
      return CRN_FAIL(INVALID_ARGUMENT, "dim %d of result %u is %lld, the program declares %lld", d, i, (long long)result->dims[d],
                      (long long)type->dims[d]);
    }
  }
  return CAIRN_OK;
}

cairn_status crn_run_infer(const crn_workspace *w, const crn_step *s, const crn_kernel_args *args) {
  for (uint32_t i = 0; i < s->n_out; i++) {
    const crn_type *type = w->plan->slot_types[s->out[i]];
    crn_tensor *r = &args->results[i];
    *r = (crn_tensor){.dtype = type->dtype, .rank = type->rank};
    for (int d = 0; d < type->rank; d++) r->dims[d] = type->dims[d];
  }
  crn_infer_args infer = {.id = s->id,
                          .mode = args->mode,
                          .attrs = args->attrs,
                          .fused = args->fused,
                          .n_operands = args->n_operands,
                          .operands = args->operands,
                          .n_results = args->n_results,
                          .results = args->results};
  CRN_TRY(s->infer(&infer));
  for (uint32_t i = 0; i < s->n_out; i++) CRN_TRY(check_declared(&args->results[i], w->plan->slot_types[s->out[i]], i));
  return CAIRN_OK;
}

static void set_slot(crn_workspace *w, uint32_t slot, const crn_tensor *tensor, crn_buffer *buffer) {
  crn_workspace_clear_slot(w, slot);
  w->slots[slot] = (crn_slot){*tensor, buffer};
}

static bool try_view(crn_workspace *w, const crn_step *s, crn_kernel_args *args, crn_tensor *operands, cairn_status *status) {
  bool done = false;
  *status = crn_run_view(w, s, args, operands, &done);
  if (*status != CAIRN_OK || !done) return false;
  for (uint32_t i = 0; i < s->n_out; i++) {
    crn_buffer *shared = w->slots[s->in[0]].buffer;
    if (shared) shared->references++;
    set_slot(w, s->out[i], &args->results[i], shared);
  }
  return true;
}

// The other dimensions keep their order and step over whole runs of the axis.
static void set_minor_axis(crn_tensor *t, int axis) {
  int64_t step = t->dims[axis];
  for (int d = t->rank - 1; d >= 0; d--) {
    if (d == axis) continue;
    t->strides[d] = step;
    step *= t->dims[d];
  }
  t->strides[axis] = 1;
}

void crn_run_lay_out(const crn_step *s, crn_tensor *r, void *data) {
  crn_tensor_set_contiguous(r);
  if (s->minor_axis) set_minor_axis(r, s->minor_axis);
  r->packed = false;
  r->pages = NULL;
  r->data = data;
}

static cairn_status allocate_results(crn_workspace *w, const crn_step *s, const crn_kernel_args *args) {
  for (uint32_t i = 0; i < s->n_out; i++) {
    crn_tensor *r = &args->results[i];
    size_t bytes;
    crn_buffer *buffer;
    if (!crn_shape_bytes(r->dtype, r->dims, r->rank, &bytes)) return CRN_FAIL(OUT_OF_RANGE, "result %u is too large for memory", i);
    CRN_TRY(crn_workspace_take(w, bytes, &buffer));
    crn_run_lay_out(s, r, buffer->data);
    set_slot(w, s->out[i], r, buffer);
  }
  return CAIRN_OK;
}

cairn_status crn_run_find_call(crn_workspace *w, const crn_step *s, crn_kernel_args *args, crn_tensor *operands, crn_tensor *results) {
  if (s->n_in > CRN_MAX_STEP_TENSORS || s->n_out > CRN_MAX_STEP_TENSORS) {
    return CRN_FAIL(UNSUPPORTED, "more than %d operands or results", CRN_MAX_STEP_TENSORS);
  }
  *args = (crn_kernel_args){.id = s->id,
                            .mode = crn_op_has_mode(s->id) ? s->op->attr.mode : 0,
                            .region = s->op->n_regions ? s->op->regions : NULL,
                            .fused = s->fused,
                            .is_rounded = w->plan->precision != CAIRN_PRECISION_EXACT,
                            .rows_as_one = w->rows_as_one,
                            .blind_rows_unused = w->blind_rows_unused,
                            .n_operands = (int)s->n_in,
                            .operands = operands,
                            .n_results = (int)s->n_out,
                            .results = results,
                            .pool = w->pool,
                            .scratch = &w->scratch,
                            .keeper = &w->keeper};
  if (s->composite) {
    args->attrs = s->composite->attrs;
    args->input_names = s->composite->n_inputs == s->n_in ? s->composite->input_names : NULL;
  }
  CRN_TRY(gather_operands(w, s, operands));
  if (s->cuts_rows) crn_tensor_keep_last_rows(&operands[0], w->last_rows);
  return crn_run_infer(w, s, args);
}

// The same in a run that is recorded: what operands were copied to make them plain is not there in the next run.
static cairn_status find_recorded(crn_workspace *w, const crn_step *s, crn_step_memo *m) {
  CRN_TRY(crn_run_find_call(w, s, &m->args, m->operands, m->results));
  if (w->n_scratch) m->is_always_new = true;
  return CAIRN_OK;
}

// The call of a step as the record says; false when the run has left the record.
static cairn_status prepare_again(crn_workspace *w, const crn_step *s, crn_call *c, bool *out_done) {
  const crn_step_memo *m = crn_memo_of(w, s);
  CRN_TRY(crn_replay_prepare(w, s, out_done));
  if (!*out_done) return CAIRN_OK;
  memcpy(c->operands, m->operands, s->n_in * sizeof *c->operands);
  memcpy(c->results, m->results, s->n_out * sizeof *c->results);
  c->args = m->args;
  c->args.operands = c->operands;
  c->args.results = c->results;
  return CAIRN_OK;
}

cairn_status crn_run_prepare(crn_workspace *w, const crn_step *s, crn_call *c) {
  bool done = false;
  if (crn_is_replaying(w)) CRN_TRY(prepare_again(w, s, c, &done));
  if (done) return CAIRN_OK;
  crn_step_memo *m = crn_memo_of(w, s);
  CRN_TRY(crn_run_find_call(w, s, &c->args, c->operands, c->results));
  CRN_TRY(allocate_results(w, s, &c->args));
  if (!m) return CAIRN_OK;
  memcpy(m->operands, c->operands, s->n_in * sizeof *c->operands);
  memcpy(m->results, c->results, s->n_out * sizeof *c->results);
  m->args = c->args;
  m->args.operands = m->operands;
  m->args.results = m->results;
  m->is_always_new |= w->n_scratch > 0;
  m->way = CRN_WAY_COMPUTE;
  return CAIRN_OK;
}

cairn_status crn_step_sizes(crn_workspace *w, const crn_step *s, size_t *out_result_bytes, size_t *out_operand_bytes) {
  crn_call c;
  *out_result_bytes = *out_operand_bytes = 0;
  cairn_status status = crn_run_find_call(w, s, &c.args, c.operands, c.results);
  for (uint32_t i = 0; i < s->n_out && status == CAIRN_OK; i++) {
    size_t bytes;
    if (!crn_shape_bytes(c.results[i].dtype, c.results[i].dims, c.results[i].rank, &bytes) ||
        !crn_add_size(*out_result_bytes, bytes, out_result_bytes)) {
      status = CRN_FAIL(OUT_OF_RANGE, "result %u is too large for memory", i);
    }
  }
  for (uint32_t i = 0; i < s->n_in && status == CAIRN_OK; i++) {
    const crn_tensor *t = &w->slots[s->in[i]].tensor;
    size_t bytes = cairn_dtype_bytes(t->dtype);
    for (int d = 0; d < t->rank; d++) bytes *= t->strides[d] || t->packed ? (size_t)t->dims[d] : 1;
    *out_operand_bytes += bytes;
  }
  crn_workspace_end_scratch(w);
  return status;
}

// Runs the call that was found; says how.
static cairn_status run_call(crn_workspace *w, const crn_step *s, crn_kernel_args *args, crn_tensor *operands, crn_step_way *out_way) {
  cairn_status status = CAIRN_OK;
  *out_way = CRN_WAY_VIEW;
  if (s->view && try_view(w, s, args, operands, &status)) return CAIRN_OK;
  CRN_TRY(status);
  *out_way = CRN_WAY_UPDATE;
  if (s->kind == CRN_STEP_UPDATE) {
    bool done;
    CRN_TRY(crn_run_update_in_place(w, s, args, &done));
    if (done) return CAIRN_OK;
    // Whether a state is copied is found out anew in each run.
    if (s->state != CRN_NO_STATE) crn_replay_void(w);
    if (operands[0].pages) CRN_TRY(crn_run_gather(w, s, 0, &operands[0]));
  }
  *out_way = CRN_WAY_COMPUTE;
  CRN_TRY(allocate_results(w, s, args));
  return s->kernel(args);
}

static cairn_status run_kernel(crn_workspace *w, const crn_step *s) {
  crn_step_memo *m = crn_memo_of(w, s);
  crn_step_way way;
  if (m) {
    CRN_TRY(find_recorded(w, s, m));
    CRN_TRY(run_call(w, s, &m->args, m->operands, &way));
    m->way = (uint8_t)way;
    return CAIRN_OK;
  }
  crn_call c;
  CRN_TRY(crn_run_find_call(w, s, &c.args, c.operands, c.results));
  return run_call(w, s, &c.args, c.operands, &way);
}

static void run_alias(crn_workspace *w, const crn_step *s) {
  crn_slot source = w->slots[s->in[0]];
  if (source.buffer) source.buffer->references++;
  set_slot(w, s->out[0], &source.tensor, source.buffer);
}

static cairn_status run_step(crn_workspace *w, const crn_step *s) {
  cairn_status status = CAIRN_OK;
  switch (s->kind) {
    case CRN_STEP_KERNEL:
    case CRN_STEP_UPDATE:
    case CRN_STEP_COMPOSITE:
      status = run_kernel(w, s);
      break;
    case CRN_STEP_ALIAS:
      run_alias(w, s);
      crn_replay_note(w, s, CRN_WAY_PLAIN);
      break;
    case CRN_STEP_READ:
      status = crn_run_read(w, s);
      crn_replay_note(w, s, CRN_WAY_PLAIN);
      break;
    case CRN_STEP_WRITE:
      status = crn_run_write(w, s);
      crn_replay_note(w, s, CRN_WAY_PLAIN);
      break;
    case CRN_STEP_IF:
    case CRN_STEP_LOOP:
    case CRN_STEP_TEST:
    case CRN_STEP_JUMP:
    case CRN_STEP_END:
      break;
  }
  return status;
}

cairn_status crn_run_step(crn_workspace *w, const crn_step *s) {
  cairn_status status = CAIRN_OK;
  bool done = false;
  if (crn_is_replaying(w)) status = crn_replay_step(w, s, &done);
  // A run that has left the record, or has none, finds out what the step does.
  if (status == CAIRN_OK && !done) status = run_step(w, s);
  crn_workspace_end_scratch(w);
  return status;
}

// --- tracing --------------------------------------------------------------------------------------------------------------

static double now_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static cairn_status report(const crn_workspace *w, const crn_step *s, const crn_trace *trace, double seconds) {
  cairn_ndarray *arrays[CRN_MAX_STEP_TENSORS];
  int n = 0;
  cairn_status status = CAIRN_OK;
  for (uint32_t i = 0; i < s->n_out && status == CAIRN_OK; i++) {
    crn_tensor t = w->slots[s->out[i]].tensor;
    if (t.packed) continue;
    status = crn_ndarray_create_uninitialized(w->plan->context, t.dtype, t.dims, t.rank, &arrays[n]);
    if (status == CAIRN_OK) crn_tensor_copy(&t, &arrays[n++]->view);
  }
  if (status == CAIRN_OK)
    trace->fn(trace->user, s - w->plan->steps, crn_step_name(s), s->op->location, (const cairn_ndarray *const *)arrays, n, seconds);
  for (int i = 0; i < n; i++) cairn_ndarray_release(arrays[i]);
  return status;
}

// --- the walk -------------------------------------------------------------------------------------------------------------

// Runs a composite by its kernel unless that declined before; then the walk goes on behind the body.
static cairn_status run_composite(crn_workspace *w, crn_step *s, uint32_t *in_out_index) {
  const crn_step_memo *m = crn_is_replaying(w) ? crn_memo_of(w, s) : NULL;
  if (m ? m->way == CRN_WAY_BODY : s->body_end && atomic_load_explicit(&s->use_body, memory_order_relaxed)) {
    crn_replay_note(w, s, CRN_WAY_BODY);
    return CAIRN_OK;
  }
  cairn_status status = crn_run_step(w, s);
  if (status == CAIRN_UNSUPPORTED && s->body_end) {
    for (uint32_t i = 0; i < s->n_out; i++) crn_workspace_clear_slot(w, s->out[i]);
    atomic_store_explicit(&s->use_body, true, memory_order_relaxed);
    crn_replay_note(w, s, CRN_WAY_BODY);
    return CAIRN_OK;
  }
  if (status == CAIRN_OK && s->body_end) *in_out_index = s->body_end;
  return status;
}

void crn_run_release(crn_workspace *w, const crn_step *s) {
  if (crn_memo_of(w, s)) crn_replay_pass(w, s);
  // What the next step of the record needs stays where it is.
  if (crn_is_replaying(w)) return;
  for (uint32_t i = 0; i < s->n_release; i++) crn_workspace_clear_slot(w, s->release[i]);
}

// The step to go on with behind a jump. Targets lie at a step that is run next, so the walk steps back by one.
static cairn_status follow_jump(const crn_workspace *w, const crn_step *s, uint32_t *in_out_index) {
  bool taken = s->kind == CRN_STEP_JUMP;
  if (s->kind == CRN_STEP_IF || s->kind == CRN_STEP_TEST) {
    const crn_tensor *condition = &w->slots[s->in[0]].tensor;
    if (crn_tensor_count(condition) != 1)
      return CRN_FAIL(INVALID_ARGUMENT, "a condition with %lld elements", (long long)crn_tensor_count(condition));
    uint8_t element[16];
    crn_tensor plain = crn_tensor_make(condition->dtype, condition->dims, condition->rank, element);
    crn_tensor_copy(condition, &plain);
    taken = crn_load_i64(condition->dtype, element) == 0;
  }
  if (taken) *in_out_index = s->target - 1;
  return CAIRN_OK;
}

static bool makes_results(const crn_step *s, bool went_on) {
  return s->n_out && s->kind != CRN_STEP_ALIAS && (s->kind != CRN_STEP_COMPOSITE || !s->body_end || went_on);
}

cairn_status crn_run_note(cairn_status status, const crn_workspace *w, uint32_t index) {
  const crn_step *s = &w->plan->steps[index];
  return crn_note(status, "operation %u, %s%s%s", index, crn_step_name(s), *s->op->location ? " at " : "", s->op->location);
}

// Goes on to the next step that the schedule of the record looks at, and runs it if nothing of its call can differ.
static cairn_status run_settled(crn_workspace *w, uint32_t stop, uint32_t *in_out_index, bool *out_done) {
  uint32_t at = w->replay->next_active[*in_out_index];
  *out_done = at >= stop;
  *in_out_index = *out_done ? stop : at;
  if (*out_done || !w->replay->steps[at].is_settled) return CAIRN_OK;
  crn_step_memo *m = &w->replay->steps[at];
  m->args.pool = w->pool;
  cairn_status status = m->kernel(&m->args);
  crn_workspace_end_scratch(w);
  if (m->is_streaming) crn_replay_ask(w, at + 1);
  // A composite's kernel that declines leaves the record, which is for the general way to do.
  if (status == CAIRN_UNSUPPORTED) return CAIRN_OK;
  *out_done = true;
  *in_out_index = at + 1;
  return status == CAIRN_OK ? status : crn_run_note(status, w, at);
}

cairn_status crn_run_next(crn_workspace *w, const crn_trace *trace, uint32_t stop, uint32_t *in_out_index) {
  const crn_plan *p = w->plan;
  bool done = false;
  if (crn_follows_schedule(w) && !trace->fn) CRN_TRY(run_settled(w, stop, in_out_index, &done));
  if (done) return CAIRN_OK;
  uint32_t at = *in_out_index, i = at;
  crn_step *s = &p->steps[at];
  double start = trace->fn ? now_seconds() : 0;
  cairn_status status = s->kind == CRN_STEP_COMPOSITE ? run_composite(w, s, &i) : crn_run_step(w, s);
  if (status == CAIRN_OK && trace->fn && makes_results(s, i != at)) status = report(w, s, trace, now_seconds() - start);
  if (status == CAIRN_OK) status = s->kind == CRN_STEP_COMPOSITE ? CAIRN_OK : follow_jump(w, s, &i);
  if (status != CAIRN_OK) return crn_run_note(status, w, at);
  crn_run_release(w, s);
  // Behind a composite that ran directly stands the END of its body, which holds the releases for both ways.
  if (s->kind == CRN_STEP_COMPOSITE && i != at) crn_run_release(w, &p->steps[i]);
  *in_out_index = i + 1;
  return CAIRN_OK;
}

static cairn_status walk(crn_workspace *w, const crn_trace *trace) {
  for (uint32_t i = 0; i < w->plan->n_steps;) CRN_TRY(crn_run_next(w, trace, w->plan->n_steps, &i));
  return CAIRN_OK;
}

cairn_status crn_run_plan(crn_workspace *w, const crn_trace *trace) {
  cairn_status status = walk(w, trace);
  crn_run_end_states(w, status == CAIRN_OK);
  return status;
}
