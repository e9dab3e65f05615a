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
// A directory made by a version without the file `membership` gets the file at its first start,
// from the configuration: such a directory holds nothing else about the membership, except its
// vote. Until the log holds a membership, members send each other the one they were started with,
// and a member that differs from another does not become leader (consensus/core/election.cc). The
// leader puts the membership into the log as soon as all members understand
// kVersionMembershipInLog.
//
// Thread-safety: as SegmentLog; everything that writes, from one thread.
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
  // Opens `path`, creating and formatting it if it is missing or empty; its directory epoch is then
  // `directory_epoch_if_new`, which must be greater than that of any directory that was made before
  // for this member (so, a time). Recovers the log. REQUIRES: directory_epoch_if_new > 0. Errors,
  // each naming the path and the way out: FailedPrecondition if a running server holds it, if it
  // belongs to another member than `member`, has a newer format, is incomplete (new_data_dir.h), or
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

  // Tells this directory from the member's earlier and later ones: greater for a later one.
  uint64_t directory_epoch() const;
  // Durably sets the epoch, to Output::directory_epoch. Succeeds on a full disk, too. REQUIRES: it
  // is greater than directory_epoch().
  absl::Status SetDirectoryEpoch(uint64_t directory_epoch);

  // Checks that `configured` names the members that this directory knows, whatever their addresses,
  // and returns the value of RaftOptions::membership. REQUIRES: called before Raft is made.
  //  - The log or `checkpoint` holds a membership: `configured` must match the newest committed one
  //    or a later one in the log; of a joint one, its old or its new voters. A removed member is
  //    not refused, because it learns of its removal from the cluster. Returns the membership in
  //    the file `membership` if that exists and there is no checkpoint; `configured` otherwise.
  //  - Otherwise `configured` must match the file. If the file does not exist, or differs and the
  //    member state is not kNormal, `configured` is written to it durably (at a later start if the
  //    state is kNormal and the disk is full). Then the voters in `configured` must include the
  //    server for which this member has voted, if there is one. Returns `configured`.
  // FailedPrecondition, naming the members and the way out, if `configured` does not match.
  absl::StatusOr<Membership> SettleMembership(const Membership& configured,
                                              const std::optional<SnapshotMeta>& checkpoint);

  // Its member state is kNew in a directory that was just formatted.
  const HardState& hard_state() const;
  // Writes the hard state, together with the index up to which the log is durable now; durable when
  // it returns. `durable_index` may go back only for a truncation or a reset of the log, and must
  // be written before it: otherwise, after a crash, Open would report the dropped entries as lost.
  absl::Status WriteHardState(const HardState& state, Index durable_index);

  SegmentLog& log();
  // Brings the log in line with the newest checkpoint of the state machine (0 and 0 if there is
  // none): if the log ends before that entry, or holds another one in its place, it is reset to
  // begin after the entry. The hard state gets the checkpoint's term if that is newer, without a
  // vote. To be called at start, before initial_state, and after a snapshot was installed that is
  // ahead of the log. Durable when it returns. Errors: DataLoss if the log begins after the
  // checkpoint, or begins at its index after an entry of another term: entries in between are lost.
  absl::Status AlignLog(Index checkpoint_index, Term checkpoint_term);
  // The state from which Raft starts. REQUIRES: AlignLog was called for that checkpoint.
  InitialState initial_state(std::optional<SnapshotMeta> checkpoint) const;

 private:
  class Impl;
  explicit DataDir(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quorate::consensus
