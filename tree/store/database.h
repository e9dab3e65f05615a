// The database in one of a store's directories.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "rocksdb/db.h"
#include "rocksdb/options.h"

namespace quorate::tree {

// The options of all databases here.
rocksdb::Options DatabaseOptions(rocksdb::Env* env);

class Database {
 public:
  // Opens the one in `path`, which is made if there is none and `create`.
  static absl::StatusOr<std::unique_ptr<Database>> Open(const rocksdb::Options& options,
                                                        const std::string& path, bool create);
  // Closes it. Removes it, if it is obsolete.
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Whether it is to be removed when it is closed.
  void SetObsolete(bool obsolete) { obsolete_ = obsolete; }
  rocksdb::DB* db() { return db_.get(); }
  const std::string& path() const { return path_; }

 private:
  Database(rocksdb::Env* env, std::string path, std::unique_ptr<rocksdb::DB> db);

  rocksdb::Env* const env_;
  const std::string path_;
  std::unique_ptr<rocksdb::DB> db_;
  std::atomic<bool> obsolete_ = false;
};

}  // namespace quorate::tree
