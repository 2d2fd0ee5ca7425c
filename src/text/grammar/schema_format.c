// Formats as patterns. They say what a text means, and readers do not agree on all of it; where they do not, a pattern is narrower than the
// standard. The near one is for a format alone: what a model would write. Where other keywords say more, the wide one holds with them.
#include <string.h>

#include "text/grammar/schema.h"

// Days that there are; the 29th of February in leap years.
#define LEAPS "0[48]|[2468][048]|[13579][26]"
#define DAYS "((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))"
#define NEAR_DATE "((19|20)[0-9]{2}-" DAYS "|(19(" LEAPS ")|20(00|" LEAPS "))-02-29)"
#define DATE "((000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})-" DAYS "|([0-9]{2}(" LEAPS ")|(" LEAPS ")00)-02-29)"
#define CLOCK "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
#define NEAR_TIME CLOCK "(\\.[0-9]{1,6})?(Z|[+-](0[0-9]|1[0-2]):[0-5][0-9])"
#define TIME CLOCK "(\\.[0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"

#define N "[0-9]+"
#define SECONDS N "S"
#define MINUTES N "M(" SECONDS ")?"
#define HOURS N "H(" MINUTES ")?"
#define OF_DAY "T(" HOURS "|" MINUTES "|" SECONDS ")"
#define DAY N "D"
#define MONTHS N "M(" DAY ")?"
#define YEARS N "Y(" MONTHS ")?"
#define DURATION "(" DAY "|" MONTHS "|" YEARS ")(" OF_DAY ")?|" OF_DAY "|" N "W"

#define DOMAIN "[A-Za-z0-9]+(-+[A-Za-z0-9]+)*(\\.[A-Za-z0-9]+(-+[A-Za-z0-9]+)*)*\\.[A-Za-z]{2,"
#define ATOM "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"

#define BYTE "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define IPV4 BYTE "(\\." BYTE "){3}"
#define H "[0-9A-Fa-f]{1,4}"
#define IPV6                                      \
  "(" H ":){7}(" H "|:)|(" H ":){6}(:" H "|" IPV4 \
  "|:)|"                                          \
  "(" H ":){5}((:" H "){1,2}|(:" H "){0,0}:" IPV4 \
  "|:)|"                                          \
  "(" H ":){4}((:" H "){1,3}|(:" H "){0,1}:" IPV4 \
  "|:)|"                                          \
  "(" H ":){3}((:" H "){1,4}|(:" H "){0,2}:" IPV4 \
  "|:)|"                                          \
  "(" H ":){2}((:" H "){1,5}|(:" H "){0,3}:" IPV4 \
  "|:)|"                                          \
  "(" H ":){1}((:" H "){1,6}|(:" H "){0,4}:" IPV4 \
  "|:)|"                                          \
  ":((:" H "){1,7}|(:" H "){0,5}:" IPV4 "|:)"

#define ESCAPED "%[0-9A-Fa-f]{2}"
#define OF_PATH "([A-Za-z0-9._~!$&'()*+,;=:@-]|" ESCAPED ")"
#define OF_NAME "([A-Za-z0-9._~!$&'()*+,;=-]|" ESCAPED ")"
#define OF_USER "([A-Za-z0-9._~!$&'()*+,;=:-]|" ESCAPED ")"
#define OF_QUERY "([A-Za-z0-9._~!$&'()*+,;=:@/?-]|" ESCAPED ")"
#define URI                                                                                                     \
  "[A-Za-z][A-Za-z0-9+.-]*:(//(" OF_USER "*@)?" OF_NAME "*(:[0-9]*)?(/" OF_PATH "*)*|/?(" OF_PATH "+(/" OF_PATH \
  "*)*)?)"                                                                                                      \
  "(\\?" OF_QUERY "*)?(#" OF_QUERY "*)?"

static const crn_format FORMATS[] = {
    {"date", "^" NEAR_DATE "$", "^" DATE "$", true},
    {"time", "^" NEAR_TIME "$", "^" TIME "$", false},
    {"date-time", "^" NEAR_DATE "T" NEAR_TIME "$", "^" DATE "T" TIME "$", false},
    {"duration", "^P([0-9]{1,4}D|[0-9]{1,4}W|([0-9]{1,4}D)?T[0-9]{1,4}(H|M|S))$", "^P(" DURATION ")$", true},
    {"email", "^[A-Za-z0-9_]+([.+-][A-Za-z0-9_]+)*@" DOMAIN "12}$", "^" ATOM "(\\." ATOM ")*@" DOMAIN "63}$", false},
    {"hostname", "^[A-Za-z0-9]{1,20}(-[A-Za-z0-9]{1,20})?(\\.[A-Za-z0-9]{1,20}(-[A-Za-z0-9]{1,20})?){0,4}$", NULL, false},
    {"ipv4", "^" IPV4 "$", NULL, true},
    {"ipv6", "^([0-9a-f]{1,4}:){7}[0-9a-f]{1,4}$", "^(" IPV6 ")$", true},
    {"uuid", "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$", NULL, true},
    {"uri", "^[a-z][a-z0-9+.-]*://[A-Za-z0-9]+([.-][A-Za-z0-9]+)*(:[0-9]{1,4})?(/[A-Za-z0-9._~-]*)*(\\?[A-Za-z0-9._~=&-]*)?$", "^" URI "$",
     false},
    {"json-pointer", "^(/[A-Za-z0-9_ -]*)*$", "^(/([^~/]|~[01])*)*$", true},
};

const crn_format *crn_schema_format(const json_t *schema) {
  const char *name = json_string_value(json_object_get(schema, "format"));
  for (size_t i = 0; name && i < sizeof FORMATS / sizeof *FORMATS; i++) {
    if (!strcmp(FORMATS[i].name, name)) return &FORMATS[i];
  }
  return NULL;
}
