// SPDX-License-Identifier: Apache-2.0

// Writes records to table files that a database ingests unchanged, all in one atomic step.
//
// Thread-safety: none inside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "rocksdb/db.h"
#include "rocksdb/options.h"

namespace quorate::tree {

class RecordFiles {
 public:
  // Writes the files to `directory`, which is created, and emptied if it exists. `options` are
  // those of the database. Takes about `buffer_bytes` of memory for records, and 24 bytes more for
  // each of them.
  RecordFiles(const rocksdb::Options& options, std::string directory, size_t buffer_bytes);
  // Removes files that were not ingested.
  ~RecordFiles();
  RecordFiles(const RecordFiles&) = delete;
  RecordFiles& operator=(const RecordFiles&) = delete;

  // Adds a record. Without a `value`, the record of that key is to be removed. Keys come in any
  // order; if a key is added again, the last value counts. Writes a file when the buffer is full.
  // REQUIRES: no error was returned before.
  absl::Status Add(std::string_view key, std::optional<std::string_view> value);

  // Writes the remaining records, and ensures some free space for the manifest record that the
  // database writes when it ingests the files. REQUIRES: no error was returned before.
  absl::Status Finish();

  // Makes the added records part of `db`: all of them or, after an error or a crash, none. If this
  // returns OK, they are durable. After an error, `db` may have to recover. REQUIRES: Finish was
  // the last function called, and returned OK.
  absl::Status TakeInto(rocksdb::DB* db);

 private:
  struct Entry {
    size_t at = 0;  // where in bytes_ the key is; the value follows it
    uint32_t key_size = 0;
    uint32_t value_size = 0;
    bool removed = false;
  };

  std::string_view Key(const Entry& entry) const;
  // Sorts the buffered entries and drops those whose key was added again later.
  void Normalize();
  absl::Status WriteFile();

  const rocksdb::Options options_;
  const std::string directory_;
  const size_t buffer_bytes_;
  std::string bytes_;
  std::vector<Entry> entries_;
  std::vector<std::string> paths_;
};

}  // namespace quorate::tree
