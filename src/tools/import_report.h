/// Files other programs made, as an importer understands them: for cairn import, and for inspect, run on such files.
#ifndef CRN_TOOLS_IMPORT_REPORT_H
#define CRN_TOOLS_IMPORT_REPORT_H

#include "cairn/model.h"
#include "import/registry.h"
#include "tools/contract.h"
#include "tools/json_writer.h"
#include "tools/tool.h"

typedef struct crn_import_report {
  const char *path;
  const crn_importer *importer;
  crn_imported_model imported;  ///< its program has moved into `model`
  cairn_model *model;
  int64_t op_counts[CRN_OP_COUNT];
  int64_t n_ops, weight_bytes;
  const cairn_function_info **functions;
  int n_functions;
} crn_import_report;

/// Imports `path` and makes a model of it. Errors: those of crn_import and of making a model.
cairn_status crn_import_report_open(crn_tool *t, const char *path, const cairn_model_options *options, crn_import_report *out_report);
void crn_import_report_close(crn_import_report *report);

/// What was understood, as text and as members of the open JSON object.
cairn_status crn_import_report_print(const crn_import_report *report);
void crn_import_report_write(crn_json_writer *w, const crn_import_report *report);

#endif
