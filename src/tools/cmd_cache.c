// cairn cache: what the cache of packed weights holds, and emptying it.
#include <string.h>
#include <time.h>

#include "base/cache.h"
#include "base/file.h"
#include "cairn/specialize.h"
#include "tools/commands.h"
#include "tools/json_writer.h"
#include "tools/tool.h"

typedef struct cache_options {
  bool json;
} cache_options;

static const crn_tool_option g_options[] = {
    {.name = "json", .kind = OPTION_FLAG, .offset = offsetof(cache_options, json), .group = "Output", .help = "one JSON document"},
};
static const cache_options g_defaults;

typedef struct listing {
  crn_json_writer w;
  bool json;
  int64_t n;
  uint64_t bytes;
} listing;

static cairn_status show(void *user, const cairn_cache_entry *e) {
  listing *l = user;
  l->n++;
  l->bytes += e->bytes;
  char used[32] = "";
  time_t at = (time_t)e->used;
  struct tm parts;
  if (localtime_r(&at, &parts)) strftime(used, sizeof used, "%Y-%m-%d %H:%M", &parts);
  if (!l->json) {
    printf("%9.1f MB  %s  %s%s%s%s\n", (double)e->bytes / 1e6, used, *e->model ? e->model : e->path, *e->options ? " (" : "", e->options,
           *e->options ? ")" : "");
    return CAIRN_OK;
  }
  crn_jw_open_object(&l->w);
  crn_jw_put_text(&l->w, "path", e->path);
  crn_jw_put_text(&l->w, "model", e->model);
  crn_jw_put_text(&l->w, "options", e->options);
  crn_jw_put_integer(&l->w, "bytes", (int64_t)e->bytes);
  crn_jw_put_integer(&l->w, "used", e->used);
  crn_jw_close_object(&l->w);
  return CAIRN_OK;
}

static cairn_status list(bool json) {
  listing l = {.json = json};
  char folder[4096];
  size_t n;
  CRN_TRY(cairn_cache_directory(folder, sizeof folder, &n));
  if (n > sizeof folder - 1) n = sizeof folder - 1;
  folder[n] = 0;
  crn_jw_initialize(&l.w, true);
  crn_jw_open_object(&l.w);
  crn_jw_put_text(&l.w, "directory", folder);
  crn_jw_key(&l.w, "entries");
  crn_jw_open_array(&l.w, false);
  cairn_status status = cairn_cache_list(show, &l);
  crn_jw_close_array(&l.w);
  crn_jw_close_object(&l.w);
  if (status == CAIRN_OK && json) status = crn_jw_print(&l.w, stdout);
  if (status == CAIRN_OK && !json) printf("%lld entries, %.1f MB in %s\n", (long long)l.n, (double)l.bytes / 1e6, folder);
  crn_jw_deinitialize(&l.w);
  return status;
}

// A model that was deleted may still have entries, so only a path with neither is a mistake; removing nothing is none.
static cairn_status clear(crn_tool *t, const char *model, bool json) {
  int64_t n;
  uint64_t bytes;
  CRN_TRY(model ? cairn_cache_remove(model, &n, &bytes) : cairn_cache_clear(&n, &bytes));
  if (model && !n && !crn_file_exists(model))
    crn_tool_warn(t, "'%s': there is no such file or folder, and no entry of the cache belongs to one that was", model);
  if (json) {
    printf("{\"removed\": %lld, \"bytes\": %llu}\n", (long long)n, (unsigned long long)bytes);
  } else {
    printf("removed %lld entries, %.1f MB\n", (long long)n, (double)bytes / 1e6);
  }
  return CAIRN_OK;
}

static int run_cache(crn_tool *t, const void *values) {
  const cache_options *o = values;
  const char *what = t->n_positionals ? t->positionals[0] : "list";
  cairn_status status = crn_cache_check_environment();
  const char *model = t->n_positionals > 1 ? t->positionals[1] : NULL;
  if (status != CAIRN_OK) return crn_tool_fail(t);
  if (!strcmp(what, "list")) {
    if (model) return crn_tool_usage_error(t, "list takes no model, but '%s' is given", model);
    status = list(o->json);
  } else if (!strcmp(what, "clear")) {
    status = clear(t, model, o->json);
  } else {
    return crn_tool_usage_error(t, "'%s' is no action of cairn cache; list and clear are", what);
  }
  return crn_tool_flush(t, crn_tool_result(t, status));
}

const crn_tool_command crn_command_cache = {
    .name = "cache",
    .synopsis = "[list|clear [MODEL]] [--json]",
    .summary = "packed weights kept for quick loads",
    .description =
        "Models are packed for this processor when they are loaded first; the result is kept in $CAIRN_CACHE_DIR (else "
        "$XDG_CACHE_HOME/cairn or "
        "~/.cache/cairn). CAIRN_CACHE=off turns that off, CAIRN_CACHE_LIMIT gives the bytes that may be kept. With MODEL, an asset, a file "
        "or a folder of such, "
        "clear removes only what belongs to it.",
    TOOL_OPTIONS(g_options),
    .max_positionals = 2,
    .defaults = &g_defaults,
    .values_bytes = sizeof g_defaults,
    .run = run_cache,
};
