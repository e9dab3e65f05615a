// The znode by which somebody stands in line: ephemeral, sequential, under a directory that is
// shared by all who want the same. What locks, semaphores and elections are made of.
//
// It is created, then the directory is listed; if it is not its turn yet, one znode (the one before
// it) is watched, and when that is deleted the directory is listed again. So a deletion wakes one
// waiter, and a chain that breaks in the middle closes again. All of this happens in callbacks of
// the client; there is no thread, and nothing is asked periodically. What the client refuses
// because it has too many calls is asked again after a pause.
//
// Nothing is left behind: the znode is deleted however the wait ends, also if its creation is
// answered only after that; if the session ends, it ends with it. The name holds a UUID of its own,
// so that no other znode can be taken for it.
//
// Thread-safety: all functions from any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/client.h"
#include "client/recipes/sequential_names.h"

namespace quorate::internal {

using Deadline = std::chrono::steady_clock::time_point;

// In `deadline_ms` from now; 0 or less: never.
Deadline DeadlineIn(int deadline_ms);

// The data by which Curator asks the holder of a lock to give it up.
inline constexpr char kRevocationMessage[] = "__REVOKE__";

class LockNode final : public std::enable_shared_from_this<LockNode> {
 public:
  struct Event {
    enum class Type {
      kCreated,    // it stands in line
      kMovesUp,    // who came before is gone: it is found out whose turn it is
      kWaits,      // others come first
      kTurn,       // it is its turn, until it is released or ends
      kSuspended,  // no member serves: the session may end any time
      kResumed,    // the session goes on
      kRevoked,    // somebody asks to give it up
      kEnded,     // it is gone, and was not released: the session has ended, or somebody deleted it
      kReleased,  // it is gone, because it was released
    };
    Type type{};
    absl::Status reason{};  // of kSuspended and kEnded
  };
  // Called on the client's thread of callbacks.
  using Handler = std::function<void(const LockNode& node, const Event& event)>;

  // What is to be watched until one of its znodes is deleted.
  struct Blocker {
    std::string path;
    WatchScope scope = WatchScope::kNode;
  };
  // Says for whom the znode `all[own]` has to wait: nobody, if it is its turn. `all` are in the
  // order of their creation.
  using Decide = std::function<std::optional<Blocker>(
      const std::string& directory, const std::vector<SequentialName>& all, size_t own)>;

  struct Options {
    // Is created as a container if it is missing, with all above it.
    std::string directory;
    // The name is "_c_<uuid>-" + prefix + number.
    std::string prefix;
    // Znodes with these count, the own prefix among them.
    std::vector<std::string> prefixes;
    std::string data;
    Decide decide;
    // Ten digits. Not empty: the znode gets this number, is not sequential, and has its turn as
    // soon as it is there.
    std::string number;
    // With a number: the znode that has it already, which must still be there.
    std::string behind;
    // 0: the zxid of its creation.
    int64_t fencing_token = 0;
    Handler handler;
  };

  // Waits for the znode before the own one.
  static std::optional<Blocker> WaitForPrevious(const std::string& directory,
                                                const std::vector<SequentialName>& all, size_t own);

  // Does not block. REQUIRES: `client` lives until the node is released, or it has ended itself.
  static std::shared_ptr<LockNode> Start(Client* client, Options options);

  // Blocks until it is its turn. DEADLINE_EXCEEDED, or why it ended.
  absl::Status WaitForTurn(Deadline deadline);
  // Blocks until it is its turn or others come first; true if it is its turn.
  absl::StatusOr<bool> WaitForFirstDecision(Deadline deadline);

  // Gives the turn back, or the place in line; does not block. False, and nothing is done, if it
  // has ended or was released.
  bool Release();
  // Blocks until the znode is gone after Release. DEADLINE_EXCEEDED: it is being deleted still.
  absl::Status WaitUntilGone(Deadline deadline);

  // Whether it is its turn now, as far as is known here.
  bool has_turn() const;
  // Whether it ever was.
  bool had_turn() const;
  bool has_ended() const;
  // Whether no znode of it is left, so that WaitUntilGone does not block.
  bool is_gone() const;
  // Whether the client is without a member.
  bool is_suspended() const;
  // Why it ended.
  absl::Status status() const;
  // Once it is created; empty and 0 before.
  std::string path() const;
  int64_t fencing_token() const;

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
  // It is gone, or cannot go on.
  void End(const absl::Status& status);
  void Delete();
  // No znode of it is left; or one may be, because of `status`.
  void SetGone(const absl::Status& status);
  bool is_creating() const;
  // Whether it waits, and was not listed again since.
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
  bool is_gone_ = false;  // no znode of it is left
  bool is_session_over_ = false;
  bool is_list_due_ = false;  // the first list was refused before the znode was there
  bool is_blocked_ = false;   // others come first, as the last list said
  bool is_suspended_ = false;
  absl::Status status_;  // why it ended
  absl::Status delete_status_;
  std::string path_;
  int64_t fencing_token_ = 0;
  uint64_t round_ = 0;  // of listing; what belongs to another one is out of date
  // Ended only while mutex_ is not held: that waits for a notification which may need it.
  WatchHandle session_listener_, own_watch_, blocker_watch_;
};

}  // namespace quorate::internal
