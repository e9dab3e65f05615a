// SPDX-License-Identifier: Apache-2.0

// The common part of the streams and calls that concern one contender of a lock or an election: their
// session, and their writes.
//
// The member to which a session is attached carries out all its calls, and all of them in one loop. The
// loop's writes are applied in the order in which they are submitted, and writes of an earlier
// attachment are refused by the tree. So when the result of one write has arrived, the effects of all
// earlier calls for the same contender are in this member's tree, or will never come.
//
// Thread-safety: none; everything runs on the thread of the stream's loop.
#pragma once

#include <google/protobuf/repeated_ptr_field.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/grpc/native/contender_queue.h"
#include "rpc/grpc/native/stream.h"
#include "rpc/proto/quorate/v1/lock.pb.h"
#include "rpc/proto/quorate/v1/session.pb.h"

namespace quorate::rpc::native {

class ContenderBase : public Stream {
 public:
  void OnBarrierDone(uint64_t barrier) override;
  size_t kept_bytes() const override { return path_.size() + name_prefix_.size(); }
  absl::Status CheckTime(std::chrono::steady_clock::time_point now,
                         int64_t leader_contact_age_ms) override;

 protected:
  using Operations = google::protobuf::RepeatedPtrField<v1::Operation>;

  ContenderBase(StreamLoop* loop, uint32_t tag, std::string client_address, bool is_call);

  // Decodes the only message of a client into `*message`.
  template <class Message>
  absl::Status Decode(std::string_view bytes, Message* message) {
    if (absl::Status s = TakeMessage(*Message::descriptor(), bytes); !s.ok()) return s;
    if (message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
      return absl::OkStatus();
    return NotARequest();
  }
  // Takes the contender of the message, after Decode, and checks the limits of the client.
  absl::Status Begin(const v1::Contender& contender);
  // Looks for the session in the tree. Returns whether the call may go on: false until a barrier has
  // confirmed that the session does not exist. SESSION_EXPIRED, SESSION_MOVED. Called again before each
  // write, which is then one of the session's attachment at that time. REQUIRES: the tree is locked.
  absl::StatusOr<bool> FindSession();
  // Begins a barrier, unless one has begun; is_confirmed() says whether it is done.
  void Confirm();
  bool is_confirmed() const { return is_confirmed_; }
  bool is_confirming() const { return barrier_ != 0 && !is_confirmed_; }

  // Begins a scan of the queue, for the contender and those before `own_name`.
  void BeginScan(std::string own_name = {});
  // Reads the next piece of the queue. Returns whether the scan is done; if it is not,
  // wants_to_continue_ is set. A queue that does not exist is empty: `*exists` becomes false.
  absl::StatusOr<bool> Scan(bool* exists);
  const QueueScan& scan() const { return *scan_; }
  // Looks for the znode with this name, and counts the work.
  bool FindNode(const std::string& name, tree::Stat* stat);
  std::string PathOf(std::string_view name) const { return path_ + "/" + std::string(name); }

  // Submits a write. It fails with SESSION_MOVED when the session was attached again since FindSession.
  // A write that is refused here is recorded in the audit log.
  absl::Status Submit(Operations operations);
  absl::Status SubmitDelete(std::string_view name);
  // Returns whether this write, which has failed, was refused because the session was attached again.
  static bool IsOfEarlierAttachment(const tree::ApplyResult& result) {
    return result.error == tree::ErrorCode::kSessionMoved;
  }
  // Returns the error of the write with this result; ERROR_CODE_UNSPECIFIED if it was applied.
  static v1::ErrorCode ErrorOf(const tree::ApplyResult& result);
  // Returns the status of a call that fails with `code`, for the queue.
  absl::Status Fail(v1::ErrorCode code, std::string_view message = {}) const;

  // Names the contender among all those of the loop.
  ContenderKey key() const { return {session_, path_, name_prefix_}; }
  const std::string& path() const { return path_; }
  const std::string& prefix() const { return prefix_; }
  const std::string& name_prefix() const { return name_prefix_; }
  tree::SessionId contender_session() const { return session_; }
  bool is_new() const { return is_new_; }
  std::chrono::steady_clock::time_point opened() const { return opened_; }
  // Returns when the message came; nullopt if it is no request, or one that was not admitted.
  std::optional<std::chrono::steady_clock::time_point> received() const { return received_; }

 private:
  absl::Status TakeMessage(const google::protobuf::Descriptor& type, std::string_view bytes);
  static absl::Status NotARequest();
  absl::Status TryToSubmit(const v1::Request::Write& write);

  const std::chrono::steady_clock::time_point opened_;
  bool is_new_ = true;  // no message has arrived
  std::optional<std::chrono::steady_clock::time_point> received_;
  uint64_t barrier_ = 0;
  bool is_confirmed_ = false;
  std::string path_;
  std::string prefix_;
  std::string name_prefix_;
  std::string password_;
  tree::SessionId session_;
  tree::Zxid attach_zxid_;
  int64_t timeout_ms_ = 0;
  std::optional<QueueScan> scan_;
};

}  // namespace quorate::rpc::native
