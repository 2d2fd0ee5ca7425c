// Prints assets for comparison with a reference reader.
//   print_asset [--locations] [--large-data] [--bodies] [--resources] ASSET
// --resources prints one line per resource instead: key, alignment, SHA-256 of its bytes.
#include <stdio.h>
#include <string.h>

#include "asset/asset.h"

static cairn_status to_stdout(void *user, const char *text, size_t bytes) {
  (void)user;
  return fwrite(text, 1, bytes, stdout) == bytes ? CAIRN_OK : CAIRN_IO;
}

static cairn_status print_resources(const cairn_asset *asset) {
  crn_bc_module *m;
  CRN_TRY(crn_asset_open_module(asset, &m));
  cairn_status status = CAIRN_OK;
  for (uint32_t i = 0; status == CAIRN_OK && i < crn_bc_module_resource_count(m); i++) {
    const crn_bc_resource *r = crn_bc_module_resource(m, i);
    unsigned char digest[CRN_SHA256_BYTES];
    status = crn_sha256(r->data, r->bytes, digest);
    printf("%.*s %llu ", (int)r->key.bytes, r->key.data, (unsigned long long)r->alignment);
    for (int k = 0; k < CRN_SHA256_BYTES; k++) printf("%02x", digest[k]);
    printf("\n");
  }
  crn_bc_module_close(m);
  return status;
}

int main(int argc, char **argv) {
  cairn_print_options options = {0};
  bool resources = false;
  const char *path = NULL;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--locations")) {
      options.locations = true;
    } else if (!strcmp(argv[i], "--large-data")) {
      options.large_data = true;
    } else if (!strcmp(argv[i], "--bodies")) {
      options.bodies = true;
    } else if (!strcmp(argv[i], "--resources")) {
      resources = true;
    } else {
      path = argv[i];
    }
  }
  cairn_context *context = NULL;
  cairn_asset *asset = NULL;
  cairn_status status = cairn_context_create(NULL, &context);
  if (status == CAIRN_OK) status = cairn_asset_open(context, path, NULL, &asset);
  if (status == CAIRN_OK) status = resources ? print_resources(asset) : cairn_asset_print(asset, &options, to_stdout, NULL);
  if (status != CAIRN_OK) {
    char text[2048];
    cairn_last_error_text(text, sizeof text);
    fprintf(stderr, "%s: %s\n", cairn_status_name(status), text);
  }
  cairn_asset_release(asset);
  cairn_context_release(context);
  return status != CAIRN_OK;
}
