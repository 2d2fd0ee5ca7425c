#include "coverage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "asset/asset.h"
#include "base/str.h"
#include "program/from_mlirbc.h"

// The short names of the table; groups stand for several types.
static const struct {
  const char *name;
  cairn_dtype dtype;
} short_names[] = {
    {"f64", CAIRN_F64},
    {"f32", CAIRN_F32},
    {"f16", CAIRN_F16},
    {"bf16", CAIRN_BF16},
    {"f8E5M2", CAIRN_F8E5M2},
    {"f8E4M3FN", CAIRN_F8E4M3FN},
    {"f8E8M0FN", CAIRN_F8E8M0FNU},
    {"f4E2M1FN", CAIRN_F4E2M1FN},
    {"si64", CAIRN_SI64},
    {"si32", CAIRN_SI32},
    {"si16", CAIRN_SI16},
    {"si8", CAIRN_SI8},
    {"si4", CAIRN_SI4},
    {"si2", CAIRN_SI2},
    {"ui64", CAIRN_UI64},
    {"ui32", CAIRN_UI32},
    {"ui16", CAIRN_UI16},
    {"ui8", CAIRN_UI8},
    {"ui6", CAIRN_UI6},
    {"ui4", CAIRN_UI4},
    {"ui3", CAIRN_UI3},
    {"ui2", CAIRN_UI2},
    {"ui1", CAIRN_UI1},
    {"i1", CAIRN_BOOL},
    {"c64", CAIRN_C64},
};
enum { N_NAMES = sizeof short_names / sizeof *short_names };

static uint32_t types_of(const char *word) {
  static const struct {
    const char *name, *members;
  } groups[] = {{"F", " f64 f32 f16 bf16 "},
                {"F8", " f8E5M2 f8E4M3FN "},
                {"S", " si64 si32 si16 si8 "},
                {"U", " ui64 ui32 ui16 ui8 "},
                {"Q", " si4 si2 ui4 ui2 "}};
  const char *members = NULL;
  uint32_t bits = 0;
  for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
    if (!strcmp(word, groups[i].name)) members = groups[i].members;
  }
  for (int i = 0; i < N_NAMES; i++) {
    char padded[16];
    snprintf(padded, sizeof padded, " %s ", short_names[i].name);
    if (members ? strstr(members, padded) != NULL : !strcmp(word, short_names[i].name)) bits |= 1u << short_names[i].dtype;
  }
  return bits;
}

static cairn_status load_line(coverage *c, char *line) {
  char *rest, *name = strtok_r(line, " \n", &rest), *operand = strtok_r(NULL, " \n", &rest), *word;
  if (!name || *name == '#') return CAIRN_OK;
  crn_op_id id = crn_op_find(name);
  if (id == CRN_OP_NONE || !operand) return CRN_FAIL(INVALID_ARGUMENT, "'%s' is no operation with an operand number", name);
  c->data_operand[id] = atoi(operand);
  while ((word = strtok_r(NULL, " \n", &rest))) {
    uint32_t bits = types_of(word);
    if (!bits) return CRN_FAIL(INVALID_ARGUMENT, "%s: '%s' is no element type", name, word);
    c->wanted[id] |= bits;
  }
  return CAIRN_OK;
}

cairn_status coverage_load_types(coverage *c, const char *path) {
  FILE *f = fopen(path, "r");
  char line[512];
  cairn_status status = f ? CAIRN_OK : CRN_FAIL(NOT_FOUND, "cannot open '%s'", path);
  while (f && status == CAIRN_OK && fgets(line, sizeof line, f)) status = load_line(c, line);
  if (f) fclose(f);
  return status;
}

// --- walking a program ------------------------------------------------------------------------------------------------------

typedef struct walk {
  coverage *c;
  bool seen[CRN_OP_COUNT][CAIRN_DTYPE_COUNT];  ///< within this case: a case counts once
} walk;

static void see(walk *w, crn_op_id id, const crn_type *type) {
  w->c->is_used[id] = true;
  if (type->kind == CRN_TYPE_TENSOR || type->kind == CRN_TYPE_HANDLE) w->seen[id][type->dtype] = true;
}

static void walk_block(walk *w, const crn_block *block) {
  for (const crn_op *op = block->first; op; op = op->next) {
    uint32_t k = (uint32_t)w->c->data_operand[op->id];
    w->c->is_used[op->id] = true;
    if (k < op->n_operands) {
      see(w, op->id, op->operands[k]->type);
    } else if (op->n_results) {
      see(w, op->id, op->results[0].type);
    }
    for (uint32_t r = 0; r < op->n_regions; r++) {
      for (uint32_t b = 0; b < op->regions[r].n_blocks; b++) walk_block(w, op->regions[r].blocks[b]);
    }
  }
}

cairn_status coverage_add(coverage *c, cairn_context *context, const char *folder) {
  crn_str path;
  cairn_asset *asset = NULL;
  crn_bc_module *module = NULL;
  crn_program *program = NULL;
  walk w = {.c = c};
  crn_str_initialize(&path, NULL);
  cairn_status status;
  CRN_TRY_GOTO(crn_path_join(&path, folder, "model.aimodel"));
  CRN_TRY_GOTO(cairn_asset_open(context, path.data, &(cairn_asset_options){.skip_hash = true}, &asset));
  CRN_TRY_GOTO(crn_asset_open_module(asset, &module));
  CRN_TRY_GOTO(crn_program_from_mlirbc(crn_default_allocator(), module, &program));
  for (const crn_graph *graph = program->first; graph; graph = graph->next) {
    walk_block(&w, graph->body);
    // Composites are not ops of the file; their declarations say which there are.
    if (graph->composite && graph->composite->id != CRN_OP_NONE && graph->body->n_arguments)
      see(&w, graph->composite->id, graph->body->arguments[0].type);
  }
  for (int id = 0; id < CRN_OP_COUNT; id++) {
    for (int t = 0; t < CAIRN_DTYPE_COUNT; t++) c->n_cases[id][t] += w.seen[id][t];
  }
done:
  crn_program_destroy(program);
  crn_bc_module_close(module);
  cairn_asset_release(asset);
  crn_str_deinitialize(&path);
  return status;
}

// --- results ----------------------------------------------------------------------------------------------------------------

int coverage_report(const coverage *c) {
  int n = 0;
  for (int id = 1; id < CRN_OP_COUNT; id++) {
    const crn_op_info *info = crn_op_info_of((crn_op_id)id);
    // Ops of cairn's own occur in no asset; the tests of their importers run them.
    bool is_own = !strncmp(info->name, "cairn.", 6);
    bool is_counted = info->is_ready && !is_own && !(info->traits & (CRN_STRUCTURE | CRN_TERMINATOR));
    if (!is_counted) continue;
    if (!c->is_used[id]) {
      printf("FAILED  no passing case uses %s, which ops.def calls READY\n", info->name);
      n++;
    }
    for (int i = 0; i < N_NAMES; i++) {
      cairn_dtype t = short_names[i].dtype;
      if (!(c->wanted[id] >> t & 1) || c->n_cases[id][t]) continue;
      printf("FAILED  no passing case uses %s with %s\n", info->name, short_names[i].name);
      n++;
    }
  }
  return n;
}

cairn_status coverage_write(const coverage *c, const char *path) {
  FILE *f = fopen(path, "w");
  if (!f) return CRN_FAIL(IO, "cannot write '%s'", path);
  fprintf(f, "# Passed golden cases by operation and element type, written by the golden runner (--results).\n");
  for (int id = 1; id < CRN_OP_COUNT; id++) {
    if (!c->is_used[id]) continue;
    fprintf(f, "%s", crn_op_info_of((crn_op_id)id)->name);
    for (int i = 0; i < N_NAMES; i++) {
      int n = c->n_cases[id][short_names[i].dtype];
      if (n) fprintf(f, " %s=%d", short_names[i].name, n);
    }
    fprintf(f, "\n");
  }
  bool is_written = !ferror(f);
  is_written = !fclose(f) && is_written;
  return is_written ? CAIRN_OK : CRN_FAIL(IO, "cannot write '%s'", path);
}
