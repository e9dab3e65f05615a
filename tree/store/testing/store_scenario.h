// SPDX-License-Identifier: Apache-2.0

// A series of checkpoints with their contents, some of which are staged as a whole. It is for tests
// that inject faults while the checkpoints are made.
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
// Returns whether checkpoint `number` is a staged one, which replaces all records.
bool IsStaged(int64_t number);
// Returns the contents of checkpoint `number`: its records, and the parts of the recent events
// under the key "events" and the part's number.
Records RecordsOf(int64_t number);

// Returns options with small files, so that a checkpoint has several of them.
RocksRecordStore::Options ScenarioOptions(rocksdb::Env* env);
// Makes checkpoint `number`. REQUIRES: the store holds the previous checkpoint.
absl::Status Make(int64_t number, RecordStore* store);
absl::StatusOr<Records> ReadAll(const RecordStore& store);
absl::StatusOr<Records> ReadAll(RecordStore::View* view);

}  // namespace quorate::tree
