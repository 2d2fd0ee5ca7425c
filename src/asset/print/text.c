// The text form of attributes and types, following text.def.
#include <string.h>

#include "asset/print/printer.h"

typedef struct text_row {
  const char *name, *body;
} text_row;

typedef struct enum_row {
  const char *table, *name;
  uint64_t value;
  bool is_flag;
} enum_row;

enum { N_CODES = 48, SHOWN_DATA = 24, SMALL_DATA = 64 };

static const text_row k_attrs[N_CODES] = {
#define ATTR_TEXT(code, name, body) [code] = {name, body},
#define TYPE_TEXT(code, name, body)
#include "asset/print/text.def"
#undef ATTR_TEXT
#undef TYPE_TEXT
};
static const text_row k_types[N_CODES] = {
#define ATTR_TEXT(code, name, body)
#define TYPE_TEXT(code, name, body) [code] = {name, body},
#include "asset/print/text.def"
#undef ATTR_TEXT
#undef TYPE_TEXT
};
static const enum_row k_enums[] = {
#define ENUM(table, value, name) {table, name, value, false},
#define FLAG(table, value, name) {table, name, value, true},
#include "asset/print/enums.def"
#undef ENUM
#undef FLAG
};

enum { N_ENUMS = sizeof k_enums / sizeof *k_enums };

static void print_attr(crn_printer *p, const crn_bc_attr *a, bool is_short);
static void print_type(crn_printer *p, const crn_bc_type *t);

static void print_quoted(crn_printer *p, crn_bc_text s) {
  static const char hex[] = "0123456789ABCDEF";
  crn_print_text(p, "\"");
  for (size_t i = 0; i < s.bytes; i++) {
    unsigned char c = (unsigned char)s.data[i];
    char code[3] = {'\\', hex[c >> 4], hex[c & 15]};
    if (c == '\\') {
      crn_print_text(p, "\\\\");
    } else if (c == '"' || c < 0x20 || c >= 0x7f) {
      crn_print_bytes(p, code, sizeof code);
    } else {
      crn_print_bytes(p, &s.data[i], 1);
    }
  }
  crn_print_text(p, "\"");
}

// Several flags at once, or none that is known, are quoted.
static void print_flags(crn_printer *p, const char *table, size_t n, uint64_t value) {
  const enum_row *set[64];
  int n_set = 0;
  for (int i = 0; i < N_ENUMS && n_set < 64; i++) {
    if (!strncmp(k_enums[i].table, table, n) && !k_enums[i].table[n] && k_enums[i].value & value) set[n_set++] = &k_enums[i];
  }
  if (n_set != 1) crn_print_text(p, "\"");
  for (int i = 0; i < n_set; i++) {
    if (i) crn_print_text(p, "|");
    crn_print_text(p, set[i]->name);
  }
  if (n_set != 1) crn_print_text(p, "\"");
}

// A value without a name prints as a number.
static void print_enum(crn_printer *p, const char *table, size_t n, uint64_t value) {
  for (int i = 0; i < N_ENUMS; i++) {
    const enum_row *e = &k_enums[i];
    if (strncmp(e->table, table, n) != 0 || e->table[n]) continue;
    if (e->is_flag) {
      print_flags(p, table, n, value);
      return;
    }
    if (e->value == value) {
      crn_print_text(p, e->name);
      return;
    }
  }
  crn_print_unsigned(p, value);
}

static void print_field(crn_printer *p, const crn_bc_field *f, bool is_short) {
  switch (f->kind) {
    case 's':
      print_quoted(p, f->s);
      return;
    case 'a':
      print_attr(p, f->a, is_short);
      return;
    case 't':
      print_type(p, f->t);
      return;
    case 'u':
    case 'b':
      crn_print_unsigned(p, f->u);
      return;
    case 'i':
      crn_print_signed(p, f->i);
      return;
    default:
      break;
  }
  for (uint32_t i = 0; i < f->n && p->status == CAIRN_OK; i++) {
    if (i) crn_print_text(p, ", ");
    switch (f->kind) {
      case 'A':
        print_attr(p, f->as[i], is_short);
        break;
      case 'T':
        print_type(p, f->ts[i]);
        break;
      case 'S':
        crn_print_bytes(p, f->ss[i].data, f->ss[i].bytes);
        break;
      case 'U':
        crn_print_unsigned(p, f->us[i]);
        break;
      case 'I':
        crn_print_signed(p, f->is[i]);
        break;
      default:
        break;
    }
  }
}

// One $ of a body; returns what follows it.
static const char *print_reference(crn_printer *p, const char *at, const crn_bc_field *fields) {
  const crn_bc_field *f = &fields[*at++ - '0'];
  if (*at == '{') {
    const char *end = strchr(at, '}');
    print_enum(p, at + 1, (size_t)(end - at - 1), f->u);
    return end + 1;
  }
  if (*at == 'b') {
    crn_print_text(p, f->u ? "true" : "false");
    return at + 1;
  }
  bool is_short = *at == '-';
  print_field(p, f, is_short);
  return at + is_short;
}

static void print_body(crn_printer *p, const char *body, const crn_bc_field *fields) {
  bool inside = false;
  for (const char *at = body; *at;) {
    if (inside && *at == '~') {
      inside = false;
      at++;
    } else if (*at == '~' || *at == '^') {
      const crn_bc_field *f = &fields[at[1] - '0'];
      inside = *at == '~' ? f->n != 0 : f->u != 0;
      at = inside ? at + 2 : strchr(at + 1, '~') + 1;
    } else if (*at == '$') {
      at = print_reference(p, at + 1, fields);
    } else {
      size_t n = strcspn(at, "$~^");
      crn_print_bytes(p, at, n);
      at += n;
    }
  }
}

static void print_integer(crn_printer *p, const crn_bc_field *f) {
  uint64_t words[256], width = f[0].u;
  bool is_unsigned = f[1].u != 0;
  uint32_t n = 1 + f[3].n;
  if (n > sizeof words / sizeof *words) n = sizeof words / sizeof *words;
  words[0] = f[2].u;
  for (uint32_t i = 1; i < n; i++) words[i] = f[3].us[i - 1];
  crn_print_text(p, "(");
  crn_print_unsigned(p, width);
  crn_print_text(p, is_unsigned ? "bit unsigned) " : "bit signed) ");
  crn_print_wide(p, words, n, width, is_unsigned);
}

static void print_dense(crn_printer *p, const crn_bc_field *f) {
  const unsigned char *data = (const unsigned char *)f[1].s.data;
  size_t bytes = f[1].s.bytes;
  crn_print_text(p, f[0].u ? "[splat = true] \"" : "[splat = false] \"");
  if (p->options->large_data || bytes <= SMALL_DATA) {
    crn_print_base64(p, data, bytes);
  } else {
    crn_print_base64(p, data, SHOWN_DATA);
    crn_print_text(p, "...");
    crn_print_unsigned(p, bytes);
    crn_print_text(p, " bytes");
  }
  crn_print_text(p, "\"");
}

static void print_bounds(crn_printer *p, const crn_bc_field *f) {
  static const char *const names[] = {"count = ", "lower = ", "upper = ", "stride = "};
  bool first = true;
  for (int i = 0; i < 4; i++) {
    if (!f[i].i) continue;
    if (!first) crn_print_text(p, ", ");
    first = false;
    crn_print_text(p, names[i]);
    crn_print_signed(p, f[i].i);
  }
}

static void print_resource(crn_printer *p, const crn_bc_field *f) {
  const crn_bc_resource *r = crn_bc_module_resource(p->module, f->u);
  if (r) crn_print_bytes(p, r->key.data, r->key.bytes);
}

// The records a body cannot describe. Gives the name, NULL for all other codes.
static const char *special_name(uint32_t code) {
  switch (code) {
    case CRN_BC_ATTR_INTEGER:
      return "serialization.integer";
    case CRN_BC_ATTR_FLOAT:
      return "serialization.float";
    case CRN_BC_ATTR_DENSE_ELEMENTS:
      return "serialization.dense_elements";
    case CRN_BC_ATTR_DENSE_RESOURCE:
      return "serialization.dense_resource";
    case CRN_BC_ATTR_DI_BOUNDS:
      return "debuginfo.bounds_v1";
    default:
      return NULL;
  }
}

static void print_special_body(crn_printer *p, const crn_bc_attr *a) {
  const crn_bc_field *f = a->fields;
  switch (a->code) {
    case CRN_BC_ATTR_INTEGER:
      print_integer(p, f);
      return;
    case CRN_BC_ATTR_FLOAT:
      crn_print_text(p, "(");
      crn_print_unsigned(p, f[0].u);
      crn_print_text(p, "bit) ");
      crn_print_float(p, f[1].u, f[0].u);
      return;
    case CRN_BC_ATTR_DENSE_ELEMENTS:
      print_dense(p, f);
      return;
    case CRN_BC_ATTR_DENSE_RESOURCE:
      print_resource(p, f);
      return;
    default:
      print_bounds(p, f);
      return;
  }
}

// The string of a builtin string attribute without quotes, or the text of any other.
static void print_builtin_name(crn_printer *p, const crn_bc_attr *a) {
  bool is_string = a->code == CRN_BC_ATTR_BUILTIN && a->fields[0].u == CRN_BC_BUILTIN_STRING;
  if (is_string) {
    crn_print_bytes(p, a->fields[1].s.data, a->fields[1].s.bytes);
  } else {
    print_attr(p, a, false);
  }
}

static void print_builtin_pairs(crn_printer *p, const crn_bc_field *pairs) {
  crn_print_text(p, "{");
  for (uint32_t i = 0; i < pairs->n; i += 2) {
    if (i) crn_print_text(p, ", ");
    print_builtin_name(p, pairs->as[i]);
    crn_print_text(p, " = ");
    print_attr(p, pairs->as[i + 1], false);
  }
  crn_print_text(p, "}");
}

static void print_builtin_attr(crn_printer *p, const crn_bc_field *f) {
  switch (f[0].u) {
    case 0:
      print_body(p, "[$1]", f);
      return;
    case CRN_BC_BUILTIN_DICTIONARY:
      print_builtin_pairs(p, &f[1]);
      return;
    case CRN_BC_BUILTIN_STRING:
    case 3:
      print_quoted(p, f[1].s);
      return;
    case 4:
      crn_print_text(p, "@");
      print_builtin_name(p, f[1].a);
      return;
    case 6:
      print_type(p, f[1].t);
      return;
    case 7:
      crn_print_text(p, "unit");
      return;
    case 11:
      crn_print_text(p, "\"");
      print_builtin_name(p, f[1].a);
      print_body(p, "\":$2:$3", f);
      return;
    case 14:
      print_body(p, "name($1)", f);
      return;
    default:
      crn_print_text(p, "unknown");
      return;
  }
}

static void print_attr(crn_printer *p, const crn_bc_attr *a, bool is_short) {
  if (p->status != CAIRN_OK) return;
  if (a->code == CRN_BC_ATTR_TEXT) {
    crn_print_bytes(p, a->fields[0].s.data, a->fields[0].s.bytes);
  } else if (a->code == CRN_BC_ATTR_BUILTIN) {
    print_builtin_attr(p, a->fields);
  } else if (a->code == CRN_BC_ATTR_UNIT) {
    crn_print_text(p, "#aicode.unit_v1");
  } else {
    const char *special = special_name(a->code);
    if (!is_short) {
      crn_print_text(p, "#aicode.");
      crn_print_text(p, special ? special : k_attrs[a->code].name);
    }
    crn_print_text(p, "<");
    if (special) {
      print_special_body(p, a);
    } else {
      print_body(p, k_attrs[a->code].body, a->fields);
    }
    crn_print_text(p, ">");
  }
}

static void print_builtin_type(crn_printer *p, const crn_bc_field *f) {
  static const char *const names[] = {"", "index", "", "bf16", "f16", "f32", "f64", "f80"};
  static const char *const signs[] = {"i", "si", "ui", "i"};
  if (f[0].u) {
    crn_print_text(p, names[f[0].u & 7]);
    return;
  }
  crn_print_text(p, signs[f[1].u & 3]);
  crn_print_unsigned(p, f[1].u >> 2);
}

static void print_type(crn_printer *p, const crn_bc_type *t) {
  if (p->status != CAIRN_OK) return;
  if (t->code == CRN_BC_TYPE_TEXT) {
    crn_print_bytes(p, t->fields[0].s.data, t->fields[0].s.bytes);
  } else if (t->code == CRN_BC_TYPE_BUILTIN) {
    print_builtin_type(p, t->fields);
  } else if (!k_types[t->code].name) {
    crn_print_text(p, "!aicode.");
    crn_print_text(p, crn_bc_type_kind(t));
    crn_print_text(p, "_v1");
  } else {
    crn_print_text(p, "!aicode.");
    crn_print_text(p, k_types[t->code].name);
    crn_print_text(p, "<");
    print_body(p, k_types[t->code].body, t->fields);
    crn_print_text(p, ">");
  }
}

static bool spend(crn_printer *p, uint32_t weight) {
  if (p->status != CAIRN_OK) return false;
  if (weight > p->budget) {
    p->status = CRN_FAIL(OUT_OF_RANGE, "the text of the program is out of all proportion to its file");
    return false;
  }
  p->budget -= weight;
  return true;
}

void crn_print_attr(crn_printer *p, const crn_bc_attr *a) {
  if (spend(p, crn_bc_attr_weight(p->module, a))) print_attr(p, a, false);
}

void crn_print_type(crn_printer *p, const crn_bc_type *t) {
  if (spend(p, crn_bc_type_weight(p->module, t))) print_type(p, t);
}
