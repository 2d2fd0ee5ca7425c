#include "text/template/tests.h"

#include <string.h>

#include "text/template/filters.h"
#include "text/template/methods.h"

typedef tmpl_value V;

#define TEST(name) static cairn_status name(tmpl_render *r, V v, V arg, bool *out)
#define UNUSED_ARGS (void)r, (void)v, (void)arg

static cairn_status remainder_is(tmpl_render *r, V v, V divisor, int64_t wanted, bool *out) {
  V rest;
  CRN_TRY(crn_tmpl_binary(r, TMPL_OP_MOD, v, divisor, &rest));
  return crn_tmpl_equal(r, rest, tmpl_int(wanted), out);
}

TEST(is_odd) {
  UNUSED_ARGS;
  return remainder_is(r, v, tmpl_int(2), 1, out);
}

TEST(is_even) {
  UNUSED_ARGS;
  return remainder_is(r, v, tmpl_int(2), 0, out);
}

TEST(is_divisible) { return remainder_is(r, v, arg, 0, out); }

// Tests that only look at the value.
#define SIMPLE_TEST(name, condition) \
  TEST(name) {                       \
    UNUSED_ARGS;                     \
    *out = (condition);              \
    return CAIRN_OK;                 \
  }

SIMPLE_TEST(is_defined, v.type != TMPL_UNDEFINED)
SIMPLE_TEST(is_undefined, v.type == TMPL_UNDEFINED)
SIMPLE_TEST(is_none, v.type == TMPL_NONE)
SIMPLE_TEST(is_boolean, v.type == TMPL_BOOL)
SIMPLE_TEST(is_false, v.type == TMPL_BOOL && !v.b)
SIMPLE_TEST(is_true, v.type == TMPL_BOOL && v.b)
SIMPLE_TEST(is_integer, v.type == TMPL_INT)
SIMPLE_TEST(is_float, v.type == TMPL_FLOAT)
SIMPLE_TEST(is_number, tmpl_is_number(v))
SIMPLE_TEST(is_string, v.type == TMPL_STRING)
SIMPLE_TEST(is_mapping, v.type == TMPL_DICT)
SIMPLE_TEST(is_iterable, crn_tmpl_is_iterable(v))
SIMPLE_TEST(is_escaped, v.type == TMPL_STRING && v.s->markup)
SIMPLE_TEST(is_same, crn_tmpl_same(v, arg))
SIMPLE_TEST(is_sequence,
            v.type == TMPL_UNDEFINED || v.type == TMPL_STRING || tmpl_is_sequence(v) || v.type == TMPL_DICT || v.type == TMPL_RANGE)
SIMPLE_TEST(is_callable, v.type == TMPL_UNDEFINED || v.type == TMPL_MACRO || v.type == TMPL_METHOD || v.type == TMPL_FUNCTION ||
                             v.type == TMPL_LOOP || v.type == TMPL_JOINER || (v.type == TMPL_BLOCK && v.block))

static cairn_status text_is(tmpl_render *r, V v, tmpl_method_fn method, bool *out) {
  V text, answer;
  CRN_TRY(crn_tmpl_to_str(r, v, &text));
  CRN_TRY(method(r, text, NULL, NULL, &answer));
  *out = answer.b;
  return CAIRN_OK;
}

TEST(is_lower) {
  UNUSED_ARGS;
  return text_is(r, v, crn_tmpl_str_islower, out);
}

TEST(is_upper) {
  UNUSED_ARGS;
  return text_is(r, v, crn_tmpl_str_isupper, out);
}

// A name must be hashable to be looked up, but need not be a string.
static cairn_status check_name(tmpl_render *r, V v) {
  uint64_t hash;
  return crn_tmpl_hash(v, &hash) ? CAIRN_OK : crn_tmpl_fail(r, "unhashable type: '%s'", crn_tmpl_type_name(v));
}

TEST(is_filter) {
  UNUSED_ARGS;
  *out = v.type == TMPL_STRING && crn_tmpl_filter_find(v.s) != NULL;
  return check_name(r, v);
}

TEST(is_test) {
  UNUSED_ARGS;
  *out = v.type == TMPL_STRING && crn_tmpl_test_find(v.s) != NULL;
  return check_name(r, v);
}

TEST(is_in) { return crn_tmpl_contains(r, arg, v, out); }

#define COMPARE_TEST(name, op) \
  TEST(name) { return crn_tmpl_compare(r, op, v, arg, out); }

COMPARE_TEST(is_equal, TMPL_OP_EQ)
COMPARE_TEST(is_different, TMPL_OP_NE)
COMPARE_TEST(is_greater, TMPL_OP_GT)
COMPARE_TEST(is_greater_or_equal, TMPL_OP_GE)
COMPARE_TEST(is_less, TMPL_OP_LT)
COMPARE_TEST(is_less_or_equal, TMPL_OP_LE)

static const tmpl_test g_tests[] = {
    {"odd", is_odd, NULL},
    {"even", is_even, NULL},
    {"divisibleby", is_divisible, "num"},
    {"defined", is_defined, NULL},
    {"undefined", is_undefined, NULL},
    {"filter", is_filter, NULL},
    {"test", is_test, NULL},
    {"none", is_none, NULL},
    {"boolean", is_boolean, NULL},
    {"false", is_false, NULL},
    {"true", is_true, NULL},
    {"integer", is_integer, NULL},
    {"float", is_float, NULL},
    {"lower", is_lower, NULL},
    {"upper", is_upper, NULL},
    {"string", is_string, NULL},
    {"mapping", is_mapping, NULL},
    {"number", is_number, NULL},
    {"sequence", is_sequence, NULL},
    {"iterable", is_iterable, NULL},
    {"callable", is_callable, NULL},
    {"sameas", is_same, "other"},
    {"escaped", is_escaped, NULL},
    {"in", is_in, "seq"},
    {"==", is_equal, "/"},
    {"eq", is_equal, "/"},
    {"equalto", is_equal, "/"},
    {"!=", is_different, "/"},
    {"ne", is_different, "/"},
    {">", is_greater, "/"},
    {"gt", is_greater, "/"},
    {"greaterthan", is_greater, "/"},
    {"ge", is_greater_or_equal, "/"},
    {">=", is_greater_or_equal, "/"},
    {"<", is_less, "/"},
    {"lt", is_less, "/"},
    {"lessthan", is_less, "/"},
    {"<=", is_less_or_equal, "/"},
    {"le", is_less_or_equal, "/"},
};

const tmpl_test *crn_tmpl_test_find(const tmpl_str *name) {
  for (size_t i = 0; i < sizeof g_tests / sizeof *g_tests; i++) {
    if (crn_tmpl_str_is(name, g_tests[i].name)) return &g_tests[i];
  }
  return NULL;
}

cairn_status crn_tmpl_test_apply(tmpl_render *r, const tmpl_test *test, tmpl_value v, const tmpl_args *args, bool *out) {
  V argv[TMPL_MAX_PARAMS];
  const char *params = !test->param ? "" : !strcmp(test->param, "/") ? "/ other" : test->param;
  CRN_TRY(crn_tmpl_bind(r, test->name, params, test->param != NULL, args, argv));
  return test->fn(r, v, argv[0], out);
}
