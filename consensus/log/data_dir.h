// A member's directory: who it belongs to, its hard state, and its log.
//
//   <path>/LOCK         held while a server runs on it
//   <path>/identity     format version, member id, cluster id; checksummed
//   <path>/hard_state   term, vote, commit hint, durable index: two checksummed copies in two
//   sectors,
//                       written alternately with a growing sequence number, so that a torn write
//                       leaves the other copy
//   <path>/log/         segments
//
// Thread-safety: as SegmentLog; everything that writes, from one thread.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "consensus/core/raft.h"
#include "consensus/core/types.h"
#include "consensus/log/env.h"
#include "consensus/log/segment_log.h"

namespace quorate::consensus {

inline constexpr uint32_t kDataDirFormatVersion = 1;
// Bytes of a cluster id.
inline constexpr size_t kClusterIdBytes = 16;

class DataDir {
 public:
  // Opens `path`, creating and formatting it if it is missing or empty. Recovers the log.
  // Errors, each naming the path and the way out: FailedPrecondition if a running server holds it,
  // if it belongs to another member than `member`, has a newer format, or is not empty and not a
  // Quorate directory; DataLoss if identity, hard state (both copies) or log are damaged.
  static absl::StatusOr<std::unique_ptr<DataDir>> Open(Env* env, std::string path, MemberId member,
                                                       SegmentLogOptions options);
  ~DataDir();

  const std::string& path() const;
  // The cluster it belongs to, kClusterIdBytes long; empty until SetClusterId.
  const std::string& cluster_id() const;
  // Durably binds the directory to a cluster. FailedPrecondition, naming both ids in hex, if it is
  // bound to another one; nothing happens if it is bound to this one.
  absl::Status SetClusterId(const std::string& cluster_id);

  const HardState& hard_state() const;
  // Writes the hard state, together with the index up to which the log is durable now; durable when
  // it returns. `durable_index` may go back only by a truncation.
  absl::Status WriteHardState(const HardState& state, Index durable_index);

  SegmentLog& log();
  // What Raft starts from.
  InitialState initial_state() const;

 private:
  class Impl;
  explicit DataDir(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quorate::consensus
