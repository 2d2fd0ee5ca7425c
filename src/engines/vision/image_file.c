/// Files of pictures. PNG and JPEG are read by their libraries; PPM and PGM are a header and bytes.
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/status.h"
#include "engines/vision/image.h"

#ifdef CAIRN_HAVE_PNG
#include <png.h>
#endif
#ifdef CAIRN_HAVE_JPEG
#include <jpeglib.h>
#endif

const char *crn_image_formats(void) {
#if defined(CAIRN_HAVE_PNG) && defined(CAIRN_HAVE_JPEG)
  return "PNG, JPEG and binary PPM/PGM";
#elif defined(CAIRN_HAVE_PNG)
  return "PNG and binary PPM/PGM (this build has no JPEG)";
#elif defined(CAIRN_HAVE_JPEG)
  return "JPEG and binary PPM/PGM (this build has no PNG)";
#else
  return "binary PPM/PGM (this build has neither PNG nor JPEG)";
#endif
}

// --- PPM, PGM -----------------------------------------------------------------------------------------------------------

// The next number of the header; -1 when there is none. Comments go to the end of the line.
static int64_t next_number(const unsigned char *data, size_t bytes, size_t *at) {
  while (*at < bytes && (data[*at] == '#' || data[*at] <= ' ')) {
    if (data[*at] == '#') {
      while (*at < bytes && data[*at] != '\n') ++*at;
    } else {
      ++*at;
    }
  }
  int64_t n = -1;
  for (; *at < bytes && data[*at] >= '0' && data[*at] <= '9' && n < 1000000; ++*at) n = (n < 0 ? 0 : n * 10) + data[*at] - '0';
  return n;
}

static cairn_status decode_pnm(const cairn_allocator *allocator, const char *name, const unsigned char *data, size_t bytes,
                               crn_image *out) {
  size_t at = 2;
  const int channels = data[1] == '6' ? 3 : 1;
  int64_t width = next_number(data, bytes, &at), height = next_number(data, bytes, &at), most = next_number(data, bytes, &at);
  if (width < 1 || height < 1 || most < 1 || at >= bytes) return CRN_FAIL(CORRUPT, "%s: the header of the picture is damaged", name);
  if (most > 255) return CRN_FAIL(UNSUPPORTED, "%s: %lld values for each color; at most 256 are accepted", name, (long long)most + 1);
  at++;
  CRN_TRY(crn_image_create(allocator, width, height, out));
  if (bytes - at < (size_t)(width * height * channels)) {
    crn_image_free(out);
    return CRN_FAIL(CORRUPT, "%s: the picture ends early", name);
  }
  for (int64_t i = 0; i < width * height * 3; i++) {
    int value = data[at + (size_t)(channels == 3 ? i : i / 3)];
    out->rgb[i] = (unsigned char)(most == 255 ? value : value >= most ? 255 : (value * 255 + most / 2) / most);
  }
  return CAIRN_OK;
}

// --- PNG ----------------------------------------------------------------------------------------------------------------

#ifdef CAIRN_HAVE_PNG
static cairn_status decode_png(const cairn_allocator *allocator, const char *name, const unsigned char *data, size_t bytes,
                               crn_image *out) {
  png_image png = {.version = PNG_IMAGE_VERSION};
  const png_color white = {255, 255, 255};
  if (!png_image_begin_read_from_memory(&png, data, bytes)) return CRN_FAIL(CORRUPT, "%s: %s", name, png.message);
  png.format = PNG_FORMAT_RGB;
  cairn_status status = crn_image_create(allocator, png.width, png.height, out);
  if (status == CAIRN_OK && !png_image_finish_read(&png, &white, out->rgb, 0, NULL))
    status = CRN_FAIL(CORRUPT, "%s: %s", name, png.message);
  png_image_free(&png);
  if (status != CAIRN_OK) crn_image_free(out);
  return status;
}
#endif

// --- JPEG ---------------------------------------------------------------------------------------------------------------

#ifdef CAIRN_HAVE_JPEG
typedef struct jpeg_failure {
  struct jpeg_error_mgr base;  // first: the library gives its address
  jmp_buf back;
  char text[JMSG_LENGTH_MAX];
} jpeg_failure;

// The library must not return from here; whatever it holds is freed behind the jump.
static void jpeg_failed(j_common_ptr info) {
  jpeg_failure *f = (jpeg_failure *)info->err;
  info->err->format_message(info, f->text);
  longjmp(f->back, 1);
}

static void jpeg_silent(j_common_ptr info, int level) {
  (void)info;
  (void)level;
}

static cairn_status read_jpeg_rows(struct jpeg_decompress_struct *jpeg, crn_image *out) {
  while (jpeg->output_scanline < jpeg->output_height) {
    JSAMPROW row = out->rgb + (size_t)jpeg->output_scanline * (size_t)out->width * 3;
    jpeg_read_scanlines(jpeg, &row, 1);
  }
  jpeg_finish_decompress(jpeg);
  return CAIRN_OK;
}

static cairn_status decode_jpeg(const cairn_allocator *allocator, const char *name, const unsigned char *data, size_t bytes,
                                crn_image *out) {
  struct jpeg_decompress_struct jpeg;
  jpeg_failure failure;
  volatile cairn_status status = CAIRN_OK;
  memset(&jpeg, 0, sizeof jpeg);
  jpeg.err = jpeg_std_error(&failure.base);
  failure.base.error_exit = jpeg_failed;
  failure.base.emit_message = jpeg_silent;
  if (setjmp(failure.back)) {
    status = CRN_FAIL(CORRUPT, "%s: %s", name, failure.text);
  } else {
    jpeg_create_decompress(&jpeg);
    jpeg_mem_src(&jpeg, data, (unsigned long)bytes);
    jpeg_read_header(&jpeg, TRUE);
    jpeg.out_color_space = JCS_RGB;
    jpeg.dct_method = JDCT_ISLOW;
    status = crn_image_create(allocator, jpeg.image_width, jpeg.image_height, out);
    if (status == CAIRN_OK) {
      jpeg_start_decompress(&jpeg);
      status = read_jpeg_rows(&jpeg, out);
    }
  }
  jpeg_destroy_decompress(&jpeg);
  if (status != CAIRN_OK) crn_image_free(out);
  return status;
}
#endif

// --- which it is --------------------------------------------------------------------------------------------------------

cairn_status crn_image_decode(const cairn_allocator *allocator, const char *name, const void *data, size_t bytes, crn_image *out_image) {
  const unsigned char *d = data;
  *out_image = (crn_image){0};
  if (bytes > 2 && d[0] == 'P' && (d[1] == '6' || d[1] == '5')) return decode_pnm(allocator, name, d, bytes, out_image);
#ifdef CAIRN_HAVE_PNG
  if (bytes > 8 && memcmp(d, "\x89PNG\r\n\x1a\n", 8) == 0) return decode_png(allocator, name, d, bytes, out_image);
#endif
#ifdef CAIRN_HAVE_JPEG
  if (bytes > 3 && d[0] == 0xff && d[1] == 0xd8 && d[2] == 0xff) return decode_jpeg(allocator, name, d, bytes, out_image);
#endif
  return CRN_FAIL(UNSUPPORTED, "%s: no picture this build can read: %s are accepted", name, crn_image_formats());
}

cairn_status crn_image_read(const cairn_allocator *allocator, const char *path, crn_image *out_image) {
  crn_file_map map;
  *out_image = (crn_image){0};
  CRN_TRY(crn_file_map_open(path, &map));
  cairn_status status = crn_image_decode(allocator, path, map.data, map.bytes, out_image);
  crn_file_map_close(&map);
  return status;
}
