// SPDX-License-Identifier: Apache-2.0

// A client of Quorate: a session with a cluster, through any member that serves, and another
// session in its place when it is lost.
//
// Exactly once: the client sends a write again, to any member, until it is answered; the servers
// apply the write once. Only the loss of the session, a deadline, Cancel or Close end a write
// without an answer, and its status says which. Calls take effect in the order in which they were
// made, and a client never reads a state that is older than one that it has read or written. A
// read may see effects of later calls: if its answer is lost with the member, the read is sent
// again, after later calls may have been executed.
//
// Loss of the session: the servers end a session that has expired, or that was closed elsewhere.
// Its ephemeral znodes are gone. The listeners get kLost, and then every call that was made in the
// session and is not answered fails with UNAUTHENTICATED (kSessionExpired); a call is never carried
// over into another session, and its message says whether a write may have been made. By
// ClientOptions::on_session_loss, the client then creates another session, until it succeeds. Calls
// that are made meanwhile wait for that session, with their deadlines. kReplaced reports it. Each
// watch is set again in the new session and reports one WatchReset first: what it watches has to be
// read again. Credentials are presented again. The recipes say in their headers what they do.
//
// Callbacks of calls, watches and listeners, and coroutines, run one at a time, in the order of the
// answers and events that the session received, on a thread of the client's own or on
// ClientOptions::executor: the "callback thread". A callback may take long: another thread, which
// never waits for callbacks, keeps the session alive, receives answers and events, and sends writes
// again. Behind a slow callback some thousands of answers, or 16 MB, can wait; then no further
// calls are sent until half of that is delivered (the calls stay pending, and their deadlines
// count). Some thousands of further events can wait; beyond that, the events of a watch are merged
// into one WatchReset, and those of a listener into the last one. A blocking call on another thread
// returns after the callbacks of everything that precedes its answer; only its deadline, or Cancel,
// ends it at once.
//
// Errors of calls, besides those named at each function:
//   refusals by the servers        a canonical code; ErrorOf returns the exact one (client/types.h)
//   DEADLINE_EXCEEDED, CANCELLED   the message says whether a write may have been made
//   UNAUTHENTICATED                the session in which the call was made has ended (ErrorOf:
//                                  kSessionExpired)
//   RESOURCE_EXHAUSTED             too many calls or bytes are pending: wait for some of them, or
//                                  set ClientOptions::when_full
//   INVALID_ARGUMENT               an invalid path, or text that is not UTF-8; nothing was
//                                  sent
//   FAILED_PRECONDITION            the client was closed, or a blocking function was called on the
//                                  callback thread
//
// Thread-safety: all functions may be called from any thread, except the destructor. Connect, Close
// and each function that has an Async form block.
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
#include "client/tls.h"
#include "client/transaction.h"
#include "client/types.h"

namespace quorate {

class Client;

namespace internal {
class Engine;
void RunAfter(Client* client, std::chrono::milliseconds delay, absl::AnyInvocable<void()> callback);
std::pair<int64_t, std::string> SessionKeyOf(Client* client);
}  // namespace internal

// A change of the session's state.
struct SessionEvent {
  // What has happened to the session.
  enum class Type {
    kConnected,  // the first session was created
    // No member serves the session, or none is known to serve it after this process or its machine
    // stood still: calls wait, and the session may expire. Reported before the servers can expire
    // the session, or right after a standstill if that lasted too long for it.
    kSuspended,
    kReconnected,  // a member serves the session, perhaps another one; nothing was missed
    // The session has ended, with its ephemeral znodes. If `is_final`, every further call fails;
    // otherwise kReplaced follows, or a second kLost that is final.
    kLost,
    kReplaced,  // another session was created in place of the lost one
  };
  Type type{};
  // host:port of the member that serves the session; empty if none does.
  std::string server;
  // Why no member serves the session; OK if one does.
  absl::Status reason;
  // The session that the event is about; 0 if there is none. If events are merged, because too many
  // wait for a slow callback, a new id shows that the session before was lost.
  int64_t session_id = 0;
  // Only for kLost: no other session follows, because the client was closed or destroyed,
  // ClientOptions::on_session_loss is kStop, or the servers refuse another session.
  bool is_final = false;
};

// What a client does when its session is lost.
enum class SessionLoss {
  kReplace,  // creates another session
  kStop,     // every further call fails with UNAUTHENTICATED
};

// How a client goes on when no member serves it: it tries all of them without a pause, and then again
// after pauses that double from round to round. Each pause is chosen at random between the half and the
// whole, so that not all clients try at the same time. Calls wait meanwhile, each until its deadline.
struct RetryPolicy {
  int pause_min_ms = 10;
  int pause_max_ms = 1'000;
  // How long the client tries to create a session in place of a lost one. After that, kLost is
  // reported again, and is final. 0: without a limit.
  int give_up_after_ms = 0;
};

// A call that begins, for metrics and traces. Its end has the same number.
struct CallBegin {
  // Unique within the client.
  uint64_t call = 0;
  // The name of the function without "Async", such as "Get"; "Commit" for a transaction of several
  // operations, and the name of the operation for one of a single operation.
  std::string name{};
};

// A call that has ended.
struct CallEnd {
  uint64_t call = 0;
  std::string name{};
  // The outcome, as the caller gets it.
  absl::Status status{};
  // From the call of the function to its answer, with all attempts.
  std::chrono::nanoseconds duration{};
  // host:port of the member that answered; empty if none did.
  std::string server{};
};

// What a call does that would exceed ClientOptions::pending_calls_max or pending_bytes_max.
enum class WhenFull {
  kRefuse,  // it fails with RESOURCE_EXHAUSTED
  kBlock,   // the function waits on the calling thread, Async or not, until other calls have ended
};

// The importance of a log line.
enum class LogLevel { kInfo, kWarning };

// The servers of a client, its session, and its limits.
struct ClientOptions {
  // "host:port[,host:port...][/chroot]": gRPC ports; all paths are below the chroot. Names are
  // resolved again for each connection.
  std::string servers{};
  // Whether the client measures the round trips to all servers, when it starts, when SetServers
  // changes the list and when it leaves a member, and tries near ones first. Servers are equally near
  // if their latencies are below 1 ms or within a factor of about two; then one is chosen at random, as
  // without this option. A client that leaves a member does not wait for the measurement that begins
  // then: it tries the others by the latencies of the one before, and those of the new one take effect
  // with its next round through the servers. A client does not leave a member because another one has
  // become nearer; ChangeMember makes it try them again. The measurement shows no credentials.
  bool prefer_nearest = false;
  // How long a measurement may take. Connect waits for the first one; servers that do not answer in
  // time are tried after those that do. Connect fails with INVALID_ARGUMENT if it is not positive.
  int nearest_patience_ms = 1'000;
  // The requested session timeout; the servers may grant a different one, within their limits.
  int session_timeout_ms = 10'000;
  // How long Connect tries, in milliseconds; 0: session_timeout_ms.
  int connect_timeout_ms = 0;
  // The deadline of calls that set none, in milliseconds; 0: no deadline, such calls end with an
  // answer or with the session.
  int default_deadline_ms = 0;
  // kReplace is the default because a session can be lost at any time by no fault of the program (a
  // pause, a partition), and a program that has to create a Client and everything built on it again
  // rarely does so right. It costs one safeguard: with kStop the servers refuse every write after
  // the loss, also one that a former holder of a lock makes before it learns of the loss. With
  // kReplace such a write is made in the next session, unless it is a guarded transaction
  // (InterProcessMutex::Guard, Election::Guard), or the fencing token is checked.
  //
  // Not replaced are sessions that all servers refuse for their credentials, and those whose
  // acknowledged writes the cluster has lost (DATA_LOSS): kLost is final then.
  SessionLoss on_session_loss = SessionLoss::kReplace;
  // The identities of the client besides its address. Each stream of the session shows them as
  // metadata (`quorate-credential`). Connect fails with INVALID_ARGUMENT if there are more than 128, or
  // 16 KiB of them in base64, or a scheme has other characters than lower-case letters and digits.
  std::vector<Credential> credentials{};
  // Without TLS, everything is sent unencrypted, credentials included. Connect fails with
  // INVALID_ARGUMENT if a file of TLS cannot be used.
  TlsOptions tls{};
  // An administrator's token, or a file with one as `quorate --token-file` takes it. Each stream of
  // the session sends it as the metadata `authorization: Bearer TOKEN`. Sessions need no
  // administrator, and a token passes no access control list; WhoAmI shows its name. Servers refuse
  // the session for a token that they do not know, which is final (on_session_loss) once all of them
  // have; while one could not be reached, it may know the token, and the client goes on. Connect fails
  // once all of them have refused or could not be reached. Connect fails
  // with INVALID_ARGUMENT if both are set, the file cannot be used or others can read it, or the token
  // would be sent unencrypted to another machine.
  std::string token{};
  std::string token_file{};
  // Connect fails with INVALID_ARGUMENT if a pause is not positive or the second one is smaller.
  RetryPolicy retry{};
  // Called on the callback thread.
  std::function<void(const SessionEvent&)> on_session_event{};
  // Called on the callback thread with lines for the program's log, without a line end: each an event
  // of the connection in the same words, with its values as key=value behind it. Lines are dropped
  // while some thousands of events wait for a slow callback.
  std::function<void(LogLevel level, std::string_view line)> log{};
  // Runs the callbacks, instead of a thread of the client's own. The executor must run each task
  // exactly once, on any thread, but not before the executor itself returns; it must neither refuse
  // nor drop a task. A client has one task at a time, which runs some callbacks. The client's
  // destructor waits for the last task.
  std::function<void(std::function<void()> task)> executor{};
  // Limits of pending calls and of the bytes of their requests.
  size_t pending_calls_max = 100'000;
  size_t pending_bytes_max = size_t{256} << 20;
  // With kBlock, threads that make calls are slowed to the rate at which the servers answer, instead
  // of getting errors. The waiting counts for the deadline of the call: DEADLINE_EXCEEDED then, and
  // nothing was sent; it ends with CANCELLED when the client is destroyed. RESOURCE_EXHAUSTED all the
  // same: on the callback thread, where waiting could keep other calls from ending; for a request that
  // is larger than pending_bytes_max; and while some thousands of outcomes and events wait for
  // callbacks, because no further answers are received then. A thread that makes calls should hold no
  // lock that a callback takes, and be none that the executor needs for its tasks: callbacks would wait
  // for it until then. Calls of recipes do not wait, except in functions that block. The further
  // requests of a Create with create_parents exceed the limits, because it has begun.
  WhenFull when_full = WhenFull::kRefuse;
  // Called on the thread that makes a call, before the call is sent. Must not throw or block. A Create
  // with create_parents is one call.
  std::function<void(const CallBegin&)> on_call_begin{};
  // Called on the callback thread, right before the outcome of the call is delivered, once for each
  // CallBegin. Blocking calls then wait for the callback thread, too.
  std::function<void(const CallEnd&)> on_call_end{};
};

// deadline_ms, in all options: 0 means ClientOptions::default_deadline_ms, a negative value none.
struct CallOptions {
  int deadline_ms = 0;
};
// How Create and CreateIfNotExists create a znode.
struct CreateOptions {
  CreateMode mode = CreateMode::kPersistent;
  // Empty: all clients have all permissions.
  std::vector<Acl> acl{};
  // For the modes with a TTL.
  int64_t ttl_ms = 0;
  // Creates missing ancestors first, as persistent znodes with the same `acl`, which must permit
  // this client to create children. The whole is not one atomic change.
  bool create_parents = false;
  int deadline_ms = 0;
};
// How fresh a read is.
struct ReadOptions {
  // Whether the read sees every write that was acknowledged to any client before the call.
  bool linearizable = false;
  int deadline_ms = 0;
};
// What a list shows of the children, besides the names of all of them.
struct ListDetails {
  // The children that the list has.
  ChildKind kind = ChildKind::kAll;
  // Whether ListResult::child_stats and child_data are filled.
  bool with_stats = false;
  bool with_data = false;
};
// How ListRecursive reads, and how much.
struct ListRecursiveOptions {
  // As ReadOptions::linearizable.
  bool linearizable = false;
  // The most paths in the result, which ends there; nullopt: no maximum.
  std::optional<uint32_t> max{};
  int deadline_ms = 0;
};
// `version` is the version that the znode must have; nullopt accepts any version.
struct SetOptions {
  std::optional<int32_t> version{};
  int deadline_ms = 0;
};
// What Delete requires and deletes; `version` as in SetOptions.
struct DeleteOptions {
  std::optional<int32_t> version{};
  // Deletes the whole subtree, at most 10,000 znodes.
  bool recursive = false;
  int deadline_ms = 0;
};
// How much RemoveRecursive deletes.
struct RemoveRecursiveOptions {
  // The most znodes to delete, the znode itself included; nullopt: 10,000, which is also the most
  // that the servers delete at a time.
  std::optional<uint32_t> limit{};
  int deadline_ms = 0;
};
// What TryRemove requires; `version` as in SetOptions.
struct TryRemoveOptions {
  std::optional<int32_t> version{};
  int deadline_ms = 0;
};
// The state from which a watch reports.
struct WatchOptions {
  // The watch reports events after this zxid, first those that have happened already. 0: from now
  // on.
  int64_t after_zxid = 0;
  int deadline_ms = 0;
};

// The znode that Create has created. `zxid`, in all results of writes, is that of the write.
struct CreateResult {
  // With the sequence number appended, if the mode is sequential.
  std::string path;
  Stat stat;
  int64_t zxid = 0;
};
// The znode that CreateIfNotExists has created or found.
struct CreateIfNotExistsResult {
  // With the sequence number appended, if the mode is sequential.
  std::string path;
  // The metadata of the new znode; nullopt if the znode existed.
  std::optional<Stat> stat;
  int64_t zxid = 0;
};
// A znode as Get has read it. `zxid` is that of the state in which it was read.
struct GetResult {
  std::string data;
  Stat stat;
  int64_t zxid = 0;
};
// The children that List has found.
struct ListResult {
  // Names, in the order of their bytes.
  std::vector<std::string> children;
  // The metadata and the data of the children, in the order of their names. Each vector is empty if
  // it was not requested. Metadata and data may be newer than `zxid`.
  std::vector<Stat> child_stats{};
  std::vector<std::string> child_data{};
  // Of the znode itself.
  Stat stat;
  // The zxid of the state that the list shows: a watch with this `after_zxid` misses nothing.
  int64_t zxid = 0;
};
// The znodes that ListRecursive has found.
struct ListRecursiveResult {
  // The paths below the znode: first its children, then their children, and so on; those of one
  // level in the order of their bytes.
  std::vector<std::string> paths;
  // The list shows all changes up to this zxid, and may show some later ones: a watch with this
  // `after_zxid` misses nothing.
  int64_t zxid = 0;
};
// The access control list of a znode.
struct GetAclResult {
  std::vector<Acl> acl{};
  Stat stat;
};
// The result of calls that return nothing.
struct Done {};

// Keeps a watch or a listener active; its destructor, or End, ends it. After that no callback
// begins, and one that is running has returned (unless it is this callback that ends the watch).
// Movable. The handle may outlive its client.
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
  // Does what the destructor does. Without an effect if the watch has ended.
  void End() {
    if (auto end = std::exchange(end_, nullptr)) end();
  }

 private:
  std::function<void()> end_;
};

// A session with a cluster. The comment of this file describes it.
class Client {
 public:
  // Gets the events of a watch.
  using WatchCallback = absl::AnyInvocable<void(const WatchNotification&)>;
  // Gets the events of the session.
  using SessionCallback = absl::AnyInvocable<void(const SessionEvent&)>;

  // Waits until the session is created. DEADLINE_EXCEEDED: the message gives for each member why it
  // did not serve.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(ClientOptions options);

  // Closes the session, waiting at most two seconds for the servers' answer. Pending calls end with
  // CANCELLED, and all callbacks have run, before the destructor returns. REQUIRES: the calling
  // thread is not the callback thread.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Creates a znode. NO_NODE: its parent does not exist. NODE_EXISTS.
  absl::StatusOr<CreateResult> Create(std::string_view path, std::string data = {},
                                      CreateOptions options = {});
  Call<CreateResult> AsyncCreate(std::string_view path, std::string data = {},
                                 CreateOptions options = {});

  // Returns data and Stat. NO_NODE.
  absl::StatusOr<GetResult> Get(std::string_view path, ReadOptions options = {});
  Call<GetResult> AsyncGet(std::string_view path, ReadOptions options = {});

  // Returns the Stat, or nothing if the znode does not exist.
  absl::StatusOr<std::optional<Stat>> Exists(std::string_view path, ReadOptions options = {});
  Call<std::optional<Stat>> AsyncExists(std::string_view path, ReadOptions options = {});

  // Returns the names of the children, of all or of one kind, and what `details` asks for. NO_NODE.
  // TOO_LARGE: the result takes more than the servers' maxReplyBytes. With any details, NO_AUTH if
  // one of all children may not be read; UNIMPLEMENTED if the server is of a version without them.
  absl::StatusOr<ListResult> List(std::string_view path, ReadOptions options = {},
                                  ListDetails details = {});
  Call<ListResult> AsyncList(std::string_view path, ReadOptions options = {},
                             ListDetails details = {});

  // Returns the paths of everything below a znode. A znode below it that this client may not read
  // is listed without what is below that. NO_NODE. TOO_LARGE: the paths take more than the servers'
  // maxReplyBytes. BAD_ARGUMENTS: the server is of a version without this call.
  absl::StatusOr<ListRecursiveResult> ListRecursive(std::string_view path,
                                                    ListRecursiveOptions options = {});
  Call<ListRecursiveResult> AsyncListRecursive(std::string_view path,
                                               ListRecursiveOptions options = {});

  // Returns the access control list. NO_NODE.
  absl::StatusOr<GetAclResult> GetAcl(std::string_view path, ReadOptions options = {});
  Call<GetAclResult> AsyncGetAcl(std::string_view path, ReadOptions options = {});

  // Replaces the data, or the access control list. NO_NODE; BAD_VERSION (SetAcl compares
  // Stat::acl_version).
  absl::StatusOr<Stat> Set(std::string_view path, std::string data, SetOptions options = {});
  Call<Stat> AsyncSet(std::string_view path, std::string data, SetOptions options = {});
  absl::StatusOr<Stat> SetAcl(std::string_view path, std::vector<Acl> acl, SetOptions options = {});
  Call<Stat> AsyncSetAcl(std::string_view path, std::vector<Acl> acl, SetOptions options = {});

  // Deletes a znode. Returns how many znodes were deleted. NO_NODE, BAD_VERSION, NOT_EMPTY,
  // TOO_LARGE.
  absl::StatusOr<uint32_t> Delete(std::string_view path, DeleteOptions options = {});
  Call<uint32_t> AsyncDelete(std::string_view path, DeleteOptions options = {});

  // Creates a znode, or leaves one that exists as it is. `options.mode` is none of those of
  // containers and TTLs. NO_NODE: its parent does not exist. UNIMPLEMENTED, also of the two
  // functions below: the cluster has servers of a version without this operation.
  absl::StatusOr<CreateIfNotExistsResult> CreateIfNotExists(std::string_view path,
                                                            std::string data = {},
                                                            CreateOptions options = {});
  Call<CreateIfNotExistsResult> AsyncCreateIfNotExists(std::string_view path, std::string data = {},
                                                       CreateOptions options = {});

  // Deletes a znode with everything below it. Returns how many znodes were deleted: 0 if the znode
  // did not exist. NOT_EMPTY: there are more znodes than the limit. Unlike a recursive Delete, it
  // needs the permission to delete of each deleted znode.
  absl::StatusOr<uint32_t> RemoveRecursive(std::string_view path,
                                           RemoveRecursiveOptions options = {});
  Call<uint32_t> AsyncRemoveRecursive(std::string_view path, RemoveRecursiveOptions options = {});

  // Deletes a znode. Returns whether it was deleted; false, without a change, if the znode did not
  // exist, had another version or had children.
  absl::StatusOr<bool> TryRemove(std::string_view path, TryRemoveOptions options = {});
  Call<bool> AsyncTryRemove(std::string_view path, TryRemoveOptions options = {});

  // Makes all operations of the transaction, or none: those of Else if it has compares and one does
  // not hold, which is no error. The error is that of the operation that failed, or of the compare
  // that could not be made; FailedPartOf and FailedOperationOf return which one that is.
  absl::StatusOr<TransactionResult> Commit(const Transaction& transaction,
                                           CallOptions options = {});
  Call<TransactionResult> AsyncCommit(const Transaction& transaction, CallOptions options = {});

  // Makes later reads of this session see every write that was acknowledged to any client before
  // the call.
  absl::Status Sync(CallOptions options = {});
  Call<Done> AsyncSync(CallOptions options = {});

  // Returns the identities that the servers check access control lists against.
  absl::StatusOr<std::vector<Identity>> WhoAmI(CallOptions options = {});
  Call<std::vector<Identity>> AsyncWhoAmI(CallOptions options = {});

  // Adds an identity, for the rest of the session and for those that replace it. AUTH_FAILED.
  // RESOURCE_EXHAUSTED: with ClientOptions::credentials and those added before, there would be more
  // than 128 credentials, or 16 KiB of them in base64.
  absl::Status AddCredential(Credential credential, CallOptions options = {});
  Call<Done> AsyncAddCredential(Credential credential, CallOptions options = {});

  // Calls `callback` for each event once, in order, before any answer that could show the change,
  // until the handle is destroyed. No event is lost when the client changes the member; events that
  // the servers no longer keep, and those between two sessions, are reported as one WatchReset. The
  // znode need not exist.
  absl::StatusOr<WatchHandle> Watch(std::string_view path, WatchScope scope, WatchCallback callback,
                                    WatchOptions options = {});
  Call<WatchHandle> AsyncWatch(std::string_view path, WatchScope scope, WatchCallback callback,
                               WatchOptions options = {});

  // Leaves the member that serves this client, if any, for another one. Use it to rebalance clients
  // after members were added or came back. The session continues; pending calls get their answers,
  // and watches their events, from the new member. Does not block; session events report the
  // change.
  void ChangeMember();

  // Replaces the list of servers, in the form of ClientOptions::servers; a chroot may be left out, and
  // must be the same as before otherwise. A client that is served by a member which is not in the new
  // list leaves that member for one of the list; the session continues. Does not block.
  // INVALID_ARGUMENT: the list is not valid, the chroot is another one, or the token would be sent
  // unencrypted to another machine; nothing is changed.
  absl::Status SetServers(std::string_view servers);

  // Ends the session, with its ephemeral znodes, after all calls that were made before; later calls
  // fail. If `options.deadline_ms` is 0, the deadline is the session timeout. After
  // DEADLINE_EXCEEDED the session ends by its timeout.
  absl::Status Close(CallOptions options = {});

  // Calls `callback` for each event of the session, until the handle is destroyed. If no member
  // serves the session now, there is none (kSuspended without a session_id), or the last one has
  // ended, that event comes first. Unlike on_session_event, this callback also gets kLost when the
  // client is closed or destroyed. kLost comes before the outcomes of the calls that fail because
  // of it, and kReplaced before those of the calls that were made in the new session. Callbacks run
  // on the callback thread. Does not block.
  WatchHandle ListenToSession(SessionCallback callback);

  // Returns the id of the session; 0 after one was lost and before it is replaced. Ids are never
  // used again.
  int64_t session_id() const;
  // Returns the session timeout that the servers have granted, which may differ from the requested
  // one.
  int session_timeout_ms() const;

  // Returns how many milliseconds ago a member was last known to serve the session. Time in which
  // the machine was suspended counts. If that is more than session_timeout_ms(), the servers may
  // have expired the session.
  int64_t ms_since_served() const;

  // Whether a member serves the session.
  enum class State {
    kConnecting,  // there is no session: the first one, or another one, is being created
    kConnected,
    kSuspended,  // no member serves the session
    kLost,       // the session has ended, and no other follows
    kClosed,     // Close has succeeded
  };
  // Returns the state of the session as the client knows it now.
  State state() const;

 private:
  friend void internal::RunAfter(Client*, std::chrono::milliseconds, absl::AnyInvocable<void()>);
  friend std::pair<int64_t, std::string> internal::SessionKeyOf(Client*);

  explicit Client(std::shared_ptr<internal::Engine> engine, std::string chroot,
                  int default_deadline_ms);

  int DeadlineOf(int deadline_ms) const;

  const std::shared_ptr<internal::Engine> engine_;
  const std::string chroot_;  // empty: no chroot
  const int default_deadline_ms_;
};

}  // namespace quorate
