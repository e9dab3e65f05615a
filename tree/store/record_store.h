// SPDX-License-Identifier: Apache-2.0

// Keeps the records of a tree (tree/record.h) durably. A store has one checkpoint, which the next
// checkpoint updates with its changes. It may also have a second set of records: a snapshot that is
// being received, which may replace the checkpoint as a whole. A checkpoint also has the recent
// events of the tree, for watchers, in numbered parts. They are not part of the tree: snapshots and
// backups do not have them.
//
// Thread-safety: newest and OpenView may be called from any thread at any time. A View may be used
// by one thread at a time, also while the store changes, and may outlive the store. All other
// functions may be called by one thread at a time.
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
  // The metadata of a checkpoint.
  struct Metadata {
    Zxid zxid;
    uint64_t digest = 0;
    std::string caller_data;  // set by the caller; the store does not read it
    friend bool operator==(const Metadata&, const Metadata&) = default;
  };
  using RecordFunction = std::function<absl::Status(std::string_view key, std::string_view value)>;
  using EventsFunction = std::function<absl::Status(uint64_t part, std::string_view bytes)>;

  // Reads all records of one checkpoint, in the order of their keys. Later changes of the store do
  // not affect a view.
  class View {
   public:
    virtual ~View() = default;
    virtual const Metadata& metadata() const = 0;
    // Calls `record` for the next records: about `bytes_max` bytes of them, but at least one
    // record. Returns false if no records are left after these. An error of `record` ends the call
    // and is returned.
    virtual absl::StatusOr<bool> Next(size_t bytes_max, const RecordFunction& record) = 0;
    // Moves to the first record after `key`, whether `key` itself exists or not. Moves to the first
    // of all records if `key` is empty.
    virtual absl::Status SeekBehind(std::string_view key) = 0;
    // Calls `events` for each part of the recent events, in the order of their numbers. An error of
    // `events` ends the call and is returned. Afterwards, Next begins again with the first record.
    virtual absl::Status ReadEvents(const EventsFunction& events) = 0;
    // Opens another view of the same checkpoint, even if there is a newer one by now. Its Next
    // begins with the first record. REQUIRES: no other thread uses this view at the same time.
    virtual absl::StatusOr<std::unique_ptr<View>> OpenAnother() const = 0;
  };

  virtual ~RecordStore() = default;

  // Returns the metadata of the newest durable checkpoint; nullopt if there is none.
  virtual std::optional<Metadata> newest() const = 0;
  // Opens the newest checkpoint. Returns FailedPrecondition if there is none.
  virtual absl::StatusOr<std::unique_ptr<View>> OpenView() const = 0;

  // --- The next checkpoint, as changes of the newest ---------------------------------------------
  // Sets the record of `key`; without a value, removes it. The change takes effect only at Commit.
  // An error of Write or Commit, or a crash, drops all changes since the last Commit. REQUIRES: the
  // key is not empty and does not begin with a zero byte; the same holds for Stage.
  virtual absl::Status Write(std::string_view key, std::optional<std::string_view> value) = 0;
  // Sets a part of the recent events; without bytes, removes it. As Write, this takes effect at
  // Commit.
  virtual absl::Status WriteEvents(uint64_t part, std::optional<std::string_view> bytes) = 0;
  // Makes all changes since the last Commit the newest checkpoint: durably and atomically.
  virtual absl::Status Commit(const Metadata& metadata) = 0;

  // --- Another set of records --------------------------------------------------------------------
  // Drops the staged records and begins a new set, which has no recent events. Must also be called
  // after an error of a staging function.
  virtual absl::Status BeginStaging() = 0;
  // Drops the staged records and frees their memory and disk space. Does nothing if there are none.
  virtual absl::Status DiscardStaged() = 0;
  virtual absl::Status Stage(std::string_view key, std::string_view value) = 0;
  // Makes the staged records durable, with this metadata. They do not become the newest checkpoint
  // yet.
  virtual absl::Status FinishStaging(const Metadata& metadata) = 0;
  // Makes the staged records the newest checkpoint, durably and atomically. After an error it is
  // unknown, until the store is opened again, whether the old or the staged checkpoint is the
  // newest. REQUIRES: FinishStaging was the last staging function called, and no changes are
  // uncommitted.
  virtual absl::Status ReplaceByStaged() = 0;
};

}  // namespace quorate::tree
