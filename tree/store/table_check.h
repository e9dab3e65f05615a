// Finds damage in a table of RocksDB (an .sst file) before RocksDB looks at it. The blocks that are
// read when a table is opened are partly taken apart there before their checksums are compared: a
// bit that has turned over in them can end the process.
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

// Compares the checksums of a table's index, metaindex and properties, and what its footer says
// with where they are. Corruption if anything is wrong. The blocks of data are not looked at: they
// are found through the index, and their checksums are compared when they are read. `size` is the
// file's, in bytes.
rocksdb::IOStatus CheckTable(rocksdb::FSRandomAccessFile* file, uint64_t size);

// A file system that is `target`, but refuses to open a damaged table, by an error that names the
// file.
std::shared_ptr<rocksdb::FileSystem> NewTableCheckingFileSystem(
    std::shared_ptr<rocksdb::FileSystem> target);

}  // namespace quorate::tree
