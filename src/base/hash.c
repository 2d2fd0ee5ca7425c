#include "base/hash.h"

#include <string.h>

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

// --- piece by piece -----------------------------------------------------------------------------------------------------

cairn_status crn_hasher_begin(crn_hasher *hasher) {
  hasher->state = EVP_MD_CTX_new();
  if (hasher->state && EVP_DigestInit_ex(hasher->state, EVP_sha256(), NULL)) return CAIRN_OK;
  crn_hasher_discard(hasher);
  return CRN_FAIL(OUT_OF_MEMORY, "no memory for SHA-256");
}

cairn_status crn_hasher_add(crn_hasher *hasher, const void *data, size_t bytes) {
  if (EVP_DigestUpdate(hasher->state, data, bytes)) return CAIRN_OK;
  return CRN_FAIL(INTERNAL, "libcrypto refused to compute SHA-256");
}

cairn_status crn_hasher_end(crn_hasher *hasher, unsigned char out_digest[CRN_SHA256_BYTES]) {
  bool done = EVP_DigestFinal_ex(hasher->state, out_digest, NULL);
  crn_hasher_discard(hasher);
  return done ? CAIRN_OK : CRN_FAIL(INTERNAL, "libcrypto refused to compute SHA-256");
}

void crn_hasher_discard(crn_hasher *hasher) {
  EVP_MD_CTX_free(hasher->state);
  hasher->state = NULL;
}

void crn_sha256_hex(const unsigned char digest[CRN_SHA256_BYTES], char out_text[2 * CRN_SHA256_BYTES + 1]) {
  static const char kDigits[] = "0123456789abcdef";
  for (int i = 0; i < CRN_SHA256_BYTES; i++) {
    out_text[2 * i] = kDigits[digest[i] >> 4];
    out_text[2 * i + 1] = kDigits[digest[i] & 15];
  }
  out_text[2 * CRN_SHA256_BYTES] = 0;
}

// --- sums ---------------------------------------------------------------------------------------------------------------

// One to one in `word` for every `lane`, so a change of one word is never lost.
static inline uint64_t mix(uint64_t lane, uint64_t word) {
  lane = (lane ^ word) * UINT64_C(0x9e3779b97f4a7c15);
  return lane << 29 | lane >> 35;
}

uint64_t crn_checksum(const void *data, size_t bytes, uint64_t seed) {
  const unsigned char *p = data;
  uint64_t lanes[4] = {seed ^ 1, seed ^ 2, seed ^ 3, seed ^ 4}, words[4], sum = mix(seed, bytes);
  for (; bytes >= sizeof words; bytes -= sizeof words, p += sizeof words) {
    memcpy(words, p, sizeof words);
    for (int i = 0; i < 4; i++) lanes[i] = mix(lanes[i], words[i]);
  }
  memset(words, 0, sizeof words);
  if (bytes) memcpy(words, p, bytes);
  for (int i = 0; i < 4; i++) sum = mix(sum, mix(lanes[i], words[i]));
  return sum ^ sum >> 32;
}
