// SPDX-License-Identifier: Apache-2.0

#include "rpc/admin/page_token.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/secrets.h"
#include "base/strings.h"

namespace quorate::rpc::admin {
namespace {

constexpr size_t kTokenBytesMax = 128;

}  // namespace

int64_t PageTokens::NowMs() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock_->Now().time_since_epoch())
      .count();
}

std::string PageTokens::Proof(std::string_view expiry, const HttpRequest& request) const {
  std::string text;
  // The length of each part keeps two lists of parts from having the same text.
  for (const std::string_view part :
       {expiry, std::string_view(request.caller.address), std::string_view(request.caller.subject),
        std::string_view(request.authorization)}) {
    absl::StrAppend(&text, part.size(), ":", ToAbsl(part));
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> proof{};
  unsigned size = 0;
  const unsigned char* made =
      HMAC(EVP_sha256(), key_.data(), static_cast<int>(key_.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), proof.data(), &size);
  ASSERT(made != nullptr, "HMAC-SHA256 needs only memory");
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(proof.data()), size));
}

std::string PageTokens::Make(const HttpRequest& request) const {
  const std::string expiry = absl::StrCat(NowMs() + std::chrono::milliseconds(kLifetime).count());
  return absl::StrCat(expiry, ".", Proof(expiry, request));
}

bool PageTokens::IsGood(const HttpRequest& request) const {
  const std::string_view token = request.page_token;
  const size_t dot = token.find('.');
  int64_t expiry_ms = 0;
  if (token.size() > kTokenBytesMax || dot == std::string_view::npos ||
      !absl::SimpleAtoi(ToAbsl(token.substr(0, dot)), &expiry_ms)) {
    return false;
  }
  return SecretsEqual(Proof(token.substr(0, dot), request), token.substr(dot + 1)) &&
         NowMs() < expiry_ms;
}

}  // namespace quorate::rpc::admin
