// cairn chat: a conversation, on a terminal or through a pipe (a line in is a message, the reply comes out).
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef CAIRN_HAVE_EDIT
#include <editline/readline.h>
#endif

#include "base/file.h"
#include "tools/chat_history.h"
#include "tools/commands.h"
#include "tools/generation.h"
#include "tools/guide.h"
#include "tools/images.h"
#include "tools/session.h"
#include "tools/speculation.h"
#include "tools/text_source.h"

typedef struct chat_options {
  const char *system, *session;
  crn_dialogue_values dialogue;
  crn_guide_values guide;
  crn_generation_values generation;
  crn_speculation_values speculation;
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
    CRN_SESSION_OPTION(chat_options, GROUP_CHAT),
    CRN_DIALOGUE_OPTIONS(chat_options, "separate"),
    CRN_STOP_OPTIONS(chat_options, GROUP_CHAT),
    CRN_GUIDE_OPTIONS(chat_options),
    CRN_SAMPLING_OPTIONS(chat_options),
    CRN_SPECULATION_OPTIONS(chat_options),
    CRN_ENGINE_OPTIONS(chat_options),
    CRN_OVERFLOW_OPTION(chat_options),
};

static const chat_options g_defaults = {.generation = {.max_tokens = {.value = 1024}}};

typedef struct chat {
  crn_token_stream stream;  // first: it is the user of the callbacks
  const chat_options *o;
  cairn_llm *llm, *draft;
  bool interactive;
  cairn_grammar_source guide;
  crn_chat_history history;
  crn_session session;
  crn_images images;           // of the whole conversation, while a reply is made
  CRN_VEC(char *) new_images;  // given with /image, for the next message
} chat;

static const char g_help[] =
    "  /reset        forget the conversation\n"
    "  /image FILE   a picture for the next message (vision models)\n"
    "  /tool TEXT    the result of the next tool call that has none\n"
    "  /quit         end (Ctrl-D too)\n"
    "  /help         this text\n"
    "A message that starts with / is written with //. Ctrl-C ends a reply early.";

// --- one reply --------------------------------------------------------------------------------------------------------

static void drop_new_images(chat *c) {
  for (size_t i = 0; i < c->new_images.size; i++) free(c->new_images.items[i]);
  c->new_images.size = 0;
}

static cairn_status start_over(chat *c) {
  drop_new_images(c);
  crn_chat_history_clear(&c->history);
  return c->o->system ? crn_chat_history_add(&c->history, "system", c->o->system) : CAIRN_OK;
}

static cairn_status generate(chat *c, const char *conversation, crn_reply *reply, cairn_generation **out) {
  const char *how = c->o->dialogue.reasoning ? c->o->dialogue.reasoning : "separate";
  cairn_generate_options g = {.conversation = conversation, .conversation_bytes = strlen(conversation)};
  CRN_TRY(crn_chat_history_take_images(c->stream.t, &c->history, &c->images));
  g.images = c->images.list.items;
  g.n_images = (int)c->images.list.size;
  crn_generation_fill(&c->o->generation, &g);
  crn_speculation_fill(&c->o->speculation, c->draft, &g);
  g.max_tokens = c->o->generation.max_tokens.value;
  g.guide = c->guide;
  g.on_token = crn_token_stream_take;
  g.should_cancel = crn_token_stream_cancelled;
  g.user = c;
  CRN_TRY(crn_reply_open(c->stream.t, &c->o->dialogue, how, c->history.tools, c->llm, &g, reply));
  reply->print = true;
  c->stream = (crn_token_stream){.t = c->stream.t, .print = true, .reply = reply};
  crn_error_clear();
  crn_interrupt_catch();
  crn_tool_progress(c->stream.t, "thinking", 0, 0);
  cairn_status status = cairn_llm_generate(c->llm, &g, out);
  crn_tool_progress_clear(c->stream.t);
  crn_interrupt_release();
  return status;
}

static cairn_status take_reply(chat *c, crn_reply *reply, const cairn_generation *generation) {
  cairn_generation_info info;
  CRN_TRY(crn_chat_history_add_reply(&c->history, reply));
  cairn_generation_get(generation, &info);
  if (c->stream.t->verbose) {
    crn_generation_note(c->stream.t, &info);
  } else {
    crn_generation_note_overflow(c->stream.t, &info);
  }
  crn_guide_report(c->stream.t, &info);
  if (info.stop_reason == CAIRN_STOP_CONTEXT_FULL) crn_tool_note(c->stream.t, "(the context is full; /reset starts over)");
  return CAIRN_OK;
}

static cairn_status save_session(chat *c) { return crn_session_save(&c->session, c->llm, c->history.messages, NULL, 0); }

// Asks the model for the next message. After a failure what was added since `n_messages` is taken out of the history again.
static cairn_status answer(chat *c, size_t n_messages) {
  crn_reply reply = {0};
  cairn_generation *generation = NULL;
  char *conversation = NULL;
  cairn_status status = crn_chat_history_text(&c->history, c->llm, &conversation);
  if (status == CAIRN_OK) status = generate(c, conversation, &reply, &generation);
  if (generation) {
    cairn_status parsed = crn_reply_finish(&reply);
    if (status == CAIRN_OK) status = parsed;
    crn_tool_text(c->stream.t, "\n", 1);  // one after each reply, whatever it ends with
    crn_reply_warn(&reply);
  }
  if (status == CAIRN_OK) status = take_reply(c, &reply, generation);
  if (status != CAIRN_OK) crn_chat_history_cut(&c->history, n_messages);
  // Whoever types may end the program in ways that leave it no time.
  if (status == CAIRN_OK && c->interactive) status = save_session(c);
  fflush(stdout);
  crn_reply_close(&reply);
  if (generation) cairn_generation_destroy(generation);
  free(conversation);
  return status;
}

static cairn_status reply_to(chat *c, const char *text) {
  size_t n_messages = crn_chat_history_size(&c->history);
  CRN_TRY(crn_chat_history_add_with_images(&c->history, "user", text, (const char *const *)c->new_images.items, c->new_images.size));
  drop_new_images(c);
  return answer(c, n_messages);
}

// A picture that cannot be used is told now, not with the message it belongs to.
static cairn_status take_image(chat *c, const char *path) {
  cairn_llm_images info;
  path += strspn(path, " \t");
  cairn_llm_describe_images(c->llm, &info);
  if (!info.image_tokens) return CRN_FAIL(UNSUPPORTED, "the model takes no images: a bundle of kind vlm is needed");
  if (!crn_file_exists(path)) return CRN_FAIL(NOT_FOUND, "image '%s': no such file", path);
  char *copy = strdup(path);
  cairn_status status =
      copy ? crn_vec_push(crn_default_allocator(), &c->new_images, copy) : CRN_FAIL(OUT_OF_MEMORY, "no memory for a path");
  if (status != CAIRN_OK) free(copy);
  return status;
}

// The model goes on when each of its calls has a result.
static cairn_status take_tool_result(chat *c, const char *text) {
  size_t n_messages = crn_chat_history_size(&c->history);
  int n_open;
  CRN_TRY(crn_chat_history_add_result(&c->history, text, &n_open));
  return n_open ? CAIRN_OK : answer(c, n_messages);
}

// --- lines ------------------------------------------------------------------------------------------------------------

typedef enum line_result { LINE_MESSAGE, LINE_DONE, LINE_QUIT, LINE_FAILED } line_result;

// A tool that gave nothing has a result, too: an empty one.
static line_result ask_for_argument(const chat *c, const char *command) {
  crn_tool_warn(c->stream.t, "'%s' wants %s", command,
                strcmp(command, "/tool") ? "the file of a picture: /image FILE"
                                         : "the result of a tool call: /tool TEXT (for one that is empty a space behind it)");
  return LINE_DONE;
}

static line_result handle_command(chat *c, const char *line) {
  if (!strcmp(line, "/quit") || !strcmp(line, "/exit")) return LINE_QUIT;
  if (!strcmp(line, "/image") || !strcmp(line, "/tool")) return ask_for_argument(c, line);
  if (!strncmp(line, "/image ", 7)) return take_image(c, line + 7) == CAIRN_OK ? LINE_DONE : LINE_FAILED;
  if (!strncmp(line, "/tool ", 6)) return take_tool_result(c, line + 6) == CAIRN_OK ? LINE_DONE : LINE_FAILED;
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

// One line without its end, and its bytes; NULL at the end of the input. The caller frees it.
static char *read_line(const chat *c, size_t *out_bytes) {
#ifdef CAIRN_HAVE_EDIT
  if (c->interactive && isatty(STDOUT_FILENO)) {
    char *edited = readline("> ");
    if (edited && *edited) add_history(edited);
    *out_bytes = edited ? strlen(edited) : 0;
    return edited;
  }
#endif
  if (c->interactive) {
    fputs("> ", stderr);
    fflush(stderr);
  }
  char *line = NULL;
  size_t capacity = 0;
  // With a session Ctrl-C ends the input, so that there is time to save.
  if (c->o->session) crn_interrupt_catch();
  ssize_t n = getline(&line, &capacity, stdin);
  if (c->o->session) crn_interrupt_release();
  if (n < 0) {
    free(line);
    return NULL;
  }
  while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r')) line[--n] = 0;
  *out_bytes = (size_t)n;
  return line;
}

static cairn_status open_session(chat *c) {
  const char *path = c->o->session;
  CRN_TRY(start_over(c));
  CRN_TRY(crn_session_open(c->stream.t, c->llm, &c->session));
  const json_t *messages = c->session.conversation.messages, *first = json_array_get(messages, 0);
  if (crn_session_is_text(&c->session)) return CRN_FAIL(FAILED_PRECONDITION, "the session '%s' holds a text and no conversation", path);
  if (!messages) return CAIRN_OK;
  const char *role = json_string_value(json_object_get(first, "role")), *text = json_string_value(json_object_get(first, "content"));
  bool has_system = role && strcmp(role, "system") == 0;
  // Instructions alone are not yet a conversation: others may take their place.
  const bool has_begun = json_array_size(messages) > has_system;
  if (!has_begun && c->o->system) return CAIRN_OK;
  if (c->o->system && (!has_system || !text || strcmp(text, c->o->system) != 0))
    return CRN_FAIL(INVALID_ARGUMENT, "--system: the conversation of the session '%s' has begun without it; leave it out", path);
  if (c->interactive) crn_tool_note(c->stream.t, "(the conversation in '%s' goes on: %zu messages)", path, json_array_size(messages));
  CRN_TRY(crn_chat_history_restore(&c->history, messages));
  return crn_session_blame(&c->session, crn_chat_history_check_images(c->stream.t, &c->history));
}

// What can be saved is saved, also when the last reply failed.
static int end_session(chat *c, int code) {
  cairn_status status = save_session(c);
  if (status == CAIRN_OK || code != TOOL_OK) return code;
  return crn_tool_fail(c->stream.t);
}

// What stands behind a NUL would be left out.
static cairn_status check_line(const char *line, size_t n, size_t number) {
  char what[48];
  const char *nul = memchr(line, 0, n);
  snprintf(what, sizeof what, "stdin, line %zu", number);
  return nul ? crn_tool_refuse_nul(what, (size_t)(nul - line)) : CAIRN_OK;
}

// On a terminal a failed reply is told and the conversation goes on; through a pipe it ends, because whoever feeds the
// lines counts on an answer to each.
static int converse(chat *c) {
  crn_tool *t = c->stream.t;
  size_t n, number = 0;
  for (char *line; (line = read_line(c, &n));) {
    line_result result = check_line(line, n, ++number) == CAIRN_OK ? handle_line(c, line) : LINE_FAILED;
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
  int code = crn_guide_check(t, &c.o->guide, c.o->dialogue.tool_choice, NULL);
  if (code == TOOL_CONTINUE) code = crn_dialogue_check(t, &c.o->dialogue);
  if (code == TOOL_CONTINUE) code = crn_generation_check(t, &c.o->generation);
  if (code == TOOL_CONTINUE) code = crn_speculation_check(t, &c.o->speculation);
  if (code == TOOL_CONTINUE) code = crn_session_check(t, c.o->session, &c.o->generation);
  if (code != TOOL_CONTINUE) return code;
  cairn_status status = crn_chat_history_initialize(&c.history, c.o->dialogue.template_name);
  if (status == CAIRN_OK) status = crn_dialogue_read_tools(&c.o->dialogue, &c.history.tools);
  if (status == CAIRN_OK) status = crn_guide_read(t, &c.o->guide, &c.guide);
  if (status == CAIRN_OK) status = crn_session_claim(t, c.o->session, &c.session);
  if (status == CAIRN_OK) status = crn_generation_open(t, t->positionals[0], &c.o->generation, CRN_NEED_CHAT, &c.llm);
  if (status == CAIRN_OK) status = crn_speculation_open(t, &c.o->speculation, &c.o->generation, &c.draft);
  if (status == CAIRN_OK) status = open_session(&c);
  if (status == CAIRN_OK) {
    cairn_llm_info info;
    cairn_llm_describe(c.llm, &info);
    if (c.interactive) crn_tool_note(t, "%s. /help tells about commands.", info.name);
    code = end_session(&c, converse(&c));
  } else {
    code = crn_tool_fail(t);
  }
  crn_session_close(&c.session);
  crn_chat_history_deinitialize(&c.history);
  crn_images_free(&c.images);
  drop_new_images(&c);
  crn_vec_free(crn_default_allocator(), &c.new_images);
  if (c.llm) cairn_llm_close(c.llm);
  if (c.draft) cairn_llm_close(c.draft);
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
        "  cairn chat bundle --session tuesday.session\n"
        "\n"
        "In a conversation:\n"
        "  /reset        forget the conversation\n"
        "  /image FILE   a picture for the next message (vision models); may be repeated\n"
        "  /tool TEXT    the result of the next tool call that has none; the model goes on when all have one\n"
        "  /quit         end (Ctrl-D too)\n"
        "  /help         the commands\n"
        "  //text        a message that starts with /",
    TOOL_OPTIONS(g_options),
    .min_positionals = 1,
    .max_positionals = 1,
    .reads_model = true,
    .can_trace = true,
    .defaults = &g_defaults,
    .values_bytes = sizeof g_defaults,
    .run = run_chat,
};
