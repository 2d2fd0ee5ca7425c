#include "text/template/scope.h"

static void note_name(tmpl_search *q, const tmpl_node *node) {
  bool reads = !node->name.store && !node->name.param;
  if (node->name.store && !node->name.param && node->name.name == q->resolver->tree->special.loop) q->writes_loop = true;
  for (int i = 0; i < TMPL_MAX_SOUGHT; i++) {
    if (q->closed[i] || node->name.name != q->names[i]) continue;
    if (reads)
      q->found[i] = true;
    else
      q->closed[i] = true;
  }
}

cairn_status crn_tmpl_search_all(tmpl_search *q, const tmpl_nodes *nodes) {
  for (int i = 0; i < nodes->size; i++) CRN_TRY(crn_tmpl_search(q, nodes->items[i]));
  return CAIRN_OK;
}

static cairn_status search_function(tmpl_search *q, const tmpl_node *node) {
  CRN_TRY(crn_tmpl_search(q, node->macro.call));
  CRN_TRY(crn_tmpl_search_all(q, &node->macro.function->params));
  CRN_TRY(crn_tmpl_search_all(q, &node->macro.function->defaults));
  return crn_tmpl_search_all(q, &node->macro.function->body);
}

static cairn_status search_for(tmpl_search *q, const tmpl_for *loop) {
  CRN_TRY(crn_tmpl_search(q, loop->target));
  CRN_TRY(crn_tmpl_search(q, loop->iterable));
  CRN_TRY(crn_tmpl_search_all(q, &loop->body));
  CRN_TRY(crn_tmpl_search_all(q, &loop->otherwise));
  return crn_tmpl_search(q, loop->test);
}

static cairn_status search_if(tmpl_search *q, const tmpl_if *branch) {
  CRN_TRY(crn_tmpl_search(q, branch->test));
  CRN_TRY(crn_tmpl_search_all(q, &branch->body));
  CRN_TRY(crn_tmpl_search_all(q, &branch->elifs));
  return crn_tmpl_search_all(q, &branch->otherwise);
}

static cairn_status search_child(void *self, tmpl_node *child) { return crn_tmpl_search(self, child); }

cairn_status crn_tmpl_search(tmpl_search *q, tmpl_node *node) {
  if (!node) return CAIRN_OK;
  CRN_TRY(crn_tmpl_resolver_spend(q->resolver, node->line));
  switch (node->kind) {
    case TMPL_N_NAME:
      note_name(q, node);
      return CAIRN_OK;
    case TMPL_N_OUTPUT:
      return crn_tmpl_search_all(q, &node->list.nodes);
    case TMPL_N_FOR:
      return search_for(q, node->loop);
    case TMPL_N_IF:
      return search_if(q, node->branch);
    case TMPL_N_SET:
    case TMPL_N_SET_BLOCK:
      CRN_TRY(crn_tmpl_search(q, node->set.target));
      CRN_TRY(crn_tmpl_search(q, node->set.value));
      CRN_TRY(crn_tmpl_search(q, node->set.filter));
      return crn_tmpl_search_all(q, &node->set.body);
    case TMPL_N_MACRO:
    case TMPL_N_CALL_BLOCK:
      return search_function(q, node);
    case TMPL_N_FILTER_BLOCK:
      CRN_TRY(crn_tmpl_search_all(q, &node->filter_block.body));
      return crn_tmpl_search(q, node->filter_block.filter);
    case TMPL_N_WITH:
    case TMPL_N_SCOPE:
      CRN_TRY(crn_tmpl_search_all(q, &node->with.targets));
      CRN_TRY(crn_tmpl_search_all(q, &node->with.values));
      return crn_tmpl_search_all(q, &node->with.body);
    case TMPL_N_BLOCK:
      q->has_scoped_block = q->has_scoped_block || node->block->scoped;
      // A block sees nothing of what is around it.
      return q->into_blocks ? crn_tmpl_search_all(q, &node->block->body) : CAIRN_OK;
    default:
      return crn_tmpl_expression_children(node, search_child, q);
  }
}
