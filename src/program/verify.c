#include "program/verify.h"

#include "base/alloc.h"
#include "program/verify_ops.h"

enum { MAX_CALL_DEPTH = 64 };

static cairn_status bad(const crn_graph *g, const crn_op *op, const char *what) {
  return CRN_FAIL(CORRUPT, "graph '%s', %s: %s%s%s", g->name, crn_op_info_of(op->id)->name, what, *op->location ? " at " : "",
                  op->location);
}

// -k operands in the table mean k - 1 or more.
static bool count_fits(int wanted, uint32_t n) { return wanted < 0 ? n >= (uint32_t)(-wanted - 1) : n == (uint32_t)wanted; }

static bool is_kind(const crn_value *v, crn_type_kind kind) { return v->type && v->type->kind == kind; }

static cairn_status verify_state_access(const crn_graph *g, const crn_op *op) {
  if (!is_kind(op->operands[0], CRN_TYPE_HANDLE)) return bad(g, op, "operand 0 must be a state handle");
  if (op->operands[0]->def) return bad(g, op, "the handle must be an argument of the graph");
  uint32_t token = op->id == CRN_OP_read_handle ? 1 : 2;
  if (!is_kind(op->operands[token], CRN_TYPE_TOKEN)) return bad(g, op, "the last operand must be a token");
  if (!is_kind(&op->results[op->n_results - 1], CRN_TYPE_TOKEN)) return bad(g, op, "the last result must be a token");
  const crn_value *data = op->id == CRN_OP_read_handle ? &op->results[0] : op->operands[1];
  if (!is_kind(data, CRN_TYPE_TENSOR)) return bad(g, op, "a state holds a tensor");
  return data->type->dtype == op->operands[0]->type->dtype ? CAIRN_OK : bad(g, op, "element type differs from that of the state");
}

static cairn_status verify_invoke(const crn_graph *g, const crn_op *op) {
  const crn_graph *callee = op->attr.callee;
  // A composite an importer built has no body of its own; its direct kernel is the only way to run it.
  if (callee && !callee->body && callee->composite && callee->composite->id != CRN_OP_NONE) return CAIRN_OK;
  if (!callee || !callee->body) return bad(g, op, "calls a graph without a body");
  if (op->n_operands != callee->body->n_arguments || op->n_results != callee->n_results)
    return bad(g, op, "operand or result count differs from the called graph");
  for (uint32_t i = 0; i < op->n_operands; i++) {
    if (!crn_types_agree(op->operands[i]->type, callee->body->arguments[i].type))
      return bad(g, op, "an operand's type differs from the called graph");
  }
  for (uint32_t i = 0; i < op->n_results; i++) {
    if (!crn_types_agree(op->results[i].type, callee->result_types[i])) return bad(g, op, "a result's type differs from the called graph");
  }
  return CAIRN_OK;
}

// --- one block after the other ----------------------------------------------------------------------------------------

// What is visible at a place: per id the value that is defined, and how many isolated regions lie around its definition.
typedef struct scope {
  const crn_graph *graph;
  const crn_value **defined;
  int *isolation;
  int depth, isolated;
} scope;

static bool is_possible_type(const crn_type *t) {
  if (!t || t->rank < 0 || t->rank > CAIRN_MAX_RANK || (unsigned)t->dtype >= CAIRN_DTYPE_COUNT) return false;
  int64_t least[CAIRN_MAX_RANK];
  for (int i = 0; i < t->rank; i++) {
    if (t->dims[i] < CAIRN_DYNAMIC) return false;
    least[i] = t->dims[i] < 1 ? 1 : t->dims[i];
  }
  bool has_elements = t->kind == CRN_TYPE_TENSOR || t->kind == CRN_TYPE_HANDLE || t->kind == CRN_TYPE_IMAGE;
  // Strides are made of these sizes, so their product must fit even where another size is 0 or not known.
  size_t bytes;
  return !has_elements || (t->dtype != CAIRN_DTYPE_NONE && crn_shape_bytes(t->dtype, least, t->rank, &bytes));
}

static cairn_status define(scope *s, const crn_op *op, const crn_value *v) {
  if (!is_possible_type(v->type)) return bad(s->graph, op, "a value has no possible type");
  if (v->id >= s->graph->n_values || s->defined[v->id]) return bad(s->graph, op, "two values share an id");
  s->defined[v->id] = v;
  s->isolation[v->id] = s->isolated;
  return CAIRN_OK;
}

static void undefine(scope *s, const crn_value *values, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    if (values[i].id < s->graph->n_values && s->defined[values[i].id] == &values[i]) s->defined[values[i].id] = NULL;
  }
}

static cairn_status verify_uses(const scope *s, const crn_op *op) {
  for (uint32_t i = 0; i < op->n_operands; i++) {
    const crn_value *v = op->operands[i];
    if (!v || v->id >= s->graph->n_values || s->defined[v->id] != v) return bad(s->graph, op, "an operand is used before it is defined");
    if (s->isolation[v->id] != s->isolated) return bad(s->graph, op, "an operand comes from outside of the region");
  }
  return CAIRN_OK;
}

static cairn_status verify_block(scope *s, const crn_op *parent, const crn_block *block);

static cairn_status verify_op(scope *s, const crn_op *op) {
  const crn_graph *g = s->graph;
  const crn_op_info *info = crn_op_info_of(op->id);
  if (!count_fits(info->n_operands, op->n_operands)) return bad(g, op, "wrong number of operands");
  if (!count_fits(info->n_results, op->n_results)) return bad(g, op, "wrong number of results");
  CRN_TRY(verify_uses(s, op));
  bool isolated = (info->traits & (CRN_REGION | CRN_PURE)) == (CRN_REGION | CRN_PURE);
  s->isolated += isolated;
  for (uint32_t r = 0; r < op->n_regions; r++) {
    for (uint32_t b = 0; b < op->regions[r].n_blocks; b++) CRN_TRY(verify_block(s, op, op->regions[r].blocks[b]));
  }
  s->isolated -= isolated;
  // Results are visible behind the op, not in its own regions.
  for (uint32_t i = 0; i < op->n_results; i++) CRN_TRY(define(s, op, &op->results[i]));
  if (op->id == CRN_OP_read_handle || op->id == CRN_OP_write_handle) CRN_TRY(verify_state_access(g, op));
  if (op->id == CRN_OP_invoke) CRN_TRY(verify_invoke(g, op));
  CRN_TRY(crn_verify_regions(g, op));
  return crn_verify_types(g, op);
}

static cairn_status verify_output(const crn_graph *g, const crn_op *op) {
  if (op->n_operands != g->n_results) return bad(g, op, "result count differs from the function type");
  for (uint32_t i = 0; i < op->n_operands; i++) {
    if (!crn_types_agree(op->operands[i]->type, g->result_types[i])) return bad(g, op, "a result's type differs from the function type");
  }
  return CAIRN_OK;
}

static cairn_status verify_block(scope *s, const crn_op *parent, const crn_block *block) {
  const crn_graph *g = s->graph;
  if (++s->depth > MAX_CALL_DEPTH) return CRN_FAIL(CORRUPT, "graph '%s': regions nested too deep", g->name);
  if (!block || !block->last) return CRN_FAIL(CORRUPT, "graph '%s' has an empty block", g->name);
  for (uint32_t i = 0; i < block->n_arguments; i++) CRN_TRY(define(s, parent ? parent : block->last, &block->arguments[i]));
  for (const crn_op *op = block->first; op; op = op->next) {
    bool is_terminator = crn_op_info_of(op->id)->traits & CRN_TERMINATOR;
    if (is_terminator != (op == block->last))
      return bad(g, op, is_terminator ? "a terminator inside of a block" : "the block has no terminator");
    CRN_TRY(verify_op(s, op));
  }
  // Values of a block end with it: a later block cannot use them.
  for (const crn_op *op = block->first; op; op = op->next) undefine(s, op->results, op->n_results);
  undefine(s, block->arguments, block->n_arguments);
  s->depth--;
  if (parent) return block->last->id == CRN_OP_output ? bad(g, block->last, "a region cannot end in coreai.output") : CAIRN_OK;
  if (block->last->id != CRN_OP_output) return bad(g, block->last, "a graph must end in coreai.output");
  return verify_output(g, block->last);
}

static cairn_status verify_graph(const crn_program *program, const crn_graph *g) {
  const cairn_allocator *a = program->arena.allocator;
  scope s = {.graph = g};
  cairn_status status = crn_alloc_array(a, g->n_values, sizeof *s.defined, &s.defined);
  if (status == CAIRN_OK) status = crn_alloc_array(a, g->n_values, sizeof *s.isolation, &s.isolation);
  for (uint32_t i = 0; i < g->n_results && status == CAIRN_OK; i++) {
    if (!is_possible_type(g->result_types[i])) status = CRN_FAIL(CORRUPT, "graph '%s': result %u has no possible type", g->name, i);
  }
  if (status == CAIRN_OK) status = verify_block(&s, NULL, g->body);
  crn_free(a, s.defined, g->n_values * sizeof *s.defined);
  crn_free(a, s.isolation, g->n_values * sizeof *s.isolation);
  return status;
}

// Depth-first walk over calls: a graph met again while it is open calls itself.
static cairn_status check_calls(const crn_graph *g, const crn_block *block, const crn_graph **open, int depth, bool ready_only);

static cairn_status check_call(const crn_op *op, const crn_graph **open, int depth, bool ready_only) {
  const crn_graph *callee = op->attr.callee;
  if (depth >= MAX_CALL_DEPTH) return CRN_FAIL(CORRUPT, "calls nested more than %d deep", MAX_CALL_DEPTH);
  for (int i = 0; i < depth; i++) {
    if (open[i] == callee) return CRN_FAIL(CORRUPT, "graph '%s' calls itself", callee->name);
  }
  open[depth] = callee;
  return check_calls(callee, callee->body, open, depth + 1, ready_only);
}

static cairn_status check_calls(const crn_graph *g, const crn_block *block, const crn_graph **open, int depth, bool ready_only) {
  for (const crn_op *op = block->first; op; op = op->next) {
    const crn_op_info *info = crn_op_info_of(op->id);
    if (ready_only && !info->is_ready) {
      return CRN_FAIL(UNSUPPORTED, "graph '%s' uses %s, which cairn cannot run: it needs Apple's hardware or software%s%s", g->name,
                      info->name, *op->location ? " at " : "", op->location);
    }
    if (op->id == CRN_OP_invoke && op->attr.callee->body) {
      // A composite whose direct kernel exists is still checked by its body: the body is the fallback.
      CRN_TRY(check_call(op, open, depth, ready_only));
    }
    for (uint32_t r = 0; r < op->n_regions; r++) {
      for (uint32_t b = 0; b < op->regions[r].n_blocks; b++) CRN_TRY(check_calls(g, op->regions[r].blocks[b], open, depth, ready_only));
    }
  }
  return CAIRN_OK;
}

static cairn_status verify_tokens(const crn_graph *g) {
  uint32_t handles = 0, tokens = 0;
  for (uint32_t i = 0; i < g->body->n_arguments; i++) handles += g->body->arguments[i].type->kind == CRN_TYPE_HANDLE;
  for (uint32_t i = 0; i < g->n_results; i++) tokens += g->result_types[i]->kind == CRN_TYPE_TOKEN;
  if (handles == tokens) return CAIRN_OK;
  return CRN_FAIL(CORRUPT, "function '%s' has %u states but returns %u tokens: each state needs one", g->name, handles, tokens);
}

cairn_status crn_program_verify(const crn_program *program) {
  const crn_graph *open[MAX_CALL_DEPTH];
  for (const crn_graph *g = program->first; g; g = g->next) {
    CRN_TRY(verify_graph(program, g));
    if (crn_graph_is_function(g)) CRN_TRY(verify_tokens(g));
  }
  for (const crn_graph *g = program->first; g; g = g->next) {
    if (!crn_graph_is_function(g)) continue;
    open[0] = g;
    CRN_TRY(check_calls(g, g->body, open, 1, false));
  }
  return CAIRN_OK;
}

cairn_status crn_program_check_ready(const crn_program *program, const crn_graph *function) {
  (void)program;
  const crn_graph *open[MAX_CALL_DEPTH] = {function};
  return check_calls(function, function->body, open, 1, true);
}
