// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/client_identities.h"

#include <openssl/evp.h>
#include <openssl/sha.h>

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/secrets.h"
#include "base/strings.h"
#include "tree/acl.h"

namespace quorate::rpc {
namespace {

// The user in the limit of failures; superDigest has one user.
constexpr char kSuper[] = "super";

absl::Status TooMany() {
  return absl::ResourceExhaustedError(
      absl::StrCat("a client may have ", ClientIdentities::kCountMax, " identities of together ",
                   ClientIdentities::kBytesMax, " bytes, each proved by at most ",
                   ClientIdentities::kCredentialsBytesMax, " bytes"));
}

}  // namespace

Readers ReadersOf(std::span<const tree::Acl> acl) {
  if (tree::IsAllowed(acl, {}, tree::permission::kRead)) return nullptr;
  return std::make_shared<const std::vector<tree::Acl>>(acl.begin(), acl.end());
}

const Readers& CommandReaders::Of(tree::Zxid zxid, std::span<const tree::Acl> acl) {
  if (zxid != zxid_) known_ = {};
  zxid_ = zxid;
  const auto is_same = [&acl](const Known& known) {
    return !acl.empty() && known.acl.data() == acl.data() && known.acl.size() == acl.size();
  };
  if (is_same(known_[0])) return known_[0].readers;
  std::swap(known_[0], known_[1]);
  if (!is_same(known_[0])) known_[0] = {acl, ReadersOf(acl)};
  return known_[0].readers;
}

std::string DigestId(std::string_view credentials) {
  unsigned char hash[SHA_DIGEST_LENGTH];
  SHA1(reinterpret_cast<const unsigned char*>(credentials.data()), credentials.size(), hash);
  unsigned char text[4 * ((SHA_DIGEST_LENGTH + 2) / 3) + 1];
  EVP_EncodeBlock(text, hash, SHA_DIGEST_LENGTH);
  return std::string(credentials.substr(0, credentials.find(':'))) + ":" +
         reinterpret_cast<const char*>(text);
}

std::vector<std::string> IdentityTexts(std::span<const tree::Identity> identities) {
  std::vector<std::string> texts;
  for (const tree::Identity& identity : identities) {
    if (texts.size() == kShownIdentitiesMax) break;
    std::string text = absl::CHexEscape(
        absl::StrCat(ToAbsl(identity.scheme), ":", ToAbsl(ClientIdentities::ShownId(identity)))
            .substr(0, kShownIdentityBytesMax));
    texts.push_back(text.substr(0, kShownIdentityBytesMax));
  }
  return texts;
}

ClientIdentities::ClientIdentities(const Config& config, std::string_view address)
    : config_(config), address_(address) {
  // Writes carry this identity, because whether lists are skipped must not depend on the
  // configuration of the members that apply them.
  if (config.skip_acl) Hide({"super", ""});
  identities_.push_back({"ip", std::string(address)});
  lacks_required_ = !config.required_auth_schemes.empty() && !IsRequired("ip");
}

bool ClientIdentities::NamesSuper(std::string_view credentials) const {
  const std::string_view super = config_.super_digest;
  return !super.empty() &&
         credentials.substr(0, credentials.find(':')) == super.substr(0, super.find(':'));
}

absl::Status ClientIdentities::AddDigest(std::string_view credentials,
                                         FailureLimit* super_failures) {
  if (credentials.size() > kCredentialsBytesMax) return TooMany();
  const bool names_super = NamesSuper(credentials);
  if (names_super && !super_failures->Take(address_, kSuper)) {
    return absl::UnavailableError(
        "too many wrong passwords of the super user have come from this address; passwords are "
        "looked at again after some seconds");
  }
  tree::Identity identity{"digest", DigestId(credentials)};
  const bool is_super = SecretsEqual(identity.id, config_.super_digest);
  if (is_super && names_super) super_failures->GiveBack(address_, kSuper);
  if (is_super && !Add({"super", ""})) return TooMany();
  return Add(std::move(identity)) ? absl::OkStatus() : TooMany();
}

bool ClientIdentities::AddSuper() {
  return Add({"super", ""}) && Add({"digest", config_.super_digest});
}

bool ClientIdentities::AddCertificate(const std::string& subject) {
  const bool is_super = !subject.empty() && subject == config_.x509_super_user;
  return (!is_super || Add({"super", ""})) && Add({"x509", subject});
}

bool ClientIdentities::AddSasl(const std::string& user) {
  const bool is_super =
      std::ranges::find(config_.sasl_super_users, user) != config_.sasl_super_users.end();
  if ((is_super && !Add({"super", ""})) || !Add({"sasl", user})) return false;
  // Writes carry this identity, so that the members that apply them need not have this
  // configuration.
  if (!config_.sasl_any_user_id.empty() && !std::exchange(is_any_sasl_user_, true)) {
    Hide({"sasl", config_.sasl_any_user_id});
  }
  return true;
}

bool ClientIdentities::IsRequired(std::string_view scheme) const {
  return std::ranges::find(config_.required_auth_schemes, scheme) !=
         config_.required_auth_schemes.end();
}

std::string ClientIdentities::RequiredText() const {
  std::string schemes;
  for (const std::string& scheme : config_.required_auth_schemes) {
    schemes += (schemes.empty() ? "" : ", ") + scheme;
  }
  return "the client has not authenticated with any of the required schemes: " + schemes;
}

std::span<const tree::Identity> ClientIdentities::shown() const {
  return std::span<const tree::Identity>(identities_).subspan(hidden_);
}

const tree::Identity* ClientIdentities::first_proved() const {
  for (const tree::Identity& identity : shown()) {
    if (identity.scheme != "ip" && identity.scheme != "super") return &identity;
  }
  return nullptr;
}

void ClientIdentities::ResolveAuth(tree::Request* request) const {
  if (!is_any_sasl_user_) return;
  for (tree::Op& op : request->ops) {
    std::vector<tree::Acl> resolved;
    // The tree rejects a list that is not valid.
    if (!op.acl.empty() && tree::ResolveAcl(op.acl, shown(), &resolved)) {
      op.acl = std::move(resolved);
    }
  }
}

void ClientIdentities::Hide(tree::Identity identity) {
  identities_.insert(identities_.begin() + static_cast<ptrdiff_t>(hidden_), std::move(identity));
  ++hidden_;
}

std::string_view ClientIdentities::ShownId(const tree::Identity& identity) {
  const std::string_view id = identity.id;
  return identity.scheme == "digest" ? id.substr(0, id.find(':')) : id;
}

bool ClientIdentities::MayRead(const Readers& readers) const {
  return readers == nullptr || tree::IsAllowed(*readers, identities_, tree::permission::kRead);
}

bool ClientIdentities::Add(tree::Identity identity) {
  const std::span<const tree::Identity> known = shown();
  if (std::find(known.begin(), known.end(), identity) != known.end()) return true;
  // Besides the hidden identities, the address and the super user's, which credentials of superDigest
  // prove together with that of their user.
  const size_t proved = known.size() - 1 - (is_super_ ? 1 : 0);
  const bool is_super = identity.scheme == "super";
  if (bytes_ + identity.id.size() > kBytesMax || (!is_super && proved >= kCountMax)) return false;
  is_super_ |= is_super;
  bytes_ += identity.id.size();
  if (lacks_required_ && IsRequired(identity.scheme)) lacks_required_ = false;
  identities_.push_back(std::move(identity));
  return true;
}

}  // namespace quorate::rpc
