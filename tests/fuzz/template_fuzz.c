// A hostile template or hostile variables must give a status within small limits, and a buffer that is too small must
// receive the start of what a large one receives.
//
// Input: the text of a template up to the first NUL, then the variables as JSON. Without a NUL the template meets a
// conversation with tools.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cairn/template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char g_variables[] =
    "{\"messages\":[{\"role\":\"system\",\"content\":\"S\"},{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"\\u00e9\"}]},"
    "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{\"a\":[1,2.5,true]}}}]}],"
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{}}}}],"
    "\"add_generation_prompt\":true,\"bos_token\":\"<s>\",\"x\":3,\"y\":\"text\"}";

static void check(int condition) {
  if (!condition) abort();
}

static void render(const cairn_template *t, const char *json, size_t json_bytes, int random_or_time) {
  enum { CAPACITY = 1 << 16 };
  static char whole[CAPACITY], part[CAPACITY];
  cairn_template_limits limits = {.max_steps = 20000, .max_output_bytes = CAPACITY / 2, .max_depth = 60};
  size_t n = 0, n_part = 0;
  cairn_status status = cairn_template_render(t, json, json_bytes, &limits, whole, sizeof whole, &n);
  if (status != CAIRN_OK) {
    check(cairn_last_error()->code == status && n == 0);
    return;
  }
  check(n <= limits.max_output_bytes);
  check(cairn_template_render(t, json, json_bytes, &limits, part, n / 2, &n_part) == CAIRN_OK);
  // Only what depends on chance or time may differ.
  if (random_or_time) return;
  check(n_part == n && !memcmp(whole, part, n / 2));
}

// The same as a conversation whose last message is continued: what is left of the text must be its start.
static void render_continued(cairn_context *context, const char *source, size_t source_bytes) {
  static const char *const kConversations[] = {
      "{\"continue_final_message\":true,\"messages\":[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":\" a \"}]}",
      "{\"continue_final_message\":true,\"messages\":[{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"\\u00e9\"},{}]}]}",
      "{\"continue_final_message\":\"role\",\"messages\":[{\"role\":\"\",\"content\":null}]}"};
  enum { CAPACITY = 1 << 16 };
  static char text[CAPACITY];
  cairn_template_limits limits = {.max_steps = 20000, .max_output_bytes = CAPACITY / 2, .max_depth = 60};
  cairn_template_set *set;
  check(cairn_template_set_create(context, source, source_bytes, "fuzz", &set) == CAIRN_OK);
  for (int i = 0; i < 3; i++) {
    size_t n = 0;
    cairn_status status = cairn_template_set_render(set, kConversations[i], strlen(kConversations[i]), "{\"bos_token\":\"<s>\"}", &limits,
                                                    text, sizeof text, &n);
    check(status == CAIRN_OK ? n <= limits.max_output_bytes : n == 0 && cairn_last_error()->code == status);
  }
  cairn_template_set_release(set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static cairn_context *context;
  cairn_template *t;
  if (!context) {
    cairn_context_options options;
    cairn_context_options_initialize(&options);
    options.n_threads = 1;
    options.log_level = CAIRN_LOG_OFF;
    check(cairn_context_create(&options, &context) == CAIRN_OK);
  }
  const uint8_t *mark = size ? memchr(data, 0, size) : NULL;
  size_t source_bytes = mark ? (size_t)(mark - data) : size;
  const char *json = mark ? (const char *)mark + 1 : g_variables;
  size_t json_bytes = mark ? size - source_bytes - 1 : sizeof g_variables - 1;
  if (cairn_template_create(context, (const char *)data, source_bytes, "fuzz", &t) != CAIRN_OK) return 0;
  int random_or_time = memmem(data, source_bytes, "random", 6) || memmem(data, source_bytes, "strftime", 8);
  render(t, json, json_bytes, random_or_time);
  cairn_template_release(t);
  render_continued(context, (const char *)data, source_bytes);
  return 0;
}
