// A member's directory: who it belongs to, its hard state, and its log.
//
//   <path>/LOCK         held while a server runs on it
//   <path>/identity     format version, member id, cluster id, birth; checksummed
//   <path>/hard_state   term, vote, commit hint, standing, durable index: two checksummed copies,
//                       written alternately with a growing sequence number, so that a torn write
//                       leaves the other copy
//   <path>/log/         segments, and perhaps a spare: room for one more (spare_file.h)
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
  // Opens `path`, creating and formatting it if it is missing or empty; its birth is then
  // `birth_if_new`, which must be greater than that of any directory that was made before for this
  // member (so, a time). Recovers the log. REQUIRES: birth_if_new > 0.
  // Errors, each naming the path and the way out: FailedPrecondition if a running server holds it,
  // if it belongs to another member than `member`, has a newer format, is not whole
  // (new_data_dir.h), or is not empty and not a Quorate directory; DataLoss if identity, hard state
  // (both copies) or log are damaged.
  static absl::StatusOr<std::unique_ptr<DataDir>> Open(Env* env, std::string path, MemberId member,
                                                       SegmentLogOptions options,
                                                       uint64_t birth_if_new);
  ~DataDir();

  const std::string& path() const;
  // The cluster it belongs to, kClusterIdBytes long; empty until SetClusterId.
  const std::string& cluster_id() const;
  // Durably binds the directory to a cluster. FailedPrecondition, naming both ids in hex, if it is
  // bound to another one; nothing happens if it is bound to this one.
  absl::Status SetClusterId(const std::string& cluster_id);

  // Tells this directory from others that the member had or will have: greater for a later one.
  uint64_t birth() const;

  // Of standing kBlank in a directory that was just formatted.
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
