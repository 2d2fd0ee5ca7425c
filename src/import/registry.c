#include "import/registry.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "import/gguf/import.h"
#include "import/synthetic/synthetic.h"

enum { HEAD_BYTES = 64 };

static bool probe_gguf(const crn_import_probe *p) { return p->head_bytes >= 4 && !memcmp(p->head, "GGUF", 4); }

static bool probe_synthetic(const crn_import_probe *p) { return crn_synthetic_is(p->path); }

static const crn_importer importers[] = {
    {"synthetic", "names like " CRN_SYNTHETIC_PREFIX "qwen3-0.6b:q4", probe_synthetic, crn_synthetic_import},
    {"gguf", "GGUF files of llama and Qwen models", probe_gguf, crn_gguf_import_beside},
};

enum { N_IMPORTERS = sizeof importers / sizeof *importers };

const crn_importer *crn_importers(size_t *out_n) {
  *out_n = N_IMPORTERS;
  return importers;
}

// A short read is no failure: a small file has a small head.
static cairn_status read_head(const char *path, unsigned char *head, size_t *out_bytes) {
  *out_bytes = 0;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return CRN_FAIL(NOT_FOUND, "%s: no such file or directory", path);
    return CRN_FAIL(IO, "cannot open '%s': %s", path, strerror(errno));
  }
  ssize_t n;
  do {
    n = read(fd, head, HEAD_BYTES);
  } while (n < 0 && errno == EINTR);
  int error = errno;
  close(fd);
  if (n < 0) return CRN_FAIL(IO, "cannot read '%s': %s", path, strerror(error));
  *out_bytes = (size_t)n;
  return CAIRN_OK;
}

cairn_status crn_importer_find(const char *path, const crn_importer **out_importer) {
  unsigned char head[HEAD_BYTES];
  bool is_name = crn_synthetic_is(path);  // of something that is no file
  crn_import_probe probe = {.path = path, .is_directory = !is_name && crn_is_directory(path), .head = head};
  *out_importer = NULL;
  if (!probe.is_directory && !is_name) CRN_TRY(read_head(path, head, &probe.head_bytes));
  for (size_t i = 0; i < N_IMPORTERS && !*out_importer; i++) {
    if (importers[i].probe(&probe)) *out_importer = &importers[i];
  }
  return CAIRN_OK;
}

cairn_status crn_import(cairn_context *context, const char *path, crn_imported_model *out_model) {
  const crn_importer *importer;
  *out_model = (crn_imported_model){0};
  CRN_TRY(crn_importer_find(path, &importer));
  if (importer) {
    cairn_status made = importer->import(context, path, out_model);
    if (made == CAIRN_OK) made = crn_imported_model_wait(out_model);
    if (made != CAIRN_OK) crn_imported_model_destroy(out_model);
    return made;
  }
  crn_str accepted;
  crn_str_initialize(&accepted, NULL);
  cairn_status status = CAIRN_OK;
  for (size_t i = 0; i < N_IMPORTERS && status == CAIRN_OK; i++) {
    status = crn_str_printf(&accepted, "%s%s", i ? ", " : "", importers[i].accepted);
  }
  if (status == CAIRN_OK) status = CRN_FAIL(UNSUPPORTED, "%s: not a model that can be imported (%s)", path, accepted.data);
  crn_str_deinitialize(&accepted);
  return status;
}
