// SPDX-License-Identifier: Apache-2.0

// The znode of one contender: ephemeral and sequential, in a directory that all contenders for the
// same thing share. Locks, semaphores and elections are built from it.
//
// The node creates its znode, then lists the directory; if it is not its turn yet, it watches one
// znode (the one before its own), and lists the directory again when that is deleted. So a deletion
// wakes one waiter, and when a znode in the middle of the line is deleted, the one behind it finds
// a new one to watch. All of this happens in callbacks of the client; there is no thread and no
// polling. Calls that the client refuses, because too many are pending, are repeated after a pause.
//
// A node lives in one session: it ends with that, also if the client replaces it.
//
// No znode is left behind: it is deleted however the wait ends, even if its creation is answered
// only after that; if the session ends, the servers delete it. The name contains a UUID, so that no
// other znode can be mistaken for it.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/client.h"
#include "client/recipes/sequential_names.h"

namespace quorate::internal {

using Deadline = std::chrono::steady_clock::time_point;

// Returns the time `deadline_ms` from now; for 0 or less, Deadline::max().
Deadline DeadlineIn(int deadline_ms);

// The data by which Curator asks the holder of a lock to give it up.
inline constexpr char kRevocationMessage[] = "__REVOKE__";

class LockNode final : public std::enable_shared_from_this<LockNode> {
 public:
  struct Event {
    enum class Type {
      kCreated,    // the znode is created, and has its place in line
      kMovesUp,    // the watched znode was deleted: the directory is listed again
      kWaits,      // others come first
      kTurn,       // it is this node's turn, until it is released or ends
      kSuspended,  // no member serves: the session may end at any time
      kResumed,    // the session continues
      kRevoked,    // a client asks the holder to release (kRevocationMessage)
      kEnded,      // ended without Release: the session ended, or another client deleted the znode
      kReleased,   // the znode is deleted after Release
    };
    Type type{};
    absl::Status reason{};  // set for kSuspended and kEnded
  };
  // Called on the client's callback thread.
  using Handler = std::function<void(const LockNode& node, const Event& event)>;

  // The watch that a waiting node sets; after a deletion the node lists the directory again.
  struct Blocker {
    std::string path;
    WatchScope scope = WatchScope::kNode;
  };
  // Returns the blocker for which the znode `all[own]` has to wait; nothing if it is its turn.
  // `all` is in the order of creation.
  using Decide = std::function<std::optional<Blocker>(
      const std::string& directory, const std::vector<SequentialName>& all, size_t own)>;

  struct Options {
    // Created as a container if it does not exist, with its ancestors.
    std::string directory;
    // The znode's name is "_c_<uuid>-" + prefix + number.
    std::string prefix;
    // The prefixes of all znodes that take part, including `prefix`.
    std::vector<std::string> prefixes;
    std::string data;
    Decide decide;
    // Empty: the znode is sequential. Otherwise ten digits: the znode gets this number, is not
    // sequential, and has its turn as soon as it is created.
    std::string number;
    // Only with `number`: the path of the znode that has the same number, and must still exist.
    std::string behind;
    // 0: the token is the zxid of the znode's creation.
    int64_t fencing_token = 0;
    Handler handler;
  };

  // A Decide function. Returns the znode before the own one; nothing if the own znode is the first.
  static std::optional<Blocker> WaitForPrevious(const std::string& directory,
                                                const std::vector<SequentialName>& all, size_t own);

  // Starts to create the znode; does not block. REQUIRES: `client` lives until the node is released
  // or has ended.
  static std::shared_ptr<LockNode> Start(Client* client, Options options);

  // Blocks until it is this node's turn. DEADLINE_EXCEEDED, or the reason why the node ended.
  absl::Status WaitForTurn(Deadline deadline);
  // Does the same, and returns CANCELLED as soon as `stop` is requested; the node is released then.
  absl::Status WaitForTurn(Deadline deadline, const std::stop_token& stop);
  // Blocks until it is known whether it is this node's turn. Returns true if it is, false if others
  // come first. Errors are those of WaitForTurn.
  absl::StatusOr<bool> WaitForFirstDecision(Deadline deadline);

  // Gives up the turn, or the place in line, and starts to delete the znode; does not block.
  // Returns false, and does nothing, if the node has ended or was released.
  bool Release();
  // Blocks until the znode is deleted after Release. DEADLINE_EXCEEDED: it is still being deleted.
  absl::Status WaitUntilGone(Deadline deadline);

  // Returns whether it is this node's turn, as far as is known locally.
  bool has_turn() const;
  // Returns whether it ever was this node's turn.
  bool had_turn() const;
  bool has_ended() const;
  // Returns whether the znode does not exist any more, so that WaitUntilGone does not block.
  bool is_gone() const;
  // Returns whether no member serves the client.
  bool is_suspended() const;
  // Returns why the node ended; OK if it has not.
  absl::Status status() const;
  // Set once the znode is created; empty and 0 before.
  std::string path() const;
  int64_t fencing_token() const;
  // Appends the condition that it is still this node's turn to `transaction`: that its znode exists.
  // No other znode ever has its name. ABORTED: the node has ended. FAILED_PRECONDITION: it is not
  // its turn, or it was released.
  absl::Status Guard(Transaction* transaction) const;
  // Returns the ABORTED of a holder whose lock was lost.
  absl::Status LostError() const;
  // Returns the session of the znode; 0 before it is created.
  int64_t session_id() const;

 private:
  enum class State { kCreating, kWaiting, kTurn, kEnded };

  LockNode(Client* client, Options options);

  void Begin();
  void Create();
  void CreateNumbered(const std::string& path);
  void CreateDirectory();
  void OnCreated(absl::StatusOr<CreateResult> created);
  void WatchOwn(int64_t created_zxid);
  void OnOwnNotification(const WatchNotification& notification);
  void CheckOwn();
  void List();
  void OnListed(uint64_t round, absl::StatusOr<ListResult> listed);
  void WatchBlocker(uint64_t round, const Blocker& blocker, int64_t after_zxid);
  void OnBlockerNotification(uint64_t round, const WatchNotification& notification);
  void OnSessionEvent(const SessionEvent& event);
  // Ends the node without Release: its znode was deleted, or it cannot continue.
  void End(const absl::Status& status);
  void Delete();
  // Records that the znode is deleted, or that the deletion failed if `status` is an error.
  void SetGone(const absl::Status& status);
  bool is_creating() const;
  // Returns whether the node waits, and has not begun a later listing than `round`.
  bool is_waiting_in(uint64_t round) const;
  // REQUIRES: mutex_ is not held.
  void Tell(Event event) const;

  Client* const client_;
  const Options options_;
  const std::string protected_prefix_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kCreating;
  bool had_turn_ = false;
  bool is_released_ = false;
  bool is_gone_ = false;  // the znode does not exist any more, or its deletion failed
  bool is_session_over_ = false;
  bool is_list_due_ = false;  // the first list was answered before the creation was
  bool is_blocked_ = false;   // others come first, according to the last list
  bool is_suspended_ = false;
  absl::Status status_;  // why the node ended
  absl::Status delete_status_;
  std::string path_;
  int64_t fencing_token_ = 0;
  int64_t session_id_ = 0;
  uint64_t round_ = 0;  // the number of the last listing; results of earlier ones are ignored
  // Handles are ended only while mutex_ is not held: ending one waits for a running notification,
  // which may need mutex_.
  WatchHandle session_listener_, own_watch_, blocker_watch_;
};

}  // namespace quorate::internal
