// SPDX-License-Identifier: Apache-2.0

// Detects damage in a table of RocksDB (an .sst file) before RocksDB reads it. When RocksDB opens a
// table, it parses some of the blocks before it compares their checksums: a flipped bit in them can
// crash the process.
//
// Thread-safety: functions without state.
#pragma once

#include <cstdint>
#include <memory>

#include "rocksdb/file_system.h"
#include "rocksdb/table.h"

namespace quorate::tree {

// Sets the options on which the check relies: the format, its checksums, and no compression.
void SetCheckableFormat(rocksdb::BlockBasedTableOptions* options);

// Compares the checksums of a table's index, metaindex and properties, and checks that they are
// where the footer says. Returns Corruption if anything is wrong. Does not check data blocks:
// RocksDB finds them through the index, and compares their checksums when it reads them. `size` is
// the size of the file in bytes.
rocksdb::IOStatus CheckTable(rocksdb::FSRandomAccessFile* file, uint64_t size);

// Returns a file system that works like `target`, but refuses to open a damaged table, with an
// error that names the file.
std::shared_ptr<rocksdb::FileSystem> NewTableCheckingFileSystem(
    std::shared_ptr<rocksdb::FileSystem> target);

}  // namespace quorate::tree
