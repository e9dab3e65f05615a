// A series of checkpoints, of which some are staged as a whole, and what is in each of them: for
// tests that disturb their making.
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
// Whether checkpoint `number` replaces all before it.
bool IsStaged(int64_t number);
// What is in it: records, and parts of recent changes, as "events" and the number.
Records RecordsOf(int64_t number);

// Small files, so that a checkpoint has several.
RocksRecordStore::Options ScenarioOptions(rocksdb::Env* env);
// Makes checkpoint `number`. REQUIRES: the store holds the one before it.
absl::Status Make(int64_t number, RecordStore* store);
absl::StatusOr<Records> ReadAll(const RecordStore& store);
absl::StatusOr<Records> ReadAll(RecordStore::View* view);

}  // namespace quorate::tree
