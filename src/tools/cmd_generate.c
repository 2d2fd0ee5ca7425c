// cairn generate: text from a language model, streamed as it comes.
#include <stdlib.h>
#include <string.h>

#include "tools/chat_history.h"
#include "tools/commands.h"
#include "tools/generation.h"
#include "tools/guide.h"
#include "tools/images.h"
#include "tools/logits.h"
#include "tools/session.h"
#include "tools/speculation.h"
#include "tools/text_source.h"

typedef struct generate_options {
  const char *prompt, *prompt_file, *raw_tokens, *force, *logits, *session;
  bool json, no_template;
  crn_option_list images;
  crn_dialogue_values dialogue;
  crn_guide_values guide;
  crn_generation_values generation;
  crn_speculation_values speculation;
} generate_options;

#define GROUP_PROMPT "Prompt (one of the first three)"
#define GROUP_OUTPUT "Output"
#define AT(member) offsetof(generate_options, member)

static const crn_tool_option g_options[] = {
    {.name = "prompt",
     .letter = 'p',
     .kind = OPTION_TEXT,
     .offset = AT(prompt),
     .argument = "TEXT",
     .group = GROUP_PROMPT,
     .help = "the text to answer or go on from"},
    {.name = "prompt-file",
     .kind = OPTION_TEXT,
     .offset = AT(prompt_file),
     .argument = "FILE",
     .place = PLACE_INPUT,
     .group = GROUP_PROMPT,
     .help = "text from a file; - = stdin"},
    {.name = "raw-tokens",
     .kind = OPTION_TEXT,
     .offset = AT(raw_tokens),
     .argument = "FILE",
     .place = PLACE_INPUT,
     .group = GROUP_PROMPT,
     .help = "token ids from a JSON file: {\"tokens\":[1,2,3]}"},
    {.name = "no-template",
     .kind = OPTION_FLAG,
     .offset = AT(no_template),
     .group = GROUP_PROMPT,
     .help = "the text itself, instead of as a user's message in the model's chat template"},
    {.name = "image",
     .kind = OPTION_LIST,
     .offset = AT(images),
     .argument = "FILE",
     .place = PLACE_INPUT,
     .group = GROUP_PROMPT,
     .help = "picture before the text (or at its place among the tokens), for vision models; may be repeated. PNG, JPEG, PPM, or pixel "
             "values as .npy or .safetensors"},
    {.name = "max-tokens",
     .letter = 'n',
     .kind = OPTION_INTEGER,
     .offset = CRN_GENERATION_AT(generate_options, max_tokens),
     .argument = "N",
     .group = GROUP_OUTPUT,
     .help = "at most N tokens (default 256)",
     .minimum = 0,
     .maximum = 1e12},
    {.name = "json",
     .kind = OPTION_FLAG,
     .offset = AT(json),
     .group = GROUP_OUTPUT,
     .help = "one JSON document with tokens, text, timing and decisions"},
    {.name = "logits",
     .kind = OPTION_TEXT,
     .offset = AT(logits),
     .argument = "FILE",
     .place = PLACE_OUTPUT,
     .group = GROUP_OUTPUT,
     .help = "write all logits: prefill [S,V] and decode [M,V], f32 safetensors"},
    {.name = "force",
     .kind = OPTION_TEXT,
     .offset = AT(force),
     .argument = "FILE",
     .place = PLACE_INPUT,
     .group = GROUP_OUTPUT,
     .help = "feed the ids of {\"tokens\":[...]} instead of sampled ones"},
    CRN_SESSION_OPTION(generate_options, GROUP_OUTPUT),
    CRN_DIALOGUE_OPTIONS(generate_options, "show: as the model writes it"),
    CRN_STOP_OPTIONS(generate_options, GROUP_OUTPUT),
    CRN_GUIDE_OPTIONS(generate_options),
    CRN_SAMPLING_OPTIONS(generate_options),
    CRN_SPECULATION_OPTIONS(generate_options),
    CRN_ENGINE_OPTIONS(generate_options),
    CRN_OVERFLOW_OPTION(generate_options),
};

static const generate_options g_defaults = {.generation = {.max_tokens = {.value = 256}}};

typedef struct generate_job {
  crn_token_stream stream;  // first: the callbacks of both get the job
  crn_logits logits;
  cairn_llm *llm, *draft;
  cairn_generate_options options;
  crn_reply reply;
  json_t *tools;
  crn_images images;
  crn_str text, conversation;
  crn_session session;
  crn_chat_history history;  ///< of a session that is a conversation
  char *history_text;
} generate_job;

static cairn_status take_logits(void *user, int64_t position, const float *row, int64_t vocab_size) {
  generate_job *job = user;
  return crn_logits_take(&job->logits, position, row, vocab_size);
}

static int check_options(crn_tool *t, const generate_options *o) {
  int n = (o->prompt != NULL) + (o->prompt_file != NULL) + (o->raw_tokens != NULL);
  if (n == 0) return crn_tool_usage_error(t, "give a prompt: --prompt TEXT, --prompt-file FILE or --raw-tokens FILE");
  if (n > 1) return crn_tool_usage_error(t, "only one of --prompt, --prompt-file and --raw-tokens can be given");
  if (o->no_template && o->raw_tokens)
    return crn_tool_usage_error(t, "--no-template is about text; --raw-tokens never goes through a template");
  if ((o->dialogue.tools || o->dialogue.template_name) && (o->no_template || o->raw_tokens))
    return crn_tool_usage_error(t, "--tools and --template are for the chat template; --raw-tokens and --no-template do not use it");
  if (o->session && o->images.n && (o->no_template || o->raw_tokens))
    return crn_tool_usage_error(t, "--image with --session is part of a conversation; leave --no-template and --raw-tokens out");
  int code = crn_session_check(t, o->session, &o->generation);
  if (code == TOOL_CONTINUE) code = crn_guide_check(t, &o->guide, o->dialogue.tool_choice, o->force);
  if (code == TOOL_CONTINUE && o->force) code = crn_generation_check_forced(t, &o->generation);
  if (code == TOOL_CONTINUE) code = crn_dialogue_check(t, &o->dialogue);
  if (code == TOOL_CONTINUE) code = crn_generation_check(t, &o->generation);
  return code != TOOL_CONTINUE ? code : crn_speculation_check(t, &o->speculation);
}

// With tools or a named template the prompt is a whole conversation.
static cairn_status make_conversation(const generate_options *o, generate_job *job) {
  crn_str *c = &job->conversation;
  CRN_TRY(crn_str_puts(c, "{\"messages\":[{\"role\":\"user\",\"content\":"));
  if (o->images.n) CRN_TRY(crn_str_putc(c, '['));
  for (int i = 0; i < o->images.n; i++) CRN_TRY(crn_str_puts(c, "{\"type\":\"image\"},"));
  if (o->images.n) CRN_TRY(crn_str_puts(c, "{\"type\":\"text\",\"text\":"));
  CRN_TRY(crn_str_json(c, job->text.data, job->text.size));
  CRN_TRY(crn_str_puts(c, o->images.n ? "}]}]" : "}]"));
  if (job->tools) {
    char *tools = json_dumps(job->tools, JSON_COMPACT);
    cairn_status status = tools ? crn_str_printf(c, ",\"tools\":%s", tools) : CRN_FAIL(OUT_OF_MEMORY, "no memory for the tools");
    free(tools);
    CRN_TRY(status);
  }
  if (o->dialogue.template_name) {
    CRN_TRY(crn_str_puts(c, ",\"chat_template\":"));
    CRN_TRY(crn_str_json(c, o->dialogue.template_name, strlen(o->dialogue.template_name)));
  }
  return crn_str_putc(c, '}');
}

// Small inputs are read before the model, so that a wrong path is told at once.
static cairn_status read_prompt(crn_tool *t, const generate_options *o, generate_job *job) {
  cairn_generate_options *g = &job->options;
  int32_t *ids = NULL;
  if (o->raw_tokens) {
    CRN_TRY(crn_tool_read_tokens(o->raw_tokens, t->arena, &ids, &g->n_tokens));
    g->tokens = ids;
    if (g->n_tokens == 0) return CRN_FAIL(INVALID_ARGUMENT, "%s: the list of tokens is empty", o->raw_tokens);
  } else if (o->prompt_file) {
    CRN_TRY(crn_tool_read_message(o->prompt_file, &job->text));
  } else {
    CRN_TRY(crn_str_puts(&job->text, o->prompt));
  }
  CRN_TRY(crn_guide_read(t, &o->guide, &g->guide));
  for (int i = 0; i < o->images.n; i++) CRN_TRY(crn_images_add(t, &job->images, o->images.items[i]));
  g->images = job->images.list.items;
  g->n_images = (int)job->images.list.size;
  CRN_TRY(crn_dialogue_read_tools(&o->dialogue, &job->tools));
  if (job->tools || o->dialogue.template_name) {
    CRN_TRY(make_conversation(o, job));
    g->conversation = job->conversation.data;
    g->conversation_bytes = job->conversation.size;
  } else if (!o->raw_tokens) {
    g->text = job->text.data;
    g->text_bytes = job->text.size;
    g->form = o->no_template ? CAIRN_PROMPT_RAW : CAIRN_PROMPT_AUTO;
  }
  if (o->force) {
    ids = NULL;
    CRN_TRY(crn_tool_read_tokens(o->force, t->arena, &ids, &g->n_forced));
    g->forced = ids;
    g->use_forced = true;
  }
  return CAIRN_OK;
}

// --- sessions -----------------------------------------------------------------------------------------------------------

// The message becomes the next one of the conversation.
static cairn_status continue_conversation(crn_tool *t, const generate_options *o, generate_job *job) {
  cairn_generate_options *g = &job->options;
  crn_session *s = &job->session;
  crn_chat_history *h = &job->history;
  CRN_TRY(crn_chat_history_initialize(h, o->dialogue.template_name));
  h->tools = json_incref(job->tools);
  if (crn_session_is_text(s))
    return CRN_FAIL(FAILED_PRECONDITION, "the session '%s' holds a text and no conversation; --no-template goes on with it", o->session);
  if (s->conversation.messages) CRN_TRY(crn_chat_history_restore(h, s->conversation.messages));
  CRN_TRY(crn_session_blame(s, crn_chat_history_check_images(t, h)));
  CRN_TRY(crn_chat_history_add_with_images(h, "user", job->text.data, o->images.items, (size_t)o->images.n));
  CRN_TRY(crn_chat_history_take_images(t, h, &job->images));
  CRN_TRY(crn_chat_history_text(h, job->llm, &job->history_text));
  g->images = job->images.list.items;
  g->n_images = (int)job->images.list.size;
  g->text = NULL;
  g->text_bytes = 0;
  g->conversation = job->history_text;
  g->conversation_bytes = strlen(job->history_text);
  return CAIRN_OK;
}

// The text goes on behind the tokens there are, token by token.
static cairn_status continue_text(crn_tool *t, const generate_options *o, generate_job *job) {
  cairn_generate_options *g = &job->options;
  const crn_conversation *s = &job->session.conversation;
  int32_t *more = NULL, *all;
  size_t n = g->n_tokens;
  if (o->images.n) return CRN_FAIL(INVALID_ARGUMENT, "--image with --session is part of a conversation; the model has no chat template");
  if (!s->n_tokens) return CAIRN_OK;
  if (g->text) CRN_TRY(crn_tool_encode(cairn_llm_tokenizer(job->llm), g->text, g->text_bytes, false, t->arena, &more, &n));
  CRN_TRY(crn_arena_array(t->arena, s->n_tokens + n, sizeof *all, &all));
  memcpy(all, s->tokens, s->n_tokens * sizeof *all);
  if (n) memcpy(all + s->n_tokens, more ? more : g->tokens, n * sizeof *all);
  for (size_t i = 0; i < s->n_tokens; i++) {
    if (all[i] < 0) return CRN_FAIL(UNSUPPORTED, "the session '%s' has pictures: only a conversation goes on with them", o->session);
  }
  g->text = NULL;
  g->text_bytes = 0;
  g->form = CAIRN_PROMPT_AUTO;
  g->tokens = all;
  g->n_tokens = s->n_tokens + n;
  return CAIRN_OK;
}

// What was said would be lost: a text has no messages.
static cairn_status check_is_text(const generate_options *o, const crn_session *s) {
  const size_t n = json_array_size(s->conversation.messages);
  if (!n) return CAIRN_OK;
  if (!o->raw_tokens && !o->no_template)
    return CRN_FAIL(FAILED_PRECONDITION, "the session '%s' holds a conversation, and the model has no chat template to go on with it",
                    o->session);
  const char *option = o->raw_tokens ? "--raw-tokens" : "--no-template";
  return CRN_FAIL(FAILED_PRECONDITION,
                  "the session '%s' holds a conversation of %zu messages, and %s goes on with texts only; give %s, or choose another file",
                  o->session, n, option, o->raw_tokens ? "--prompt or --prompt-file instead" : "the prompt without it");
}

static cairn_status continue_session(crn_tool *t, const generate_options *o, generate_job *job) {
  if (!o->session) return CAIRN_OK;
  CRN_TRY(crn_session_open(t, job->llm, &job->session));
  bool is_message = !o->raw_tokens && !o->no_template && cairn_llm_has_template(job->llm) == CAIRN_OK;
  if (!is_message) {
    crn_error_clear();
    CRN_TRY(check_is_text(o, &job->session));
  }
  return is_message ? continue_conversation(t, o, job) : continue_text(t, o, job);
}

static cairn_status save_session(generate_job *job, const cairn_generation_info *info) {
  crn_chat_history *h = &job->history;
  if (!job->session.path) return CAIRN_OK;
  if (h->messages)
    CRN_TRY(job->reply.dialogue ? crn_chat_history_add_reply(h, &job->reply)
                                : crn_chat_history_add_bytes(h, "assistant", info->text, info->text_bytes));
  // A token that ends a text is no part of one that goes on; nor do ids tell what a picture was.
  size_t n = info->n_tokens - (info->n_tokens && info->stop_reason == CAIRN_STOP_EOS), n_all = info->n_prompt_tokens + n;
  if (job->options.n_images) return crn_session_save(&job->session, job->llm, h->messages, NULL, 0);
  int32_t *all;
  CRN_TRY(crn_arena_array(job->stream.t->arena, n_all + 1, sizeof *all, &all));
  if (info->n_prompt_tokens) memcpy(all, info->prompt_tokens, info->n_prompt_tokens * sizeof *all);
  if (n) memcpy(all + info->n_prompt_tokens, info->tokens, n * sizeof *all);
  return crn_session_save(&job->session, job->llm, h->messages, all, n_all);
}

// --- the text -----------------------------------------------------------------------------------------------------------

// The text is taken apart where somebody wants its parts.
static bool wants_parts(const generate_options *o) {
  return o->json || o->dialogue.reasoning || o->dialogue.tools || o->dialogue.tool_format;
}

static cairn_status open_reply(crn_tool *t, const generate_options *o, generate_job *job) {
  if (!wants_parts(o) || cairn_llm_has_text(job->llm) != CAIRN_OK) return CAIRN_OK;
  const char *how = o->dialogue.reasoning ? o->dialogue.reasoning : "show";
  CRN_TRY(crn_reply_open(t, &o->dialogue, how, job->tools, job->llm, &job->options, &job->reply));
  job->reply.print = !o->json;
  job->stream.reply = &job->reply;
  return CAIRN_OK;
}

static void set_callbacks(crn_tool *t, const generate_options *o, generate_job *job) {
  cairn_generate_options *g = &job->options;
  crn_generation_fill(&o->generation, g);
  crn_speculation_fill(&o->speculation, job->draft, g);
  g->max_tokens = o->generation.max_tokens.value;
  g->on_token = crn_token_stream_take;
  g->should_cancel = crn_token_stream_cancelled;
  g->user = job;
  if (o->logits) {
    g->on_logits = take_logits;
    g->prefill_logits = true;
  }
  job->stream = (crn_token_stream){.t = t, .print = !o->json, .ids = cairn_llm_has_text(job->llm) != CAIRN_OK};
}

static cairn_status print_document(generate_job *job, const cairn_generation_info *info, const char *error) {
  crn_str text;
  const crn_reply *reply = job->reply.dialogue ? &job->reply : NULL;
  crn_str_initialize(&text, NULL);
  cairn_status status =
      reply ? crn_reply_plain_text(reply, job->llm, info, &job->options, &text) : crn_str_append(&text, info->text, info->text_bytes);
  const crn_generation_extras extras = {.reply = reply, .session = &job->session, .error = error};
  if (status == CAIRN_OK) status = crn_generation_print_json(job->llm, info, &text, &extras);
  crn_str_deinitialize(&text);
  return status;
}

// What was generated before a failure is shown all the same; the message and the exit code tell that it is not all.
static int report(crn_tool *t, const generate_options *o, generate_job *job, cairn_status status, cairn_generation *generation) {
  char why[2048] = "";
  if (status != CAIRN_OK) cairn_last_error_text(why, sizeof why);
  cairn_status parsed = job->reply.dialogue ? crn_reply_finish(&job->reply) : CAIRN_OK;
  if (status == CAIRN_OK && parsed != CAIRN_OK) {
    // What the parser refused ended the generation, and is the reason to tell.
    status = parsed;
    cairn_last_error_text(why, sizeof why);
  }
  int code = status == CAIRN_OK ? TOOL_OK : TOOL_FAILURE;
  if (generation) {
    cairn_generation_info info;
    cairn_generation_get(generation, &info);
    if (!o->json) crn_tool_text(t, "\n", 1);  // always one, so that the text is what comes before it
    if (job->reply.dialogue) crn_reply_warn(&job->reply);
    if (status == CAIRN_OK && save_session(job, &info) != CAIRN_OK) code = crn_tool_fail(t);
    if (o->json && print_document(job, &info, why[0] ? why : NULL) != CAIRN_OK) code = crn_tool_fail(t);
    if (status == CAIRN_OK && o->logits && crn_logits_write(&job->logits, (int64_t)info.n_prompt_tokens, o->logits) != CAIRN_OK)
      code = crn_tool_fail(t);
    if (!o->json) crn_generation_note(t, &info);
    crn_guide_report(t, &info);
    if (!o->json && info.stop_reason == CAIRN_STOP_CANCELLED && code == TOOL_OK) code = TOOL_FAILURE;
  }
  if (status != CAIRN_OK) {
    crn_tool_progress_clear(t);
    fflush(stdout);
    fprintf(stderr, "%s%s\n", t->error_prefix, why);
  }
  return code;
}

static int run_generate(crn_tool *t, const void *values) {
  const generate_options *o = values;
  generate_job job = {0};
  int code = check_options(t, o);
  if (code != TOOL_CONTINUE) return code;
  crn_str_initialize(&job.text, NULL);
  crn_str_initialize(&job.conversation, NULL);
  cairn_status status = read_prompt(t, o, &job);
  if (status == CAIRN_OK) status = crn_session_claim(t, o->session, &job.session);
  if (status == CAIRN_OK)
    status = crn_generation_open(t, t->positionals[0], &o->generation, o->raw_tokens ? CRN_NEED_IDS : CRN_NEED_TEXT, &job.llm);
  if (status == CAIRN_OK) status = continue_session(t, o, &job);
  if (status == CAIRN_OK) status = crn_speculation_open(t, &o->speculation, &o->generation, &job.draft);
  if (status == CAIRN_OK) set_callbacks(t, o, &job);
  if (status == CAIRN_OK) status = open_reply(t, o, &job);
  if (status != CAIRN_OK) {
    code = crn_tool_fail(t);
  } else {
    cairn_generation *generation = NULL;
    crn_error_clear();
    crn_interrupt_catch();
    crn_tool_progress(t, "reading the prompt", 0, 0);
    status = cairn_llm_generate(job.llm, &job.options, &generation);
    crn_tool_progress_clear(t);
    code = report(t, o, &job, status, generation);
    if (generation) cairn_generation_destroy(generation);
  }
  crn_images_free(&job.images);
  crn_logits_release(&job.logits);
  crn_str_deinitialize(&job.text);
  crn_str_deinitialize(&job.conversation);
  crn_reply_close(&job.reply);
  crn_session_close(&job.session);
  if (o->session) crn_chat_history_deinitialize(&job.history);
  free(job.history_text);
  json_decref(job.tools);
  if (job.llm) cairn_llm_close(job.llm);
  if (job.draft) cairn_llm_close(job.draft);
  return crn_tool_flush(t, code);
}

const crn_tool_command crn_command_generate = {
    .name = "generate",
    .synopsis = "MODEL --prompt TEXT [options]",
    .summary = "text from a language model",
    .description =
        "Generates text with a bundle, an .aimodel (token ids only) or a GGUF file. The text is printed as it comes; --json prints one "
        "document at the end instead. Ctrl-C ends a generation early: what there is has been printed, the stop reason is \"cancelled\", "
        "and the exit code is 1 (0 with --json, where the document tells).\n"
        "\n"
        "  cairn generate bundle --prompt \"Why is the sky blue?\"\n"
        "  cairn generate model.gguf --prompt-file essay.txt --no-template --max-tokens 100 --temperature 0.8 --top-p 0.95\n"
        "  cairn generate bundle --prompt \"Weather in Oslo?\" --tools tools.json --json\n"
        "  cairn generate bundle --prompt \"Name three cities.\" --json-schema cities.json\n"
        "  cairn generate vlm-bundle --image photo.jpg --prompt \"What is on the table?\"\n"
        "  cairn generate bundle --session notes.session --prompt \"And in winter?\"\n"
        "  cairn generate bundle --raw-tokens prompt.json --max-tokens 16 --json",
    TOOL_OPTIONS(g_options),
    .min_positionals = 1,
    .max_positionals = 1,
    .reads_model = true,
    .can_trace = true,
    .defaults = &g_defaults,
    .values_bytes = sizeof g_defaults,
    .run = run_generate,
};
