// SPDX-License-Identifier: Apache-2.0

// The stream of a client that observes an election (ElectionService.Observe). It watches the leader's
// znode only; while there is no leader, it watches the children of the queue.
//
// Thread-safety: none; everything runs on the thread of the stream's loop.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "rpc/grpc/native/contender_queue.h"
#include "rpc/grpc/native/scope.h"
#include "rpc/grpc/native/stream.h"
#include "rpc/proto/quorate/v1/lock.pb.h"

namespace quorate::rpc::native {

class ObserveStream final : public Stream {
 public:
  ObserveStream(StreamLoop* loop, uint32_t tag, std::string client_address);

  absl::Status OnMessage(std::string_view bytes) override;
  absl::Status OnResult(tree::ApplyResult result) override;
  void OnEvent(uint64_t number, const Event& event) override;
  void OnBarrierDone(uint64_t) override {}
  absl::Status OnTreeReplaced() override;
  absl::Status Continue() override;
  void OnRoom() override { wants_to_continue_ |= state_ == State::kShowing; }
  absl::Status CheckTime(std::chrono::steady_clock::time_point now,
                         int64_t leader_contact_age_ms) override;
  bool has_watches() const override { return !watched_.empty(); }
  void DropWatches(size_t max) override;
  size_t kept_bytes() const override {
    return request_.path().size() + watched_.size() + leader_.size();
  }

 private:
  enum class State {
    kNew,
    kStarting,   // this member may have to catch up
    kSearching,  // looks for the first contender of the queue
    kShowing,    // the client is to be shown the leader, or that there is none
    kShown,      // waits for a change
  };

  absl::Status Start();
  absl::Status Search();
  void BeginSearch();
  absl::Status Show();
  // Makes this the only watch; an empty path: none.
  void Watch(const std::string& path, Scope scope);

  const std::chrono::steady_clock::time_point opened_;
  State state_ = State::kNew;
  v1::ObserveRequest request_;
  std::string prefix_;
  std::optional<QueueScan> scan_;
  tree::Zxid leader_zxid_;  // of the creation of the leader's znode
  std::string leader_;      // the path of the leader's znode; empty: there is no leader
  std::string watched_;     // empty: nothing is watched
  Scope watched_scope_{};
  // What was shown last.
  std::string shown_leader_;
  tree::Zxid shown_zxid_;    // of the last change of the data
  bool is_shown_ = false;    // something was shown
  bool is_changed_ = false;  // something that is watched has changed since the search began
};

}  // namespace quorate::rpc::native
