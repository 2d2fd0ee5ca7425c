#include "program/print.h"

static cairn_status print_dims(const crn_type *t, crn_str *out) {
  CRN_TRY(crn_str_printf(out, "%s[", cairn_dtype_name(t->dtype)));
  for (int i = 0; i < t->rank; i++) {
    if (i) CRN_TRY(crn_str_putc(out, ','));
    if (t->dims[i] < 0) {
      CRN_TRY(crn_str_putc(out, '?'));
    } else {
      CRN_TRY(crn_str_printf(out, "%lld", (long long)t->dims[i]));
    }
    if (t->interleave[i] > 1) CRN_TRY(crn_str_printf(out, "/%lld", (long long)t->interleave[i]));
  }
  return crn_str_puts(out, t->is_sparse ? ", sparse]" : "]");
}

cairn_status crn_type_print(const crn_type *t, crn_str *out) {
  switch (t->kind) {
    case CRN_TYPE_TENSOR:
      return print_dims(t, out);
    case CRN_TYPE_HANDLE:
      CRN_TRY(crn_str_puts(out, "handle<"));
      CRN_TRY(print_dims(t, out));
      return crn_str_putc(out, '>');
    case CRN_TYPE_TOKEN:
      return crn_str_puts(out, "token");
    case CRN_TYPE_IMAGE:
      return crn_str_printf(out, "image[%u,%u]", t->image_height, t->image_width);
    default:
      return crn_str_puts(out, "opaque");
  }
}

static cairn_status print_values(const char *separator, crn_value *const *values, const crn_value *array, uint32_t n, crn_str *out) {
  for (uint32_t i = 0; i < n; i++) CRN_TRY(crn_str_printf(out, "%s%%%u", i ? separator : "", values ? values[i]->id : array[i].id));
  return CAIRN_OK;
}

// Short vectors of integers are shown in full: they are the shapes and bounds one wants to read.
static cairn_status print_constant(const crn_constant *c, crn_str *out) {
  int64_t n = crn_tensor_count(&c->tensor);
  if (c->name) CRN_TRY(crn_str_printf(out, " @%s", c->name));
  if (c->tensor.packed || n > 16 || c->tensor.rank > 1) return CAIRN_OK;
  CRN_TRY(crn_str_puts(out, " ["));
  for (int64_t i = 0; i < n; i++) {
    const void *p = crn_tensor_at(&c->tensor, c->tensor.rank ? i * c->tensor.strides[0] : 0);
    CRN_TRY(crn_str_printf(out, "%s%g", i ? ", " : "", crn_load_f64(c->tensor.dtype, p)));
  }
  return crn_str_putc(out, ']');
}

static cairn_status print_block(const crn_block *block, int indent, crn_str *out);

static cairn_status print_op(const crn_op *op, int indent, crn_str *out) {
  CRN_TRY(crn_str_printf(out, "%*s", indent, ""));
  CRN_TRY(print_values(", ", NULL, op->results, op->n_results, out));
  CRN_TRY(crn_str_printf(out, "%s%s", op->n_results ? " = " : "", crn_op_info_of(op->id)->name));
  if (op->id == CRN_OP_invoke) CRN_TRY(crn_str_printf(out, " @%s", op->attr.callee->name));
  if (op->id == CRN_OP_constant) CRN_TRY(print_constant(op->attr.constant, out));
  if (op->n_operands) CRN_TRY(crn_str_putc(out, ' '));
  CRN_TRY(print_values(", ", op->operands, NULL, op->n_operands, out));
  for (uint32_t i = 0; i < op->n_results; i++) {
    CRN_TRY(crn_str_puts(out, i ? ", " : " : "));
    CRN_TRY(crn_type_print(op->results[i].type, out));
  }
  for (uint32_t r = 0; r < op->n_regions; r++) {
    CRN_TRY(crn_str_puts(out, " {\n"));
    for (uint32_t b = 0; b < op->regions[r].n_blocks; b++) CRN_TRY(print_block(op->regions[r].blocks[b], indent + 2, out));
    CRN_TRY(crn_str_printf(out, "%*s}", indent, ""));
  }
  return crn_str_putc(out, '\n');
}

static cairn_status print_block(const crn_block *block, int indent, crn_str *out) {
  for (const crn_op *op = block->first; op; op = op->next) CRN_TRY(print_op(op, indent, out));
  return CAIRN_OK;
}

cairn_status crn_graph_print(const crn_graph *g, crn_str *out) {
  CRN_TRY(crn_str_printf(out, "%sgraph @%s(", g->composite ? "composite " : g->is_private ? "private " : "", g->name));
  for (uint32_t i = 0; i < g->body->n_arguments; i++) {
    const crn_value *v = &g->body->arguments[i];
    CRN_TRY(crn_str_printf(out, "%s%%%u %s: ", i ? ", " : "", v->id, v->name ? v->name : "_"));
    CRN_TRY(crn_type_print(v->type, out));
  }
  CRN_TRY(crn_str_puts(out, ")"));
  for (uint32_t i = 0; i < g->n_results; i++) {
    CRN_TRY(crn_str_printf(out, "%s%s: ", i ? ", " : " -> ", g->result_names[i] ? g->result_names[i] : "_"));
    CRN_TRY(crn_type_print(g->result_types[i], out));
  }
  CRN_TRY(crn_str_puts(out, " {\n"));
  CRN_TRY(print_block(g->body, 2, out));
  return crn_str_puts(out, "}\n");
}

cairn_status crn_program_print(const crn_program *p, crn_str *out) {
  for (const crn_graph *g = p->first; g; g = g->next) CRN_TRY(crn_graph_print(g, out));
  return CAIRN_OK;
}
