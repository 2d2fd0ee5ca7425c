#include "tools/contract.h"

#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "tools/describe.h"

static const char g_format[] = "cairn-contract";
enum { CONTRACT_VERSION = 1 };

cairn_status crn_contract_save(const char *path, const crn_contract_part *parts, int n_parts) {
  crn_json_writer w;
  crn_jw_initialize(&w, true);
  crn_jw_open_object(&w);
  crn_jw_put_text(&w, "format", g_format);
  crn_jw_put_integer(&w, "version", CONTRACT_VERSION);
  crn_jw_key(&w, "assets");
  crn_jw_open_array(&w, false);
  for (int i = 0; i < n_parts; i++) {
    crn_jw_open_object(&w);
    crn_jw_put_text(&w, "role", parts[i].role);
    crn_jw_key(&w, "functions");
    crn_jw_open_array(&w, false);
    for (int f = 0; f < parts[i].n_functions; f++) crn_write_function(&w, parts[i].functions[f]);
    crn_jw_close_array(&w);
    crn_jw_close_object(&w);
  }
  crn_jw_close_array(&w);
  crn_jw_close_object(&w);
  cairn_status status = w.status;
  if (status == CAIRN_OK) status = crn_str_putc(&w.text, '\n');
  if (status == CAIRN_OK) status = crn_file_replace(path, w.text.data, w.text.size);
  crn_jw_deinitialize(&w);
  return status;
}

// --- comparing --------------------------------------------------------------------------------------------------------

typedef struct comparison {
  const char *path;   // of the contract
  const char *where;  // "main.decode": role and function
  crn_str *out;
  int n;
} comparison;

static cairn_status differ(comparison *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static cairn_status differ(comparison *c, const char *fmt, ...) {
  va_list args;
  CRN_TRY(crn_str_printf(c->out, "%s: ", c->where));
  va_start(args, fmt);
  cairn_status status = crn_str_vprintf(c->out, fmt, args);
  va_end(args);
  CRN_TRY(status);
  c->n++;
  return crn_str_putc(c->out, '\n');
}

static cairn_status stored_type_text(crn_str *out, const json_t *v) {
  const json_t *shape = json_object_get(v, "shape"), *image = json_object_get(v, "image");
  const char *dtype = json_string_value(json_object_get(v, "dtype"));
  CRN_TRY(crn_str_puts(out, dtype ? dtype : "?"));
  if (json_is_object(image)) {
    const char *format = json_string_value(json_object_get(image, "format"));
    return crn_str_printf(out, " %s %lldx%lld", format ? format : "?", (long long)json_integer_value(json_object_get(image, "width")),
                          (long long)json_integer_value(json_object_get(image, "height")));
  }
  CRN_TRY(crn_str_puts(out, " ["));
  for (size_t i = 0; i < json_array_size(shape); i++) {
    const json_t *dim = json_array_get(shape, i);
    if (i) CRN_TRY(crn_str_putc(out, ','));
    if (json_is_integer(dim))
      CRN_TRY(crn_str_printf(out, "%lld", (long long)json_integer_value(dim)));
    else
      CRN_TRY(crn_str_putc(out, '?'));
  }
  return crn_str_putc(out, ']');
}

static const char *name_of(const json_t *v) {
  const char *name = json_string_value(json_object_get(v, "name"));
  return name ? name : "";
}

static const cairn_descriptor *find_value(const cairn_descriptor *values, int n, const char *name) {
  for (int i = 0; i < n; i++)
    if (!strcmp(values[i].name, name)) return &values[i];
  return NULL;
}

static const json_t *find_stored(const json_t *list, const char *name) {
  for (size_t i = 0; i < json_array_size(list); i++)
    if (!strcmp(name_of(json_array_get(list, i)), name)) return json_array_get(list, i);
  return NULL;
}

// The two texts of a type are equal exactly when dtype, rank, dims and image format are.
static cairn_status compare_value(comparison *c, const char *what, const json_t *expected, const cairn_descriptor *found) {
  crn_str a, b;
  crn_str_initialize(&a, NULL);
  crn_str_initialize(&b, NULL);
  cairn_status status;
  CRN_TRY_GOTO(stored_type_text(&a, expected));
  if (!found) {
    status = differ(c, "%s '%s' is gone (expected %s)", what, name_of(expected), a.data);
    goto done;
  }
  CRN_TRY_GOTO(crn_describe_type(&b, found));
  if (strcmp(a.data, b.data) != 0) status = differ(c, "%s '%s': expected %s, found %s", what, found->name, a.data, b.data);
done:
  crn_str_deinitialize(&a);
  crn_str_deinitialize(&b);
  return status;
}

static cairn_status report_order(comparison *c, const char *what, const json_t *expected, const cairn_descriptor *found, int n) {
  crn_str a, b;
  crn_str_initialize(&a, NULL);
  crn_str_initialize(&b, NULL);
  cairn_status status = CAIRN_OK;
  for (size_t i = 0; i < json_array_size(expected); i++)
    CRN_TRY_GOTO(crn_str_printf(&a, "%s%s", i ? ", " : "", name_of(json_array_get(expected, i))));
  for (int i = 0; i < n; i++) CRN_TRY_GOTO(crn_str_printf(&b, "%s%s", i ? ", " : "", found[i].name));
  status = differ(c, "order of the %ss: expected %s; found %s", what, a.data, b.data);
done:
  crn_str_deinitialize(&a);
  crn_str_deinitialize(&b);
  return status;
}

static cairn_status compare_values(comparison *c, const char *what, const json_t *expected, const cairn_descriptor *found, int n) {
  bool same_order = true;
  for (size_t i = 0; i < json_array_size(expected); i++) {
    const json_t *e = json_array_get(expected, i);
    CRN_TRY(compare_value(c, what, e, find_value(found, n, name_of(e))));
    same_order = same_order && i < (size_t)n && !strcmp(found[i].name, name_of(e));
  }
  for (int i = 0; i < n; i++) {
    if (find_stored(expected, found[i].name)) continue;
    crn_str text;
    crn_str_initialize(&text, NULL);
    cairn_status status = crn_describe_type(&text, &found[i]);
    if (status == CAIRN_OK) status = differ(c, "%s '%s' is new (%s)", what, found[i].name, text.data);
    crn_str_deinitialize(&text);
    CRN_TRY(status);
  }
  // Missing and new values shift the others; their order is only worth a line of its own when the names are the same.
  bool same_names = json_array_size(expected) == (size_t)n;
  for (int i = 0; i < n && same_names; i++) same_names = find_stored(expected, found[i].name) != NULL;
  if (same_names && !same_order) CRN_TRY(report_order(c, what, expected, found, n));
  return CAIRN_OK;
}

static cairn_status compare_function(comparison *c, const json_t *expected, const cairn_function_info *found) {
  CRN_TRY(compare_values(c, "input", json_object_get(expected, "inputs"), found->inputs, found->n_inputs));
  CRN_TRY(compare_values(c, "output", json_object_get(expected, "outputs"), found->outputs, found->n_outputs));
  return compare_values(c, "state", json_object_get(expected, "states"), found->states, found->n_states);
}

static const cairn_function_info *find_function(const crn_contract_part *part, const char *name) {
  for (int i = 0; i < part->n_functions; i++)
    if (!strcmp(part->functions[i]->name, name)) return part->functions[i];
  return NULL;
}

static cairn_status compare_asset(comparison *c, const json_t *expected, const crn_contract_part *part) {
  crn_str where;
  crn_str_initialize(&where, NULL);
  const json_t *functions = json_object_get(expected, "functions");
  cairn_status status = CAIRN_OK;
  for (size_t i = 0; i < json_array_size(functions); i++) {
    const json_t *e = json_array_get(functions, i);
    const cairn_function_info *found = find_function(part, name_of(e));
    crn_str_clear(&where);
    CRN_TRY_GOTO(crn_str_printf(&where, "%s/%s", part->role, name_of(e)));
    c->where = where.data;
    CRN_TRY_GOTO(found ? compare_function(c, e, found) : differ(c, "the function is gone"));
  }
  for (int i = 0; i < part->n_functions; i++) {
    const char *name = part->functions[i]->name;
    if (find_stored(functions, name)) continue;
    crn_str_clear(&where);
    CRN_TRY_GOTO(crn_str_printf(&where, "%s/%s", part->role, name));
    c->where = where.data;
    CRN_TRY_GOTO(differ(c, "the function is new"));
  }
done:
  crn_str_deinitialize(&where);
  return status;
}

static const crn_contract_part *find_part(const crn_contract_part *parts, int n, const char *role) {
  for (int i = 0; i < n; i++)
    if (!strcmp(parts[i].role, role)) return &parts[i];
  return NULL;
}

static cairn_status check_header(const char *path, const json_t *root, json_t **out_assets) {
  const char *format = "";
  int64_t version = 0;
  CRN_TRY(crn_json_string(root, path, "format", true, &format));
  if (strcmp(format, g_format) != 0) return CRN_FAIL(CORRUPT, "%s: format is '%s', a contract has '%s'", path, format, g_format);
  CRN_TRY(crn_json_int(root, path, "version", true, &version));
  if (version != CONTRACT_VERSION)
    return CRN_FAIL(INCOMPATIBLE, "%s: contract version %lld, this cairn reads %d", path, (long long)version, CONTRACT_VERSION);
  *out_assets = json_object_get(root, "assets");
  if (!json_is_array(*out_assets)) return CRN_FAIL(CORRUPT, "%s: 'assets' must be an array", path);
  return CAIRN_OK;
}

static cairn_status compare_all(comparison *c, const json_t *assets, const crn_contract_part *parts, int n_parts) {
  for (size_t i = 0; i < json_array_size(assets); i++) {
    const json_t *e = json_array_get(assets, i);
    const char *role = "";
    CRN_TRY(crn_json_string(e, c->path, "role", true, &role));
    if (!json_is_array(json_object_get(e, "functions")))
      return CRN_FAIL(CORRUPT, "%s: 'functions' of '%s' must be an array", c->path, role);
    const crn_contract_part *part = find_part(parts, n_parts, role);
    c->where = role;
    CRN_TRY(part ? compare_asset(c, e, part) : differ(c, "the asset is gone"));
  }
  for (int i = 0; i < n_parts; i++) {
    bool known = false;
    for (size_t k = 0; k < json_array_size(assets); k++) {
      const char *role = json_string_value(json_object_get(json_array_get(assets, k), "role"));
      known = known || (role && !strcmp(role, parts[i].role));
    }
    c->where = parts[i].role;
    if (!known) CRN_TRY(differ(c, "the asset is new"));
  }
  return CAIRN_OK;
}

cairn_status crn_contract_compare(const char *path, const crn_contract_part *parts, int n_parts, crn_str *out_differences, int *out_n) {
  json_t *root = NULL, *assets = NULL;
  comparison c = {.path = path, .out = out_differences};
  CRN_TRY(crn_json_read(path, &root));
  cairn_status status = check_header(path, root, &assets);
  if (status == CAIRN_OK) status = compare_all(&c, assets, parts, n_parts);
  json_decref(root);
  *out_n = c.n;
  return status;
}
