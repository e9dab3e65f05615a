// SPDX-License-Identifier: Apache-2.0

#include "tree/store/rocks_record_store.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/strings.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "tree/store/database.h"
#include "tree/store/record_files.h"
#include "tree/store/rocks.h"
#include "tree/store/unreadable.h"

namespace quorate::tree {
namespace {

constexpr std::string_view kCurrent = "current";
constexpr std::string_view kStorePrefix = "store.";
constexpr std::string_view kWriting = "writing";
constexpr std::string_view kStaging = "staging";
// The suffixes of the prepared files that are to replace "current".
constexpr std::string_view kStagedSuffix = ".new";
constexpr std::string_view kCopySuffix = ".copy";

// The format of the metadata. In format 1, the caller's data was the rest of the record. In format
// 2, recent events followed the caller's data; they are ignored.
constexpr uint8_t kFormat = 3;
constexpr uint8_t kFirstFormat = 1;
// The keys of records that are not part of the tree come first: that of the metadata, then those of
// the parts of the recent events. The key of a part is the metadata's key and the big-endian
// number.
constexpr std::string_view kMetadataKey{"\0", 1};
constexpr std::string_view kBehindMetadataKey{"\0\0", 2};
constexpr std::string_view kFirstRecordKey = "\x01";
constexpr size_t kReadAheadBytes = 256 << 10;

std::string NameOf(uint64_t number) { return absl::StrCat(ToAbsl(kStorePrefix), number); }

// Returns 12 for "store.12"; nullopt for any name that is not a store's.
std::optional<uint64_t> NumberOf(std::string_view name) {
  if (!name.starts_with(kStorePrefix)) return std::nullopt;
  name.remove_prefix(kStorePrefix.size());
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc{} || end != name.data() + name.size() || number == 0) return std::nullopt;
  return number;
}

std::string EncodeMetadata(const RecordStore::Metadata& metadata) {
  std::string value;
  LittleEndianWriter writer(&value);
  writer.Int(kFormat);
  writer.Int(metadata.zxid.value());
  writer.Int(metadata.digest);
  writer.String(metadata.caller_data);
  return value;
}

absl::StatusOr<RecordStore::Metadata> DecodeCheckpointMetadata(std::string_view value,
                                                               const std::string& path) {
  LittleEndianReader reader(value);
  const uint8_t format = reader.Int<uint8_t>();
  RecordStore::Metadata metadata;
  metadata.zxid = Zxid(reader.Int<int64_t>());
  metadata.digest = reader.Int<uint64_t>();
  metadata.caller_data = format == kFirstFormat ? reader.rest() : reader.String();
  if (!reader.ok() || format < kFirstFormat || format > kFormat) {
    return absl::DataLossError(absl::StrCat(path,
                                            ": the metadata of the checkpoint is damaged, or "
                                            "written by another version of the program, "
                                            "which can be started instead",
                                            ToAbsl(kRebuildAdvice)));
  }
  return metadata;
}

bool IsRecordKey(std::string_view key) { return !key.empty() && key.front() != '\0'; }

std::string EventsKey(uint64_t part) {
  std::string key(kMetadataKey);
  char number[sizeof(part)];
  StoreInt<std::endian::big>(number, part);
  key.append(number, sizeof(number));
  return key;
}

// Returns the number of a part from its key; nullopt for any other key.
std::optional<uint64_t> PartOf(std::string_view key) {
  if (key.size() != kMetadataKey.size() + sizeof(uint64_t) || !key.starts_with(kMetadataKey)) {
    return std::nullopt;
  }
  return LoadInt<std::endian::big, uint64_t>(key.data() + kMetadataKey.size());
}

}  // namespace

// The state of a database at one checkpoint. All views of the checkpoint share it.
class RocksRecordStore::Moment {
 public:
  explicit Moment(std::shared_ptr<Database> database)
      : database_(std::move(database)), snapshot_(database_->db()->GetSnapshot()) {}
  ~Moment() { database_->db()->ReleaseSnapshot(snapshot_); }
  Moment(const Moment&) = delete;
  Moment& operator=(const Moment&) = delete;

  std::unique_ptr<rocksdb::Iterator> NewIterator() const {
    rocksdb::ReadOptions options;
    options.readahead_size = kReadAheadBytes;
    options.snapshot = snapshot_;
    return std::unique_ptr<rocksdb::Iterator>(database_->db()->NewIterator(options));
  }
  const std::string& path() const { return database_->path(); }

 private:
  const std::shared_ptr<Database> database_;
  const rocksdb::Snapshot* const snapshot_;
};

class RocksRecordStore::DatabaseView : public View {
 public:
  // Opens a view. Returns FailedPrecondition if `database` has no checkpoint.
  static absl::StatusOr<std::unique_ptr<DatabaseView>> Open(std::shared_ptr<Database> database) {
    return Open(std::make_shared<const Moment>(std::move(database)));
  }

  static absl::StatusOr<std::unique_ptr<DatabaseView>> Open(std::shared_ptr<const Moment> moment) {
    std::unique_ptr<rocksdb::Iterator> at = moment->NewIterator();
    at->SeekToFirst();
    if (!at->status().ok()) return ToStatus(at->status(), "reading " + moment->path());
    if (!at->Valid()) {
      return absl::FailedPreconditionError(
          absl::StrCat(moment->path(), ": there is no checkpoint"));
    }
    if (ToView(at->key()) != kMetadataKey) {
      return absl::DataLossError(absl::StrCat(
          moment->path(), ": there are records without metadata", ToAbsl(kRebuildAdvice)));
    }
    auto metadata = DecodeCheckpointMetadata(ToView(at->value()), moment->path());
    if (!metadata.ok()) return metadata.status();
    at->Seek(ToSlice(kFirstRecordKey));
    return std::unique_ptr<DatabaseView>(
        new DatabaseView(std::move(moment), std::move(at), *std::move(metadata)));
  }

  const Metadata& metadata() const override { return metadata_; }

  absl::StatusOr<bool> Next(size_t bytes_max, const RecordFunction& record) override {
    size_t bytes = 0;
    for (; at_->Valid() && (bytes == 0 || bytes < bytes_max); at_->Next()) {
      const std::string_view key = ToView(at_->key());
      const std::string_view value = ToView(at_->value());
      if (absl::Status status = record(key, value); !status.ok()) return status;
      bytes += key.size() + value.size();
    }
    if (!at_->status().ok()) return ToStatus(at_->status(), "reading " + moment_->path());
    return at_->Valid();
  }

  absl::Status SeekBehind(std::string_view key) override {
    at_->Seek(ToSlice(std::max(key, kFirstRecordKey)));
    if (at_->Valid() && ToView(at_->key()) == key) at_->Next();
    return at_->status().ok() ? absl::OkStatus()
                              : ToStatus(at_->status(), "reading " + moment_->path());
  }

  absl::Status ReadEvents(const EventsFunction& events) override {
    at_->Seek(ToSlice(kBehindMetadataKey));
    for (; at_->Valid() && !IsRecordKey(ToView(at_->key())); at_->Next()) {
      const std::optional<uint64_t> part = PartOf(ToView(at_->key()));
      if (!part.has_value()) {
        return absl::DataLossError(absl::StrCat(
            moment_->path(),
            ": there is an unknown key before the records: they are damaged, or of a newer version",
            ToAbsl(kRebuildAdvice)));
      }
      if (absl::Status status = events(*part, ToView(at_->value())); !status.ok()) return status;
    }
    if (!at_->status().ok()) return ToStatus(at_->status(), "reading " + moment_->path());
    return SeekBehind({});
  }

  absl::StatusOr<std::unique_ptr<View>> OpenAnother() const override {
    auto another = Open(moment_);
    if (!another.ok()) return another.status();
    return std::unique_ptr<View>(*std::move(another));
  }

 private:
  DatabaseView(std::shared_ptr<const Moment> moment, std::unique_ptr<rocksdb::Iterator> at,
               Metadata metadata)
      : moment_(std::move(moment)), at_(std::move(at)), metadata_(std::move(metadata)) {}

  const std::shared_ptr<const Moment> moment_;  // must outlive the iterator
  const std::unique_ptr<rocksdb::Iterator> at_;
  const Metadata metadata_;
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
  std::unique_ptr<RocksRecordStore> store(new RocksRecordStore(std::move(path), options));
  if (absl::Status s = store->OpenFiles(); !s.ok()) {
    return WithUnreadableFile(store->path_, std::move(s));
  }
  return store;
}

absl::Status RocksRecordStore::OpenFiles() {
  const rocksdb::Status created = options_.env->CreateDirIfMissing(path_);
  if (!created.ok()) return ToStatus(created, "creating " + path_);
  if (absl::Status s = SyncDirectory(options_.env, path_ + "/.."); !s.ok()) return s;
  if (absl::Status opened = OpenCurrent(); !opened.ok()) return opened;
  // The process that replaced "current" may have died before that was durable, and the previous
  // store will be removed below.
  if (absl::Status s = SyncDirectory(options_.env, path_); !s.ok()) return s;
  // The database is locked now, so that no other process uses the directory.
  return RemoveLeftovers();
}

absl::StatusOr<std::unique_ptr<RecordStore::View>> RocksRecordStore::Look(std::string path,
                                                                          LookOptions options) {
  Options store_options;
  store_options.env = options.env != nullptr ? options.env : rocksdb::Env::Default();
  if (!store_options.env->FileExists(path).ok()) {
    return absl::NotFoundError(absl::StrCat(path, ": there is no store"));
  }
  auto view = LookAtFiles(path, store_options, options);
  if (!view.ok()) return WithUnreadableFile(path, view.status());
  return view;
}

absl::StatusOr<std::unique_ptr<RecordStore::View>> RocksRecordStore::LookAtFiles(
    const std::string& path, const Options& store_options, const LookOptions& options) {
  const RocksRecordStore store(path, store_options);
  auto current = store.ReadCurrent();
  if (!current.ok()) return current.status();
  if (!current->has_value()) {
    return absl::FailedPreconditionError(absl::StrCat(store.path_, ": there is no checkpoint"));
  }
  if (absl::Status s = store.CheckCurrent(**current); !s.ok()) return s;
  auto opened = Database::OpenToRead(DatabaseOptions(store_options.env), store.PathOf(**current));
  if (!opened.ok()) return opened.status();
  if (options.check_files) {
    rocksdb::ReadOptions read_options;
    read_options.readahead_size = kReadAheadBytes;
    const rocksdb::Status status = (*opened)->db()->VerifyChecksum(read_options);
    if (!status.ok()) return ToStatus(status, "checking " + (*opened)->path());
  }
  auto view = DatabaseView::Open(*std::move(opened));
  if (!view.ok()) return view.status();
  return std::unique_ptr<View>(*std::move(view));
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
    // The first database may exist already if its creation was interrupted.
    if (NumberOf(other).value_or(1) == 1) continue;
    return absl::DataLossError(
        absl::StrCat(path, ": is missing, though there is ", other, ToAbsl(kRebuildAdvice)));
  }
  return std::optional<std::string>();
}

absl::Status RocksRecordStore::CheckCurrent(std::string_view name) const {
  const bool is_name = NumberOf(name).has_value();
  if (is_name && !options_.env->FileExists(PathOf(name)).IsNotFound()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(PathOf(kCurrent),
                   is_name ? ": names a store that is not there: \"" : ": names no store but \"",
                   absl::CHexEscape(ToAbsl(name)), "\"", ToAbsl(kRebuildAdvice)));
}

absl::Status RocksRecordStore::OpenCurrent() {
  auto current = ReadCurrent();
  if (!current.ok()) return current.status();
  const bool is_new = !current->has_value();
  const std::string name = current->value_or(NameOf(number_));
  if (absl::Status s = is_new ? absl::OkStatus() : CheckCurrent(name); !s.ok()) return s;
  number_ = last_number_ = NumberOf(name).value();
  auto opened = Database::Open(DatabaseOptions(options_.env), PathOf(name), is_new);
  if (!is_new && absl::IsResourceExhausted(opened.status())) {
    opened = Database::OpenWithoutFreeSpace(DatabaseOptions(options_.env), PathOf(name));
  }
  if (!opened.ok()) return opened.status();
  if (is_new) {
    absl::Status written = PrepareFile(options_.env, PathOf(kCurrent), kStagedSuffix, name);
    if (written.ok()) {
      written = ReplaceByPrepared(options_.env, path_, std::string(kCurrent), kStagedSuffix);
    }
    if (!written.ok()) return written;
  }
  std::shared_ptr<Database> database = *std::move(opened);
  auto view = DatabaseView::Open(database);
  if (!view.ok() && !absl::IsFailedPrecondition(view.status())) return view.status();
  SetNewest(std::move(database), view.ok() ? std::optional((*view)->metadata()) : std::nullopt);
  return absl::OkStatus();
}

absl::Status RocksRecordStore::RemoveLeftovers() const {
  std::vector<std::string> names;
  const rocksdb::Status listed = options_.env->GetChildren(path_, &names);
  if (!listed.ok()) return ToStatus(listed, "listing " + path_);
  for (const std::string& name : names) {
    if (name.starts_with(kCurrent) && name != kCurrent) {
      const rocksdb::Status removed = options_.env->DeleteFile(PathOf(name));
      if (!removed.ok()) return ToStatus(removed, "removing " + PathOf(name));
      continue;
    }
    const bool is_other_store = NumberOf(name).value_or(number_) != number_;
    const bool is_copy =
        name.starts_with(kStorePrefix) && name.ends_with(Database::kUnfinishedCopySuffix);
    if (!is_other_store && !is_copy && name != kWriting && name != kStaging) continue;
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

void RocksRecordStore::SetNewest(std::shared_ptr<Database> database,
                                 std::optional<Metadata> metadata) {
  MutexLock lock(&mutex_);
  database_.swap(database);
  newest_ = std::move(metadata);
}

std::optional<RecordStore::Metadata> RocksRecordStore::newest() const {
  MutexLock lock(&mutex_);
  return newest_;
}

bool RocksRecordStore::waits_for_free_space() const { return database()->is_read_only(); }

absl::Status RocksRecordStore::WithOrigin(const absl::Status& status) const {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(status.message(),
                                                  ". Which checkpoint is the newest was read from ",
                                                  database()->manifest_path()));
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
  return Change(key, value);
}

absl::Status RocksRecordStore::WriteEvents(uint64_t part, std::optional<std::string_view> bytes) {
  return Change(EventsKey(part), bytes);
}

absl::Status RocksRecordStore::Change(std::string_view key, std::optional<std::string_view> value) {
  if (changes_ == nullptr) changes_ = NewFiles(kWriting);
  absl::Status added = changes_->Add(key, value);
  if (!added.ok()) changes_.reset();
  return added;
}

absl::Status RocksRecordStore::Commit(const Metadata& metadata) {
  if (changes_ == nullptr) changes_ = NewFiles(kWriting);
  const std::unique_ptr<RecordFiles> changes = std::move(changes_);
  database()->WatchSpace();
  absl::Status status = changes->Add(kMetadataKey, EncodeMetadata(metadata));
  if (status.ok()) status = changes->Finish();
  if (status.ok()) status = GoOn();
  if (!status.ok()) return status;
  std::shared_ptr<Database> into = database();
  if (absl::Status s = into->Recover(); !s.ok()) return s;
  if (into->takes_no_more()) return CommitToCopy(changes.get(), metadata);
  status = into->TakeIn(changes.get());
  if (status.ok()) SetNewest(std::move(into), metadata);
  return status;
}

absl::Status RocksRecordStore::GoOn() {
  const std::shared_ptr<Database> full = database();
  if (!full->is_read_only()) return absl::OkStatus();
  auto opened = full->Reopen(DatabaseOptions(options_.env));
  if (!opened.ok()) return opened.status();
  SetNewest(*std::move(opened), newest());
  return absl::OkStatus();
}

absl::Status RocksRecordStore::CommitToCopy(RecordFiles* changes, const Metadata& metadata) {
  Next next{nullptr, metadata, ++last_number_, kCopySuffix};
  const std::string path = PathOf(NameOf(next.number));
  auto copy = database()->Copy(DatabaseOptions(options_.env), path);
  if (!copy.ok()) {
    RemoveDirectory(options_.env, path).IgnoreError();  // if this fails, the next Open does it
    return copy.status();
  }
  next.database = *std::move(copy);
  if (absl::Status s = FinishNext(next, changes); !s.ok()) return s;
  const absl::Status replaced = ReplaceBy(std::move(next));
  return absl::IsResourceExhausted(replaced) ? absl::InternalError(replaced.message()) : replaced;
}

absl::Status RocksRecordStore::FinishNext(const Next& next, RecordFiles* files) const {
  // The database counts as obsolete until it becomes the store.
  next.database->SetObsolete(true);
  if (absl::Status s = next.database->TakeIn(files); !s.ok()) return s;
  // Prepares the file now, while a full disk is still an error without consequences.
  return PrepareFile(options_.env, PathOf(kCurrent), next.prepared_suffix, NameOf(next.number));
}

absl::Status RocksRecordStore::ReplaceBy(Next next) {
  // From here on the database may be the store, even if an error is returned.
  next.database->SetObsolete(false);
  absl::Status replaced =
      ReplaceByPrepared(options_.env, path_, std::string(kCurrent), next.prepared_suffix);
  if (!replaced.ok()) return replaced;
  number_ = next.number;
  // The old database is removed when its last view is closed.
  database()->SetObsolete(true);
  SetNewest(std::move(next.database), std::move(next.metadata));
  return absl::OkStatus();
}

// --- Another set of records ----------------------------------------------------------------------

absl::Status RocksRecordStore::BeginStaging() {
  staged_.reset();
  // The old object must go first, because its destructor removes the directory that the next one
  // uses.
  staging_.reset();
  staging_ = NewFiles(kStaging);
  return absl::OkStatus();
}

absl::Status RocksRecordStore::DiscardStaged() {
  staged_.reset();
  staging_.reset();
  return absl::OkStatus();
}

absl::Status RocksRecordStore::Stage(std::string_view key, std::string_view value) {
  ASSERT(IsRecordKey(key));
  ASSERT(staging_ != nullptr, "staging has begun");
  return staging_->Add(key, value);
}

absl::Status RocksRecordStore::FinishStaging(const Metadata& metadata) {
  ASSERT(staging_ != nullptr, "staging has begun");
  const std::unique_ptr<RecordFiles> files = std::move(staging_);
  if (absl::Status s = files->Add(kMetadataKey, EncodeMetadata(metadata)); !s.ok()) return s;
  if (absl::Status s = files->Finish(); !s.ok()) return s;
  Next next{nullptr, metadata, ++last_number_, kStagedSuffix};
  const std::string path = PathOf(NameOf(next.number));
  auto opened = Database::Open(DatabaseOptions(options_.env), path, /*create=*/true);
  if (!opened.ok()) {
    RemoveDirectory(options_.env, path).IgnoreError();  // if this fails, the next Open does it
    return opened.status();
  }
  next.database = *std::move(opened);
  if (absl::Status s = FinishNext(next, files.get()); !s.ok()) return s;
  staged_ = std::move(next);
  return absl::OkStatus();
}

absl::Status RocksRecordStore::ReplaceByStaged() {
  ASSERT(staged_.has_value(), "staging is finished");
  ASSERT(changes_ == nullptr, "no changes of the replaced store are uncommitted");
  return ReplaceBy(*std::exchange(staged_, std::nullopt));
}

}  // namespace quorate::tree
