// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <functional>
#include <future>
#include <thread>

#include "absl/strings/str_cat.h"
#include "consensus/log/segment_log.h"
#include "consensus/log/testing/fault_env.h"
#include "consensus/log/testing/log_test_util.h"
#include "consensus/log/testing/segment_log_test_util.h"

namespace quorate::consensus {
namespace {

// An Env that calls hooks of the test before operations on files.
class HookedEnv : public Env {
 public:
  explicit HookedEnv(Env* env) : env_(*env) {}
  std::function<void()> before_read;
  std::function<void(const std::string&)> before_open;
  std::function<void(const std::string&)> before_remove;
  // Whether syncs are passed on to the disk. Tests of threads need not wait for a disk.
  bool syncs = true;
  mutable std::atomic<int> open_files = 0;

  absl::StatusOr<std::unique_ptr<File>> OpenFile(const std::string& path, bool create) override {
    if (before_open) before_open(path);
    auto file = env_.OpenFile(path, create);
    if (!file.ok()) return file.status();
    return std::make_unique<HookedFile>(*this, *std::move(file));
  }
  absl::Status CreateDirectories(const std::string& path) override {
    return env_.CreateDirectories(path);
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    return env_.List(path);
  }
  bool Exists(const std::string& path) override { return env_.Exists(path); }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return env_.Rename(from, to);
  }
  absl::Status Remove(const std::string& path) override {
    if (before_remove) before_remove(path);
    return env_.Remove(path);
  }
  absl::Status SyncDirectory(const std::string& path) override {
    return syncs ? env_.SyncDirectory(path) : absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<DirectoryLock>> LockDirectory(const std::string& path) override {
    return env_.LockDirectory(path);
  }

 private:
  class HookedFile : public File {
   public:
    HookedFile(const HookedEnv& env, std::unique_ptr<File> file)
        : env_(env), file_(std::move(file)) {
      ++env_.open_files;
    }
    ~HookedFile() override { --env_.open_files; }
    absl::Status WriteAt(uint64_t offset, std::span<const std::string_view> pieces) override {
      return file_->WriteAt(offset, pieces);
    }
    absl::StatusOr<size_t> ReadAt(uint64_t offset, size_t size, char* to) const override {
      if (env_.before_read) env_.before_read();
      return file_->ReadAt(offset, size, to);
    }
    absl::Status Preallocate(uint64_t size) override { return file_->Preallocate(size); }
    absl::Status Truncate(uint64_t size) override { return file_->Truncate(size); }
    absl::Status Sync() override { return env_.syncs ? file_->Sync() : absl::OkStatus(); }
    absl::StatusOr<uint64_t> Size() const override { return file_->Size(); }

   private:
    const HookedEnv& env_;
    const std::unique_ptr<File> file_;
  };

  Env& env_;
};

TEST_CASE("a read whose entries are truncated meanwhile returns those that stay") {
  FaultEnv disk;
  HookedEnv env(&disk);
  auto log = Open(&env);
  AppendSynced(log.get(), TestEntries(1, 30, 1, 100));
  env.before_read = [&] {
    env.before_read = nullptr;
    Require(log->TruncateAfter(Index{4}));
  };
  SECTION("the first one among them") {
    CHECK(Require(log->Read(Index{2}, Index{9}, 10000)) == TestEntries(2, 4, 1, 100));
  }
  SECTION("the first one not") {
    CHECK(absl::IsOutOfRange(log->Read(Index{6}, Index{9}, 10000).status()));
  }
  AppendSynced(log.get(), TestEntries(5, 6, 2, 100));
  CHECK(log->last_index() == Index{6});
}

TEST_CASE("a read whose entries are dropped meanwhile returns them, or says that they are gone") {
  FaultEnv disk;
  HookedEnv env(&disk);
  auto log = Require(SegmentLog::Open(&env, kPath, {kSmall.segment_bytes, 1}, kUnknown));
  AppendSynced(log.get(), TestEntries(1, 40, 1, 100));
  auto drop = [&] {
    env.before_read = nullptr;
    env.before_open = nullptr;
    // This runs in another thread, because this one holds the lock under which files are opened.
    std::thread([&] {
      if (log->last_index() == Index{40}) Require(log->Reset(Index{100}, Term{2}));
    }).join();
  };
  SECTION("the file was open already") {
    env.before_read = drop;
    CHECK(Require(log->Read(Index{15}, Index{16}, 10000)) == TestEntries(15, 16, 1, 100));
  }
  SECTION("the file was to be opened again") {
    Require(log->Read(Index{1}, Index{1}, 1));  // closes the others
    env.before_read = drop;                     // while the first of two segments is read
    CHECK(absl::IsOutOfRange(log->Read(Index{11}, Index{40}, 10000).status()));
  }
  CHECK(log->base_index() == Index{100});
}

TEST_CASE("a file that is removed is not opened again by a reader that had found it before") {
  FaultEnv disk;
  HookedEnv env(&disk);
  auto log = Require(SegmentLog::Open(&env, kPath, {kSmall.segment_bytes, 2}, kUnknown));
  AppendSynced(log.get(), TestEntries(1, 40, 1, 100));
  Require(log->Read(Index{39}, Index{40}, 1));  // only the last two segments are open
  std::promise<void> planned;
  std::promise<void> removing;
  std::atomic<bool> first_read = true;
  absl::Status status;
  // The reader has found the first three segments, and reads the first one.
  env.before_read = [&] {
    if (!first_read.exchange(false)) return;
    planned.set_value();
    removing.get_future().wait();
  };
  std::thread reader([&] { status = log->Read(Index{1}, Index{33}, 100'000).status(); });
  planned.get_future().wait();
  Require(log->CompactTo(Index{33}));
  int removed = 0;
  env.before_remove = [&](const std::string&) {
    if (++removed != 2) return;
    // The next segment is no longer open, but its file still exists.
    removing.set_value();
    reader.join();
  };
  Require(log->DoChores());
  CHECK(removed == 3);
  CHECK(absl::IsOutOfRange(status));
  CHECK(env.open_files == 1);
}

TEST_CASE("however many segments there are, few files are open") {
  FaultEnv disk;
  HookedEnv env(&disk);
  constexpr SegmentLogOptions kFew{kSmall.segment_bytes, 8};
  auto log = Require(SegmentLog::Open(&env, kPath, kFew, kUnknown));
  int most = 0;
  auto note = [&] { most = std::max(most, env.open_files.load()); };
  for (uint64_t i = 1; i <= 1100; ++i) {
    AppendSynced(log.get(), {TestEntry(i, 1, 100)});
    note();
  }
  env.before_open = [&](const std::string&) { note(); };
  env.before_read = note;
  CHECK(SegmentFiles(&disk, kPath).size() == 100);
  for (int round = 0; round < 2; ++round) {
    CHECK(ReadAll(*log) == TestEntries(1, 1100, 1, 100));
    for (uint64_t i = 1; i <= 2000; ++i) {
      const uint64_t index = i * 7919 % 1100 + 1;
      REQUIRE(Require(log->Read(Index{index}, Index{index}, 1)).front() ==
              TestEntry(index, 1, 100));
    }
    CHECK(most <= 10);
    log.reset();
    CHECK(env.open_files == 0);
    log = Require(SegmentLog::Open(&env, kPath, kFew, Index{1100}));
    CHECK(most <= 10);
  }
  Require(log->CompactTo(Index{1000}));
  Require(log->DoChores());
  Require(log->TruncateAfter(Index{1050}));
  CHECK(ReadAll(*log) == TestEntries(991, 1050, 1, 100));
  CHECK(env.open_files <= 9);
}

TEST_CASE("reads run beside compactions and resets") {
  const char* temporary = std::getenv("TEST_TMPDIR");
  REQUIRE(temporary != nullptr);
  const std::string path = absl::StrCat(temporary, "/compacting");
  HookedEnv env(Env::Posix());
  env.syncs = false;
  // With so few open files, readers reopen files all the time.
  auto log = Require(SegmentLog::Open(&env, path, {kSegmentHeaderBytes + 3000, 2}, kUnknown));
  AppendSynced(log.get(), TestEntries(1, 200, 1, 100));
  std::atomic<uint64_t> durable{200};
  std::atomic<bool> stop{false};
  std::atomic<int> failures{0};
  std::atomic<int> reads{0};
  auto reader = [&](uint64_t seed) {
    while (!stop) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      const uint64_t last = durable;
      const uint64_t first = last - (seed >> 33) % std::min<uint64_t>(last, 300);
      auto entries = log->Read(Index{first}, Index{first + 50}, (seed >> 20) % 5000);
      if (!entries.ok()) {
        // OutOfRange is correct only for entries that have been dropped meanwhile.
        if (!absl::IsOutOfRange(entries.status()) || Index{first} > log->base_index()) ++failures;
        continue;
      }
      for (const Entry& entry : *entries) {
        if (entry != TestEntry(entry.index.value(), 1, 100)) ++failures;
      }
      ++reads;
    }
  };
  std::thread one(reader, 1);
  std::thread two(reader, 2);
  for (int round = 0; round < 200 || reads < 100; ++round) {
    const uint64_t next = log->last_index().value() + 1;
    AppendSynced(log.get(), TestEntries(next, next + 20, 1, 100));
    durable = next + 20;
    if (round % 50 == 49) {
      Require(log->Reset(Index{next + 300}, Term{1}));
      AppendSynced(log.get(), TestEntries(next + 301, next + 310, 1, 100));
      durable = next + 310;
    } else if (round % 3 == 0) {
      Require(log->CompactTo(Index{next - std::min<uint64_t>(next, next / 8 % 100)}));
      Require(log->DoChores());
    }
    if (failures > 0) break;
  }
  stop = true;
  one.join();
  two.join();
  CHECK(failures == 0);
  const Index last = log->last_index();
  const Index first = log->first_index();
  log.reset();
  log = Require(SegmentLog::Open(&env, path, {1u << 20}, last));
  CHECK(log->first_index() == first);
  CHECK(ReadAll(*log) == TestEntries(first.value(), last.value(), 1, 100));
}

TEST_CASE("reads run beside appends, syncs and truncations") {
  const char* temporary = std::getenv("TEST_TMPDIR");
  REQUIRE(temporary != nullptr);
  const std::string path = absl::StrCat(temporary, "/concurrent");
  HookedEnv env(Env::Posix());
  env.syncs = false;
  auto log = Require(SegmentLog::Open(&env, path, {kSegmentHeaderBytes + 20000}, kUnknown));
  constexpr uint64_t kStable = 100;  // never truncated
  AppendSynced(log.get(), TestEntries(1, kStable, 1, 100));
  std::atomic<uint64_t> durable{kStable};
  std::atomic<bool> stop{false};
  std::atomic<int> failures{0};
  std::atomic<int> reads{0};
  auto reader = [&](uint64_t seed) {
    while (!stop) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      const uint64_t first = 1 + (seed >> 33) % durable;
      auto entries = log->Read(Index{first}, Index{first + 50}, (seed >> 20) % 5000);
      // Entries above kStable may have been truncated meanwhile.
      if (!entries.ok() && first > kStable && absl::IsOutOfRange(entries.status())) continue;
      if (!entries.ok()) {
        ++failures;
        return;
      }
      for (const Entry& entry : *entries) {
        if (entry != TestEntry(entry.index.value(), entry.term.value(), 100)) ++failures;
      }
      ++reads;
    }
  };
  std::thread one(reader, 1);
  std::thread two(reader, 2);
  uint64_t term = 1;
  for (int round = 0; round < 150; ++round) {
    if (round % 10 == 9) {
      const uint64_t keep = kStable + static_cast<uint64_t>(round) % 7 * 11;
      ++term;
      if (keep < log->last_index().value()) {
        durable = keep;
        Require(log->TruncateAfter(Index{keep}));
      }
    }
    const uint64_t next = log->last_index().value() + 1;
    AppendSynced(log.get(), TestEntries(next, next + 20, term, 100));
    durable = next + 20;
  }
  while (reads < 100 && failures == 0) std::this_thread::yield();
  stop = true;
  one.join();
  two.join();
  CHECK(failures == 0);
  const Index last = log->last_index();
  log.reset();
  CHECK(Require(SegmentLog::Open(&env, path, {1u << 20}, last))->last_index() == last);
}

}  // namespace
}  // namespace quorate::consensus
