// SPDX-License-Identifier: Apache-2.0

#include "tree/store/rocks_record_store.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/file_system.h"

namespace quorate::tree {
namespace {

namespace fs = std::filesystem;
using Metadata = RecordStore::Metadata;
using Records = std::map<std::string, std::string>;

// A directory that is removed after the test.
class TestDirectory {
 public:
  TestDirectory() {
    const char* base = std::getenv("TEST_TMPDIR");
    std::string name = std::string(base != nullptr ? base : "/tmp") + "/store-XXXXXX";
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TestDirectory() { fs::remove_all(path_); }
  std::string Path(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// Syncs nothing: only the tests with crashes need syncs, which are slow on a busy disk.
class UnsyncedFileSystem : public rocksdb::FileSystemWrapper {
 public:
  UnsyncedFileSystem() : rocksdb::FileSystemWrapper(rocksdb::FileSystem::Default()) {}
  const char* Name() const override { return "UnsyncedFileSystem"; }

  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* debug) override {
    std::unique_ptr<rocksdb::FSWritableFile> synced;
    rocksdb::IOStatus status = FileSystemWrapper::NewWritableFile(name, options, &synced, debug);
    if (status.ok()) *file = std::make_unique<WritableFile>(std::move(synced));
    return status;
  }
  rocksdb::IOStatus NewDirectory(const std::string& name, const rocksdb::IOOptions& options,
                                 std::unique_ptr<rocksdb::FSDirectory>* directory,
                                 rocksdb::IODebugContext* debug) override {
    std::unique_ptr<rocksdb::FSDirectory> synced;
    rocksdb::IOStatus status = FileSystemWrapper::NewDirectory(name, options, &synced, debug);
    if (status.ok()) *directory = std::make_unique<Directory>(std::move(synced));
    return status;
  }

 private:
  class WritableFile : public rocksdb::FSWritableFileOwnerWrapper {
   public:
    using rocksdb::FSWritableFileOwnerWrapper::FSWritableFileOwnerWrapper;
    rocksdb::IOStatus Sync(const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* debug) override {
      return Flush(options, debug);
    }
    rocksdb::IOStatus Fsync(const rocksdb::IOOptions& options,
                            rocksdb::IODebugContext* debug) override {
      return Flush(options, debug);
    }
    rocksdb::IOStatus RangeSync(uint64_t /*offset*/, uint64_t /*bytes*/,
                                const rocksdb::IOOptions& /*options*/,
                                rocksdb::IODebugContext* /*debug*/) override {
      return rocksdb::IOStatus::OK();
    }
  };
  class Directory : public rocksdb::FSDirectoryWrapper {
   public:
    explicit Directory(std::unique_ptr<rocksdb::FSDirectory> directory)
        : rocksdb::FSDirectoryWrapper(std::move(directory)) {}
    rocksdb::IOStatus Fsync(const rocksdb::IOOptions& /*options*/,
                            rocksdb::IODebugContext* /*debug*/) override {
      return rocksdb::IOStatus::OK();
    }
    rocksdb::IOStatus FsyncWithDirOptions(const rocksdb::IOOptions& /*options*/,
                                          rocksdb::IODebugContext* /*debug*/,
                                          const rocksdb::DirFsyncOptions& /*more*/) override {
      return rocksdb::IOStatus::OK();
    }
  };
};

// Returns options with a buffer so small that a checkpoint has several files.
RocksRecordStore::Options SmallOptions() {
  static const std::unique_ptr<rocksdb::Env> env =
      rocksdb::NewCompositeEnv(std::make_shared<UnsyncedFileSystem>());
  RocksRecordStore::Options options;
  options.env = env.get();
  options.buffer_bytes = 700;
  return options;
}

std::unique_ptr<RocksRecordStore> MustOpen(const std::string& path) {
  auto opened = RocksRecordStore::Open(path, SmallOptions());
  INFO(opened.status());
  REQUIRE(opened.ok());
  return *std::move(opened);
}

absl::Status StatusOfOpen(const std::string& path) {
  return RocksRecordStore::Open(path, SmallOptions()).status();
}

Metadata MetadataOf(int64_t zxid) {
  return {Zxid(zxid), static_cast<uint64_t>(zxid) * 7, "metadata"};
}

absl::StatusOr<Records> ReadAll(RecordStore::View* view, size_t bytes_max) {
  Records records;
  while (true) {
    size_t bytes = 0;
    auto more = view->Next(bytes_max, [&](std::string_view key, std::string_view value) {
      CHECK(bytes < bytes_max);
      CHECK((records.empty() || records.rbegin()->first < key));
      records.emplace(key, value);
      bytes += key.size() + value.size();
      return absl::OkStatus();
    });
    if (!more.ok()) return more.status();
    if (!*more) return records;
  }
}

Records RecordsOf(const RocksRecordStore& store, size_t bytes_max = 300) {
  auto view = store.OpenView();
  REQUIRE(view.ok());
  CHECK((*view)->metadata() == store.newest());
  auto records = ReadAll(view->get(), bytes_max);
  INFO(records.status());
  REQUIRE(records.ok());
  return *std::move(records);
}

// Makes the same random changes to `records` and to the store.
void WriteRandom(uint64_t count, std::mt19937_64* random, RocksRecordStore* store,
                 Records* records) {
  for (; count > 0; --count) {
    const std::string key = "k" + std::to_string((*random)() % 100);
    if ((*random)() % 3 == 0) {
      REQUIRE(store->Write(key, std::nullopt).ok());
      records->erase(key);
    } else {
      const std::string value((*random)() % 50, static_cast<char>((*random)()));
      REQUIRE(store->Write(key, value).ok());
      (*records)[key] = value;
    }
  }
}

void StageRecords(RocksRecordStore* store, const Records& records, const Metadata& metadata) {
  REQUIRE(store->BeginStaging().ok());
  for (const auto& [key, value] : records) REQUIRE(store->Stage(key, value).ok());
  const absl::Status finished = store->FinishStaging(metadata);
  INFO(finished);
  REQUIRE(finished.ok());
}

std::set<std::string> NamesIn(const std::string& path) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(path)) names.insert(entry.path().filename());
  return names;
}

TEST_CASE("a new store has no checkpoint") {
  const TestDirectory directory;
  for (int i = 0; i < 2; ++i) {
    const auto store = MustOpen(directory.Path("tree"));
    CHECK_FALSE(store->newest().has_value());
    CHECK(absl::IsFailedPrecondition(store->OpenView().status()));
  }
}

TEST_CASE("a store that is open cannot be opened again") {
  const TestDirectory directory;
  const auto store = MustOpen(directory.Path("tree"));
  const absl::Status status = StatusOfOpen(directory.Path("tree"));
  CHECK(absl::IsFailedPrecondition(status));
  CHECK(status.message().find(directory.Path("tree")) != absl::string_view::npos);
}

TEST_CASE("a checkpoint without records is valid") {
  const TestDirectory directory;
  const auto store = MustOpen(directory.Path("tree"));
  REQUIRE(store->Commit(MetadataOf(5)).ok());
  CHECK(store->newest() == MetadataOf(5));
  CHECK(RecordsOf(*store).empty());
}

TEST_CASE("checkpoints in earlier formats, with events elsewhere or without events, can be read") {
  const TestDirectory directory;
  const std::string path = directory.Path("store");
  const auto format = GENERATE(uint8_t{0}, uint8_t{1}, uint8_t{2}, uint8_t{4});
  CAPTURE(format);
  MustOpen(path);
  std::string metadata;
  LittleEndianWriter writer(&metadata);
  writer.Int(format);
  writer.Int(int64_t{20});
  writer.Int(uint64_t{9});
  if (format == 1) {
    writer.Raw("metadata");
  } else {
    writer.String("metadata");
    writer.Raw("what happened");
  }
  rocksdb::DB* opened = nullptr;
  REQUIRE(rocksdb::DB::Open(rocksdb::Options(), path + "/store.1", &opened).ok());
  const std::unique_ptr<rocksdb::DB> database(opened);
  REQUIRE(database->Put({}, rocksdb::Slice("\0", 1), metadata).ok());
  REQUIRE(database->Flush({}).ok());
  REQUIRE(database->Close().ok());
  if (format == 0 || format == 4) {
    CHECK(absl::IsDataLoss(StatusOfOpen(path)));
    return;
  }
  const auto store = MustOpen(path);
  CHECK(store->newest() == Metadata{Zxid(20), 9, "metadata"});
  REQUIRE(store->Commit(MetadataOf(21)).ok());
  CHECK(store->newest() == MetadataOf(21));
}

TEST_CASE("parts of the recent events are stored beside the records, and not among them") {
  const TestDirectory directory;
  const std::string path = directory.Path("tree");
  auto store = MustOpen(path);
  using Parts = std::map<uint64_t, std::string>;
  const auto check = [&store](const Parts& parts, const Records& records) {
    auto view = store->OpenView();
    REQUIRE(view.ok());
    CHECK(*ReadAll(view->get(), 100) == records);
    Parts found;
    uint64_t before = 0;
    REQUIRE((*view)
                ->ReadEvents([&](uint64_t part, std::string_view bytes) {
                  CHECK(part >= before);
                  before = part;
                  found.emplace(part, bytes);
                  return absl::OkStatus();
                })
                .ok());
    CHECK(found == parts);
    // Next continues with the first record, also at the beginning.
    CHECK(*ReadAll(view->get(), 100) == records);
    REQUIRE((*view)->SeekBehind({}).ok());
    CHECK(*ReadAll(view->get(), 100) == records);
    const absl::Status error = absl::AbortedError("enough");
    const auto fail = [&](uint64_t, std::string_view) { return error; };
    CHECK((*view)->ReadEvents(fail) == (parts.empty() ? absl::OkStatus() : error));
  };
  REQUIRE(store->Write("\x01", "first").ok());
  REQUIRE(store->Write("k", "v").ok());
  REQUIRE(store->Commit(MetadataOf(1)).ok());
  Records records = {{"\x01", "first"}, {"k", "v"}};
  check({}, records);
  for (uint64_t part : {uint64_t{0}, uint64_t{1}, uint64_t{300}, UINT64_MAX}) {
    REQUIRE(store->WriteEvents(part, std::to_string(part)).ok());
  }
  REQUIRE(store->Commit(MetadataOf(2)).ok());
  check({{0, "0"}, {1, "1"}, {300, "300"}, {UINT64_MAX, std::to_string(UINT64_MAX)}}, records);
  REQUIRE(store->WriteEvents(0, std::nullopt).ok());
  REQUIRE(store->WriteEvents(UINT64_MAX, std::nullopt).ok());
  REQUIRE(store->WriteEvents(300, "more").ok());
  REQUIRE(store->Commit(MetadataOf(3)).ok());
  store.reset();
  store = MustOpen(path);
  check({{1, "1"}, {300, "more"}}, records);
  records = {{"other", "tree"}};
  StageRecords(store.get(), records, MetadataOf(4));
  REQUIRE(store->ReplaceByStaged().ok());
  check({}, records);
}

TEST_CASE("the last of several changes of a key counts, also if they are in different files") {
  const TestDirectory directory;
  const auto store = MustOpen(directory.Path("tree"));
  Records wanted;
  for (int i = 0; i < 100; ++i) {
    const std::string value = "value " + std::to_string(i);
    REQUIRE(store->Write("same", value).ok());
    REQUIRE(store->Write("gone", value).ok());
    REQUIRE(store->Write("removed and back", std::nullopt).ok());
    wanted["same"] = wanted["removed and back"] = value;
    REQUIRE(store->Write("removed and back", value).ok());
    REQUIRE(store->Write("gone", std::nullopt).ok());
  }
  REQUIRE(store->Commit(MetadataOf(1)).ok());
  CHECK(RecordsOf(*store) == wanted);
}

TEST_CASE("random changes are read as they were committed") {
  const TestDirectory directory;
  for (uint64_t seed = 301; seed <= 303; ++seed) {
    CAPTURE(seed);
    const std::string path = directory.Path(std::to_string(seed));
    auto store = MustOpen(path);
    std::mt19937_64 random(seed);
    Records records;
    std::optional<Metadata> metadata;
    for (int round = 1; round <= 60; ++round) {
      CAPTURE(round);
      Records next = records;
      WriteRandom(random() % 150, &random, store.get(), &next);
      if (random() % 4 > 0) {
        records = std::move(next);
        metadata = MetadataOf(round);
        REQUIRE(store->Commit(*metadata).ok());
      } else {
        // Uncommitted changes are dropped, as by a crash.
        store.reset();
        store = MustOpen(path);
        CHECK(NamesIn(path) == std::set<std::string>{"current", "store.1"});
      }
      REQUIRE(store->newest() == metadata);
      if (metadata.has_value()) REQUIRE(RecordsOf(*store, 1 + random() % 1000) == records);
    }
  }
}

TEST_CASE("a view does not change while checkpoints are committed, and outlives the store") {
  const TestDirectory directory;
  auto store = MustOpen(directory.Path("tree"));
  std::mt19937_64 random(3);
  Records records;
  std::vector<std::pair<std::unique_ptr<RecordStore::View>, Records>> views;
  for (int round = 1; round <= 30; ++round) {
    WriteRandom(50, &random, store.get(), &records);
    // Views do not show uncommitted changes.
    if (round > 1) views.emplace_back(*store->OpenView(), views.back().second);
    REQUIRE(store->Commit(MetadataOf(round)).ok());
    views.emplace_back(*store->OpenView(), records);
  }
  store.reset();
  for (auto& [view, wanted] : views) {
    const auto found = ReadAll(view.get(), 200);
    REQUIRE(found.ok());
    CHECK(*found == wanted);
  }
}

TEST_CASE("OpenAnother opens the same checkpoint, even after other commits") {
  const TestDirectory directory;
  auto store = MustOpen(directory.Path("tree"));
  std::mt19937_64 random(5);
  Records records;
  WriteRandom(200, &random, store.get(), &records);
  REQUIRE(store->Commit(MetadataOf(1)).ok());
  const Records wanted = records;
  std::unique_ptr<RecordStore::View> first = *store->OpenView();
  for (int round = 2; round <= 20; ++round) {
    WriteRandom(50, &random, store.get(), &records);
    REQUIRE(store->Commit(MetadataOf(round)).ok());
    auto another = first->OpenAnother();
    REQUIRE(another.ok());
    CHECK((*another)->metadata() == MetadataOf(1));
    const auto found = ReadAll(another->get(), 200);
    REQUIRE(found.ok());
    REQUIRE(*found == wanted);
  }
  // Other views can open more, also after the store and those views are gone.
  std::unique_ptr<RecordStore::View> second = *first->OpenAnother();
  StageRecords(store.get(), {{"only", "this"}}, MetadataOf(30));
  REQUIRE(store->ReplaceByStaged().ok());
  store.reset();
  first.reset();
  std::unique_ptr<RecordStore::View> third = *second->OpenAnother();
  second.reset();
  const auto found = ReadAll(third.get(), 200);
  REQUIRE(found.ok());
  CHECK(*found == wanted);
}

TEST_CASE("discarded staged records take no space on the disk") {
  const TestDirectory directory;
  const std::string path = directory.Path("tree");
  auto store = MustOpen(path);
  REQUIRE(store->Write("k", "v").ok());
  REQUIRE(store->Commit(MetadataOf(1)).ok());
  const std::set<std::string> names = NamesIn(path);
  Records staged;
  for (int i = 0; i < 90; ++i) staged["s" + std::to_string(i)] = std::string(40, 's');
  SECTION("half staged") {
    REQUIRE(store->BeginStaging().ok());
    for (const auto& [key, value] : staged) REQUIRE(store->Stage(key, value).ok());
    REQUIRE(NamesIn(path) != names);
    REQUIRE(store->DiscardStaged().ok());
    CHECK(NamesIn(path) == names);
  }
  SECTION("all staged") {
    StageRecords(store.get(), staged, MetadataOf(2));
    REQUIRE(store->DiscardStaged().ok());
    std::set<std::string> left = NamesIn(path);
    left.erase("current.new");  // a few bytes
    CHECK(left == names);
  }
  SECTION("nothing staged") {
    REQUIRE(store->DiscardStaged().ok());
    CHECK(NamesIn(path) == names);
  }
  CHECK(store->newest() == MetadataOf(1));
  StageRecords(store.get(), staged, MetadataOf(3));
  REQUIRE(store->ReplaceByStaged().ok());
  CHECK(RecordsOf(*store) == staged);
}

TEST_CASE("Look reads a checkpoint without changing the directory") {
  TestDirectory directory;
  const std::string path = directory.Path("tree");
  const RocksRecordStore::LookOptions options{.env = nullptr, .check_files = true};
  CHECK(absl::IsNotFound(RocksRecordStore::Look(path, options).status()));
  CHECK_FALSE(fs::exists(path));
  MustOpen(path);
  CHECK(absl::IsFailedPrecondition(RocksRecordStore::Look(path, options).status()));
  {
    auto store = MustOpen(path);
    REQUIRE(store->Write("k", "v").ok());
    REQUIRE(store->Commit(MetadataOf(1)).ok());
  }
  // This leftover would be removed by the next Open.
  fs::create_directory(path + "/staging");
  const auto times = [&path] {
    std::map<std::string, fs::file_time_type> result;
    for (const auto& entry : fs::recursive_directory_iterator(path)) {
      result[entry.path()] = entry.last_write_time();
    }
    return result;
  };
  const auto before = times();
  auto view = RocksRecordStore::Look(path, options);
  REQUIRE(view.ok());
  CHECK((*view)->metadata() == MetadataOf(1));
  CHECK(*ReadAll(view->get(), 1000) == Records{{"k", "v"}});
  view->reset();
  CHECK(times() == before);
}

TEST_CASE("SeekBehind continues a view after any key") {
  const TestDirectory directory;
  auto store = MustOpen(directory.Path("tree"));
  const Records records = {{"b", "1"}, {"d", "2"}, {"f", "3"}};
  for (const auto& [key, value] : records) REQUIRE(store->Write(key, value).ok());
  REQUIRE(store->WriteEvents(7, "no record").ok());
  REQUIRE(store->Commit(MetadataOf(1)).ok());
  auto view = *store->OpenView();
  REQUIRE(store->Write("e", "later").ok());
  REQUIRE(store->Commit(MetadataOf(2)).ok());
  for (const std::string& key :
       {std::string(), std::string(1, '\0'), std::string(9, '\0'), std::string("a"),
        std::string("b"), std::string("c"), std::string("d"), std::string("f"), std::string("g")}) {
    CAPTURE(key);
    REQUIRE(view->SeekBehind(key).ok());
    const auto found = ReadAll(view.get(), 100);
    REQUIRE(found.ok());
    CHECK(*found == Records(records.upper_bound(key), records.end()));
  }
}

TEST_CASE("staged records replace the store when ReplaceByStaged is called") {
  const TestDirectory directory;
  const std::string path = directory.Path("to");
  auto store = MustOpen(path);
  std::mt19937_64 random(4);
  Records old;
  WriteRandom(100, &random, store.get(), &old);
  REQUIRE(store->Commit(MetadataOf(10)).ok());
  Records wanted;
  for (int i = 0; i < 90; ++i) wanted["s" + std::to_string(i)] = std::string(40, 's');
  // Stages a part of the records, and then starts again.
  REQUIRE(store->BeginStaging().ok());
  for (int i = 0; i < 50; ++i) REQUIRE(store->Stage("x" + std::to_string(i), "x").ok());
  StageRecords(store.get(), wanted, MetadataOf(20));
  CHECK(store->newest() == MetadataOf(10));

  SECTION("the staged records are dropped at a restart") {
    store.reset();
    // An incomplete copy is removed too.
    fs::create_directory(path + "/store.3.tmp");
    std::ofstream(path + "/store.3.tmp/000001.sst") << "x";
    store = MustOpen(path);
    CHECK(store->newest() == MetadataOf(10));
    CHECK(RecordsOf(*store) == old);
    CHECK(NamesIn(path) == std::set<std::string>{"current", "store.1"});
  }
  SECTION("checkpoints are committed before the replacement") {
    WriteRandom(100, &random, store.get(), &old);
    REQUIRE(store->Commit(MetadataOf(11)).ok());
    CHECK(RecordsOf(*store) == old);
    REQUIRE(store->ReplaceByStaged().ok());
    CHECK(RecordsOf(*store) == wanted);
  }
  SECTION("another staged set replaces it") {
    wanted.erase("s5");
    StageRecords(store.get(), wanted, MetadataOf(30));
    REQUIRE(store->ReplaceByStaged().ok());
    CHECK(store->newest() == MetadataOf(30));
    CHECK(RecordsOf(*store) == wanted);
  }
  SECTION("an old view is still readable, and the old store is removed with it") {
    auto view = *store->OpenView();
    REQUIRE(store->ReplaceByStaged().ok());
    CHECK(store->newest() == MetadataOf(20));
    CHECK(RecordsOf(*store) == wanted);
    CHECK(view->metadata() == MetadataOf(10));
    const auto found = ReadAll(view.get(), 100);
    REQUIRE(found.ok());
    CHECK(*found == old);
    CHECK(NamesIn(path) == std::set<std::string>{"current", "store.1", "store.2"});
    view.reset();
    CHECK(NamesIn(path) == std::set<std::string>{"current", "store.2"});
  }
  SECTION("further checkpoints are committed afterwards") {
    REQUIRE(store->ReplaceByStaged().ok());
    WriteRandom(100, &random, store.get(), &wanted);
    REQUIRE(store->Commit(MetadataOf(21)).ok());
    StageRecords(store.get(), old, MetadataOf(40));
    REQUIRE(store->ReplaceByStaged().ok());
    store.reset();
    store = MustOpen(path);
    CHECK(store->newest() == MetadataOf(40));
    CHECK(RecordsOf(*store) == old);
    CHECK(NamesIn(path) == std::set<std::string>{"current", "store.3"});
  }
}

TEST_CASE("one thread writes and stages while others read") {
  const TestDirectory directory;
  const auto store = MustOpen(directory.Path("tree"));
  // Every record of a checkpoint contains the checkpoint's zxid.
  const auto records_of = [](int64_t zxid) {
    Records records;
    for (int i = 0; i < 40; ++i) records["k" + std::to_string(i)] = std::to_string(zxid);
    return records;
  };
  const auto commit = [&](int64_t zxid) {
    for (const auto& [key, value] : records_of(zxid)) REQUIRE(store->Write(key, value).ok());
    REQUIRE(store->Commit(MetadataOf(zxid)).ok());
  };
  commit(1);
  std::atomic<bool> stop = false;
  std::atomic<int> errors = 0;
  std::atomic<int> reads = 0;
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      int64_t last = 0;
      while (!stop) {
        auto view = store->OpenView();
        Records found;
        bool more = view.ok();
        while (more) {
          auto next = (*view)->Next(100, [&](std::string_view key, std::string_view value) {
            found.emplace(key, value);
            return absl::OkStatus();
          });
          errors += next.ok() ? 0 : 1;
          more = next.ok() && *next;
        }
        const int64_t zxid = view.ok() ? (*view)->metadata().zxid.value() : 0;
        errors += zxid >= last && found == records_of(zxid) ? 0 : 1;
        last = zxid;
        ++reads;
      }
    });
  }
  for (int64_t zxid = 2; zxid < 30 || reads < 20; ++zxid) {
    if (zxid % 5 == 0) {
      StageRecords(store.get(), records_of(zxid), MetadataOf(zxid));
      REQUIRE(store->ReplaceByStaged().ok());
    } else {
      commit(zxid);
    }
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  CHECK(errors == 0);
}

TEST_CASE("an error of the reader's callback ends the call and is returned") {
  const TestDirectory directory;
  const auto store = MustOpen(directory.Path("tree"));
  REQUIRE(store->Write("a", "1").ok());
  REQUIRE(store->Write("b", "2").ok());
  REQUIRE(store->Commit(MetadataOf(1)).ok());
  auto view = store->OpenView();
  REQUIRE(view.ok());
  int calls = 0;
  const auto next = (*view)->Next(1000, [&](std::string_view, std::string_view) {
    ++calls;
    return absl::DataLossError("wrong");
  });
  CHECK(next.status() == absl::DataLossError("wrong"));
  CHECK(calls == 1);
}

TEST_CASE("damage on the disk is detected") {
  const TestDirectory directory;
  const std::string path = directory.Path("tree");
  auto store = MustOpen(path);
  std::mt19937_64 random(5);
  Records records;
  WriteRandom(100, &random, store.get(), &records);
  REQUIRE(store->Commit(MetadataOf(1)).ok());
  store.reset();
  SECTION("in a record") {
    for (const auto& entry : fs::directory_iterator(path + "/store.1")) {
      if (entry.path().extension() != ".sst") continue;
      std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(30);
      file.put('\x55');
    }
    absl::Status status = StatusOfOpen(path);
    if (status.ok()) {
      auto view = MustOpen(path)->OpenView();
      status = view.ok() ? ReadAll(view->get(), 100).status() : view.status();
    }
    CHECK(absl::IsDataLoss(status));
    CHECK(status.message().find(path) != absl::string_view::npos);
  }
  SECTION("in the name of the store") {
    std::ofstream(path + "/current") << "store.x";
    CHECK(absl::IsDataLoss(StatusOfOpen(path)));
  }
  SECTION("the name of a store is lost") {
    fs::rename(path + "/store.1", path + "/store.2");
    fs::remove(path + "/current");
    CHECK(absl::IsDataLoss(StatusOfOpen(path)));
    CHECK(fs::exists(path + "/store.2"));
  }
  SECTION("the store is lost") {
    fs::remove_all(path + "/store.1");
    CHECK(absl::IsDataLoss(StatusOfOpen(path)));
  }
}

}  // namespace
}  // namespace quorate::tree
