// cairn inspect on a GGUF file: what the file says (metadata, tensors), then what the importer makes of it.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "import/gguf/gguf.h"
#include "import/synthetic/synthetic.h"
#include "tools/import_report.h"
#include "tools/inspect.h"

enum { SHOWN_ITEMS = 8, LONG_TEXT = 120, MAX_TYPES = 64 };

typedef struct tensor_group {
  const crn_gguf_type *type;
  int64_t n_tensors, n_elements;
  uint64_t bytes;
} tensor_group;

static int group_tensors(const crn_gguf *file, tensor_group groups[MAX_TYPES]) {
  int n = 0;
  for (size_t i = 0; i < crn_gguf_tensor_count(file); i++) {
    const crn_gguf_tensor *tensor = crn_gguf_tensor_at(file, i);
    int k = 0;
    while (k < n && groups[k].type != tensor->type) k++;
    if (k == MAX_TYPES) continue;
    if (k == n) groups[n++] = (tensor_group){.type = tensor->type};
    int64_t elements = 1;
    for (int d = 0; d < tensor->n_dims; d++) elements *= tensor->dims[d];
    groups[k].n_tensors++;
    groups[k].n_elements += elements;
    groups[k].bytes += tensor->bytes;
  }
  return n;
}

// --- metadata ---------------------------------------------------------------------------------------------------------

static void write_value(crn_json_writer *w, const crn_gguf_value *v, int depth);

// Vocabularies have as many items as a book; the first ones say what they are.
static void write_array(crn_json_writer *w, const crn_gguf_value *v, int depth) {
  enum { WHOLE_ITEMS = 64 };
  size_t n = v->array.n <= WHOLE_ITEMS ? v->array.n : SHOWN_ITEMS;
  bool cut = n < v->array.n;
  if (cut) {
    crn_jw_open_inline_object(w);
    crn_jw_put_integer(w, "count", (int64_t)v->array.n);
    crn_jw_key(w, "first");
  }
  crn_jw_open_array(w, true);
  const unsigned char *at = v->array.data;
  for (size_t i = 0; i < n; i++) {
    crn_gguf_value item;
    at = crn_gguf_item(v->array.kind, at, &item);
    write_value(w, &item, depth + 1);
  }
  crn_jw_close_array(w);
  if (cut) crn_jw_close_object(w);
}

// The shortest digits that stand for the same float, as it was written into the file.
static void write_float(crn_json_writer *w, double value) {
  char text[32];
  if (!isfinite(value)) {
    crn_jw_null(w);
    return;
  }
  for (int digits = 6; digits <= 9; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, value);
    if (strtof(text, NULL) == (float)value) break;
  }
  crn_jw_raw(w, text);
}

static void write_value(crn_json_writer *w, const crn_gguf_value *v, int depth) {
  enum { MAX_DEPTH = 8 };
  switch (v->kind) {
    case CRN_GGUF_STRING:
      crn_jw_text_n(w, v->s.data, v->s.bytes);
      break;
    case CRN_GGUF_BOOL:
      crn_jw_boolean(w, v->u != 0);
      break;
    case CRN_GGUF_FLOAT32:
      write_float(w, v->f);
      break;
    case CRN_GGUF_FLOAT64:
      crn_jw_number(w, v->f);
      break;
    case CRN_GGUF_UINT8:
    case CRN_GGUF_UINT16:
    case CRN_GGUF_UINT32:
      crn_jw_integer(w, (int64_t)v->u);
      break;
    case CRN_GGUF_UINT64: {
      char text[32];
      snprintf(text, sizeof text, "%llu", (unsigned long long)v->u);
      crn_jw_raw(w, text);
      break;
    }
    case CRN_GGUF_ARRAY:
      if (depth < MAX_DEPTH)
        write_array(w, v, depth);
      else
        crn_jw_null(w);
      break;
    default:
      crn_jw_integer(w, v->i);
      break;
  }
}

static cairn_status key_text(crn_str *out, const crn_gguf_string *key) {
  crn_str_clear(out);
  return crn_str_append(out, key->data, key->bytes);
}

static void write_metadata(crn_json_writer *w, const crn_gguf *file) {
  crn_str key;
  crn_str_initialize(&key, NULL);
  crn_jw_key(w, "metadata");
  crn_jw_open_object(w);
  for (size_t i = 0; i < crn_gguf_pair_count(file); i++) {
    const crn_gguf_pair *pair = crn_gguf_pair_at(file, i);
    if (w->status == CAIRN_OK) w->status = key_text(&key, &pair->key);
    crn_jw_key(w, key.data);
    write_value(w, &pair->value, 0);
  }
  crn_jw_close_object(w);
  crn_str_deinitialize(&key);
}

static void write_tensors(crn_json_writer *w, const crn_gguf *file, bool all) {
  tensor_group groups[MAX_TYPES];
  int n = group_tensors(file, groups);
  crn_jw_key(w, "tensors");
  crn_jw_open_object(w);
  crn_jw_put_integer(w, "count", (int64_t)crn_gguf_tensor_count(file));
  crn_jw_key(w, "types");
  crn_jw_open_object(w);
  for (int i = 0; i < n; i++) {
    crn_jw_key(w, groups[i].type->name);
    crn_jw_open_inline_object(w);
    crn_jw_put_integer(w, "tensors", groups[i].n_tensors);
    crn_jw_put_integer(w, "elements", groups[i].n_elements);
    crn_jw_put_integer(w, "stored_bytes", (int64_t)groups[i].bytes);
    crn_jw_close_object(w);
  }
  crn_jw_close_object(w);
  if (all) {
    crn_jw_key(w, "list");
    crn_jw_open_array(w, false);
    for (size_t i = 0; i < crn_gguf_tensor_count(file); i++) {
      const crn_gguf_tensor *tensor = crn_gguf_tensor_at(file, i);
      crn_jw_open_inline_object(w);
      crn_jw_key(w, "name");
      crn_jw_text_n(w, tensor->name.data, tensor->name.bytes);
      crn_jw_put_text(w, "type", tensor->type->name);
      crn_jw_key(w, "shape");
      crn_jw_open_array(w, true);
      for (int d = tensor->n_dims - 1; d >= 0; d--) crn_jw_integer(w, tensor->dims[d]);
      crn_jw_close_array(w);
      crn_jw_put_integer(w, "stored_bytes", (int64_t)tensor->bytes);
      crn_jw_close_object(w);
    }
    crn_jw_close_array(w);
  }
  crn_jw_close_object(w);
}

// --- text -------------------------------------------------------------------------------------------------------------

static cairn_status print_metadata(const crn_gguf *file) {
  crn_json_writer w;
  cairn_status status = CAIRN_OK;
  printf("metadata   %zu keys\n", crn_gguf_pair_count(file));
  for (size_t i = 0; i < crn_gguf_pair_count(file) && status == CAIRN_OK; i++) {
    const crn_gguf_pair *pair = crn_gguf_pair_at(file, i);
    crn_jw_initialize(&w, false);
    write_value(&w, &pair->value, 0);
    status = w.status;
    bool cut = w.text.size > LONG_TEXT;
    printf("  %-*.*s  %.*s%s\n", 40, (int)pair->key.bytes, pair->key.data, cut ? LONG_TEXT : (int)w.text.size, w.text.data,
           cut ? " ..." : "");
    crn_jw_deinitialize(&w);
  }
  return status;
}

static void print_tensors(const crn_gguf *file, bool all) {
  tensor_group groups[MAX_TYPES];
  int n = group_tensors(file, groups);
  char size[32];
  printf("tensors    %zu\n", crn_gguf_tensor_count(file));
  for (int i = 0; i < n; i++)
    printf("  %-16s %6lld tensors  %-10s %.3g bits per element\n", groups[i].type->name, (long long)groups[i].n_tensors,
           crn_tool_size_text((double)groups[i].bytes, size, sizeof size),
           groups[i].n_elements ? 8.0 * (double)groups[i].bytes / (double)groups[i].n_elements : 0);
  for (size_t i = 0; all && i < crn_gguf_tensor_count(file); i++) {
    const crn_gguf_tensor *tensor = crn_gguf_tensor_at(file, i);
    printf("  %-8s [", tensor->type->name);
    for (int d = tensor->n_dims - 1; d >= 0; d--) printf("%lld%s", (long long)tensor->dims[d], d ? "," : "");
    printf("] %zu B  %.*s\n", tensor->bytes, (int)tensor->name.bytes, tensor->name.data);
  }
}

static cairn_status print_text(const crn_source *source, const crn_gguf *file, const crn_import_report *report,
                               const crn_inspect_options *o) {
  printf("gguf       %s\n  %-14s %u\n", source->path, "version", (unsigned)crn_gguf_version(file));
  CRN_TRY(print_metadata(file));
  print_tensors(file, o->weights);
  if (!report) return CAIRN_OK;
  puts("import");
  return crn_import_report_print(report);
}

static cairn_status print_json(const crn_gguf *file, const crn_import_report *report, const crn_inspect_options *o) {
  crn_json_writer w;
  crn_jw_initialize(&w, true);
  crn_jw_open_object(&w);
  crn_jw_put_text(&w, "kind", "gguf");
  if (report) {
    crn_import_report_write(&w, report);
  } else {
    crn_jw_key(&w, "functions");
    crn_jw_raw(&w, "[]");
    crn_jw_key(&w, "ops");
    crn_jw_raw(&w, "{}");
  }
  write_metadata(&w, file);
  write_tensors(&w, file, o->weights);
  crn_jw_close_object(&w);
  cairn_status status = crn_jw_print(&w, stdout);
  crn_jw_deinitialize(&w);
  return status;
}

static cairn_status open_file(const char *path, crn_memory_region *region, crn_gguf **out) {
  const void *data;
  size_t bytes;
  if (!crn_synthetic_is(path)) return crn_gguf_open(NULL, path, out);
  CRN_TRY(crn_synthetic_make(NULL, NULL, path, region, &data, &bytes));
  return crn_gguf_open_memory(NULL, data, bytes, path, out);
}

// A file that cannot be imported is still described; why it cannot run is a message and the exit code.
int crn_inspect_import(crn_tool *t, const crn_source *source, const crn_inspect_options *o) {
  crn_gguf *file = NULL;
  crn_memory_region region = {0};
  crn_import_report report;
  if (o->component) return crn_tool_usage_error(t, "--component belongs to bundles; '%s' is one file", source->path);
  if (o->ir) {
    (void)CRN_FAIL(UNSUPPORTED, "--ir shows the stored program of an .aimodel; a GGUF file stores none");
    return crn_tool_fail(t);
  }
  if (open_file(source->path, &region, &file) != CAIRN_OK) {
    crn_memory_region_release(&region);
    return crn_tool_fail(t);
  }
  bool imported = crn_import_report_open(t, source->path, NULL, &report) == CAIRN_OK;
  char why[2048] = "";
  if (!imported) cairn_last_error_text(why, sizeof why);
  int code = TOOL_CONTINUE;
  if (imported) {
    crn_contract_part part = {"main", report.functions, report.n_functions};
    code = crn_inspect_contract(t, o, &part, 1);
  }
  if (code == TOOL_CONTINUE)
    code = crn_tool_result(
        t, o->json ? print_json(file, imported ? &report : NULL, o) : print_text(source, file, imported ? &report : NULL, o));
  if (!imported) {
    fflush(stdout);
    fprintf(stderr, "%s%s\n", t->error_prefix, why);
    code = TOOL_FAILURE;
  } else {
    crn_import_report_close(&report);
  }
  crn_gguf_close(file);
  crn_memory_region_release(&region);
  return code;
}
