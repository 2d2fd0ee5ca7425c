/// Expressions.
#include <string.h>

#include "text/template/filters.h"
#include "text/template/tests.h"

tmpl_value *crn_tmpl_slot(tmpl_render *r, tmpl_ref ref) {
  tmpl_frame *f = r->frame;
  for (int i = 0; i < ref.hops; i++) f = f->parent;
  return &f->slots[ref.slot];
}

static cairn_status eval_name(tmpl_render *r, const tmpl_node *node, tmpl_value *out) {
  *out = *crn_tmpl_slot(r, node->name.ref);
  return out->type == TMPL_MISSING ? crn_tmpl_undefined_name(r, node->name.name, out) : CAIRN_OK;
}

static cairn_status eval_items(tmpl_render *r, const tmpl_nodes *nodes, tmpl_value **out) {
  CRN_TRY(crn_tmpl_alloc(r, (size_t)nodes->size, sizeof **out, out));
  for (int i = 0; i < nodes->size; i++) CRN_TRY(crn_tmpl_eval(r, nodes->items[i], &(*out)[i]));
  return CAIRN_OK;
}

static cairn_status eval_list(tmpl_render *r, const tmpl_node *node, tmpl_value *out) {
  tmpl_items items = {0};
  CRN_TRY(eval_items(r, &node->list.nodes, &items.base));
  items.used = items.capacity = (size_t)node->list.nodes.size;
  return crn_tmpl_list_finish(r, &items, node->kind == TMPL_N_TUPLE ? TMPL_TUPLE : TMPL_LIST, out);
}

static cairn_status eval_dict(tmpl_render *r, const tmpl_node *node, tmpl_value *out) {
  tmpl_dict *d;
  CRN_TRY(crn_tmpl_dict_make(r, &d));
  for (int i = 0; i < node->list.nodes.size; i += 2) {
    tmpl_value key, value;
    CRN_TRY(crn_tmpl_eval(r, node->list.nodes.items[i], &key));
    CRN_TRY(crn_tmpl_eval(r, node->list.nodes.items[i + 1], &value));
    CRN_TRY(crn_tmpl_dict_set(r, d, key, value));
  }
  *out = (tmpl_value){.type = TMPL_DICT, .dict = d};
  return CAIRN_OK;
}

static cairn_status eval_chain(tmpl_render *r, const tmpl_node *node, tmpl_value *out) {
  const tmpl_nodes *nodes = &node->list.nodes;
  CRN_TRY(crn_tmpl_eval(r, nodes->items[0], out));
  for (int i = 1; i < nodes->size; i++) {
    tmpl_value left = *out, right;
    CRN_TRY(crn_tmpl_eval(r, nodes->items[i], &right));
    r->line = node->line;
    CRN_TRY(crn_tmpl_binary(r, (tmpl_op)node->list.ops[i - 1], left, right, out));
  }
  return CAIRN_OK;
}

static cairn_status eval_concat(tmpl_render *r, const tmpl_node *node, tmpl_value *out) {
  tmpl_value *values;
  tmpl_buffer b = {0};
  CRN_TRY(eval_items(r, &node->list.nodes, &values));
  for (int i = 0; i < node->list.nodes.size; i++) CRN_TRY(crn_tmpl_put_str(r, &b, values[i]));
  return crn_tmpl_str_finish(r, &b, out);
}

// a < b < c: each operand is evaluated once, and the rest not at all after the first comparison that fails.
static cairn_status eval_compare(tmpl_render *r, const tmpl_node *node, tmpl_value *out) {
  const tmpl_nodes *nodes = &node->list.nodes;
  tmpl_value left, right;
  bool holds = true;
  CRN_TRY(crn_tmpl_eval(r, nodes->items[0], &left));
  for (int i = 1; holds && i < nodes->size; i++) {
    CRN_TRY(crn_tmpl_eval(r, nodes->items[i], &right));
    r->line = node->line;
    CRN_TRY(crn_tmpl_compare(r, (tmpl_op)node->list.ops[i - 1], left, right, &holds));
    left = right;
  }
  *out = tmpl_bool(holds);
  return CAIRN_OK;
}

// `and` and `or` give the operand that decided.
static cairn_status eval_logic(tmpl_render *r, const tmpl_node *node, tmpl_value *out) {
  bool stop_at = node->kind == TMPL_N_OR;
  for (int i = 0; i < node->list.nodes.size; i++) {
    CRN_TRY(crn_tmpl_eval(r, node->list.nodes.items[i], out));
    if (crn_tmpl_truth(*out) == stop_at) return CAIRN_OK;
  }
  return CAIRN_OK;
}

static cairn_status eval_condition(tmpl_render *r, const tmpl_node *node, tmpl_value *out) {
  tmpl_value test;
  CRN_TRY(crn_tmpl_eval(r, node->condition.test, &test));
  if (crn_tmpl_truth(test)) return crn_tmpl_eval(r, node->condition.then, out);
  if (node->condition.otherwise) return crn_tmpl_eval(r, node->condition.otherwise, out);
  return crn_tmpl_undefined(r, "the inline if-expression evaluated to false and has no else", out);
}

static cairn_status eval_call(tmpl_render *r, const tmpl_node *node, tmpl_value *out) {
  tmpl_value callee;
  tmpl_args args;
  CRN_TRY(crn_tmpl_eval(r, node->call.callee, &callee));
  CRN_TRY(crn_tmpl_eval_args(r, &node->call.args, &args));
  r->line = node->line;
  return crn_tmpl_call(r, callee, &args, out);
}

static cairn_status eval_apply(tmpl_render *r, const tmpl_node *node, tmpl_value *out) {
  tmpl_value v;
  tmpl_args args;
  const tmpl_str *name = node->apply.name;
  bool is_filter = node->kind == TMPL_N_FILTER;
  if (node->apply.operand)
    CRN_TRY(crn_tmpl_eval(r, node->apply.operand, &v));
  else
    v = r->block_text;
  CRN_TRY(crn_tmpl_eval_args(r, &node->apply.args, &args));
  r->line = node->line;
  if (is_filter && node->apply.filter) return crn_tmpl_filter_apply(r, node->apply.filter, v, &args, out);
  if (!is_filter && node->apply.test) {
    bool holds;
    CRN_TRY(crn_tmpl_test_apply(r, node->apply.test, v, &args, &holds));
    *out = tmpl_bool(holds);
    return CAIRN_OK;
  }
  return crn_tmpl_fail(r, "no %s named '%.*s'", is_filter ? "filter" : "test", (int)name->size, name->data);
}

static cairn_status eval_item(tmpl_render *r, const tmpl_node *node, tmpl_value *out) {
  tmpl_value object, key, parts[3];
  CRN_TRY(crn_tmpl_eval(r, node->item.object, &object));
  const tmpl_node *index = node->item.index;
  if (index->kind == TMPL_N_SLICE) {
    const tmpl_node *nodes[] = {index->slice.start, index->slice.stop, index->slice.step};
    for (int i = 0; i < 3; i++) {
      parts[i] = tmpl_none();
      if (nodes[i]) CRN_TRY(crn_tmpl_eval(r, nodes[i], &parts[i]));
    }
    r->line = node->line;
    return crn_tmpl_slice(r, object, parts[0], parts[1], parts[2], out);
  }
  CRN_TRY(crn_tmpl_eval(r, index, &key));
  r->line = node->line;
  return crn_tmpl_item(r, object, key, out);
}

static cairn_status eval_attribute(tmpl_render *r, const tmpl_node *node, tmpl_value *out) {
  tmpl_value object;
  CRN_TRY(crn_tmpl_eval(r, node->attribute.object, &object));
  r->line = node->line;
  return crn_tmpl_attribute(r, object, node->attribute.name, out);
}

static cairn_status eval_unary(tmpl_render *r, const tmpl_node *node, tmpl_value *out) {
  tmpl_value v;
  CRN_TRY(crn_tmpl_eval(r, node->operand, &v));
  r->line = node->line;
  if (node->kind != TMPL_N_NOT) return crn_tmpl_negate(r, v, node->kind == TMPL_N_NEGATE, out);
  *out = tmpl_bool(!crn_tmpl_truth(v));
  return CAIRN_OK;
}

static cairn_status eval_composite(tmpl_render *r, const tmpl_node *node, tmpl_value *out) {
  switch (node->kind) {
    case TMPL_N_TUPLE:
    case TMPL_N_LIST_LITERAL:
      return eval_list(r, node, out);
    case TMPL_N_DICT_LITERAL:
      return eval_dict(r, node, out);
    case TMPL_N_CHAIN:
      return eval_chain(r, node, out);
    case TMPL_N_CONCAT:
      return eval_concat(r, node, out);
    case TMPL_N_COMPARE:
      return eval_compare(r, node, out);
    case TMPL_N_AND:
    case TMPL_N_OR:
      return eval_logic(r, node, out);
    case TMPL_N_NOT:
    case TMPL_N_NEGATE:
    case TMPL_N_PLUS:
      return eval_unary(r, node, out);
    case TMPL_N_CONDITION:
      return eval_condition(r, node, out);
    case TMPL_N_CALL:
      return eval_call(r, node, out);
    case TMPL_N_FILTER:
    case TMPL_N_TEST:
      return eval_apply(r, node, out);
    case TMPL_N_ATTRIBUTE:
      return eval_attribute(r, node, out);
    case TMPL_N_ITEM:
      return eval_item(r, node, out);
    default:
      return CRN_FAIL(INTERNAL, "node %d is no expression", (int)node->kind);
  }
}

cairn_status crn_tmpl_eval(tmpl_render *r, const tmpl_node *node, tmpl_value *out) {
  CRN_TRY(crn_tmpl_steps(r, 1));
  if (node->kind == TMPL_N_CONST) {
    *out = node->constant;
    return CAIRN_OK;
  }
  r->line = node->line;
  if (node->kind == TMPL_N_NAME) return eval_name(r, node, out);
  if (++r->stack > r->max_stack) return crn_tmpl_limit(r, "expressions and calls are nested too deeply");
  cairn_status status = eval_composite(r, node, out);
  r->stack--;
  return status;
}
