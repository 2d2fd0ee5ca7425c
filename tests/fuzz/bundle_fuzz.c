// Bundle metadata: the input is a metadata.json. Everything the language loader reads of it is read.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cairn/bundle.h"

static char g_folder[64], g_file[96];

static void remove_folder(void) {
  unlink(g_file);
  rmdir(g_folder);
}

static void make_folder(void) {
  snprintf(g_folder, sizeof g_folder, "/tmp/cairn-bundle-fuzz-XXXXXX");
  if (!mkdtemp(g_folder)) abort();
  snprintf(g_file, sizeof g_file, "%s/metadata.json", g_folder);
  atexit(remove_folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!*g_folder) make_folder();
  FILE *f = fopen(g_file, "wb");
  if (!f || fwrite(data, 1, size, f) != size || fclose(f)) abort();
  cairn_context *context;
  cairn_bundle *bundle;
  if (cairn_context_create(&(cairn_context_options){.n_threads = 1}, &context) != CAIRN_OK) return 0;
  if (cairn_bundle_open(context, g_folder, &bundle) == CAIRN_OK) {
    char path[512];
    size_t bytes;
    for (int i = 0; i < cairn_bundle_asset_count(bundle); i++) {
      cairn_bundle_asset_path(bundle, cairn_bundle_asset_role(bundle, i), path, sizeof path, &bytes);
    }
    cairn_bundle_language language;
    cairn_bundle_vision vision;
    cairn_bundle_get_language(bundle, &language);
    cairn_bundle_get_vision(bundle, &vision);
    cairn_bundle_release(bundle);
  }
  cairn_context_release(context);
  return 0;
}
