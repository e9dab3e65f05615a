// SPDX-License-Identifier: Apache-2.0

#include "tree/store/testing/store_scenario.h"

#include <optional>
#include <random>

namespace quorate::tree {
namespace {

// Returns the changes of checkpoint `number`, or all its records if it is a staged one.
std::map<std::string, std::optional<std::string>> ChangesOf(int64_t number) {
  std::mt19937_64 random(static_cast<uint64_t>(number));
  std::map<std::string, std::optional<std::string>> changes;
  for (int i = 0; i < 60; ++i) {
    auto& value = changes["key " + std::to_string(random() % 80)];
    value = std::string(random() % 200, static_cast<char>('a' + number));
    if (!IsStaged(number) && random() % 4 == 0) value.reset();
  }
  return changes;
}

// Each checkpoint that is not staged adds a part of the recent events. This many of the newest
// parts are kept.
constexpr int64_t kPartsKept = 2;
std::string EventsOf(int64_t number) { return "what happened before " + std::to_string(number); }
std::string EventsName(int64_t part) { return "events " + std::to_string(part); }

absl::Status Stage(int64_t number, RecordStore* store) {
  if (absl::Status s = store->BeginStaging(); !s.ok()) return s;
  for (const auto& [key, value] : ChangesOf(number)) {
    if (absl::Status s = store->Stage(key, *value); !s.ok()) return s;
  }
  if (absl::Status s = store->FinishStaging(MetadataOf(number)); !s.ok()) return s;
  return store->ReplaceByStaged();
}

}  // namespace

RecordStore::Metadata MetadataOf(int64_t number) {
  return {Zxid(number), static_cast<uint64_t>(number), "checkpoint " + std::to_string(number)};
}

bool IsStaged(int64_t number) { return number % 3 == 0; }

Records RecordsOf(int64_t number) {
  Records records;
  for (int64_t i = 1; i <= number; ++i) {
    if (IsStaged(i)) records.clear();
    for (const auto& [key, value] : ChangesOf(i)) {
      if (value.has_value()) {
        records[key] = *value;
      } else {
        records.erase(key);
      }
    }
    if (IsStaged(i)) continue;
    records[EventsName(i)] = EventsOf(i);
    records.erase(EventsName(i - kPartsKept));
  }
  return records;
}

RocksRecordStore::Options ScenarioOptions(rocksdb::Env* env) {
  RocksRecordStore::Options options;
  options.env = env;
  options.buffer_bytes = 2000;
  return options;
}

absl::Status Make(int64_t number, RecordStore* store) {
  if (IsStaged(number)) return Stage(number, store);
  for (const auto& [key, value] : ChangesOf(number)) {
    if (absl::Status s = store->Write(key, value); !s.ok()) return s;
  }
  const auto part = static_cast<uint64_t>(number);
  if (absl::Status s = store->WriteEvents(part, EventsOf(number)); !s.ok()) return s;
  if (number > kPartsKept) {
    if (absl::Status s = store->WriteEvents(part - kPartsKept, std::nullopt); !s.ok()) return s;
  }
  return store->Commit(MetadataOf(number));
}

absl::StatusOr<Records> ReadAll(const RecordStore& store) {
  auto view = store.OpenView();
  if (!view.ok()) return view.status();
  return ReadAll(view->get());
}

absl::StatusOr<Records> ReadAll(RecordStore::View* view) {
  Records records;
  absl::Status read = view->ReadEvents([&](uint64_t part, std::string_view bytes) {
    records.emplace(EventsName(static_cast<int64_t>(part)), bytes);
    return absl::OkStatus();
  });
  if (!read.ok()) return read;
  bool more = true;
  while (more) {
    auto next = view->Next(1000, [&](std::string_view key, std::string_view value) {
      records.emplace(key, value);
      return absl::OkStatus();
    });
    if (!next.ok()) return next.status();
    more = *next;
  }
  return records;
}

}  // namespace quorate::tree
