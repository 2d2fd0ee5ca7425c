// cairn compile: an asset made ready for this machine's processor family, to be loaded without the original.
#include <string.h>

#include "base/file.h"
#include "cairn/specialize.h"
#include "tools/commands.h"
#include "tools/source.h"

typedef struct compile_options {
  const char *output, *component, *precision, *device;
} compile_options;

#define AT(member) offsetof(compile_options, member)

static const crn_tool_option g_options[] = {
    {.name = "output",
     .letter = 'o',
     .kind = OPTION_TEXT,
     .offset = AT(output),
     .argument = "DIR",
     .place = PLACE_ASSET,
     .group = "Output",
     .help = "the .aimodelc folder to write (required)"},
    {.name = "precision",
     .kind = OPTION_TEXT,
     .offset = AT(precision),
     .argument = "P",
     .group = "Output",
     .help = "arithmetic it is compiled for (default auto)",
     .choices = "auto|exact|bf16|int8"},
    {.name = "device",
     .kind = OPTION_TEXT,
     .offset = AT(device),
     .argument = "D",
     .group = "Output",
     .help = CRN_DEVICE_HELP,
     .choices = CRN_DEVICE_CHOICES},
    {.name = "component",
     .kind = OPTION_TEXT,
     .offset = AT(component),
     .argument = "ROLE",
     .group = "Output",
     .help = "of a bundle: this asset (default main)"},
};
static const compile_options g_defaults = {.precision = "auto"};

static int run_compile(crn_tool *t, const void *values) {
  const compile_options *o = values;
  if (!o->output) return crn_tool_usage_error(t, "-o DIR says where the compiled asset goes");
  size_t n = strlen(o->output);
  while (n > 1 && o->output[n - 1] == '/') n--;
  if (n < 10 || strncmp(o->output + n - 9, ".aimodelc", 9))
    return crn_tool_usage_error(t, "-o: the name of a compiled asset ends in .aimodelc");
  crn_source source;
  cairn_model *model = NULL;
  cairn_model_options options = {.precision = crn_precision_of(o->precision),
                                 .device = crn_device_of(o->device),
                                 .progress = crn_tool_progress_callback,
                                 .progress_user = t,
                                 .no_cache = true};
  cairn_status status = crn_source_find(t, t->positionals[0], NULL, &source);
  if (status == CAIRN_OK) status = crn_tool_open_context(t);
  if (status == CAIRN_OK) status = crn_source_load(t, &source, o->component, &options, &model);
  if (status == CAIRN_OK) status = cairn_model_compile(model, o->output);
  if (status == CAIRN_OK && !t->quiet) printf("Wrote %s\n", o->output);
  cairn_model_release(model);
  return crn_tool_flush(t, crn_tool_result(t, status));
}

const crn_tool_command crn_command_compile = {
    .name = "compile",
    .synopsis = "MODEL -o NAME.aimodelc [--precision P]",
    .summary = "make an asset ready for this machine ahead of time",
    .description =
        "Packs the weights of an .aimodel (or of a bundle's asset) for this machine's processor family. The result loads without the "
        "original and "
        "without packing; another family, another layout of packed weights or another precision is refused by name.\n"
        "\n"
        "  cairn compile model.aimodel -o model.x86_64.aimodelc",
    TOOL_OPTIONS(g_options),
    .min_positionals = 1,
    .max_positionals = 1,
    .reads_model = true,
    .defaults = &g_defaults,
    .values_bytes = sizeof g_defaults,
    .run = run_compile,
};
