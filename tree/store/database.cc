// SPDX-License-Identifier: Apache-2.0

#include "tree/store/database.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdarg>
#include <limits>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/mutex.h"
#include "rocksdb/file_system.h"
#include "rocksdb/listener.h"
#include "rocksdb/table.h"
#include "rocksdb/utilities/checkpoint.h"
#include "tree/store/record_files.h"
#include "tree/store/rocks.h"
#include "tree/store/table_check.h"

namespace quorate::tree {
namespace {

// The free space that must remain in addition to the space that a compaction of everything takes.
constexpr uint64_t kMergeSpareBytes = 16 << 20;

// Returns the path of the manifest of the database in `path`. Returns the path of CURRENT, which
// names the manifest, if that cannot be read.
std::string ManifestPath(rocksdb::Env* env, const std::string& path) {
  const std::string current = path + "/CURRENT";
  std::string name;
  if (!rocksdb::ReadFileToString(env, current, &name).ok()) return current;
  return absl::StrCat(path, "/", absl::CHexEscape(absl::StripTrailingAsciiWhitespace(name)));
}

absl::Status OpenError(const rocksdb::Status& status, const std::string& path,
                       const std::string& manifest_path, bool create) {
  std::string what = "opening " + path;
  if (status.ToString().find(".sst") == std::string::npos) {
    // RocksDB's error does not always name the file.
    absl::StrAppend(&what, " by ", manifest_path, ", which ", path, "/CURRENT names");
  }
  // RocksDB reports missing files with these codes.
  const bool missing = !create && (status.IsInvalidArgument() || status.IsNotFound());
  return ToStatus(missing ? rocksdb::Status::Corruption(status.ToString()) : status, what);
}

bool IsInUse(const rocksdb::Status& status) {
  return status.IsIOError() && !status.IsNoSpace() &&
         status.ToString().find("/LOCK") != std::string::npos;
}

absl::Status InUseError(const rocksdb::Status& status, const std::string& path) {
  return absl::FailedPreconditionError(
      absl::StrCat(path,
                   ": is in use; stop the server that runs on it, or give this one a dataDir of "
                   "its own (",
                   status.ToString(), ")"));
}

// Discards log messages: RocksDB's functions return errors, and no log file is needed. RocksDB 7.8
// would end the process when it writes to a log file again after the disk was full.
class NoLog : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char*, va_list) override {}
};

}  // namespace

// The nice value of compaction threads, which should run only while the processor is otherwise
// idle. It is not greater because on a busy processor a thread with RocksDB's own low priority, 19,
// makes no progress for a minute, while commits and the end of the server wait for it.
constexpr int kMergeNice = 5;

// Receives the background errors of RocksDB. Turns off RocksDB's automatic recovery after a full
// disk, which runs in a thread of its own and disturbs writes.
class Database::Errors : public rocksdb::EventListener {
 public:
  void OnBackgroundError(rocksdb::BackgroundErrorReason reason,
                         rocksdb::Status* /*error*/) override {
    // After any other error RocksDB 7.8 may report that it has recovered when it has not: it then
    // ingests files with the number 0.
    if (reason != rocksdb::BackgroundErrorReason::kCompaction) final = true;
    present = true;
  }
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason /*reason*/, rocksdb::Status /*error*/,
                            bool* auto_recovery) override {
    *auto_recovery = false;
  }

  // Lowers the priority of the compaction thread, which calls this.
  void OnCompactionBegin(rocksdb::DB* /*db*/, const rocksdb::CompactionJobInfo& /*info*/) override {
    const auto thread = static_cast<id_t>(gettid());
    if (getpriority(PRIO_PROCESS, thread) < kMergeNice) {
      setpriority(PRIO_PROCESS, thread, kMergeNice);
    }
  }

  std::atomic<bool> present = false;  // an error from which the database has not recovered
  std::atomic<bool> final = false;    // an error after which the database must not be written to
};

// The file system of the database. It can defer the removal of table files. When RocksDB fails to
// write a record to its manifest, the record may be in the file nevertheless, because a failed sync
// may have written a part of the data. Therefore the table files of a failed ingestion, which
// RocksDB removes, must be kept: otherwise the next start could find that they are missing. The
// next start removes those files that are not part of the database.
class Database::Files : public rocksdb::FileSystemWrapper {
 public:
  using rocksdb::FileSystemWrapper::FileSystemWrapper;
  const char* Name() const override { return "DatabaseFiles"; }

  rocksdb::IOStatus DeleteFile(const std::string& name, const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override {
    {
      MutexLock lock(&mutex_);
      if (keeps_ && name.ends_with(".sst")) {
        kept_.push_back(name);
        return rocksdb::IOStatus::OK();
      }
    }
    return FileSystemWrapper::DeleteFile(name, options, debug);
  }

  // Defers the removal of table files from now on.
  void Keep() {
    MutexLock lock(&mutex_);
    keeps_ = true;
  }
  // Stops deferring removals. Removes the kept files, unless they are `needed`.
  void Release(bool needed) {
    std::vector<std::string> kept;
    {
      MutexLock lock(&mutex_);
      keeps_ = false;
      kept.swap(kept_);
    }
    if (needed) return;
    for (const std::string& name : kept) {
      // If a file cannot be removed now, the next start removes it.
      FileSystemWrapper::DeleteFile(name, {}, nullptr).PermitUncheckedError();
    }
  }

 private:
  Mutex mutex_;
  bool keeps_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::string> kept_ ABSL_GUARDED_BY(mutex_);
};

class Database::Lock {
 public:
  Lock(rocksdb::Env* env, rocksdb::FileLock* lock) : env_(env), lock_(lock) {}
  ~Lock() { env_->UnlockFile(lock_).PermitUncheckedError(); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  rocksdb::Env* const env_;
  rocksdb::FileLock* const lock_;
};

rocksdb::Options DatabaseOptions(rocksdb::Env* env) {
  rocksdb::Options options;
  options.env = env;
  options.max_background_jobs = 2;
  options.max_open_files = 64;
  options.info_log = std::make_shared<NoLog>();
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  options.max_manifest_file_size = 1 << 20;
  options.manifest_preallocation_size = 64 << 10;
  // The memtable can be small, because nothing is written through it.
  options.write_buffer_size = 64 << 10;
  // Flushes files to the disk gradually. A flush of a whole file at its end would delay the syncs
  // of other files.
  options.bytes_per_sync = 512 << 10;
  // A checkpoint is one or two files, and they are only scanned, so that compaction can wait for
  // more files.
  options.level0_file_num_compaction_trigger = 8;
  options.compression = rocksdb::kNoCompression;
  rocksdb::BlockBasedTableOptions table;
  // Records are only scanned: large blocks are best, and filters or a cache would have no use.
  table.block_size = 32 << 10;
  table.no_block_cache = true;
  SetCheckableFormat(&table);
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

Database::Database(rocksdb::Env* env, std::string path, std::string manifest_path,
                   std::shared_ptr<Errors> errors, std::shared_ptr<Files> files,
                   std::unique_ptr<rocksdb::Env> own_env, std::unique_ptr<rocksdb::DB> db)
    : env_(env),
      path_(std::move(path)),
      manifest_path_(std::move(manifest_path)),
      errors_(std::move(errors)),
      files_(std::move(files)),
      own_env_(std::move(own_env)),
      db_(std::move(db)) {}

Database::~Database() {
  if (!merges_) db_->ContinueBackgroundWork().PermitUncheckedError();
  db_.reset();
  // Files that cannot be removed now are removed when the store is opened the next time.
  if (obsolete_) RemoveDirectory(env_, path_).IgnoreError();
}

void Database::WatchSpace() {
  if (is_read_only_) return;
  uint64_t free_bytes = 0;
  // Allows compaction if the free space is unknown.
  if (!env_->GetFreeSpace(path_, &free_bytes).ok()) return;
  uint64_t size = 0;
  db_->GetIntProperty(rocksdb::DB::Properties::kLiveSstFilesSize, &size);
  const bool enough = free_bytes > size + kMergeSpareBytes;
  if (enough == merges_) return;
  merges_ = enough;
  (enough ? db_->ContinueBackgroundWork() : db_->PauseBackgroundWork()).PermitUncheckedError();
}

absl::Status Database::TakeIn(RecordFiles* files) {
  files_->Keep();
  absl::Status status = files->TakeInto(db_.get());
  files_->Release(/*needed=*/!status.ok());
  return status;
}

absl::Status Database::Recover() {
  if (!errors_->present.exchange(false)) return absl::OkStatus();
  // Resume begins a new manifest if the previous one may end with an incomplete record.
  const rocksdb::Status status = db_->Resume();
  if (!status.ok()) errors_->present = true;
  return ToStatus(status, "resuming the database " + path_);
}

bool Database::takes_no_more() const { return errors_->final; }

absl::StatusOr<std::unique_ptr<Database>> Database::Copy(const rocksdb::Options& options,
                                                         const std::string& path) {
  rocksdb::Checkpoint* made = nullptr;
  rocksdb::Status status = rocksdb::Checkpoint::Create(db_.get(), &made);
  const std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
  // Needs no flush, because nothing is written through the memtable.
  constexpr uint64_t kNoFlush = std::numeric_limits<uint64_t>::max();
  if (status.ok()) status = checkpoint->CreateCheckpoint(path, kNoFlush);
  if (!status.ok()) return ToStatus(status, "copying " + path_ + " to " + path);
  return Open(options, path, /*create=*/false);
}

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const rocksdb::Options& options,
                                                         const std::string& path, bool create) {
  rocksdb::Options open_options = options;
  open_options.create_if_missing = create;
  const std::string manifest_path = ManifestPath(options.env, path);
  auto errors = std::make_shared<Errors>();
  open_options.listeners.push_back(errors);
  auto files = std::make_shared<Files>(NewTableCheckingFileSystem(options.env->GetFileSystem()));
  std::unique_ptr<rocksdb::Env> own_env = rocksdb::NewCompositeEnv(files);
  open_options.env = own_env.get();
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(open_options, path, &db);
  if (IsInUse(status)) return InUseError(status, path);
  if (!status.ok()) return OpenError(status, path, manifest_path, create);
  return std::unique_ptr<Database>(new Database(options.env, path, manifest_path, std::move(errors),
                                                std::move(files), std::move(own_env),
                                                std::unique_ptr<rocksdb::DB>(db)));
}

absl::StatusOr<std::unique_ptr<Database>> Database::OpenToRead(const rocksdb::Options& options,
                                                               const std::string& path) {
  rocksdb::Options read_options = options;
  const std::string manifest_path = ManifestPath(options.env, path);
  std::unique_ptr<rocksdb::Env> own_env =
      rocksdb::NewCompositeEnv(NewTableCheckingFileSystem(options.env->GetFileSystem()));
  read_options.env = own_env.get();
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::OpenForReadOnly(read_options, path, &db);
  if (!status.ok()) return OpenError(status, path, manifest_path, /*create=*/false);
  return std::unique_ptr<Database>(
      new Database(options.env, path, manifest_path, std::make_shared<Errors>(), nullptr,
                   std::move(own_env), std::unique_ptr<rocksdb::DB>(db)));
}

absl::StatusOr<std::unique_ptr<Database>> Database::OpenWithoutFreeSpace(
    const rocksdb::Options& options, const std::string& path) {
  rocksdb::FileLock* locked = nullptr;
  const rocksdb::Status status = options.env->LockFile(path + "/LOCK", &locked);
  if (IsInUse(status)) return InUseError(status, path);
  if (!status.ok()) return ToStatus(status, "locking " + path);
  auto lock = std::make_unique<Lock>(options.env, locked);
  rocksdb::Options all_open = options;
  all_open.max_open_files = -1;
  auto database = OpenToRead(all_open, path);
  if (!database.ok()) return database.status();
  (*database)->lock_ = std::move(lock);
  (*database)->is_read_only_ = true;
  return database;
}

absl::StatusOr<std::unique_ptr<Database>> Database::Reopen(const rocksdb::Options& options) {
  ASSERT(is_read_only_);
  lock_.reset();
  auto database = Open(options, path_, /*create=*/false);
  if (!absl::IsResourceExhausted(database.status())) return database;
  rocksdb::FileLock* locked = nullptr;
  const rocksdb::Status status = env_->LockFile(path_ + "/LOCK", &locked);
  if (!status.ok()) return ToStatus(status, "locking " + path_);
  lock_ = std::make_unique<Lock>(env_, locked);
  return database;
}

}  // namespace quorate::tree
