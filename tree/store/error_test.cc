// SPDX-License-Identifier: Apache-2.0

// Makes each file operation fail once while checkpoints are committed and replaced by staged ones.
// Either the caller gets an error with the path, or the failure has no effect. Afterwards the store
// holds one whole checkpoint: the last committed one, or the one that was being committed. Data of
// a failed sync counts as lost, even if a later sync succeeded.
//
//   bazel run //tree/store:error_test -- '[all]'    every operation, instead of some
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

#include "rocksdb/env.h"
#include "tree/store/testing/error_file_system.h"
#include "tree/store/testing/store_scenario.h"

namespace quorate::tree {
namespace {

using Fault = ErrorFileSystem::Fault;

// RocksDB compacts when there are eight or more files.
constexpr int64_t kCheckpoints = 8;

bool IsFull(Fault fault) {
  return fault == Fault::kNoSpace || fault == Fault::kFull || fault == Fault::kNoSpaceLate;
}

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    const char* base = std::getenv("TEST_TMPDIR");
    path_ = std::string(base != nullptr ? base : "/tmp") + "/error-XXXXXX";
    REQUIRE(mkdtemp(path_.data()) != nullptr);
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct Progress {
  int64_t committed = 0;
  int64_t begun = 0;
};

struct Counts {
  int told = 0;
  int harmless = 0;
  int went_on = 0;  // number of runs in which the store continued after a full disk
};

// Opens the store twice, because opening writes files too. Then makes checkpoints until one fails.
absl::Status Run(const std::string& path, const ErrorFileSystem& files, rocksdb::Env* env,
                 std::unique_ptr<RocksRecordStore>* store, Progress* progress) {
  for (int i = 0; i < 2; ++i) {
    store->reset();
    auto opened = RocksRecordStore::Open(path, ScenarioOptions(env));
    if (!opened.ok()) return opened.status();
    *store = *std::move(opened);
  }
  while (progress->committed < kCheckpoints) {
    progress->begun = progress->committed + 1;
    if (absl::Status s = Make(progress->begun, store->get()); !s.ok()) return s;
    ++progress->committed;
    auto records = ReadAll(**store);
    if (!records.ok()) return records.status();
    INFO(files.failed());
    REQUIRE((*records == RecordsOf(progress->committed)));
  }
  return absl::OkStatus();
}

void CheckHolds(const RocksRecordStore& store, int64_t number) {
  REQUIRE(store.newest() == (number == 0 ? std::nullopt : std::optional(MetadataOf(number))));
  if (number == 0) return;
  auto records = ReadAll(store);
  INFO(records.status());
  REQUIRE(records.ok());
  REQUIRE((*records == RecordsOf(number)));
}

// Checks the checkpoint that the next process finds, and that it can make further checkpoints.
void CheckLeft(const std::string& path, const Progress& progress) {
  for (int64_t more = 0, number = 0; more <= 3; more += 3) {
    auto store = RocksRecordStore::Open(path, ScenarioOptions(nullptr));
    INFO(store.status());
    REQUIRE(store.ok());
    if (more == 0) {
      const auto newest = (*store)->newest();
      number = newest.has_value() ? newest->zxid.value() : 0;
      REQUIRE((number == progress.committed || number == progress.begun));
    }
    CheckHolds(**store, number + more);
    for (int64_t next = number + 1; more == 0 && next <= number + 3; ++next) {
      REQUIRE(Make(next, store->get()).ok());
    }
  }
}

// Runs once with the fault at `operation`. Returns false if the run has fewer operations.
bool FailAt(Fault fault, uint64_t operation, Counts* counts) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/tree";
  const auto files = std::make_shared<ErrorFileSystem>(fault, operation);
  const std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(files);
  std::unique_ptr<RocksRecordStore> store;
  Progress progress;
  CAPTURE(operation);
  const absl::Status status = Run(path, *files, env.get(), &store, &progress);
  CAPTURE(files->failed(), status.ToString(), progress.begun);
  const bool failed = files->has_failed();
  REQUIRE((failed || status.ok()));
  if (status.ok()) {
    counts->harmless += failed ? 1 : 0;
  } else {
    CHECK(status.message().find(directory.path()) != absl::string_view::npos);
    CHECK(absl::IsResourceExhausted(status) == IsFull(fault));
    ++counts->told;
  }
  if (!status.ok() && IsFull(fault) && store != nullptr) {
    CheckHolds(*store, progress.committed);
    for (int i = 0; fault == Fault::kFull && i < 3; ++i) {
      CHECK(absl::IsResourceExhausted(Make(progress.begun, store.get())));
      CheckHolds(*store, progress.committed);
    }
    // The disk has free space again, and this process continues.
    files->Heal();
    for (progress.begun = progress.committed + 1; progress.begun <= kCheckpoints + 3;
         ++progress.begun) {
      const absl::Status next = Make(progress.begun, store.get());
      INFO(next);
      REQUIRE(next.ok());
      progress.committed = progress.begun;
    }
    --progress.begun;
    CheckHolds(*store, progress.committed);
    ++counts->went_on;
  }
  // A server ends at once after an error of its disk, unless the disk is full. If RocksDB closed the
  // database instead, on a disk that works again, it could remove files that it has taken for
  // obsolete after the error, even the manifest that CURRENT names.
  if (!status.ok() && !IsFull(fault)) files->EndProcess();
  store.reset();
  files->Heal();
  // Unsynced data is lost in one of three runs; in the others only the process ends.
  if (operation % 3 == 1) files->LoseUnsynced();
  CheckLeft(path, progress);
  return failed;
}

void FailEach(Fault fault, uint64_t step) {
  Counts counts;
  uint64_t operation = 1;
  while (FailAt(fault, operation, &counts)) operation += step;
  std::cout << operation << " operations: " << counts.told << " errors, " << counts.harmless
            << " without effect, " << counts.went_on << " after which the store continued\n";
  CHECK(counts.told > 5);
  CHECK((counts.went_on > 5) == IsFull(fault));
}

TEST_CASE("after a disk error the store has the old checkpoint or the new one") {
  // The steps are odd, so that all kinds of operations are hit.
  SECTION("one operation fails") { FailEach(Fault::kError, 23); }
  SECTION("half of an append is written") { FailEach(Fault::kShortWrite, 17); }
  SECTION("all operations fail") { FailEach(Fault::kDead, 31); }
  SECTION("a file cannot be read") { FailEach(Fault::kUnreadable, 3); }
}

TEST_CASE("a store whose disk was full continues when there is free space") {
  SECTION("for one operation") { FailEach(Fault::kNoSpace, 7); }
  SECTION("from one operation on") { FailEach(Fault::kFull, 7); }
  SECTION("at a sync") { FailEach(Fault::kNoSpaceLate, 3); }
}

TEST_CASE("staged records survive when a store is replaced by its copy after a full disk") {
  int copies = 0;
  for (uint64_t operation = 30; operation < 80; ++operation) {
    CAPTURE(operation);
    const TemporaryDirectory directory;
    const std::string path = directory.path() + "/tree";
    const auto files = std::make_shared<ErrorFileSystem>(Fault::kNoSpace, operation);
    const std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(files);
    auto store = RocksRecordStore::Open(path, ScenarioOptions(env.get()));
    if (!store.ok()) continue;
    // The staged records are not installed before the other checkpoints are committed.
    absl::Status staged = (*store)->BeginStaging();
    if (staged.ok()) staged = (*store)->Stage("k", "staged");
    if (staged.ok()) staged = (*store)->FinishStaging(MetadataOf(9));
    if (!staged.ok()) continue;
    for (int64_t number = 1; number <= 2; ++number) {
      while (true) {
        const absl::Status made = Make(number, store->get());
        if (made.ok()) break;
        INFO(made);
        REQUIRE(absl::IsResourceExhausted(made));
      }
      CheckHolds(**store, number);
    }
    copies += std::filesystem::exists(path + "/store.3") ? 1 : 0;
    REQUIRE((*store)->ReplaceByStaged().ok());
    for (int i = 0; i < 2; ++i) {
      INFO(files->failed());
      REQUIRE((*store)->newest() == MetadataOf(9));
      REQUIRE((*ReadAll(**store) == Records{{"k", "staged"}}));
      store->reset();
      store = RocksRecordStore::Open(path, ScenarioOptions(nullptr));
      REQUIRE(store.ok());
    }
  }
  CHECK(copies > 0);
}

TEST_CASE(
    "a store that is opened on a full disk can be read, and continues when there is free space") {
  constexpr int64_t kThere = 5;  // its files are from several checkpoints
  int without_free_space = 0;
  for (uint64_t operation = 1; operation < 12; ++operation) {
    CAPTURE(operation);
    const TemporaryDirectory directory;
    const std::string path = directory.path() + "/tree";
    {
      auto store = RocksRecordStore::Open(path, ScenarioOptions(nullptr));
      REQUIRE(store.ok());
      for (int64_t number = 1; number <= kThere; ++number) REQUIRE(Make(number, store->get()).ok());
      CHECK_FALSE((*store)->waits_for_free_space());
    }
    const auto files = std::make_shared<ErrorFileSystem>(Fault::kFull, operation);
    const std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(files);
    auto opened = RocksRecordStore::Open(path, ScenarioOptions(env.get()));
    INFO(opened.status());
    REQUIRE(opened.ok());
    RocksRecordStore& store = **opened;
    CheckHolds(store, kThere);
    if (!store.waits_for_free_space()) continue;
    ++without_free_space;
    auto view = store.OpenView();
    REQUIRE(view.ok());
    const auto is_locked = [&] {
      const auto other = RocksRecordStore::Open(path, ScenarioOptions(nullptr));
      return absl::IsFailedPrecondition(other.status());
    };
    for (int i = 0; i < 3; ++i) {
      CHECK(is_locked());
      const absl::Status made = store.Commit(MetadataOf(kThere));
      INFO(made);
      CHECK(absl::IsResourceExhausted(made));
      CHECK(store.waits_for_free_space());
      CheckHolds(store, kThere);
    }
    files->Heal();
    // The next checkpoints cause a compaction.
    for (int64_t number = kThere + 1; number <= kThere + 10; ++number) {
      if (IsStaged(number)) continue;
      REQUIRE(store.Write("more", std::to_string(number)).ok());
      REQUIRE(store.Commit(MetadataOf(number)).ok());
    }
    CHECK_FALSE(store.waits_for_free_space());
    CHECK(is_locked());
    // The old view still returns the same records, and closing it removes no file.
    auto read = ReadAll(view->get());
    REQUIRE(read.ok());
    Records& records = *read;
    CHECK((records == RecordsOf(kThere)));
    view->reset();
    records["more"] = std::to_string(kThere + 9);
    for (int i = 0; i < 2; ++i) {
      CHECK((*opened)->newest() == MetadataOf(kThere + 9));
      CHECK((*ReadAll(**opened) == records));
      opened->reset();
      opened = RocksRecordStore::Open(path, ScenarioOptions(nullptr));
      REQUIRE(opened.ok());
    }
  }
  CHECK(without_free_space > 3);
}

TEST_CASE("the same for every operation", "[.all]") {
  for (Fault fault : {Fault::kError, Fault::kShortWrite, Fault::kDead, Fault::kNoSpace,
                      Fault::kFull, Fault::kNoSpaceLate, Fault::kUnreadable}) {
    FailEach(fault, 1);
  }
}

}  // namespace
}  // namespace quorate::tree
