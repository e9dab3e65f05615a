// What the server offers to whoever looks after it, beside what it offers to clients (service.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "consensus/core/types.h"
#include "tree/store/record_store.h"
#include "tree/types.h"

namespace quorate::rpc {

// Who takes part in the cluster, as one member sees it; a snapshot.
struct ClusterView {
  struct Member {
    consensus::MemberId id;
    bool observer = false;
    bool reachable = false;  // over our own link; we ourselves are
    // Known at the leader alone; false and 0 elsewhere.
    bool in_sync = false;  // its log holds durably all that is committed
    consensus::Index match_index;
  };
  consensus::MemberId self;
  consensus::MemberId leader;  // kNoMember if it is not known
  bool is_leader = false;      // and its own first entry is committed
  consensus::Term term;
  consensus::Index commit_index;
  consensus::Index applied_index;
  bool changing = false;        // a change of voters is under way
  std::vector<Member> members;  // ascending
  std::string cluster_id;       // 16 bytes, or empty if there is none yet
};

// A durable checkpoint of the whole tree, and what it is of.
struct CheckpointView {
  consensus::SnapshotMeta meta;
  std::unique_ptr<tree::RecordStore::View> records;
};

// Thread-safety: all functions may be called from any thread.
class Administration {
 public:
  virtual ~Administration() = default;

  // At most a tick old.
  virtual ClusterView cluster_view() const = 0;

  // Asks `target` to lead, or the most up-to-date voter if it is kNoMember; `done` learns on the
  // node thread whether that was begun. It is never called if the server stops before.
  // FailedPrecondition if this member does not lead, or there is no such voter.
  virtual void TransferLeadership(consensus::MemberId target,
                                  std::function<void(absl::Status)> done) = 0;

  // `done` is called on the node thread once everything that was committed anywhere before this
  // call is applied here up to `zxid`, confirmed by a quorum; never if that does not happen before
  // the server stops. It must be brief.
  virtual void Barrier(std::function<void(tree::Zxid)> done) = 0;

  // Takes a checkpoint now, unless the newest covers `zxid` already. `done` is called on the node
  // thread when a durable one does; never if the server stops before.
  virtual void RequestCheckpoint(tree::Zxid zxid, std::function<void()> done) = 0;

  // Of the newest checkpoint; 0 if there is none.
  virtual tree::Zxid checkpoint_zxid() const = 0;
  // The newest checkpoint. FailedPrecondition if there is none; DataLoss if it is damaged.
  virtual absl::StatusOr<CheckpointView> OpenCheckpoint() const = 0;
};

}  // namespace quorate::rpc
