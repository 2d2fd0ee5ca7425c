#include "base/cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

cairn_status crn_cache_directory(crn_str *out) {
  const char *own = getenv("CAIRN_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  if (own && *own) return crn_str_puts(out, own);
  if (xdg && *xdg) return crn_path_join(out, xdg, "cairn");
  if (home && *home) return crn_path_join(out, home, ".cache/cairn");
  return CRN_FAIL(FAILED_PRECONDITION, "no place for the cache: none of CAIRN_CACHE_DIR, XDG_CACHE_HOME and HOME is set");
}

bool crn_cache_is_off(void) {
  const char *text = getenv("CAIRN_CACHE");
  return text && strcmp(text, "off") == 0;
}

static bool parse_bytes(const char *text, uint64_t *out) {
  char *end;
  errno = 0;
  unsigned long long n = strtoull(text, &end, 10);
  // strtoull takes a sign and blanks in front.
  if (*text < '0' || *text > '9' || *end || errno) return false;
  *out = n;
  return true;
}

uint64_t crn_cache_limit(void) {
  const char *text = getenv("CAIRN_CACHE_LIMIT");
  uint64_t n;
  return text && *text && parse_bytes(text, &n) ? n : (uint64_t)32 << 30;
}

cairn_status crn_cache_check_environment(void) {
  const char *mode = getenv("CAIRN_CACHE"), *most = getenv("CAIRN_CACHE_LIMIT");
  uint64_t n;
  if (mode && *mode && strcmp(mode, "on") != 0 && strcmp(mode, "off") != 0)
    return CRN_FAIL(INVALID_ARGUMENT, "CAIRN_CACHE is '%s'; on or off expected", mode);
  if (most && *most && !parse_bytes(most, &n))
    return CRN_FAIL(INVALID_ARGUMENT, "CAIRN_CACHE_LIMIT is '%s'; a whole number of bytes expected", most);
  return CAIRN_OK;
}
