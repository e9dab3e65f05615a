#include "tree/store/store_scenario.h"

#include <optional>
#include <random>

namespace quorate::tree {
namespace {

// What checkpoint `number` changes, or is as a whole if it is staged.
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

absl::Status Stage(int64_t number, RecordStore* store) {
  if (absl::Status s = store->BeginStaging(); !s.ok()) return s;
  for (const auto& [key, value] : ChangesOf(number)) {
    if (absl::Status s = store->Stage(key, *value); !s.ok()) return s;
  }
  if (absl::Status s = store->FinishStaging(LabelOf(number)); !s.ok()) return s;
  return store->ReplaceByStaged();
}

}  // namespace

RecordStore::Label LabelOf(int64_t number) {
  RecordStore::Label label{Zxid(number), static_cast<uint64_t>(number),
                           "checkpoint " + std::to_string(number)};
  const std::string events = "events of " + std::to_string(number);
  if (number % 2 == 0) label.events = std::make_shared<const std::string>(events);
  return label;
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
  return store->Commit(LabelOf(number));
}

absl::StatusOr<Records> ReadAll(const RecordStore& store) {
  auto view = store.OpenView();
  if (!view.ok()) return view.status();
  Records records;
  bool more = true;
  while (more) {
    auto next = (*view)->Next(1000, [&](std::string_view key, std::string_view value) {
      records.emplace(key, value);
      return absl::OkStatus();
    });
    if (!next.ok()) return next.status();
    more = *next;
  }
  return records;
}

}  // namespace quorate::tree
