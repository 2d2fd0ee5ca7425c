/// The chat templates of a tokenizer: where they are found and which one is used.
#include "text/template/set.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/file.h"
#include "base/json.h"

enum { MAX_TEMPLATE_BYTES = 16 << 20, MAX_TEMPLATES = 64 };

static cairn_status create(cairn_context *context, cairn_template_set **out) {
  cairn_template_set *set;
  CRN_TRY(crn_alloc_zero(&context->allocator, sizeof *set, &set));
  atomic_init(&set->references, 1);
  set->context = context;
  cairn_context_retain(context);
  crn_arena_initialize(&set->arena, &context->allocator);
  *out = set;
  return CAIRN_OK;
}

void cairn_template_set_retain(cairn_template_set *set) {
  if (set) atomic_fetch_add_explicit(&set->references, 1, memory_order_relaxed);
}

void cairn_template_set_release(cairn_template_set *set) {
  if (!set || atomic_fetch_sub_explicit(&set->references, 1, memory_order_acq_rel) != 1) return;
  cairn_context *context = set->context;
  for (size_t i = 0; i < set->templates.size; i++) cairn_template_release(set->templates.items[i].compiled);
  crn_vec_free(&context->allocator, &set->templates);
  crn_arena_deinitialize(&set->arena);
  crn_free(&context->allocator, set, sizeof *set);
  cairn_context_release(context);
}

// --- filling --------------------------------------------------------------------------------------------------------

static tmpl_named *find(const cairn_template_set *set, const char *name) {
  for (size_t i = 0; i < set->templates.size; i++) {
    if (strcmp(set->templates.items[i].name, name) == 0) return &set->templates.items[i];
  }
  return NULL;
}

cairn_status crn_tmpl_set_add(cairn_template_set *set, const char *name, const char *source, size_t bytes, const char *what) {
  tmpl_named t = {.source_bytes = bytes};
  if (set->templates.size >= MAX_TEMPLATES) return CRN_FAIL(OUT_OF_RANGE, "%s: more than %d chat templates", what, MAX_TEMPLATES);
  CRN_TRY(crn_arena_strndup(&set->arena, name, strlen(name), &t.name));
  CRN_TRY(crn_arena_strndup(&set->arena, source, bytes, &t.source));
  t.status = cairn_template_create(set->context, t.source, bytes, what, &t.compiled);
  if (t.status == CAIRN_OUT_OF_MEMORY) return t.status;
  cairn_status status = CAIRN_OK;
  if (t.status != CAIRN_OK) {
    const char *message = cairn_last_error()->message;
    status = crn_arena_strndup(&set->arena, message, strlen(message), &t.message);
  }
  tmpl_named *old = find(set, name);
  if (status == CAIRN_OK && !old) status = crn_vec_push(&set->context->allocator, &set->templates, t);
  if (status != CAIRN_OK) {
    cairn_template_release(t.compiled);
  } else if (old) {
    cairn_template_release(old->compiled);
    *old = t;
  }
  return status;
}

cairn_status cairn_template_set_create(cairn_context *context, const char *source, size_t source_bytes, const char *what,
                                       cairn_template_set **out_set) {
  CRN_REQUIRE(out_set);
  *out_set = NULL;
  CRN_REQUIRE(context);
  CRN_REQUIRE_SOME(source, source_bytes);
  cairn_template_set *set;
  CRN_TRY(create(context, &set));
  cairn_status status = crn_tmpl_set_add(set, "default", source, source_bytes, what);
  if (status == CAIRN_OK) {
    *out_set = set;
  } else {
    cairn_template_set_release(set);
  }
  return status;
}

static cairn_status add_file(cairn_template_set *set, const char *name, const char *path) {
  crn_str source;
  crn_str_initialize(&source, &set->context->allocator);
  cairn_status status = crn_file_read(path, MAX_TEMPLATE_BYTES, &source);
  if (status == CAIRN_OK) status = crn_tmpl_set_add(set, name, source.data, source.size, path);
  crn_str_deinitialize(&source);
  return status;
}

static int compare_names(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

static int is_template(const struct dirent *e) { return e->d_name[0] != '.' && crn_ends_with(e->d_name, ".jinja"); }

// additional_chat_templates/NAME.jinja, by name.
static cairn_status add_more_files(cairn_template_set *set, const char *folder, crn_str *path, crn_str *name) {
  struct dirent **entries = NULL;
  crn_str more;
  crn_str_initialize(&more, &set->context->allocator);
  cairn_status status = crn_path_join(&more, folder, "additional_chat_templates");
  int n = status == CAIRN_OK && crn_is_directory(more.data) ? scandir(more.data, &entries, is_template, compare_names) : 0;
  for (int i = 0; i < n; i++) {
    const char *file = entries[i]->d_name;
    crn_str_clear(name);
    if (status == CAIRN_OK) status = crn_str_append(name, file, strlen(file) - strlen(".jinja"));
    if (status == CAIRN_OK) status = crn_path_join(path, more.data, file);
    if (status == CAIRN_OK) status = add_file(set, name->data, path->data);
    free(entries[i]);
  }
  free(entries);
  crn_str_deinitialize(&more);
  return status;
}

static cairn_status add_files(cairn_template_set *set, const char *folder) {
  crn_str path, name;
  crn_str_initialize(&path, &set->context->allocator);
  crn_str_initialize(&name, &set->context->allocator);
  cairn_status status;
  CRN_TRY_GOTO(crn_path_join(&path, folder, "chat_template.jinja"));
  if (crn_file_exists(path.data)) CRN_TRY_GOTO(add_file(set, "default", path.data));
  CRN_TRY_GOTO(add_more_files(set, folder, &path, &name));
done:
  crn_str_deinitialize(&path);
  crn_str_deinitialize(&name);
  return status;
}

// `chat_template` of a JSON file: a text, or a list of {"name","template"}.
static cairn_status add_from_json(cairn_template_set *set, const json_t *config, const char *file) {
  json_t *v = json_object_get(config, "chat_template"), *item;
  char what[64];
  size_t i;
  snprintf(what, sizeof what, "chat_template of %s", file);
  if (json_is_string(v)) return crn_tmpl_set_add(set, "default", json_string_value(v), json_string_length(v), what);
  json_array_foreach(v, i, item) {
    const char *name = json_string_value(json_object_get(item, "name"));
    const json_t *source = json_object_get(item, "template");
    if (!name || !json_is_string(source)) continue;
    CRN_TRY(crn_tmpl_set_add(set, name, json_string_value(source), json_string_length(source), what));
  }
  return CAIRN_OK;
}

static cairn_status add_json_file(cairn_template_set *set, const char *folder, const char *name) {
  crn_str path;
  json_t *config = NULL;
  crn_str_initialize(&path, &set->context->allocator);
  cairn_status status = crn_path_join(&path, folder, name);
  if (status == CAIRN_OK && crn_file_exists(path.data)) status = crn_json_read(path.data, &config);
  if (status == CAIRN_OK && config) status = add_from_json(set, config, name);
  json_decref(config);
  crn_str_deinitialize(&path);
  return status;
}

cairn_status cairn_template_set_open(cairn_context *context, const char *folder, cairn_template_set **out_set) {
  CRN_REQUIRE(out_set);
  *out_set = NULL;
  CRN_REQUIRE(context);
  CRN_REQUIRE(folder);
  cairn_template_set *set;
  CRN_TRY(create(context, &set));
  cairn_status status = add_files(set, folder);
  if (status == CAIRN_OK && !set->templates.size) status = add_json_file(set, folder, "tokenizer_config.json");
  if (status == CAIRN_OK && !set->templates.size) status = add_json_file(set, folder, "chat_template.json");
  if (status == CAIRN_OK && !set->templates.size)
    status = CRN_FAIL(NOT_FOUND, "%s holds no chat_template.jinja, and its tokenizer_config.json no chat_template", folder);
  if (status == CAIRN_OK) {
    *out_set = set;
  } else {
    cairn_template_set_release(set);
  }
  return status;
}

// --- choosing -------------------------------------------------------------------------------------------------------

int cairn_template_set_count(const cairn_template_set *set) { return set ? (int)set->templates.size : 0; }

const char *cairn_template_set_name(const cairn_template_set *set, int index) {
  if (!set) return NULL;
  return index >= 0 && (size_t)index < set->templates.size ? set->templates.items[index].name : NULL;
}

static cairn_status not_found(const cairn_template_set *set, const char *name) {
  char names[256] = "";
  size_t used = 0;
  for (size_t i = 0; i < set->templates.size && used < sizeof names; i++) {
    used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", set->templates.items[i].name);
  }
  if (name) return CRN_FAIL(NOT_FOUND, "there is no chat template called '%s'; there are: %s", name, names);
  return CRN_FAIL(NOT_FOUND, "none of the chat templates is the default; name one of: %s", names);
}

cairn_status cairn_template_set_pick(const cairn_template_set *set, const char *name, bool has_tools, const cairn_template **out_template,
                                     const char **out_source, size_t *out_source_bytes) {
  CRN_REQUIRE(set);
  const tmpl_named *t = NULL;
  if (name) {
    t = find(set, name);
  } else {
    if (has_tools) t = find(set, "tool_use");
    if (!t) t = find(set, "default");
  }
  if (!t) return not_found(set, name);
  if (out_source) *out_source = t->source;
  if (out_source_bytes) *out_source_bytes = t->source_bytes;
  if (!out_template) return CAIRN_OK;
  *out_template = t->compiled;
  if (!t->compiled) return crn_fail(t->status, __FILE__, __LINE__, "%s", t->message);
  return CAIRN_OK;
}
