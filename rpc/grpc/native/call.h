// SPDX-License-Identifier: Apache-2.0

// A unary call of the Tree service: one request and one response.
//
// Thread-safety: none; everything runs on the thread of the stream's loop.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "rpc/frontend/client_identities.h"
#include "rpc/grpc/native/list_reader.h"
#include "rpc/grpc/native/request_record.h"
#include "rpc/grpc/native/stream.h"
#include "rpc/grpc/native/translation.h"
#include "rpc/proto/quorate/v1/session.pb.h"
#include "rpc/proto/quorate/v1/tree.pb.h"

namespace quorate::rpc::native {

class Call final : public Stream {
 public:
  // REQUIRES: `method` is one of Tree's unary methods.
  Call(StreamLoop* loop, uint32_t tag, std::string address, Method method);

  absl::Status OnMessage(std::string_view bytes) override;
  absl::Status OnResult(tree::ApplyResult result) override;
  void OnBarrierDone(uint64_t barrier) override;
  absl::Status OnTreeReplaced() override;
  void CountUnanswered() const override;
  size_t outstanding() const override { return finished() ? 0 : 1; }
  size_t kept_bytes() const override { return list_ == nullptr ? 0 : list_->bytes(); }
  absl::Status Continue() override;
  absl::Status CheckTime(std::chrono::steady_clock::time_point now,
                         int64_t leader_contact_age_ms) override;

 private:
  void OnFinish() override;
  // Returns what is recorded of the call.
  RequestRecord Record() const;

  enum class State {
    kNew,
    kWaiting,   // waits for a barrier
    kInFlight,  // a write is submitted, not yet applied
    kReady,     // a read can be executed when min_zxid is applied
  };

  // Decode a request and begin its execution.
  template <class Request>
  absl::Status BeginRead(std::string_view bytes);
  template <class Request>
  absl::Status BeginWrite(std::string_view bytes);
  absl::Status BeginWrite(const v1::Request::Write& write);
  // As BeginWrite, but does not record a write that is refused in the audit log.
  absl::Status TryToWrite(const v1::Request::Write& write);
  // Adds what the credentials prove, and checks the limits of the client.
  absl::Status Admit();
  template <class Response>
  absl::Status DoRead();
  // Reads the next piece of a list. Sends the list after the last piece.
  absl::Status DoList();
  absl::Status SendList(v1::Response list);
  absl::Status FailRead(v1::ErrorCode code) const;
  // Returns the place of the first path of a branch in `paths_`.
  size_t FirstPathOf(v1::Branch branch) const;
  // Ends the call with an error. `detail` has the results, if there are any. An empty message stands
  // for v1::TextOf(code).
  absl::Status Fail(v1::ErrorCode code, v1::ErrorDetail detail,
                    std::string_view message = {}) const;
  void Send(const google::protobuf::MessageLite& response);
  // Sends the response of a write of one operation, which was made with `result`.
  void SendOnly(int64_t zxid, v1::OperationResult* result);
  template <class Response>
  void SendCreated(Response response, int64_t zxid, v1::OperationResult* result);
  template <class Response>
  void SendRemoved(Response response, int64_t zxid, const v1::OperationResult& result);
  // Sends the result of a read. If it is long and replies take too much memory, returns UNAVAILABLE
  // instead.
  absl::Status SendRead(const google::protobuf::MessageLite& response);

  const Method method_;
  const std::chrono::steady_clock::time_point opened_;
  State state_ = State::kNew;
  // For statistics: when the request came, unless it is none or was not admitted, and what it asks for; of a
  // write that was applied, the sequence number of its command, and its zxid.
  std::optional<std::chrono::steady_clock::time_point> received_;
  RequestKind kind_ = RequestKind::kUnknown;
  uint64_t sequence_ = 0;
  tree::Zxid zxid_;
  bool is_in_pieces_ = false;  // a list that is read in several iterations
  std::string path_;           // path of a read
  v1::Request list_request_;   // of a list, in the form that it has in a session
  v1::ReadOptions options_;
  // The paths of a write: of its operations, then of `otherwise`, then of its compares.
  std::vector<std::string> paths_;
  AskedKinds asked_;
  std::unique_ptr<ListReader> list_;  // reader of the list in progress
};

}  // namespace quorate::rpc::native
