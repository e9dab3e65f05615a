// SPDX-License-Identifier: Apache-2.0

// Conversions between RocksDB's types and ours, and functions for files on a rocksdb::Env.
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

// Converts a status: Corruption becomes DataLoss, a full disk becomes ResourceExhausted, any other
// error becomes Internal. `what` describes the operation, with its path.
absl::Status ToStatus(const rocksdb::Status& status, std::string_view what);

// Makes the entries of a directory durable.
absl::Status SyncDirectory(rocksdb::Env* env, const std::string& directory);

// Writes durably a file that is to replace the file `path`. The new file is in the same directory
// and has the same name with `suffix` appended.
absl::Status PrepareFile(rocksdb::Env* env, const std::string& path, std::string_view suffix,
                         std::string_view contents);

// Replaces directory/name by the prepared file. After a crash it is the old or the new file; after
// this has returned OK, it is the new file. Earlier changes of the directory are then durable too.
// After an error it is unknown which of the two files it will be. Needs no free space.
absl::Status ReplaceByPrepared(rocksdb::Env* env, const std::string& directory,
                               const std::string& name, std::string_view suffix);

// Removes a directory and the files in it. Does nothing if it does not exist. REQUIRES: it contains
// no directories.
absl::Status RemoveDirectory(rocksdb::Env* env, const std::string& directory);

}  // namespace quorate::tree
