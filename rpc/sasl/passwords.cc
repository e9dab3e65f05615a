// SPDX-License-Identifier: Apache-2.0

#include "rpc/sasl/passwords.h"

#include <openssl/evp.h>

#include <array>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/strings.h"
#include "rpc/sasl/cyrus.h"

namespace quorate::rpc::sasl {
namespace {

constexpr absl::string_view kSuper = "super";
// Of the password of a user that does not exist, before it is written in hexadecimal digits.
constexpr size_t kNoPasswordBytes = 16;

// Returns the name under which attempts for `user` are limited: one of 256, by the hash of the name.
// Users that exist and others are limited alike, so that the limit does not tell which exist.
std::string LimitedName(std::string_view user) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned int size = 0;
  const bool done =
      EVP_Digest(user.data(), user.size(), hash.data(), &size, EVP_sha256(), nullptr) == 1;
  ASSERT(done && size > 0, "every OpenSSL has SHA-256");
  return {static_cast<char>(hash[0])};
}

// Returns whether `text` is UTF-8. Overlong forms, which no client makes, count as such.
bool IsUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i++]);
    if (first < 0x80) continue;
    if (first < 0xC2 || first > 0xF4) return false;
    for (int more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1; more > 0; --more, ++i) {
      if (i == text.size() || (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) return false;
    }
  }
  return true;
}

// Returns in UTF-8 a name that is in UTF-8, or from a client that does not know it, in ISO 8859-1.
std::string Utf8Name(std::string_view name) {
  if (IsUtf8(name)) return std::string(name);
  std::string utf8;
  for (char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      utf8 += c;
    } else {
      utf8 += static_cast<char>(0xC0 | (byte >> 6));
      utf8 += static_cast<char>(0x80 | (byte & 0x3F));
    }
  }
  return utf8;
}

}  // namespace

class Passwords::Exchange : public CyrusExchange {
 public:
  Exchange(Passwords* owner, std::string_view address)
      : CyrusExchange(Mechanism::kDigestMd5, /*credential=*/nullptr),
        owner_(*owner),
        address_(address) {}

  absl::StatusOr<Reply> OnToken(std::string_view token) override {
    absl::StatusOr<Reply> reply = CyrusExchange::OnToken(token);
    if (stage_ != Stage::kAsked || !absl::IsUnauthenticated(reply.status())) return reply;
    return absl::UnauthenticatedError(absl::StrCat("wrong password, or no such user: \"", user_,
                                                   "\" (", reply.status().message(), ")"));
  }

 private:
  enum class Stage : uint8_t {
    kNone,   // the client has named no user
    kAsked,  // the password of `user_` was asked for
    kEnded,  // the attempt was not made, or the password was right
  };

  absl::StatusOr<std::string> PasswordOf(std::string_view name) override {
    user_ = Utf8Name(name);
    if (!owner_.limit_.Take(address_, LimitedName(user_))) {
      stage_ = Stage::kEnded;
      return absl::ResourceExhaustedError(
          absl::StrCat("too many failures for user \"", user_, "\" from this address; at most ",
                       FailureLimit::kBurst, " at once and one each second"));
    }
    stage_ = Stage::kAsked;
    const auto known = owner_.users_.find(user_);
    is_known_ = known != owner_.users_.end();
    if (is_known_) return known->second;
    // The time that an unknown user takes is that of a known one.
    return std::string(absl::BytesToHexString(owner_.random_->Make(kNoPasswordBytes)));
  }

  absl::StatusOr<std::string> IdOf(std::string_view name, std::string_view wanted) override {
    ASSERT(stage_ == Stage::kAsked && Utf8Name(name) == user_,
           "the library has compared the password of this user");
    if (!is_known_) return absl::UnauthenticatedError("no such user");
    stage_ = Stage::kEnded;
    owner_.limit_.GiveBack(address_, LimitedName(user_));
    absl::StatusOr<std::string> id = owner_.ids_.IdOf(user_, wanted);
    // This id passes every entry of the scheme sasl.
    if (id.ok() && *id == kSuper && user_ != kSuper) {
      return absl::UnauthenticatedError(
          absl::StrCat("the user \"", user_,
                       "\" would get the id super; change the rule of "
                       "security.auth_to_local that gives it this id"));
    }
    return id;
  }

  Passwords& owner_;
  const std::string address_;
  std::string user_;
  Stage stage_ = Stage::kNone;
  bool is_known_ = false;
};

Passwords::Passwords(Users users, IdMapping ids, RandomBytes* random, const Clock* clock)
    : users_(std::move(users)), ids_(std::move(ids)), random_(random), limit_(clock) {}

absl::StatusOr<std::unique_ptr<Passwords>> Passwords::Create(Users users, IdMapping ids,
                                                             RandomBytes* random,
                                                             const Clock* clock) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned int size = 0;
  // Cyrus SASL has an MD5 of its own; a machine whose OpenSSL has none does not want any.
  if (EVP_Digest("", 0, hash.data(), &size, EVP_md5(), nullptr) != 1) {
    return absl::FailedPreconditionError(
        "DIGEST-MD5 needs MD5, which this machine's OpenSSL does not have (FIPS mode?); use "
        "Kerberos, or certificates");
  }
  if (absl::Status s = CyrusExchange::Require(Mechanism::kDigestMd5); !s.ok()) return s;
  return std::unique_ptr<Passwords>(new Passwords(std::move(users), std::move(ids), random, clock));
}

std::unique_ptr<ServerExchange> Passwords::Begin(std::string_view address) {
  return std::make_unique<Exchange>(this, address);
}

}  // namespace quorate::rpc::sasl
