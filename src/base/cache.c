#include "base/cache.h"

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
