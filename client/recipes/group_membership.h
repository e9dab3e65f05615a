// SPDX-License-Identifier: Apache-2.0

// The live members of a group: each member has a znode that is deleted with its session.
//
//   auto group = quorate::GroupMembership::Start(client.get(), "/group");
//   (*group)->Join("worker-1", "10.0.0.1:80");
//   for (const auto& [id, data] : (*group)->Members()) ...
//
// Layout: below the znode at `path` each member has an ephemeral child, whose name is its id.
// Interoperates with Curator's GroupMember.
//
// If another client deletes a member's znode, the member creates it again at once; if its session is
// lost, in the next session. Others see it leave and join. The list of members follows on by itself,
// too: after a new session it reports the differences. A member that is restarted with the same id
// replaces the znode of its former session.
//
// Thread-safety: all functions may be called from any thread; the destructor and functions that
// block must not be called on the callback thread. The listener is called on the callback thread,
// and must not block.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/recipes/persistent_node.h"
#include "client/recipes/tree_cache.h"

namespace quorate {

// The members of a group, and this process as one of them.
class GroupMembership {
 public:
  // A change of the members.
  struct Change {
    // What has changed.
    enum class Type {
      kJoined,
      kDataChanged,
      kLeft,
      kLost,  // the client's last session has ended: no change follows
    };
    Type type{};
    std::string id{};
    std::string data{};
  };
  // Gets each change after it is made in the copy.
  using Listener = std::function<void(const Change&)>;

  // Begins to follow the group, and blocks until its members are known. DEADLINE_EXCEEDED after
  // `deadline_ms`; 0: without a deadline. REQUIRES: `client` outlives the returned object.
  static absl::StatusOr<std::unique_ptr<GroupMembership>> Start(Client* client, std::string path,
                                                                Listener listener = nullptr,
                                                                int deadline_ms = 0);
  // Leaves the group.
  ~GroupMembership() = default;

  // Becomes a member, and blocks until its znode exists; deadline as above. FAILED_PRECONDITION:
  // this is a member already, or another Join is in progress. CANCELLED: Leave was called
  // meanwhile.
  absl::Status Join(std::string id, std::string data = {}, int deadline_ms = 0);
  // Sets the data of this member's znode. FAILED_PRECONDITION: this is not a member.
  absl::Status SetData(std::string data);
  // Stops being a member. A waiting Join returns CANCELLED. Does nothing if this is not a member.
  absl::Status Leave();

  // Returns the data of each member by id; the last known members if status() is not OK.
  std::map<std::string, std::string> Members() const;
  // Returns OK while this object follows the group; otherwise the reason why it no longer does, in
  // most cases the end of the client's last session.
  absl::Status status() const { return members_->status(); }
  // Returns the members, with all changes that were acknowledged to any client before the call.
  // Deadline as above.
  absl::StatusOr<std::map<std::string, std::string>> CurrentMembers(int deadline_ms = 0);

 private:
  GroupMembership(Client* client, std::string path) : client_(client), path_(std::move(path)) {}

  Client* const client_;
  const std::string path_;
  std::unique_ptr<TreeCache> members_;
  // Not held while waiting for anything.
  std::mutex mutex_;
  bool is_joining_ = false;  // Join was called, and own_ is not set yet
  bool is_leaving_ = false;  // Leave was called meanwhile
  std::shared_ptr<PersistentNode> own_;
};

}  // namespace quorate
