// Log-probabilities of the tokens of a generation: by the rows of the model, as they are before temperature, filters and grammar.
#include <math.h>
#include <stdlib.h>

#include "llm.h"

typedef struct candidate {
  int32_t token;
  float logit;
} candidate;

/// What a row is divided by, as logarithm. A logit of +inf takes all of the probability; NaN has none.
typedef struct scale {
  double largest, log_sum;
} scale;

static scale scale_of(const float *row, int64_t n) {
  scale s = {-INFINITY, 0};
  double sum = 0;
  for (int64_t i = 0; i < n; i++)
    if (row[i] > s.largest) s.largest = (double)row[i];
  for (int64_t i = 0; i < n && isfinite(s.largest); i++)
    if (!isnan(row[i])) sum += exp((double)row[i] - s.largest);
  s.log_sum = sum > 0 ? log(sum) : 0;
  return s;
}

static double log_probability(const scale *s, float logit) {
  if (isnan(logit) || s->largest == -INFINITY) return -INFINITY;
  if (s->largest == INFINITY) return logit == INFINITY ? 0 : -INFINITY;
  return (double)logit - s->largest - s->log_sum;
}

// The n best, the best first; lower ids first among equals. There may be fewer.
static int find_best(const float *row, int64_t size, int n, candidate *out) {
  int found = 0;
  for (int64_t i = 0; i < size; i++) {
    if (isnan(row[i]) || (found == n && row[i] <= out[found - 1].logit)) continue;
    int at = found < n ? found++ : n - 1;
    for (; at > 0 && out[at - 1].logit < row[i]; at--) out[at] = out[at - 1];
    out[at] = (candidate){(int32_t)i, row[i]};
  }
  return found;
}

static PyObject *best_list(const crn_py_call *c, const scale *s) {
  const int most = c->n_top < c->row_size ? c->n_top : (int)c->row_size;
  candidate *best = malloc(((size_t)most + 1) * sizeof *best);
  if (!best) return PyErr_NoMemory();
  const int n = most > 0 ? find_best(c->row, c->row_size, most, best) : 0;
  PyObject *list = PyList_New(n);
  for (int i = 0; list && i < n; i++) {
    PyObject *pair = Py_BuildValue("(id)", (int)best[i].token, log_probability(s, best[i].logit));
    if (pair && PyList_SetItem(list, i, pair) == 0) continue;
    Py_DECREF(list);
    list = NULL;
  }
  free(best);
  return list;
}

// Appends a new reference, and gives it up.
static bool append(PyObject *list, PyObject *value) {
  const bool ok = value && PyList_Append(list, value) == 0;
  Py_XDECREF(value);
  return ok;
}

bool crn_py_call_rate(crn_py_call *c, int32_t token) {
  if (!c->logprobs && !c->top_logprobs) return true;
  if (!c->has_row || token >= c->row_size) {
    crn_py_fail(CAIRN_INTERNAL, "the engine gave no logits for a token");
    return false;
  }
  const scale s = scale_of(c->row, c->row_size);
  c->has_row = false;
  if (c->logprobs && !append(c->logprobs, PyFloat_FromDouble(log_probability(&s, c->row[token])))) return false;
  return !c->top_logprobs || append(c->top_logprobs, best_list(c, &s));
}
