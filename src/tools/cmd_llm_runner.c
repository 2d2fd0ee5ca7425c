// llm-runner: cairn generate with the flags and the console output of Apple's program of that name.
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "tools/commands.h"
#include "tools/guide.h"
#include "tools/runner.h"
#include "tools/text_source.h"

#define GROUP_PROMPT "Model and prompt"
#define GROUP_SAMPLING "Sampling"
#define GROUP_ENGINE "Engine"
#define GROUP_LOGITS "Logits"
#define GROUP_VISION "Images and video (vision models)"
#define AT(member) offsetof(crn_runner_options, member)
#define TEXT(n, member, arg, grp, text) \
  { .name = n, .kind = OPTION_TEXT, .offset = AT(member), .argument = arg, .group = grp, .help = text }
#define PATH_OF(n, member, arg, grp, where, text) \
  { .name = n, .kind = OPTION_TEXT, .offset = AT(member), .argument = arg, .group = grp, .place = where, .help = text }
#define CHOICE(n, member, grp, text, list) \
  { .name = n, .kind = OPTION_TEXT, .offset = AT(member), .argument = "S", .group = grp, .help = text, .choices = list }
#define INTEGER(n, member, grp, text) \
  { .name = n, .kind = OPTION_INTEGER, .offset = AT(member), .argument = "N", .group = grp, .help = text }
#define NUMBER(n, member, grp, text) \
  { .name = n, .kind = OPTION_NUMBER, .offset = AT(member), .argument = "F", .group = grp, .help = text }
#define FLAG(n, member, grp, text) \
  { .name = n, .kind = OPTION_FLAG, .offset = AT(member), .group = grp, .help = text }

static const crn_tool_option g_options[] = {
    PATH_OF("model", model, "PATH", GROUP_PROMPT, PLACE_MODEL, "bundle folder, by path or by name in COREAI_MODEL_PATH"),
    TEXT("prompt", prompt, "S", GROUP_PROMPT, "text to answer (default: a greeting)"),
    PATH_OF("prompt-file", prompt_file, "FILE", GROUP_PROMPT, PLACE_INPUT, "text from a file"),
    PATH_OF("raw-tokens", raw_tokens, "FILE", GROUP_PROMPT, PLACE_INPUT,
            "ids from {\"tokens\": [...]}; with a logits flag they are evaluated"),
    {.name = "apply-chat-template",
     .kind = OPTION_SWITCH,
     .offset = AT(apply_chat_template),
     .argument = "B",
     .group = GROUP_PROMPT,
     .help = "true (default) or false"},
    INTEGER("max-tokens", max_tokens, GROUP_PROMPT, "at most N tokens (default 50)"),
    {.name = "stop-tokens",
     .kind = OPTION_LIST,
     .offset = AT(stop_tokens),
     .argument = "S",
     .group = GROUP_PROMPT,
     .help = "text that ends the generation; may be repeated"},
    TEXT("sampling-strategy", sampling_strategy, "S", GROUP_SAMPLING, "temperature (default) or greedy"),
    NUMBER("temperature", temperature, GROUP_SAMPLING, "0 = greedy (default 0.7)"),
    INTEGER("top-k", top_k, GROUP_SAMPLING, "only the N most likely tokens"),
    NUMBER("top-p", top_p, GROUP_SAMPLING, "only the most likely tokens that together reach this probability"),
    NUMBER("min-p", min_p, GROUP_SAMPLING, "only tokens at least this often as likely as the best one"),
    NUMBER("repetition-penalty", penalty, GROUP_SAMPLING, "make repeated tokens less likely"),
    INTEGER("repetition-penalty-window", penalty_window, GROUP_SAMPLING, "only for the last N tokens"),
    FLAG("synchronous-sampling", synchronous_sampling, GROUP_SAMPLING, "accepted; sampling is synchronous here"),
    PATH_OF("json-schema", json_schema, "S", GROUP_SAMPLING, PLACE_INPUT, "constrain the text to a JSON Schema"),
    CHOICE("inference-engine-variant", engine, GROUP_ENGINE, "engine",
           "default|auto|sequential|coreai-sequential|pipelined|coreai-pipelined|static-shape"),
    CHOICE("kv-cache-strategy", kv, GROUP_ENGINE, "storage of the key/value cache", "auto|fixed-size|fixed|fixed_size|growing|chunked"),
    INTEGER("kv-cache-initial-capacity", kv_capacity, GROUP_ENGINE, "rows of the cache at the start"),
    CHOICE("warmup", warmup, GROUP_ENGINE, "dummy run before the first one", "default|off|none|exact"),
    INTEGER("warmup-length", warmup_length, GROUP_ENGINE, "tokens of --warmup exact, which needs it"),
    FLAG("clear-coreai-cache", clear_cache, GROUP_ENGINE, "forget specialized forms of the model first"),
    PATH_OF("save-logits", save_logits, "FILE", GROUP_LOGITS, PLACE_OUTPUT, "JSON file for the logits of every token"),
    TEXT("save-logits-length", save_logits_length, "N|full", GROUP_LOGITS, "best candidates kept, 1 to 20 (default 5), or full rows"),
    FLAG("print-logits", print_logits, GROUP_LOGITS, "print the five best candidates of every token"),
    TEXT("continuation", continuation, "S", GROUP_LOGITS, "evaluate this text after the prompt instead of generating"),
    PATH_OF("image", image, "FILE", GROUP_VISION, PLACE_INPUT, "picture"),
    CHOICE("image-strategy", image_strategy, GROUP_VISION, "how it is fitted", "metadata|stretch|center_crop|center-crop|pad"),
    CHOICE("image-info", image_info, GROUP_VISION, "tell the model its size", "on|off|auto"),
    PATH_OF("video", video, "FILE", GROUP_VISION, PLACE_INPUT, "video"),
    INTEGER("video-frames", video_frames, GROUP_VISION, "frames taken (default 8)"),
    CHOICE("video-sampling", video_sampling, GROUP_VISION, "which frames", "uniform|fps"),
    INTEGER("verbose-level", verbose_level, "General", "as --verbose, with a number"),
    INTEGER("bucket-size", bucket_size, NULL, "accepted for compatibility"),
    INTEGER("chunk-size", chunk_size, NULL, "prompts above this length are run in pieces"),
};

static const crn_runner_options g_defaults = {.prompt = NULL,
                                              .sampling_strategy = "temperature",
                                              .engine = "default",
                                              .kv = "auto",
                                              .save_logits_length = "5",
                                              .warmup = "default",
                                              .apply_chat_template = true,
                                              .max_tokens = {.value = 50},
                                              .temperature = {.value = 0.7},
                                              .video_frames = {.value = 8},
                                              .verbose_level = {.value = 1}};

static const char g_default_prompt[] = "Hello, how are you?";

// --- validation -------------------------------------------------------------------------------------------------------

static bool is_logits_length(const char *text) {
  int64_t n;
  return !strcmp(text, "full") || (crn_tool_parse_integer(text, &n) && n >= 1 && n <= 20);
}

// Wrong combinations: bad usage.
static int check_usage(crn_tool *t, const crn_runner_options *o) {
  bool exact = !strcmp(o->warmup, "exact");
  if (exact && !o->warmup_length.given) return crn_tool_usage_error(t, "--warmup exact requires --warmup-length N");
  if (!exact && o->warmup_length.given) return crn_tool_usage_error(t, "--warmup-length can only be used with --warmup exact");
  if (o->warmup_length.given && o->warmup_length.value < 1) return crn_tool_usage_error(t, "--warmup-length must be > 0");
  if (o->bucket_size.given && o->bucket_size.value < 0) return crn_tool_usage_error(t, "--bucket-size must be >= 0 (0 disables bucketing)");
  if (o->chunk_size.given && o->chunk_size.value <= 0) return crn_tool_usage_error(t, "--chunk-size must be > 0");
  if (o->image && o->video) return crn_tool_usage_error(t, "--image and --video cannot be used together");
  if (o->video_frames.value < 1) return crn_tool_usage_error(t, "--video-frames must be >= 1");
  if (o->penalty.given && o->penalty.value < 1) return crn_tool_usage_error(t, "--repetition-penalty must be >= 1.0");
  if (o->penalty_window.given && !o->penalty.given)
    return crn_tool_usage_error(t, "--repetition-penalty-window requires --repetition-penalty");
  if (o->penalty_window.given && o->penalty_window.value < 1) return crn_tool_usage_error(t, "--repetition-penalty-window must be > 0");
  if (o->penalty.given && o->json_schema) return crn_tool_usage_error(t, "--repetition-penalty cannot be used with --json-schema");
  if (!is_logits_length(o->save_logits_length)) return crn_tool_usage_error(t, "--save-logits-length must be 1 to 20, or full");
  if (o->max_tokens.value < 0) return crn_tool_usage_error(t, "--max-tokens must be >= 0");
  if (o->kv_capacity.given && o->kv_capacity.value < 1) return crn_tool_usage_error(t, "--kv-cache-initial-capacity must be > 0");
  return TOOL_CONTINUE;
}

// Further rules whose violation Apple's program reports as a failure, exit code 1.
static cairn_status check_request(const crn_runner_options *o) {
  if (!o->model) return CRN_FAIL(INVALID_ARGUMENT, "--model is required");
  if ((o->prompt != NULL) + (o->prompt_file != NULL) + (o->raw_tokens != NULL) > 1)
    return CRN_FAIL(INVALID_ARGUMENT, "Only one of --prompt, --prompt-file, or --raw-tokens may be specified");
  bool greedy = !strcmp(o->sampling_strategy, "greedy");
  if (!greedy && strcmp(o->sampling_strategy, "temperature") != 0)
    return CRN_FAIL(INVALID_ARGUMENT, "Unknown sampling strategy '%s'\nValid options: 'temperature', 'greedy'", o->sampling_strategy);
  if (greedy && (o->top_k.given || o->top_p.given || o->min_p.given))
    return CRN_FAIL(INVALID_ARGUMENT,
                    "--top-k, --top-p, and --min-p cannot be used with --sampling-strategy greedy\n"
                    "Leave them out, or use --sampling-strategy temperature");
  if (!o->continuation) return CAIRN_OK;
  if (o->raw_tokens) return CRN_FAIL(INVALID_ARGUMENT, "--continuation requires text prompt (--prompt or --prompt-file), not --raw-tokens");
  if (o->apply_chat_template) return CRN_FAIL(INVALID_ARGUMENT, "--continuation requires --apply-chat-template=false");
  if (!crn_runner_wants_logits(o)) return CRN_FAIL(INVALID_ARGUMENT, "--continuation requires --print-logits or --save-logits");
  if (!o->continuation[0]) return CRN_FAIL(INVALID_ARGUMENT, "Continuation string cannot be empty");
  return CAIRN_OK;
}

static cairn_status check_media(const crn_runner *r, const crn_source *source) {
  const crn_runner_options *o = r->o;
  if (!o->image && !o->video) return CAIRN_OK;
  const char *flag = o->image ? "--image" : "--video";
  bool vision = false;
  if (source->kind == CRN_SOURCE_BUNDLE) {
    cairn_bundle *bundle = NULL;
    CRN_TRY(cairn_bundle_open(r->t->context, source->path, &bundle));
    vision = cairn_bundle_get_kind(bundle) == CAIRN_BUNDLE_VLM;
    cairn_bundle_release(bundle);
  }
  if (!vision) return CRN_FAIL(INVALID_ARGUMENT, "%s requires a vision-language model (engine does not support multimodal)", flag);
  const char *path = o->image ? o->image : o->video;
  if (!crn_file_exists(path)) return CRN_FAIL(NOT_FOUND, "%s not found at %s", o->image ? "image" : "video", path);
  if (o->video) return CRN_FAIL(UNSUPPORTED, "--video: this version does not read videos");
  if (o->image_strategy && strcmp(o->image_strategy, "metadata") != 0)
    return CRN_FAIL(UNSUPPORTED, "--image-strategy %s: this version fits pictures as the metadata says", o->image_strategy);
  if (o->image_info && strcmp(o->image_info, "on") == 0)
    return CRN_FAIL(UNSUPPORTED, "--image-info on: this version tells the model nothing about the size of a picture");
  return CAIRN_OK;
}

// --- preparing --------------------------------------------------------------------------------------------------------

static void say(const crn_runner *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(const crn_runner *r, const char *fmt, ...) {
  if (r->t->quiet) return;
  va_list args;
  va_start(args, fmt);
  vprintf(fmt, args);
  va_end(args);
  fflush(stdout);
}

static cairn_status open_model(crn_runner *r) {
  const crn_runner_options *o = r->o;
  crn_source source;
  CRN_TRY(crn_tool_open_context(r->t));
  cairn_status status = crn_source_locate(r->t, o->model, NULL, &source.path);
  if (status == CAIRN_OK && !crn_file_exists(source.path)) status = CRN_FAIL(NOT_FOUND, "Model '%s' not found", o->model);
  CRN_TRY(status);
  CRN_TRY(crn_source_find(r->t, o->model, NULL, &source));
  if (o->clear_cache) CRN_TRY(crn_tool_clear_cache(r->t, o->model, source.path));
  CRN_TRY(check_media(r, &source));
  if (o->json_schema) {
    const crn_guide_values guide = {.schema = o->json_schema};
    CRN_TRY(crn_guide_read(r->t, &guide, &r->guide));
  }
  if (o->chunk_size.given) {
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)o->chunk_size.value);
    setenv("COREAI_CHUNK_THRESHOLD", text, 1);
  }
  bool fixed = crn_starts_with(o->kv, "fixed");
  cairn_llm_options options = {.engine = o->engine, .kv = fixed ? "fixed" : o->kv, .kv_capacity = o->kv_capacity.value};
  say(r, "⏳ Preparing AI asset from source...");
  crn_tool_hold_log(r->t);
  status = cairn_llm_open(r->t->context, source.path, &options, &r->llm);
  if (status != CAIRN_OK) {
    say(r, "\n");
    crn_tool_release_log(r->t, status);
    return status;
  }
  cairn_llm_info info;
  cairn_llm_describe(r->llm, &info);
  say(r, " done in %.3fs\n", info.load_seconds);
  return crn_generation_check_need(r->t, r->llm, o->raw_tokens ? CRN_NEED_IDS : CRN_NEED_TEXT);
}

static cairn_status warm_up(crn_runner *r) {
  const char *how = r->o->warmup;
  if (!strcmp(how, "off") || !strcmp(how, "none")) return CAIRN_OK;
  double start = crn_tool_now();
  CRN_TRY(cairn_llm_warm_up(r->llm, !strcmp(how, "exact") ? r->o->warmup_length.value : 1));
  r->warmup_seconds = crn_tool_now() - start;
  return CAIRN_OK;
}

// "(N tokens) text…", cut after 100 characters.
static cairn_status preview_tokens(crn_runner *r) {
  enum { SHOWN = 100 };
  char *text = NULL;
  size_t bytes = 0, shown = 0;
  if (!cairn_llm_tokenizer(r->llm)) return CAIRN_OK;
  CRN_TRY(crn_tool_decode(cairn_llm_tokenizer(r->llm), r->prompt, r->n_prompt, false, r->t->arena, &text, &bytes));
  for (int n = 0; n < SHOWN && shown < bytes; n++) {
    uint32_t code;
    bool valid;
    shown += (size_t)crn_utf8_decode(text + shown, text + bytes, &code, &valid);
  }
  say(r, "Prompt: (%zu tokens) %.*s%s\n", r->n_prompt, (int)shown, text, shown < bytes ? "…" : "");
  return CAIRN_OK;
}

static cairn_status read_text(const crn_runner_options *o, crn_str *out) {
  if (!o->prompt_file) return crn_str_puts(out, o->prompt ? o->prompt : g_default_prompt);
  if (!crn_file_exists(o->prompt_file)) return CRN_FAIL(NOT_FOUND, "File not found: %s", o->prompt_file);
  return crn_tool_read_message(o->prompt_file, out);
}

static cairn_status encode_prompt(crn_runner *r, const crn_str *text) {
  const cairn_image image = {.path = r->o->image};
  cairn_generate_options g = {.images = &image,
                              .n_images = r->o->image ? 1 : 0,
                              .text = text->data,
                              .text_bytes = text->size,
                              .form = r->o->apply_chat_template ? CAIRN_PROMPT_AUTO : CAIRN_PROMPT_RAW};
  double start = crn_tool_now();
  CRN_TRY(cairn_llm_encode_prompt(r->llm, &g, NULL, 0, &r->n_prompt));
  CRN_TRY(crn_arena_array(r->t->arena, r->n_prompt, sizeof *r->prompt, &r->prompt));
  CRN_TRY(cairn_llm_encode_prompt(r->llm, &g, r->prompt, r->n_prompt, &r->n_prompt));
  r->tokenize_seconds = crn_tool_now() - start;
  say(r, "Prompt: %s\n", text->data);
  return CAIRN_OK;
}

// --- generating -------------------------------------------------------------------------------------------------------

static cairn_sampling sampling_of(const crn_runner_options *o) {
  crn_generation_values v = {
      .temperature = {.value = strcmp(o->sampling_strategy, "greedy") != 0 ? o->temperature.value : 0, .given = true},
      .top_k = o->top_k,
      .top_p = o->top_p,
      .min_p = o->min_p,
      .repetition_penalty = o->penalty,
      .repetition_window = o->penalty_window};
  return crn_generation_sampling(&v);
}

// Stop texts of one token stop on its id; longer ones on their text.
static cairn_status add_stops(crn_runner *r, cairn_generate_options *g) {
  const crn_option_list *list = &r->o->stop_tokens;
  const char **texts = NULL;
  int32_t *ids = NULL;
  if (!list->n) return CAIRN_OK;
  CRN_TRY(cairn_llm_has_text(r->llm));
  CRN_TRY(crn_arena_array(r->t->arena, (size_t)list->n, sizeof *texts, &texts));
  CRN_TRY(crn_arena_array(r->t->arena, (size_t)list->n, sizeof *ids, &ids));
  for (int i = 0; i < list->n; i++) {
    int32_t *encoded = NULL;
    size_t n = 0;
    CRN_TRY(crn_tool_encode(cairn_llm_tokenizer(r->llm), list->items[i], strlen(list->items[i]), false, r->t->arena, &encoded, &n));
    if (n == 0)
      return CRN_FAIL(INVALID_ARGUMENT, "Stop token '%s' encodes to 0 tokens\nGive a text the tokenizer knows, for example '<|im_end|>'",
                      list->items[i]);
    if (n == 1)
      ids[g->n_stop_ids++] = encoded[0];
    else
      texts[g->n_stop++] = list->items[i];
    if (r->t->verbose) say(r, n == 1 ? "Added stop token '%s'\n" : "Added stop sequence '%s'\n", list->items[i]);
  }
  g->stop = texts;
  g->stop_ids = ids;
  return CAIRN_OK;
}

static cairn_status print_and_save_logits(crn_runner *r) {
  for (size_t i = 0; i < r->tokens.size && r->o->print_logits; i++) {
    const float *row = crn_logits_at(&r->logits, (int64_t)(r->n_prompt + i) - 1);
    if (row) CRN_TRY(crn_runner_print_token(r, (int64_t)i + 1, r->tokens.items[i].id, row));
  }
  return r->o->save_logits ? crn_runner_save_logits(r) : CAIRN_OK;
}

static cairn_status show_generation(crn_runner *r, const cairn_generation *generation) {
  cairn_generation_info info;
  cairn_generation_get(generation, &info);
  if (cairn_llm_tokenizer(r->llm)) {
    printf("%s\n", info.text);
  } else {
    for (size_t i = 0; i < info.n_tokens; i++) printf("%s%d", i ? " " : "", (int)info.tokens[i]);
    putchar('\n');
  }
  if (crn_runner_wants_logits(r->o)) CRN_TRY(print_and_save_logits(r));
  crn_guide_report(r->t, &info);
  if (!r->t->quiet) crn_runner_print_summary(r, &info);
  return CAIRN_OK;
}

static cairn_status generate(crn_runner *r) {
  cairn_generation *generation = NULL;
  const cairn_image image = {.path = r->o->image};
  cairn_generate_options g = {.images = &image,
                              .n_images = r->o->image ? 1 : 0,
                              .tokens = r->prompt,
                              .n_tokens = r->n_prompt,
                              .max_tokens = r->o->max_tokens.value,
                              .sampling = sampling_of(r->o),
                              .guide = r->guide,
                              .on_token = crn_runner_take_token,
                              .should_cancel = crn_token_stream_cancelled,
                              .user = r};
  if (crn_runner_wants_logits(r->o)) {
    g.on_logits = crn_runner_take_logits;
    g.prefill_logits = true;
  }
  CRN_TRY(add_stops(r, &g));
  say(r, "Generating...\n");
  cairn_status status = cairn_llm_generate(r->llm, &g, &generation);
  if (status == CAIRN_OK) status = show_generation(r, generation);
  if (generation) cairn_generation_destroy(generation);
  return status;
}

static cairn_status run_mode(crn_runner *r) {
  crn_str text;
  crn_str_initialize(&text, NULL);
  cairn_status status;
  CRN_TRY_GOTO(warm_up(r));
  crn_interrupt_catch();
  if (r->o->raw_tokens) {
    CRN_TRY_GOTO(preview_tokens(r));
    status = crn_runner_wants_logits(r->o) ? crn_runner_evaluate_tokens(r, r->prompt, r->n_prompt) : generate(r);
    goto done;
  }
  CRN_TRY_GOTO(read_text(r->o, &text));
  if (r->o->continuation) {
    status = crn_runner_evaluate_continuation(r, text.data, text.size);
    goto done;
  }
  CRN_TRY_GOTO(encode_prompt(r, &text));
  status = generate(r);
done:
  crn_str_deinitialize(&text);
  return status;
}

// What can be told without the model is told before it is loaded.
static cairn_status read_small_inputs(crn_runner *r) {
  CRN_TRY(check_request(r->o));
  if (r->o->prompt_file && !crn_file_exists(r->o->prompt_file)) return CRN_FAIL(NOT_FOUND, "File not found: %s", r->o->prompt_file);
  if (!r->o->raw_tokens) return CAIRN_OK;
  if (crn_tool_read_tokens(r->o->raw_tokens, r->t->arena, &r->prompt, &r->n_prompt) == CAIRN_OK) return CAIRN_OK;
  char why[1024];
  snprintf(why, sizeof why, "%s", cairn_last_error()->message);
  return CRN_FAIL(CORRUPT, "cannot read the tokens of '%s': %s\nExpected format: {\"tokens\": [1, 2, 3, ...]}", r->o->raw_tokens, why);
}

static int run_llm_runner(crn_tool *t, const void *values) {
  crn_runner r = {.stream.t = t, .t = t, .o = values};
  int code = check_usage(t, r.o);
  if (code != TOOL_CONTINUE) return code;
  if (r.o->verbose_level.given) t->verbose = r.o->verbose_level.value > 0;
  cairn_status status = read_small_inputs(&r);
  if (status == CAIRN_OK) status = open_model(&r);
  if (status == CAIRN_OK) status = run_mode(&r);
  code = crn_tool_result(t, status);
  crn_logits_release(&r.logits);
  crn_vec_free(crn_default_allocator(), &r.tokens);
  if (r.llm) cairn_llm_close(r.llm);
  return crn_tool_flush(t, code);
}

const crn_tool_command crn_command_llm_runner = {
    .name = "llm-runner",
    .synopsis = "--model PATH [options]",
    .summary = "Apple's flags for cairn generate",
    .description = "Runs a language model with the flags of Apple's llm-runner. 'cairn generate' does the same with streaming and JSON.",
    TOOL_OPTIONS(g_options),
    .defaults = &g_defaults,
    .values_bytes = sizeof g_defaults,
    .run = run_llm_runner,
};
