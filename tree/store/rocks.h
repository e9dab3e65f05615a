// Between RocksDB's types and ours, and files on a rocksdb::Env.
//
// Thread-safety: functions without state.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "rocksdb/env.h"
#include "rocksdb/slice.h"
#include "rocksdb/status.h"

namespace quorate::tree {

inline rocksdb::Slice ToSlice(std::string_view bytes) { return {bytes.data(), bytes.size()}; }
inline std::string_view ToView(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }

// Corruption becomes DataLoss, a full disk ResourceExhausted, anything else Internal. `what` is
// what was being done, with the path.
absl::Status ToStatus(const rocksdb::Status& status, std::string_view what);

// Makes the entries of a directory durable.
absl::Status SyncDirectory(rocksdb::Env* env, const std::string& directory);

// Writes, durably, what is to replace the file `path`: beside it, under its name with `suffix`
// behind it.
absl::Status PrepareFile(rocksdb::Env* env, const std::string& path, std::string_view suffix,
                         std::string_view contents);

// Replaces directory/name by what was prepared for it: after a crash it is the old or the new one,
// and once this returned OK, the new one. What was in the directory before is durable by then too.
// After an error it is unknown which of them it will be; one of want of space cannot be expected.
absl::Status ReplaceByPrepared(rocksdb::Env* env, const std::string& directory,
                               const std::string& name, std::string_view suffix);

// Removes a directory and the files in it, if it is there. The directory has none in it.
absl::Status RemoveDirectory(rocksdb::Env* env, const std::string& directory);

}  // namespace quorate::tree
