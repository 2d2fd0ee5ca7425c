#include "text/tokenizer/models/score.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The shortest digits that give the value back are what the file holds.
static void shortest(double value, char out[40]) {
  for (int digits = 15; digits <= 17; digits++) {
    snprintf(out, 40, "%.*e", digits - 1, value);
    if (strtod(out, NULL) == value) return;
  }
}

double crn_score_as_read(double value) {
  char text[40];
  double magnitude = value < 0 ? -value : value;
  if (!(magnitude > 0) || magnitude > 1e300) return value;
  shortest(magnitude, text);
  uint64_t significand = 0;
  int exponent = 0, trailing = 0;
  const char *p = text;
  for (bool behind_point = false; *p && *p != 'e'; p++) {
    if (*p == '.' || *p == ',') {
      behind_point = true;
      continue;
    }
    significand = significand * 10 + (uint64_t)(*p - '0');
    exponent -= behind_point;
    trailing = *p == '0' ? trailing + 1 : 0;
  }
  // Digits that are zero at the end are not written in the file.
  for (; trailing && significand; trailing--, exponent++) significand /= 10;
  if (*p == 'e') exponent += atoi(p + 1);
  double result = (double)significand, power = 1;
  if (exponent < -300 || exponent > 300) return value;
  snprintf(text, sizeof text, "1e%d", exponent < 0 ? -exponent : exponent);
  power = strtod(text, NULL);
  result = exponent < 0 ? result / power : result * power;
  return value < 0 ? -result : result;
}
