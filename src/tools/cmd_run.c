// cairn run: one function of a model on arrays from a file. A good first file to read: it is the whole life of a model.
#include <string.h>

#include "tools/commands.h"
#include "tools/run.h"
#include "tools/source.h"

#define GROUP_DATA "Data"
#define GROUP_HOW "How to run"
#define GROUP_WATCH "Looking inside"
#define AT(member) offsetof(crn_run_options, member)

static const crn_tool_option g_options[] = {
    {.name = "io",
     .kind = OPTION_TEXT,
     .offset = AT(io),
     .argument = "FILE",
     .place = PLACE_INPUT,
     .group = GROUP_DATA,
     .help = "safetensors file with every input under its name and initial states as state.NAME (absent = zeros)"},
    {.name = "out",
     .kind = OPTION_TEXT,
     .offset = AT(out),
     .argument = "FILE",
     .place = PLACE_OUTPUT,
     .group = GROUP_DATA,
     .help = "safetensors file for the outputs and the final states; without it a summary is printed"},
    {.name = "npy-dir",
     .kind = OPTION_TEXT,
     .offset = AT(npy_dir),
     .argument = "DIR",
     .place = PLACE_FOLDER,
     .group = GROUP_DATA,
     .help = "write each result as NAME.npy too (types numpy lacks as float32)"},
    {.name = "json",
     .kind = OPTION_FLAG,
     .offset = AT(json),
     .group = GROUP_DATA,
     .help = "print types, timing and counters as one JSON document"},
    {.name = "function",
     .kind = OPTION_TEXT,
     .offset = AT(function),
     .argument = "NAME",
     .group = GROUP_HOW,
     .help = "function to run (default: main, or the only one)"},
    {.name = "component",
     .kind = OPTION_TEXT,
     .offset = AT(component),
     .argument = "ROLE",
     .group = GROUP_HOW,
     .help = "asset of a bundle (default: main)"},
    {.name = "steps",
     .kind = OPTION_INTEGER,
     .offset = AT(steps),
     .argument = "N",
     .group = GROUP_HOW,
     .help = "run N times, states carried over; step K (from 0) takes input NAME.K when there is one, else NAME, and gives output NAME.K",
     .minimum = 1,
     .maximum = 1e9},
    {.name = "state-shape",
     .kind = OPTION_LIST,
     .offset = AT(state_shapes),
     .argument = "NAME=DIMS",
     .group = GROUP_HOW,
     .help = "shape of a state with dynamic dims that --io does not hold, e.g. keyCache=2,1,2,64,32; may be repeated"},
    {.name = "device",
     .kind = OPTION_TEXT,
     .offset = AT(device),
     .argument = "D",
     .group = GROUP_HOW,
     .help = CRN_DEVICE_HELP,
     .choices = CRN_DEVICE_CHOICES},
    {.name = "expect-frequent-reshapes",
     .kind = OPTION_FLAG,
     .offset = AT(frequent_reshapes),
     .group = GROUP_HOW,
     .help = CRN_RESHAPES_HELP},
    {.name = "precision",
     .kind = OPTION_TEXT,
     .offset = AT(precision),
     .argument = "P",
     .group = GROUP_HOW,
     .help = "arithmetic of products with constant matrices (default: exact, or what a compiled asset was made for)",
     .choices = "auto|exact|bf16|int8"},
    {.name = "composites",
     .kind = OPTION_TEXT,
     .offset = AT(composites),
     .argument = "HOW",
     .group = GROUP_HOW,
     .help = "composite operations by a direct kernel or by the body stored in the asset (default: CAIRN_COMPOSITES, else fast)",
     .choices = "fast|body"},
    {.name = "strict-hash",
     .kind = OPTION_FLAG,
     .offset = AT(strict_hash),
     .group = GROUP_HOW,
     .help = "refuse an asset whose main.hash does not match"},
    {.name = "trace-ops",
     .kind = OPTION_FLAG,
     .offset = AT(trace_ops),
     .group = GROUP_WATCH,
     .help = "a line per executed operation: number, name, time, result types; on stdout, with --json on stderr"},
    {.name = "dump-intermediates",
     .kind = OPTION_TEXT,
     .offset = AT(dump),
     .argument = "DIR",
     .place = PLACE_FOLDER,
     .group = GROUP_WATCH,
     .help = "write the results of every executed operation as DIR/NNNN_OP_K.npy (with --steps DIR/STEP/...)"},
};

static const crn_run_options g_defaults = {.device = "cpu"};

typedef struct run_job {
  crn_tool *t;
  const crn_run_options *o;
  cairn_model *model;
  cairn_function *function;
  crn_run_io io;
  crn_run_arrays inputs, states;
  crn_run_results results;
  crn_run_watch watch;
  crn_run_timing timing;
} run_job;

static int check_shapes(crn_tool *t, const crn_run_options *o) {
  int64_t shape[CAIRN_MAX_RANK];
  int rank;
  for (int i = 0; i < o->state_shapes.n; i++) {
    const char *text = o->state_shapes.items[i];
    const char *problem = strchr(text, '=') ? "" : " =DIMS is missing;";
    if (!crn_run_parse_shape(text, shape, &rank))
      return crn_tool_usage_error(t, "--state-shape %s:%s a shape is written NAME=2,1,8,64 with up to %d dims", text, problem,
                                  CAIRN_MAX_RANK);
  }
  return TOOL_CONTINUE;
}

static cairn_status open_model(run_job *job) {
  crn_source source;
  cairn_model_options options = {.strict_hash = job->o->strict_hash,
                                 .precision = crn_precision_of(job->o->precision),
                                 .device = crn_device_of(job->o->device),
                                 .expect_frequent_reshapes = job->o->frequent_reshapes,
                                 .progress = crn_tool_progress_callback,
                                 .progress_user = job->t};
  if (job->o->composites) options.composites = strcmp(job->o->composites, "body") != 0 ? CAIRN_COMPOSITES_FAST : CAIRN_COMPOSITES_BODY;
  if (job->watch.print || job->watch.dump) {
    options.trace = crn_run_watch_op;
    options.trace_user = &job->watch;
  }
  CRN_TRY(crn_source_find(job->t, job->t->positionals[0], NULL, &source));
  double start = crn_tool_now();
  CRN_TRY(crn_source_load(job->t, &source, job->o->component, &options, &job->model));
  job->timing.load_s = crn_tool_now() - start;
  return CAIRN_OK;
}

// The function asked for; without a name main, and the only one where nothing is called main.
static const char *function_name(const run_job *job) {
  if (job->o->function) return job->o->function;
  int n = cairn_model_function_count(job->model);
  if (n == 1) return cairn_model_function_info(job->model, 0)->name;
  return "main";
}

static cairn_status prepare(run_job *job) {
  double start = crn_tool_now();
  CRN_TRY(cairn_model_function(job->model, function_name(job), &job->function));
  crn_tool_progress_clear(job->t);
  job->timing.prepare_s = crn_tool_now() - start;
  job->io = (crn_run_io){.t = job->t, .info = cairn_function_describe(job->function), .options = job->o};
  if (job->o->io) CRN_TRY(crn_safetensors_open(NULL, job->o->io, &job->io.file));
  CRN_TRY(crn_run_check_names(&job->io));
  const cairn_function_info *info = job->io.info;
  CRN_TRY(crn_run_arrays_create(job->t, info->inputs, info->n_inputs, &job->inputs));
  CRN_TRY(crn_run_arrays_create(job->t, info->states, info->n_states, &job->states));
  return crn_run_read_states(&job->io, &job->states);
}

static cairn_status collect(run_job *job, cairn_outputs *outputs, int64_t step) {
  const cairn_function_info *info = job->io.info;
  for (int i = 0; i < info->n_outputs; i++) {
    cairn_ndarray *array = NULL;
    CRN_TRY(cairn_outputs_take(outputs, info->outputs[i].name, &array));
    cairn_status status = crn_run_add_result(&job->results, "", info->outputs[i].name, step, array);
    cairn_ndarray_release(array);
    CRN_TRY(status);
  }
  return CAIRN_OK;
}

static cairn_status run_step(run_job *job, int64_t step) {
  CRN_TRY(crn_run_read_inputs(&job->io, step, &job->inputs));
  CRN_TRY(crn_run_watch_step(&job->watch, step));
  cairn_run_args args = {.inputs = job->inputs.items, .n_inputs = job->inputs.n, .states = job->states.items, .n_states = job->states.n};
  cairn_outputs *outputs = NULL;
  double start = crn_tool_now();
  CRN_TRY(cairn_function_run(job->function, &args, &outputs));
  job->timing.run_s += crn_tool_now() - start;
  cairn_status status = crn_run_watch_status(&job->watch);
  if (status == CAIRN_OK) status = collect(job, outputs, job->o->steps.given ? step : -1);
  cairn_outputs_destroy(outputs);
  return status;
}

static cairn_status run_steps(run_job *job) {
  int64_t n = job->o->steps.given ? job->o->steps.value : 1;
  for (int64_t step = 0; step < n; step++) {
    if (n > 1) crn_tool_progress(job->t, "running", step, n);
    cairn_status status = run_step(job, step);
    if (status != CAIRN_OK) return n > 1 ? crn_note(status, "step %lld", (long long)step) : status;
  }
  crn_tool_progress_clear(job->t);
  for (int i = 0; i < job->states.n; i++)
    CRN_TRY(crn_run_add_result(&job->results, "state.", job->states.items[i].name, -1, job->states.items[i].array));
  return CAIRN_OK;
}

static cairn_status report(run_job *job) {
  if (job->o->out) CRN_TRY(crn_run_write_file(&job->results, job->o->out));
  if (job->o->npy_dir) CRN_TRY(crn_run_write_npy(&job->results, job->o->npy_dir));
  if (job->o->json) return crn_run_print_json(&job->results, job->function, job->o->steps.given ? job->o->steps.value : 1, job->timing);
  if (!job->o->out && !job->o->npy_dir) return crn_run_print_text(&job->results);
  return CAIRN_OK;
}

static void release(run_job *job) {
  crn_run_results_release(&job->results);
  crn_run_arrays_release(&job->inputs);
  crn_run_arrays_release(&job->states);
  crn_safetensors_close(job->io.file);
  cairn_function_release(job->function);
  cairn_model_release(job->model);
}

static int run_run(crn_tool *t, const void *values) {
  const crn_run_options *o = values;
  int code = check_shapes(t, o);
  if (code != TOOL_CONTINUE) return code;
  run_job job = {.t = t,
                 .o = o,
                 .results.t = t,
                 .watch = {.print = o->trace_ops ? o->json ? stderr : stdout : NULL, .dump = o->dump, .many_steps = o->steps.given}};
  cairn_status status = crn_tool_open_context(t);
  if (status == CAIRN_OK) status = open_model(&job);
  if (status == CAIRN_OK) status = prepare(&job);
  if (status == CAIRN_OK) status = run_steps(&job);
  if (status == CAIRN_OK) status = report(&job);
  code = crn_tool_result(t, status);
  release(&job);
  return crn_tool_flush(t, code);
}

const crn_tool_command crn_command_run = {
    .name = "run",
    .synopsis = "MODEL [--io FILE] [--out FILE] [options]",
    .summary = "run one function of a model on arrays from a safetensors file",
    .description =
        "Runs a function of an .aimodel (or of a bundle's asset, or of an imported GGUF file). Arrays are in logical order whatever "
        "layout the model wants; complex numbers are float32 with a last dim of 2; integers of less than 8 bits take one int8 or "
        "uint8 each; a scalar may come as [1].\n"
        "\n"
        "  cairn run model.aimodel --io in.safetensors --out out.safetensors\n"
        "  cairn run lm.aimodel --io prompt.safetensors --steps 4 --state-shape keyCache=2,1,2,64,32 \\\n"
        "            --state-shape valueCache=2,1,2,64,32 --out out.safetensors",
    TOOL_OPTIONS(g_options),
    .min_positionals = 1,
    .max_positionals = 1,
    .reads_model = true,
    .can_trace = true,
    .defaults = &g_defaults,
    .values_bytes = sizeof g_defaults,
    .run = run_run,
};
