// Pictures against Pillow: decoding every kind of file, resizing to the byte; the strategies, the scale, and damaged files.
#include "engines/vision/image.h"

#include <math.h>

#include "base/alloc.h"
#include "engines/llm/test_folder.h"
#include "import/safetensors.h"

#define DATA CAIRN_TEST_DATA "/vision/"

static crn_safetensors *g_goldens;

static bool has_format(const char *name) {
  if (strstr(name, ".png")) return strstr(crn_image_formats(), "PNG and") || strstr(crn_image_formats(), "PNG, ");
  if (strstr(name, ".jpg")) return strstr(crn_image_formats(), "JPEG and");
  return true;
}

static crn_image read_picture(const char *name) {
  crn_image image;
  char path[512];
  snprintf(path, sizeof path, DATA "%s", name);
  test_expect(crn_image_read(crn_default_allocator(), path, &image), CAIRN_OK, "");
  return image;
}

static void same_as(const char *golden, const crn_image *image, int most) {
  const crn_safetensors_entry *e = crn_safetensors_find(g_goldens, golden);
  if (!e) fail_msg("the goldens have no '%s'", golden);
  assert_int_equal(e->tensor.dims[0], image->height);
  assert_int_equal(e->tensor.dims[1], image->width);
  const unsigned char *expected = e->tensor.data;
  for (int64_t i = 0; i < image->width * image->height * 3; i++) {
    if (abs(expected[i] - image->rgb[i]) > most)
      fail_msg("%s: byte %lld is %d instead of %d", golden, (long long)i, image->rgb[i], expected[i]);
  }
}

static void test_formats(void **state) {
  (void)state;
  static const char *const kNames[] = {"rgb.png", "gray.png", "palette.png", "opaque.png", "rgb.ppm", "gray.pgm", "smooth.jpg", "gray.jpg"};
  for (size_t i = 0; i < sizeof kNames / sizeof *kNames; i++) {
    if (!has_format(kNames[i])) continue;
    crn_image image = read_picture(kNames[i]);
    // Versions of the JPEG libraries may round differently.
    same_as(kNames[i], &image, strstr(kNames[i], ".jpg") ? 2 : 0);
    crn_image_free(&image);
  }
  if (!has_format("x.png")) return;
  // What is transparent shows white, what is opaque its color.
  crn_image alpha = read_picture("alpha.png"), opaque = read_picture("rgb.png");
  for (int channel = 0; channel < 3; channel++) assert_int_equal(alpha.rgb[channel], 255);
  assert_true(abs(alpha.rgb[42 * 3] - opaque.rgb[42 * 3]) <= 4);  // alpha 252 of 255
  crn_image_free(&alpha);
  crn_image_free(&opaque);
}

static void test_resizing(void **state) {
  (void)state;
  static const int kSizes[][2] = {{32, 32}, {7, 5}, {61, 9}, {90, 70}, {1, 1}, {45, 31}, {200, 3}};
  char name[64];
  crn_image source = read_picture("rgb.ppm"), resized;
  for (size_t i = 0; i < sizeof kSizes / sizeof *kSizes; i++) {
    test_expect(crn_image_resize(&source, kSizes[i][0], kSizes[i][1], &resized), CAIRN_OK, "");
    snprintf(name, sizeof name, "rgb.png.%dx%d", kSizes[i][0], kSizes[i][1]);
    same_as(name, &resized, 0);
    crn_image_free(&resized);
  }
  crn_image_free(&source);
  const crn_safetensors_entry *e = crn_safetensors_find(g_goldens, "smooth.jpg");
  assert_non_null(e);
  source = (crn_image){.allocator = crn_default_allocator(), .rgb = (unsigned char *)e->tensor.data, .width = 45, .height = 31};
  for (size_t i = 0; i < sizeof kSizes / sizeof *kSizes; i++) {
    test_expect(crn_image_resize(&source, kSizes[i][0], kSizes[i][1], &resized), CAIRN_OK, "");
    snprintf(name, sizeof name, "smooth.jpg.%dx%d", kSizes[i][0], kSizes[i][1]);
    same_as(name, &resized, 0);
    crn_image_free(&resized);
  }
}

// --- pixel values -------------------------------------------------------------------------------------------------------

static cairn_bundle_vision config_of(double rescale, cairn_image_strategy strategy) {
  return (cairn_bundle_vision){.image_size = 8,
                               .patch_size = 4,
                               .image_token_count = 1,
                               .image_mean = {0.5, 0.25, 0},
                               .image_std = {0.5, 0.5, 2},
                               .rescale_factor = rescale,
                               .image_strategy = strategy};
}

// A picture of one color, 16 x 4 pixels.
static void pixels_of(double rescale, cairn_image_strategy strategy, float *out) {
  crn_image image;
  cairn_bundle_vision config = config_of(rescale, strategy);
  test_expect(crn_image_create(crn_default_allocator(), 16, 4, &image), CAIRN_OK, "");
  for (int i = 0; i < 16 * 4; i++) {
    image.rgb[i * 3] = 255;
    image.rgb[i * 3 + 1] = 51;
    image.rgb[i * 3 + 2] = 102;
  }
  test_expect(crn_image_pixels(&image, &config, out), CAIRN_OK, "");
  crn_image_free(&image);
}

static void near(float value, double expected) { assert_true(fabs((double)value - expected) < 1e-6); }

static void test_pixel_values(void **state) {
  (void)state;
  float a[3 * 64], b[3 * 64];
  pixels_of(1, CAIRN_IMAGE_STRETCH, a);
  for (int i = 0; i < 64; i++) {
    near(a[i], 1);
    near(a[64 + i], (0.2 - 0.25) / 0.5);
    near(a[128 + i], 0.2);
  }
  // Both spellings of the scale give the same pixels.
  pixels_of(1.0 / 255, CAIRN_IMAGE_STRETCH, b);
  for (int i = 0; i < 3 * 64; i++) near(b[i], (double)a[i]);
  pixels_of(0.00392156862745098, CAIRN_IMAGE_CENTER_CROP, b);
  for (int i = 0; i < 3 * 64; i++) near(b[i], (double)a[i]);
  pixels_of(2, CAIRN_IMAGE_STRETCH, b);
  near(b[0], (2 - 0.5) / 0.5);
  // Two rows of the picture between bars of zero pixels.
  pixels_of(1, CAIRN_IMAGE_PAD, b);
  for (int y = 0; y < 8; y++) {
    bool is_bar = y < 3 || y > 4;
    near(b[y * 8], is_bar ? -1 : 1);
    near(b[64 + y * 8 + 7], is_bar ? -0.5 : (0.2 - 0.25) / 0.5);
  }
}

// The crop is the middle: of a picture whose columns count up, the columns around the center.
static void test_crop(void **state) {
  (void)state;
  crn_image image;
  float out[3 * 64];
  cairn_bundle_vision config = config_of(1, CAIRN_IMAGE_CENTER_CROP);
  test_expect(crn_image_create(crn_default_allocator(), 16, 8, &image), CAIRN_OK, "");
  for (int i = 0; i < 16 * 8; i++) image.rgb[i * 3] = (unsigned char)(i % 16 * 10);
  test_expect(crn_image_pixels(&image, &config, out), CAIRN_OK, "");
  for (int x = 0; x < 8; x++) near(out[x], ((x + 4) * 10 / 255.0 - 0.5) / 0.5);
  crn_image_free(&image);
}

// --- damage -------------------------------------------------------------------------------------------------------------

static void test_damage(void **state) {
  (void)state;
  static const char *const kNames[] = {"rgb.png", "smooth.jpg", "rgb.ppm"};
  crn_image image;
  for (size_t i = 0; i < sizeof kNames / sizeof *kNames; i++) {
    char path[512];
    crn_str text;
    if (!has_format(kNames[i])) continue;
    snprintf(path, sizeof path, DATA "%s", kNames[i]);
    crn_str_initialize(&text, NULL);
    test_expect(crn_file_read(path, 1 << 20, &text), CAIRN_OK, "");
    // Any beginning of a file: no crash, no leak; where it succeeds (a JPEG shows what it has) the size is right.
    for (size_t n = 0; n < text.size; n += 1 + n / 16) {
      cairn_status status = crn_image_decode(crn_default_allocator(), "part", text.data, n, &image);
      if (status == CAIRN_OK) {
        assert_int_equal(image.width, 45);
        crn_image_free(&image);
      } else {
        assert_null(image.rgb);
      }
    }
    for (size_t n = 4; n < text.size; n += 5) {
      text.data[n] ^= 0x55;
      if (crn_image_decode(crn_default_allocator(), "damaged", text.data, text.size, &image) == CAIRN_OK) crn_image_free(&image);
      text.data[n] ^= 0x55;
    }
    crn_str_deinitialize(&text);
  }
  static const char kHuge[] = "P6 32769 1 255\nxxx", kDeep[] = "P6 1 1 65535\nxxxxxx", kShort[] = "P6 10 10 255\nabc",
                    kOdd[] = "GIF89a..........";
  const cairn_allocator *a = crn_default_allocator();
  test_expect(crn_image_decode(a, "f", kHuge, sizeof kHuge - 1, &image), CAIRN_OUT_OF_RANGE, "32769 x 1");
  test_expect(crn_image_decode(a, "f", kDeep, sizeof kDeep - 1, &image), CAIRN_UNSUPPORTED, "65536 values");
  test_expect(crn_image_decode(a, "f", kShort, sizeof kShort - 1, &image), CAIRN_CORRUPT, "ends early");
  test_expect(crn_image_decode(a, "f", kOdd, sizeof kOdd - 1, &image), CAIRN_UNSUPPORTED, "are accepted");
  test_expect(crn_image_read(a, "/nothing/here.png", &image), CAIRN_NOT_FOUND, "here.png");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_formats), cmocka_unit_test(test_resizing), cmocka_unit_test(test_pixel_values),
                                     cmocka_unit_test(test_crop), cmocka_unit_test(test_damage)};
  test_expect(crn_safetensors_open(NULL, DATA "golden.safetensors", &g_goldens), CAIRN_OK, "");
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  crn_safetensors_close(g_goldens);
  return failed;
}
