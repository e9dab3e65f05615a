// Says in the program's log what a member waits for while it cannot serve: nobody has to guess why
// a server that runs does nothing.
//
// Thread-safety: none inside.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "consensus/core/types.h"

namespace quorate::rpc {

// Why a member may not serve.
struct WaitFacts {
  struct Voter {
    consensus::MemberId id;
    bool reached = false;
    std::string problem;  // why it is not reached, if that is known
  };
  consensus::MemberId self;
  consensus::MemberState member_state = consensus::MemberState::kNormal;
  bool removed = false;              // from the membership
  std::vector<Voter> others = {};    // the voters but this member
  bool is_voter = true;              // this member
  consensus::MemberId leader;        // kNoMember if there is none
  int64_t leader_silent_ms = 0;      // since it was heard, and could be reached
  consensus::MemberId refused_by;    // consensus::Status
  consensus::MemberId differs_from;  // consensus::Status
  consensus::Index applied;
  consensus::Index commit;
  uint64_t snapshot_bytes = 0;  // received of a snapshot that is not complete
  // Why the log takes no entries: its disk is full, or no file can be opened.
  bool log_full = false;
  bool log_out_of_descriptors = false;
};

// One line on what the member waits for, and what helps if something must be done.
std::string WaitText(const WaitFacts& facts);

// When to say it.
class WaitReporter {
 public:
  // A member that has waited for so long says why, and then again each time that kAgain has passed.
  static constexpr auto kFirst = std::chrono::seconds(5);
  static constexpr auto kAgain = std::chrono::seconds(60);

  // To be called all the time; `waits`: the member cannot serve now. Returns for how long it could
  // not, if that is to be logged now.
  std::optional<std::chrono::seconds> Tick(bool waits, std::chrono::steady_clock::time_point now);

 private:
  std::optional<std::chrono::steady_clock::time_point> since_;
  std::chrono::steady_clock::time_point next_;  // if there is since_
};

}  // namespace quorate::rpc
