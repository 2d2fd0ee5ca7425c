#include "text/template/ast.h"

static cairn_status visit_all(const tmpl_nodes *nodes, tmpl_visit_fn visit, void *self) {
  for (int i = 0; i < nodes->size; i++) CRN_TRY(visit(self, nodes->items[i]));
  return CAIRN_OK;
}

static cairn_status visit_one(tmpl_node *node, tmpl_visit_fn visit, void *self) { return node ? visit(self, node) : CAIRN_OK; }

static cairn_status visit_args(const tmpl_call_args *args, tmpl_visit_fn visit, void *self) {
  CRN_TRY(visit_all(&args->positional, visit, self));
  CRN_TRY(visit_all(&args->keywords, visit, self));
  CRN_TRY(visit_one(args->star, visit, self));
  return visit_one(args->star_star, visit, self);
}

cairn_status crn_tmpl_expression_children(tmpl_node *node, tmpl_visit_fn visit, void *self) {
  switch (node->kind) {
    case TMPL_N_TUPLE:
    case TMPL_N_LIST_LITERAL:
    case TMPL_N_DICT_LITERAL:
    case TMPL_N_CHAIN:
    case TMPL_N_CONCAT:
    case TMPL_N_COMPARE:
    case TMPL_N_AND:
    case TMPL_N_OR:
      return visit_all(&node->list.nodes, visit, self);
    case TMPL_N_NOT:
    case TMPL_N_NEGATE:
    case TMPL_N_PLUS:
      return visit(self, node->operand);
    case TMPL_N_CONDITION:
      CRN_TRY(visit(self, node->condition.test));
      CRN_TRY(visit(self, node->condition.then));
      return visit_one(node->condition.otherwise, visit, self);
    case TMPL_N_CALL:
      CRN_TRY(visit(self, node->call.callee));
      return visit_args(&node->call.args, visit, self);
    case TMPL_N_FILTER:
    case TMPL_N_TEST:
      CRN_TRY(visit_one(node->apply.operand, visit, self));
      return visit_args(&node->apply.args, visit, self);
    case TMPL_N_ATTRIBUTE:
      return visit(self, node->attribute.object);
    case TMPL_N_ITEM:
      CRN_TRY(visit(self, node->item.object));
      return visit(self, node->item.index);
    case TMPL_N_SLICE:
      CRN_TRY(visit_one(node->slice.start, visit, self));
      CRN_TRY(visit_one(node->slice.stop, visit, self));
      return visit_one(node->slice.step, visit, self);
    default:
      return CAIRN_OK;
  }
}
