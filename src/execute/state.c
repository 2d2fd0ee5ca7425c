// Reads, writes and in-place updates of states.
//
// A read gives a view of the state's own memory. The buffer of a state counts the slots that view it, so an update knows
// whether anybody else would see the change: if not, it happens in place; if so, the other viewers get a copy first.
#include <string.h>

#include "backend/cpu/fused/state.h"
#include "base/log.h"
#include "execute/replay.h"
#include "execute/run.h"
#include "tensor/pages.h"

static size_t tensor_bytes(const crn_tensor *t) { return (size_t)crn_tensor_count(t) * cairn_dtype_bytes(t->dtype); }

// What a run sees of a state.
static const crn_tensor *memory_of(const crn_bound_state *state) { return state->plain_buffer ? &state->plain : &state->array->view; }

// Kernels know no interleave: they get the state in plain order.
static cairn_status make_plain(crn_workspace *w, crn_bound_state *state) {
  const crn_tensor *view = &state->array->view;
  crn_tensor plain = crn_tensor_make(view->dtype, view->dims, view->rank, NULL);
  CRN_TRY(crn_workspace_take(w, tensor_bytes(&plain), &state->plain_buffer));
  plain.data = state->plain_buffer->data;
  crn_ndarray_copy_out(state->array, &plain);
  state->plain = plain;
  return CAIRN_OK;
}

void crn_run_end_states(crn_workspace *w, bool is_finished) {
  for (uint32_t i = 0; i < w->plan->n_states; i++) {
    crn_bound_state *state = &w->states[i];
    if (!state->plain_buffer) continue;
    if (is_finished && state->is_plain_written) {
      (void)crn_ndarray_copy_in(state->array, &state->plain);  // an interleaved array has its memory
      w->bytes_written += (int64_t)tensor_bytes(&state->plain);
      w->bytes_copied += (int64_t)tensor_bytes(&state->plain);
    }
    crn_workspace_drop(w, state->plain_buffer);
    state->plain_buffer = NULL;
    state->is_plain_written = false;
  }
}

cairn_status crn_run_read(crn_workspace *w, const crn_step *s) {
  crn_bound_state *state = &w->states[s->state];
  cairn_ndarray *array = state->array;
  crn_slot *slot = &w->slots[s->out[0]];
  crn_workspace_clear_slot(w, s->out[0]);
  if (array->is_interleaved && !state->plain_buffer) CRN_TRY(make_plain(w, state));
  state->buffer.references++;
  *slot = (crn_slot){*memory_of(state), &state->buffer};
  return CAIRN_OK;
}

static bool same_view(const crn_tensor *a, const crn_tensor *b) {
  return a->data == b->data && a->pages == b->pages && a->dtype == b->dtype && crn_tensor_same_shape(a, b) &&
         !memcmp(a->strides, b->strides, (size_t)a->rank * sizeof *a->strides);
}

// Moves every slot that views the state's memory to a copy, so that the state can be overwritten.
static cairn_status detach_viewers(crn_workspace *w, crn_bound_state *state) {
  for (uint32_t i = 0; i < w->plan->n_slots && state->buffer.references > 0; i++) {
    crn_slot *slot = &w->slots[i];
    if (slot->buffer != &state->buffer) continue;
    crn_tensor copy = crn_tensor_make(slot->tensor.dtype, slot->tensor.dims, slot->tensor.rank, NULL);
    crn_buffer *buffer;
    CRN_TRY(crn_workspace_take(w, tensor_bytes(&copy), &buffer));
    copy.data = buffer->data;
    crn_tensor_copy(&slot->tensor, &copy);
    state->buffer.references--;
    *slot = (crn_slot){copy, buffer};
  }
  return CAIRN_OK;
}

cairn_status crn_run_write(crn_workspace *w, const crn_step *s) {
  crn_bound_state *state = &w->states[s->state];
  const crn_slot *value = &w->slots[s->in[0]];
  const crn_tensor *target = memory_of(state);
  state->is_plain_written = state->plain_buffer != NULL;
  // The updated value already lies in the state: nothing moves.
  if (value->buffer == &state->buffer && same_view(&value->tensor, target)) return CAIRN_OK;
  if (!crn_tensor_same_shape(&value->tensor, target)) {
    return CRN_FAIL(INVALID_ARGUMENT, "the new value of state '%s' has another shape than the state's array",
                    w->plan->states[s->state].name);
  }
  crn_replay_void(w);
  CRN_TRY(detach_viewers(w, state));
  if (state->plain_buffer) {
    crn_tensor_copy(&w->slots[s->in[0]].tensor, &state->plain);
  } else {
    CRN_TRY(crn_ndarray_copy_in(state->array, &w->slots[s->in[0]].tensor));
  }
  w->bytes_written += (int64_t)tensor_bytes(target);
  w->bytes_copied += (int64_t)tensor_bytes(target);
  return CAIRN_OK;
}

static bool is_released(const crn_step *s, uint32_t slot) {
  for (uint32_t i = 0; i < s->n_release; i++) {
    if (s->release[i] == slot) return true;
  }
  return false;
}

cairn_status crn_run_apply_update(const crn_workspace *w, const crn_step *s, crn_kernel_args *args, const crn_tensor *target,
                                  int64_t *out_bytes) {
  cairn_status status = s->update ? s->update(args, target, out_bytes) : crn_slice_update_in_place(args, target, out_bytes);
  bool is_state = w->slots[s->in[0]].buffer->is_state;
  return status != CAIRN_OK && is_state ? crn_note(status, "updating state '%s'", w->plan->states[s->state].name) : status;
}

cairn_status crn_run_update_in_place(crn_workspace *w, const crn_step *s, crn_kernel_args *args, bool *out_done) {
  crn_slot *base = &w->slots[s->in[0]];
  crn_buffer *buffer = base->buffer;
  *out_done = false;
  // Only this slot may see the memory, and nobody may want the old value afterwards.
  if (!buffer || buffer->references != 1 || !is_released(s, s->in[0])) return CAIRN_OK;
  if (buffer->is_state ? s->state == CRN_NO_STATE || buffer != &w->states[s->state].buffer : !crn_tensor_is_contiguous(&base->tensor))
    return CAIRN_OK;
  crn_tensor target = base->tensor;
  int64_t bytes = -1;
  CRN_TRY(crn_run_apply_update(w, s, args, &target, &bytes));
  if (bytes < 0) return CAIRN_OK;
  if (buffer->is_state) w->bytes_written += bytes;
  buffer->references++;
  crn_workspace_clear_slot(w, s->out[0]);
  w->slots[s->out[0]] = (crn_slot){target, buffer};
  *out_done = true;
  return CAIRN_OK;
}
