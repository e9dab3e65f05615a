// SPDX-License-Identifier: Apache-2.0

// A unary call that concerns one contender: LockService.Release, ElectionService.Resign and
// ElectionService.Proclaim.
//
// Thread-safety: none; everything runs on the thread of the stream's loop.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "rpc/grpc/native/contender_base.h"
#include "rpc/grpc/native/request_record.h"
#include "rpc/grpc/native/stream.h"
#include "rpc/proto/quorate/v1/lock.pb.h"

namespace quorate::rpc::native {

class ContenderCall final : public ContenderBase {
 public:
  // REQUIRES: `method` is kRelease, kResign or kProclaim.
  ContenderCall(StreamLoop* loop, uint32_t tag, std::string client_address, Method method);

  absl::Status OnMessage(std::string_view bytes) override;
  absl::Status OnResult(tree::ApplyResult result) override;
  absl::Status OnTreeReplaced() override;
  void CountUnanswered() const override;
  absl::Status Continue() override;
  absl::Status CheckTime(std::chrono::steady_clock::time_point now,
                         int64_t leader_contact_age_ms) override;
  size_t outstanding() const override { return finished() ? 0 : 1; }
  size_t held_bytes() const override { return data_.size(); }

 private:
  void OnFinish() override;
  // REQUIRES: received() has a value.
  RequestRecord Record() const;
  enum class State {
    kStarting,  // waits for its message, or for the session to be confirmed
    kLooking,   // looks for the contender in the queue
    kFlushing,  // a write without effect is submitted: see Flush
    kWriting,   // the write is submitted
  };

  absl::Status Proceed();
  absl::Status Look();
  // Submits a write without effect, after whose result the znodes that earlier calls were creating
  // are in the tree.
  absl::Status Flush();
  // Writes to the contender's znode with this name, unless the session is to be looked for again.
  absl::Status Write(const std::string& name);
  absl::Status OnWritten(const tree::ApplyResult& result);
  void Send(const google::protobuf::MessageLite& response);
  void SendGone();

  const Method method_;
  State state_ = State::kStarting;
  std::string data_;  // of kProclaim
  // The zxid of the first write whose result has arrived, or nullopt. Znodes that were created later
  // belong to later calls.
  std::optional<tree::Zxid> flushed_;
  bool was_queued_ = false;  // a znode of the contender was deleted
};

}  // namespace quorate::rpc::native
