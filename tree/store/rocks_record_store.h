// A RecordStore in RocksDB.
//
// A checkpoint appears whole or not at all. It is not written through RocksDB's log and memory, of
// which parts could become durable before the rest: its records and its metadata are written to
// table files outside the database. When all are written and synced, the database ingests them with
// one record in its manifest. A crash before that record is durable leaves the previous checkpoint,
// and files that the next Open removes; a crash after it leaves the new one. Only RocksDB's own
// compaction writes a record twice, and memory is bounded by the size of one file.
//
// Staged records become a separate database in a separate directory ("store.2" after "store.1").
// The file "current" says which directory is the store; replacing it by a rename is the atomic
// switch. The next Open removes the directories that "current" does not name.
//
// A full disk loses nothing: the next Commit or BeginStaging starts again. A database that could
// not write its manifest is replaced by a copy, of the same files, in the next directory. A
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
    rocksdb::Env* env = nullptr;  // nullptr: Env::Default(). Outlives the store and its views
    // Memory for the records of one file.
    size_t buffer_bytes = size_t{32} << 20;
  };

  // Opens the store in directory `path`, which is created if it does not exist; its parent must
  // exist. Only one process may have it open: FailedPrecondition if another one has, DataLoss if it
  // is damaged, ResourceExhausted if the disk is full and there is no store yet, Internal if
  // another file operation failed; each names the path.
  static absl::StatusOr<std::unique_ptr<RocksRecordStore>> Open(std::string path);
  static absl::StatusOr<std::unique_ptr<RocksRecordStore>> Open(std::string path, Options options);

  struct LookOptions {
    rocksdb::Env* env = nullptr;  // as Options::env
    // Reads every file to its end and compares its checksums first.
    bool check_files = false;
  };
  // Opens the newest checkpoint of the store in `path` only for reading: nothing in the directory
  // is changed. No server may run on it. NotFound if there is no store, FailedPrecondition if there
  // is no checkpoint in it, DataLoss if it is damaged; each names the path.
  static absl::StatusOr<std::unique_ptr<View>> Look(std::string path, LookOptions options);

  ~RocksRecordStore() override;
  RocksRecordStore(const RocksRecordStore&) = delete;
  RocksRecordStore& operator=(const RocksRecordStore&) = delete;

  // Returns whether the disk was full at Open, and no Commit has found free space since.
  bool waits_for_free_space() const;

  // Returns `status`, an error from comparing the newest checkpoint with something else, with the
  // name of the file that determined, at Open, which checkpoint is the newest.
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

  // The work of Open and of Look, without the reason that WithUnreadableFile adds to an error.
  absl::Status OpenFiles();
  static absl::StatusOr<std::unique_ptr<View>> LookAtFiles(const std::string& path,
                                                           const Options& store_options,
                                                           const LookOptions& options);
  absl::Status OpenCurrent();
  // Returns the name in "current"; no value if there is no store yet.
  absl::StatusOr<std::optional<std::string>> ReadCurrent() const;
  // Returns an error if the store that "current" names, `name`, does not exist.
  absl::Status CheckCurrent(std::string_view name) const;
  absl::Status RemoveLeftovers() const;
  absl::Status Change(std::string_view key, std::optional<std::string_view> value);
  // Reopens, for writing, a database that had no free space at Open.
  absl::Status GoOn();
  // Commits to a copy of the database, which then replaces it.
  absl::Status CommitToCopy(RecordFiles* changes, const Metadata& metadata);
  // A database that may become the store.
  struct Next {
    std::shared_ptr<Database> database;
    Metadata metadata;
    uint64_t number = 0;               // of its directory
    std::string_view prepared_suffix;  // suffix of the file that is to replace "current"
  };
  // Ingests `files` into the database, and prepares everything else that needs space.
  absl::Status FinishNext(const Next& next, RecordFiles* files) const;
  // Makes `next` the store.
  absl::Status ReplaceBy(Next next);
  std::string PathOf(std::string_view name) const;
  std::unique_ptr<RecordFiles> NewFiles(std::string_view name) const;
  std::shared_ptr<Database> database() const;
  void SetNewest(std::shared_ptr<Database> database, std::optional<Metadata> metadata);

  const std::string path_;
  const Options options_;

  uint64_t number_ = 1;                   // number of the store's directory
  uint64_t last_number_ = 1;              // highest number given to a directory
  std::unique_ptr<RecordFiles> changes_;  // null: none since the last Commit
  std::unique_ptr<RecordFiles> staging_;  // between BeginStaging and FinishStaging
  std::optional<Next> staged_;            // after FinishStaging

  mutable Mutex mutex_;
  std::shared_ptr<Database> database_ ABSL_GUARDED_BY(mutex_);
  std::optional<Metadata> newest_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quorate::tree
