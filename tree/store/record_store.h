// Keeps the records of a tree (tree/record.h) durably: one checkpoint, which the next one replaces
// by what changed; and beside it a second set of records, a snapshot that is being received, which
// may replace it as a whole. A checkpoint also has recent changes of the tree with it, for whoever
// watches: in parts with numbers. They are no part of the tree: copies of the records go without.
//
// Thread-safety: newest and OpenView from any thread, and a View from one thread at a time, all
// while the others go on, and after them: a View may outlive the store. Everything else by one
// caller at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tree/types.h"

namespace quorate::tree {

class RecordStore {
 public:
  // What a checkpoint is of.
  struct Metadata {
    Zxid zxid;
    uint64_t digest = 0;
    std::string caller_data;  // of the caller that takes the checkpoints
    friend bool operator==(const Metadata&, const Metadata&) = default;
  };
  using RecordFunction = std::function<absl::Status(std::string_view key, std::string_view value)>;
  using EventsFunction = std::function<absl::Status(uint64_t part, std::string_view bytes)>;

  // All records of one checkpoint, in the order of their keys. They stay as they are, whatever
  // becomes of the store meanwhile.
  class View {
   public:
    virtual ~View() = default;
    virtual const Metadata& metadata() const = 0;
    // Calls `record` for the next ones, about `bytes_max` bytes of them but at least one; false if
    // there are none left after these. An error of `record` ends it and is returned.
    virtual absl::StatusOr<bool> Next(size_t bytes_max, const RecordFunction& record) = 0;
    // Next goes on with the first record behind `key`, whether that is a record or not; an empty
    // one: with the first of all.
    virtual absl::Status SeekBehind(std::string_view key) = 0;
    // Calls `events` for each part of the recent changes, in the order of their numbers. An error
    // of it ends that and is returned. Next goes on with the first of all records.
    virtual absl::Status ReadEvents(const EventsFunction& events) = 0;
    // Another view of the same checkpoint, whichever is the newest by now. Next begins with the
    // first record there. From any thread that does not use this one at the same time.
    virtual absl::StatusOr<std::unique_ptr<View>> OpenAnother() const = 0;
  };

  virtual ~RecordStore() = default;

  // The newest durable checkpoint; no value if there is none.
  virtual std::optional<Metadata> newest() const = 0;
  // FailedPrecondition if there is no checkpoint.
  virtual absl::StatusOr<std::unique_ptr<View>> OpenView() const = 0;

  // --- The next checkpoint, as changes of the newest ---------------------------------------------
  // The record of `key` has this value from now on; no value: there is none. Nothing of it counts
  // before Commit; an error of either, or a crash, forgets all changes since the last Commit.
  // REQUIRES: the key is not empty and does not begin with a zero byte; so in Stage.
  virtual absl::Status Write(std::string_view key, std::optional<std::string_view> value) = 0;
  // The same for a part of the recent changes.
  virtual absl::Status WriteEvents(uint64_t part, std::optional<std::string_view> bytes) = 0;
  // Makes all changes since the last Commit the newest checkpoint: durably and atomically.
  virtual absl::Status Commit(const Metadata& metadata) = 0;

  // --- Another set of records --------------------------------------------------------------------
  // It has no recent changes. Forgets what was staged, and starts again; so it must after an error.
  virtual absl::Status BeginStaging() = 0;
  // Drops the staged records and frees their memory and disk space. Does nothing if none are
  // staged.
  virtual absl::Status DiscardStaged() = 0;
  virtual absl::Status Stage(std::string_view key, std::string_view value) = 0;
  // Makes what was staged durable, under this metadata; it is not the newest checkpoint yet.
  virtual absl::Status FinishStaging(const Metadata& metadata) = 0;
  // Makes it the newest checkpoint: durably and atomically. After an error it is unknown which of
  // the two is, until the store is opened again. REQUIRES: FinishStaging was the last staging
  // function called, and no changes are uncommitted.
  virtual absl::Status ReplaceByStaged() = 0;
};

}  // namespace quorate::tree
