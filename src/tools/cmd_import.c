// cairn import: reads a model of another format and reports what was understood.
#include "base/context.h"
#include "base/file.h"
#include "import/synthetic/synthetic.h"
#include "tools/commands.h"
#include "tools/import_report.h"
#include "tools/source.h"

typedef struct import_options {
  bool check, json;
  const char *output, *synthetic;
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
     .argument = "FILE",
     .place = PLACE_OUTPUT,
     .group = "Import",
     .help = "with --synthetic: the .gguf file to write; bundles are not written in this version"},
    {.name = "synthetic",
     .kind = OPTION_TEXT,
     .offset = AT(synthetic),
     .argument = "SHAPE[:TYPE]",
     .group = "Import",
     .help = "instead of SOURCE: a known shape with random weights, the model named synthetic:SHAPE:TYPE everywhere else. "
             "Shapes: " CRN_SYNTHETIC_SHAPES "; types: " CRN_SYNTHETIC_TYPES " (default q4)"},
    {.name = "json", .kind = OPTION_FLAG, .offset = AT(json), .group = "Output", .help = "the report as one JSON document"},
};

static const import_options g_defaults;

static cairn_status print_json(const crn_import_report *report, const char *output) {
  crn_json_writer w;
  crn_jw_initialize(&w, true);
  crn_jw_open_object(&w);
  crn_jw_put_text(&w, "source", report->path);
  if (output) crn_jw_put_text(&w, "output", output);
  crn_import_report_write(&w, report);
  crn_jw_close_object(&w);
  cairn_status status = crn_jw_print(&w, stdout);
  crn_jw_deinitialize(&w);
  return status;
}

// The same model for other programs.
static cairn_status write_synthetic(crn_tool *t, const char *name, const char *output) {
  crn_memory_region region = {0};
  const void *data = NULL;
  size_t bytes = 0;
  cairn_status status = crn_synthetic_make(&t->context->allocator, t->context->pool, name, &region, &data, &bytes);
  if (status == CAIRN_OK) status = crn_file_replace(output, data, bytes);
  crn_memory_region_release(&region);
  return status;
}

// The path of the model; the name of a synthetic one.
static cairn_status find_source(crn_tool *t, const import_options *o, const char **out_path) {
  crn_str name;
  if (!o->synthetic) return crn_source_locate(t, t->positionals[0], NULL, out_path);
  crn_str_initialize(&name, NULL);
  cairn_status status = crn_str_printf(&name, CRN_SYNTHETIC_PREFIX "%s", o->synthetic);
  if (status == CAIRN_OK) status = crn_arena_strndup(t->arena, name.data, name.size, out_path);
  crn_str_deinitialize(&name);
  return status;
}

static bool names_asset(const char *path) {
  return crn_ends_with(path, ".aimodel") || crn_ends_with(path, ".aimodel/") || crn_ends_with(path, ".aimodelc");
}

static int check_options(crn_tool *t, const import_options *o) {
  if (!o->synthetic == !t->n_positionals) return crn_tool_usage_error(t, "one model is needed: SOURCE, or --synthetic SHAPE[:TYPE]");
  if (o->check && o->output) return crn_tool_usage_error(t, "--check writes nothing; leave -o out");
  if (!o->output || (o->synthetic && crn_ends_with(o->output, ".gguf"))) return TOOL_CONTINUE;
  if (o->synthetic && !names_asset(o->output))
    return crn_tool_usage_error(t, "-o %s: the name of the file ends in .gguf, the one format that is written", o->output);
  (void)CRN_FAIL(UNSUPPORTED,
                 "-o: this version cannot write .aimodel files yet. Imported models run directly: give the file itself to cairn generate, "
                 "chat, run or inspect");
  return crn_tool_fail(t);
}

static int run_import(crn_tool *t, const void *values) {
  const import_options *o = values;
  const char *path = NULL;
  crn_import_report report;
  int code = check_options(t, o);
  if (code != TOOL_CONTINUE) return code;
  if (crn_tool_open_context(t) != CAIRN_OK || find_source(t, o, &path) != CAIRN_OK) return crn_tool_fail(t);
  if (o->output) {
    code = crn_tool_result(t, write_synthetic(t, path, o->output));
    if (code != TOOL_OK || !o->json) return crn_tool_flush(t, code);
  }
  crn_tool_progress(t, "importing", 0, 0);
  cairn_status status = crn_import_report_open(t, path, NULL, &report);
  crn_tool_progress_clear(t);
  if (status != CAIRN_OK) return crn_tool_fail(t);
  if (o->json) {
    status = print_json(&report, o->output);
  } else {
    printf("%s\n", path);
    status = crn_import_report_print(&report);
  }
  crn_import_report_close(&report);
  return crn_tool_flush(t, crn_tool_result(t, status));
}

const crn_tool_command crn_command_import = {
    .name = "import",
    .synopsis = "SOURCE|--synthetic SHAPE[:TYPE] [options]",
    .summary = "read a model of another format (GGUF) and report what it becomes",
    .description =
        "Imports a model in memory, as cairn generate does before it runs one, and reports what was understood: functions and their "
        "types, tokenizer, chat template, stop tokens. Nothing is written, but for -o. The exit code is 1 when the model cannot be "
        "imported; the "
        "message names the architecture, tensor type or tokenizer that is in the way.\n"
        "\n"
        "  cairn import model.gguf\n"
        "  cairn import --synthetic qwen3-0.6b:q4 -o random.gguf",
    TOOL_OPTIONS(g_options),
    .min_positionals = 0,
    .max_positionals = 1,
    .defaults = &g_defaults,
    .values_bytes = sizeof g_defaults,
    .run = run_import,
};
