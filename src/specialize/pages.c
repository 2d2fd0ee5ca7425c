#include "specialize/pages.h"

#include "backend/cpu/fused/attention.h"
#include "backend/cpu/fused/looks.h"
#include "backend/cpu/fused/state.h"
#include "backend/cpu/ref/ref.h"

bool crn_step_attends(const crn_step *s) {
  return s->kernel == crn_fused_attention_run || s->kernel == crn_fused_heads_run || s->kernel == crn_fused_looks_run ||
         s->kernel == crn_ref_scaled_dot_product_attention;
}

bool crn_step_takes_pages(const crn_step *s, uint32_t i) {
  if (s->id == CRN_OP_get_shape && !s->fused) return true;
  if (i == 0) return s->view || s->kind == CRN_STEP_UPDATE;
  return (i == 1 || i == 2) && crn_step_attends(s);
}

static bool updates_pages(const crn_step *s, int32_t state) {
  return s->state == state && (!s->update || s->update == crn_fused_place_update || s->update == crn_fused_layer_update ||
                               s->update == crn_fused_choose_update || s->update == crn_fused_blend_update);
}

// Marks results that are looks at the state. False when the step needs a copy of it.
static bool follow(const crn_step *s, int32_t state, bool *is_paged) {
  if (s->kind == CRN_STEP_READ) {
    is_paged[s->out[0]] = s->state == state;
    return true;
  }
  if (s->kind == CRN_STEP_WRITE) return true;
  for (uint32_t i = 0; i < s->n_in; i++) {
    if (!is_paged[s->in[i]]) continue;
    if (s->kind == CRN_STEP_ALIAS) {
      is_paged[s->out[0]] = true;
      return true;
    }
    if (!crn_step_takes_pages(s, i) || (s->kind == CRN_STEP_UPDATE && !updates_pages(s, state))) return false;
    bool is_look = i == 0 && (s->view || s->kind == CRN_STEP_UPDATE);
    for (uint32_t k = 0; is_look && k < s->n_out; k++) is_paged[s->out[k]] = true;
  }
  return true;
}

cairn_status crn_plan_find_page_copier(const crn_plan *p, int32_t state, const crn_step **out_step) {
  bool *is_paged;
  *out_step = NULL;
  CRN_TRY(crn_alloc_array(&p->context->allocator, p->n_slots, sizeof *is_paged, &is_paged));
  for (uint32_t i = 0; i < p->n_steps && !*out_step; i++) {
    const crn_step *s = &p->steps[i];
    if (!follow(s, state, is_paged)) *out_step = s;
    // The body of a composite is what runs only where its kernel does not.
    if (s->kind == CRN_STEP_COMPOSITE && s->body_end && !atomic_load(&s->use_body)) i = s->body_end - 1;
  }
  crn_free(&p->context->allocator, is_paged, p->n_slots * sizeof *is_paged);
  return CAIRN_OK;
}
