// Who a client is, besides world:anyone: its address and what it has proved. The same at every
// front end.
//
// Thread-safety: none.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/server/config.h"
#include "tree/types.h"

namespace quorate::rpc {

// The access control list that decides who is told of an event; nullptr: everybody.
using Readers = std::shared_ptr<const std::vector<tree::Acl>>;

// Who is told of an event of a node with this list.
Readers ReadersOf(std::span<const tree::Acl> acl);

// "user:password" -> "user:" + base64(sha1("user:password")), as ZooKeeper stores it.
std::string DigestId(std::string_view credentials);

class ClientIdentities {
 public:
  // At most so many, and ids of so many bytes together: every write of a client carries them all.
  static constexpr size_t kCountMax = 128;
  static constexpr size_t kBytesMax = 64u << 10;
  // Of what proves one of them.
  static constexpr size_t kCredentialsBytesMax = 4u << 10;

  // `address` is the client's, without the port. `config` must outlive the object.
  ClientIdentities(const Config& config, std::string_view address);

  // Adds the identity that "user:password" proves, and with the right one superDigest's. False if
  // there are too many, or the credentials are longer than kCredentialsBytesMax.
  bool AddDigest(std::string_view credentials);

  // What access control lists are checked against. With skipACL the first one passes every list.
  const std::vector<tree::Identity>& all() const { return identities_; }
  // The same without that one, as the client may know it.
  std::span<const tree::Identity> shown() const;
  // The id as others may see it: the hash of a password is nobody's business.
  static std::string_view ShownId(const tree::Identity& identity);
  // Whether an event of a node that `readers` may read is for this client.
  bool MayRead(const Readers& readers) const;

 private:
  bool Add(tree::Identity identity);

  const Config& config_;
  std::vector<tree::Identity> identities_;
  size_t bytes_ = 0;
};

}  // namespace quorate::rpc
