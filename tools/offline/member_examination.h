// SPDX-License-Identifier: Apache-2.0

// Examines all files of a stopped member, and reports what is wrong with them. Changes nothing.
//
// Thread-safety: functions of their arguments.
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
#include "consensus/core/types.h"
#include "consensus/log/env.h"
#include "consensus/log/hard_state_file.h"
#include "consensus/log/identity.h"
#include "consensus/log/record.h"
#include "consensus/log/recovery.h"
#include "consensus/log/segment.h"
#include "tools/offline/progress.h"
#include "tree/store/record_store.h"

namespace quorate::tools {

// The directories of a member.
struct MemberPaths {
  std::string data_dir;
  std::string log_dir;

  // Returns the paths. If `log_dir` is empty, it is `data_dir`.
  static MemberPaths Of(std::string data_dir, std::string log_dir);
  std::string In(std::string_view name) const;  // the path of a file in log_dir
};

struct Finding {
  bool is_problem = false;  // a server does not, or should not, start; otherwise a remark
  std::string file;         // the path of a file or directory
  std::optional<uint64_t> offset;
  std::string what;    // the finding and its meaning
  std::string advice;  // empty: the user need not do anything
};

struct CheckpointFacts {
  tree::RecordStore::Metadata metadata;
  std::optional<consensus::SnapshotMeta> meta;  // if the metadata could be read
  uint64_t nodes = 0;
  uint64_t sessions = 0;
  bool whole = false;  // the tree is complete, and its digest is the one in the metadata
};

// The part of a member's log that is certainly committed, as far as the data of this member alone
// shows. A member saves its commit index only from time to time, because nothing depends on it. So
// some of the entries after `known` are usually committed and acknowledged, too. But if the member
// led and was cut off from the others, the last entries may be in no other log, and be replaced.
struct CommitFacts {
  consensus::Index known;  // all entries up to this index are committed
  uint64_t open = 0;       // the number of later entries, which only a majority of the voters can
                           // decide
  // Whether the member is the only voter, according to its own data: then all its entries are
  // committed.
  bool only_voter = false;
};

struct MemberExamination {
  MemberPaths paths;
  std::vector<Finding> findings;
  std::optional<consensus::Identity> identity;
  std::optional<consensus::HardStateFile::Found> hard_state;
  std::optional<consensus::LogExamination> log;
  std::optional<CheckpointFacts> checkpoint;
  // The log does not hold the entry of the checkpoint. The next start of the server replaces the
  // log by an empty one that begins after the checkpoint, so its entries do not count.
  bool log_is_replaced = false;

  uint64_t problems() const;
};

// Returns the index of the last entry up to which the log can be read without a gap; in a damaged
// file that is the entry before the damage. Returns `log.log.last_index` if the log is undamaged.
consensus::Index LastReadableIndex(const consensus::LogExamination& log);

// Prevents servers from starting on a member's directories while the object lives.
class MemberLock {
 public:
  // `env` determines whether the lock is for reading or for changes. FailedPrecondition if a server
  // runs on one of the directories; NotFound, naming it, if one does not exist.
  static absl::StatusOr<MemberLock> Take(const MemberPaths& paths, consensus::Env* env);

 private:
  std::unique_ptr<consensus::DirectoryLock> lock_;
};

// Examines the member. Problems with the data are findings, never errors. REQUIRES: a MemberLock is
// held.
MemberExamination ExamineMember(const MemberPaths& paths, Progress* progress);

// Returns the newest hard state, if it can be read.
std::optional<consensus::HardStateFile::Content> NewestHardState(const MemberExamination& member);

// Returns the membership in the newest membership entry of `control_entries`, otherwise that in the
// checkpoint. Returns nothing if neither has one, as in a cluster whose members never changed and
// have made no checkpoint yet.
std::optional<consensus::Membership> NewestMembership(
    const std::optional<consensus::SnapshotMeta>& checkpoint,
    const std::vector<consensus::Entry>& control_entries);

// Returns what is known to be committed; nothing if there is no log, or a problem was found.
std::optional<CommitFacts> CommitFactsOf(const MemberExamination& member);

// Calls `entry` with each entry in the segment and its offset. Returns errors of reading.
absl::Status ForEachEntry(
    const consensus::Segment& segment,
    const std::function<void(const consensus::RecordView& entry, uint64_t offset)>& entry);

// Returns InvalidArgument if a server of this version could not apply the entry.
absl::Status CheckEntry(const consensus::RecordView& entry);

}  // namespace quorate::tools
