// SPDX-License-Identifier: Apache-2.0

// A scan of the Tree service: one request, then pages of everything below a znode. A page is what
// was read while the tree was locked once, so that it shows one state. The next page is read when
// gRPC has taken the one before, so that a slow client takes little memory.
//
// Thread-safety: none; everything runs on the thread of the stream's loop.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "rpc/frontend/counted_bytes.h"
#include "rpc/grpc/native/stream.h"
#include "rpc/proto/quorate/v1/tree.pb.h"
#include "tree/subtree.h"

namespace quorate::rpc::native {

class ScanStream final : public Stream {
 public:
  // The most bytes of a page with more than one znode.
  static constexpr size_t kPageBytesMax = 1u << 20;

  ScanStream(StreamLoop* loop, uint32_t tag, std::string address);

  absl::Status OnMessage(std::string_view bytes) override;
  absl::Status OnResult(tree::ApplyResult result) override;
  void OnBarrierDone(uint64_t barrier) override;
  // The place of a scan has no part of the tree, so that the scan goes on in the new one.
  absl::Status OnTreeReplaced() override { return absl::OkStatus(); }
  absl::Status Continue() override;
  void OnRoom() override { wants_to_continue_ |= state_ == State::kReady; }
  size_t outstanding() const override { return finished() ? 0 : 1; }
  size_t kept_bytes() const override { return kept_.bytes(); }
  absl::Status CheckTime(std::chrono::steady_clock::time_point now,
                         int64_t leader_contact_age_ms) override;

 private:
  enum class State {
    kNew,
    kWaiting,  // waits for a barrier
    kReady,    // reads when min_zxid is applied
  };

  // Sets the query and the place from the request.
  absl::Status SetQuery();
  // Sets the place from the token.
  absl::Status SetPlace(std::string_view token);
  std::string Token() const;
  absl::Status CheckMemory() const;
  // Counts what the stream keeps.
  void CountKept();
  // Reads the next part of the tree, and adds it to the outbox as a page.
  absl::Status ReadPage();
  // Adds a znode to a page. Returns false if it does not fit.
  bool Add(const tree::SubtreeEntry& entry, std::string* page);
  absl::Status Fail(v1::ErrorCode code) const;

  const std::chrono::steady_clock::time_point opened_;
  State state_ = State::kNew;
  v1::ScanRequest request_;
  tree::SubtreeQuery query_;
  tree::SubtreePlace place_;
  CountedBytes kept_;
  uint64_t shown_ = 0;
  int64_t first_zxid_ = 0;  // of the first page of the whole read; 0: there was none yet
  int64_t last_zxid_ = 0;   // the zxid that the next page must have at least
  std::chrono::steady_clock::time_point sent_;
};

}  // namespace quorate::rpc::native
