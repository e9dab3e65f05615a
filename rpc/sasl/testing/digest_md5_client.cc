// SPDX-License-Identifier: Apache-2.0

#include "rpc/sasl/testing/digest_md5_client.h"

#include <openssl/evp.h>

#include <array>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/strings.h"

namespace quorate::rpc::sasl {
namespace {

constexpr size_t kMd5Bytes = 16;

std::string Md5(std::string_view text) {
  std::array<unsigned char, kMd5Bytes> hash{};
  unsigned int size = 0;
  const bool done =
      EVP_Digest(text.data(), text.size(), hash.data(), &size, EVP_md5(), nullptr) == 1;
  ASSERT(done && size == hash.size(), "tests run where OpenSSL has MD5");
  return {reinterpret_cast<const char*>(hash.data()), hash.size()};
}

std::string Hex(const std::string& bytes) { return std::string(absl::BytesToHexString(bytes)); }

// Returns UTF-8 text in ISO 8859-1 if it has no other characters, else as it is.
std::string Latin1IfPossible(std::string_view text) {
  std::string latin1;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x80) {
      latin1 += text[i];
      continue;
    }
    // U+0080 to U+00FF begin with C2 or C3.
    const bool fits = (byte == 0xC2 || byte == 0xC3) && i + 1 < text.size() &&
                      (static_cast<unsigned char>(text[i + 1]) & 0xC0) == 0x80;
    if (!fits) return std::string(text);
    latin1 += static_cast<char>(((byte & 3) << 6) | (static_cast<unsigned char>(text[++i]) & 0x3F));
  }
  return latin1;
}

std::string Response(const DigestInput& input, absl::string_view method) {
  const std::string secret =
      Md5(absl::StrCat(Latin1IfPossible(input.user), ":", Latin1IfPossible(input.realm), ":",
                       Latin1IfPossible(input.password)));
  std::string a1 = absl::StrCat(secret, ":", ToAbsl(input.nonce), ":", ToAbsl(input.client_nonce));
  if (input.authorization_id != nullptr) absl::StrAppend(&a1, ":", *input.authorization_id);
  const std::string a2 = absl::StrCat(method, ":", ToAbsl(input.digest_uri));
  return Hex(Md5(absl::StrCat(Hex(Md5(a1)), ":", ToAbsl(input.nonce),
                              ":00000001:", ToAbsl(input.client_nonce), ":auth:", Hex(Md5(a2)))));
}

}  // namespace

std::string ClientResponse(const DigestInput& input) { return Response(input, "AUTHENTICATE"); }
std::string ServerResponse(const DigestInput& input) { return Response(input, ""); }

std::string NonceOf(std::string_view challenge) {
  constexpr std::string_view kBefore = "nonce=\"";
  const size_t found = challenge.find(kBefore);
  if (found == std::string_view::npos) return "";
  const size_t begin = found + kBefore.size();
  return std::string(challenge.substr(begin, challenge.find('"', begin) - begin));
}

}  // namespace quorate::rpc::sasl
