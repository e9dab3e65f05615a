// Looks through all that a stopped member has on its disk, and says what is wrong with it; changes
// nothing.
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

// Where a member keeps what it has.
struct MemberPaths {
  std::string data_dir;
  std::string log_dir;

  // An empty `log_dir` is `data_dir`.
  static MemberPaths Of(std::string data_dir, std::string log_dir);
  std::string In(std::string_view name) const;  // of a file in log_dir
};

struct Finding {
  bool is_problem = false;  // a server does not start with it, or should not; else a remark
  std::string file;         // or directory
  std::optional<uint64_t> offset;
  std::string what;    // what it is and what it means
  std::string advice;  // empty: nothing is to be done
};

struct CheckpointFacts {
  tree::RecordStore::Metadata metadata;
  std::optional<consensus::SnapshotMeta> meta;  // if the metadata could be read
  uint64_t nodes = 0;
  uint64_t sessions = 0;
  bool whole = false;  // the tree is, and its digest is the one in the metadata
};

// How much of what a member has the cluster has certainly decided on, as far as this member alone
// can tell. A member writes down only now and then what is committed, since nothing depends on it;
// so it has mostly seen more of the entries behind `known` committed and acknowledged. But if it
// led and was cut off from the others, the last ones may be in no other log, and be replaced.
struct CommitFacts {
  consensus::Index known;  // of what it has, all up to here is committed
  uint64_t open = 0;       // entries behind that, of which only a majority of the voters can tell
  // It is the only voter, as far as its own data says who votes: what it has is committed.
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
  // log by an empty one that begins behind the checkpoint, so none of its entries counts.
  bool log_is_replaced = false;

  uint64_t problems() const;
};

// Returns the last entry up to which the log can be read without a gap: also within the file in
// which the damage is, before it. `log.log.last_index` if the log is whole.
consensus::Index LastReadableIndex(const consensus::LogExamination& log);

// Keeps servers away from a member's directories while it lives.
class MemberLock {
 public:
  // `env` says whether it is to look only, or to change something. FailedPrecondition if a server
  // runs on one of the directories; NotFound, naming it, if one is not there.
  static absl::StatusOr<MemberLock> Take(const MemberPaths& paths, consensus::Env* env);

 private:
  std::unique_ptr<consensus::DirectoryLock> lock_;
};

// REQUIRES: a MemberLock is held. Problems with the data are findings, never errors.
MemberExamination ExamineMember(const MemberPaths& paths, Progress* progress);

// The newest hard state, if it can be read.
std::optional<consensus::HardStateFile::Content> NewestHardState(const MemberExamination& member);

// Who takes part, as the newest entry in `control_entries` about it says, or else the checkpoint;
// nothing if neither does, which is so in a cluster whose members never changed and made no
// checkpoint yet.
std::optional<consensus::Membership> NewestMembership(
    const std::optional<consensus::SnapshotMeta>& checkpoint,
    const std::vector<consensus::Entry>& control_entries);

// Nothing if there is no log, or a problem was found.
std::optional<CommitFacts> CommitFactsOf(const MemberExamination& member);

// Calls `entry` for each that a scan of the segment found, with its offset. Errors: of reading.
absl::Status ForEachEntry(
    const consensus::Segment& segment,
    const std::function<void(const consensus::RecordView& entry, uint64_t offset)>& entry);

// InvalidArgument if a server of this version could not apply the entry.
absl::Status CheckEntry(const consensus::RecordView& entry);

}  // namespace quorate::tools
