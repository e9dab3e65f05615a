// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/testing/file_record_store.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/crc32c.h"

namespace quorate::rpc {
namespace {

constexpr char kCheckpoint[] = "checkpoint";
constexpr char kStaged[] = "staged";
constexpr char kNew[] = "new";

absl::StatusOr<std::string> ReadFile(consensus::Env* env, const std::string& path) {
  auto file = env->OpenFile(path, /*create=*/false);
  if (!file.ok()) return file.status();
  std::string bytes;
  char part[4096];
  while (true) {
    auto size = (*file)->ReadAt(bytes.size(), sizeof(part), part);
    if (!size.ok()) return size.status();
    bytes.append(part, *size);
    if (*size < sizeof(part)) return bytes;
  }
}

// Applies `changes` to `*map`; a change without a value removes the key.
template <typename Changes, typename Map>
void TakeChanges(Changes changes, Map* map) {
  for (auto& [key, value] : changes) {
    if (value.has_value()) {
      (*map)[key] = *std::move(value);
    } else {
      map->erase(key);
    }
  }
}

}  // namespace

class FileRecordStore::CheckpointView : public View {
 public:
  explicit CheckpointView(std::shared_ptr<const Checkpoint> checkpoint)
      : checkpoint_(std::move(checkpoint)), next_(checkpoint_->records.begin()) {}

  const Metadata& metadata() const override { return checkpoint_->metadata; }
  absl::StatusOr<bool> Next(size_t bytes_max, const RecordFunction& record) override {
    size_t bytes = 0;
    while (next_ != checkpoint_->records.end() && (bytes == 0 || bytes < bytes_max)) {
      bytes += next_->first.size() + next_->second.size();
      if (absl::Status s = record(next_->first, next_->second); !s.ok()) return s;
      ++next_;
    }
    return next_ != checkpoint_->records.end();
  }
  absl::Status SeekBehind(std::string_view key) override {
    next_ = checkpoint_->records.upper_bound(key);
    return absl::OkStatus();
  }
  absl::Status ReadEvents(const EventsFunction& events) override {
    for (const auto& [part, bytes] : checkpoint_->events) {
      if (absl::Status s = events(part, bytes); !s.ok()) return s;
    }
    return SeekBehind({});
  }
  absl::StatusOr<std::unique_ptr<View>> OpenAnother() const override {
    return std::make_unique<CheckpointView>(checkpoint_);
  }

 private:
  const std::shared_ptr<const Checkpoint> checkpoint_;
  Records::const_iterator next_;
};

absl::StatusOr<std::unique_ptr<FileRecordStore>> FileRecordStore::Open(consensus::Env* env,
                                                                       std::string path) {
  if (absl::Status s = env->CreateDirectories(path); !s.ok()) return s;
  std::unique_ptr<FileRecordStore> store(new FileRecordStore(env, std::move(path)));
  if (absl::Status s = store->Load(); !s.ok()) return s;
  return store;
}

absl::Status FileRecordStore::Load() {
  // Makes the checkpoint durable, because the log is about to be compacted to it: the process that
  // renamed it may have ended before it synced the directory.
  if (absl::Status s = env_->SyncDirectory(path_); !s.ok()) return s;
  for (const char* left : {kNew, kStaged}) {
    const std::string path = absl::StrCat(path_, "/", left);
    if (!env_->Exists(path)) continue;
    if (absl::Status s = env_->Remove(path); !s.ok()) return s;
  }
  const std::string path = absl::StrCat(path_, "/", kCheckpoint);
  if (!env_->Exists(path)) return absl::OkStatus();
  auto bytes = ReadFile(env_, path);
  if (!bytes.ok()) return bytes.status();
  LittleEndianReader reader(*bytes);
  const auto crc = reader.Int<uint32_t>();
  if (!reader.ok() || crc != Crc32c(reader.rest())) {
    return absl::DataLossError(absl::StrCat(path, ": damaged"));
  }
  auto checkpoint = std::make_shared<Checkpoint>();
  checkpoint->metadata.zxid = tree::Zxid(reader.Int<int64_t>());
  checkpoint->metadata.digest = reader.Int<uint64_t>();
  checkpoint->metadata.caller_data = reader.String();
  for (auto left = reader.Int<uint64_t>(); left > 0 && reader.ok(); --left) {
    const auto part = reader.Int<uint64_t>();
    checkpoint->events.emplace(part, reader.String());
  }
  while (!reader.empty()) {
    const std::string_view key = reader.String();
    checkpoint->records.emplace(key, reader.String());
  }
  ASSERT(reader.ok(), "the checksum is right");
  SetNewest(std::move(checkpoint));
  return absl::OkStatus();
}

absl::Status FileRecordStore::Save(const Checkpoint& checkpoint, const std::string& name) {
  std::string body;
  LittleEndianWriter writer(&body);
  writer.Int(checkpoint.metadata.zxid.value());
  writer.Int(checkpoint.metadata.digest);
  writer.String(checkpoint.metadata.caller_data);
  writer.Int(uint64_t{checkpoint.events.size()});
  for (const auto& [part, bytes] : checkpoint.events) {
    writer.Int(part);
    writer.String(bytes);
  }
  for (const auto& [key, value] : checkpoint.records) {
    writer.String(key);
    writer.String(value);
  }
  std::string crc;
  LittleEndianWriter(&crc).Int(Crc32c(body));
  const std::string temporary = absl::StrCat(path_, "/", kNew);
  auto file = env_->OpenFile(temporary, /*create=*/true);
  if (!file.ok()) return file.status();
  const std::string_view pieces[] = {crc, body};
  if (absl::Status s = (*file)->Truncate(0); !s.ok()) return s;
  if (absl::Status s = (*file)->WriteAt(0, pieces); !s.ok()) return s;
  if (absl::Status s = (*file)->Sync(); !s.ok()) return s;
  if (absl::Status s = env_->Rename(temporary, absl::StrCat(path_, "/", name)); !s.ok()) return s;
  return env_->SyncDirectory(path_);
}

void FileRecordStore::SetNewest(std::shared_ptr<const Checkpoint> newest) {
  MutexLock lock(&mutex_);
  newest_ = std::move(newest);
}

std::shared_ptr<const FileRecordStore::Checkpoint> FileRecordStore::Newest() const {
  MutexLock lock(&mutex_);
  return newest_;
}

std::optional<tree::RecordStore::Metadata> FileRecordStore::newest() const {
  const auto checkpoint = Newest();
  return checkpoint == nullptr ? std::nullopt : std::optional(checkpoint->metadata);
}

absl::StatusOr<std::unique_ptr<tree::RecordStore::View>> FileRecordStore::OpenView() const {
  auto checkpoint = Newest();
  if (checkpoint == nullptr) return absl::FailedPreconditionError("there is no checkpoint");
  return std::make_unique<CheckpointView>(std::move(checkpoint));
}

absl::Status FileRecordStore::Write(std::string_view key, std::optional<std::string_view> value) {
  changes_.insert_or_assign(std::string(key),
                            value.has_value() ? std::optional(std::string(*value)) : std::nullopt);
  return absl::OkStatus();
}

absl::Status FileRecordStore::WriteEvents(uint64_t part, std::optional<std::string_view> bytes) {
  event_changes_.insert_or_assign(
      part, bytes.has_value() ? std::optional(std::string(*bytes)) : std::nullopt);
  return absl::OkStatus();
}

absl::Status FileRecordStore::Commit(const Metadata& metadata) {
  auto checkpoint = std::make_shared<Checkpoint>();
  if (const auto before = Newest()) *checkpoint = *before;
  checkpoint->metadata = metadata;
  TakeChanges(std::exchange(changes_, {}), &checkpoint->records);
  TakeChanges(std::exchange(event_changes_, {}), &checkpoint->events);
  if (absl::Status s = Save(*checkpoint, kCheckpoint); !s.ok()) return s;
  SetNewest(std::move(checkpoint));
  return absl::OkStatus();
}

absl::Status FileRecordStore::BeginStaging() {
  staged_ = std::make_shared<Checkpoint>();
  return absl::OkStatus();
}

absl::Status FileRecordStore::DiscardStaged() {
  staged_.reset();
  const std::string path = absl::StrCat(path_, "/", kStaged);
  return env_->Exists(path) ? env_->Remove(path) : absl::OkStatus();
}

absl::Status FileRecordStore::Stage(std::string_view key, std::string_view value) {
  ASSERT(staged_ != nullptr);
  staged_->records[std::string(key)] = value;
  return absl::OkStatus();
}

absl::Status FileRecordStore::FinishStaging(const Metadata& metadata) {
  staged_->metadata = metadata;
  return Save(*staged_, kStaged);
}

absl::Status FileRecordStore::ReplaceByStaged() {
  ASSERT(staged_ != nullptr);
  ASSERT(changes_.empty() && event_changes_.empty());
  absl::Status s =
      env_->Rename(absl::StrCat(path_, "/", kStaged), absl::StrCat(path_, "/", kCheckpoint));
  if (s.ok()) s = env_->SyncDirectory(path_);
  if (!s.ok()) return s;
  SetNewest(std::exchange(staged_, nullptr));
  return absl::OkStatus();
}

}  // namespace quorate::rpc
