// The database in one of a store's directories.
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

// The options of all databases here.
rocksdb::Options DatabaseOptions(rocksdb::Env* env);

class Database {
 public:
  // Opens the one in `path`, which is made if there is none and `create`.
  static absl::StatusOr<std::unique_ptr<Database>> Open(const rocksdb::Options& options,
                                                        const std::string& path, bool create);
  // Opens it to look at: nothing is written, nor is it locked.
  static absl::StatusOr<std::unique_ptr<Database>> OpenToRead(const rocksdb::Options& options,
                                                              const std::string& path);
  // For a disk that is full, where Open finds no free space for a manifest of its own: nothing is
  // written, but it is locked, and all its files are open, so that it can still be read when the
  // same database was opened again by Reopen and has removed them. is_read_only() says that.
  // REQUIRES: it is there.
  static absl::StatusOr<std::unique_ptr<Database>> OpenWithoutFreeSpace(
      const rocksdb::Options& options, const std::string& path);
  bool is_read_only() const { return is_read_only_; }
  // The same database, to be written to; this one can be read all the same. ResourceExhausted if
  // there is still no free space. REQUIRES: is_read_only().
  absl::StatusOr<std::unique_ptr<Database>> Reopen(const rocksdb::Options& options);
  // Closes it. Removes it, if it is obsolete.
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Looks how much space is free. Files are merged only if there is enough for that: one that finds
  // the disk full was for nothing.
  void WatchSpace();
  // To be called before something is written, and when that failed, before the next time: what is
  // in the database can be read all the while. ResourceExhausted if the disk is still full; other
  // errors are final. When it has returned OK, either the database can be written to again, or
  // takes_no_more() and a copy of it can.
  absl::Status Recover();
  bool takes_no_more() const;
  // Makes `files` part of the database, as RecordFiles::TakeInto.
  absl::Status TakeIn(RecordFiles* files);
  // Another database in `path`, which must not be there, of the same files: they get second names
  // there. ResourceExhausted if there is no free space for that.
  absl::StatusOr<std::unique_ptr<Database>> Copy(const rocksdb::Options& options,
                                                 const std::string& path);
  // Copy makes the directory under its name with this behind it.
  static constexpr std::string_view kUnfinishedCopySuffix = ".tmp";

  // Whether it is to be removed when it is closed.
  void SetObsolete(bool obsolete) { obsolete_ = obsolete; }
  rocksdb::DB* db() { return db_.get(); }
  const std::string& path() const { return path_; }
  // What said, when it was opened, which files it is made of: its manifest, by its path.
  const std::string& manifest_path() const { return manifest_path_; }

 private:
  class Errors;
  class Files;
  // Held until destroyed.
  class Lock;
  Database(rocksdb::Env* env, std::string path, std::string manifest_path,
           std::shared_ptr<Errors> errors, std::shared_ptr<Files> files,
           std::unique_ptr<rocksdb::Env> own_env, std::unique_ptr<rocksdb::DB> db);

  rocksdb::Env* const env_;
  const std::string path_;
  const std::string manifest_path_;
  const std::shared_ptr<Errors> errors_;
  const std::shared_ptr<Files> files_;
  const std::unique_ptr<rocksdb::Env> own_env_;  // of db_, which it outlives
  std::unique_ptr<rocksdb::DB> db_;
  std::unique_ptr<Lock> lock_;  // only of OpenWithoutFreeSpace, which has none by itself
  bool is_read_only_ = false;
  bool merges_ = true;  // of WatchSpace's caller
  std::atomic<bool> obsolete_ = false;
};

}  // namespace quorate::tree
