// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/client_identities.h"

#include <openssl/evp.h>
#include <openssl/sha.h>

#include <algorithm>
#include <utility>

#include "base/secrets.h"
#include "tree/acl.h"

namespace quorate::rpc {

Readers ReadersOf(std::span<const tree::Acl> acl) {
  if (tree::IsAllowed(acl, {}, tree::permission::kRead)) return nullptr;
  return std::make_shared<const std::vector<tree::Acl>>(acl.begin(), acl.end());
}

std::string DigestId(std::string_view credentials) {
  unsigned char hash[SHA_DIGEST_LENGTH];
  SHA1(reinterpret_cast<const unsigned char*>(credentials.data()), credentials.size(), hash);
  unsigned char text[4 * ((SHA_DIGEST_LENGTH + 2) / 3) + 1];
  EVP_EncodeBlock(text, hash, SHA_DIGEST_LENGTH);
  return std::string(credentials.substr(0, credentials.find(':'))) + ":" +
         reinterpret_cast<const char*>(text);
}

ClientIdentities::ClientIdentities(const Config& config, std::string_view address)
    : config_(config) {
  // Writes carry this identity, because whether lists are skipped must not depend on the
  // configuration of the members that apply them.
  if (config.skip_acl) identities_.push_back({"super", ""});
  identities_.push_back({"ip", std::string(address)});
}

bool ClientIdentities::AddDigest(std::string_view credentials) {
  if (credentials.size() > kCredentialsBytesMax) return false;
  tree::Identity identity{"digest", DigestId(credentials)};
  const bool is_super = SecretsEqual(identity.id, config_.super_digest);
  return (!is_super || Add({"super", ""})) && Add(std::move(identity));
}

bool ClientIdentities::AddCertificate(const std::string& subject) {
  const bool is_super = !subject.empty() && subject == config_.x509_super_user;
  return (!is_super || Add({"super", ""})) && Add({"x509", subject});
}

std::span<const tree::Identity> ClientIdentities::shown() const {
  return std::span<const tree::Identity>(identities_).subspan(config_.skip_acl ? 1 : 0);
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
  if (bytes_ + identity.id.size() > kBytesMax || identities_.size() >= kCountMax) return false;
  bytes_ += identity.id.size();
  identities_.push_back(std::move(identity));
  return true;
}

}  // namespace quorate::rpc
