// SPDX-License-Identifier: Apache-2.0

// A member's directory: its identity, its hard state, and its log.
//
//   <path>/LOCK         held while a server runs on it
//   <path>/identity     format version, member id, cluster id, directory epoch; checksummed
//   <path>/membership   the voters and learners with which the member was started; checksummed.
//                       Not changed any more after the first vote. A membership in the log or in a
//                       checkpoint takes its place.
//   <path>/hard_state   term, vote, commit hint, member state, durable index: two checksummed
//                       copies, written alternately with a growing sequence number, so that a torn
//                       write leaves the other copy
//   <path>/log/         segments, and perhaps a ballast file: space for one more (ballast_file.h)
//
// A directory that was made by a version without the file `membership` gets the file from the
// configuration, at its first start with this version: nothing else in such a directory says who
// the members are, except the vote. Until the log holds a membership, members send each other the
// one they were started with, and a member that differs from another does not become leader
// (consensus/core/election.cc). The leader puts the membership into the log as soon as all members
// understand kVersionMembershipInLog.
//
// Thread-safety: as SegmentLog. One thread calls all functions that write.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "consensus/core/initial_state.h"
#include "consensus/core/types.h"
#include "consensus/log/env.h"
#include "consensus/log/identity.h"
#include "consensus/log/segment_log.h"

namespace quorate::consensus {

class DataDir {
 public:
  // Opens the data directory `path`, and recovers its log. Creates and formats the directory if it
  // is missing or empty. A new directory gets the epoch `directory_epoch_if_new`, which must be
  // greater than the epoch of every directory that was made for this member before (so callers pass
  // a time). REQUIRES: directory_epoch_if_new > 0. Errors, each of which names the path and what to
  // do: FailedPrecondition if a running server holds the directory, or if the directory belongs to
  // another member than `member`, has a newer format, is incomplete (new_data_dir.h), or is not
  // empty and not a Quorate directory; DataLoss if identity, hard state (both copies) or log are
  // damaged.
  static absl::StatusOr<std::unique_ptr<DataDir>> Open(Env* env, std::string path, MemberId member,
                                                       SegmentLogOptions options,
                                                       uint64_t directory_epoch_if_new);
  ~DataDir();

  const std::string& path() const;
  // Returns the id of the cluster that the directory belongs to, kClusterIdBytes long; empty until
  // SetClusterId.
  const std::string& cluster_id() const;
  // Durably binds the directory to a cluster. Does nothing if it is bound to that cluster already.
  // Returns FailedPrecondition, naming both ids in hex, if it is bound to another one.
  absl::Status SetClusterId(const std::string& cluster_id);

  // Returns the epoch, which distinguishes the directories that this member has had. A later
  // directory has a greater epoch.
  uint64_t directory_epoch() const;
  // Durably sets the epoch to the value that Raft requests (Output::directory_epoch). Succeeds on a
  // full disk, too. REQUIRES: the value is greater than directory_epoch().
  absl::Status SetDirectoryEpoch(uint64_t directory_epoch);

  // Checks that `configured` names the members that this directory knows (addresses may differ),
  // and returns the value for RaftOptions::membership. REQUIRES: called before Raft is made.
  //  - The log or `checkpoint` holds a membership: `configured` must match the newest committed one
  //    or a later one in the log; of a joint one, its old or its new voters. A removed member is
  //    not refused, because it learns of its removal from the cluster. Returns the membership in
  //    the file `membership` if that exists and there is no checkpoint; `configured` otherwise.
  //  - Otherwise `configured` must match the file. If the file does not exist, or differs and the
  //    member state is not kNormal, `configured` is written to it durably (at a later start if the
  //    state is kNormal and the disk is full). Then the voters in `configured` must include the
  //    server for which this member has voted, if there is one. Returns `configured`.
  // A membership with addresses is taken whatever `configured` is, unless the server `runs_alone`,
  // which is to be no member of a cluster.
  // Returns FailedPrecondition, naming the members and what to do, if `configured` does not match.
  absl::StatusOr<Membership> SettleMembership(const Membership& configured,
                                              const std::optional<SnapshotMeta>& checkpoint,
                                              bool runs_alone = false);

  // Returns the hard state on the disk. Its member state is kNew in a directory that was just
  // formatted.
  const HardState& hard_state() const;
  // Durably writes the hard state and `durable_index`, the index up to which the log is durable
  // now. The index may go back only for a truncation or a reset of the log, and must be written
  // before that: otherwise, after a crash, Open would report the dropped entries as lost.
  absl::Status WriteHardState(const HardState& state, Index durable_index);

  SegmentLog& log();
  // Brings the log in line with the newest checkpoint of the state machine (0 and 0 if there is
  // none): if the log ends before that entry, or holds another one in its place, it is reset to
  // begin after the entry. The hard state gets the checkpoint's term if that is newer, without a
  // vote. Call it at start, before initial_state, and after a snapshot was installed that is ahead
  // of the log. All changes are durable when it returns. Errors: DataLoss if the log begins after
  // the checkpoint, or begins at its index after an entry of another term: entries in between are
  // lost.
  absl::Status AlignLog(Index checkpoint_index, Term checkpoint_term);
  // Returns the state from which Raft starts. REQUIRES: AlignLog was called for `checkpoint`.
  InitialState initial_state(std::optional<SnapshotMeta> checkpoint) const;

 private:
  class Impl;
  explicit DataDir(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quorate::consensus
