// Rules of tool calls, form by form. What they allow is what text/dialogue reads; where that takes several ways of writing, these are the
// ones that chat templates show the models.
#include "text/grammar/tools.h"

#include <string.h>

#include "text/grammar/schema.h"

// The rule of the calls of one tool in one form.
typedef struct call_rule {
  size_t tool;
  int32_t rule;
} call_rule;

typedef struct builder {
  crn_rules *r;
  crn_schema values;  ///< in the style of the form
  crn_schema plain;   ///< of parameters in tags that are texts
  const crn_tool_place *place;
  const json_t *tools;
  const crn_node *any_text;  ///< up to the end of a parameter; NULL until it is needed
  CRN_VEC(call_rule) calls;
} builder;

static const crn_node *text(builder *b, const char *t) { return crn_node_literal(b->r, t); }
static const crn_node *maybe(builder *b, const crn_node *node) { return crn_node_repeat(b->r, node, 0, 1); }
static const crn_node *line(builder *b) { return maybe(b, text(b, "\n")); }
// More calls of the same kind. Who asks for one tool by name gets one call of it.
static const crn_node *more_calls(builder *b, const crn_node *call) {
  return crn_node_repeat(b->r, call, 0, b->place->tool && !b->place->is_named ? 0 : -1);
}

// --- tools ----------------------------------------------------------------------------------------------------------------------

static crn_style style_of(const crn_tool_place *place) {
  switch (place->kind) {
    case CRN_CALL_PYTHON_BLOCK:
    case CRN_CALL_BARE_LIST:
      return (crn_style){CRN_STYLE_PYTHON, NULL};
    case CRN_CALL_GEMMA:
      return (crn_style){CRN_STYLE_DELIMITED, place->delimiter};
    default:
      return (crn_style){CRN_STYLE_JSON, NULL};
  }
}

// A schema of the tool's own, for what tools without parameters take.
static const json_t *no_parameters(builder *b) {
  return crn_schema_make(&b->values, json_pack("{s:s,s:{},s:b}", "type", "object", "properties", "additionalProperties", 0));
}

// The object of the arguments.
static const crn_node *arguments(builder *b, size_t i) {
  const json_t *own = crn_tool_parameters(b->tools, i);
  const bool says_nothing = !own || (json_is_object(own) && json_object_size(own) == 0);
  const json_t *schema = says_nothing ? no_parameters(b) : own;
  const json_t *object = crn_schema_make(&b->values, json_pack("{s:s}", "type", "object"));
  crn_terms terms = {0};
  if (!schema || !object) return crn_node_empty();
  b->values.root = (json_t *)schema;
  crn_schema_check(&b->values, schema);
  if (crn_rules_failed(b->r)) return crn_node_empty();
  crn_terms_add(&b->values, &terms, (crn_term){schema, 0});
  crn_terms_add(&b->values, &terms, (crn_term){object, 0});
  return crn_schema_value(&b->values, &terms);
}

// --- members one by one -----------------------------------------------------------------------------------------------------------

static const json_t *list_of(builder *b, size_t i, const char *keyword) {
  static const char *const kTooMuch[] = {"$ref",
                                         "$dynamicRef",
                                         "$recursiveRef",
                                         "enum",
                                         "const",
                                         "dependencies",
                                         "allOf",
                                         "anyOf",
                                         "oneOf",
                                         "not",
                                         "if",
                                         "patternProperties",
                                         "minProperties",
                                         "maxProperties",
                                         "dependentRequired",
                                         "dependentSchemas",
                                         "propertyNames"};
  const json_t *schema = crn_tool_parameters(b->tools, i);
  for (size_t k = 0; k < sizeof kTooMuch / sizeof *kTooMuch; k++) {
    if (json_object_get(schema, kTooMuch[k])) {
      crn_rules_fail(b->r, CRN_FAIL(UNSUPPORTED, "parameters with '%s' cannot be kept where they are written one by one", kTooMuch[k]));
    }
  }
  return json_object_get(schema, keyword);
}

static bool is_required(const json_t *required, const char *name) {
  size_t i;
  json_t *item;
  json_array_foreach(required, i, item) {
    if (json_is_string(item) && !strcmp(json_string_value(item), name)) return true;
  }
  return false;
}

typedef const crn_node *(*member_fn)(builder *b, const char *name, const json_t *schema);

// Members in the order of the schema, those that need not be there left out or not; `comma` between them.
static const crn_node *members(builder *b, size_t i, member_fn member, const char *comma) {
  const json_t *own = crn_tool_parameters(b->tools, i), *item;
  const crn_node *fresh = crn_node_empty(), *behind = crn_node_empty();
  crn_node_vec nodes = {0};
  CRN_VEC(bool) needed = {0};
  const char *name;
  size_t k;
  b->values.root = b->plain.root = (json_t *)own;
  if (own) crn_schema_check(&b->values, own);
  if (json_is_false(own) || !(crn_schema_types(own) & CRN_TYPE_OBJECT)) return crn_node_never();
  const json_t *properties = list_of(b, i, "properties"), *required = list_of(b, i, "required");
  json_array_foreach(required, k, item) {
    if (json_is_string(item) && !json_object_get(properties, json_string_value(item)))
      crn_rules_fail(b->r, CRN_FAIL(UNSUPPORTED, "parameter '%s' is required, but not described", json_string_value(item)));
  }
  json_object_foreach((json_t *)properties, name, item) {
    crn_nodes_add(b->r, &nodes, member(b, name, item));
    if (!crn_rules_failed(b->r) && crn_vec_push(b->r->allocator, &needed, is_required(required, name)) != CAIRN_OK)
      crn_rules_fail(b->r, CAIRN_OUT_OF_MEMORY);
  }
  for (size_t n = nodes.size; n-- > 0 && !crn_rules_failed(b->r);) {
    const crn_node *never = crn_node_never(), *node = nodes.items[n], *next = behind;
    const crn_node *first = CRN_ANY(b->r, CRN_ALL(b->r, node, next), needed.items[n] ? never : fresh);
    const crn_node *later = CRN_ANY(b->r, CRN_ALL(b->r, text(b, comma), node, next), needed.items[n] ? never : behind);
    const int32_t rule = crn_rule_new(b->r), other = crn_rule_new(b->r);
    crn_rule_set(b->r, rule, first);
    crn_rule_set(b->r, other, later);
    fresh = first->kind == CRN_NODE_NEVER ? first : crn_node_rule(b->r, rule);
    behind = later->kind == CRN_NODE_NEVER ? later : crn_node_rule(b->r, other);
  }
  crn_vec_free(b->r->allocator, &nodes);
  crn_vec_free(b->r->allocator, &needed);
  return fresh;
}

// --- parameters in tags -------------------------------------------------------------------------------------------------------------

// Any text in which an end tag does not stand: a rule for each of its beginnings that may have been written. A tag begins with a `<` and
// has no other. The end tag itself is part of the rules.
static const crn_node *up_to(builder *b, const char *end) {
  const size_t n = strlen(end);
  const int32_t first = crn_rule_new(b->r);
  for (size_t i = 1; i < n; i++) crn_rule_new(b->r);
  for (size_t i = 0; i < n && !crn_rules_failed(b->r); i++) {
    const unsigned char c = (unsigned char)end[i];
    const crn_range special[] = {{c, c}, {'<', '<'}, {0, 8}, {11, 31}};
    const crn_node *other = crn_node_set(b->r, crn_set_not(b->r, crn_set_make(b->r, special, 4)));
    const crn_node *on = i + 1 < n ? crn_node_rule(b->r, first + (int32_t)i + 1) : crn_node_empty();
    const crn_node *again = i ? CRN_ALL(b->r, text(b, "<"), crn_node_rule(b->r, first + 1)) : crn_node_never();
    const char one[2] = {end[i], 0};
    crn_rule_set(b->r, first + (int32_t)i,
                 CRN_ANY(b->r, CRN_ALL(b->r, text(b, one), on), again, CRN_ALL(b->r, other, crn_node_rule(b->r, first))));
  }
  return crn_node_rule(b->r, first);
}

static bool has_any(const json_t *schema, const char *const *keywords, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (json_object_get(schema, keywords[i])) return true;
  }
  return false;
}

// Without a `type` the keywords say what a value is, as elsewhere.
static void types_of(const json_t *schema, bool *out_may_be_text, bool *out_may_be_other) {
  static const char *const kText[] = {"pattern", "minLength", "maxLength", "format"};
  static const char *const kOther[] = {"properties",
                                       "required",
                                       "additionalProperties",
                                       "patternProperties",
                                       "propertyNames",
                                       "minProperties",
                                       "maxProperties",
                                       "items",
                                       "prefixItems",
                                       "minItems",
                                       "maxItems",
                                       "contains",
                                       "uniqueItems",
                                       "minimum",
                                       "maximum",
                                       "exclusiveMinimum",
                                       "exclusiveMaximum",
                                       "multipleOf",
                                       "dependentRequired",
                                       "dependentSchemas"};
  const bool says_text = has_any(schema, kText, sizeof kText / sizeof *kText);
  const bool says_other = has_any(schema, kOther, sizeof kOther / sizeof *kOther);
  *out_may_be_text = says_text || !says_other;
  *out_may_be_other = says_other || !says_text;
}

static const crn_node *value_in_style(builder *b, crn_schema *s, crn_style style, const json_t *schema, const json_t *also) {
  crn_terms terms = {0};
  b->r->style = style;
  crn_terms_add(s, &terms, (crn_term){schema, 0});
  if (also) crn_terms_add(s, &terms, (crn_term){also, 0});
  const crn_node *node = crn_schema_value(s, &terms);
  b->r->style = (crn_style){CRN_STYLE_TAGGED, NULL};
  return node;
}

// The value and its end tag. A tag says nothing of types: how a value is read follows from the tool's schema (text/dialogue/schema.c), and
// where that leaves it open, from the value. So texts begin with letters there that no other value begins with.
static const crn_node *tagged_value(builder *b, const json_t *schema) {
  const crn_xml_dialect *x = b->place->xml;
  const crn_style plain = {CRN_STYLE_PLAIN, NULL}, tagged = {CRN_STYLE_TAGGED, NULL};
  const char *type = json_string_value(json_object_get(schema, "type"));
  const bool is_listed = !json_object_get(schema, "type") && json_is_string(json_array_get(json_object_get(schema, "enum"), 0));
  const crn_node *end = CRN_ALL(b->r, text(b, x->strip_newlines ? "\n" : ""), text(b, x->parameter_end));
  static const char *const kMore[] = {"enum", "const", "pattern", "format", "minLength", "maxLength",
                                      "$ref", "allOf", "anyOf",   "oneOf",  "not",       "if"};
  if (type && !strcmp(type, "string") && !has_any(schema, kMore, sizeof kMore / sizeof *kMore)) {
    if (!b->any_text) b->any_text = up_to(b, x->parameter_end);
    return b->any_text;
  }
  const crn_node *value;
  const json_t *texts = crn_schema_make(&b->plain, json_pack("{s:s}", "type", "string"));
  if ((type && !strcmp(type, "string")) || is_listed) {
    value = value_in_style(b, &b->plain, plain, schema, texts);
  } else if (type) {
    value = value_in_style(b, &b->values, tagged, schema, NULL);
  } else {
    const json_t *others = crn_schema_make(&b->values, json_pack("{s:[sssss]}", "type", "number", "boolean", "null", "array", "object"));
    const json_t *begins = crn_schema_make(
        &b->plain, json_pack("{s:s,s:s}", "type", "string", "pattern", "^[A-EG-HJ-MO-SU-Za-eg-hj-mo-su-z][A-Za-z0-9 ,.:;_-]*$"));
    bool may_be_text, may_be_other;
    types_of(schema, &may_be_text, &may_be_other);
    value = CRN_ANY(b->r, may_be_other ? value_in_style(b, &b->values, tagged, schema, may_be_text ? others : NULL) : crn_node_never(),
                    may_be_text ? value_in_style(b, &b->plain, plain, schema, begins) : crn_node_never());
  }
  return CRN_ALL(b->r, value, end);
}

static const crn_node *tagged_member(builder *b, const char *name, const json_t *schema) {
  const crn_xml_dialect *x = b->place->xml;
  if (strpbrk(name, "<>\"\n")) return crn_rules_fail(b->r, CRN_FAIL(UNSUPPORTED, "parameter '%s' cannot be written in a tag", name));
  return CRN_ALL(b->r, text(b, x->parameter), crn_node_text(b->r, name, strlen(name)), text(b, x->parameter_rest),
                 text(b, x->strip_newlines ? "\n" : ""), tagged_value(b, schema), text(b, "\n"));
}

// From the name of the tool on.
static const crn_node *tagged_call(builder *b, size_t i) {
  const crn_xml_dialect *x = b->place->xml;
  b->r->style = (crn_style){CRN_STYLE_TAGGED, NULL};
  const crn_node *inside = members(b, i, tagged_member, "");
  return CRN_ALL(b->r, text(b, crn_tool_name(b->tools, i)), text(b, x->call_rest), text(b, "\n"), inside, text(b, x->call_end));
}

// --- the other forms ------------------------------------------------------------------------------------------------------------------

static const crn_node *python_member(builder *b, const char *name, const json_t *schema) {
  for (const char *p = name; *p; p++) {
    const bool is_letter = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || *p == '_';
    if (!is_letter && (p == name || *p < '0' || *p > '9'))
      return crn_rules_fail(b->r, CRN_FAIL(UNSUPPORTED, "parameter '%s' is no name of Python", name));
  }
  return CRN_ALL(b->r, crn_node_text(b->r, name, strlen(name)), text(b, "="), crn_schema_value_of(&b->values, schema));
}

static const crn_node *python_rest(builder *b, size_t i) { return CRN_ALL(b->r, members(b, i, python_member, ", "), text(b, ")")); }

static const crn_node *python_call(builder *b, size_t i) {
  return CRN_ALL(b->r, text(b, crn_tool_name(b->tools, i)), text(b, "("), python_rest(b, i));
}

static const char *arguments_key(const builder *b) {
  const bool is_llama = b->place->format == CAIRN_DIALOGUE_LLAMA3;
  return is_llama ? "\"parameters\": " : "\"arguments\": ";
}

static const crn_node *json_rest(builder *b, size_t i) {
  return CRN_ALL(b->r, text(b, ", "), text(b, arguments_key(b)), arguments(b, i), text(b, "}"));
}

static const crn_node *json_call(builder *b, size_t i) {
  const char *name = crn_tool_name(b->tools, i);
  return CRN_ALL(b->r, text(b, "{\"name\": "), crn_form_quoted(b->r, name, strlen(name)), json_rest(b, i));
}

static const crn_node *mistral_call(builder *b, size_t i) {
  return CRN_ALL(b->r, text(b, crn_tool_name(b->tools, i)), text(b, "[ARGS]"), arguments(b, i));
}

static const crn_node *function_with_json(builder *b, size_t i) {
  return CRN_ALL(b->r, text(b, crn_tool_name(b->tools, i)), text(b, ">"), arguments(b, i), text(b, "</function>"));
}

static const crn_node *gemma_call(builder *b, size_t i) {
  return CRN_ALL(b->r, text(b, "call:"), text(b, crn_tool_name(b->tools, i)), arguments(b, i));
}

static const crn_node *deepseek_old(builder *b, size_t i) {
  return CRN_ALL(b->r, text(b, "function<｜tool▁sep｜>"), text(b, crn_tool_name(b->tools, i)), text(b, "\n```json\n"), arguments(b, i),
                 text(b, "\n```<｜tool▁call▁end｜>"));
}

static const crn_node *deepseek_new(builder *b, size_t i) {
  return CRN_ALL(b->r, text(b, crn_tool_name(b->tools, i)), text(b, "<｜tool▁sep｜>"), arguments(b, i), text(b, "<｜tool▁call▁end｜>"));
}

// --- one of the tools -------------------------------------------------------------------------------------------------------------------

// A call of the tool, as a rule by which it is found again when nothing satisfies its schema.
static const crn_node *call_of(builder *b, const crn_node *(*call)(builder *b, size_t i), size_t i) {
  const crn_node *node = call(b, i);
  const int32_t rule = crn_rule_new(b->r);
  crn_rule_set(b->r, rule, node);
  if (!crn_rules_failed(b->r) && crn_vec_push(b->r->allocator, &b->calls, ((call_rule){i, rule})) != CAIRN_OK)
    crn_rules_fail(b->r, CAIRN_OUT_OF_MEMORY);
  if (crn_rules_failed(b->r)) crn_note(b->r->status, "tool '%s'", crn_tool_name(b->tools, i));
  return crn_node_rule(b->r, rule);
}

// A call of each tool that may be called, as a rule that may be used again.
static const crn_node *any_tool(builder *b, const crn_node *(*call)(builder *b, size_t i)) {
  crn_node_vec choices = {0};
  for (size_t i = 0; i < json_array_size(b->tools) && !crn_rules_failed(b->r); i++) {
    const char *name = crn_tool_name(b->tools, i);
    if (name && (!b->place->tool || !strcmp(name, b->place->tool))) crn_nodes_add(b->r, &choices, call_of(b, call, i));
  }
  const int32_t rule = crn_rule_new(b->r);
  const crn_node *all = crn_nodes_any(b->r, &choices);
  crn_rule_set(b->r, rule, all);
  return all->kind == CRN_NODE_NEVER ? all : crn_node_rule(b->r, rule);
}

static const crn_node *row(builder *b, const crn_node *item, const char *between) {
  return CRN_ALL(b->r, item, more_calls(b, CRN_ALL(b->r, text(b, between), item)));
}

static const crn_node *tagged_form(builder *b) {
  const crn_tool_place *p = b->place;
  const bool is_json = p->xml && p->xml->call && p->format != CAIRN_DIALOGUE_QWEN_CODER && !strcmp(p->xml->call, crn_xml_functions.call);
  if (is_json) return CRN_ALL(b->r, line(b), any_tool(b, json_call), line(b), text(b, p->end));
  const crn_node *call = CRN_ALL(b->r, text(b, p->xml->call), any_tool(b, tagged_call));
  return CRN_ALL(b->r, line(b), row(b, call, "\n"), line(b), text(b, p->end));
}

static const crn_node *mistral_form(builder *b) {
  const crn_node *item = any_tool(b, json_call);
  const crn_node *list = CRN_ALL(b->r, maybe(b, text(b, " ")), text(b, "["), row(b, item, ", "), text(b, "]"));
  return CRN_ANY(b->r, any_tool(b, mistral_call), list);
}

static const crn_node *deepseek_form(builder *b) {
  const crn_node *item = CRN_ANY(b->r, any_tool(b, deepseek_old), any_tool(b, deepseek_new));
  const crn_node *next = CRN_ALL(b->r, line(b), text(b, "<｜tool▁call▁begin｜>"), item);
  const crn_node *first = b->place->kind == CRN_CALL_DEEPSEEK_ITEM ? item : next;
  return CRN_ALL(b->r, first, more_calls(b, next), line(b), text(b, "<｜tool▁calls▁end｜>"));
}

static const crn_node *form(builder *b) {
  const crn_tool_place *p = b->place;
  switch (p->kind) {
    case CRN_CALL_TAGGED:
      return tagged_form(b);
    case CRN_CALL_XML:
      if (!p->end) return any_tool(b, function_with_json);
      return CRN_ALL(b->r, any_tool(b, tagged_call), line(b), text(b, p->end));
    case CRN_CALL_PYTHON_TAG:
      return any_tool(b, json_call);
    case CRN_CALL_BARE:
      return any_tool(b, p->is_named ? json_rest : json_call);
    case CRN_CALL_BARE_LIST: {
      const crn_node *more = more_calls(b, CRN_ALL(b->r, text(b, ", "), any_tool(b, python_call)));
      return CRN_ALL(b->r, any_tool(b, p->is_named ? python_rest : python_call), more, text(b, "]"));
    }
    case CRN_CALL_PYTHON_BLOCK:
      return CRN_ALL(b->r, text(b, "\n"), row(b, any_tool(b, python_call), "\n"), text(b, "\n"), text(b, p->end));
    case CRN_CALL_MISTRAL:
      return mistral_form(b);
    case CRN_CALL_GEMMA:
      return CRN_ALL(b->r, any_tool(b, gemma_call), text(b, p->end));
    case CRN_CALL_DEEPSEEK:
    case CRN_CALL_DEEPSEEK_ITEM:
      return deepseek_form(b);
    case CRN_CALL_HARMONY:
      return CRN_ALL(b->r, any_tool(b, arguments), maybe(b, text(b, "<|call|>")));
  }
  return crn_node_never();
}

// --- the whole --------------------------------------------------------------------------------------------------------------------------

bool crn_tool_needs_name(crn_call_kind kind) { return kind == CRN_CALL_BARE || kind == CRN_CALL_BARE_LIST || kind == CRN_CALL_HARMONY; }

const char *crn_tool_opening(cairn_dialogue_format format, crn_tool_place *p, const char **out_behind) {
  *p = (crn_tool_place){.format = format, .kind = CRN_CALL_TAGGED, .end = "</tool_call>", .xml = &crn_xml_functions, .delimiter = ""};
  *out_behind = NULL;
  switch (format) {
    case CAIRN_DIALOGUE_GENERIC:
    case CAIRN_DIALOGUE_HERMES:
      return "<tool_call>";
    case CAIRN_DIALOGUE_QWEN_CODER:
      return "<tool_call>\n";
    case CAIRN_DIALOGUE_LLAMA3:
      p->kind = CRN_CALL_BARE;
      return "";
    case CAIRN_DIALOGUE_MISTRAL:
      p->kind = CRN_CALL_MISTRAL;
      return "[TOOL_CALLS]";
    case CAIRN_DIALOGUE_GEMMA:
      p->kind = CRN_CALL_PYTHON_BLOCK;
      p->end = "```";
      return "```tool_code";
    case CAIRN_DIALOGUE_FUNCTIONGEMMA:
      *p = (crn_tool_place){.format = format, .kind = CRN_CALL_GEMMA, .end = "<end_function_call>", .delimiter = "<escape>"};
      return "<start_function_call>";
    case CAIRN_DIALOGUE_GEMMA4:
      *p = (crn_tool_place){.format = format, .kind = CRN_CALL_GEMMA, .end = "<tool_call|>", .delimiter = "<|\"|>"};
      return "<|tool_call>";
    case CAIRN_DIALOGUE_DEEPSEEK:
      p->kind = CRN_CALL_DEEPSEEK;
      return "<｜tool▁calls▁begin｜>";
    case CAIRN_DIALOGUE_HARMONY:
      p->kind = CRN_CALL_HARMONY;
      *out_behind = " <|constrain|>json<|message|>";
      return "<|channel|>commentary to=functions.";
    case CAIRN_DIALOGUE_AGENTIC:
      p->end = "</atem:function_calls>";
      p->xml = &crn_xml_atem;
      *out_behind = "<|message|><atem:function_calls>";
      return " to=";
    default:
      return NULL;
  }
}

// A reply that begins with a call: in some formats the name of the tool stands in the header.
static const crn_node *opened(builder *b) {
  crn_tool_place place = *b->place;
  const char *behind, *opening = crn_tool_opening(place.format, &place, &behind);
  crn_node_vec choices = {0};
  if (!opening) return crn_rules_fail(b->r, CRN_FAIL(UNSUPPORTED, "the dialogue format has no tool calls"));
  // Behind the end of reasoning models leave lines empty.
  if (!behind) return CRN_ALL(b->r, crn_node_repeat(b->r, text(b, "\n"), 0, 2), text(b, opening), form(b));
  const crn_tool_place *whole = b->place;
  for (size_t i = 0; i < json_array_size(b->tools) && !crn_rules_failed(b->r); i++) {
    const char *name = crn_tool_name(b->tools, i);
    if (!name || (whole->tool && strcmp(whole->tool, name))) continue;
    place = *whole;
    place.tool = name;
    b->place = &place;
    crn_nodes_add(b->r, &choices, CRN_ALL(b->r, text(b, opening), text(b, name), text(b, behind), form(b)));
  }
  b->place = whole;
  return crn_nodes_any(b->r, &choices);
}

// A tool that can never be called is a mistake of whoever described it, also where there are others.
static void check_possible(builder *b) {
  bool *can_end;
  crn_str place;
  cairn_status status = b->r->status;
  size_t i = 0;
  crn_str_initialize(&place, b->r->allocator);
  if (status == CAIRN_OK) status = crn_rules_find_ends(b->r, &can_end);
  while (status == CAIRN_OK && i < b->calls.size && can_end[b->calls.items[i].rule]) i++;
  if (status == CAIRN_OK && i < b->calls.size) {
    const size_t tool = b->calls.items[i].tool;
    b->values.root = (json_t *)crn_tool_parameters(b->tools, tool);
    status = crn_schema_find_empty(&b->values, can_end, b->calls.items[i].rule, &place);
    if (status == CAIRN_OK)
      status = CRN_FAIL(INVALID_ARGUMENT, "the schema: #%s: no value can ever satisfy this", place.size ? place.data : "");
    crn_note(status, "tool '%s'", crn_tool_name(b->tools, tool));
  }
  if (status != CAIRN_OK) crn_rules_fail(b->r, status);
  crn_str_deinitialize(&place);
}

void crn_tools_read(crn_rules *r, const json_t *tools, const crn_tool_place *place, bool with_opening) {
  builder b = {.r = r, .place = place, .tools = tools};
  const int32_t start = crn_rule_new(r);
  r->style = style_of(place);
  crn_schema_initialize(&b.values, r, false);
  crn_schema_initialize(&b.plain, r, false);
  const cairn_status status = crn_tool_check_names(tools, place);
  if (status != CAIRN_OK) crn_rules_fail(r, status);
  if (!crn_rules_failed(r)) crn_rule_set(r, start, with_opening ? opened(&b) : form(&b));
  check_possible(&b);
  crn_vec_free(r->allocator, &b.calls);
  crn_schema_deinitialize(&b.values);
  crn_schema_deinitialize(&b.plain);
}
