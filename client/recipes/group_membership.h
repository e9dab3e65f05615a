// Who is there: each member of a group has a znode that goes with its session.
//
//   auto group = quorate::GroupMembership::Start(client.get(), "/group");
//   (*group)->Join("worker-1", "10.0.0.1:80");
//   for (const auto& [id, data] : (*group)->Members()) ...
//
// Layout: below the znode at `path` each member has an ephemeral child, whose name is its id.
// Interoperates with Curator's GroupMember.
//
// A member whose znode somebody deletes is there again at once. One that was started again with the
// same id takes the place of its former session.
//
// Thread-safety: all functions from any thread; the destructor and those that wait not from that of
// callbacks. The listener is called on the thread of callbacks, and must not block.
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

class GroupMembership {
 public:
  struct Change {
    enum class Type {
      kJoined,
      kDataChanged,
      kLeft,
      kLost,  // the session is over: nothing follows
    };
    Type type{};
    std::string id{};
    std::string data{};
  };
  using Listener = std::function<void(const Change&)>;

  // Begins to follow who is there, and waits until that is known. DEADLINE_EXCEEDED after
  // `deadline_ms`; 0: without a deadline. REQUIRES: `client` lives longer.
  static absl::StatusOr<std::unique_ptr<GroupMembership>> Start(Client* client, std::string path,
                                                                Listener listener = nullptr,
                                                                int deadline_ms = 0);
  // Leaves.
  ~GroupMembership() = default;

  // Becomes a member, and waits until its znode is there; deadline as above. FAILED_PRECONDITION:
  // it is one already, or becomes one. CANCELLED: Leave was called meanwhile.
  absl::Status Join(std::string id, std::string data = {}, int deadline_ms = 0);
  // FAILED_PRECONDITION: it is no member.
  absl::Status SetData(std::string data);
  // Ends a Join that waits. Does nothing if it is no member.
  absl::Status Leave();

  // By id, with their data; as they were last, if it follows them no more.
  std::map<std::string, std::string> Members() const;
  // OK while it follows them; otherwise why it does not any more, mostly that the session is over.
  absl::Status status() const { return members_->status(); }
  // The same, with all changes that were acknowledged to anybody before the call.
  absl::StatusOr<std::map<std::string, std::string>> CurrentMembers(int deadline_ms = 0);

 private:
  GroupMembership(Client* client, std::string path) : client_(client), path_(std::move(path)) {}

  Client* const client_;
  const std::string path_;
  std::unique_ptr<TreeCache> members_;
  // Not held while anything is waited for.
  std::mutex mutex_;
  bool is_joining_ = false;  // and the znode was not begun yet
  bool is_leaving_ = false;  // Leave was called meanwhile
  std::shared_ptr<PersistentNode> own_;
};

}  // namespace quorate
