#include "plain_form.h"

#include <string.h>

#include "asset/asset.h"
#include "execute/model.h"
#include "program/from_mlirbc.h"

enum { MOST = 8 };

typedef struct rewriter {
  crn_graph *graph;
  const crn_value *handles[MOST];  ///< states, ...
  crn_value *now[MOST];            ///< ... and what each holds at the op that is looked at
  crn_value **instead;             ///< by id: what is read in place of a value
  int n;
} rewriter;

static int state_of(const rewriter *r, const crn_value *handle) {
  for (int i = 0; i < r->n; i++) {
    if (r->handles[i] == handle) return i;
  }
  return -1;
}

static cairn_status tensor_type(crn_program *p, const crn_type *handle, const crn_type **out) {
  crn_type *type;
  CRN_TRY(crn_arena_alloc(&p->arena, sizeof *type, &type));
  *type = *handle;
  type->kind = CRN_TYPE_TENSOR;
  *out = type;
  return CAIRN_OK;
}

static cairn_status take_states(crn_program *p, rewriter *r) {
  for (uint32_t i = 0; i < r->graph->body->n_arguments; i++) {
    crn_value *v = &r->graph->body->arguments[i];
    if (v->type->kind != CRN_TYPE_HANDLE) continue;
    if (r->n == MOST) return CRN_FAIL(UNSUPPORTED, "function '%s' has more than %d states", r->graph->name, (int)MOST);
    CRN_TRY(tensor_type(p, v->type, &v->type));
    r->handles[r->n] = v;
    r->now[r->n++] = v;
  }
  return CAIRN_OK;
}

// True where an op only moves a state's value.
static bool is_access(rewriter *r, const crn_op *op) {
  const int state = op->n_operands > 0 ? state_of(r, op->operands[0]) : -1;
  if (state < 0) return false;
  if (op->id == CRN_OP_read_handle) r->instead[op->results[0].id] = r->now[state];
  if (op->id == CRN_OP_write_handle) r->now[state] = r->instead[op->operands[1]->id] ? r->instead[op->operands[1]->id] : op->operands[1];
  return op->id == CRN_OP_read_handle || op->id == CRN_OP_write_handle;
}

// The ops without those that read and write states, and without the tokens that put them in order.
static void rewrite_ops(rewriter *r) {
  crn_block *block = r->graph->body;
  crn_op *next, *first = block->first;
  block->first = block->last = NULL;
  block->n_ops = 0;
  for (crn_op *op = first; op; op = next) {
    next = op->next;
    op->next = NULL;
    if (is_access(r, op) || op->id == CRN_OP_create_token || op->id == CRN_OP_join_token) continue;
    for (uint32_t i = 0; i < op->n_operands; i++) {
      crn_value *instead = r->instead[op->operands[i]->id];
      if (instead) op->operands[i] = instead;
    }
    crn_block_append(block, op);
  }
}

static cairn_status rewrite_results(crn_program *p, const rewriter *r) {
  static const char *const kNames[] = {"new_k_cache", "new_v_cache"};
  const crn_graph *g = r->graph;
  const crn_type **types;
  const char **names;
  CRN_TRY(crn_arena_array(&p->arena, g->n_results, sizeof *types, &types));
  CRN_TRY(crn_arena_array(&p->arena, g->n_results, sizeof *names, &names));
  int n = 0;
  for (uint32_t i = 0; i < g->n_results; i++) {
    const bool is_token = g->result_types[i]->kind == CRN_TYPE_TOKEN;
    if (is_token && n == r->n) return CRN_FAIL(UNSUPPORTED, "function '%s' has more tokens than states", g->name);
    names[i] = is_token ? kNames[strncmp(r->handles[n]->name, "value", 5) == 0] : g->result_names[i];
    types[i] = is_token ? r->handles[n]->type : g->result_types[i];
    if (is_token) g->body->last->operands[i] = r->now[n++];
  }
  if (n < r->n) return CRN_FAIL(UNSUPPORTED, "function '%s' has fewer tokens than states", g->name);
  r->graph->result_types = types;
  r->graph->result_names = names;
  return CAIRN_OK;
}

static cairn_status rewrite(crn_program *p) {
  for (crn_graph *g = p->first; g; g = g->next) {
    rewriter r = {.graph = g};
    if (!crn_graph_is_function(g)) continue;
    CRN_TRY(take_states(p, &r));
    if (r.n == 0) continue;
    CRN_TRY(crn_arena_array(&p->arena, g->n_values, sizeof(crn_value *), (void *)&r.instead));
    rewrite_ops(&r);
    CRN_TRY(rewrite_results(p, &r));
  }
  return CAIRN_OK;
}

static void release_asset(void *asset) { cairn_asset_release(asset); }

static cairn_status read_program(const cairn_asset *asset, crn_program **out) {
  crn_bc_module *module;
  CRN_TRY(crn_asset_open_module(asset, &module));
  cairn_status status = crn_program_from_mlirbc(&asset->context->allocator, module, out);
  crn_bc_module_close(module);
  return status;
}

cairn_status plain_form_open(void *user, cairn_context *context, const cairn_model_options *options, crn_arena *arena,
                             crn_llm_source *out_source) {
  const plain_form *form = user;
  cairn_asset *asset;
  crn_program *program = NULL;
  (void)arena;
  *out_source =
      (crn_llm_source){.kind = "aimodel", .name = "plain", .context_length = form->context, .parts = {.bos_id = -1, .eos_id = -1}};
  CRN_TRY(cairn_asset_open(context, form->asset, NULL, &asset));
  cairn_status status = read_program(asset, &program);
  if (status == CAIRN_OK) status = crn_program_keep(program, release_asset, asset);
  if (status != CAIRN_OK) cairn_asset_release(asset);
  if (status == CAIRN_OK) status = rewrite(program);
  if (status == CAIRN_OK) return crn_model_create_from_program(context, program, options, &out_source->model);
  if (program) crn_program_destroy(program);
  return status;
}
