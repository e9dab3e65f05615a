// SPDX-License-Identifier: Apache-2.0

// ZooKeeper's reconfig: what a client asks for, which members that makes, and the steps from the
// members that there are to those. The leader takes the steps (rpc/member/replica.h).
//
// Thread-safety: functions without state.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "rpc/config/server_line.h"
#include "tree/types.h"

namespace quorate::rpc {

// A client's request to change the members. A text that the client has sent as null is nullopt.
struct Reconfiguration {
  std::optional<std::string> joining =
      std::nullopt;  // server.N=LINE or N=LINE, with commas between them
  std::optional<std::string> leaving = std::nullopt;  // numbers, with commas between them
  std::optional<std::string> new_members =
      std::nullopt;  // all members; the other two are then ignored
  // The version of /zookeeper/config that is to be changed; -1: any.
  int64_t based_on = -1;
  std::vector<tree::Identity> identities = {};  // of the client
  friend bool operator==(const Reconfiguration&, const Reconfiguration&) = default;
};

// The end of a reconfiguration.
struct ReconfigurationOutcome {
  // false: the leader changed meanwhile, so the members may or may not be changed, now or later.
  bool is_known = false;
  tree::ErrorCode error = tree::ErrorCode::kOk;
  tree::Zxid zxid = {};  // of the last change; if there is an error, 0
  friend bool operator==(const ReconfigurationOutcome&, const ReconfigurationOutcome&) = default;
};

// Encode and decode both for the way between members. The decoders return InvalidArgument for bytes
// that the encoders cannot have written.
std::string Encode(const Reconfiguration& request);
absl::StatusOr<Reconfiguration> DecodeReconfiguration(std::string_view bytes);
std::string Encode(const ReconfigurationOutcome& outcome);
absl::StatusOr<ReconfigurationOutcome> DecodeReconfigurationOutcome(std::string_view bytes);

// Returns the members that `request` makes of `now`: those that leave are taken out, and then those
// that join are put in, or replace the line of the same number. InvalidArgument, naming the text, if
// a text is malformed, a line has no client port, two members have the same address, a new voter has
// that of a voter that leaves, or fewer than `participants_min` members would have a vote.
absl::StatusOr<ServerLines> GoalOf(const Reconfiguration& request, const ServerLines& now,
                                   size_t participants_min);

// Returns whether both are the same members, in the same roles and at the same addresses.
bool AreSame(const ServerLines& one, const ServerLines& other);

struct MembershipStep {
  enum class Kind : uint8_t { kPropose, kWait, kDone };
  Kind kind = Kind::kDone;
  ServerLines members = {};  // kPropose: what the members become next
  uint32_t waits_for = 0;    // kWait: a member that has not caught up
};

// Returns the next step from `now` to `goal`. Members that get a vote are first observers, so that no
// majority needs a member without the data. When `is_caught_up` returns true for all of them, one
// last change gives them their votes, and takes out those that leave. REQUIRES: no change of the
// members is in progress.
MembershipStep NextStep(const ServerLines& now, const ServerLines& goal,
                        const std::function<bool(uint32_t)>& is_caught_up);

// Returns the version that `text`, the data of /zookeeper/config, names in its last line; 0 if it
// names none.
int64_t VersionOf(std::string_view text);

}  // namespace quorate::rpc
