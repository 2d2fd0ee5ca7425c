// A plan as text: what `cairn inspect --plan` shows and what the tests of the passes compare.
#include "specialize/print.h"
#include "specialize/pages.h"

#include "backend/cpu/fused/conv.h"
#include "backend/cpu/fused/gather.h"
#include "backend/cpu/fused/linear.h"
#include "backend/cpu/kernels/tiles/tiles.h"

static cairn_status print_slots(const crn_plan *p, const uint32_t *slots, uint32_t n, crn_str *out) {
  for (uint32_t i = 0; i < n; i++) {
    const crn_type *t = p->slot_types[slots[i]];
    CRN_TRY(crn_str_printf(out, "%s%s%u:%s[", i ? ", " : "", p->is_constant[slots[i]] ? "#" : "%", slots[i], cairn_dtype_name(t->dtype)));
    for (int d = 0; d < t->rank; d++) {
      if (t->dims[d] < 0) CRN_TRY(crn_str_printf(out, "%s?", d ? "," : ""));
      if (t->dims[d] >= 0) CRN_TRY(crn_str_printf(out, "%s%lld", d ? "," : "", (long long)t->dims[d]));
    }
    CRN_TRY(crn_str_puts(out, "]"));
  }
  return CAIRN_OK;
}

static const char *const g_formats[] = {
    "4-bit", "4-bit with minimum", "8-bit",         "8-bit with minimum", "f16",           "bf16",
    "f32",   "1-bit palette",      "2-bit palette", "4-bit palette",      "6-bit palette", "8-bit palette"};

// How many matrices of a stack one row takes: the last size of its indices.
static int64_t chosen_of(const crn_plan *p, const crn_step *s) {
  const crn_fused_gather *f = s->fused;
  const crn_type *index = p->slot_types[s->in[f->n_operands - 1]];
  int64_t stack = f->rhs.dims[f->rhs.rank - 3], chosen = index->rank > 0 ? index->dims[index->rank - 1] : 1;
  return chosen < 0 || chosen > stack ? stack : chosen;
}

// Bytes of packed weights that a step reads for one row: all of a matrix, one row of a lookup, the matrices chosen of a stack.
static int64_t weight_bytes(const crn_plan *p, const crn_step *s) {
  if (!s->fused) return 0;
  if (s->infer == crn_infer_fused_linear) return (int64_t)((const crn_fused_linear *)s->fused)->weights.bytes;
  if (s->infer == crn_infer_fused_lookup) {
    const crn_linear_weights *w = &((const crn_fused_lookup *)s->fused)->weights;
    return w->n ? (int64_t)w->bytes / w->n : 0;
  }
  if (s->infer != crn_infer_fused_gather) return 0;
  const crn_fused_gather *f = s->fused;
  return (int64_t)f->weights.bytes / f->rhs.dims[f->rhs.rank - 3] * chosen_of(p, s);
}

int64_t crn_plan_weight_bytes(const crn_plan *p) {
  int64_t bytes = 0;
  for (uint32_t i = 0; i < p->n_steps; i++) {
    const crn_step *s = &p->steps[i];
    bytes += weight_bytes(p, s);
    // Bodies of composites are seldom run.
    if (s->kind == CRN_STEP_COMPOSITE && s->body_end) i = s->body_end;
  }
  return bytes;
}

static cairn_status print_gather(const crn_plan *p, const crn_step *s, crn_str *out) {
  const crn_fused_gather *f = s->fused;
  long long stack = (long long)f->rhs.dims[f->rhs.rank - 3];
  return crn_str_printf(out, "  %lld of %lldx%lld %s, a row reads %lld of them: %lld bytes", stack,
                        (long long)(f->is_gated ? 2 * f->n : f->n), (long long)f->weights.k, g_formats[f->weights.format],
                        (long long)chosen_of(p, s), (long long)weight_bytes(p, s));
}

static cairn_status print_linear(const crn_step *s, crn_str *out) {
  const crn_linear_weights *w =
      s->infer == crn_infer_fused_lookup ? &((const crn_fused_lookup *)s->fused)->weights : &((const crn_fused_linear *)s->fused)->weights;
  CRN_TRY(crn_str_printf(out, "  %lldx%lld %s, %zu bytes", (long long)w->n, (long long)w->k, g_formats[w->format], w->bytes));
  if (s->infer == crn_infer_fused_lookup) return CAIRN_OK;
  crn_linear_mode mode = ((const crn_fused_linear *)s->fused)->mode;
  const crn_linear_kernel *one = crn_linear_select(w->format, mode, 1), *many = crn_linear_select(w->format, mode, 256);
  return crn_str_printf(out, "; one row %s, many rows %s", one->name, many->name);
}

// The window, what it is multiplied with and by which kernel.
static cairn_status print_conv(const crn_step *s, crn_str *out) {
  const crn_fused_conv *f = s->fused;
  CRN_TRY(crn_str_puts(out, "  "));
  for (int d = CRN_CONV_SPATIAL - f->spatial; d < CRN_CONV_SPATIAL; d++)
    CRN_TRY(crn_str_printf(out, "%s%lld", d > CRN_CONV_SPATIAL - f->spatial ? "x" : "", (long long)f->window[d].size));
  CRN_TRY(crn_str_printf(out, " of %lld channels, %lld outputs f32", (long long)f->channels, (long long)f->outputs));
  if (f->depthwise) return crn_str_printf(out, ", each of one channel; crn_tiles_taps__%s", crn_tiles_select()->name);
  return crn_str_printf(out, ", %zu bytes; crn_tiles_pair__%s", f->weights.bytes, crn_tiles_select()->name);
}

static cairn_status print_step(const crn_plan *p, uint32_t i, int depth, crn_str *out) {
  static const char *const kinds[] = {"", "", "", "alias", "read", "write", "if", "loop", "test", "jump", "end"};
  const crn_step *s = &p->steps[i];
  CRN_TRY(crn_str_printf(out, "%5u %*s", i, depth * 2, ""));
  if (s->n_out) {
    CRN_TRY(print_slots(p, s->out, s->n_out, out));
    CRN_TRY(crn_str_puts(out, " = "));
  }
  const char *name = kinds[s->kind][0] ? kinds[s->kind] : s->name ? s->name : s->composite ? s->composite->name : crn_step_name(s);
  CRN_TRY(crn_str_printf(out, "%s(", name));
  CRN_TRY(print_slots(p, s->in, s->n_in, out));
  CRN_TRY(crn_str_puts(out, ")"));
  if (s->state != CRN_NO_STATE) {
    CRN_TRY(crn_str_printf(out, "  state '%s'%s", p->states[s->state].name, s->kind == CRN_STEP_UPDATE ? ", in place" : ""));
  }
  if (s->target) CRN_TRY(crn_str_printf(out, "  to %u", s->target));
  if (s->fused && (s->infer == crn_infer_fused_linear || s->infer == crn_infer_fused_lookup)) CRN_TRY(print_linear(s, out));
  if (s->fused && s->infer == crn_infer_fused_gather) CRN_TRY(print_gather(p, s, out));
  if (s->fused && s->infer == crn_infer_fused_conv) CRN_TRY(print_conv(s, out));
  return crn_str_puts(out, "\n");
}

// The step that makes what a WRITE writes, the last one in front of it.
static const crn_step *maker_of_written(const crn_plan *p, const crn_step *write) {
  for (const crn_step *s = write; s-- > p->steps;) {
    for (uint32_t k = 0; k < s->n_out; k++) {
      if (s->out[k] == write->in[0]) return s;
    }
  }
  return NULL;
}

static bool is_in_place(const crn_step *maker, const crn_step *write) {
  return maker && maker->kind == CRN_STEP_UPDATE && maker->state == write->state;
}

// What a write does: the part that is written in place, or why all of the state is copied.
static cairn_status print_write(const crn_plan *p, const crn_step *write, crn_str *out) {
  const crn_step *maker = maker_of_written(p, write);
  const char *name = !maker ? "an input" : maker->composite ? maker->composite->name : crn_step_name(maker);
  if (is_in_place(maker, write)) {
    CRN_TRY(crn_str_printf(out, "in place by %s of ", name));
    return print_slots(p, &maker->in[maker->fused ? 1 : maker->update ? 2 : 4], 1, out);
  }
  if (maker && maker->kind == CRN_STEP_UPDATE) return crn_str_printf(out, "copies all of it: %s does not change the newest value", name);
  return crn_str_printf(out, "copies all of it: its new value comes from %s, which is no update of the old one", name);
}

// Writes that do the same (but for the layer) in one line.
static cairn_status print_state(const crn_plan *p, int32_t state, crn_str *out) {
  const crn_step *shown = NULL;
  uint32_t n = 0;
  for (uint32_t k = 0; k <= p->n_steps; k++) {
    const crn_step *s = k < p->n_steps ? &p->steps[k] : NULL;
    if (s && (s->kind != CRN_STEP_WRITE || s->state != state)) continue;
    const crn_step *maker = s ? maker_of_written(p, s) : NULL, *before = shown ? maker_of_written(p, shown) : NULL;
    bool same = s && maker && before && maker->id == before->id && maker->update == before->update &&
                is_in_place(maker, s) == is_in_place(before, shown);
    if (shown && !same) {
      CRN_TRY(crn_str_printf(out, "  %u of them: ", n));
      CRN_TRY(print_write(p, shown, out));
      CRN_TRY(crn_str_puts(out, "\n"));
      n = 0;
    }
    if (!same) shown = s;
    n++;
  }
  return CAIRN_OK;
}

static cairn_status print_states(const crn_plan *p, crn_str *out) {
  for (uint32_t i = 0; i < p->n_states; i++) {
    uint32_t in_place = 0, writes = 0;
    for (uint32_t k = 0; k < p->n_steps; k++) {
      const crn_step *s = &p->steps[k];
      if (s->kind != CRN_STEP_WRITE || s->state != (int32_t)i) continue;
      writes++;
      in_place += is_in_place(maker_of_written(p, s), s);
    }
    CRN_TRY(crn_str_printf(out, "state '%s': %u writes, %u of them update the changed part in place%s\n", p->states[i].name, writes,
                           in_place, in_place < writes ? "; the others copy the whole state" : ""));
    CRN_TRY(print_state(p, (int32_t)i, out));
    const crn_step *copier;
    CRN_TRY(crn_plan_find_page_copier(p, (int32_t)i, &copier));
    if (copier) {
      CRN_TRY(crn_str_printf(out, "  in pages: copied on each run, for %s takes no pages\n", crn_step_name(copier)));
    } else {
      CRN_TRY(crn_str_puts(out, "  in pages: written and read as it is\n"));
    }
  }
  return CAIRN_OK;
}

cairn_status crn_plan_print(const crn_plan *p, bool with_bodies, crn_str *out) {
  int64_t read = 0;
  for (uint32_t i = 0; i < p->n_steps; i++) read += weight_bytes(p, &p->steps[i]);
  CRN_TRY(crn_str_printf(out,
                         "function '%s': precision %s, %u steps, %lld bytes of folded constants; one row reads %lld bytes of weights\n",
                         p->graph->name, cairn_precision_text(p->precision), p->n_steps, (long long)p->folded_bytes, (long long)read));
  CRN_TRY(print_states(p, out));
  uint32_t skip_to = 0;
  for (uint32_t i = 0; i < p->n_steps; i++) {
    if (i < skip_to) continue;
    CRN_TRY(print_step(p, i, 0, out));
    if (p->steps[i].kind == CRN_STEP_COMPOSITE && p->steps[i].body_end && !with_bodies) skip_to = p->steps[i].body_end + 1;
  }
  return CAIRN_OK;
}
