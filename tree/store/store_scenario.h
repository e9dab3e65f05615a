// A series of checkpoints with their contents, some of them staged as a whole, for tests that
// inject faults while they are made.
//
// Thread-safety: functions without state.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tree/store/rocks_record_store.h"

namespace quorate::tree {

using Records = std::map<std::string, std::string>;

RecordStore::Metadata MetadataOf(int64_t number);
// Returns whether checkpoint `number` is staged, and so replaces all records.
bool IsStaged(int64_t number);
// Returns the contents of checkpoint `number`: records, and parts of the recent events under
// "events" and the number.
Records RecordsOf(int64_t number);

// Returns options with small files, so that a checkpoint has several.
RocksRecordStore::Options ScenarioOptions(rocksdb::Env* env);
// Makes checkpoint `number`. REQUIRES: the store holds the one before it.
absl::Status Make(int64_t number, RecordStore* store);
absl::StatusOr<Records> ReadAll(const RecordStore& store);
absl::StatusOr<Records> ReadAll(RecordStore::View* view);

}  // namespace quorate::tree
