#include <string.h>

#include "tools/run.h"
#include "tools/values.h"

static const char g_state_prefix[] = "state.";

cairn_status crn_run_arrays_create(crn_tool *t, const cairn_descriptor *descriptors, int n, crn_run_arrays *out) {
  *out = (crn_run_arrays){0};
  CRN_TRY(crn_arena_array(t->arena, (size_t)n, sizeof *out->items, &out->items));
  for (int i = 0; i < n; i++) out->items[i].name = descriptors[i].name;
  out->n = n;
  return CAIRN_OK;
}

void crn_run_arrays_release(crn_run_arrays *arrays) {
  for (int i = 0; i < arrays->n; i++) {
    cairn_ndarray_release(arrays->items[i].array);
    arrays->items[i].array = NULL;
  }
}

static void replace(cairn_ndarray **slot, cairn_ndarray *array) {
  cairn_ndarray_release(*slot);
  *slot = array;
}

// --- names ------------------------------------------------------------------------------------------------------------

static const cairn_descriptor *find(const cairn_descriptor *list, int n, const char *name, size_t bytes) {
  for (int i = 0; i < n; i++)
    if (strlen(list[i].name) == bytes && !memcmp(list[i].name, name, bytes)) return &list[i];
  return NULL;
}

static bool is_input(const crn_run_io *io, const char *name) {
  const cairn_function_info *f = io->info;
  if (find(f->inputs, f->n_inputs, name, strlen(name))) return true;
  const char *dot = strrchr(name, '.');
  int64_t step;
  if (!io->options->steps.given || !dot || !crn_tool_parse_integer(dot + 1, &step)) return false;
  return step >= 0 && step < io->options->steps.value && find(f->inputs, f->n_inputs, name, (size_t)(dot - name));
}

static bool has_absent_state(const crn_run_io *io) {
  crn_str key;
  crn_str_initialize(&key, NULL);
  bool absent = false;
  for (int i = 0; i < io->info->n_states && !absent; i++) {
    crn_str_clear(&key);
    absent =
        crn_str_printf(&key, "%s%s", g_state_prefix, io->info->states[i].name) != CAIRN_OK || !crn_safetensors_find(io->file, key.data);
  }
  crn_str_deinitialize(&key);
  return absent;
}

static cairn_status state_names(const cairn_function_info *f, crn_str *out) {
  for (int i = 0; i < f->n_states; i++) CRN_TRY(crn_str_printf(out, "%s%s%s", i ? ", " : "", g_state_prefix, f->states[i].name));
  return CAIRN_OK;
}

static cairn_status refuse_state(const crn_run_io *io, const char *name) {
  crn_str names;
  crn_str_initialize(&names, NULL);
  cairn_status status = state_names(io->info, &names);
  if (status == CAIRN_OK)
    status =
        CRN_FAIL(INVALID_ARGUMENT, "%s: '%s' is no state of '%s', whose states are %s", io->options->io, name, io->info->name, names.data);
  crn_str_deinitialize(&names);
  return status;
}

cairn_status crn_run_check_names(const crn_run_io *io) {
  const cairn_function_info *f = io->info;
  const char *first = NULL;
  size_t n_unused = 0;
  for (size_t i = 0; io->file && i < crn_safetensors_count(io->file); i++) {
    const char *name = crn_safetensors_at(io->file, i)->name;
    if (is_input(io, name)) continue;
    if (crn_starts_with(name, g_state_prefix)) {
      const char *state = name + strlen(g_state_prefix);
      if (find(f->states, f->n_states, state, strlen(state))) continue;
      if (f->n_states && has_absent_state(io)) return refuse_state(io, name);
    }
    if (n_unused++ == 0) first = name;
  }
  if (n_unused == 1) crn_tool_note(io->t, "note: '%s' of %s is not used by '%s'", first, io->options->io, f->name);
  if (n_unused > 1)
    crn_tool_note(io->t, "note: %zu arrays of %s are not used by '%s', the first is '%s'", n_unused, io->options->io, f->name, first);
  return CAIRN_OK;
}

// --- inputs -----------------------------------------------------------------------------------------------------------

static cairn_status read_array(const crn_run_io *io, const char *what, const cairn_descriptor *d, const crn_safetensors_entry *entry,
                               cairn_ndarray **slot) {
  char label[256];
  snprintf(label, sizeof label, "%s '%s'", what, entry->name);
  cairn_ndarray *array = NULL;
  CRN_TRY_NOTE(crn_array_from_file(io->t->context, d, &entry->tensor, label, &array), "%s", io->options->io);
  replace(slot, array);
  return CAIRN_OK;
}

static cairn_status missing_input(const crn_run_io *io, const cairn_descriptor *d) {
  if (!io->file)
    return CRN_FAIL(INVALID_ARGUMENT, "'%s' takes inputs; give them with --io FILE.safetensors (the first is '%s')", io->info->name,
                    d->name);
  return CRN_FAIL(INVALID_ARGUMENT, "%s: input '%s' of '%s' is missing", io->options->io, d->name, io->info->name);
}

static cairn_status find_input(const crn_run_io *io, int64_t step, const char *name, const crn_safetensors_entry **out_entry) {
  *out_entry = NULL;
  if (!io->file) return CAIRN_OK;
  if (io->options->steps.given) {
    crn_str key;
    crn_str_initialize(&key, NULL);
    cairn_status status = crn_str_printf(&key, "%s.%lld", name, (long long)step);
    if (status == CAIRN_OK) *out_entry = crn_safetensors_find(io->file, key.data);
    crn_str_deinitialize(&key);
    CRN_TRY(status);
  }
  if (!*out_entry) *out_entry = crn_safetensors_find(io->file, name);
  return CAIRN_OK;
}

cairn_status crn_run_read_inputs(const crn_run_io *io, int64_t step, crn_run_arrays *inputs) {
  for (int i = 0; i < inputs->n; i++) {
    const cairn_descriptor *d = &io->info->inputs[i];
    const crn_safetensors_entry *entry = NULL;
    CRN_TRY(find_input(io, step, d->name, &entry));
    if (!entry) return missing_input(io, d);
    CRN_TRY(read_array(io, "input", d, entry, &inputs->items[i].array));
  }
  return CAIRN_OK;
}

// --- states -----------------------------------------------------------------------------------------------------------

// Whether "NAME=DIMS" is for the state `name`.
static bool shape_is_for(const char *text, const char *name) {
  size_t n = strlen(name);
  return !strncmp(text, name, n) && text[n] == '=' && !strchr(text + n + 1, '=');
}

bool crn_run_parse_shape(const char *text, int64_t *out_shape, int *out_rank) {
  const char *equals = strrchr(text, '=');  // a name may hold one, dims do not
  *out_rank = 0;
  if (!equals || equals == text) return false;
  for (const char *p = equals;;) {
    char number[24];
    size_t n = strcspn(++p, ",x");
    if (n == 0 || n >= sizeof number || *out_rank >= CAIRN_MAX_RANK) return false;
    memcpy(number, p, n);
    number[n] = 0;
    if (!crn_tool_parse_integer(number, &out_shape[*out_rank]) || out_shape[*out_rank] < 0) return false;
    ++*out_rank;
    p += n;
    if (!*p) return true;
  }
}

// The shape --state-shape gives a state; rank -1 when it gives none.
static cairn_status given_shape(const crn_run_io *io, const char *name, int64_t *out_shape, int *out_rank) {
  const crn_option_list *list = &io->options->state_shapes;
  *out_rank = -1;
  for (int i = 0; i < list->n; i++) {
    if (shape_is_for(list->items[i], name) && !crn_run_parse_shape(list->items[i], out_shape, out_rank))
      return CRN_FAIL(INVALID_ARGUMENT, "--state-shape %s: a shape is written NAME=2,1,8,64", list->items[i]);
  }
  return CAIRN_OK;
}

static cairn_status check_shape_names(const crn_run_io *io) {
  const crn_option_list *list = &io->options->state_shapes;
  for (int i = 0; i < list->n; i++) {
    bool known = false;
    for (int s = 0; s < io->info->n_states; s++) known = known || shape_is_for(list->items[i], io->info->states[s].name);
    if (!known) return CRN_FAIL(INVALID_ARGUMENT, "--state-shape %s: '%s' has no state of that name", list->items[i], io->info->name);
  }
  return CAIRN_OK;
}

static cairn_status need_shape(const cairn_descriptor *d) {
  crn_str shape;
  crn_str_initialize(&shape, NULL);
  cairn_status status = CAIRN_OK;
  for (int i = 0; i < d->rank && status == CAIRN_OK; i++)
    status = d->shape[i] < 0 ? crn_str_printf(&shape, "%sN", i ? "," : "")
                             : crn_str_printf(&shape, "%s%lld", i ? "," : "", (long long)d->shape[i]);
  if (status == CAIRN_OK)
    status = CRN_FAIL(INVALID_ARGUMENT, "state '%s' has a dynamic dim; give 'state.%s' in --io, or its shape with --state-shape %s=%s",
                      d->name, d->name, d->name, shape.data);
  crn_str_deinitialize(&shape);
  return status;
}

static cairn_status check_given_shape(const cairn_descriptor *d, const cairn_ndarray *array, const int64_t *shape, int rank) {
  bool same = rank == cairn_ndarray_rank(array);
  for (int i = 0; i < rank && same; i++) same = shape[i] == cairn_ndarray_shape(array)[i];
  if (same) return CAIRN_OK;
  return CRN_FAIL(INVALID_ARGUMENT, "--state-shape of '%s' differs from the shape of 'state.%s' in --io; give one of them", d->name,
                  d->name);
}

static cairn_status read_state(const crn_run_io *io, const cairn_descriptor *d, cairn_ndarray **slot) {
  char key[256];
  int64_t shape[CAIRN_MAX_RANK];
  int rank;
  CRN_TRY(given_shape(io, d->name, shape, &rank));
  if ((size_t)snprintf(key, sizeof key, "%s%s", g_state_prefix, d->name) >= sizeof key)
    return CRN_FAIL(OUT_OF_RANGE, "the name of a state is too long");
  const crn_safetensors_entry *entry = io->file ? crn_safetensors_find(io->file, key) : NULL;
  if (entry) {
    CRN_TRY(read_array(io, "state", d, entry, slot));
    return rank < 0 ? CAIRN_OK : check_given_shape(d, *slot, shape, rank);
  }
  if (rank < 0 && cairn_descriptor_is_dynamic(d)) return need_shape(d);
  CRN_TRY_NOTE(cairn_ndarray_create_from_descriptor(io->t->context, d, rank < 0 ? NULL : shape, rank < 0 ? d->rank : rank, slot),
               "state '%s'", d->name);
  return CAIRN_OK;
}

cairn_status crn_run_read_states(const crn_run_io *io, crn_run_arrays *states) {
  CRN_TRY(check_shape_names(io));
  for (int i = 0; i < states->n; i++) CRN_TRY(read_state(io, &io->info->states[i], &states->items[i].array));
  return CAIRN_OK;
}
