#include "tools/facts.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "tools/describe.h"

enum { TOP_OPS = 8 };

// --- gathering --------------------------------------------------------------------------------------------------------

typedef struct gathering {
  crn_tool *t;
  crn_asset_facts *facts;
} gathering;

static cairn_status take_op(void *user, const char *name, int64_t count) {
  gathering *g = user;
  crn_op_count op = {NULL, count};
  CRN_TRY(crn_arena_strndup(g->t->arena, name, strlen(name), &op.name));
  return crn_vec_push(crn_default_allocator(), &g->facts->ops, op);
}

static void add_to_group(crn_weight_group *group, const cairn_weight_info *weight) {
  int64_t n = 1;
  for (int i = 0; i < weight->rank; i++) n *= weight->shape[i];
  group->n_arrays++;
  group->n_elements += n;
  group->stored_bytes += weight->stored_bytes;
}

static cairn_status take_weight(void *user, const cairn_weight_info *weight) {
  gathering *g = user;
  cairn_weight_info kept = *weight;
  CRN_TRY(crn_arena_strndup(g->t->arena, weight->name, strlen(weight->name), &kept.name));
  CRN_TRY(crn_vec_push(crn_default_allocator(), &g->facts->weights, kept));
  if (weight->dtype > 0 && weight->dtype < CAIRN_DTYPE_COUNT) add_to_group(&g->facts->groups[weight->dtype], weight);
  add_to_group(&g->facts->total, weight);
  return CAIRN_OK;
}

cairn_status crn_facts_open(crn_tool *t, const char *path, const char *role, crn_asset_facts *out) {
  *out = (crn_asset_facts){.role = role, .path = path};
  gathering g = {t, out};
  cairn_status status;
  CRN_TRY_GOTO(cairn_asset_open(t->context, path, NULL, &out->asset));
  CRN_TRY_GOTO(cairn_asset_count_operations(out->asset, take_op, &g));
  CRN_TRY_GOTO(cairn_asset_visit_weights(out->asset, take_weight, &g));
  out->n_functions = cairn_asset_function_count(out->asset);
  CRN_TRY_GOTO(crn_arena_array(t->arena, (size_t)out->n_functions, sizeof(void *), &out->functions));
  for (int i = 0; i < out->n_functions; i++) out->functions[i] = cairn_asset_function(out->asset, i);
done:
  if (status != CAIRN_OK) crn_facts_close(out);
  return status;
}

void crn_facts_close(crn_asset_facts *facts) {
  cairn_asset_release(facts->asset);
  facts->asset = NULL;
  crn_vec_free(crn_default_allocator(), &facts->ops);
  crn_vec_free(crn_default_allocator(), &facts->weights);
}

crn_contract_part crn_facts_contract(const crn_asset_facts *facts) {
  return (crn_contract_part){facts->role ? facts->role : "main", facts->functions, facts->n_functions};
}

// --- text -------------------------------------------------------------------------------------------------------------

static cairn_status print_metadata(const crn_asset_facts *facts) {
  json_t *root = NULL;
  const char *key;
  json_t *value;
  if (crn_json_parse(cairn_asset_metadata_json(facts->asset), strlen(cairn_asset_metadata_json(facts->asset)), "metadata.json", &root) !=
      CAIRN_OK)
    return CAIRN_OK;  // the asset's warnings tell about it
  json_object_foreach(root, key, value) {
    if (json_is_string(value)) printf("  %-14s %s\n", key, json_string_value(value));
  }
  json_decref(root);
  if (cairn_asset_version_stamp(facts->asset)) printf("  %-14s %lld\n", "dialect", (long long)cairn_asset_version_stamp(facts->asset));
  const char *architecture, *precision;
  if (cairn_asset_is_compiled(facts->asset, &architecture, &precision))
    printf("  %-14s for %s, precision %s\n", "compiled", architecture, precision);
  if (cairn_asset_hash(facts->asset)[0]) printf("  %-14s %s\n", "sha256", cairn_asset_hash(facts->asset));
  return CAIRN_OK;
}

static int by_count(const void *a, const void *b) {
  const crn_op_count *x = a, *y = b;
  if (x->count != y->count) return x->count > y->count ? -1 : 1;
  return strcmp(x->name, y->name);
}

static cairn_status print_ops(const crn_asset_facts *facts, bool all) {
  size_t n = facts->ops.size;
  int64_t total = 0;
  for (size_t i = 0; i < n; i++) total += facts->ops.items[i].count;
  printf("operations %lld of %zu kinds\n", (long long)total, n);
  crn_op_count *sorted = NULL;
  CRN_TRY(crn_alloc_array(crn_default_allocator(), n, sizeof *sorted, &sorted));
  if (n) {
    memcpy(sorted, facts->ops.items, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_count);
  }
  for (size_t i = 0; i < n && (all || i < TOP_OPS); i++) printf("  %6lld  %s\n", (long long)sorted[i].count, sorted[i].name);
  if (!all && n > TOP_OPS) printf("  %6s  %zu more kinds (--ops shows them)\n", "", n - TOP_OPS);
  crn_free(crn_default_allocator(), sorted, n * sizeof *sorted);
  return CAIRN_OK;
}

static double bits_per_element(const crn_weight_group *g) {
  return g->n_elements ? 8.0 * (double)g->stored_bytes / (double)g->n_elements : 0;
}

static cairn_status print_weight_list(const crn_asset_facts *facts) {
  crn_str text;
  crn_str_initialize(&text, NULL);
  cairn_status status = CAIRN_OK;
  for (size_t i = 0; i < facts->weights.size; i++) {
    const cairn_weight_info *w = &facts->weights.items[i];
    crn_str_clear(&text);
    CRN_TRY_GOTO(crn_describe_shape(&text, w->shape, w->rank));
    printf("  %-16s %-20s %12zu B  %s\n", cairn_dtype_name(w->dtype), text.data, w->stored_bytes, w->name);
  }
done:
  crn_str_deinitialize(&text);
  return status;
}

static cairn_status print_weights(const crn_asset_facts *facts, bool all) {
  char size[32];
  printf("weights    %lld arrays, %s", (long long)facts->total.n_arrays,
         crn_tool_size_text((double)facts->total.stored_bytes, size, sizeof size));
  if (facts->total.n_elements) printf(", %.3g bits per element", bits_per_element(&facts->total));
  putchar('\n');
  for (int d = 0; d < CAIRN_DTYPE_COUNT; d++) {
    const crn_weight_group *g = &facts->groups[d];
    if (!g->n_arrays) continue;
    printf("  %-16s %6lld arrays  %s\n", cairn_dtype_name((cairn_dtype)d), (long long)g->n_arrays,
           crn_tool_size_text((double)g->stored_bytes, size, sizeof size));
  }
  return all ? print_weight_list(facts) : CAIRN_OK;
}

cairn_status crn_facts_print(const crn_asset_facts *facts, crn_facts_style style) {
  printf("asset      %s%s%s%s\n", facts->path, facts->role ? " (" : "", facts->role ? facts->role : "", facts->role ? ")" : "");
  CRN_TRY(print_metadata(facts));
  for (int i = 0; i < facts->n_functions; i++) CRN_TRY(crn_print_function(facts->functions[i]));
  if (!facts->n_functions) puts("no functions");
  CRN_TRY(print_ops(facts, style.all_ops));
  CRN_TRY(print_weights(facts, style.all_weights));
  for (int i = 0; i < cairn_asset_warning_count(facts->asset); i++) printf("warning    %s\n", cairn_asset_warning(facts->asset, i));
  return CAIRN_OK;
}

// --- JSON -------------------------------------------------------------------------------------------------------------

void crn_write_json_text(crn_json_writer *w, const char *text) {
  json_error_t error;
  json_t *root = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
  char *line = root ? json_dumps(root, JSON_ENCODE_ANY) : NULL;
  if (line)
    crn_jw_raw(w, line);
  else
    crn_jw_null(w);
  free(line);
  json_decref(root);
}

void crn_facts_write_ops(crn_json_writer *w, const crn_asset_facts *facts) {
  crn_jw_open_object(w);
  for (size_t i = 0; i < facts->ops.size; i++) crn_jw_put_integer(w, facts->ops.items[i].name, facts->ops.items[i].count);
  crn_jw_close_object(w);
}

static void write_group(crn_json_writer *w, const crn_weight_group *g) {
  crn_jw_put_integer(w, "arrays", g->n_arrays);
  crn_jw_put_integer(w, "elements", g->n_elements);
  crn_jw_put_integer(w, "stored_bytes", (int64_t)g->stored_bytes);
}

static void write_weight_list(crn_json_writer *w, const crn_asset_facts *facts) {
  crn_jw_key(w, "list");
  crn_jw_open_array(w, facts->weights.size == 0);
  for (size_t i = 0; i < facts->weights.size; i++) {
    const cairn_weight_info *info = &facts->weights.items[i];
    crn_jw_open_inline_object(w);
    crn_jw_put_text(w, "name", info->name);
    crn_jw_put_text(w, "dtype", cairn_dtype_name(info->dtype));
    crn_jw_key(w, "shape");
    crn_write_shape(w, info->shape, info->rank);
    crn_jw_put_integer(w, "stored_bytes", (int64_t)info->stored_bytes);
    crn_jw_close_object(w);
  }
  crn_jw_close_array(w);
}

static void write_weights(crn_json_writer *w, const crn_asset_facts *facts, bool all) {
  crn_jw_key(w, "weights");
  crn_jw_open_object(w);
  write_group(w, &facts->total);
  crn_jw_key(w, "dtypes");
  crn_jw_open_object(w);
  for (int d = 0; d < CAIRN_DTYPE_COUNT; d++) {
    if (!facts->groups[d].n_arrays) continue;
    crn_jw_key(w, cairn_dtype_name((cairn_dtype)d));
    crn_jw_open_inline_object(w);
    write_group(w, &facts->groups[d]);
    crn_jw_close_object(w);
  }
  crn_jw_close_object(w);
  if (all) write_weight_list(w, facts);
  crn_jw_close_object(w);
}

void crn_facts_write(crn_json_writer *w, const crn_asset_facts *facts, crn_facts_style style) {
  crn_jw_key(w, "functions");
  crn_jw_open_array(w, facts->n_functions == 0);
  for (int i = 0; i < facts->n_functions; i++) crn_write_function(w, facts->functions[i]);
  crn_jw_close_array(w);
  crn_jw_key(w, "metadata");
  crn_write_json_text(w, cairn_asset_metadata_json(facts->asset));
  crn_jw_key(w, "ops");
  crn_facts_write_ops(w, facts);
  write_weights(w, facts, style.all_weights);
  crn_jw_put_text(w, "sha256", cairn_asset_hash(facts->asset));
  const char *architecture, *precision;
  if (cairn_asset_is_compiled(facts->asset, &architecture, &precision)) {
    crn_jw_put_text(w, "compiled_architecture", architecture);
    crn_jw_put_text(w, "compiled_precision", precision);
  }
  crn_jw_put_integer(w, "version_stamp", cairn_asset_version_stamp(facts->asset));
  crn_jw_key(w, "warnings");
  crn_jw_open_array(w, cairn_asset_warning_count(facts->asset) == 0);
  for (int i = 0; i < cairn_asset_warning_count(facts->asset); i++) crn_jw_text(w, cairn_asset_warning(facts->asset, i));
  crn_jw_close_array(w);
}
