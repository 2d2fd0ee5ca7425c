/// The public functions. Reading order of this folder: ast.h, lexer.c, parser_stmt.c, parser_expr.c, scope.c, value.h,
/// render.h, exec.c, eval.c, call.c, then the tables filters.def, methods.def and tests.c.
#include "cairn/template.h"

#include <string.h>

#include "base/context.h"
#include "text/template/render.h"

// The C stack a rendering may use grows with the depth it is allowed, so that depth is never unlimited.
enum { DEFAULT_DEPTH = 200, MAX_DEPTH = 1000, STACK_PER_LEVEL = 5 };

static const cairn_template_limits g_default_limits = {
    .max_steps = 20 * 1000 * 1000, .max_output_bytes = (size_t)64 << 20, .max_depth = DEFAULT_DEPTH};

static cairn_status compile(cairn_template *t, const char *source, size_t source_bytes, const char *what) {
  CRN_TRY(crn_arena_strndup(&t->arena, what ? what : "template", strlen(what ? what : "template"), &t->tree.what));
  CRN_TRY(crn_tmpl_parse(&t->tree, source, source_bytes));
  return crn_tmpl_resolve(&t->tree);
}

cairn_status cairn_template_create(cairn_context *context, const char *source, size_t source_bytes, const char *what,
                                   cairn_template **out_template) {
  if (!out_template) return CRN_FAIL(INVALID_ARGUMENT, "out_template must not be NULL");
  *out_template = NULL;
  if (!context) return CRN_FAIL(INVALID_ARGUMENT, "context must not be NULL");
  if (!source && source_bytes) return CRN_FAIL(INVALID_ARGUMENT, "source must not be NULL");
  cairn_template *t;
  CRN_TRY(crn_alloc_zero(&context->allocator, sizeof *t, &t));
  atomic_init(&t->references, 1);
  t->context = context;
  cairn_context_retain(context);
  crn_arena_initialize(&t->arena, &context->allocator);
  t->tree.arena = &t->arena;
  cairn_status status = compile(t, source ? source : "", source_bytes, what);
  if (status != CAIRN_OK) {
    cairn_template_release(t);
    return status;
  }
  *out_template = t;
  return CAIRN_OK;
}

void cairn_template_retain(cairn_template *t) {
  if (t) atomic_fetch_add_explicit(&t->references, 1, memory_order_relaxed);
}

void cairn_template_release(cairn_template *t) {
  if (!t || atomic_fetch_sub_explicit(&t->references, 1, memory_order_acq_rel) != 1) return;
  cairn_context *context = t->context;
  crn_arena_deinitialize(&t->arena);
  crn_free(&context->allocator, t, sizeof *t);
  cairn_context_release(context);
}

static cairn_status run(tmpl_render *r, const char *variables_json, size_t variables_bytes) {
  tmpl_dict *variables;
  tmpl_frame *none;
  CRN_TRY(crn_tmpl_read_variables(r, variables_json, variables_bytes, &variables));
  r->variables = variables;
  if (r->tree->n_blocks) CRN_TRY(crn_tmpl_dict_make(r, &r->exported));
  CRN_TRY(crn_tmpl_frame_push(r, NULL, r->tree->n_slots, &none));
  if (r->tree->self_slot >= 0) r->frame->slots[r->tree->self_slot] = (tmpl_value){.type = TMPL_BLOCK};
  CRN_TRY(crn_tmpl_enter_scope(r, &r->tree->scope));
  return crn_tmpl_exec_all(r, &r->tree->body);
}

static void start(tmpl_render *r, const cairn_template *t, const cairn_template_limits *limits) {
  cairn_template_limits used = limits ? *limits : g_default_limits;
  if (!used.max_steps) used.max_steps = g_default_limits.max_steps;
  if (!used.max_output_bytes) used.max_output_bytes = g_default_limits.max_output_bytes;
  if (used.max_depth <= 0) used.max_depth = DEFAULT_DEPTH;
  if (used.max_depth > MAX_DEPTH) used.max_depth = MAX_DEPTH;
  *r = (tmpl_render){.tree = &t->tree, .steps_left = used.max_steps, .max_output = used.max_output_bytes, .line = 1};
  r->max_memory = (size_t)64 << 20;
  if (used.max_output_bytes < (SIZE_MAX - r->max_memory) / 4)
    r->max_memory += 4 * used.max_output_bytes;
  else
    r->max_memory = SIZE_MAX;
  r->max_depth = used.max_depth;
  r->max_stack = used.max_depth * STACK_PER_LEVEL;
  crn_arena_initialize(&r->arena, t->arena.allocator);
}

cairn_status cairn_template_render(const cairn_template *t, const char *variables_json, size_t variables_bytes,
                                   const cairn_template_limits *limits, char *out_text, size_t capacity, size_t *out_bytes) {
  if (!t || !out_bytes) return CRN_FAIL(INVALID_ARGUMENT, "template and out_bytes must not be NULL");
  if (!variables_json || (!out_text && capacity)) return CRN_FAIL(INVALID_ARGUMENT, "variables and out_text must not be NULL");
  *out_bytes = 0;
  tmpl_render r;
  tmpl_buffer out = {0};
  start(&r, t, limits);
  r.out = &out;
  cairn_status status = run(&r, variables_json, variables_bytes);
  if (status == CAIRN_OK) {
    size_t n = out.used < capacity ? out.used : capacity;
    if (n) memcpy(out_text, out.base, n);
    *out_bytes = out.used;
  }
  crn_arena_deinitialize(&r.arena);
  return status;
}
