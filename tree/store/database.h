// SPDX-License-Identifier: Apache-2.0

// A RocksDB database in one of the directories of a store.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "rocksdb/db.h"
#include "rocksdb/options.h"

namespace quorate::tree {

class RecordFiles;

// Returns the options of all databases of a store.
rocksdb::Options DatabaseOptions(rocksdb::Env* env);

class Database {
 public:
  // Opens the database in `path`. If `create`, creates it if it does not exist.
  static absl::StatusOr<std::unique_ptr<Database>> Open(const rocksdb::Options& options,
                                                        const std::string& path, bool create);
  // Opens the database only for reading. Writes nothing, and does not lock the database.
  static absl::StatusOr<std::unique_ptr<Database>> OpenToRead(const rocksdb::Options& options,
                                                              const std::string& path);
  // Opens the database on a full disk, where Open has no free space for a new manifest. Writes
  // nothing, but locks the database and keeps all its files open, so that it can still be read
  // after Reopen has opened the same database again and has removed files. is_read_only() is then
  // true. REQUIRES: the database exists.
  static absl::StatusOr<std::unique_ptr<Database>> OpenWithoutFreeSpace(
      const rocksdb::Options& options, const std::string& path);
  bool is_read_only() const { return is_read_only_; }
  // Opens the same database for writing. This object can still be read. Returns ResourceExhausted
  // if there is still no free space. REQUIRES: is_read_only().
  absl::StatusOr<std::unique_ptr<Database>> Reopen(const rocksdb::Options& options);
  // Closes the database, and removes it if it is obsolete.
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Checks the free space, and allows compactions only if it is enough for them: a compaction that
  // fills the disk would be in vain.
  void WatchSpace();
  // Recovers from a failed write. Call this before each write. The database can be read all the
  // time. Returns ResourceExhausted if the disk is still full; other errors are final. After OK,
  // either the database can be written again, or takes_no_more() is true and a copy of it can be
  // written.
  absl::Status Recover();
  bool takes_no_more() const;
  // Makes `files` part of the database; see RecordFiles::TakeInto.
  absl::Status TakeIn(RecordFiles* files);
  // Creates another database in `path`, which must not exist, from hard links to the files of this
  // one. Returns ResourceExhausted if there is no free space for that.
  absl::StatusOr<std::unique_ptr<Database>> Copy(const rocksdb::Options& options,
                                                 const std::string& path);
  // Copy creates the directory with this suffix first, and renames it at the end.
  static constexpr std::string_view kUnfinishedCopySuffix = ".tmp";

  // Sets whether the database is removed when it is closed.
  void SetObsolete(bool obsolete) { obsolete_ = obsolete; }
  rocksdb::DB* db() { return db_.get(); }
  const std::string& path() const { return path_; }
  // Returns the path of the manifest that listed the database's files when it was opened.
  const std::string& manifest_path() const { return manifest_path_; }

 private:
  class Errors;
  class Files;
  // Locks the database until the lock is destroyed.
  class Lock;
  Database(rocksdb::Env* env, std::string path, std::string manifest_path,
           std::shared_ptr<Errors> errors, std::shared_ptr<Files> files,
           std::unique_ptr<rocksdb::Env> own_env, std::unique_ptr<rocksdb::DB> db);

  rocksdb::Env* const env_;
  const std::string path_;
  const std::string manifest_path_;
  const std::shared_ptr<Errors> errors_;
  const std::shared_ptr<Files> files_;
  const std::unique_ptr<rocksdb::Env> own_env_;  // used by db_, which it outlives
  std::unique_ptr<rocksdb::DB> db_;
  std::unique_ptr<Lock> lock_;  // only after OpenWithoutFreeSpace, where RocksDB takes no lock
  bool is_read_only_ = false;
  bool merges_ = true;  // belongs to the caller of WatchSpace
  std::atomic<bool> obsolete_ = false;
};

}  // namespace quorate::tree
