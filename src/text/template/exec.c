/// Statements.
#include <string.h>

#include "text/template/render.h"

// --- scopes -----------------------------------------------------------------------------------------------------------------

// A variable of the rendering, a global function, or nothing.
static tmpl_value resolve_variable(const tmpl_render *r, const tmpl_str *name) {
  const tmpl_pair *pair = r->exported ? crn_tmpl_dict_find_str(r->exported, name) : NULL;
  if (!pair) pair = crn_tmpl_dict_find_str(r->variables, name);
  if (pair) return pair->value;
  const tmpl_callable *function = crn_tmpl_global_find(name);
  return function ? (tmpl_value){.type = TMPL_FUNCTION, .function = function} : tmpl_missing();
}

cairn_status crn_tmpl_enter_scope(tmpl_render *r, const tmpl_scope *scope) {
  CRN_TRY(crn_tmpl_steps(r, (uint64_t)scope->n_loads));
  for (int i = 0; i < scope->n_loads; i++) {
    const tmpl_load *load = &scope->loads[i];
    tmpl_value v = tmpl_missing();
    if (load->kind == TMPL_LOAD_RESOLVE)
      v = resolve_variable(r, load->name);
    else if (load->kind == TMPL_LOAD_ALIAS)
      v = *crn_tmpl_slot(r, load->from);
    r->frame->slots[load->slot] = v;
  }
  return CAIRN_OK;
}

void crn_tmpl_leave_scope(tmpl_render *r, const tmpl_scope *scope) {
  for (int i = 0; i < scope->n_slots; i++) r->frame->slots[scope->slots[i]] = tmpl_missing();
}

// --- assignment ---------------------------------------------------------------------------------------------------------------

static cairn_status assign_tuple(tmpl_render *r, const tmpl_nodes *targets, tmpl_value v) {
  tmpl_iter it;
  CRN_TRY(crn_tmpl_iter_start(r, v, &it));
  tmpl_value *values, extra;
  bool done = false;
  CRN_TRY(crn_tmpl_alloc(r, (size_t)targets->size, sizeof *values, &values));
  for (int i = 0; i < targets->size; i++) {
    CRN_TRY(crn_tmpl_iter_next(r, &it, &values[i], &done));
    if (done) return crn_tmpl_fail(r, "not enough values to unpack (expected %d, got %d)", targets->size, i);
  }
  CRN_TRY(crn_tmpl_iter_next(r, &it, &extra, &done));
  if (!done) return crn_tmpl_fail(r, "too many values to unpack (expected %d)", targets->size);
  for (int i = 0; i < targets->size; i++) CRN_TRY(crn_tmpl_assign(r, targets->items[i], values[i]));
  return CAIRN_OK;
}

cairn_status crn_tmpl_assign(tmpl_render *r, const tmpl_node *target, tmpl_value v) {
  if (target->kind == TMPL_N_NAME) {
    *crn_tmpl_slot(r, target->name.ref) = v;
    return CAIRN_OK;
  }
  if (target->kind == TMPL_N_TUPLE) return assign_tuple(r, &target->list.nodes, v);
  tmpl_value ns = *crn_tmpl_slot(r, target->attribute.ref);
  if (ns.type != TMPL_NAMESPACE) return crn_tmpl_fail(r, "cannot assign attribute on non-namespace object");
  return crn_tmpl_dict_set(r, ns.ns, tmpl_string(target->attribute.name), v);
}

// Attributes can only be set on namespaces, which is found out before the value is evaluated.
static cairn_status check_target(tmpl_render *r, const tmpl_node *target) {
  if (target->kind == TMPL_N_NAMESPACE_REF && crn_tmpl_slot(r, target->attribute.ref)->type != TMPL_NAMESPACE) {
    return crn_tmpl_fail(r, "cannot assign attribute on non-namespace object");
  }
  for (int i = 0; target->kind == TMPL_N_TUPLE && i < target->list.nodes.size; i++) CRN_TRY(check_target(r, target->list.nodes.items[i]));
  return CAIRN_OK;
}

// Blocks see what the top level has set.
static cairn_status export_target(tmpl_render *r, const tmpl_node *target) {
  if (target->kind == TMPL_N_NAME) {
    return crn_tmpl_dict_set(r, r->exported, tmpl_string(target->name.name), *crn_tmpl_slot(r, target->name.ref));
  }
  for (int i = 0; target->kind == TMPL_N_TUPLE && i < target->list.nodes.size; i++) CRN_TRY(export_target(r, target->list.nodes.items[i]));
  return CAIRN_OK;
}

static cairn_status exec_set(tmpl_render *r, const tmpl_node *node) {
  tmpl_value v;
  CRN_TRY(check_target(r, node->set.target));
  CRN_TRY(crn_tmpl_eval(r, node->set.value, &v));
  CRN_TRY(crn_tmpl_assign(r, node->set.target, v));
  return node->set.top_level && r->exported ? export_target(r, node->set.target) : CAIRN_OK;
}

static cairn_status exec_set_block(tmpl_render *r, const tmpl_node *node) {
  tmpl_value v;
  CRN_TRY(crn_tmpl_enter_scope(r, &node->set.scope));
  CRN_TRY(crn_tmpl_capture(r, &node->set.body, &v));
  // A break or continue inside leaves the assignment undone.
  if (r->flow != TMPL_FLOW_NEXT) return CAIRN_OK;
  r->block_text = v;
  if (node->set.filter) CRN_TRY(crn_tmpl_eval(r, node->set.filter, &v));
  CRN_TRY(check_target(r, node->set.target));
  CRN_TRY(crn_tmpl_assign(r, node->set.target, v));
  if (node->set.top_level && r->exported) CRN_TRY(export_target(r, node->set.target));
  crn_tmpl_leave_scope(r, &node->set.scope);
  return CAIRN_OK;
}

// --- output -------------------------------------------------------------------------------------------------------------------

static cairn_status check_output(tmpl_render *r) {
  if (r->out->used <= r->max_output) return CAIRN_OK;
  return crn_tmpl_limit(r, "the output is larger than %zu bytes", r->max_output);
}

static cairn_status exec_output(tmpl_render *r, const tmpl_node *node) {
  for (int i = 0; i < node->list.nodes.size; i++) {
    const tmpl_node *part = node->list.nodes.items[i];
    if (part->kind == TMPL_N_TEXT) {
      CRN_TRY(crn_tmpl_put(r, r->out, part->text->data, part->text->size));
    } else {
      tmpl_value v;
      CRN_TRY(crn_tmpl_eval(r, part, &v));
      CRN_TRY(crn_tmpl_put_str(r, r->out, v));
    }
    CRN_TRY(check_output(r));
  }
  return CAIRN_OK;
}

cairn_status crn_tmpl_capture(tmpl_render *r, const tmpl_nodes *nodes, tmpl_value *out) {
  tmpl_buffer text = {0}, *previous = r->out;
  r->out = &text;
  CRN_TRY(crn_tmpl_exec_all(r, nodes));
  r->out = previous;
  return crn_tmpl_str_finish(r, &text, out);
}

static cairn_status exec_filter_block(tmpl_render *r, const tmpl_node *node) {
  tmpl_value v;
  CRN_TRY(crn_tmpl_enter_scope(r, &node->filter_block.scope));
  CRN_TRY(crn_tmpl_capture(r, &node->filter_block.body, &v));
  if (r->flow != TMPL_FLOW_NEXT) return CAIRN_OK;
  r->block_text = v;
  CRN_TRY(crn_tmpl_eval(r, node->filter_block.filter, &v));
  CRN_TRY(crn_tmpl_put_str(r, r->out, v));
  crn_tmpl_leave_scope(r, &node->filter_block.scope);
  return check_output(r);
}

// --- branches and scopes --------------------------------------------------------------------------------------------------------

static cairn_status exec_if(tmpl_render *r, const tmpl_if *branch) {
  tmpl_value test;
  CRN_TRY(crn_tmpl_eval(r, branch->test, &test));
  if (crn_tmpl_truth(test)) return crn_tmpl_exec_all(r, &branch->body);
  for (int i = 0; i < branch->elifs.size; i++) {
    const tmpl_if *next = branch->elifs.items[i]->branch;
    CRN_TRY(crn_tmpl_eval(r, next->test, &test));
    if (crn_tmpl_truth(test)) return crn_tmpl_exec_all(r, &next->body);
  }
  return crn_tmpl_exec_all(r, &branch->otherwise);
}

static cairn_status exec_with(tmpl_render *r, const tmpl_node *node) {
  CRN_TRY(crn_tmpl_enter_scope(r, &node->with.scope));
  for (int i = 0; i < node->with.targets.size; i++) {
    tmpl_value v;
    CRN_TRY(crn_tmpl_eval(r, node->with.values.items[i], &v));
    CRN_TRY(crn_tmpl_assign(r, node->with.targets.items[i], v));
  }
  CRN_TRY(crn_tmpl_exec_all(r, &node->with.body));
  crn_tmpl_leave_scope(r, &node->with.scope);
  return CAIRN_OK;
}

// --- macros and blocks ------------------------------------------------------------------------------------------------------------

// Marks frames that something refers to beyond the call they belong to.
static void keep_frames(tmpl_frame *f) {
  for (; f && !f->captured; f = f->parent) f->captured = true;
}

static cairn_status make_macro(tmpl_render *r, const tmpl_function *function, tmpl_value *out) {
  tmpl_macro *macro;
  CRN_TRY(crn_tmpl_alloc(r, 1, sizeof *macro, &macro));
  *macro = (tmpl_macro){.function = function, .frame = r->frame};
  keep_frames(r->frame);
  *out = (tmpl_value){.type = TMPL_MACRO, .macro = macro};
  return CAIRN_OK;
}

static cairn_status exec_macro(tmpl_render *r, const tmpl_node *node) {
  tmpl_value v;
  CRN_TRY(make_macro(r, node->macro.function, &v));
  *crn_tmpl_slot(r, node->macro.ref) = v;
  if (!node->macro.top_level || !r->exported) return CAIRN_OK;
  return crn_tmpl_dict_set(r, r->exported, tmpl_string(node->macro.function->name), v);
}

static cairn_status call_with_caller(tmpl_render *r, const tmpl_node *call, tmpl_value caller, tmpl_value *out) {
  tmpl_value callee, *values;
  tmpl_args args;
  const tmpl_str **names;
  CRN_TRY(crn_tmpl_eval(r, call->call.callee, &callee));
  CRN_TRY(crn_tmpl_eval_args(r, &call->call.args, &args));
  r->line = call->line;
  if (crn_tmpl_keyword(&args, "caller")) return crn_tmpl_fail(r, "got multiple values for keyword argument 'caller'");
  size_t n = args.n_keywords;
  CRN_TRY(crn_tmpl_alloc(r, n + 1, sizeof *values, &values));
  CRN_TRY(crn_tmpl_alloc(r, n + 1, sizeof *names, &names));
  for (size_t i = 0; i < n; i++) {
    names[i] = args.names[i];
    values[i] = args.keywords[i];
  }
  names[n] = r->tree->special.caller;
  values[n] = caller;
  args.names = names;
  args.keywords = values;
  args.n_keywords = n + 1;
  return crn_tmpl_call(r, callee, &args, out);
}

static cairn_status exec_call_block(tmpl_render *r, const tmpl_node *node) {
  tmpl_value caller, v;
  CRN_TRY(make_macro(r, node->macro.function, &caller));
  if (node->macro.call) {
    CRN_TRY(call_with_caller(r, node->macro.call, caller, &v));
  } else {
    tmpl_args none = {0};
    CRN_TRY(crn_tmpl_call(r, caller, &none, &v));
  }
  CRN_TRY(crn_tmpl_put_str(r, r->out, v));
  return check_output(r);
}

static cairn_status run_block_body(tmpl_render *r, const tmpl_block *block) {
  if (block->self_slot >= 0) r->frame->slots[block->self_slot] = (tmpl_value){.type = TMPL_BLOCK};
  if (block->super_slot >= 0) {
    CRN_TRY(crn_tmpl_undefined(r, "there is no parent block", &r->frame->slots[block->super_slot]));
  }
  CRN_TRY(crn_tmpl_enter_scope(r, &block->scope));
  return crn_tmpl_exec_all(r, &block->body);
}

cairn_status crn_tmpl_run_block(tmpl_render *r, const tmpl_block *block) {
  tmpl_frame *previous;
  CRN_TRY(crn_tmpl_deeper(r));
  CRN_TRY(crn_tmpl_frame_push(r, NULL, block->n_slots, &previous));
  CRN_TRY(run_block_body(r, block));
  crn_tmpl_frame_pop(r, previous);
  r->depth--;
  return CAIRN_OK;
}

static cairn_status exec_block(tmpl_render *r, const tmpl_block *block) {
  if (block->required) return crn_tmpl_fail(r, "required block '%.*s' not found", (int)block->name->size, block->name->data);
  tmpl_dict *outer = r->exported, *seen;
  if (!block->scoped) return crn_tmpl_run_block(r, block);
  CRN_TRY(crn_tmpl_dict_make(r, &seen));
  for (size_t i = 0; i < outer->size; i++) CRN_TRY(crn_tmpl_dict_set(r, seen, outer->items[i].key, outer->items[i].value));
  for (int i = 0; i < block->n_visible; i++) {
    tmpl_value v = *crn_tmpl_slot(r, block->visible[i]);
    if (v.type != TMPL_MISSING) CRN_TRY(crn_tmpl_dict_set(r, seen, tmpl_string(block->visible_names[i]), v));
  }
  r->exported = seen;
  CRN_TRY(crn_tmpl_run_block(r, block));
  r->exported = outer;
  return CAIRN_OK;
}

// --- loops ------------------------------------------------------------------------------------------------------------------------

// The filter of a loop runs in a function of its own, of which one frame serves all items.
typedef struct loop_filter {
  const tmpl_for *loop;
  tmpl_frame *frame;
  tmpl_iter iter;
} loop_filter;

// What a target holds after an assignment to it: for several names a tuple, whatever was unpacked.
static cairn_status read_target(tmpl_render *r, const tmpl_node *target, tmpl_value *out) {
  if (target->kind == TMPL_N_NAME) {
    *out = *crn_tmpl_slot(r, target->name.ref);
    return CAIRN_OK;
  }
  tmpl_items parts = {0};
  for (int i = 0; i < target->list.nodes.size; i++) {
    tmpl_value part;
    CRN_TRY(read_target(r, target->list.nodes.items[i], &part));
    CRN_TRY(crn_tmpl_items_push(r, &parts, part));
  }
  return crn_tmpl_list_finish(r, &parts, TMPL_TUPLE, out);
}

static cairn_status test_item(tmpl_render *r, const loop_filter *f, tmpl_value *in_out_item, bool *out_keep) {
  tmpl_frame *previous = r->frame;
  tmpl_value test;
  r->frame = f->frame;
  CRN_TRY(crn_tmpl_assign(r, f->loop->test_target, *in_out_item));
  CRN_TRY(crn_tmpl_eval(r, f->loop->test, &test));
  *out_keep = crn_tmpl_truth(test);
  if (*out_keep) CRN_TRY(read_target(r, f->loop->test_target, in_out_item));
  r->frame = previous;
  return CAIRN_OK;
}

static cairn_status next_filtered(tmpl_render *r, tmpl_iter *it, tmpl_value *out, bool *out_done) {
  loop_filter *f = it->state;
  for (bool keep = false; !keep;) {
    CRN_TRY(crn_tmpl_iter_next(r, &f->iter, out, out_done));
    if (*out_done) return CAIRN_OK;
    CRN_TRY(test_item(r, f, out, &keep));
  }
  return CAIRN_OK;
}

static cairn_status filter_loop(tmpl_render *r, const tmpl_for *loop, tmpl_value *in_out) {
  loop_filter *f;
  tmpl_frame *previous;
  if (!loop->test) return CAIRN_OK;
  CRN_TRY(crn_tmpl_alloc(r, 1, sizeof *f, &f));
  f->loop = loop;
  CRN_TRY(crn_tmpl_iter_start(r, *in_out, &f->iter));
  CRN_TRY(crn_tmpl_frame_push(r, r->frame, loop->n_test_slots, &previous));
  f->frame = r->frame;
  // The template can keep the loop variable, and with it the filter.
  f->frame->captured = true;
  if (loop->needs_loop) keep_frames(previous);
  CRN_TRY(crn_tmpl_enter_scope(r, &loop->test_scope));
  crn_tmpl_frame_pop(r, previous);
  return crn_tmpl_generator_make(r, next_filtered, "loop_filter", *in_out, f, in_out);
}

static cairn_status next_of_any(tmpl_render *r, tmpl_loop *state, tmpl_iter *it, tmpl_value *out, bool *out_done) {
  return state ? crn_tmpl_loop_next(r, state, out, out_done) : crn_tmpl_iter_next(r, it, out, out_done);
}

// `state` is the loop variable, or NULL when the body does not use it.
static cairn_status run_loop(tmpl_render *r, const tmpl_for *loop, tmpl_loop *state, tmpl_iter *it) {
  bool finished_one = false;
  for (;;) {
    tmpl_value item;
    bool done;
    CRN_TRY(next_of_any(r, state, it, &item, &done));
    if (done) break;
    // The targets are set first: a name of the scope may be a copy of one of them.
    CRN_TRY(crn_tmpl_assign(r, loop->target, item));
    if (state) r->frame->slots[loop->loop_slot] = (tmpl_value){.type = TMPL_LOOP, .loop = state};
    CRN_TRY(crn_tmpl_enter_scope(r, &loop->body_scope));
    CRN_TRY(crn_tmpl_exec_all(r, &loop->body));
    tmpl_flow flow = r->flow;
    r->flow = TMPL_FLOW_NEXT;
    // As in Jinja's generated code, only an iteration that reaches its end keeps the else branch away.
    if (flow == TMPL_FLOW_NEXT) finished_one = true;
    if (flow == TMPL_FLOW_BREAK) break;
  }
  crn_tmpl_leave_scope(r, &loop->body_scope);
  if (finished_one || !loop->otherwise.size) return CAIRN_OK;
  CRN_TRY(crn_tmpl_enter_scope(r, &loop->else_scope));
  CRN_TRY(crn_tmpl_exec_all(r, &loop->otherwise));
  if (r->flow == TMPL_FLOW_NEXT) crn_tmpl_leave_scope(r, &loop->else_scope);
  return CAIRN_OK;
}

static cairn_status start_loop(tmpl_render *r, const tmpl_for *loop, tmpl_value iterable, tmpl_loop **out_state, tmpl_iter *out_it) {
  *out_state = NULL;
  CRN_TRY(filter_loop(r, loop, &iterable));
  if (!loop->needs_loop) return crn_tmpl_iter_start(r, iterable, out_it);
  CRN_TRY(crn_tmpl_alloc(r, 1, sizeof **out_state, out_state));
  (*out_state)->index0 = -1;
  (*out_state)->source = iterable;
  return crn_tmpl_iter_start(r, iterable, &(*out_state)->iter);
}

cairn_status crn_tmpl_run_recursive_loop(tmpl_render *r, const tmpl_node *node, tmpl_frame *frame, tmpl_value iterable, int64_t depth0,
                                         tmpl_value *out) {
  const tmpl_for *loop = node->loop;
  tmpl_frame *previous;
  tmpl_loop *state;
  tmpl_iter unused;
  tmpl_buffer text = {0}, *outer = r->out;
  CRN_TRY(crn_tmpl_deeper(r));
  // The filter is a function next to the loop's, so it is made in the frame around both.
  tmpl_frame *caller = r->frame;
  r->frame = frame;
  CRN_TRY(start_loop(r, loop, iterable, &state, &unused));
  r->frame = caller;
  state->node = node;
  state->frame = frame;
  state->depth0 = depth0;
  CRN_TRY(crn_tmpl_frame_push(r, frame, loop->n_slots, &previous));
  r->out = &text;
  CRN_TRY(run_loop(r, loop, state, NULL));
  r->out = outer;
  crn_tmpl_frame_pop(r, previous);
  r->depth--;
  return crn_tmpl_str_finish(r, &text, out);
}

static cairn_status exec_for(tmpl_render *r, const tmpl_node *node) {
  const tmpl_for *loop = node->loop;
  tmpl_value iterable;
  tmpl_loop *state;
  tmpl_iter it;
  CRN_TRY(crn_tmpl_eval(r, loop->iterable, &iterable));
  r->line = node->line;
  if (loop->recursive) {
    keep_frames(r->frame);
    CRN_TRY(crn_tmpl_run_recursive_loop(r, node, r->frame, iterable, 0, &iterable));
    return crn_tmpl_put_str(r, r->out, iterable);
  }
  CRN_TRY(start_loop(r, loop, iterable, &state, &it));
  return run_loop(r, loop, state, &it);
}

// --- dispatch ---------------------------------------------------------------------------------------------------------------------

static cairn_status exec(tmpl_render *r, const tmpl_node *node) {
  r->line = node->line;
  CRN_TRY(crn_tmpl_steps(r, 1));
  switch (node->kind) {
    case TMPL_N_OUTPUT:
      return exec_output(r, node);
    case TMPL_N_FOR:
      return exec_for(r, node);
    case TMPL_N_IF:
      return exec_if(r, node->branch);
    case TMPL_N_SET:
      return exec_set(r, node);
    case TMPL_N_SET_BLOCK:
      return exec_set_block(r, node);
    case TMPL_N_MACRO:
      return exec_macro(r, node);
    case TMPL_N_CALL_BLOCK:
      return exec_call_block(r, node);
    case TMPL_N_FILTER_BLOCK:
      return exec_filter_block(r, node);
    case TMPL_N_WITH:
    case TMPL_N_SCOPE:
      return exec_with(r, node);
    case TMPL_N_BLOCK:
      return exec_block(r, node->block);
    case TMPL_N_BREAK:
      r->flow = TMPL_FLOW_BREAK;
      return CAIRN_OK;
    case TMPL_N_CONTINUE:
      r->flow = TMPL_FLOW_CONTINUE;
      return CAIRN_OK;
    default:
      return CRN_FAIL(INTERNAL, "node %d is no statement", (int)node->kind);
  }
}

cairn_status crn_tmpl_exec_all(tmpl_render *r, const tmpl_nodes *nodes) {
  if (!nodes->size) return CAIRN_OK;
  CRN_TRY(crn_tmpl_deeper(r));
  if (++r->stack > r->max_stack) return crn_tmpl_limit(r, "expressions and calls are nested too deeply");
  for (int i = 0; i < nodes->size && r->flow == TMPL_FLOW_NEXT; i++) CRN_TRY(exec(r, nodes->items[i]));
  r->stack--;
  r->depth--;
  return CAIRN_OK;
}
