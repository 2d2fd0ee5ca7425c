#include "execute/pages.h"

#include <string.h>

#include "base/checked.h"
#include "execute/internal.h"
#include "execute/replay.h"
#include "tensor/pages.h"

cairn_status crn_run_gather(crn_workspace *w, const crn_step *s, uint32_t i, crn_tensor *t) {
  const crn_pages *p = t->pages;
  crn_tensor plain = crn_tensor_make(t->dtype, t->dims, t->rank, NULL);
  size_t bytes;
  if (p->window.kept)
    return CRN_FAIL(UNSUPPORTED, "%s reads positions that the window of its cache has dropped: only attention can leave them out",
                    crn_step_name(s));
  if (!crn_shape_bytes(t->dtype, t->dims, t->rank, &bytes)) return CRN_FAIL(OUT_OF_RANGE, "operand %u is too large", i);
  CRN_TRY(w->scratch.take(&w->scratch, bytes, &plain.data));
  crn_tensor_copy(t, &plain);
  *t = plain;
  // The copy is not there in the next run.
  crn_step_memo *m = crn_memo_of(w, s);
  if (m) m->is_always_new = true;
  return CAIRN_OK;
}

cairn_status crn_run_view(crn_workspace *w, const crn_step *s, crn_kernel_args *args, crn_tensor *operands, bool *out_done) {
  *out_done = false;
  CRN_TRY(s->view(args, out_done));
  if (!operands[0].pages) return CAIRN_OK;
  if (!*out_done) return crn_run_gather(w, s, 0, &operands[0]);
  for (uint32_t i = 0; i < s->n_out; i++) args->results[i].pages = operands[0].pages;
  return CAIRN_OK;
}

cairn_status cairn_function_find_page_copier(const cairn_function *f, const char *state, const char **out_operation) {
  CRN_REQUIRE(out_operation);
  *out_operation = NULL;
  CRN_REQUIRE_NAMED(f, "function");
  CRN_REQUIRE(state);
  for (uint32_t i = 0; i < f->plan->n_states; i++) {
    if (strcmp(f->plan->states[i].name, state) != 0) continue;
    const crn_step *step;
    CRN_TRY(crn_plan_find_page_copier(f->plan, (int32_t)i, &step));
    if (step) *out_operation = crn_step_name(step);
    return CAIRN_OK;
  }
  return CRN_FAIL(NOT_FOUND, "function '%s' has no state '%s'", f->info->name, state);
}
