#include "tools/places.h"

#include <stdio.h>
#include <string.h>

#include "base/path.h"
#include "tools/outputs.h"
#include "tools/session.h"
#include "tools/source.h"

typedef struct place {
  const char *option;  ///< with its dashes
  const char *given;   ///< as it was written
  const char *path;
  crn_option_place kind;
} place;

typedef struct crn_places {
  crn_tool *t;
  place *items;
  size_t n;
} places;

static bool is_read(const place *p) { return p->kind == PLACE_INPUT || p->kind == PLACE_MODEL; }

// --- gathering ----------------------------------------------------------------------------------------------------------

static void add(places *all, const char *option, const char *given, const char *path, crn_option_place kind) {
  all->items[all->n++] = (place){option, given, path, kind};
}

// A model that is not found is told by whoever opens it.
static void add_model(places *all, const char *option, const char *given) {
  const char *path = NULL;
  if (crn_source_locate(all->t, given, NULL, &path) == CAIRN_OK) add(all, option, given, path, PLACE_MODEL);
  crn_error_clear();
}

static cairn_status add_value(places *all, const char *option, const char *given, crn_option_place kind) {
  const char *equals = strchr(given, '='), *beside = NULL;
  switch (kind) {
    case PLACE_MODEL:
      add_model(all, option, given);
      return CAIRN_OK;
    case PLACE_TABLE:
      if (equals) add(all, option, given, equals + 1, PLACE_INPUT);
      return CAIRN_OK;
    case PLACE_SESSION:
      CRN_TRY(crn_session_companion(all->t->arena, given, &beside));
      add(all, option, given, given, PLACE_OUTPUT);
      add(all, option, given, beside, PLACE_OUTPUT);
      return CAIRN_OK;
    default:
      add(all, option, given, given, kind);
      return CAIRN_OK;
  }
}

static cairn_status name_of(crn_tool *t, const crn_tool_option *o, char **out) {
  const size_t n = strlen(o->name) + 3;
  CRN_TRY(crn_arena_array(t->arena, n, 1, out));
  snprintf(*out, n, "--%s", o->name);
  // An output is mostly written by its letter.
  if (!strcmp(o->name, "output")) snprintf(*out, n, "-%c", o->letter);
  return CAIRN_OK;
}

static cairn_status add_options(places *all, const crn_tool_option *options, int n, const void *values) {
  for (int i = 0; i < n; i++) {
    const crn_tool_option *o = &options[i];
    if (o->place == PLACE_NONE) continue;
    const void *slot = (const char *)values + o->offset;
    const char *text = o->kind == OPTION_LIST ? NULL : *(const char *const *)slot;
    const crn_option_list one = {&text, text != NULL}, *list = o->kind == OPTION_LIST ? slot : &one;
    char *name;
    CRN_TRY(name_of(all->t, o, &name));
    for (int k = 0; k < list->n; k++) CRN_TRY(add_value(all, name, list->items[k], o->place));
  }
  return CAIRN_OK;
}

static size_t most_of(const crn_tool_option *options, int n, const void *values) {
  size_t most = 0;
  for (int i = 0; i < n; i++) {
    const crn_option_list *list = (const void *)((const char *)values + options[i].offset);
    if (options[i].place != PLACE_NONE) most += options[i].kind == OPTION_LIST ? (size_t)list->n : 2;
  }
  return most;
}

static cairn_status gather(places *all, const crn_tool_command *c, const void *values) {
  crn_tool *t = all->t;
  int n_common;
  const crn_tool_option *common = crn_tool_common_options(c, &n_common);
  const size_t most = most_of(c->options, c->n_options, values) + most_of(common, n_common, t) + 1;
  CRN_TRY(crn_arena_array(t->arena, most, sizeof *all->items, &all->items));
  if (c->reads_model && t->n_positionals) add_model(all, NULL, t->positionals[0]);
  CRN_TRY(add_options(all, c->options, c->n_options, values));
  return add_options(all, common, n_common, t);
}

// --- checking -----------------------------------------------------------------------------------------------------------

static cairn_status check_place(const place *p) {
  switch (p->kind) {
    case PLACE_OUTPUT:
      return crn_output_check_file(p->option, p->path);
    case PLACE_FOLDER:
      return crn_output_check_directory(p->option, p->path);
    case PLACE_ASSET:
      return crn_output_check_folder(p->option, p->path);
    default:
      return CAIRN_OK;
  }
}

// Whether a folder of the path is an asset.
static bool is_in_asset(const char *path) {
  for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
    const size_t n = (size_t)(slash - path);
    if ((n > 8 && !strncmp(slash - 8, ".aimodel", 8)) || (n > 9 && !strncmp(slash - 9, ".aimodelc", 9))) return true;
  }
  return false;
}

// A compiled asset may lie in the bundle it was made from, but not in an asset.
static bool may_hold(const place *output, const place *input) {
  if (output->kind != PLACE_ASSET || input->kind != PLACE_MODEL || crn_path_is_same(output->path, input->path)) return false;
  crn_str real;
  crn_str_initialize(&real, NULL);
  const bool is_apart = crn_path_resolve(output->path, &real) == CAIRN_OK && !is_in_asset(real.data);
  crn_str_deinitialize(&real);
  return is_apart;
}

static cairn_status check_pair(const place *a, const place *b) {
  if (is_read(a) && is_read(b)) return CAIRN_OK;
  if (is_read(b)) return may_hold(a, b) ? CAIRN_OK : crn_output_check_apart(a->option, a->path, b->path);
  if (is_read(a)) return may_hold(b, a) ? CAIRN_OK : crn_output_check_apart(b->option, b->path, a->path);
  // An asset is replaced as a whole, so nothing else is written into it.
  const bool is_inside = a->kind == PLACE_ASSET || b->kind == PLACE_ASSET;
  const place *inner = a->kind == PLACE_ASSET ? b : a, *outer = inner == a ? b : a;
  const crn_output x = {inner->option, inner->given, inner->path}, y = {outer->option, outer->given, outer->path};
  return crn_output_check_distinct(&x, &y, is_inside);
}

cairn_status crn_places_check_read(crn_tool *t, const char *path) {
  const places *all = t->places;
  for (size_t i = 0; all && i < all->n; i++) {
    const place *p = &all->items[i];
    cairn_status status = is_read(p) ? CAIRN_OK : crn_output_check_apart(p->option, p->path, path);
    if (status == CAIRN_OK) continue;
    if (t->trace && !strcmp(p->path, t->trace)) t->trace = NULL;
    return status;
  }
  return CAIRN_OK;
}

cairn_status crn_places_check(crn_tool *t, const crn_tool_command *command, const void *values) {
  places *all;
  CRN_TRY(crn_arena_array(t->arena, 1, sizeof *all, &all));
  *all = (places){.t = t};
  CRN_TRY(gather(all, command, values));
  t->places = all;
  for (size_t i = 0; i < all->n; i++) CRN_TRY(check_place(&all->items[i]));
  for (size_t i = 0; i < all->n; i++) {
    for (size_t k = i + 1; k < all->n; k++) CRN_TRY(check_pair(&all->items[i], &all->items[k]));
  }
  return CAIRN_OK;
}
