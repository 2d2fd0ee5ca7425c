#include "tools/describe.h"

#include <stdio.h>
#include <string.h>

cairn_status crn_describe_shape(crn_str *out, const int64_t *shape, int rank) {
  CRN_TRY(crn_str_putc(out, '['));
  for (int i = 0; i < rank; i++) {
    if (i) CRN_TRY(crn_str_putc(out, ','));
    if (shape[i] < 0)
      CRN_TRY(crn_str_putc(out, '?'));
    else
      CRN_TRY(crn_str_printf(out, "%lld", (long long)shape[i]));
  }
  return crn_str_putc(out, ']');
}

// A fourcc as its four letters; anything unprintable as a number.
static void fourcc_text(uint32_t code, char out[16]) {
  char letters[5] = {(char)(code >> 24), (char)(code >> 16), (char)(code >> 8), (char)code, 0};
  for (int i = 0; i < 4; i++) {
    if (letters[i] < 0x20 || letters[i] > 0x7e) {
      snprintf(out, 16, "0x%08x", (unsigned)code);
      return;
    }
  }
  snprintf(out, 16, "%s", letters);
}

cairn_status crn_describe_type(crn_str *out, const cairn_descriptor *d) {
  if (d->is_image) {
    char format[16];
    fourcc_text(d->image_format, format);
    return crn_str_printf(out, "image %s %ux%u", format, (unsigned)d->image_width, (unsigned)d->image_height);
  }
  CRN_TRY(crn_str_printf(out, "%s ", cairn_dtype_name(d->dtype)));
  return crn_describe_shape(out, d->shape, d->rank);
}

cairn_status crn_describe_array(crn_str *out, const cairn_ndarray *array) {
  CRN_TRY(crn_str_printf(out, "%s ", cairn_dtype_name(cairn_ndarray_dtype(array))));
  return crn_describe_shape(out, cairn_ndarray_shape(array), cairn_ndarray_rank(array));
}

static bool is_interleaved(const cairn_descriptor *d) {
  for (int i = 0; i < d->rank; i++)
    if (d->interleave[i] > 1) return true;
  return false;
}

static cairn_status print_values(const char *what, const cairn_descriptor *values, int n) {
  crn_str text;
  crn_str_initialize(&text, NULL);
  cairn_status status = CAIRN_OK;
  int width = 0;
  for (int i = 0; i < n; i++) width = (int)strlen(values[i].name) > width ? (int)strlen(values[i].name) : width;
  for (int i = 0; i < n; i++) {
    crn_str_clear(&text);
    CRN_TRY_GOTO(crn_describe_type(&text, &values[i]));
    if (is_interleaved(&values[i])) {
      CRN_TRY_GOTO(crn_str_puts(&text, "  interleave "));
      CRN_TRY_GOTO(crn_describe_shape(&text, values[i].interleave, values[i].rank));
    }
    printf("  %-7s %-*s  %s\n", i ? "" : what, width, values[i].name, text.data);
  }
done:
  crn_str_deinitialize(&text);
  return status;
}

cairn_status crn_print_function(const cairn_function_info *f) {
  printf("function %s\n", f->name);
  CRN_TRY(print_values("inputs", f->inputs, f->n_inputs));
  CRN_TRY(print_values("outputs", f->outputs, f->n_outputs));
  return print_values("states", f->states, f->n_states);
}

void crn_write_shape(crn_json_writer *w, const int64_t *shape, int rank) {
  crn_jw_open_array(w, true);
  for (int i = 0; i < rank; i++) {
    if (shape[i] < 0)
      crn_jw_null(w);
    else
      crn_jw_integer(w, shape[i]);
  }
  crn_jw_close_array(w);
}

void crn_write_descriptor(crn_json_writer *w, const cairn_descriptor *d) {
  crn_jw_open_inline_object(w);
  crn_jw_put_text(w, "name", d->name);
  crn_jw_put_text(w, "dtype", d->is_image ? "image" : cairn_dtype_name(d->dtype));
  crn_jw_key(w, "shape");
  crn_write_shape(w, d->shape, d->rank);
  if (d->is_image) {
    char format[16];
    fourcc_text(d->image_format, format);
    crn_jw_key(w, "image");
    crn_jw_open_inline_object(w);
    crn_jw_put_text(w, "format", format);
    crn_jw_put_integer(w, "width", d->image_width);
    crn_jw_put_integer(w, "height", d->image_height);
    crn_jw_close_object(w);
  }
  crn_jw_close_object(w);
}

static void write_list(crn_json_writer *w, const char *key, const cairn_descriptor *values, int n) {
  crn_jw_key(w, key);
  crn_jw_open_array(w, n == 0);
  for (int i = 0; i < n; i++) crn_write_descriptor(w, &values[i]);
  crn_jw_close_array(w);
}

void crn_write_function(crn_json_writer *w, const cairn_function_info *f) {
  crn_jw_open_object(w);
  crn_jw_put_text(w, "name", f->name);
  write_list(w, "inputs", f->inputs, f->n_inputs);
  write_list(w, "outputs", f->outputs, f->n_outputs);
  write_list(w, "states", f->states, f->n_states);
  crn_jw_close_object(w);
}
