// SPDX-License-Identifier: Apache-2.0

// The identities of a client besides world:anyone: its address, and those that it has proved. All
// front ends use this class.
//
// Thread-safety: none.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/failure_limit.h"
#include "rpc/config/config.h"
#include "tree/command.h"
#include "tree/types.h"

namespace quorate::rpc {

// The access control list that decides which clients are notified of an event; nullptr: all.
using Readers = std::shared_ptr<const std::vector<tree::Acl>>;

// Returns the readers of the events of a znode with this list.
Readers ReadersOf(std::span<const tree::Acl> acl);

// Returns what ReadersOf returns, but copies a list only once for consecutive events of the same
// command: a long list may belong to each of thousands of znodes that one command creates or deletes.
class CommandReaders {
 public:
  // `acl` is the list as the tree keeps it, at the event of the command with this zxid.
  const Readers& Of(tree::Zxid zxid, std::span<const tree::Acl> acl);

 private:
  struct Known {
    std::span<const tree::Acl> acl;
    Readers readers;
  };

  // The address of a list identifies it: while a command is applied, the tree frees no list that its
  // events have. Only the end of a session does so, between its events, but it adds no list that could
  // take the place of a freed one.
  tree::Zxid zxid_;
  std::array<Known, 2> known_;  // of a znode and its parent; the last one used first
};

// Returns the id for `credentials`, as ZooKeeper stores it: "user:password" -> "user:" +
// base64(sha1("user:password")).
std::string DigestId(std::string_view credentials);

class ClientIdentities {
 public:
  // The limits of the number of identities that a client has proved (besides its address, and the super
  // user's, which counts as one with the identity that proves it), and of the bytes of their ids
  // together: each write of a client carries all of them.
  static constexpr size_t kCountMax = 128;
  static constexpr size_t kBytesMax = 64u << 10;
  // The limit of the credentials that prove one identity.
  static constexpr size_t kCredentialsBytesMax = 4u << 10;

  // `address` is the client's address, without the port. `config` must outlive the object.
  ClientIdentities(const Config& config, std::string_view address);

  // Adds the identity that "user:password" proves, and the super user's if these are the
  // credentials of superDigest. ResourceExhausted: there are too many identities, or the credentials
  // are longer than kCredentialsBytesMax. Unavailable: the credentials name the user of
  // superDigest, and too many wrong ones have come from this address; they were not looked at.
  // `super_failures` is the server's (Service::super_failures).
  absl::Status AddDigest(std::string_view credentials, FailureLimit* super_failures);

  // Adds the identities of the super user, for a client that has shown its password with the call.
  // Returns false if there are too many identities. REQUIRES: superDigest is configured.
  bool AddSuper();

  // Adds the identity of a client whose certificate has this subject, and the super user's if the
  // subject is that of X509AuthenticationProvider.superUser. Returns false if there are too many
  // identities.
  bool AddCertificate(const std::string& subject);

  // Adds the identity of a client that has proved to be `user` by SASL, and the super user's if
  // superUser names it. Returns false if there are too many identities.
  bool AddSasl(const std::string& user);

  // Returns whether the client has not yet proved an identity of one of the schemes that are
  // required (Config::required_auth_schemes).
  bool lacks_required() const { return lacks_required_; }
  // Returns why a client that lacks_required() is refused.
  std::string RequiredText() const;

  // Returns the identities that access control lists are checked against. The first ones may be
  // hidden from the client: with skipACL one that passes every list, and with letAnySaslUserDoX one
  // that stands for every SASL user.
  const std::vector<tree::Identity>& all() const { return identities_; }
  // Returns all() without the hidden identities.
  std::span<const tree::Identity> shown() const;
  // Returns the first identity that the client has authenticated with, under which its requests are
  // counted; nullptr if it has none.
  const tree::Identity* first_proved() const;
  // Replaces the "auth" entries in the lists of `request` by entries for the client's identities, if
  // it has hidden ones for which the tree would make entries too.
  void ResolveAuth(tree::Request* request) const;
  // Returns the id of `identity` for display: without the hash of a password.
  static std::string_view ShownId(const tree::Identity& identity);
  // Returns whether this client may be notified of an event with these readers.
  bool MayRead(const Readers& readers) const;

 private:
  // Returns whether the credentials name the user of superDigest.
  bool NamesSuper(std::string_view credentials) const;
  bool Add(tree::Identity identity);
  void Hide(tree::Identity identity);
  bool IsRequired(std::string_view scheme) const;

  const Config& config_;
  const std::string address_;
  std::vector<tree::Identity> identities_;
  size_t hidden_ = 0;              // so many identities at the front are hidden
  bool is_any_sasl_user_ = false;  // the identity of letAnySaslUserDoX is one of them
  bool lacks_required_ = false;
  bool is_super_ = false;  // the super user's identity is one of those that are shown
  size_t bytes_ = 0;
};

// The most identities of a client that are shown, and the most bytes of each.
inline constexpr size_t kShownIdentitiesMax = 16;
inline constexpr size_t kShownIdentityBytesMax = 256;

// Returns identities as texts in ASCII, "scheme:id", without the hash of a password; at most
// kShownIdentitiesMax, and of a long one its beginning.
std::vector<std::string> IdentityTexts(std::span<const tree::Identity> identities);

}  // namespace quorate::rpc
