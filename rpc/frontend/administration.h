// SPDX-License-Identifier: Apache-2.0

// The interface of a server for administrators, beside the one for clients (service.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "consensus/core/types.h"
#include "rpc/config/server_line.h"
#include "tree/store/record_store.h"
#include "tree/types.h"

namespace quorate::rpc {

// The members of the cluster at one moment, as one of them sees it.
struct ClusterView {
  // The last change of the members that the leader was asked for, as far as it is now.
  struct Change {
    enum class State : uint8_t { kNone, kRunning, kDone, kFailed };
    State state = State::kNone;
    std::string what = {};    // "member 4 is added as an observer", for example
    std::string detail = {};  // running: what it waits for; failed: why
  };
  struct Member {
    consensus::MemberId id;
    bool observer = false;
    bool reachable = false;  // over this server's link; true for this server
    // Known at the leader alone; false and 0 elsewhere.
    bool in_sync = false;  // its log has all committed entries durably (Raft::IsInSync)
    consensus::Index match_index;
    // Why it is not reachable, in ASCII; empty if it is, or if the reason is not known yet.
    std::string problem = {};
    std::optional<ServerLine> addresses = {};  // nullopt: not known
    // The newest cluster version that it understands; 0 if it has not been heard from. Known at the
    // leader alone, and of this server; 0 elsewhere.
    uint32_t newest_version = {};
  };
  consensus::MemberId self;
  consensus::MemberId leader;  // kNoMember if it is not known
  bool is_leader = false;      // and the first entry of its term is committed
  consensus::Term term;
  consensus::Index commit_index;
  consensus::Index applied_index;
  uint32_t cluster_version = 0;  // what every member understands
  uint32_t newest_version = 0;   // the newest cluster version that this server understands
  uint32_t program_version = 0;  // the same without clusterVersionMax
  bool changing = false;         // a change of members is under way
  Change change = {};            // kNone at other servers than the leader
  // Identifies the membership, for ChangeMembers; it differs between members.
  consensus::Index membership_index;
  std::vector<Member> members;  // ascending
  std::string cluster_id;       // 16 bytes, or empty if there is none yet
};

// A durable checkpoint of the whole tree, and its metadata.
struct CheckpointView {
  consensus::SnapshotMeta meta;
  std::unique_ptr<tree::RecordStore::View> records;
};

// Returns an Unavailable of which nobody knows whether what was asked for will take place.
inline absl::Status UnknownOutcome(std::string_view message) {
  absl::Status status(absl::StatusCode::kUnavailable,
                      absl::string_view(message.data(), message.size()));
  status.SetPayload("quorate/unknown-outcome", absl::Cord());
  return status;
}
inline bool IsUnknownOutcome(const absl::Status& status) {
  return status.GetPayload("quorate/unknown-outcome").has_value();
}

// Thread-safety: all functions may be called from any thread.
class Administration {
 public:
  virtual ~Administration() = default;

  // Returns the cluster as it was at most a tick ago.
  virtual ClusterView cluster_view() const = 0;

  // Begins to transfer leadership to `target`, or to the most up-to-date voter if `target` is
  // kNoMember. `done` is called on the node thread with OK if the transfer was begun, or
  // FailedPrecondition if this member does not lead, or there is no such voter. It is never called
  // if the server stops before that.
  virtual void TransferLeadership(consensus::MemberId target,
                                  std::function<void(absl::Status)> done) = 0;

  // Changes the members to `members`, if the membership is still the one of `based_on`
  // (ClusterView::membership_index of this member). `done` is called on the node thread, with OK when
  // the change is committed and applied here. It is never called if the server stops before that.
  // Errors: InvalidArgument if the members or their addresses are not valid; Aborted if the
  // membership has changed since `based_on`, or was changed otherwise in the end; FailedPrecondition
  // if this member does not lead, or the cluster does not allow the change now; Unavailable if a new
  // voter has not caught up yet (try again), or if this member stops leading before the change is
  // committed: then it may or may not take place, which IsUnknownOutcome tells.
  virtual void ChangeMembers(const ServerLines& members, consensus::Index based_on,
                             std::function<void(absl::Status)> done) = 0;

  // Starts a linearizable barrier: calls `done` on the node thread once everything that was
  // committed anywhere before this call is applied here, as a quorum has confirmed, with the zxid
  // that is applied then. It is never called if the server stops before that. `done` must be brief.
  virtual void Barrier(std::function<void(tree::Zxid)> done) = 0;

  // Takes a checkpoint now, unless the newest one already covers `zxid`. `done` is called on the
  // node thread when a durable checkpoint covers `zxid`; never if the server stops before that.
  virtual void RequestCheckpoint(tree::Zxid zxid, std::function<void()> done) = 0;

  // Returns the zxid of the newest checkpoint; 0 if there is none.
  virtual tree::Zxid checkpoint_zxid() const = 0;
  // Returns the newest checkpoint. FailedPrecondition if there is none; DataLoss if it is damaged.
  virtual absl::StatusOr<CheckpointView> OpenCheckpoint() const = 0;
};

}  // namespace quorate::rpc
