// SPDX-License-Identifier: Apache-2.0

// The identities of a client besides world:anyone: its address, and those that it has proved. All
// front ends use this class.
//
// Thread-safety: none.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/config/config.h"
#include "tree/types.h"

namespace quorate::rpc {

// The access control list that decides which clients are notified of an event; nullptr: all.
using Readers = std::shared_ptr<const std::vector<tree::Acl>>;

// Returns the readers of the events of a znode with this list.
Readers ReadersOf(std::span<const tree::Acl> acl);

// Returns the id for `credentials`, as ZooKeeper stores it: "user:password" -> "user:" +
// base64(sha1("user:password")).
std::string DigestId(std::string_view credentials);

class ClientIdentities {
 public:
  // The limits of the number of identities and of the bytes of their ids together: each write of a
  // client carries all of them.
  static constexpr size_t kCountMax = 128;
  static constexpr size_t kBytesMax = 64u << 10;
  // The limit of the credentials that prove one identity.
  static constexpr size_t kCredentialsBytesMax = 4u << 10;

  // `address` is the client's address, without the port. `config` must outlive the object.
  ClientIdentities(const Config& config, std::string_view address);

  // Adds the identity that "user:password" proves, and the super user's if these are the
  // credentials of superDigest. Returns false if there are too many identities, or the credentials
  // are longer than kCredentialsBytesMax.
  bool AddDigest(std::string_view credentials);

  // Adds the identity of a client whose certificate has this subject, and the super user's if the
  // subject is that of X509AuthenticationProvider.superUser. Returns false as AddDigest does.
  bool AddCertificate(const std::string& subject);

  // Returns the identities that access control lists are checked against. With skipACL the first
  // one passes every list.
  const std::vector<tree::Identity>& all() const { return identities_; }
  // Returns all() without the identity that skipACL adds: those that are shown to the client.
  std::span<const tree::Identity> shown() const;
  // Returns the id of `identity` for display: without the hash of a password.
  static std::string_view ShownId(const tree::Identity& identity);
  // Returns whether this client may be notified of an event with these readers.
  bool MayRead(const Readers& readers) const;

 private:
  bool Add(tree::Identity identity);

  const Config& config_;
  std::vector<tree::Identity> identities_;
  size_t bytes_ = 0;
};

}  // namespace quorate::rpc
