// SPDX-License-Identifier: Apache-2.0

// The stream of a contender that waits for a lock or to be elected (LockService.Acquire,
// ElectionService.Campaign).
//
// The stream looks for the contender in the queue, creates its znode if there is none, and finds the
// contender before it. It watches two znodes: its own, and the one before. When that is deleted, it
// finds the next one. When its own znode has gone, it looks for another one of the contender, and tells
// of a loss only if there is none. A queue is read in pieces; what was found is checked again while the
// tree is locked, and the watch is set under the same lock, so that no deletion is missed.
//
// A contender has one stream: a newer one ends the older one.
//
// Thread-safety: none; everything runs on the thread of the stream's loop.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "rpc/grpc/native/contender_base.h"
#include "rpc/grpc/native/stream.h"
#include "rpc/proto/quorate/v1/lock.pb.h"

namespace quorate::rpc::native {

class ContenderStream final : public ContenderBase {
 public:
  // The most ancestors of a queue that are created with it.
  static constexpr size_t kMissingAncestorsMax = 32;

  // REQUIRES: `method` is kAcquire or kCampaign.
  ContenderStream(StreamLoop* loop, uint32_t tag, std::string client_address, Method method);

  absl::Status OnMessage(std::string_view bytes) override;
  absl::Status OnResult(tree::ApplyResult result) override;
  void OnEvent(uint64_t number, const Event& event) override;
  absl::Status OnTreeReplaced() override;
  absl::Status Continue() override;
  void OnRoom() override { wants_to_continue_ |= shown_ != current_; }
  absl::Status CheckTime(std::chrono::steady_clock::time_point now,
                         int64_t leader_contact_age_ms) override;
  bool has_watches() const override { return is_own_watched_ || is_before_watched_; }
  void DropWatches(size_t max) override;
  size_t outstanding() const override;
  std::optional<ContenderKey> contender() const override;
  // Called when the contender is released: a znode that is not created yet will not be.
  void EndCreation() override { is_released_ = true; }
  size_t held_bytes() const override { return create_bytes_; }
  size_t kept_bytes() const override {
    return ContenderBase::kept_bytes() + own_name_.size() + before_name_.size();
  }

 private:
  enum class State {
    kStarting,     // waits for its message, or for the session or the contender to be confirmed
    kLooking,      // looks for the contender in the queue
    kCreating,     // the creation of the znode is submitted
    kRanking,      // looks for the contender before this one
    kPruning,      // the deletion of a second znode of the contender is submitted
    kQueued,       // waits, or holds the lock
    kWithdrawing,  // the deletion of the znode is submitted, because the wait is over
  };
  // What the client is shown.
  struct Shown {
    enum class Kind : uint8_t { kNothing, kWaits, kHolds };
    Kind kind = Kind::kNothing;
    uint32_t ahead = 0;
    int64_t token = 0;
    bool operator==(const Shown&) const = default;
  };

  template <class Request>
  absl::Status TakeRequest(std::string_view bytes);
  absl::Status Proceed();
  absl::Status Start();
  absl::Status Look();
  absl::Status Create();
  // Appends the creation of the queue and of its ancestors that do not exist. Returns false if there
  // are too many of them.
  bool AddMissing(Operations* operations) const;
  absl::Status OnCreated(const tree::ApplyResult& result);
  // Makes the znode with this name that of the contender, and finds its place.
  absl::Status Adopt(const std::string& name);
  absl::Status Rank();
  absl::Status Prune(const std::string& name);
  absl::Status CheckPlace();
  // Removes the contender, whose wait is over, if the one before it still stands there.
  absl::Status Withdraw();
  // Looks for the contender again, because its znode has gone.
  absl::Status LookAgain();
  // Takes the count of the contender's ephemeral off the stream, if the session or the tenants have it.
  void CountEphemerals(const tree::ApplyResult& created);
  // Returns whether the znode of the contender still exists.
  bool IsQueued();
  bool IsWaitOver() const;
  void Show();
  // Ends the stream because the contender is not in the queue any more.
  absl::Status Lose(v1::LossReason reason);
  absl::Status Lose();
  void SetWatch(bool is_watched, const std::string& name, bool* now);

  const Method method_;
  State state_ = State::kStarting;
  Operations create_;        // the creation of the znode, until the znode is found
  size_t create_bytes_ = 0;  // bytes of the request that has it
  int attempts_ = 0;         // creations that were submitted
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  std::string own_name_;  // of the znode of the contender, once it is known
  int64_t token_ = 0;
  int64_t only_token_ = 0;   // 0: any, and the znode may be created
  uint64_t order_ = 0;       // among the streams of the loop
  bool was_queued_ = false;  // the znode was known once
  bool is_released_ = false;
  std::string before_name_;  // of the contender before this one
  int64_t before_token_ = 0;
  bool is_own_watched_ = false;
  bool is_before_watched_ = false;
  Shown current_;
  Shown shown_;
};

}  // namespace quorate::rpc::native
