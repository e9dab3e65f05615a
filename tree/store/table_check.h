// Finds damage in a table of RocksDB (an .sst file) before RocksDB looks at it. RocksDB parses some
// of the blocks that it reads when it opens a table before it compares their checksums: a flipped
// bit in them can crash the process.
//
// Thread-safety: functions without state.
#pragma once

#include <cstdint>
#include <memory>

#include "rocksdb/file_system.h"
#include "rocksdb/table.h"

namespace quorate::tree {

// Sets what the check relies on: the format, its checksums, and no compression.
void SetCheckableFormat(rocksdb::BlockBasedTableOptions* options);

// Compares the checksums of a table's index, metaindex and properties, and checks that they are
// where its footer says. Corruption if anything is wrong. Data blocks are not checked: RocksDB
// finds them through the index, and compares their checksums when it reads them. `size` is the
// file's, in bytes.
rocksdb::IOStatus CheckTable(rocksdb::FSRandomAccessFile* file, uint64_t size);

// Returns a file system that works as `target`, but refuses to open a damaged table, with an error
// that names the file.
std::shared_ptr<rocksdb::FileSystem> NewTableCheckingFileSystem(
    std::shared_ptr<rocksdb::FileSystem> target);

}  // namespace quorate::tree
