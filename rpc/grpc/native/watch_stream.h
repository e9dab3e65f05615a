// SPDX-License-Identifier: Apache-2.0

// A watch of the Tree service: one request, then events until the client cancels it.
//
// Thread-safety: none; everything runs on the thread of the stream's loop.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "rpc/frontend/client_identities.h"
#include "rpc/grpc/native/scope.h"
#include "rpc/grpc/native/stream.h"
#include "rpc/proto/quorate/v1/tree.pb.h"

namespace quorate::rpc::native {

class WatchStream final : public Stream {
 public:
  WatchStream(StreamLoop* loop, uint32_t tag, std::string address);

  absl::Status OnMessage(std::string_view bytes) override;
  absl::Status OnResult(tree::ApplyResult result) override;
  void OnEvent(uint64_t number, const Event& event) override;
  void OnBarrierDone(uint64_t) override {}
  absl::Status OnTreeReplaced() override;
  absl::Status Continue() override;
  void OnRoom() override { wants_to_continue_ |= feed_.lagging(); }
  absl::Status CheckTime(std::chrono::steady_clock::time_point now,
                         int64_t leader_contact_age_ms) override;
  void Complete(std::string* message) override;
  size_t kept_bytes() const override { return request_.SpaceUsedLong() + prefix_.capacity(); }
  bool has_watches() const override { return state_ == State::kUp; }
  void DropWatches(size_t max) override;

 private:
  enum class State {
    kNew,
    kStarting,  // the watch is not set yet; this member may have to catch up
    kUp,
  };

  absl::Status Start();
  // Adds a message to the outbox. It is empty except for the zxid that Complete adds, and for `zxid`
  // before that if it is given.
  void AddMessage(tree::Zxid zxid = {});
  // Sends the event with this number, unless the filters of the request exclude it.
  void Send(uint64_t number, const Event& event);
  // Sets the filters and the interval from the request.
  absl::Status SetOptions();
  bool wants_values() const { return request_.with_value() || request_.with_previous_value(); }
  // Adds the data of the event with this number. `may_read`: the caller was allowed to read the znode
  // at the event.
  void AddValues(uint64_t number, bool may_read, v1::Event* event) const;
  // Returns whether the caller may read the znode now; true if there is none.
  bool MayReadNow(const std::string& path) const;

  const std::chrono::steady_clock::time_point opened_;
  State state_ = State::kNew;
  v1::WatchRequest request_;
  Scope scope_{};
  uint32_t types_ = 0;           // a set of bits 1 << v1::EventType; 0: all
  std::string prefix_{};         // of paths; empty: none
  bool always_reports_ = false;  // whether a message is sent each period, even if nothing happened
  std::chrono::milliseconds period_;
  EventFeed feed_;
  tree::Zxid sent_zxid_;  // the last zxid that was sent to the client
  std::chrono::steady_clock::time_point sent_;
};

}  // namespace quorate::rpc::native
