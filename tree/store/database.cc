#include "tree/store/database.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "rocksdb/table.h"
#include "tree/store/rocks.h"

namespace quorate::tree {

rocksdb::Options DatabaseOptions(rocksdb::Env* env) {
  rocksdb::Options options;
  options.env = env;
  options.max_background_jobs = 2;
  options.max_open_files = 64;
  // The log of RocksDB's own doings stays small.
  options.info_log_level = rocksdb::WARN_LEVEL;
  options.max_log_file_size = 1 << 20;
  options.keep_log_file_num = 2;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  options.max_manifest_file_size = 1 << 20;
  options.manifest_preallocation_size = 64 << 10;
  // Nothing is written through the memtable.
  options.write_buffer_size = 64 << 10;
  // Files go to the disk while they are written, not all at once at the end, when whoever else
  // syncs would wait.
  options.bytes_per_sync = 512 << 10;
  // A checkpoint is a file or two, and only scans read them: merging can wait for more of them.
  options.level0_file_num_compaction_trigger = 8;
  options.compression = rocksdb::kNoCompression;
  rocksdb::BlockBasedTableOptions table;
  // Records are read by scans: large blocks, and no use for filters or a cache.
  table.block_size = 32 << 10;
  table.no_block_cache = true;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

Database::Database(rocksdb::Env* env, std::string path, std::unique_ptr<rocksdb::DB> db)
    : env_(env), path_(std::move(path)), db_(std::move(db)) {}

Database::~Database() {
  db_.reset();
  // What cannot be removed now is removed when the store is opened the next time.
  if (obsolete_) RemoveDirectory(env_, path_).IgnoreError();
}

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const rocksdb::Options& options,
                                                         const std::string& path, bool create) {
  rocksdb::Options open_options = options;
  open_options.create_if_missing = create;
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(open_options, path, &db);
  if (status.IsIOError() && status.ToString().find("/LOCK") != std::string::npos) {
    return absl::FailedPreconditionError(
        absl::StrCat(path,
                     ": is in use; stop the server that runs on it, or give this one a "
                     "dataDir of its own (",
                     status.ToString(), ")"));
  }
  if (status.IsInvalidArgument() && !create) {
    // So it says that files are missing.
    return ToStatus(rocksdb::Status::Corruption(status.ToString()), "opening " + path);
  }
  if (!status.ok()) return ToStatus(status, "opening " + path);
  // Merging files is for times when nobody else needs the processor.
  options.env->LowerThreadPoolCPUPriority(rocksdb::Env::LOW);
  return std::unique_ptr<Database>(
      new Database(options.env, path, std::unique_ptr<rocksdb::DB>(db)));
}

}  // namespace quorate::tree
