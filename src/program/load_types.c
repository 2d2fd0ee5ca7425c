// Types, constants and attributes of the stored form.
#include <string.h>

#include "base/checked.h"
#include "program/loader.h"

static cairn_status apply_encoding(crn_type *out, const crn_bc_attr *e) {
  if (!e) return CAIRN_OK;
  if (e->code == CRN_BC_ATTR_HW_CONSTRAINTS || e->code == CRN_BC_ATTR_HW_CONSTRAINTS_BASE) {
    const crn_bc_field *align = &e->fields[0], *interleave = &e->fields[1];
    if (interleave->n != (uint32_t)out->rank)
      return CRN_FAIL(CORRUPT, "a layout constraint of rank %u on a tensor of rank %d", interleave->n, out->rank);
    out->has_layout = true;
    for (uint32_t i = 0; i < interleave->n; i++) {
      if (interleave->is[i] < 1 || interleave->is[i] > 4096)
        return CRN_FAIL(CORRUPT, "interleave %lld of a layout constraint", (long long)interleave->is[i]);
      out->interleave[i] = interleave->is[i];
    }
    for (uint32_t i = 0; i < align->n && i <= CAIRN_MAX_RANK; i++) out->alignment[i] = align->is[i];
  } else if (e->code == CRN_BC_ATTR_SPARSE || e->code == CRN_BC_ATTR_SPARSE_BLOCK) {
    out->is_sparse = true;
    out->n_nonzero = e->fields[3].n ? (int64_t)e->fields[3].u : -1;
  }
  return CAIRN_OK;
}

static cairn_status fill_tensor(const crn_bc_type *t, crn_type *out) {
  const crn_bc_attr *encoding = NULL;
  CRN_TRY(crn_bc_get_tensor(t, "a value's type", &out->dtype, &out->rank, out->dims, CAIRN_MAX_RANK, &encoding));
  return apply_encoding(out, encoding);
}

// An image is kept as its pixels: an array of bytes in the shape that image_to_tensor gives it.
static cairn_status fill_image(const crn_bc_type *t, crn_type *out) {
  const crn_bc_attr *format = t->fields[0].a;
  uint64_t height = t->fields[1].u, width = t->fields[2].u;
  if (format->code != CRN_BC_ATTR_FOURCC || format->fields[0].u > UINT32_MAX) return CRN_FAIL(CORRUPT, "an image without a format");
  out->kind = CRN_TYPE_IMAGE;
  out->dtype = CAIRN_UI8;
  out->image_format = (uint32_t)format->fields[0].u;
  if (height > INT32_MAX || width > INT32_MAX) return CRN_FAIL(CORRUPT, "an image too large");
  out->image_height = (uint32_t)height;
  out->image_width = (uint32_t)width;
  crn_image_shape(out->image_format, out->image_height, out->image_width, &out->rank, out->dims);
  return CAIRN_OK;
}

static cairn_status fill_type(const crn_bc_type *t, crn_type *out) {
  for (int i = 0; i <= CAIRN_MAX_RANK; i++) {
    if (i < CAIRN_MAX_RANK) out->interleave[i] = 1;
    out->alignment[i] = 1;
  }
  out->n_nonzero = -1;
  switch (t->code) {
    case CRN_BC_TYPE_TENSOR:
    case CRN_BC_TYPE_TENSOR_ENCODED:
      out->kind = CRN_TYPE_TENSOR;
      return fill_tensor(t, out);
    case CRN_BC_TYPE_HANDLE:
      out->kind = CRN_TYPE_HANDLE;
      if (t->fields[0].t->code != CRN_BC_TYPE_TENSOR && t->fields[0].t->code != CRN_BC_TYPE_TENSOR_ENCODED) {
        return CRN_FAIL(UNSUPPORTED, "a state that is not a tensor");
      }
      return fill_tensor(t->fields[0].t, out);
    case CRN_BC_TYPE_TOKEN:
      out->kind = CRN_TYPE_TOKEN;
      return CAIRN_OK;
    case CRN_BC_TYPE_IMAGE:
    case CRN_BC_TYPE_IMAGE_CONSTRAINED:
      return fill_image(t, out);
    default:
      out->kind = CRN_TYPE_OPAQUE;
      return CAIRN_OK;
  }
}

cairn_status crn_load_type(crn_loader *l, const crn_bc_type *t, const crn_type **out_type) {
  uint64_t known;
  if (crn_map_get(&l->types, (const char *)&t, sizeof t, &known)) {
    *out_type = (const crn_type *)(uintptr_t)known;
    return CAIRN_OK;
  }
  crn_type *fresh;
  CRN_TRY(crn_arena_alloc(l->arena, sizeof *fresh, &fresh));
  CRN_TRY(fill_type(t, fresh));
  CRN_TRY(crn_map_set(&l->types, (const char *)&t, sizeof t, (uintptr_t)fresh));
  *out_type = fresh;
  return CAIRN_OK;
}

// Elements that cannot be used where they lie (misaligned, or sub-byte values without their sign bits) are copied; only
// small inline data is ever in that form in genuine files.
static cairn_status settle(crn_loader *l, const crn_bc_constant *c, int64_t n_stored, crn_tensor *t) {
  size_t element = cairn_dtype_bytes(c->dtype), bytes;
  bool subbyte = crn_dtype_bits(c->dtype) < 8;
  t->data = (void *)c->data;
  if (!subbyte && (uintptr_t)c->data % element == 0) return CAIRN_OK;
  if (subbyte && c->packed && !c->splat) {
    t->packed = true;
    return CAIRN_OK;
  }
  if (!crn_mul_size((size_t)n_stored, element, &bytes)) return CRN_FAIL(CORRUPT, "constant too large");
  unsigned char *copy;
  CRN_TRY(crn_arena_alloc(l->arena, bytes, &copy));
  if (bytes) memcpy(copy, c->data, bytes);
  t->data = copy;
  if (!subbyte) return CAIRN_OK;
  int bits = crn_dtype_bits(c->dtype);
  unsigned mask = (1u << bits) - 1, sign = 1u << (bits - 1);
  bool is_signed = crn_dtype_class_of(c->dtype) == CRN_CLASS_SINT;
  for (size_t i = 0; i < bytes; i++) {
    unsigned v = copy[i] & mask;
    copy[i] = (unsigned char)(is_signed && (v & sign) ? v | ~mask : v);
  }
  return CAIRN_OK;
}

cairn_status crn_load_constant(crn_loader *l, const crn_bc_attr *value, const crn_bc_type *type, const crn_constant **out_constant) {
  crn_bc_constant c;
  crn_constant *fresh;
  const crn_type *t;
  CRN_TRY(crn_bc_constant_data(l->module, value, type, &c));
  CRN_TRY(crn_load_type(l, type, &t));
  CRN_TRY(crn_arena_alloc(l->arena, sizeof *fresh, &fresh));
  fresh->tensor = crn_tensor_make(t->dtype, t->dims, t->rank, NULL);
  fresh->is_splat = c.splat;
  fresh->stored_bytes = c.bytes;
  CRN_TRY(settle(l, &c, c.splat ? 1 : c.n_elements, &fresh->tensor));
  if (c.splat) {
    for (int i = 0; i < t->rank; i++) fresh->tensor.strides[i] = 0;
  }
  if (value->code == CRN_BC_ATTR_DENSE_RESOURCE) {
    const crn_bc_resource *r = crn_bc_module_resource(l->module, value->fields[0].u);
    if (r) CRN_TRY(crn_arena_strndup(l->arena, r->key.data, r->key.bytes, &fresh->name));
  }
  *out_constant = fresh;
  return CAIRN_OK;
}

static double float_from_bits(uint64_t width, uint64_t bits) {
  if (width == 64) {
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
  }
  uint32_t low = (uint32_t)bits;
  return width == 32 ? crn_load_f64(CAIRN_F32, &low) : crn_load_f64(CAIRN_F16, &low);
}

static cairn_status load_list(crn_loader *l, const crn_bc_attr *a, bool is_dictionary, int depth, crn_attr *out) {
  crn_attr *items;
  const crn_bc_field *f = &a->fields[0];
  CRN_TRY(crn_arena_array(l->arena, f->n, sizeof *items, &items));
  for (uint32_t i = 0; i < f->n; i++) {
    const crn_bc_attr *entry = f->as[i];
    const char *key = NULL;
    if (is_dictionary) {
      if (entry->code != CRN_BC_ATTR_OPAQUE || entry->fields[1].n != 1) return CRN_FAIL(CORRUPT, "a dictionary entry without one value");
      CRN_TRY(crn_arena_strndup(l->arena, entry->fields[0].s.data, entry->fields[0].s.bytes, &key));
      entry = entry->fields[1].as[0];
    }
    CRN_TRY(crn_load_attr(l, entry, key, depth + 1, &items[i]));
  }
  out->kind = is_dictionary ? CRN_ATTR_DICT : CRN_ATTR_LIST;
  out->list.items = items;
  out->list.n = f->n;
  return CAIRN_OK;
}

cairn_status crn_load_attr(crn_loader *l, const crn_bc_attr *a, const char *key, int depth, crn_attr *out) {
  *out = (crn_attr){.kind = CRN_ATTR_NONE, .key = key};
  if (depth > 32) return CRN_FAIL(CORRUPT, "attributes nested more than 32 deep");
  switch (a->code) {
    case CRN_BC_ATTR_STRING:
      out->kind = CRN_ATTR_STRING;
      return crn_load_text(l, a, "a string attribute", &out->s);
    case CRN_BC_ATTR_INTEGER:
      out->kind = a->fields[0].u == 1 ? CRN_ATTR_BOOL : CRN_ATTR_INT;
      CRN_TRY(crn_bc_get_int(a, "an integer attribute", &out->i));
      if (out->kind == CRN_ATTR_BOOL) out->i = out->i != 0;
      return CAIRN_OK;
    case CRN_BC_ATTR_FLOAT:
      out->kind = CRN_ATTR_FLOAT;
      out->f = float_from_bits(a->fields[0].u, a->fields[1].u);
      return CAIRN_OK;
    case CRN_BC_ATTR_ARRAY:
      return load_list(l, a, false, depth, out);
    case CRN_BC_ATTR_DICTIONARY:
      return load_list(l, a, true, depth, out);
    case CRN_BC_ATTR_APPROXIMATE:
    case CRN_BC_ATTR_SCATTER_MODE:
    case CRN_BC_ATTR_SCAN_COMBINER:
      // The saver turns small signless integers of user dictionaries into enums (FORMAT §10.4): read them back as numbers.
      out->kind = CRN_ATTR_INT;
      out->i = (int64_t)a->fields[0].u;
      return CAIRN_OK;
    default:
      return CAIRN_OK;
  }
}

static cairn_status load_names(crn_loader *l, const crn_bc_attr *a, const char *const **out_names, uint32_t *out_n) {
  const crn_bc_attr *const *items;
  const char **names;
  CRN_TRY(crn_bc_get_array(a, "input_names of a composite", &items, out_n));
  CRN_TRY(crn_arena_array(l->arena, *out_n, sizeof *names, &names));
  for (uint32_t i = 0; i < *out_n; i++) CRN_TRY(crn_load_text(l, items[i], "an input name of a composite", &names[i]));
  *out_names = names;
  return CAIRN_OK;
}

cairn_status crn_load_composite(crn_loader *l, const crn_bc_attr *decl, const crn_composite_decl **out_decl) {
  if (decl->code != CRN_BC_ATTR_OPAQUE) return CRN_FAIL(CORRUPT, "a composite declaration of another kind than a named tuple");
  crn_composite_decl *d;
  crn_attr *attrs;
  CRN_TRY(crn_arena_alloc(l->arena, sizeof *d, &d));
  CRN_TRY(crn_arena_alloc(l->arena, sizeof *attrs, &attrs));
  CRN_TRY(crn_arena_strndup(l->arena, decl->fields[0].s.data, decl->fields[0].s.bytes, &d->name));
  for (uint32_t i = 0; i < decl->fields[1].n; i++) {
    const crn_bc_attr *part = decl->fields[1].as[i];
    if (part->code != CRN_BC_ATTR_OPAQUE || part->fields[1].n != 1) continue;
    crn_bc_text key = part->fields[0].s;
    const crn_bc_attr *value = part->fields[1].as[0];
    if (key.bytes == 11 && !memcmp(key.data, "input_names", 11)) CRN_TRY(load_names(l, value, &d->input_names, &d->n_inputs));
    if (key.bytes == 8 && !memcmp(key.data, "op_attrs", 8)) CRN_TRY(crn_load_attr(l, value, NULL, 0, attrs));
  }
  d->attrs = attrs;
  d->id = crn_composite_find(d->name);
  *out_decl = d;
  return CAIRN_OK;
}

cairn_status crn_load_text(crn_loader *l, const crn_bc_attr *a, const char *what, const char **out_text) {
  crn_bc_text text;
  CRN_TRY(crn_bc_get_text(a, what, &text));
  return crn_arena_strndup(l->arena, text.data, text.bytes, out_text);
}
