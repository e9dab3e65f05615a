// What a Raft object wants done: the only way in which it acts on the world.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "consensus/core/message.h"
#include "consensus/core/types.h"

namespace quorate::consensus {

// Committed entries first..last, in order and without gaps from one ApplyRange to the next.
struct ApplyRange {
  Index first;
  Index last;
  // first..last, or empty: then they are to be read from the log (they are durable there).
  std::vector<Entry> entries;
};

// A follower needs entries that are no longer in memory: read entries from `first` on, at most up
// to `last` and about `bytes_max` bytes but at least one, and hand them to Raft::LogRead.
struct LogReadRequest {
  MemberId follower;
  Index first;
  Index last;
  size_t bytes_max = 0;
};

// A read may be served once the state machine has applied `index`; `ok` is false if leadership
// could not be confirmed (no leader, or it changed): ask again with a new request id.
struct ReadResult {
  uint64_t request_id = 0;
  bool ok = false;
  Index index;
};

// Who leads, as far as this member knows.
struct Status {
  Role role = Role::kFollower;
  Term term;
  MemberId leader;                  // kNoMember if unknown
  bool leader_established = false;  // this member leads and its own first entry is committed
  friend bool operator==(const Status&, const Status&) = default;
};

// The contract of the driver:
//  1. If `persist_id` is set: write `hard_state` (if set), cut the log to `truncate_after` (if set:
//     drop every entry above it), append `entries`, make all of it durable, and only then send
//     `messages_after_persist` and call Raft::Persisted(*persist_id). Batches become durable in
//     order of their ids; several may be made durable by one sync.
//  2. `messages_now` may leave at once, before or during that write.
//  3. Messages may be lost, duplicated and reordered, but not altered.
//  4. Each `apply` range goes to the state machine in order; call Raft::Applied afterwards.
//  If `persist_id` is not set, hard_state, truncate_after, entries and messages_after_persist are
//  empty.
struct Output {
  std::optional<PersistId> persist_id;
  std::optional<HardState> hard_state;
  std::optional<Index> truncate_after;
  std::vector<Entry> entries;
  std::vector<Message> messages_after_persist;

  std::vector<Message> messages_now;
  std::optional<ApplyRange> apply;
  std::vector<LogReadRequest> log_reads;
  std::vector<ReadResult> reads;
  std::optional<Status> status;  // set when it differs from the last one given out
};

std::string ToString(const ApplyRange& range);
std::string ToString(const LogReadRequest& request);
std::string ToString(const ReadResult& result);
std::string ToString(const Status& status);
// Several lines, one for each part that is not empty.
std::string ToString(const Output& output);

}  // namespace quorate::consensus
