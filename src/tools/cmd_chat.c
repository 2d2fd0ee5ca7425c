// cairn chat: a conversation, on a terminal or through a pipe (a line in is a message, the reply comes out).
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef CAIRN_HAVE_EDIT
#include <editline/readline.h>
#endif

#include "tools/commands.h"
#include "tools/generation.h"

typedef struct chat_options {
  const char *system;
  crn_generation_values generation;
} chat_options;

#define GROUP_CHAT "Conversation"

static const crn_tool_option g_options[] = {
    {.name = "system",
     .letter = 's',
     .kind = OPTION_TEXT,
     .offset = offsetof(chat_options, system),
     .argument = "TEXT",
     .group = GROUP_CHAT,
     .help = "instructions before the conversation"},
    {.name = "max-tokens",
     .letter = 'n',
     .kind = OPTION_INTEGER,
     .offset = CRN_GENERATION_AT(chat_options, max_tokens),
     .argument = "N",
     .group = GROUP_CHAT,
     .help = "at most N tokens a reply (default 1024)",
     .minimum = 0,
     .maximum = 1e12},
    CRN_STOP_OPTIONS(chat_options, GROUP_CHAT),
    CRN_SAMPLING_OPTIONS(chat_options),
    CRN_ENGINE_OPTIONS(chat_options),
};

static const chat_options g_defaults = {.generation = {.max_tokens = {.value = 1024}}};

typedef struct chat {
  crn_token_stream stream;  // first: it is the user of the callbacks
  const chat_options *o;
  cairn_llm *llm;
  bool interactive;
  crn_str messages;  // the conversation as JSON, without its closing bracket
  size_t n_messages;
} chat;

static const char g_help[] =
    "  /reset   forget the conversation\n"
    "  /quit    end (Ctrl-D too)\n"
    "  /help    this text\n"
    "A message that starts with / is written with //. Ctrl-C ends a reply early.";

// --- history ----------------------------------------------------------------------------------------------------------

static cairn_status add_message(chat *c, const char *role, const char *text, size_t bytes) {
  CRN_TRY(crn_str_printf(&c->messages, "%s{\"role\":\"%s\",\"content\":", c->n_messages ? "," : "", role));
  CRN_TRY(crn_str_json(&c->messages, text, bytes));
  CRN_TRY(crn_str_putc(&c->messages, '}'));
  c->n_messages++;
  return CAIRN_OK;
}

static cairn_status start_over(chat *c) {
  crn_str_clear(&c->messages);
  c->n_messages = 0;
  CRN_TRY(crn_str_putc(&c->messages, '['));
  if (c->o->system) CRN_TRY(add_message(c, "system", c->o->system, strlen(c->o->system)));
  return CAIRN_OK;
}

static void cut_back(chat *c, size_t bytes, size_t n_messages) {
  c->messages.size = bytes;
  c->messages.data[bytes] = 0;
  c->n_messages = n_messages;
}

// --- one reply --------------------------------------------------------------------------------------------------------

static cairn_status generate(chat *c, cairn_generation **out) {
  // The bracket is only there while the conversation is read, so that messages can be appended afterwards.
  CRN_TRY(crn_str_putc(&c->messages, ']'));
  cairn_generate_options g = {.conversation = c->messages.data, .conversation_bytes = c->messages.size};
  crn_generation_fill(&c->o->generation, &g);
  g.max_tokens = c->o->generation.max_tokens.value;
  g.on_token = crn_token_stream_take;
  g.should_cancel = crn_token_stream_cancelled;
  g.user = c;
  c->stream = (crn_token_stream){.t = c->stream.t, .print = true};
  crn_error_clear();
  crn_interrupt_catch();
  crn_tool_progress(c->stream.t, "thinking", 0, 0);
  cairn_status status = cairn_llm_generate(c->llm, &g, out);
  crn_tool_progress_clear(c->stream.t);
  crn_interrupt_release();
  c->messages.data[--c->messages.size] = 0;
  return status;
}

// Asks the model. After a failure the message that led to it is taken out of the history again.
static cairn_status reply_to(chat *c, const char *text) {
  size_t bytes = c->messages.size, n_messages = c->n_messages;
  cairn_generation *generation = NULL;
  CRN_TRY(add_message(c, "user", text, strlen(text)));
  cairn_status status = generate(c, &generation);
  if (generation) putchar('\n');  // one after each reply, whatever it ends with
  if (status == CAIRN_OK) {
    cairn_generation_info info;
    cairn_generation_get(generation, &info);
    status = add_message(c, "assistant", info.text, info.text_bytes);
    if (c->stream.t->verbose) crn_generation_note(c->stream.t, &info);
    if (info.stop_reason == CAIRN_STOP_CONTEXT_FULL) crn_tool_note(c->stream.t, "(the context is full; /reset starts over)");
  } else {
    cut_back(c, bytes, n_messages);
  }
  fflush(stdout);
  if (generation) cairn_generation_destroy(generation);
  return status;
}

// --- lines ------------------------------------------------------------------------------------------------------------

typedef enum line_result { LINE_MESSAGE, LINE_DONE, LINE_QUIT, LINE_FAILED } line_result;

static line_result handle_command(chat *c, const char *line) {
  if (!strcmp(line, "/quit") || !strcmp(line, "/exit")) return LINE_QUIT;
  if (!strcmp(line, "/reset")) {
    if (cairn_llm_reset(c->llm, 0) != CAIRN_OK || start_over(c) != CAIRN_OK) return LINE_FAILED;
    if (c->interactive) crn_tool_note(c->stream.t, "(the conversation is forgotten)");
  } else {
    if (strcmp(line, "/help") != 0) crn_tool_warn(c->stream.t, "'%s' is no command", line);
    fprintf(stderr, "%s\n", g_help);
  }
  return LINE_DONE;
}

static line_result handle_line(chat *c, const char *line) {
  const char *text = line + strspn(line, " \t");
  if (!*text) return LINE_DONE;
  if (text[0] == '/' && text[1] != '/') return handle_command(c, text);
  if (text[0] == '/') text++;
  if (reply_to(c, text) == CAIRN_OK) return LINE_DONE;
  return LINE_FAILED;
}

// One line without its end, NULL at the end of the input. The caller frees it.
static char *read_line(const chat *c) {
#ifdef CAIRN_HAVE_EDIT
  if (c->interactive && isatty(STDOUT_FILENO)) {
    char *edited = readline("> ");
    if (edited && *edited) add_history(edited);
    return edited;
  }
#endif
  if (c->interactive) {
    fputs("> ", stderr);
    fflush(stderr);
  }
  char *line = NULL;
  size_t capacity = 0;
  ssize_t n = getline(&line, &capacity, stdin);
  if (n < 0) {
    free(line);
    return NULL;
  }
  while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r')) line[--n] = 0;
  return line;
}

// On a terminal a failed reply is told and the conversation goes on; through a pipe it ends, because whoever feeds the
// lines counts on an answer to each.
static int converse(chat *c) {
  crn_tool *t = c->stream.t;
  for (char *line; (line = read_line(c));) {
    line_result result = handle_line(c, line);
    free(line);
    if (result == LINE_QUIT) break;
    if (result != LINE_FAILED) continue;
    int code = crn_tool_fail(t);
    if (!c->interactive) return code;
  }
  return TOOL_OK;
}

static int run_chat(crn_tool *t, const void *values) {
  chat c = {.stream.t = t, .o = values, .interactive = isatty(STDIN_FILENO)};
  int code = crn_generation_check(t, &c.o->generation);
  if (code != TOOL_CONTINUE) return code;
  crn_str_initialize(&c.messages, NULL);
  cairn_status status = crn_generation_open(t, t->positionals[0], &c.o->generation, CRN_NEED_CHAT, &c.llm);
  if (status == CAIRN_OK) status = start_over(&c);
  if (status == CAIRN_OK) {
    cairn_llm_info info;
    cairn_llm_describe(c.llm, &info);
    if (c.interactive) crn_tool_note(t, "%s. /help tells about commands.", info.name);
    code = converse(&c);
  } else {
    code = crn_tool_fail(t);
  }
  crn_str_deinitialize(&c.messages);
  if (c.llm) cairn_llm_close(c.llm);
  return crn_tool_flush(t, code);
}

const crn_tool_command crn_command_chat = {
    .name = "chat",
    .synopsis = "MODEL [options]",
    .summary = "a conversation with a language model",
    .description =
        "Talks with a bundle or a GGUF file that has a chat template. Each line is a message; the model remembers the conversation and "
        "computes only what is new. Through a pipe no prompts are shown: a line in gives a reply out.\n"
        "\n"
        "  cairn chat bundle --system \"Answer in one sentence.\"\n"
        "  printf 'Hello\\nAnd again?\\n' | cairn chat model.gguf\n"
        "\n"
        "In a conversation:\n"
        "  /reset   forget the conversation\n"
        "  /quit    end (Ctrl-D too)\n"
        "  /help    the commands\n"
        "  //text   a message that starts with /",
    TOOL_OPTIONS(g_options),
    .min_positionals = 1,
    .max_positionals = 1,
    .defaults = &g_defaults,
    .values_bytes = sizeof g_defaults,
    .run = run_chat,
};
