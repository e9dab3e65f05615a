// SPDX-License-Identifier: Apache-2.0

// Decides when and how a member logs what it waits for while it cannot serve, so that an
// administrator does not have to guess why a running server does not serve.
//
// Thread-safety: none.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "consensus/core/types.h"

namespace quorate::rpc {

// The facts from which WaitText finds why a member does not serve.
struct WaitFacts {
  struct Voter {
    consensus::MemberId id;
    bool reached = false;
    std::string problem;  // why it is not reached; empty: not known
  };
  consensus::MemberId self;
  consensus::MemberState member_state = consensus::MemberState::kNormal;
  bool removed = false;              // from the membership
  std::vector<Voter> others = {};    // the voters but this member
  bool is_voter = true;              // this member
  consensus::MemberId leader;        // kNoMember if there is none
  int64_t leader_silent_ms = 0;      // how long it was not heard from, or could not be reached
  consensus::MemberId refused_by;    // as in consensus::Status
  consensus::MemberId differs_from;  // as in consensus::Status
  consensus::Index applied;
  consensus::Index commit;
  uint64_t snapshot_bytes = 0;  // received of a snapshot that is not complete
  // Why the log takes no entries: its disk is full, or no file can be opened.
  bool log_full = false;
  bool log_out_of_descriptors = false;
};

// Returns one line that says what the member waits for, and what to do if that is needed.
std::string WaitText(const WaitFacts& facts);

// Decides when the line is logged.
class WaitReporter {
 public:
  // A member that has waited for kFirst logs why, and again each time that kAgain has passed.
  static constexpr auto kFirst = std::chrono::seconds(5);
  static constexpr auto kAgain = std::chrono::seconds(60);

  // Called at each tick. `waits` says whether the member cannot serve now. Returns how long it has
  // waited if that has to be logged now.
  std::optional<std::chrono::seconds> Tick(bool waits, std::chrono::steady_clock::time_point now);

 private:
  std::optional<std::chrono::steady_clock::time_point> since_;
  std::chrono::steady_clock::time_point next_;  // valid if since_ is set
};

}  // namespace quorate::rpc
