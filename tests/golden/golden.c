// Runs golden cases: every folder below the given ones that holds a manifest.json.
//   golden [--coverage OP_TYPES] [--results FILE] [--verbose] [--filter TEXT] FOLDER...
// With --coverage a READY row of ops.def that no passing case uses is a failure too, and so is an element type that the
// table OP_TYPES lists for it. --results writes how many cases used which operation with which element type.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"
#include "case.h"
#include "coverage.h"

typedef struct totals {
  cairn_context *context;
  bool verbose;
  const char *filter, *types, *results;
  int passed, failed, refused;
  coverage coverage;
} totals;

static void run_both_ways(totals *t, const char *folder, const char *name) {
  char note[1024];
  case_outcome fast = run_case(t->context, folder, CAIRN_COMPOSITES_FAST, note, sizeof note);
  const char *how = "direct";
  // A case that passes directly must pass by the stored bodies as well.
  if (fast == CASE_PASSED) {
    how = "by bodies";
    fast = run_case(t->context, folder, CAIRN_COMPOSITES_BODY, note, sizeof note);
  }
  t->passed += fast == CASE_PASSED;
  t->failed += fast == CASE_FAILED;
  t->refused += fast == CASE_REFUSED;
  if (fast == CASE_PASSED && (t->types || t->results) && coverage_add(&t->coverage, t->context, folder) != CAIRN_OK) t->failed++;
  if (fast == CASE_FAILED) printf("FAILED  %s (%s): %s\n", name, how, note);
  if (fast == CASE_REFUSED && t->verbose) printf("refused %s: %s\n", name, note);
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void run_folder(totals *t, const char *folder) {
  DIR *dir = opendir(folder);
  char *names[16384];
  int n = 0;
  struct dirent *e;
  if (!dir) {
    printf("FAILED  cannot open %s\n", folder);
    t->failed++;
    return;
  }
  while ((e = readdir(dir)) && n < 16384) {
    if (e->d_name[0] != '.') names[n++] = strdup(e->d_name);
  }
  closedir(dir);
  qsort(names, (size_t)n, sizeof *names, by_name);
  for (int i = 0; i < n; i++) {
    char path[4096], manifest[4200];
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    snprintf(manifest, sizeof manifest, "%s/manifest.json", path);
    if (crn_file_exists(manifest) && (!t->filter || strstr(names[i], t->filter))) run_both_ways(t, path, names[i]);
    free(names[i]);
  }
}

static void finish(totals *t) {
  char note[512];
  if (t->types) t->failed += coverage_report(&t->coverage);
  if (t->results && coverage_write(&t->coverage, t->results) != CAIRN_OK) {
    cairn_last_error_text(note, sizeof note);
    printf("FAILED  %s\n", note);
    t->failed++;
  }
}

int main(int argc, char **argv) {
  static totals t;
  char note[512];
  if (cairn_context_create(NULL, &t.context) != CAIRN_OK) return 1;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--coverage") && i + 1 < argc) {
      t.types = argv[++i];
      if (coverage_load_types(&t.coverage, t.types) == CAIRN_OK) continue;
      cairn_last_error_text(note, sizeof note);
      printf("%s\n", note);
      return 1;
    } else if (!strcmp(argv[i], "--results") && i + 1 < argc) {
      t.results = argv[++i];
    } else if (!strcmp(argv[i], "--verbose")) {
      t.verbose = true;
    } else if (!strcmp(argv[i], "--filter") && i + 1 < argc) {
      t.filter = argv[++i];
    } else {
      run_folder(&t, argv[i]);
    }
  }
  finish(&t);
  cairn_context_release(t.context);
  printf("%d refused: they use an op that is not READY\n%d passed, %d failed\n", t.refused, t.passed, t.failed);
  return t.failed || !t.passed;
}
