#include "tools/inspect.h"

#include <string.h>

#include "tools/facts.h"

// What was opened: one asset, or a bundle and its assets.
typedef struct subject {
  cairn_bundle *bundle;
  CRN_VEC(crn_asset_facts) assets;
  int n_failed;  // components that could not be opened; their messages are in `problems`
  crn_str problems;
} subject;

static void release(subject *s) {
  for (size_t i = 0; i < s->assets.size; i++) crn_facts_close(&s->assets.items[i]);
  crn_vec_free(crn_default_allocator(), &s->assets);
  cairn_bundle_release(s->bundle);
  crn_str_deinitialize(&s->problems);
}

static cairn_status add_asset(crn_tool *t, subject *s, const char *path, const char *role) {
  crn_asset_facts facts;
  CRN_TRY(crn_facts_open(t, path, role, &facts));
  cairn_status status = crn_vec_push(crn_default_allocator(), &s->assets, facts);
  if (status != CAIRN_OK) crn_facts_close(&facts);
  return status;
}

// One unreadable component must not hide the others: it is reported, and the exit code tells.
static cairn_status add_component(crn_tool *t, subject *s, const char *role) {
  const char *path = NULL;
  cairn_status status = crn_source_component(t, s->bundle, role, &path);
  if (status == CAIRN_OK) status = add_asset(t, s, path, role);
  if (status == CAIRN_OK || status == CAIRN_OUT_OF_MEMORY) return status;
  char text[2048];
  cairn_last_error_text(text, sizeof text);
  s->n_failed++;
  return crn_str_printf(&s->problems, "%s: %s\n", role, text);
}

static cairn_status open_bundle(crn_tool *t, subject *s, const char *path, const char *only) {
  CRN_TRY(cairn_bundle_open(t->context, path, &s->bundle));
  bool found = false;
  // The main asset comes first, whatever the alphabet says.
  for (int pass = 0; pass < 2; pass++) {
    for (int i = 0; i < cairn_bundle_asset_count(s->bundle); i++) {
      const char *role = cairn_bundle_asset_role(s->bundle, i);
      if ((strcmp(role, "main") == 0) != (pass == 0) || (only && strcmp(only, role) != 0)) continue;
      found = true;
      CRN_TRY(add_component(t, s, role));
    }
  }
  return only && !found ? crn_source_no_component(s->bundle, only) : CAIRN_OK;
}

static cairn_status open_subject(crn_tool *t, const crn_source *source, const char *only, subject *s) {
  if (source->kind == CRN_SOURCE_BUNDLE) return open_bundle(t, s, source->path, only);
  if (only) return CRN_FAIL(INVALID_ARGUMENT, "'%s' is one asset, not a bundle; it has no component '%s'", source->path, only);
  return add_asset(t, s, source->path, NULL);
}

// --- text -------------------------------------------------------------------------------------------------------------

static void print_bundle(const cairn_bundle *b) {
  printf("bundle     %s\n  %-14s %s\n  %-14s %s\n", cairn_bundle_path(b), "name", cairn_bundle_name(b), "kind",
         cairn_bundle_kind_text(cairn_bundle_get_kind(b)));
  cairn_bundle_language language;
  if (cairn_bundle_get_language(b, &language) == CAIRN_OK) {
    printf("  %-14s %lld\n  %-14s %lld tokens\n", "vocabulary", (long long)language.vocab_size, "context",
           (long long)language.max_context_length);
    printf("  %-14s %s%s\n", "tokenizer", language.tokenizer, language.embedded_tokenizer ? " (embedded)" : " (not embedded)");
  }
  for (int i = 0; i < cairn_bundle_asset_count(b); i++) {
    const char *role = cairn_bundle_asset_role(b, i);
    printf("  %-14s %s\n", role, cairn_bundle_asset_file(b, role));
  }
  for (int i = 0; i < cairn_bundle_user_data_count(b); i++) {
    const char *key = cairn_bundle_user_data_key(b, i);
    printf("  %-14s %s\n", key, cairn_bundle_user_data(b, key));
  }
}

static cairn_status print_text(const subject *s, const crn_inspect_options *o) {
  if (s->bundle) print_bundle(s->bundle);
  for (size_t i = 0; i < s->assets.size; i++) {
    if (i || s->bundle) putchar('\n');
    CRN_TRY(crn_facts_print(&s->assets.items[i], (crn_facts_style){o->ops, o->weights}));
  }
  return CAIRN_OK;
}

static cairn_status write_stdout(void *user, const char *text, size_t bytes) {
  (void)user;
  if (fwrite(text, 1, bytes, stdout) != bytes) return CRN_FAIL(IO, "cannot write the output");
  return CAIRN_OK;
}

static cairn_status print_ir(const subject *s, const crn_inspect_options *o) {
  cairn_print_options options = {o->bodies, o->locations, o->large_data};
  for (size_t i = 0; i < s->assets.size; i++) {
    // The role is a comment in MLIR's syntax, so that the text stays readable by other tools.
    if (s->assets.items[i].role) printf("// asset %s\n", s->assets.items[i].role);
    CRN_TRY(cairn_asset_print(s->assets.items[i].asset, &options, write_stdout, NULL));
  }
  return CAIRN_OK;
}

// --- JSON -------------------------------------------------------------------------------------------------------------

static void write_bundle(crn_json_writer *w, const subject *s, crn_facts_style style) {
  const cairn_bundle *b = s->bundle;
  crn_jw_put_text(w, "name", cairn_bundle_name(b));
  crn_jw_put_text(w, "bundle_kind", cairn_bundle_kind_text(cairn_bundle_get_kind(b)));
  crn_jw_key(w, "functions");
  crn_jw_open_array(w, s->assets.size == 0);
  if (s->assets.size)
    for (int i = 0; i < s->assets.items[0].n_functions; i++) crn_write_function(w, s->assets.items[0].functions[i]);
  crn_jw_close_array(w);
  crn_jw_key(w, "metadata");
  crn_write_json_text(w, cairn_bundle_metadata_json(b));
  crn_jw_key(w, "ops");
  if (s->assets.size)
    crn_facts_write_ops(w, &s->assets.items[0]);
  else
    crn_jw_raw(w, "{}");
  crn_jw_key(w, "assets");
  crn_jw_open_array(w, s->assets.size == 0);
  for (size_t i = 0; i < s->assets.size; i++) {
    crn_jw_open_object(w);
    crn_jw_put_text(w, "role", s->assets.items[i].role);
    crn_jw_put_text(w, "file", cairn_bundle_asset_file(b, s->assets.items[i].role));
    crn_facts_write(w, &s->assets.items[i], style);
    crn_jw_close_object(w);
  }
  crn_jw_close_array(w);
}

static cairn_status print_json(const subject *s, const crn_inspect_options *o) {
  crn_facts_style style = {o->ops, o->weights};
  crn_json_writer w;
  crn_jw_initialize(&w, true);
  crn_jw_open_object(&w);
  crn_jw_put_text(&w, "kind", s->bundle ? "bundle" : "aimodel");
  if (s->bundle)
    write_bundle(&w, s, style);
  else
    crn_facts_write(&w, &s->assets.items[0], style);
  crn_jw_close_object(&w);
  cairn_status status = crn_jw_print(&w, stdout);
  crn_jw_deinitialize(&w);
  return status;
}

// --- contract ---------------------------------------------------------------------------------------------------------

static cairn_status print_comparison(const crn_inspect_options *o, const crn_str *differences, int n) {
  if (!o->json) {
    if (n)
      fputs(differences->data, stdout);
    else
      printf("the contract of %s is kept\n", o->expect);
    return CAIRN_OK;
  }
  crn_json_writer w;
  crn_jw_initialize(&w, true);
  crn_jw_open_object(&w);
  crn_jw_key(&w, "contract");
  crn_jw_open_object(&w);
  crn_jw_put_text(&w, "file", o->expect);
  crn_jw_put_boolean(&w, "matches", n == 0);
  crn_jw_key(&w, "differences");
  crn_jw_open_array(&w, n == 0);
  for (const char *p = differences->data; *p; p += strcspn(p, "\n") + 1) crn_jw_text_n(&w, p, strcspn(p, "\n"));
  crn_jw_close_array(&w);
  crn_jw_close_object(&w);
  crn_jw_close_object(&w);
  cairn_status status = crn_jw_print(&w, stdout);
  crn_jw_deinitialize(&w);
  return status;
}

int crn_inspect_contract(crn_tool *t, const crn_inspect_options *o, const crn_contract_part *parts, int n_parts) {
  if (!o->save_contract && !o->expect) return TOOL_CONTINUE;
  crn_str differences;
  int n = 0;
  crn_str_initialize(&differences, NULL);
  cairn_status status = CAIRN_OK;
  if (o->expect) {
    status = crn_contract_compare(o->expect, parts, n_parts, &differences, &n);
    if (status == CAIRN_OK) status = print_comparison(o, &differences, n);
  }
  if (status == CAIRN_OK && o->save_contract) status = crn_contract_save(o->save_contract, parts, n_parts);
  crn_str_deinitialize(&differences);
  if (status != CAIRN_OK) return crn_tool_fail(t);
  return n ? TOOL_FAILURE : TOOL_OK;
}

static int check_contract(crn_tool *t, const subject *s, const crn_inspect_options *o) {
  crn_contract_part *parts = NULL;
  if (crn_arena_array(t->arena, s->assets.size, sizeof *parts, &parts) != CAIRN_OK) return crn_tool_fail(t);
  for (size_t i = 0; i < s->assets.size; i++) parts[i] = crn_facts_contract(&s->assets.items[i]);
  return crn_inspect_contract(t, o, parts, (int)s->assets.size);
}

// --- all together -----------------------------------------------------------------------------------------------------

int crn_inspect_assets(crn_tool *t, const crn_source *source, const crn_inspect_options *o) {
  subject s = {0};
  crn_str_initialize(&s.problems, NULL);
  cairn_status status = open_subject(t, source, o->component, &s);
  int code = status == CAIRN_OK ? TOOL_CONTINUE : crn_tool_fail(t);
  if (code == TOOL_CONTINUE && s.n_failed == 0) code = check_contract(t, &s, o);
  if (code == TOOL_CONTINUE) code = crn_tool_result(t, o->json ? print_json(&s, o) : o->ir ? print_ir(&s, o) : print_text(&s, o));
  if (s.n_failed) {
    fflush(stdout);
    for (const char *p = s.problems.data; *p; p += strcspn(p, "\n") + 1)
      fprintf(stderr, "%s%.*s\n", t->error_prefix, (int)strcspn(p, "\n"), p);
    code = TOOL_FAILURE;
  }
  release(&s);
  return code;
}
