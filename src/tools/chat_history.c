#include "tools/chat_history.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "tools/places.h"

static cairn_status out_of_memory(void) { return CRN_FAIL(OUT_OF_MEMORY, "no memory for the conversation"); }

cairn_status crn_chat_history_initialize(crn_chat_history *h, const char *template_name) {
  *h = (crn_chat_history){.messages = json_array(), .template_name = template_name};
  return h->messages ? CAIRN_OK : out_of_memory();
}

cairn_status crn_chat_history_restore(crn_chat_history *h, const json_t *messages) {
  size_t i;
  const json_t *message;
  json_t *copy = json_deep_copy(messages);
  if (!copy) return out_of_memory();
  json_decref(h->messages);
  h->messages = copy;
  h->n_calls = 0;
  json_array_foreach(copy, i, message) h->n_calls += (int)json_array_size(json_object_get(message, "tool_calls"));
  return CAIRN_OK;
}

void crn_chat_history_deinitialize(crn_chat_history *h) {
  json_decref(h->messages);
  json_decref(h->tools);
  *h = (crn_chat_history){0};
}

void crn_chat_history_clear(crn_chat_history *h) { json_array_clear(h->messages); }

size_t crn_chat_history_size(const crn_chat_history *h) { return json_array_size(h->messages); }

void crn_chat_history_cut(crn_chat_history *h, size_t n) {
  while (json_array_size(h->messages) > n) json_array_remove(h->messages, json_array_size(h->messages) - 1);
}

// --- messages ---------------------------------------------------------------------------------------------------------

// The same with U+FFFD for each NUL, which a model may write and no template takes.
static cairn_status replace_nuls(const char *text, size_t n, crn_str *out) {
  for (const char *end = text + n; text < end;) {
    const size_t part = strnlen(text, (size_t)(end - text));
    CRN_TRY(crn_str_append(out, text, part));
    text += part;
    if (text < end) CRN_TRY(crn_str_puts(out, "\xef\xbf\xbd"));
    if (text < end) text++;
  }
  return CAIRN_OK;
}

// A text of any bytes; what is no UTF-8 becomes U+FFFD.
static json_t *text_of(const char *text, size_t n) {
  json_t *value = memchr(text, 0, n) ? NULL : json_stringn(text, n);
  crn_str whole, clean;
  if (value) return value;
  crn_str_initialize(&whole, NULL);
  crn_str_initialize(&clean, NULL);
  cairn_status status = replace_nuls(text, n, &whole);
  if (status == CAIRN_OK) status = crn_str_json(&clean, whole.data, whole.size);
  if (status == CAIRN_OK) value = json_loadb(clean.data, clean.size, JSON_DECODE_ANY, NULL);
  crn_str_deinitialize(&whole);
  crn_str_deinitialize(&clean);
  return value;
}

static cairn_status set_text(json_t *object, const char *key, const char *text, size_t n) {
  return json_object_set_new(object, key, text_of(text, n)) ? out_of_memory() : CAIRN_OK;
}

// Takes the message over.
static cairn_status append(crn_chat_history *h, json_t *message) {
  return json_array_append_new(h->messages, message) ? out_of_memory() : CAIRN_OK;
}

static json_t *new_message(const char *role) { return json_pack("{s:s}", "role", role); }

cairn_status crn_chat_history_add(crn_chat_history *h, const char *role, const char *text) {
  return crn_chat_history_add_bytes(h, role, text, strlen(text));
}

cairn_status crn_chat_history_add_bytes(crn_chat_history *h, const char *role, const char *text, size_t n) {
  json_t *message = new_message(role);
  cairn_status status = message ? set_text(message, "content", text, n) : out_of_memory();
  if (status == CAIRN_OK) return append(h, message);
  json_decref(message);
  return status;
}

// --- pictures ---------------------------------------------------------------------------------------------------------

static cairn_status digest_of(const char *path, char *out) {
  crn_file_map map;
  unsigned char digest[CRN_SHA256_BYTES];
  if (!crn_file_exists(path)) return CRN_FAIL(NOT_FOUND, "image '%s': no such file", path);
  CRN_TRY(crn_file_map_open(path, &map));
  cairn_status status = crn_sha256_map(&map, digest);
  crn_file_map_close(&map);
  if (status == CAIRN_OK) crn_sha256_hex(digest, out);
  return status;
}

// Path and digest are members templates do not look at, so that a message that is taken back takes its pictures along. The path is whole:
// a conversation may go on in another folder.
static cairn_status append_image(json_t *parts, const char *path) {
  char digest[2 * CRN_SHA256_BYTES + 1];
  CRN_TRY(digest_of(path, digest));
  json_t *part = json_pack("{s:s, s:s}", "type", "image", "sha256", digest);
  if (!part) return out_of_memory();
  char *real = realpath(path, NULL);
  cairn_status status = set_text(part, "path", real ? real : path, strlen(real ? real : path));
  free(real);
  if (status == CAIRN_OK) return json_array_append_new(parts, part) ? out_of_memory() : CAIRN_OK;
  json_decref(part);
  return status;
}

static cairn_status append_text(json_t *parts, const char *text) {
  json_t *part = json_pack("{s:s}", "type", "text");
  if (!part) return out_of_memory();
  cairn_status status = set_text(part, "text", text, strlen(text));
  if (status == CAIRN_OK) return json_array_append_new(parts, part) ? out_of_memory() : CAIRN_OK;
  json_decref(part);
  return status;
}

cairn_status crn_chat_history_add_with_images(crn_chat_history *h, const char *role, const char *text, const char *const *paths, size_t n) {
  if (!n) return crn_chat_history_add(h, role, text);
  json_t *message = new_message(role), *parts = json_array();
  cairn_status status = message && parts ? CAIRN_OK : out_of_memory();
  for (size_t i = 0; i < n && status == CAIRN_OK; i++) status = append_image(parts, paths[i]);
  if (status == CAIRN_OK) status = append_text(parts, text);
  if (status == CAIRN_OK && json_object_set(message, "content", parts)) status = out_of_memory();
  json_decref(parts);
  if (status == CAIRN_OK) return append(h, message);
  json_decref(message);
  return status;
}

// A picture of an older version has no digest.
static cairn_status check_image(const json_t *part, const char *path) {
  const char *told = json_string_value(json_object_get(part, "sha256"));
  char digest[2 * CRN_SHA256_BYTES + 1];
  CRN_TRY(digest_of(path, digest));
  if (!told || strcmp(told, digest) == 0) return CAIRN_OK;
  return CRN_FAIL(FAILED_PRECONDITION, "image '%s' is not the picture that was shown: the file has changed since", path);
}

// Each is added to `images`, unless that is NULL.
static cairn_status for_images(crn_tool *t, const crn_chat_history *h, crn_images *images) {
  size_t k, p;
  json_t *message, *part;
  json_array_foreach(h->messages, k, message) {
    const json_t *content = json_object_get(message, "content");
    if (!json_is_array(content)) continue;
    json_array_foreach(content, p, part) {
      const char *path = json_string_value(json_object_get(part, "path"));
      if (!path) continue;
      CRN_TRY(crn_places_check_read(t, path));
      CRN_TRY(check_image(part, path));
      if (images) CRN_TRY(crn_images_add(t, images, path));
    }
  }
  return CAIRN_OK;
}

cairn_status crn_chat_history_check_images(crn_tool *t, const crn_chat_history *h) { return for_images(t, h, NULL); }

cairn_status crn_chat_history_take_images(crn_tool *t, const crn_chat_history *h, crn_images *images) {
  crn_images_clear(images);
  return for_images(t, h, images);
}

// --- replies ----------------------------------------------------------------------------------------------------------

// Models that give no ids get some that every template takes: nine letters and digits.
static cairn_status add_calls(crn_chat_history *h, json_t *message, const cairn_dialogue_result *r) {
  json_t *calls = json_array();
  if (json_object_set_new(message, "tool_calls", calls)) return out_of_memory();
  for (int i = 0; i < r->n_calls; i++) {
    const cairn_dialogue_call *c = &r->calls[i];
    char id[32];
    snprintf(id, sizeof id, "call%05d", h->n_calls++ % 100000);
    json_t *arguments = json_loadb(c->arguments, c->arguments_bytes, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (!arguments) arguments = text_of(c->arguments, c->arguments_bytes);
    json_t *call = json_pack("{s:s, s:s, s:{s:o, s:o}}", "id", c->id ? c->id : id, "type", "function", "function", "name",
                             text_of(c->name, strlen(c->name)), "arguments", arguments);
    if (json_array_append_new(calls, call)) return out_of_memory();
  }
  return CAIRN_OK;
}

// Templates look for reasoning under different names; which of them one shows again, and of which messages, is its own rule.
static cairn_status add_reasoning(json_t *message, const cairn_dialogue_result *r) {
  static const char *const kNames[] = {"reasoning_content", "reasoning", "thinking"};
  for (size_t i = 0; i < sizeof kNames / sizeof *kNames; i++) CRN_TRY(set_text(message, kNames[i], r->reasoning, r->reasoning_bytes));
  return CAIRN_OK;
}

cairn_status crn_chat_history_add_reply(crn_chat_history *h, const crn_reply *reply) {
  cairn_dialogue_result r;
  cairn_dialogue_get(reply->dialogue, &r);
  json_t *message = new_message("assistant");
  if (!message) return out_of_memory();
  // Channels have either thoughts or words in front of a call.
  bool drops_content = r.format == CAIRN_DIALOGUE_HARMONY && r.n_calls && r.reasoning_bytes;
  cairn_status status = set_text(message, "content", r.content, drops_content ? 0 : r.content_bytes);
  if (status == CAIRN_OK && r.reasoning_bytes) status = add_reasoning(message, &r);
  if (status == CAIRN_OK && r.n_calls) status = add_calls(h, message, &r);
  if (status == CAIRN_OK) return append(h, message);
  json_decref(message);
  return status;
}

// --- results ----------------------------------------------------------------------------------------------------------

cairn_status crn_chat_history_add_result(crn_chat_history *h, const char *text, int *out_n_open) {
  size_t n = json_array_size(h->messages), last = n;
  *out_n_open = 0;
  while (last && !json_object_get(json_array_get(h->messages, last - 1), "tool_calls")) last--;
  const json_t *calls = last ? json_object_get(json_array_get(h->messages, last - 1), "tool_calls") : NULL;
  size_t n_results = n - last;
  // Anything else behind the calls closes them.
  const char *role = n ? json_string_value(json_object_get(json_array_get(h->messages, n - 1), "role")) : NULL;
  bool is_open = calls && n_results < json_array_size(calls) && (n_results == 0 || (role && !strcmp(role, "tool")));
  if (!is_open) return CRN_FAIL(FAILED_PRECONDITION, "no tool call waits for a result");
  const json_t *call = json_array_get(calls, n_results);
  json_t *message = json_pack("{s:s, s:O, s:O}", "role", "tool", "name", json_object_get(json_object_get(call, "function"), "name"),
                              "tool_call_id", json_object_get(call, "id"));
  cairn_status status = message ? set_text(message, "content", text, strlen(text)) : out_of_memory();
  if (status != CAIRN_OK) {
    json_decref(message);
    return status;
  }
  *out_n_open = (int)(json_array_size(calls) - n_results - 1);
  return append(h, message);
}

// --- the text ---------------------------------------------------------------------------------------------------------

static cairn_status arguments_to_text(json_t *messages) {
  size_t i, k;
  json_t *message, *call;
  json_array_foreach(messages, i, message) {
    json_array_foreach(json_object_get(message, "tool_calls"), k, call) {
      json_t *function = json_object_get(call, "function"), *arguments = json_object_get(function, "arguments");
      if (!json_is_object(arguments)) continue;
      char *text = json_dumps(arguments, JSON_COMPACT);
      int failed = json_object_set_new(function, "arguments", text ? json_string(text) : NULL);
      free(text);
      if (failed) return out_of_memory();
    }
  }
  return CAIRN_OK;
}

static cairn_status make_text(const crn_chat_history *h, bool arguments_as_text, char **out_text) {
  json_t *messages = arguments_as_text ? json_deep_copy(h->messages) : json_incref(h->messages), *all = json_object();
  cairn_status status = messages && all ? CAIRN_OK : out_of_memory();
  *out_text = NULL;
  if (status == CAIRN_OK && arguments_as_text) status = arguments_to_text(messages);
  bool failed = status != CAIRN_OK || json_object_set(all, "messages", messages);
  if (!failed && h->tools) failed = json_object_set(all, "tools", h->tools);
  if (!failed && h->template_name) failed = json_object_set_new(all, "chat_template", text_of(h->template_name, strlen(h->template_name)));
  if (!failed) *out_text = json_dumps(all, JSON_COMPACT);
  if (status == CAIRN_OK && !*out_text) status = out_of_memory();
  json_decref(messages);
  json_decref(all);
  return status;
}

static cairn_status try_to_render(const cairn_llm *llm, const char *text) {
  size_t n;
  return cairn_llm_render(llm, text, strlen(text), NULL, 0, &n);
}

cairn_status crn_chat_history_text(crn_chat_history *h, const cairn_llm *llm, char **out_text) {
  CRN_TRY(make_text(h, h->arguments_as_text, out_text));
  if (!h->n_calls || try_to_render(llm, *out_text) == CAIRN_OK) return CAIRN_OK;
  char *other;
  CRN_TRY(make_text(h, !h->arguments_as_text, &other));
  // Whatever is wrong with both is told by whoever uses the text.
  bool is_better = try_to_render(llm, other) == CAIRN_OK;
  if (is_better) h->arguments_as_text = !h->arguments_as_text;
  free(is_better ? *out_text : other);
  if (is_better) *out_text = other;
  return CAIRN_OK;
}
