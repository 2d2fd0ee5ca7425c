#include "base/hash.h"

#include <openssl/evp.h>

cairn_status crn_sha256(const void *data, size_t bytes, unsigned char out_digest[CRN_SHA256_BYTES]) {
  if (!EVP_Digest(data, bytes, out_digest, NULL, EVP_sha256(), NULL)) return CRN_FAIL(INTERNAL, "libcrypto refused to compute SHA-256");
  return CAIRN_OK;
}
