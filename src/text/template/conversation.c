/// A conversation through its template, with the rules Transformers has around the rendering.
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/json.h"
#include "text/template/casing.h"
#include "text/template/set.h"
#include "text/template/text.h"

static const char g_tag[] = "CONTINUE_FINAL_MESSAGE_TAG ";  // the space tells whether the template keeps white space

static cairn_status out_of_memory(void) { return CRN_FAIL(OUT_OF_MEMORY, "no memory for the variables of the chat template"); }

// --- variables ------------------------------------------------------------------------------------------------------

static cairn_status parse(const char *text, size_t bytes, json_t **out) {
  json_error_t e;
  *out = json_loadb(text, bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &e);
  if (*out) return CAIRN_OK;
  if (json_error_code(&e) == json_error_out_of_memory) return out_of_memory();
  return CRN_FAIL(INVALID_ARGUMENT, "conversation: line %d column %d: %s", e.line, e.column, e.text);
}

static cairn_status set_default(json_t *variables, const char *key, json_t *value) {
  if (json_object_get(variables, key)) {
    json_decref(value);
    return CAIRN_OK;
  }
  return json_object_set_new_nocheck(variables, key, value) ? out_of_memory() : CAIRN_OK;
}

static cairn_status add_defaults(json_t *variables, const char *tokens_json) {
  json_t *tokens = NULL, *value;
  const char *key;
  CRN_TRY(set_default(variables, "add_generation_prompt", json_false()));
  CRN_TRY(set_default(variables, "tools", json_null()));
  CRN_TRY(set_default(variables, "documents", json_null()));
  if (!tokens_json) return CAIRN_OK;
  CRN_TRY(parse(tokens_json, strlen(tokens_json), &tokens));
  cairn_status status = CAIRN_OK;
  json_object_foreach(tokens, key, value) {
    if (status == CAIRN_OK) status = set_default(variables, key, json_incref(value));
  }
  json_decref(tokens);
  return status;
}

// The object of variables out of an array of messages or an object that has them.
static cairn_status make_variables(const char *conversation, size_t bytes, const char *tokens_json, json_t **out) {
  json_t *v;
  *out = NULL;
  CRN_TRY(parse(conversation, bytes, &v));
  if (json_is_array(v)) {
    json_t *object = json_object();
    if (json_object_set_new(object, "messages", v)) {  // takes v over, also on failure
      json_decref(object);
      return out_of_memory();
    }
    v = object;
  }
  cairn_status status =
      json_is_array(json_object_get(v, "messages"))
          ? add_defaults(v, tokens_json)
          : CRN_FAIL(INVALID_ARGUMENT, "conversation: expected an array of messages, or an object with the array 'messages'");
  if (status == CAIRN_OK) {
    *out = v;
  } else {
    json_decref(v);
  }
  return status;
}

// --- continuing the last message ------------------------------------------------------------------------------------

typedef struct continuation {
  const char *field;  ///< NULL = the last message is not continued
  crn_str text;       ///< what the member says
} continuation;

static cairn_status refuse(const char *why) { return CRN_FAIL(INVALID_ARGUMENT, "continue_final_message: %s", why); }

// Appends the tag to a text that is a member of `object`.
static cairn_status tag_text(json_t *object, const char *key, crn_str *out_text) {
  const json_t *v = json_object_get(object, key);
  crn_str tagged;
  if (!json_is_string(v)) return refuse("what is to be continued is no text");
  CRN_TRY(crn_str_append(out_text, json_string_value(v), json_string_length(v)));
  crn_str_initialize(&tagged, out_text->allocator);
  cairn_status status = crn_str_append(&tagged, out_text->data, out_text->size);
  if (status == CAIRN_OK) status = crn_str_puts(&tagged, g_tag);
  if (status == CAIRN_OK && json_object_set_new(object, key, json_stringn(tagged.data, tagged.size))) status = out_of_memory();
  crn_str_deinitialize(&tagged);
  return status;
}

// The last part that has a text.
static cairn_status tag_part(json_t *parts, crn_str *out_text) {
  for (size_t i = json_array_size(parts); i-- > 0;) {
    json_t *part = json_array_get(parts, i);
    if (json_object_get(part, "text")) return tag_text(part, "text", out_text);
  }
  return refuse("no part of the last message has a text");
}

static cairn_status start_continuation(json_t *variables, const char *source, size_t source_bytes, continuation *c) {
  const json_t *messages = json_object_get(variables, "messages");
  json_t *last = json_array_get(messages, json_array_size(messages) - 1);
  if (json_is_true(json_object_get(variables, "add_generation_prompt")))
    return refuse("add_generation_prompt starts a new message; only one of the two can be true");
  if (!json_is_object(last)) return refuse("there is no last message");
  json_t *member = json_object_get(last, c->field);
  if (!member || json_is_null(member)) return CRN_FAIL(INVALID_ARGUMENT, "continue_final_message: the last message has no '%s'", c->field);
  if (!memmem(source, source_bytes, c->field, strlen(c->field)))
    return CRN_FAIL(INVALID_ARGUMENT, "continue_final_message: '%s' is nothing the chat template looks at", c->field);
  return json_is_array(member) ? tag_part(member, &c->text) : tag_text(last, c->field, &c->text);
}

static size_t strip_end(const char *text, size_t n) {
  const char *p = text + n;
  while (p > text) {
    uint32_t code;
    const char *before = crn_tmpl_text_previous(text, p, &code);
    if (!crn_code_is_space(code)) break;
    p = before;
  }
  return (size_t)(p - text);
}

static size_t strip_start(const char *text, size_t n) {
  const char *p = text, *end = text + n;
  while (p < end) {
    uint32_t code;
    const char *next = crn_tmpl_text_next(p, end, &code);
    if (!crn_code_is_space(code)) break;
    p = next;
  }
  return (size_t)(p - text);
}

static const char *find_last(const crn_str *text, const char *what, size_t n) {
  for (size_t i = text->size >= n ? text->size - n + 1 : 0; i-- > 0;) {
    if (!memcmp(text->data + i, what, n)) return text->data + i;
  }
  return NULL;
}

// Cuts the rendering where the text that is continued ends. A template that strips its messages loses the space behind the
// tag; then the white space before the tag goes, too.
static cairn_status end_continuation(const continuation *c, crn_str *rendered) {
  size_t first = strip_start(c->text.data, c->text.size), end = strip_end(c->text.data, c->text.size);
  size_t n_tag = strlen(g_tag) - 1;
  const char *text = c->text.data + (first < end ? first : end);
  size_t n = first < end ? end - first : 0;
  const char *tag = find_last(rendered, g_tag, n_tag);
  if (!tag || (n && !memmem(rendered->data, rendered->size, text, n)))
    return refuse("the last message's text does not appear in what the chat template makes of the conversation");
  bool keeps = (size_t)(tag - rendered->data) + n_tag < rendered->size && tag[n_tag] == g_tag[n_tag];
  rendered->size = (size_t)(tag - rendered->data);
  if (!keeps) rendered->size = strip_end(rendered->data, rendered->size);
  rendered->data[rendered->size] = 0;
  return CAIRN_OK;
}

// --- rendering ------------------------------------------------------------------------------------------------------

static cairn_status render_text(const cairn_template *t, const json_t *variables, const cairn_template_limits *limits, crn_str *out) {
  char *json = json_dumps(variables, JSON_COMPACT);
  if (!json) return out_of_memory();
  size_t bytes = strlen(json), need = 0;
  cairn_status status = crn_str_reserve(out, 4 * bytes + 1024);
  if (status == CAIRN_OK) status = cairn_template_render(t, json, bytes, limits, out->data, out->capacity - 1, &need);
  if (status == CAIRN_OK && need >= out->capacity) {
    status = crn_str_reserve(out, need);
    if (status == CAIRN_OK) status = cairn_template_render(t, json, bytes, limits, out->data, out->capacity - 1, &need);
    if (status == CAIRN_OK && need >= out->capacity) status = CRN_FAIL(INTERNAL, "the chat template gave texts of different sizes");
  }
  free(json);
  if (status != CAIRN_OK) return status;
  out->size = need;
  out->data[need] = 0;
  return CAIRN_OK;
}

// Members that are for this side of the template are taken out of its variables.
static cairn_status take_member(json_t *variables, const char *key, json_t **out) {
  *out = json_incref(json_object_get(variables, key));
  json_object_del(variables, key);
  return CAIRN_OK;
}

static cairn_status render(const cairn_template_set *set, json_t *variables, const cairn_template_limits *limits, continuation *c,
                           crn_str *out) {
  const cairn_template *t;
  const char *source;
  size_t source_bytes;
  json_t *name = NULL, *field = NULL;
  cairn_status status;
  CRN_TRY_GOTO(take_member(variables, "chat_template", &name));
  CRN_TRY_GOTO(take_member(variables, "continue_final_message", &field));
  if (json_is_true(field)) c->field = "content";
  if (json_string_length(field)) c->field = json_string_value(field);
  bool has_tools = !json_is_null(json_object_get(variables, "tools"));
  CRN_TRY_GOTO(cairn_template_set_pick(set, json_string_value(name), has_tools, &t, &source, &source_bytes));
  if (c->field) CRN_TRY_GOTO(start_continuation(variables, source, source_bytes, c));
  CRN_TRY_GOTO(render_text(t, variables, limits, out));
  if (c->field) CRN_TRY_GOTO(end_continuation(c, out));
done:
  json_decref(name);
  json_decref(field);
  return status;
}

cairn_status cairn_template_set_render(const cairn_template_set *set, const char *conversation_json, size_t conversation_bytes,
                                       const char *tokens_json, const cairn_template_limits *limits, char *out_text, size_t capacity,
                                       size_t *out_bytes) {
  CRN_REQUIRE(set);
  CRN_REQUIRE_SOME(out_text, capacity);
  CRN_REQUIRE(out_bytes);
  json_t *variables = NULL;
  continuation c = {0};
  crn_str out;
  *out_bytes = 0;
  CRN_TRY(make_variables(conversation_json, conversation_bytes, tokens_json, &variables));
  crn_str_initialize(&c.text, &set->context->allocator);
  crn_str_initialize(&out, &set->context->allocator);
  cairn_status status = render(set, variables, limits, &c, &out);
  if (status == CAIRN_OK) {
    size_t n = out.size < capacity ? out.size : capacity;
    if (n) memcpy(out_text, out.data, n);
    *out_bytes = out.size;
  }
  crn_str_deinitialize(&out);
  crn_str_deinitialize(&c.text);
  json_decref(variables);
  return status;
}
