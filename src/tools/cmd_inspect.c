// cairn inspect: what a model takes, gives and keeps, and what it is made of.
#include <string.h>

#include "tools/commands.h"
#include "tools/facts.h"
#include "tools/inspect.h"
#include "tools/source.h"

#define GROUP_WHAT "What to show"
#define GROUP_CONTRACT "Contract"
#define AT(member) offsetof(crn_inspect_options, member)

static const crn_tool_option g_options[] = {
    {.name = "json", .kind = OPTION_FLAG, .offset = AT(json), .group = GROUP_WHAT, .help = "one JSON document"},
    {.name = "ops", .kind = OPTION_FLAG, .offset = AT(ops), .group = GROUP_WHAT, .help = "every kind of operation and how often it occurs"},
    {.name = "weights",
     .kind = OPTION_FLAG,
     .offset = AT(weights),
     .group = GROUP_WHAT,
     .help = "every stored array with its type, shape and size"},
    {.name = "ir", .kind = OPTION_FLAG, .offset = AT(ir), .group = GROUP_WHAT, .help = "the stored program in generic MLIR form"},
    {.name = "bodies",
     .kind = OPTION_FLAG,
     .offset = AT(bodies),
     .group = GROUP_WHAT,
     .help = "with --ir: the bodies of composite operations too"},
    {.name = "locations", .kind = OPTION_FLAG, .offset = AT(locations), .group = GROUP_WHAT, .help = "with --ir: source locations"},
    {.name = "large-data", .kind = OPTION_FLAG, .offset = AT(large_data), .group = GROUP_WHAT, .help = "with --ir: constants in full"},
    {.name = "plan",
     .kind = OPTION_FLAG,
     .offset = AT(plan),
     .group = GROUP_WHAT,
     .help = "the steps every function became: kernels, precision, bytes, states updated in place"},
    {.name = "precision",
     .kind = OPTION_TEXT,
     .offset = AT(precision),
     .argument = "P",
     .group = GROUP_WHAT,
     .help = "with --plan: the precision asked for (default auto)",
     .choices = "auto|exact|bf16|int8"},
    {.name = "component",
     .kind = OPTION_TEXT,
     .offset = AT(component),
     .argument = "ROLE",
     .group = GROUP_WHAT,
     .help = "of a bundle: only this asset (main, vision, ...)"},
    {.name = "save-contract",
     .kind = OPTION_TEXT,
     .offset = AT(save_contract),
     .argument = "FILE",
     .place = PLACE_OUTPUT,
     .group = GROUP_CONTRACT,
     .help = "write the exact names, order, types and dims of all functions to FILE"},
    {.name = "expect",
     .kind = OPTION_TEXT,
     .offset = AT(expect),
     .argument = "FILE",
     .place = PLACE_INPUT,
     .group = GROUP_CONTRACT,
     .help = "compare with a saved contract; each difference is a line on stdout and the exit code is 1"},
};

static const crn_inspect_options g_defaults;

static int check_options(crn_tool *t, const crn_inspect_options *o) {
  if ((o->bodies || o->locations || o->large_data) && !o->ir)
    return crn_tool_usage_error(t, "--bodies, --locations and --large-data belong to --ir");
  if (o->ir && o->json) return crn_tool_usage_error(t, "--ir prints text; it cannot be combined with --json");
  if (o->plan && (o->ir || o->ops || o->weights || o->save_contract || o->expect))
    return crn_tool_usage_error(t, "--plan stands alone (with --json, --component and --precision)");
  if (o->precision && !o->plan) return crn_tool_usage_error(t, "--precision belongs to --plan");
  if ((o->save_contract || o->expect) && (o->ir || o->component))
    return crn_tool_usage_error(t, "contracts cover a whole model; leave --ir and --component out");
  return TOOL_CONTINUE;
}

static int run_inspect(crn_tool *t, const void *values) {
  const crn_inspect_options *o = values;
  int code = check_options(t, o);
  if (code != TOOL_CONTINUE) return code;
  crn_source source;
  cairn_status status = crn_source_find(t, t->positionals[0], NULL, &source);
  if (status == CAIRN_OK) {
    // An asset keeps its warnings, and they are part of what is shown.
    t->mute_log = source.kind != CRN_SOURCE_FILE && !o->save_contract && !o->expect;
    status = crn_tool_open_context(t);
  }
  if (status != CAIRN_OK) return crn_tool_fail(t);
  if (o->plan)
    code = crn_inspect_plan(t, &source, o);
  else if (source.kind == CRN_SOURCE_FILE)
    code = crn_inspect_import(t, &source, o);
  else
    code = crn_inspect_assets(t, &source, o);
  return crn_tool_flush(t, code);
}

const crn_tool_command crn_command_inspect = {
    .name = "inspect",
    .synopsis = "PATH [options]",
    .summary = "what a model takes, gives and is made of",
    .description =
        "Describes an .aimodel, a bundle folder or a GGUF file without running it: functions with their inputs, outputs and states "
        "(a dynamic dim is shown as ?), operations, weights, and what is wrong with it.\n"
        "\n"
        "  cairn inspect model.aimodel\n"
        "  cairn inspect bundle --json | jq '.functions[].name'\n"
        "  cairn inspect bundle --save-contract bundle.contract.json\n"
        "  cairn inspect bundle --expect bundle.contract.json",
    TOOL_OPTIONS(g_options),
    .min_positionals = 1,
    .max_positionals = 1,
    .reads_model = true,
    .defaults = &g_defaults,
    .values_bytes = sizeof g_defaults,
    .run = run_inspect,
};
