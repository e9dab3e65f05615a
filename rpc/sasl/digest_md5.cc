// SPDX-License-Identifier: Apache-2.0

#include "rpc/sasl/digest_md5.h"

#include <openssl/evp.h>

#include <array>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/secrets.h"
#include "base/strings.h"

namespace quorate::rpc::sasl {
namespace {

constexpr absl::string_view kRealm = "zk-sasl-md5";
constexpr absl::string_view kDigestUri = "zookeeper/zk-sasl-md5";
constexpr size_t kNonceBytes = 30;
constexpr size_t kMd5Bytes = 16;
constexpr size_t kResponseBytesMax = 4096;
constexpr size_t kDirectivesMax = 32;
constexpr absl::string_view kSuper = "super";

std::string Md5(std::string_view text) {
  std::array<unsigned char, kMd5Bytes> hash{};
  unsigned int size = 0;
  const bool done =
      EVP_Digest(text.data(), text.size(), hash.data(), &size, EVP_md5(), nullptr) == 1;
  ASSERT(done && size == hash.size(), "DigestMd5::Create has checked that there is MD5");
  return {reinterpret_cast<const char*>(hash.data()), hash.size()};
}

// Returns the name under which attempts for `user` are limited: one of 256, by the hash of the name.
// Users that exist and others are limited alike, so that the limit does not tell which exist.
std::string LimitedName(std::string_view user) { return Md5(user).substr(0, 1); }

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

std::string Utf8OfLatin1(std::string_view text) {
  std::string utf8;
  for (char c : text) {
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

std::string Response(const DigestInput& input, absl::string_view method) {
  const std::string secret =
      Md5(absl::StrCat(Latin1IfPossible(input.user), ":", Latin1IfPossible(input.realm), ":",
                       Latin1IfPossible(input.password)));
  std::string a1 = absl::StrCat(secret, ":", ToAbsl(input.nonce), ":", ToAbsl(input.client_nonce));
  if (input.authorization_id != nullptr) absl::StrAppend(&a1, ":", *input.authorization_id);
  const std::string a2 = absl::StrCat(method, ":", ToAbsl(input.digest_uri));
  // Java's server takes this count of responses whatever the client sends.
  return Hex(Md5(absl::StrCat(Hex(Md5(a1)), ":", ToAbsl(input.nonce),
                              ":00000001:", ToAbsl(input.client_nonce), ":auth:", Hex(Md5(a2)))));
}

absl::Status Malformed(absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat("the response is malformed: ", problem));
}

absl::Status Refused(absl::string_view problem) { return absl::UnauthenticatedError(problem); }

void SkipSpace(std::string_view* text) {
  while (!text->empty() && absl::StrContains(" \t\r\n", text->front())) text->remove_prefix(1);
}

bool IsTokenByte(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte > 0x20 && byte < 0x7F && !absl::StrContains("()<>@,;:\\\"/[]?={}", c);
}

// Takes a text in quotes, in which a backslash makes the next character stand for itself. Returns
// nullopt if it has no end.
std::optional<std::string> TakeQuoted(std::string_view* text) {
  std::string value;
  for (size_t i = 1; i < text->size(); ++i) {
    char c = (*text)[i];
    if (c == '"') {
      text->remove_prefix(i + 1);
      return value;
    }
    if (c == '\\') {
      if (++i == text->size()) break;
      c = (*text)[i];
    }
    value += c;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<Directives> ParseDirectives(std::string_view text) {
  if (text.size() > kResponseBytesMax) return Malformed("it is too long");
  Directives found;
  for (;;) {
    SkipSpace(&text);
    if (text.empty()) return found;
    if (text.front() == ',') {  // lists may have empty elements
      text.remove_prefix(1);
      continue;
    }
    size_t size = 0;
    while (size < text.size() && IsTokenByte(text[size])) ++size;
    std::string key = absl::AsciiStrToLower(ToAbsl(text.substr(0, size)));
    text.remove_prefix(size);
    SkipSpace(&text);
    if (key.empty() || text.empty() || text.front() != '=') return Malformed("a key has no value");
    text.remove_prefix(1);
    SkipSpace(&text);
    std::string value;
    if (!text.empty() && text.front() == '"') {
      std::optional<std::string> quoted = TakeQuoted(&text);
      if (!quoted.has_value()) return Malformed("a value in quotes has no end");
      value = *std::move(quoted);
    } else {
      // Clients send some values without quotes that would need them, such as digest-uri; a comma
      // or space ends them.
      size = 0;
      while (size < text.size() && !absl::StrContains(", \t\r\n\"", text[size])) ++size;
      if (size == 0) return Malformed("a value is empty");
      value = std::string(text.substr(0, size));
      text.remove_prefix(size);
    }
    if (found.size() >= kDirectivesMax) return Malformed("it has too many parts");
    if (!found.emplace(std::move(key), std::move(value)).second) {
      return Malformed("a key is there twice");
    }
    SkipSpace(&text);
    if (!text.empty() && text.front() != ',') return Malformed("a comma is missing");
  }
}

std::string ClientResponse(const DigestInput& input) { return Response(input, "AUTHENTICATE"); }
std::string ServerResponse(const DigestInput& input) { return Response(input, ""); }

class DigestMd5::Exchange : public ServerExchange {
 public:
  Exchange(DigestMd5* owner, std::string_view address) : owner_(*owner), address_(address) {}

  absl::StatusOr<Reply> OnToken(std::string_view token) override {
    if (nonce_.empty()) return Challenge();
    absl::StatusOr<Directives> directives = ParseDirectives(token);
    if (!directives.ok()) return Refused(directives.status().message());
    return OnResponse(*directives);
  }

 private:
  // As Java's server, ignores the client's first token: there is no subsequent authentication.
  Reply Challenge() {
    nonce_ = absl::Base64Escape(owner_.random_->Make(kNonceBytes));
    Reply reply;
    reply.token = absl::StrCat("realm=\"", kRealm, "\",nonce=\"", nonce_,
                               "\",charset=utf-8,algorithm=md5-sess");
    return reply;
  }

  // Returns why the response does not belong to the challenge; empty if it does.
  absl::string_view Mismatch(const Directives& directives) const {
    const auto value = [&directives](absl::string_view key) -> const std::string* {
      const auto found = directives.find(std::string_view(key.data(), key.size()));
      return found == directives.end() ? nullptr : &found->second;
    };
    for (const char* key : {"username", "realm", "nonce", "cnonce", "digest-uri", "response"}) {
      if (value(key) == nullptr)
        return "the response lacks username, realm, nonce, cnonce, digest-uri or response";
    }
    if (*value("nonce") != nonce_) return "the response has another nonce";
    if (*value("realm") != kRealm) return "the response has another realm than zk-sasl-md5";
    if (!absl::EqualsIgnoreCase(*value("digest-uri"), kDigestUri)) {
      return "the response has another digest-uri than zookeeper/zk-sasl-md5";
    }
    if (value("qop") != nullptr && *value("qop") != "auth")
      return "the response has another qop than auth";
    if (value("charset") != nullptr && *value("charset") != "utf-8") {
      return "the response has another charset than utf-8";
    }
    if (value("authzid") != nullptr && value("authzid")->empty())
      return "the response has an empty authzid";
    return "";
  }

  absl::StatusOr<Reply> OnResponse(const Directives& directives) {
    if (const absl::string_view mismatch = Mismatch(directives); !mismatch.empty()) {
      return Refused(mismatch);
    }
    const std::string& sent_user = directives.find("username")->second;
    const std::string user = directives.contains("charset") ? sent_user : Utf8OfLatin1(sent_user);
    const auto known = owner_.users_.find(user);
    const bool is_known = known != owner_.users_.end();
    const std::string limited = LimitedName(user);
    if (!owner_.limit_.Take(address_, limited)) {
      return absl::ResourceExhaustedError(
          absl::StrCat("too many failures for user \"", user, "\" from this address; at most ",
                       FailureLimit::kBurst, " at once and one each second"));
    }
    const auto authzid = directives.find("authzid");
    const bool has_authzid = authzid != directives.end();
    DigestInput input;
    input.user = user;
    input.realm = directives.find("realm")->second;
    // The time that an unknown user takes is that of a known one.
    input.password = is_known ? std::string_view(known->second) : std::string_view(nonce_);
    input.nonce = nonce_;
    input.client_nonce = directives.find("cnonce")->second;
    input.digest_uri = directives.find("digest-uri")->second;
    input.authorization_id = has_authzid ? &authzid->second : nullptr;
    const bool is_right = SecretsEqual(directives.find("response")->second, ClientResponse(input));
    if (!is_right || !is_known) {
      return Refused(absl::StrCat("wrong password, or no such user: \"", user, "\""));
    }
    owner_.limit_.GiveBack(address_, limited);
    absl::StatusOr<std::string> id =
        owner_.ids_.IdOf(user, has_authzid ? std::string_view(authzid->second) : "");
    if (!id.ok()) return id.status();
    // This id passes every entry of the scheme sasl.
    if (*id == kSuper && user != kSuper) {
      return Refused(absl::StrCat("the user \"", user, "\" would get the id super"));
    }
    Reply reply;
    reply.token = absl::StrCat("rspauth=", ServerResponse(input));
    reply.is_done = true;
    reply.user = *std::move(id);
    return reply;
  }

  DigestMd5& owner_;
  const std::string address_;
  std::string nonce_;  // empty before the challenge
};

DigestMd5::DigestMd5(Users users, IdMapping ids, RandomBytes* random, const Clock* clock)
    : users_(std::move(users)), ids_(std::move(ids)), random_(random), limit_(clock) {}

absl::StatusOr<std::unique_ptr<DigestMd5>> DigestMd5::Create(Users users, IdMapping ids,
                                                             RandomBytes* random,
                                                             const Clock* clock) {
  std::array<unsigned char, kMd5Bytes> hash{};
  unsigned int size = 0;
  if (EVP_Digest("", 0, hash.data(), &size, EVP_md5(), nullptr) != 1) {
    return absl::FailedPreconditionError(
        "DIGEST-MD5 needs MD5, which this machine's OpenSSL does not have (FIPS mode?); use "
        "Kerberos, "
        "or certificates");
  }
  return std::unique_ptr<DigestMd5>(new DigestMd5(std::move(users), std::move(ids), random, clock));
}

std::unique_ptr<ServerExchange> DigestMd5::Begin(std::string_view address) {
  return std::make_unique<Exchange>(this, address);
}

}  // namespace quorate::rpc::sasl
