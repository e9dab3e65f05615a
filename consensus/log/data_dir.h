// A member's directory: who it belongs to, its hard state, and its log.
//
//   <path>/LOCK         held while a server runs on it
//   <path>/identity     format version, member id, cluster id, directory epoch; checksummed
//   <path>/membership   the voters and learners with which the member was started; checksummed.
//                       From the first vote on it is not changed any more. What the log or a
//                       checkpoint says of the membership takes its place.
//   <path>/hard_state   term, vote, commit hint, member state, durable index: two checksummed
//                       copies, written alternately with a growing sequence number, so that a torn
//                       write leaves the other copy
//   <path>/log/         segments, and perhaps a ballast file: space for one more (ballast_file.h)
//
// A directory made by a version that knew no file `membership` gets it at its first start, with
// what the configuration says then: nothing in such a directory says more, but whom it voted for.
// Until the log says who takes part, members tell each other with what they were started, and who
// differs from another does not become leader (consensus/core/election.cc). The leader puts the
// membership into the log as soon as all members understand kVersionMembershipInLog.
//
// Thread-safety: as SegmentLog; everything that writes, from one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "consensus/core/raft.h"
#include "consensus/core/types.h"
#include "consensus/log/env.h"
#include "consensus/log/identity.h"
#include "consensus/log/segment_log.h"

namespace quorate::consensus {

class DataDir {
 public:
  // Opens `path`, creating and formatting it if it is missing or empty; its directory epoch is then
  // `directory_epoch_if_new`, which must be greater than that of any directory that was made before
  // for this member (so, a time). Recovers the log. REQUIRES: directory_epoch_if_new > 0. Errors,
  // each naming the path and the way out: FailedPrecondition if a running server holds it, if it
  // belongs to another member than `member`, has a newer format, is not whole (new_data_dir.h), or
  // is not empty and not a Quorate directory; DataLoss if identity, hard state (both copies) or log
  // are damaged.
  static absl::StatusOr<std::unique_ptr<DataDir>> Open(Env* env, std::string path, MemberId member,
                                                       SegmentLogOptions options,
                                                       uint64_t directory_epoch_if_new);
  ~DataDir();

  const std::string& path() const;
  // The cluster it belongs to, kClusterIdBytes long; empty until SetClusterId.
  const std::string& cluster_id() const;
  // Durably binds the directory to a cluster. FailedPrecondition, naming both ids in hex, if it is
  // bound to another one; nothing happens if it is bound to this one.
  absl::Status SetClusterId(const std::string& cluster_id);

  // Tells this directory from others that the member had or will have: greater for a later one.
  uint64_t directory_epoch() const;
  // Durably changes it: Output::directory_epoch. On a full disk, too. REQUIRES: it is greater than
  // directory_epoch().
  absl::Status SetDirectoryEpoch(uint64_t directory_epoch);

  // Checks that `configured` names the members that this directory knows, and returns what goes
  // into RaftOptions::membership: that of the file `membership`, which is written (durably) if it
  // is not there, or if it differs and nothing depends on it, since the member has not voted yet.
  // To be called before Raft is made. Addresses are those of `configured`, and are not compared.
  // FailedPrecondition, naming both lists and the way out, if `configured` names others. A
  // membership that is not committed for certain need not hold: then the one before it fits, too;
  // and of a joint one both. A member that was removed is not refused: it learns of it.
  absl::StatusOr<Membership> SettleMembership(const Membership& configured,
                                              const std::optional<SnapshotMeta>& checkpoint);

  // In the state kNew in a directory that was just formatted.
  const HardState& hard_state() const;
  // Writes the hard state, together with the index up to which the log is durable now; durable when
  // it returns. `durable_index` may go back only by a truncation or a reset of the log, and must do
  // so first: what the log then drops would be missed after a crash.
  absl::Status WriteHardState(const HardState& state, Index durable_index);

  SegmentLog& log();
  // Brings the log in line with the newest checkpoint of the state machine (0 and 0 if there is
  // none): if it ends before that entry, or holds another one in its place, it is reset to begin
  // behind it. The hard state gets the checkpoint's term if that is newer: no vote was given in it.
  // To be called at start, before initial_state, and after a snapshot was installed that is ahead
  // of the log. Durable when it returns. Errors: DataLoss if the log begins behind the checkpoint,
  // or there it does not agree: entries in between are lost.
  absl::Status AlignLog(Index checkpoint_index, Term checkpoint_term);
  // What Raft starts from. REQUIRES: AlignLog was called for that checkpoint.
  InitialState initial_state(std::optional<SnapshotMeta> checkpoint) const;

 private:
  class Impl;
  explicit DataDir(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quorate::consensus
