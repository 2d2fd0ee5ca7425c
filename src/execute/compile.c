// Compiling ahead of time: all functions are made, their packed weights saved, and the program kept without what was packed.
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "asset/compiled.h"
#include "base/failure.h"
#include "base/file.h"
#include "cairn/specialize.h"
#include "execute/packed_cache.h"

enum { LEAST_DROPPED = 4096 };

typedef struct compile {
  cairn_model *model;
  const cairn_allocator *allocator;
  CRN_VEC(crn_byte_range) needed, dropped, kept;
} compile;

static cairn_status need(compile *c, const crn_tensor *t) {
  uintptr_t at = (uintptr_t)t->data, base = (uintptr_t)c->model->asset->map.data;
  if (at < base || at >= base + c->model->asset->map.bytes) return CAIRN_OK;
  return crn_vec_push(c->allocator, &c->needed, ((crn_byte_range){at - base, crn_tensor_stored_bytes(t)}));
}

// The constants that steps of a plan still read, those that it gives, and those that folding read.
static cairn_status list_needed(compile *c, const crn_plan *p) {
  for (uint32_t i = 0; i < p->n_steps; i++) {
    for (uint32_t k = 0; k < p->steps[i].n_in; k++) {
      uint32_t slot = p->steps[i].in[k];
      if (p->is_constant[slot]) CRN_TRY(need(c, &p->constants[slot].tensor));
    }
  }
  for (uint32_t i = 0; i < p->n_outputs; i++) {
    const uint32_t slot = p->output_slots[i];
    if (p->is_constant[slot]) CRN_TRY(need(c, &p->constants[slot].tensor));
  }
  for (size_t i = 0; i < p->folded_reads.size; i++) CRN_TRY(need(c, &p->folded_reads.items[i]));
  return CAIRN_OK;
}

static cairn_status visit_function(compile *c, const cairn_function_info *info, bool takes_constants, bool *out_differs) {
  cairn_function *f;
  const cairn_function_options options = {.take_constants = takes_constants};
  CRN_TRY(cairn_model_function_with(c->model, info->name, &options, &f));
  *out_differs = f->info->n_inputs != info->n_inputs;
  cairn_status status = list_needed(c, f->plan);
  cairn_function_release(f);
  return status;
}

// As the program says, and as engines have them made.
static cairn_status visit_functions(compile *c) {
  for (int i = 0; i < c->model->n_functions; i++) {
    bool differs;
    CRN_TRY(visit_function(c, &c->model->functions[i], true, &differs));
    if (differs) CRN_TRY(visit_function(c, &c->model->functions[i], false, &differs));
  }
  return CAIRN_OK;
}

static bool is_needed(const compile *c, uint64_t offset, uint64_t bytes) {
  for (size_t i = 0; i < c->needed.size; i++) {
    const crn_byte_range *n = &c->needed.items[i];
    if (n->offset < offset + bytes && offset < n->offset + n->bytes) return true;
  }
  return false;
}

// The codes of a quantised matrix, or the values of a dense one. Scales and offsets stay: passes look at them.
static cairn_status drop_weight(compile *c, const crn_packed_weight *w) {
  for (int64_t i = 0; i < w->key.n_sources && w->has_key; i++) {
    const crn_weight_key_part *part = &w->key.sources[i].parts[0];
    crn_tensor t = {.dtype = (cairn_dtype)part->dtype, .rank = part->rank, .packed = part->is_packed != 0};
    memcpy(t.dims, part->dims, sizeof t.dims);
    memcpy(t.strides, part->strides, sizeof t.strides);
    size_t bytes = crn_tensor_stored_bytes(&t);
    if (part->offset < 0 || bytes < LEAST_DROPPED || is_needed(c, (uint64_t)part->offset, bytes)) continue;
    CRN_TRY(crn_vec_push(c->allocator, &c->dropped, ((crn_byte_range){(uint64_t)part->offset, bytes})));
  }
  return CAIRN_OK;
}

static int by_offset(const void *a, const void *b) {
  uint64_t x = ((const crn_byte_range *)a)->offset, y = ((const crn_byte_range *)b)->offset;
  return x < y ? -1 : x > y;
}

// What lies between the dropped ranges.
static cairn_status list_kept(compile *c) {
  uint64_t at = 0, end = c->model->asset->map.bytes;
  if (c->dropped.size) qsort(c->dropped.items, c->dropped.size, sizeof *c->dropped.items, by_offset);
  for (size_t i = 0; i <= c->dropped.size; i++) {
    uint64_t stop = i < c->dropped.size ? c->dropped.items[i].offset : end;
    if (stop > at) CRN_TRY(crn_vec_push(c->allocator, &c->kept, ((crn_byte_range){at, stop - at})));
    if (i < c->dropped.size && c->dropped.items[i].offset + c->dropped.items[i].bytes > at)
      at = c->dropped.items[i].offset + c->dropped.items[i].bytes;
  }
  return CAIRN_OK;
}

static bool exists(const char *path) {
  struct stat st;
  return lstat(path, &st) == 0;
}

// Takes away what compilations that were interrupted left in the folder, and, with `everything`, the folder with its files.
static cairn_status clean(const compile *c, const char *folder, bool everything) {
  static const char *const names[] = {"weights.packed", "program.cairn", "metadata.json", "compiled.json"};
  crn_str path;
  cairn_status status = CAIRN_OK;
  crn_str_initialize(&path, c->allocator);
  for (size_t i = 0; i < sizeof names / sizeof *names && status == CAIRN_OK; i++) {
    status = crn_path_join(&path, folder, names[i]);
    if (status == CAIRN_OK) crn_file_remove_leftovers(path.data);
    if (status == CAIRN_OK && everything) unlink(path.data);
  }
  crn_str_deinitialize(&path);
  if (everything) rmdir(folder);
  return status;
}

static cairn_status run_compile(compile *c, const char *folder) {
  cairn_model *m = c->model;
  CRN_TRY(visit_functions(c));
  for (const crn_packed_weight *w = m->weights.first; w; w = w->next) CRN_TRY(drop_weight(c, w));
  CRN_TRY(list_kept(c));
  CRN_TRY(crn_make_directories(folder));
  CRN_TRY(crn_packed_cache_export(m, folder));
  CRN_TRY(crn_compiled_write(m->asset, folder, cairn_precision_text(m->options.precision), c->kept.items, c->kept.size));
  return clean(c, folder, false);
}

cairn_status cairn_model_compile(cairn_model *m, const char *folder) {
  CRN_REQUIRE_NAMED(m, "model");
  CRN_REQUIRE(folder);
  if (!m->asset || m->asset->borrowed) return CRN_FAIL(UNSUPPORTED, "only stored .aimodel assets can be compiled");
  if (m->asset->compiled) return CRN_FAIL(INVALID_ARGUMENT, "'%s' is compiled already", cairn_asset_path(m->asset));
  compile c = {.model = m, .allocator = &m->context->allocator};
  const bool is_new = !exists(folder);
  cairn_status status = run_compile(&c, folder);
  if (status != CAIRN_OK && is_new) {
    // The failure that is reported is the first one.
    crn_failure *failure = crn_failure_capture(c.allocator);
    clean(&c, folder, true);
    status = crn_failure_restore(failure, status);
    crn_failure_release(failure);
  }
  crn_vec_free(c.allocator, &c.needed);
  crn_vec_free(c.allocator, &c.dropped);
  crn_vec_free(c.allocator, &c.kept);
  return status == CAIRN_OK ? status : crn_note(status, "compiling '%s'", cairn_asset_path(m->asset));
}

// --- running compiled assets ----------------------------------------------------------------------------------------------------

cairn_status crn_compiled_check_options(const cairn_model *m, cairn_precision *in_out_precision) {
  const struct crn_compiled *c = m->asset ? m->asset->compiled : NULL;
  if (!c) return CAIRN_OK;
  cairn_precision compiled = CAIRN_PRECISION_DEFAULT;
  for (cairn_precision p = CAIRN_PRECISION_DEFAULT; p <= CAIRN_PRECISION_AUTO; p++) {
    if (!strcmp(cairn_precision_text(p), c->precision)) compiled = p;
  }
  bool is_free = *in_out_precision == CAIRN_PRECISION_DEFAULT || *in_out_precision == CAIRN_PRECISION_AUTO;
  if (!is_free && *in_out_precision != compiled) {
    return CRN_FAIL(INCOMPATIBLE, "precision %s was asked for, '%s' was compiled for %s: leave the precision out or compile again",
                    cairn_precision_text(*in_out_precision), cairn_asset_path(m->asset), c->precision);
  }
  *in_out_precision = compiled;
  return CAIRN_OK;
}

static cairn_status check_constant(const cairn_model *m, const crn_plan *p, uint32_t slot) {
  const crn_tensor *t = &p->constants[slot].tensor;
  if (!p->is_constant[slot] || crn_compiled_covers(m->asset, t->data, crn_tensor_stored_bytes(t))) return CAIRN_OK;
  return CRN_FAIL(INCOMPATIBLE, "'%s' lacks weights that this build needs unpacked; compile the asset again", cairn_asset_path(m->asset));
}

cairn_status crn_compiled_check_plan(const cairn_model *m, const crn_plan *p) {
  if (!m->asset || !m->asset->compiled) return CAIRN_OK;
  for (uint32_t i = 0; i < p->n_steps; i++) {
    for (uint32_t k = 0; k < p->steps[i].n_in; k++) CRN_TRY(check_constant(m, p, p->steps[i].in[k]));
  }
  for (uint32_t i = 0; i < p->n_outputs; i++) CRN_TRY(check_constant(m, p, p->output_slots[i]));
  return CAIRN_OK;
}
