/// Bicubic resizing of RGB bytes, one direction after the other.
///
/// Every target pixel is a weighted sum of the source pixels its filter covers. The weights are rounded to 22 bits of fraction and
/// the sum of the first direction is rounded to a byte before the second: only this way the bytes are those of Pillow.
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "engines/vision/image.h"

enum { FRACTION_BITS = 32 - 8 - 2 };

typedef struct filter {
  int64_t n_taps;  ///< weights of each target pixel
  int64_t *first;  ///< the first source pixel of each
  int64_t *count;  ///< how many of the weights count
  int32_t *weights;
} filter;

static double cubic(double x) {
  const double a = -0.5;
  x = fabs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

static void filter_free(const cairn_allocator *allocator, filter *f, int64_t size) {
  crn_free(allocator, f->first, (size_t)size * sizeof *f->first);
  crn_free(allocator, f->count, (size_t)size * sizeof *f->count);
  crn_free(allocator, f->weights, (size_t)(size * f->n_taps) * sizeof *f->weights);
}

static void fill_weights(filter *f, int64_t from, int64_t size, double *row) {
  const double scale = (double)from / (double)size, widening = scale < 1 ? 1 : scale, support = 2 * widening, narrowing = 1 / widening;
  for (int64_t i = 0; i < size; i++) {
    double center = ((double)i + 0.5) * scale, total = 0;
    int64_t first = (int64_t)(center - support + 0.5), end = (int64_t)(center + support + 0.5);
    if (first < 0) first = 0;
    if (end > from) end = from;
    for (int64_t k = 0; k < end - first; k++) total += row[k] = cubic(((double)(k + first) - center + 0.5) * narrowing);
    for (int64_t k = 0; k < end - first; k++) {
      double w = total != 0 ? row[k] / total : row[k];
      f->weights[i * f->n_taps + k] = (int32_t)(w < 0 ? w * (1 << FRACTION_BITS) - 0.5 : w * (1 << FRACTION_BITS) + 0.5);
    }
    f->first[i] = first;
    f->count[i] = end - first;
  }
}

static cairn_status filter_create(const cairn_allocator *allocator, int64_t from, int64_t size, filter *f) {
  const double scale = (double)from / (double)size;
  double *row = NULL;
  cairn_status status;
  *f = (filter){.n_taps = (int64_t)ceil(2 * (scale < 1 ? 1 : scale)) * 2 + 1};
  CRN_TRY_GOTO(crn_alloc_array(allocator, (size_t)size, sizeof *f->first, &f->first));
  CRN_TRY_GOTO(crn_alloc_array(allocator, (size_t)size, sizeof *f->count, &f->count));
  CRN_TRY_GOTO(crn_alloc_array(allocator, (size_t)(size * f->n_taps), sizeof *f->weights, &f->weights));
  CRN_TRY_GOTO(crn_alloc_array(allocator, (size_t)f->n_taps, sizeof *row, &row));
  fill_weights(f, from, size, row);
done:
  crn_free(allocator, row, (size_t)f->n_taps * sizeof *row);
  if (status != CAIRN_OK) filter_free(allocator, f, size);
  return status;
}

static unsigned char to_byte(int64_t sum) {
  sum >>= FRACTION_BITS;
  return (unsigned char)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

// One line: `n` target pixels `to_step` bytes apart from source pixels `from_step` bytes apart.
static void resize_line(const filter *f, const unsigned char *from, int64_t from_step, unsigned char *to, int64_t to_step, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    const int32_t *weights = f->weights + i * f->n_taps;
    const unsigned char *source = from + f->first[i] * from_step;
    for (int channel = 0; channel < 3; channel++) {
      int64_t sum = (int64_t)1 << (FRACTION_BITS - 1);
      for (int64_t k = 0; k < f->count[i]; k++) sum += (int64_t)weights[k] * source[k * from_step + channel];
      to[i * to_step + channel] = to_byte(sum);
    }
  }
}

static cairn_status resize_width(const crn_image *source, int64_t width, crn_image *out) {
  filter f;
  CRN_TRY(crn_image_create(source->allocator, width, source->height, out));
  cairn_status status = filter_create(source->allocator, source->width, width, &f);
  if (status != CAIRN_OK) {
    crn_image_free(out);
    return status;
  }
  for (int64_t y = 0; y < source->height; y++) resize_line(&f, source->rgb + y * source->width * 3, 3, out->rgb + y * width * 3, 3, width);
  filter_free(source->allocator, &f, width);
  return CAIRN_OK;
}

static cairn_status resize_height(const crn_image *source, int64_t height, crn_image *out) {
  filter f;
  const int64_t step = source->width * 3;
  CRN_TRY(crn_image_create(source->allocator, source->width, height, out));
  cairn_status status = filter_create(source->allocator, source->height, height, &f);
  if (status != CAIRN_OK) {
    crn_image_free(out);
    return status;
  }
  for (int64_t x = 0; x < source->width; x++) resize_line(&f, source->rgb + x * 3, step, out->rgb + x * 3, step, height);
  filter_free(source->allocator, &f, height);
  return CAIRN_OK;
}

static cairn_status copy(const crn_image *source, crn_image *out) {
  CRN_TRY(crn_image_create(source->allocator, source->width, source->height, out));
  memcpy(out->rgb, source->rgb, (size_t)(source->width * source->height) * 3);
  return CAIRN_OK;
}

// A direction whose size stays is left out, as a picture that keeps its size is not changed at all.
cairn_status crn_image_resize(const crn_image *source, int64_t width, int64_t height, crn_image *out_image) {
  crn_image across = {0};
  *out_image = (crn_image){0};
  if (width == source->width && height == source->height) return copy(source, out_image);
  if (height == source->height) return resize_width(source, width, out_image);
  if (width == source->width) return resize_height(source, height, out_image);
  CRN_TRY(resize_width(source, width, &across));
  cairn_status status = resize_height(&across, height, out_image);
  crn_image_free(&across);
  return status;
}
