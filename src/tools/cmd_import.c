// cairn import: reads a model of another format and reports what was understood.
#include "tools/commands.h"
#include "tools/import_report.h"
#include "tools/source.h"

typedef struct import_options {
  bool check, json;
  const char *output;
} import_options;

#define AT(member) offsetof(import_options, member)

static const crn_tool_option g_options[] = {
    {.name = "check",
     .kind = OPTION_FLAG,
     .offset = AT(check),
     .group = "Import",
     .help = "read and report only; what happens without -o anyway"},
    {.name = "output",
     .letter = 'o',
     .kind = OPTION_TEXT,
     .offset = AT(output),
     .argument = "DIR",
     .group = "Import",
     .help = "bundle to write (not available in this version)"},
    {.name = "json", .kind = OPTION_FLAG, .offset = AT(json), .group = "Output", .help = "the report as one JSON document"},
};

static const import_options g_defaults;

static cairn_status print_json(const crn_import_report *report) {
  crn_json_writer w;
  crn_jw_initialize(&w, true);
  crn_jw_open_object(&w);
  crn_jw_put_text(&w, "source", report->path);
  crn_import_report_write(&w, report);
  crn_jw_close_object(&w);
  cairn_status status = crn_jw_print(&w, stdout);
  crn_jw_deinitialize(&w);
  return status;
}

static int run_import(crn_tool *t, const void *values) {
  const import_options *o = values;
  const char *path = NULL;
  crn_import_report report;
  if (o->check && o->output) return crn_tool_usage_error(t, "--check writes nothing; leave -o out");
  if (o->output) {
    (void)CRN_FAIL(
        UNSUPPORTED,
        "-o: this version cannot write .aimodel files yet. Imported models run directly: give the file itself to cairn generate, "
        "chat, run or inspect");
    return crn_tool_fail(t);
  }
  if (crn_tool_open_context(t) != CAIRN_OK || crn_source_locate(t, t->positionals[0], NULL, &path) != CAIRN_OK) return crn_tool_fail(t);
  crn_tool_progress(t, "importing", 0, 0);
  cairn_status status = crn_import_report_open(t, path, NULL, &report);
  crn_tool_progress_clear(t);
  if (status != CAIRN_OK) return crn_tool_fail(t);
  if (o->json) {
    status = print_json(&report);
  } else {
    printf("%s\n", path);
    status = crn_import_report_print(&report);
  }
  crn_import_report_close(&report);
  return crn_tool_flush(t, crn_tool_result(t, status));
}

const crn_tool_command crn_command_import = {
    .name = "import",
    .synopsis = "SOURCE [options]",
    .summary = "read a model of another format (GGUF) and report what it becomes",
    .description =
        "Imports a model in memory, as cairn generate does before it runs one, and reports what was understood: functions and their "
        "types, tokenizer, chat template, stop tokens. Nothing is written. The exit code is 1 when the model cannot be imported; the "
        "message names the architecture, tensor type or tokenizer that is in the way.\n"
        "\n"
        "  cairn import model.gguf",
    TOOL_OPTIONS(g_options),
    .min_positionals = 1,
    .max_positionals = 1,
    .defaults = &g_defaults,
    .values_bytes = sizeof g_defaults,
    .run = run_import,
};
