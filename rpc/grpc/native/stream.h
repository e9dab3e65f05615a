// SPDX-License-Identifier: Apache-2.0

// One stream of a client of the native front end: a session, a unary call, a watch or a scan. It works on
// encoded messages and does not depend on gRPC.
//
// Thread-safety: none; everything runs on the thread of the stream's loop.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "rpc/frontend/client_identities.h"
#include "rpc/frontend/event.h"
#include "rpc/frontend/event_history.h"
#include "rpc/frontend/tenant_limits.h"
#include "rpc/grpc/caller_proof.h"
#include "rpc/proto/quorate/v1/tree.pb.h"
#include "tree/tree.h"

namespace quorate::rpc::native {

class StreamLoop;

// The method that a client calls.
enum class Method : uint8_t {
  kSession,  // Sessions.Session
  kGet,      // the rest are methods of Tree
  kExists,
  kList,
  kCreate,
  kSet,
  kDelete,
  kTxn,
  kWatch,
  kCreateIfNotExists,
  kRemoveRecursive,
  kTryRemove,
  kListRecursive,
  kScan,
  kAcquire,  // methods of Lock
  kRelease,
  kCampaign,  // methods of Election
  kProclaim,
  kResign,
  kObserve,
};

// Returns whether the method gives up or describes what a client has already. It is not refused for the
// number of the client's streams.
inline bool IsOfHeldContender(Method method) {
  return method == Method::kRelease || method == Method::kProclaim || method == Method::kResign;
}

// Names a contender: its session, its queue, and the name of its znode without the number.
struct ContenderKey {
  tree::SessionId session;
  std::string path;
  std::string name_prefix;
  auto operator<=>(const ContenderKey&) const = default;
};

// The messages to be sent. Each message has all parts that were ready, up to a size that a gRPC
// client with default limits accepts.
class Outbox {
 public:
  // Returns the string to which the next part of a message is to be appended. Consecutive parts
  // form one message.
  // A part of `part_bytes` begins a new message if the message would become too large with it.
  std::string* Open(size_t part_bytes = 0);
  // Counts the bytes that were appended since Open.
  void Close();
  size_t bytes() const { return bytes_; }
  bool empty() const { return messages_.empty(); }
  size_t count() const { return messages_.size(); }
  // Returns the next message to be sent. REQUIRES (also for Pop): not empty().
  std::string& front() { return messages_.front().bytes; }
  void Pop();

 private:
  struct Message {
    std::string bytes;
    size_t counted = 0;  // number of `bytes` that are counted in bytes_
  };
  std::deque<Message> messages_;
  size_t bytes_ = 0;
};

// The events for a client that may read more slowly than events happen. Events that do not fit into
// the outbox stay in the history, and are read from there when the outbox has space.
class EventFeed {
 public:
  // From this number of unsent bytes of a stream on, its events stay in the history.
  static constexpr size_t kUnsentBytesMax = 4u << 20;

  // Returns whether the event with this number is to be sent now. If not, CatchUp sends it later.
  bool Takes(uint64_t number, size_t unsent_bytes);
  // Makes the event with this number the next one that CatchUp sends.
  void GoBackTo(uint64_t number);
  bool lagging() const { return lagging_; }

  // Calls `send(number, event)` for the events that were not sent yet, while `may_go_on()` returns true.
  // Returns TOO_SLOW if some of the events are not in the history any more. REQUIRES: the tree is
  // locked, and the inbox is empty.
  template <class MayGoOn, class Send>
  absl::Status CatchUp(const EventHistory& history, MayGoOn may_go_on, Send send) {
    if (!lagging_) return absl::OkStatus();
    if (history.IsLost(next_)) return Lost();
    EventHistory::Reader reader(history, next_);
    while (!reader.at_end() && may_go_on()) {
      const uint64_t number = reader.number();
      send(number, reader.Next());
    }
    next_ = reader.number();
    lagging_ = !reader.at_end();
    return absl::OkStatus();
  }

 private:
  static absl::Status Lost();

  bool lagging_ = false;
  uint64_t next_ = 0;
};

class Stream {
 public:
  // `loop` must outlive the stream. `address` is the address of the client, without the port. A
  // unary call does not count as a connection of its identity.
  Stream(StreamLoop* loop, uint32_t tag, std::string address, bool is_call);
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Takes what the client has shown with its call, before any message arrives. AUTH_FAILED or
  // BAD_ARGUMENTS: it is not accepted, and the stream has to end with that.
  absl::Status SetProof(CallerProof proof);

  // An error returned by any of the following functions ends the stream with that status.

  // Called when a message has arrived. Only commands and barriers may be begun here, because the
  // tree is not locked.
  virtual absl::Status OnMessage(std::string_view bytes) = 0;
  // Called when the client will send no more messages.
  virtual absl::Status OnHalfClosed() { return absl::OkStatus(); }

  // --- From the inbox. The tree is locked --------------------------------------------------------
  virtual absl::Status OnResult(tree::ApplyResult result) = 0;
  virtual void OnEvent(uint64_t number, const Event& event);
  virtual void OnBarrierDone(uint64_t barrier) = 0;
  virtual absl::Status OnSessionClosed() { return absl::OkStatus(); }
  // Called when the session was attached by the command with `attach_zxid`.
  virtual absl::Status OnSessionAttached(tree::Zxid attach_zxid);
  // Called when the tree was replaced by a snapshot: the results of everything in flight are
  // unknown.
  virtual absl::Status OnTreeReplaced() = 0;

  // Continues all work that can continue. REQUIRES: the tree is locked and the inbox is empty, so
  // that every event is in the outbox before any response that could show its change.
  virtual absl::Status Continue() = 0;
  // Returns whether Continue has work to do.
  bool wants_to_continue() const { return wants_to_continue_; }
  // Called when messages were sent, so that the outbox may have space.
  virtual void OnRoom() {}

  // Called periodically. Returns an error, with the reason, if the stream has to end.
  virtual absl::Status CheckTime(std::chrono::steady_clock::time_point now,
                                 int64_t leader_contact_age_ms) = 0;

  // Called just before the last ready message is sent. Appends fields that describe the current
  // moment, such as the zxid up to which all events were sent. REQUIRES: the inbox was empty when
  // the tree was last locked, and the stream has received all of it: !finished().
  virtual void Complete(std::string* message) { static_cast<void>(message); }

  // Returns whether the stream has watches. DropWatches must drop them before the stream is
  // destroyed.
  virtual bool has_watches() const { return false; }
  // Drops at most `max` of the stream's watches. After that only further calls of DropWatches may
  // follow. REQUIRES: the tree is locked.
  virtual void DropWatches(size_t max) { static_cast<void>(max); }

  uint32_t tag() const { return tag_; }
  const std::string& address() const { return address_; }
  Outbox& outbox() { return outbox_; }
  const Outbox& outbox() const { return outbox_; }
  // Returns the identities that the client has proved.
  const ClientIdentities& identities() const { return identities_; }
  // Returns whether the stream ends, with its outcome, as soon as the outbox is sent.
  bool finished() const { return finished_; }
  const absl::Status& outcome() const { return outcome_; }
  // Ends the stream with `outcome` after the outbox is sent.
  void Finish(absl::Status outcome);

  // Returns the session of the stream, or kNoSession.
  virtual tree::SessionId session() const { return tree::kNoSession; }
  // Returns whether the session was touched since the last call.
  virtual bool TakeTouched() { return false; }
  // Returns whether nothing more should be received from the client for now.
  virtual bool IsFull() const { return false; }
  // Returns the number of requests that are not answered.
  virtual size_t outstanding() const { return 0; }
  // Returns what the stream counts for its tenants.
  TenantShare& tenants() { return tenants_; }
  const TenantShare& tenants() const { return tenants_; }
  // Corrects the number of ephemerals that the stream counts: some may have gone without a request of
  // its client. REQUIRES: the tree is locked.
  virtual void CorrectEphemerals() {}
  // Called when the stream of a lock has created an ephemeral of this stream's session, which has
  // `count` of them now.
  virtual void OnEphemerals(size_t /*count*/) {}
  // Returns the bytes of the requests that wait for earlier requests.
  virtual size_t held_bytes() const { return 0; }
  // Returns the bytes that the stream keeps in addition to those requests and the outbox.
  virtual size_t kept_bytes() const { return 0; }
  // Returns the contender whose stream this is.
  virtual std::optional<ContenderKey> contender() const { return std::nullopt; }
  // Called when the contender of this stream is released.
  virtual void EndCreation() {}
  // Counts the requests that are not answered any more, if they were slow. Called when the stream is
  // closed.
  virtual void CountUnanswered() const {}
  // Returns whether a request of the stream waits for the log.
  virtual bool waits_for_log() const { return false; }

 protected:
  StreamLoop* const loop_;
  bool wants_to_continue_ = false;

  // Returns the name of the administrator's token that the client has shown; empty: none.
  const std::string& token() const { return token_; }
  // Adds the identity that the credential proves. Otherwise records the failed authentication.
  // AUTH_FAILED: it proves none. UNAVAILABLE: it was not looked at, because many wrong ones have come
  // from the client's address.
  absl::Status AddCredential(const v1::Credential& credential);
  // Adds the identities that the credentials of SetProof prove, and makes the stream count for the
  // first identity. Called with the first message. AUTH_FAILED or UNAVAILABLE: as AddCredential, or the
  // client has not authenticated as it has to; that is recorded too. TOO_MANY_STREAMS: as
  // JoinIdentity.
  absl::Status Authenticate();
  // Shows administrators the session of the stream, once it is attached.
  void ShowSession(tree::Zxid attach_zxid);
  // Makes the stream count for the first of its identities that was proved. Returns TOO_MANY_STREAMS
  // if that has too many streams.
  absl::Status JoinIdentity();
  // Called when the stream gets its outcome, once.
  virtual void OnFinish() {}
  // Counts that a limit was reached, and returns the error for the client.
  absl::Status OnLimit(Limit limit);

 private:
  // Counts a failed authentication, and writes it to the audit log. `reason` holds no secret.
  void RecordFailedAuthentication(std::string_view reason);

  const uint32_t tag_;
  const std::string address_;
  ClientIdentities identities_;
  std::string token_;
  std::vector<v1::Credential> credentials_;  // not checked yet
  TenantShare tenants_;
  Outbox outbox_;
  bool finished_ = false;
  absl::Status outcome_;
};

}  // namespace quorate::rpc::native
