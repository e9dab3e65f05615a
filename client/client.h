// A client of Quorate: one session with a cluster, over whichever of its members serves.
//
// Exactly once: a write is sent again, to any member, until it is answered, and is made once. Only
// the loss of the session, a deadline, Cancel or Close end it without an answer, and the status
// says which. Calls take effect in the order in which they were made; what a session reads is never
// older than what it has read or written. It may be newer than that order says: a read whose answer
// was lost with its member is made again, and sees what calls behind it have done meanwhile.
//
// Callbacks of calls, watches and listeners, and coroutines, run one at a time, each after all that
// came before it in the session, on a thread of the client's own, or on ClientOptions::executor:
// the "thread of callbacks". They may take long. The session is kept alive, answers and events are
// received, and writes are sent again, on another thread, which never waits for them. Behind a
// callback that takes long, some thousands of answers, or 16 MB, wait for their turn; then further
// calls are not sent before half of them were delivered (they are pending, and their deadlines
// count). Some thousands of events more wait; further events of a watch are merged into one
// WatchReset, and those of a listener into the last one. A call that blocks another thread returns
// after the callbacks of what happened before its answer; only its deadline, or Cancel, ends it at
// once.
//
// Errors of calls, besides what is said at each:
//   what the servers refuse        a canonical code, and the exact one by ErrorOf (client/types.h)
//   DEADLINE_EXCEEDED, CANCELLED   the message says whether a write may have been made
//   UNAUTHENTICATED                the session has ended (ErrorOf: kSessionExpired)
//   RESOURCE_EXHAUSTED             too much is pending already: wait for some of it
//   INVALID_ARGUMENT               no path of a znode, or text that is not UTF-8; nothing was sent
//   FAILED_PRECONDITION            the client was closed, or a blocking function was called on the
//                                  thread of callbacks
//
// Thread-safety: all functions from any thread, except the destructor. The ones without Async in
// their names block.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/call.h"
#include "client/transaction.h"
#include "client/types.h"

namespace quorate {

class Client;

namespace internal {
class Engine;
void RunAfter(Client* client, std::chrono::milliseconds delay, absl::AnyInvocable<void()> callback);
}  // namespace internal

// What becomes of the session.
struct SessionEvent {
  enum class Type {
    kConnected,  // the session is there
    // No member serves, or none is known to, after this process or its machine stood still: calls
    // wait, and the session may end. Told before it can, or at once after a standstill that was
    // longer than that.
    kSuspended,
    kReconnected,  // a member serves the session, perhaps another one; nothing was missed
    kLost,         // it has ended, with its ephemeral znodes: every call fails from now on
  };
  Type type{};
  // host:port of the member that serves it, if one does.
  std::string server;
  // Why, if none does.
  absl::Status reason;
};

struct ClientOptions {
  // "host:port[,host:port...][/chroot]": gRPC ports; all paths are below the chroot.
  std::string servers{};
  // What is wished; the servers have limits.
  int session_timeout_ms = 10'000;
  // How long Connect tries; 0: session_timeout_ms.
  int connect_timeout_ms = 0;
  // Of calls that do not give one themselves; 0: none, they end with an answer or the session.
  int default_deadline_ms = 0;
  std::vector<Credential> credentials{};
  // Called on the thread of callbacks.
  std::function<void(const SessionEvent&)> on_session_event{};
  // Where callbacks run, instead of on a thread of the client's own: runs the task that it is
  // given, once, on any thread, later, and neither refuses nor forgets it. It must not run the task
  // before it returns. There is one task of a client at a time, which runs some callbacks. The
  // destructor of the client waits for the last one.
  std::function<void(std::function<void()> task)> executor{};
  // More calls than these, or bytes of theirs, fail at once.
  size_t pending_calls_max = 100'000;
  size_t pending_bytes_max = size_t{256} << 20;
};

// deadline_ms, in all of them: 0 is ClientOptions::default_deadline_ms, a negative one is none.
struct CallOptions {
  int deadline_ms = 0;
};
struct CreateOptions {
  CreateMode mode = CreateMode::kPersistent;
  // Empty: everybody may do everything.
  std::vector<Acl> acl{};
  // For the modes with a TTL.
  int64_t ttl_ms = 0;
  // Creates what is missing above it first, persistent and with the same acl, which has to permit
  // the client to create there; not as one change.
  bool create_parents = false;
  int deadline_ms = 0;
};
struct ReadOptions {
  // Sees everything that was acknowledged to anybody before the call.
  bool linearizable = false;
  int deadline_ms = 0;
};
// Versions are those that the znode must have; none: any.
struct SetOptions {
  std::optional<int32_t> version{};
  int deadline_ms = 0;
};
struct DeleteOptions {
  std::optional<int32_t> version{};
  // With everything below it, at most 10,000 znodes.
  bool recursive = false;
  int deadline_ms = 0;
};
struct WatchOptions {
  // Events after this zxid, those that happened already first. 0: from now on.
  int64_t after_zxid = 0;
  int deadline_ms = 0;
};

struct CreateResult {
  // With its number, if the mode is sequential.
  std::string path;
  Stat stat;
  int64_t zxid = 0;
};
struct GetResult {
  std::string data;
  Stat stat;
  int64_t zxid = 0;
};
struct ListResult {
  // Names, in the order of their bytes.
  std::vector<std::string> children;
  Stat stat;
  // What the list shows: a watch after it misses nothing.
  int64_t zxid = 0;
};
struct GetAclResult {
  std::vector<Acl> acl{};
  Stat stat;
};
// Of calls without a result.
struct Done {};

// Keeps a watch going, or a listener; its destructor ends it. No notification begins after that,
// and one that is being told is waited for (unless it is ended by its own callback). Movable. It
// may outlive its client.
class WatchHandle {
 public:
  WatchHandle() = default;
  explicit WatchHandle(std::function<void()> end) : end_(std::move(end)) {}
  ~WatchHandle() { End(); }
  WatchHandle(WatchHandle&& other) noexcept : end_(std::exchange(other.end_, nullptr)) {}
  WatchHandle& operator=(WatchHandle&& other) noexcept {
    if (this == &other) return *this;
    End();
    end_ = std::exchange(other.end_, nullptr);
    return *this;
  }
  void End() {
    if (auto end = std::exchange(end_, nullptr)) end();
  }

 private:
  std::function<void()> end_;
};

class Client {
 public:
  using WatchCallback = absl::AnyInvocable<void(const WatchNotification&)>;
  using SessionCallback = absl::AnyInvocable<void(const SessionEvent&)>;

  // Waits for the session. DEADLINE_EXCEEDED names each member with what is wrong with it.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(ClientOptions options);

  // Closes, waiting at most two seconds for the servers' answer. Calls that are under way end with
  // CANCELLED, and all callbacks have run, before it returns. REQUIRES: this is not the thread of
  // callbacks.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // NO_NODE: there is no parent. NODE_EXISTS.
  absl::StatusOr<CreateResult> Create(std::string_view path, std::string data = {},
                                      CreateOptions options = {});
  Call<CreateResult> AsyncCreate(std::string_view path, std::string data = {},
                                 CreateOptions options = {});

  // NO_NODE.
  absl::StatusOr<GetResult> Get(std::string_view path, ReadOptions options = {});
  Call<GetResult> AsyncGet(std::string_view path, ReadOptions options = {});

  // Nothing, if there is no such znode.
  absl::StatusOr<std::optional<Stat>> Exists(std::string_view path, ReadOptions options = {});
  Call<std::optional<Stat>> AsyncExists(std::string_view path, ReadOptions options = {});

  // NO_NODE.
  absl::StatusOr<ListResult> List(std::string_view path, ReadOptions options = {});
  Call<ListResult> AsyncList(std::string_view path, ReadOptions options = {});

  // NO_NODE.
  absl::StatusOr<GetAclResult> GetAcl(std::string_view path, ReadOptions options = {});
  Call<GetAclResult> AsyncGetAcl(std::string_view path, ReadOptions options = {});

  // NO_NODE, BAD_VERSION (of SetAcl: of acl_version).
  absl::StatusOr<Stat> Set(std::string_view path, std::string data, SetOptions options = {});
  Call<Stat> AsyncSet(std::string_view path, std::string data, SetOptions options = {});
  absl::StatusOr<Stat> SetAcl(std::string_view path, std::vector<Acl> acl, SetOptions options = {});
  Call<Stat> AsyncSetAcl(std::string_view path, std::vector<Acl> acl, SetOptions options = {});

  // How many znodes are gone. NO_NODE, BAD_VERSION, NOT_EMPTY, TOO_LARGE.
  absl::StatusOr<uint32_t> Delete(std::string_view path, DeleteOptions options = {});
  Call<uint32_t> AsyncDelete(std::string_view path, DeleteOptions options = {});

  // The error is that of the operation that failed, which FailedOperationOf tells.
  absl::StatusOr<TransactionResult> Commit(const Transaction& transaction,
                                           CallOptions options = {});
  Call<TransactionResult> AsyncCommit(const Transaction& transaction, CallOptions options = {});

  // Later reads see everything that was acknowledged to anybody before the call.
  absl::Status Sync(CallOptions options = {});
  Call<Done> AsyncSync(CallOptions options = {});

  absl::StatusOr<std::vector<Identity>> WhoAmI(CallOptions options = {});
  Call<std::vector<Identity>> AsyncWhoAmI(CallOptions options = {});

  // For the rest of the session. AUTH_FAILED.
  absl::Status AddCredential(Credential credential, CallOptions options = {});
  Call<Done> AsyncAddCredential(Credential credential, CallOptions options = {});

  // Tells `callback` of each event once, in order, before any answer that could show the change,
  // until the handle is destroyed. Changes of the member lose nothing; what the servers do not keep
  // any more is told as one WatchReset. The znode need not be there.
  absl::StatusOr<WatchHandle> Watch(std::string_view path, WatchScope scope, WatchCallback callback,
                                    WatchOptions options = {});
  Call<WatchHandle> AsyncWatch(std::string_view path, WatchScope scope, WatchCallback callback,
                               WatchOptions options = {});

  // Leaves the member that serves, if one does, for another: to spread clients again when members
  // were added or came back. The session goes on; calls that are under way get their answers, and
  // watches their events, from the other one. Does not block; the session's events tell of it.
  void ChangeMember();

  // Ends the session, and its ephemeral znodes, after all calls that were made before. Later ones
  // fail. `options.deadline_ms` is the session's timeout if it is 0; when it is over, the session
  // ends by its timeout.
  absl::Status Close(CallOptions options = {});

  // Tells `callback` what becomes of the session, until the handle is destroyed. If no member
  // serves, or the session has ended, that is told first. Here kLost is also told when the client
  // is closed or destroyed. It is told before the calls that it fails. Callbacks run on the thread
  // of callbacks. Does not block.
  WatchHandle ListenToSession(SessionCallback callback);

  int64_t session_id() const;
  // What the servers have granted, which may differ from what was wished.
  int session_timeout_ms() const;

  // How many milliseconds ago a member was last known to serve the session, also while the machine
  // was suspended. The servers may have ended it if that is more than session_timeout_ms().
  int64_t ms_since_served() const;

  enum class State { kConnecting, kConnected, kSuspended, kLost, kClosed };
  State state() const;

 private:
  friend void internal::RunAfter(Client*, std::chrono::milliseconds, absl::AnyInvocable<void()>);

  explicit Client(std::shared_ptr<internal::Engine> engine, std::string chroot,
                  int default_deadline_ms);

  int DeadlineOf(int deadline_ms) const;

  const std::shared_ptr<internal::Engine> engine_;
  const std::string chroot_;  // empty: none
  const int default_deadline_ms_;
};

}  // namespace quorate
