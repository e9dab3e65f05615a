// SPDX-License-Identifier: Apache-2.0

// Implements RecordStore with RocksDB.
//
// A checkpoint appears as a whole or not at all. It is not written through RocksDB's log and
// memtable, because parts of it could then become durable before the rest. Instead, its records and
// its metadata are written to table files outside the database. When all are written and synced,
// the database ingests them with one record in its manifest. A crash before that record is durable
// leaves the previous checkpoint, and files that the next Open removes. A crash after it leaves the
// new checkpoint. Only RocksDB's own compaction writes a record twice, and the size of one file
// bounds the memory.
//
// Staged records become a separate database in a separate directory ("store.2" after "store.1").
// The file "current" names the directory that is the store. Replacing that file by a rename is the
// atomic switch. The next Open removes the directories that "current" does not name.
//
// A full disk loses no data: the next Commit or BeginStaging starts again. A database that could
// not write its manifest is replaced by a copy with the same files in the next directory. A
// database that finds no free space at Open can be read, and the next Commit opens it again.
//
// Thread-safety: as RecordStore.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "tree/store/record_store.h"

namespace rocksdb {
class Env;
}  // namespace rocksdb

namespace quorate::tree {

// The advice in errors about a damaged store.
inline constexpr std::string_view kRebuildAdvice =
    "; stop the server: `quorate verify` with its data directory shows all that is wrong, and "
    "`quorate rebuild` puts its data aside, so that it is filled again by the other members";

class Database;
class RecordFiles;

class RocksRecordStore : public RecordStore {
 public:
  struct Options {
    rocksdb::Env* env = nullptr;  // nullptr: Env::Default(). Must outlive the store and its views
    // The memory for the records of one file, in bytes.
    size_t buffer_bytes = size_t{32} << 20;
  };

  // Opens the store in directory `path`. Creates the directory if it does not exist; its parent
  // must exist. Only one process may have the store open. Returns FailedPrecondition if another
  // process has it open, DataLoss if it is damaged, ResourceExhausted if the disk is full and there
  // is no store yet, and Internal if another file operation failed. Each error names the path.
  static absl::StatusOr<std::unique_ptr<RocksRecordStore>> Open(std::string path);
  static absl::StatusOr<std::unique_ptr<RocksRecordStore>> Open(std::string path, Options options);

  struct LookOptions {
    rocksdb::Env* env = nullptr;  // as Options::env
    // Reads every file to its end and compares its checksums first.
    bool check_files = false;
  };
  // Opens the newest checkpoint of the store in `path` only for reading: nothing in the directory
  // is changed. No server may run on it. Returns NotFound if there is no store, FailedPrecondition
  // if it has no checkpoint, and DataLoss if it is damaged. Each error names the path.
  static absl::StatusOr<std::unique_ptr<View>> Look(std::string path, LookOptions options);

  ~RocksRecordStore() override;
  RocksRecordStore(const RocksRecordStore&) = delete;
  RocksRecordStore& operator=(const RocksRecordStore&) = delete;

  // Returns whether the disk was full at Open and no Commit has found free space since.
  bool waits_for_free_space() const;

  // Adds a file name to `status`, an error from comparing the newest checkpoint with something
  // else: the name of the file that determined, at Open, which checkpoint is the newest.
  absl::Status WithOrigin(const absl::Status& status) const;

  std::optional<Metadata> newest() const override;
  absl::StatusOr<std::unique_ptr<View>> OpenView() const override;
  absl::Status Write(std::string_view key, std::optional<std::string_view> value) override;
  absl::Status WriteEvents(uint64_t part, std::optional<std::string_view> bytes) override;
  absl::Status Commit(const Metadata& metadata) override;
  absl::Status BeginStaging() override;
  absl::Status DiscardStaged() override;
  absl::Status Stage(std::string_view key, std::string_view value) override;
  absl::Status FinishStaging(const Metadata& metadata) override;
  absl::Status ReplaceByStaged() override;

 private:
  class Moment;
  class DatabaseView;

  RocksRecordStore(std::string path, const Options& options);

  // Do the work of Open and of Look, without the reason that WithUnreadableFile adds to an error.
  absl::Status OpenFiles();
  static absl::StatusOr<std::unique_ptr<View>> LookAtFiles(const std::string& path,
                                                           const Options& store_options,
                                                           const LookOptions& options);
  absl::Status OpenCurrent();
  // Returns the name in the file "current"; nullopt if there is no store yet.
  absl::StatusOr<std::optional<std::string>> ReadCurrent() const;
  // Returns an error if the store that "current" names, `name`, does not exist.
  absl::Status CheckCurrent(std::string_view name) const;
  absl::Status RemoveLeftovers() const;
  absl::Status Change(std::string_view key, std::optional<std::string_view> value);
  // Opens the database again, for writing, if it had no free space at Open.
  absl::Status GoOn();
  // Commits `changes` to a copy of the database, which then replaces the database.
  absl::Status CommitToCopy(RecordFiles* changes, const Metadata& metadata);
  // A database that may become the store.
  struct Next {
    std::shared_ptr<Database> database;
    Metadata metadata;
    uint64_t number = 0;               // number of its directory
    std::string_view prepared_suffix;  // suffix of the file that is to replace "current"
  };
  // Ingests `files` into the database, and prepares everything else that needs space.
  absl::Status FinishNext(const Next& next, RecordFiles* files) const;
  // Makes `next` the store. If this fails, it is unknown which of the two is the store.
  absl::Status ReplaceBy(Next next);
  std::string PathOf(std::string_view name) const;
  std::unique_ptr<RecordFiles> NewFiles(std::string_view name) const;
  std::shared_ptr<Database> database() const;
  void SetNewest(std::shared_ptr<Database> database, std::optional<Metadata> metadata);

  const std::string path_;
  const Options options_;

  uint64_t number_ = 1;                   // number of the store's directory
  uint64_t last_number_ = 1;              // highest number given to a directory
  std::unique_ptr<RecordFiles> changes_;  // nullptr if there were none since the last Commit
  std::unique_ptr<RecordFiles> staging_;  // only between BeginStaging and FinishStaging
  std::optional<Next> staged_;            // only after FinishStaging

  mutable Mutex mutex_;
  std::shared_ptr<Database> database_ ABSL_GUARDED_BY(mutex_);
  std::optional<Metadata> newest_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quorate::tree
