// cairn_state: all states of a function in one object.
#include <string.h>

#include "execute/internal.h"

struct cairn_state {
  cairn_function *function;
  int n;
  cairn_named_array *arrays;
};

static const cairn_state_shape *find_shape(const cairn_state_shape *shapes, int n, const char *name) {
  for (int i = 0; i < n; i++) {
    if (!strcmp(shapes[i].name, name)) return &shapes[i];
  }
  return NULL;
}

static cairn_status create_arrays(cairn_state *s, const cairn_state_shape *shapes, int n_shapes) {
  const cairn_function_info *info = s->function->info;
  for (int i = 0; i < n_shapes; i++) {
    if (!cairn_function_state(s->function, shapes[i].name))
      return CRN_FAIL(INVALID_ARGUMENT, "function '%s' has no state '%s'", info->name, shapes[i].name);
  }
  for (int i = 0; i < info->n_states; i++) {
    const cairn_descriptor *d = &info->states[i];
    const cairn_state_shape *shape = find_shape(shapes, n_shapes, d->name);
    s->arrays[i].name = d->name;
    CRN_TRY(cairn_ndarray_create_from_descriptor(s->function->model->context, d, shape ? shape->shape : NULL, shape ? shape->rank : 0,
                                                 &s->arrays[i].array));
    s->n++;
  }
  return CAIRN_OK;
}

cairn_status cairn_state_create(cairn_function *function, const cairn_state_shape *shapes, int n_shapes, cairn_state **out_state) {
  CRN_REQUIRE(out_state);
  *out_state = NULL;
  CRN_REQUIRE(function);
  CRN_REQUIRE_SOME(shapes, n_shapes);
  const cairn_allocator *a = &function->model->context->allocator;
  cairn_state *s;
  CRN_TRY(crn_alloc_zero(a, sizeof *s, &s));
  s->function = function;
  cairn_function_retain(function);
  cairn_status status = crn_alloc_array(a, (size_t)function->info->n_states, sizeof *s->arrays, &s->arrays);
  if (status == CAIRN_OK) status = create_arrays(s, shapes, n_shapes);
  if (status != CAIRN_OK) {
    cairn_state_destroy(s);
    return status;
  }
  *out_state = s;
  return CAIRN_OK;
}

const cairn_named_array *cairn_state_arrays(const cairn_state *s, int *out_n) {
  if (!s || !out_n) return NULL;
  *out_n = s->n;
  return s->arrays;
}

cairn_status cairn_state_reset(cairn_state *s) {
  CRN_REQUIRE_NAMED(s, "state");
  for (int i = 0; i < s->n; i++) CRN_TRY(cairn_ndarray_zero(s->arrays[i].array));
  return CAIRN_OK;
}

void cairn_state_destroy(cairn_state *s) {
  if (!s) return;
  cairn_function *f = s->function;
  const cairn_allocator *a = &f->model->context->allocator;
  for (int i = 0; i < s->n; i++) cairn_ndarray_release(s->arrays[i].array);
  crn_free(a, s->arrays, (size_t)f->info->n_states * sizeof *s->arrays);
  crn_free(a, s, sizeof *s);
  cairn_function_release(f);
}
