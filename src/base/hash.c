#include "base/hash.h"

#include <openssl/evp.h>

cairn_status crn_sha256(const void *data, size_t bytes, unsigned char out_digest[CRN_SHA256_BYTES]) {
  if (!EVP_Digest(data, bytes, out_digest, NULL, EVP_sha256(), NULL)) return CRN_FAIL(INTERNAL, "libcrypto refused to compute SHA-256");
  return CAIRN_OK;
}

static bool hash_pieces(EVP_MD_CTX *context, const crn_file_map *map, unsigned char *out_digest) {
  static const size_t piece = (size_t)8 << 20;
  if (!EVP_DigestInit_ex(context, EVP_sha256(), NULL)) return false;
  for (size_t at = 0; at < map->bytes; at += piece) {
    size_t n = map->bytes - at < piece ? map->bytes - at : piece;
    if (!EVP_DigestUpdate(context, map->data + at, n)) return false;
    crn_file_map_forget(map->data + at, n);
  }
  return EVP_DigestFinal_ex(context, out_digest, NULL);
}

cairn_status crn_sha256_map(const crn_file_map *map, unsigned char out_digest[CRN_SHA256_BYTES]) {
  EVP_MD_CTX *context = EVP_MD_CTX_new();
  if (!context) return CRN_FAIL(OUT_OF_MEMORY, "no memory for SHA-256");
  bool done = hash_pieces(context, map, out_digest);
  EVP_MD_CTX_free(context);
  return done ? CAIRN_OK : CRN_FAIL(INTERNAL, "libcrypto refused to compute SHA-256");
}
