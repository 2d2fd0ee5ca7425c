// The functions an asset offers, and what they take, give and keep.
#include <stdio.h>
#include <string.h>

#include "asset/asset.h"
#include "base/context.h"
#include "tensor/tensor.h"

enum { MAX_SCOPED_NAME = 1000, MAX_ATTRIBUTES = 256 };

typedef enum value_role { ROLE_INPUT, ROLE_OUTPUT, ROLE_STATE } value_role;

static const char *const k_role_names[] = {"input", "output", "state"};

// Where a descriptor is being made, for messages.
typedef struct place {
  cairn_asset *asset;
  const char *function;
  value_role role;
  int index;  // among the values of that role
} place;

static cairn_status copy_factors(const crn_bc_field *list, const char *what, const char *name, uint32_t expected, int64_t *out) {
  if (list->n != expected) return CRN_FAIL(CORRUPT, "%s: %u %s, expected %u", name, list->n, what, expected);
  for (uint32_t i = 0; i < list->n; i++) {
    if (list->is[i] < 0) return CRN_FAIL(CORRUPT, "%s: %s %u is %lld", name, what, i, (long long)list->is[i]);
    out[i] = list->is[i] ? list->is[i] : 1;  // 0 asks for nothing, as 1 does
  }
  return CAIRN_OK;
}

static cairn_status describe_encoding(const crn_bc_attr *encoding, cairn_descriptor *d) {
  if (!encoding) return CAIRN_OK;
  if (encoding->code != CRN_BC_ATTR_HW_CONSTRAINTS && encoding->code != CRN_BC_ATTR_HW_CONSTRAINTS_BASE) {
    return CRN_FAIL(UNSUPPORTED, "%s: a tensor with a %s encoding cannot be an input, output or state", d->name,
                    crn_bc_attr_kind(encoding));
  }
  CRN_TRY(copy_factors(&encoding->fields[0], "alignments", d->name, (uint32_t)d->rank + 1, d->alignment));
  CRN_TRY(copy_factors(&encoding->fields[1], "interleave factors", d->name, (uint32_t)d->rank, d->interleave));
  if (encoding->code == CRN_BC_ATTR_HW_CONSTRAINTS) return CAIRN_OK;
  const crn_bc_attr *base = encoding->fields[3].a;
  if (base->code == CRN_BC_ATTR_UNIT) return CAIRN_OK;
  return CRN_FAIL(UNSUPPORTED, "%s: constraints on top of a %s encoding", d->name, crn_bc_attr_kind(base));
}

static cairn_status describe_image(const crn_bc_type *type, cairn_descriptor *d) {
  const crn_bc_attr *format = type->fields[0].a;
  uint64_t height = type->fields[1].u, width = type->fields[2].u;
  if (format->code != CRN_BC_ATTR_FOURCC) return CRN_FAIL(CORRUPT, "%s: an image whose format is a %s", d->name, crn_bc_attr_kind(format));
  if (height > INT32_MAX || width > INT32_MAX || format->fields[0].u > UINT32_MAX)
    return CRN_FAIL(CORRUPT, "%s: an image too large", d->name);
  d->is_image = true;
  d->image_format = (uint32_t)format->fields[0].u;
  d->image_height = (uint32_t)height;
  d->image_width = (uint32_t)width;
  d->dtype = CAIRN_UI8;
  crn_image_shape(d->image_format, d->image_height, d->image_width, &d->rank, d->shape);
  return CAIRN_OK;
}

static cairn_status describe_type(const crn_bc_type *type, cairn_descriptor *d) {
  for (int i = 0; i < CAIRN_MAX_RANK; i++) d->interleave[i] = d->alignment[i] = 1;
  d->alignment[CAIRN_MAX_RANK] = 1;
  if (type->code == CRN_BC_TYPE_IMAGE || type->code == CRN_BC_TYPE_IMAGE_CONSTRAINED) return describe_image(type, d);
  if (type->code != CRN_BC_TYPE_TENSOR && type->code != CRN_BC_TYPE_TENSOR_ENCODED) {
    return CRN_FAIL(UNSUPPORTED, "%s is a %s; a function takes and gives tensors and images", d->name, crn_bc_type_kind(type));
  }
  const crn_bc_attr *encoding;
  CRN_TRY(crn_bc_get_tensor(type, d->name, &d->dtype, &d->rank, d->shape, CAIRN_MAX_RANK, &encoding));
  return describe_encoding(encoding, d);
}

// Names are entries of the attributes of the value. A value without one keeps a name made of its position, so that it
// can still be addressed. A name is not copied: it ends with a NUL in the file, which stays mapped with the asset.
static cairn_status name_value(const place *p, const crn_bc_attr *attributes, const char **out) {
  // Values may share attributes, so a long list would be searched once per value.
  if (attributes && attributes->n_fields && attributes->fields[0].n > MAX_ATTRIBUTES) {
    return CRN_FAIL(CORRUPT, "a value with %u attributes, at most %d are read", attributes->fields[0].n, MAX_ATTRIBUTES);
  }
  const crn_bc_attr *name = crn_bc_find_entry(attributes, "aicode.name");
  if (!name) name = crn_bc_find_entry(attributes, "coreai.name");
  crn_bc_text text = {0};
  if (name) CRN_TRY(crn_bc_get_text(name, "the name of a value", &text));
  *out = text.data;
  if (text.bytes) return CAIRN_OK;
  char made[32];
  snprintf(made, sizeof made, "%s%d", k_role_names[p->role], p->index);
  CRN_TRY(crn_asset_warn(p->asset, "%s %d of function '%.100s' has no name, it is called '%s'", k_role_names[p->role], p->index,
                         p->function, made));
  return crn_arena_strndup(&p->asset->arena, made, strlen(made), out);
}

static cairn_status describe_value(const place *p, const crn_bc_type *type, const crn_bc_attr *attributes, cairn_descriptor *d) {
  CRN_TRY(name_value(p, attributes, &d->name));
  cairn_status status = describe_type(type, d);
  if (status != CAIRN_OK) return crn_note(status, "%s %d of function '%s'", k_role_names[p->role], p->index, p->function);
  return CAIRN_OK;
}

// The attributes of value `i`; argument and result attributes may be empty as a whole.
static const crn_bc_attr *attributes_of(const crn_bc_attr *all, uint32_t i) {
  return all && all->code == CRN_BC_ATTR_ARRAY && i < all->fields[0].n ? all->fields[0].as[i] : NULL;
}

typedef struct value_list {
  cairn_descriptor *items;
  int n;
} value_list;

static cairn_status add_value(cairn_asset *asset, const char *function, value_role role, const crn_bc_type *type,
                              const crn_bc_attr *attributes, value_list *list) {
  place p = {asset, function, role, list->n};
  CRN_TRY(describe_value(&p, type, attributes, &list->items[list->n]));
  list->n++;
  return CAIRN_OK;
}

static uint32_t count_types(const crn_bc_field *types, uint16_t code) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < types->n; i++) n += types->ts[i]->code == code;
  return n;
}

static cairn_status describe_arguments(cairn_asset *asset, const crn_bc_field *types, const crn_bc_attr *attributes,
                                       cairn_function_info *f) {
  value_list inputs = {0}, states = {0};
  uint32_t n_states = count_types(types, CRN_BC_TYPE_HANDLE), n_tokens = count_types(types, CRN_BC_TYPE_TOKEN);
  CRN_TRY(crn_arena_array(&asset->arena, types->n - n_states - n_tokens, sizeof *inputs.items, &inputs.items));
  CRN_TRY(crn_arena_array(&asset->arena, n_states, sizeof *states.items, &states.items));
  for (uint32_t i = 0; i < types->n; i++) {
    const crn_bc_type *t = types->ts[i];
    const crn_bc_attr *a = attributes_of(attributes, i);
    if (t->code == CRN_BC_TYPE_HANDLE) {
      CRN_TRY(add_value(asset, f->name, ROLE_STATE, t->fields[0].t, a, &states));
    } else if (t->code != CRN_BC_TYPE_TOKEN) {
      CRN_TRY(add_value(asset, f->name, ROLE_INPUT, t, a, &inputs));
    }
  }
  f->inputs = inputs.items;
  f->n_inputs = inputs.n;
  f->states = states.items;
  f->n_states = states.n;
  return CAIRN_OK;
}

static cairn_status describe_results(cairn_asset *asset, const crn_bc_field *types, const crn_bc_attr *attributes, cairn_function_info *f) {
  value_list outputs = {0};
  uint32_t n = types->n - count_types(types, CRN_BC_TYPE_TOKEN);
  CRN_TRY(crn_arena_array(&asset->arena, n, sizeof *outputs.items, &outputs.items));
  for (uint32_t i = 0; i < types->n; i++) {
    if (types->ts[i]->code == CRN_BC_TYPE_TOKEN) continue;
    CRN_TRY(add_value(asset, f->name, ROLE_OUTPUT, types->ts[i], attributes_of(attributes, i), &outputs));
  }
  f->outputs = outputs.items;
  f->n_outputs = outputs.n;
  return CAIRN_OK;
}

// Many graphs may name one function type with many values. Each value is an argument or a returned operand in the body
// of each graph too, which takes a byte, so a type that the body has no room for is not believed.
static bool body_has_room(const crn_bc_op *graph, uint32_t n_operands, uint32_t n_results) {
  if (graph->isolated) return (uint64_t)n_operands + n_results <= graph->section_bytes;
  if (graph->n_regions != 1 || graph->regions[0].n_blocks == 0) return false;
  const crn_bc_block *block = graph->regions[0].blocks[0];
  return n_operands == block->n_arguments && block->n_ops && n_results == block->ops[block->n_ops - 1]->n_operands;
}

static cairn_status describe_function(cairn_asset *asset, const crn_bc_op *graph, const char *name) {
  const crn_bc_attr *type = crn_bc_op_property(graph, "functionType");
  if (!type || type->code != CRN_BC_ATTR_TYPE || type->fields[0].t->code != CRN_BC_TYPE_FUNCTION) {
    return CRN_FAIL(CORRUPT, "the graph '%s' has no function type", name);
  }
  const crn_bc_field *results = &type->fields[0].t->fields[0], *operands = &type->fields[0].t->fields[1];
  if (!body_has_room(graph, operands->n, results->n)) {
    return CRN_FAIL(CORRUPT, "the graph '%s' has %u arguments and %u results, more than its body", name, operands->n, results->n);
  }
  cairn_function_info f = {.name = name};
  CRN_TRY(describe_arguments(asset, operands, crn_bc_op_property(graph, "argAttrs"), &f));
  CRN_TRY(describe_results(asset, results, crn_bc_op_property(graph, "resAttrs"), &f));
  return crn_vec_push(&asset->context->allocator, &asset->functions, f);
}

// A graph is offered unless it is private, only declared, or the body of a composite.
static cairn_status is_offered(const crn_bc_op *graph, bool *out) {
  int64_t is_private, is_external;
  CRN_TRY(crn_bc_get_int(crn_bc_op_property(graph, "isPrivate"), "property 'isPrivate' of a graph", &is_private));
  CRN_TRY(crn_bc_get_int(crn_bc_op_property(graph, "externalize"), "property 'externalize' of a graph", &is_external));
  *out = !is_private && !is_external && !crn_bc_op_property(graph, "compositeDecl");
  return CAIRN_OK;
}

// The name of a graph or namespace with those of the namespaces around it: "scope.graph".
static cairn_status scoped_name(cairn_asset *asset, const crn_bc_op *op, const char *scope, const char **out) {
  crn_bc_text name;
  CRN_TRY(crn_bc_get_text(crn_bc_op_property(op, "name"), "the name of a graph", &name));
  *out = name.data;
  if (!*scope) return CAIRN_OK;
  char joined[MAX_SCOPED_NAME + 1];
  int n = snprintf(joined, sizeof joined, "%s.%s", scope, name.data);
  if (n > MAX_SCOPED_NAME)
    return CRN_FAIL(UNSUPPORTED, "the name '%.100s...' has %d bytes, at most %d are supported", joined, n, MAX_SCOPED_NAME);
  return crn_arena_strndup(&asset->arena, joined, (size_t)n, out);
}

static cairn_status describe_scope(cairn_asset *asset, crn_bc_module *m, const crn_bc_op *scope, const char *scope_name);

static cairn_status describe_op(cairn_asset *asset, crn_bc_module *m, const crn_bc_op *op, const char *scope_name) {
  bool is_namespace = !strcmp(op->name, "dataflow.namespace_v1"), offered = false;
  if (!is_namespace && strcmp(op->name, "dataflow.graph_v1") != 0) return CAIRN_OK;
  if (!is_namespace) CRN_TRY(is_offered(op, &offered));
  if (!is_namespace && !offered) return CAIRN_OK;
  const char *name;
  CRN_TRY(scoped_name(asset, op, scope_name, &name));
  return is_namespace ? describe_scope(asset, m, op, name) : describe_function(asset, op, name);
}

// The nesting of regions is bounded by the reader, and so is this recursion.
static cairn_status describe_scope(cairn_asset *asset, crn_bc_module *m, const crn_bc_op *scope, const char *scope_name) {
  const crn_bc_region *regions;
  CRN_TRY(crn_bc_op_regions(m, scope, &regions));
  for (uint32_t i = 0; i < scope->n_regions; i++) {
    for (uint32_t k = 0; k < regions[i].n_blocks; k++) {
      const crn_bc_block *block = regions[i].blocks[k];
      for (uint32_t j = 0; j < block->n_ops; j++) CRN_TRY(describe_op(asset, m, block->ops[j], scope_name));
    }
  }
  return CAIRN_OK;
}

cairn_status crn_asset_describe_functions(cairn_asset *asset, crn_bc_module *m) {
  return describe_scope(asset, m, crn_bc_module_top(m), "");
}
