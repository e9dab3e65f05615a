#include "tree/store/rocks_record_store.h"

#include <charconv>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/strings.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "tree/store/database.h"
#include "tree/store/record_files.h"
#include "tree/store/rocks.h"

namespace quorate::tree {
namespace {

constexpr std::string_view kCurrent = "current";
constexpr std::string_view kStorePrefix = "store.";
constexpr std::string_view kWriting = "writing";
constexpr std::string_view kStaging = "staging";

constexpr uint8_t kFormat = 1;
// The record that holds the label: before all others.
constexpr std::string_view kLabelKey{"\0", 1};
constexpr size_t kReadAheadBytes = 256 << 10;

std::string NameOf(uint64_t number) { return absl::StrCat(ToAbsl(kStorePrefix), number); }

// "store.12" -> 12; no value for any other name.
std::optional<uint64_t> NumberOf(std::string_view name) {
  if (!name.starts_with(kStorePrefix)) return std::nullopt;
  name.remove_prefix(kStorePrefix.size());
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc{} || end != name.data() + name.size() || number == 0) return std::nullopt;
  return number;
}

std::string EncodeLabel(const RecordStore::Label& label) {
  std::string value;
  LittleEndianWriter writer(&value);
  writer.Int(kFormat);
  writer.Int(label.zxid.value());
  writer.Int(label.digest);
  writer.Raw(label.metadata);
  return value;
}

absl::StatusOr<RecordStore::Label> DecodeLabel(std::string_view value, const std::string& path) {
  LittleEndianReader reader(value);
  const uint8_t format = reader.Int<uint8_t>();
  RecordStore::Label label;
  label.zxid = Zxid(reader.Int<int64_t>());
  label.digest = reader.Int<uint64_t>();
  label.metadata = reader.rest();
  if (!reader.ok() || format != kFormat) {
    return absl::DataLossError(absl::StrCat(
        path,
        ": the label of the checkpoint is damaged, or written by another version of the "
        "program; start the version that wrote it, or move the data directory away, and the "
        "server is rebuilt from the others"));
  }
  return label;
}

bool IsRecordKey(std::string_view key) { return !key.empty() && key.front() != '\0'; }

}  // namespace

// An iterator keeps what it reads as it was, so that nothing else is needed.
class RocksRecordStore::DatabaseView : public View {
 public:
  // No value if there is no checkpoint in `database`.
  static absl::StatusOr<std::unique_ptr<DatabaseView>> Open(std::shared_ptr<Database> database) {
    rocksdb::ReadOptions options;
    options.readahead_size = kReadAheadBytes;
    std::unique_ptr<rocksdb::Iterator> at(database->db()->NewIterator(options));
    at->SeekToFirst();
    if (!at->status().ok()) return ToStatus(at->status(), "reading " + database->path());
    if (!at->Valid()) return absl::FailedPreconditionError("there is no checkpoint");
    if (ToView(at->key()) != kLabelKey) {
      return absl::DataLossError(absl::StrCat(database->path(),
                                              ": there are records without a label; move the data "
                                              "directory away, and the server is rebuilt from the "
                                              "others"));
    }
    auto label = DecodeLabel(ToView(at->value()), database->path());
    if (!label.ok()) return label.status();
    at->Next();
    return std::unique_ptr<DatabaseView>(
        new DatabaseView(std::move(database), std::move(at), *std::move(label)));
  }

  const Label& label() const override { return label_; }

  absl::StatusOr<bool> Next(size_t bytes_max, const RecordFunction& record) override {
    size_t bytes = 0;
    for (; at_->Valid() && (bytes == 0 || bytes < bytes_max); at_->Next()) {
      const std::string_view key = ToView(at_->key());
      const std::string_view value = ToView(at_->value());
      if (absl::Status status = record(key, value); !status.ok()) return status;
      bytes += key.size() + value.size();
    }
    if (!at_->status().ok()) return ToStatus(at_->status(), "reading " + database_->path());
    return at_->Valid();
  }

 private:
  DatabaseView(std::shared_ptr<Database> database, std::unique_ptr<rocksdb::Iterator> at,
               Label label)
      : database_(std::move(database)), at_(std::move(at)), label_(std::move(label)) {}

  const std::shared_ptr<Database> database_;  // outlives the iterator
  const std::unique_ptr<rocksdb::Iterator> at_;
  const Label label_;
};

// --- Opening -------------------------------------------------------------------------------------

RocksRecordStore::RocksRecordStore(std::string path, const Options& options)
    : path_(std::move(path)), options_(options) {}

RocksRecordStore::~RocksRecordStore() = default;

absl::StatusOr<std::unique_ptr<RocksRecordStore>> RocksRecordStore::Open(std::string path) {
  return Open(std::move(path), Options());
}

absl::StatusOr<std::unique_ptr<RocksRecordStore>> RocksRecordStore::Open(std::string path,
                                                                         Options options) {
  if (options.env == nullptr) options.env = rocksdb::Env::Default();
  const rocksdb::Status created = options.env->CreateDirIfMissing(path);
  if (!created.ok()) return ToStatus(created, "creating " + path);
  if (absl::Status s = SyncDirectory(options.env, path + "/.."); !s.ok()) return s;
  std::unique_ptr<RocksRecordStore> store(new RocksRecordStore(std::move(path), options));
  if (absl::Status opened = store->OpenCurrent(); !opened.ok()) return opened;
  // Now that the database is locked, nobody else is at work here.
  if (absl::Status removed = store->RemoveLeftovers(); !removed.ok()) return removed;
  return store;
}

std::string RocksRecordStore::PathOf(std::string_view name) const {
  return absl::StrCat(path_, "/", ToAbsl(name));
}

absl::StatusOr<std::optional<std::string>> RocksRecordStore::ReadCurrent() const {
  const std::string path = PathOf(kCurrent);
  std::string name;
  rocksdb::Status status = options_.env->FileExists(path);
  if (status.ok()) {
    status = rocksdb::ReadFileToString(options_.env, path, &name);
    if (!status.ok()) return ToStatus(status, "reading " + path);
    return std::optional<std::string>(std::move(name));
  }
  if (!status.IsNotFound()) return ToStatus(status, "reading " + path);
  std::vector<std::string> names;
  status = options_.env->GetChildren(path_, &names);
  if (!status.ok()) return ToStatus(status, "listing " + path_);
  for (const std::string& other : names) {
    // The first one may be there, if its making was interrupted.
    if (NumberOf(other).value_or(1) == 1) continue;
    return absl::DataLossError(
        absl::StrCat(path, " is missing, though there is ", other,
                     "; move the data directory away, and the server is rebuilt from the others"));
  }
  return std::optional<std::string>();
}

absl::Status RocksRecordStore::OpenCurrent() {
  auto current = ReadCurrent();
  if (!current.ok()) return current.status();
  const bool is_new = !current->has_value();
  const std::string name = current->value_or(NameOf(number_));
  const std::optional<uint64_t> number = NumberOf(name);
  if (!number) {
    return absl::DataLossError(absl::StrCat(
        PathOf(kCurrent), " does not name a store but \"", name,
        "\"; move the data directory away, and the server is rebuilt from the others"));
  }
  number_ = *number;
  auto opened = Database::Open(DatabaseOptions(options_.env), PathOf(name), is_new);
  if (!opened.ok()) return opened.status();
  if (is_new) {
    absl::Status written = WriteFileDurably(options_.env, path_, std::string(kCurrent), name);
    if (!written.ok()) return written;
  }
  std::shared_ptr<Database> database = *std::move(opened);
  auto view = DatabaseView::Open(database);
  if (!view.ok() && !absl::IsFailedPrecondition(view.status())) return view.status();
  SetNewest(std::move(database), view.ok() ? std::optional((*view)->label()) : std::nullopt);
  return absl::OkStatus();
}

absl::Status RocksRecordStore::RemoveLeftovers() const {
  std::vector<std::string> names;
  const rocksdb::Status listed = options_.env->GetChildren(path_, &names);
  if (!listed.ok()) return ToStatus(listed, "listing " + path_);
  for (const std::string& name : names) {
    const bool is_other_store = NumberOf(name).value_or(number_) != number_;
    if (!is_other_store && name != kWriting && name != kStaging) continue;
    absl::Status removed = RemoveDirectory(options_.env, PathOf(name));
    if (!removed.ok()) return removed;
  }
  return absl::OkStatus();
}

// --- Reading -------------------------------------------------------------------------------------

std::shared_ptr<Database> RocksRecordStore::database() const {
  MutexLock lock(&mutex_);
  return database_;
}

void RocksRecordStore::SetNewest(std::shared_ptr<Database> database, std::optional<Label> label) {
  MutexLock lock(&mutex_);
  database_.swap(database);
  newest_ = std::move(label);
}

std::optional<RecordStore::Label> RocksRecordStore::newest() const {
  MutexLock lock(&mutex_);
  return newest_;
}

absl::StatusOr<std::unique_ptr<RecordStore::View>> RocksRecordStore::OpenView() const {
  return DatabaseView::Open(database());
}

// --- The next checkpoint -------------------------------------------------------------------------

std::unique_ptr<RecordFiles> RocksRecordStore::NewFiles(std::string_view name) const {
  return std::make_unique<RecordFiles>(DatabaseOptions(options_.env), PathOf(name),
                                       options_.buffer_bytes);
}

absl::Status RocksRecordStore::Write(std::string_view key, std::optional<std::string_view> value) {
  ASSERT(IsRecordKey(key));
  if (changes_ == nullptr) changes_ = NewFiles(kWriting);
  absl::Status added = changes_->Add(key, value);
  if (!added.ok()) changes_.reset();
  return added;
}

absl::Status RocksRecordStore::Commit(const Label& label) {
  if (changes_ == nullptr) changes_ = NewFiles(kWriting);
  const std::unique_ptr<RecordFiles> changes = std::move(changes_);
  std::shared_ptr<Database> into = database();
  absl::Status status = changes->Add(kLabelKey, EncodeLabel(label));
  if (status.ok()) status = changes->TakeInto(into->db());
  if (status.ok()) SetNewest(std::move(into), label);
  return status;
}

// --- Another set of records ----------------------------------------------------------------------

absl::Status RocksRecordStore::BeginStaging() {
  staged_.reset();
  // What it removes is where the next one writes.
  staging_.reset();
  staging_ = NewFiles(kStaging);
  return absl::OkStatus();
}

absl::Status RocksRecordStore::Stage(std::string_view key, std::string_view value) {
  ASSERT(IsRecordKey(key));
  ASSERT(staging_ != nullptr, "it was begun");
  return staging_->Add(key, value);
}

absl::Status RocksRecordStore::FinishStaging(const Label& label) {
  ASSERT(staging_ != nullptr, "it was begun");
  const std::unique_ptr<RecordFiles> files = std::move(staging_);
  const std::string path = PathOf(NameOf(number_ + 1));
  // Of one that could not be removed when it was done with.
  if (absl::Status removed = RemoveDirectory(options_.env, path); !removed.ok()) return removed;
  auto opened = Database::Open(DatabaseOptions(options_.env), path, /*create=*/true);
  if (!opened.ok()) return opened.status();
  std::shared_ptr<Database> staged = *std::move(opened);
  // Until it is the store.
  staged->SetObsolete(true);
  absl::Status status = files->Add(kLabelKey, EncodeLabel(label));
  if (status.ok()) status = files->TakeInto(staged->db());
  if (!status.ok()) return status;
  staged_ = std::move(staged);
  staged_label_ = label;
  return absl::OkStatus();
}

absl::Status RocksRecordStore::ReplaceByStaged() {
  ASSERT(staged_ != nullptr, "it is finished");
  ASSERT(changes_ == nullptr, "changes are of what is replaced");
  // From here on it may be the store, whatever is returned.
  staged_->SetObsolete(false);
  absl::Status written =
      WriteFileDurably(options_.env, path_, std::string(kCurrent), NameOf(number_ + 1));
  if (!written.ok()) return written;
  ++number_;
  // Goes when its last view goes.
  database()->SetObsolete(true);
  SetNewest(std::exchange(staged_, nullptr), std::move(staged_label_));
  return absl::OkStatus();
}

}  // namespace quorate::tree
