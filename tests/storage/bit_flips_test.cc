// SPDX-License-Identifier: Apache-2.0

// Flips one bit of a member's files, in every file and at many places, and starts the member: it
// either refuses to start with an error that names the file, or starts with exactly the same state
// as before.
//
//   bazel run //tests/storage:bit_flips_test -- '[all]'    every byte of every file
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "consensus/core/membership.h"
#include "consensus/log/data_dir.h"
#include "consensus/log/env.h"
#include "rpc/config/config.h"
#include "rpc/member/disk/incarnation.h"
#include "tree/store/rocks_record_store.h"

namespace quorate {
namespace {

namespace fs = std::filesystem;
using consensus::DataDir;
using consensus::Entry;
using consensus::EntryKind;
using consensus::Env;
using consensus::Index;
using consensus::Term;
using tree::RecordStore;
using tree::RocksRecordStore;
using Records = std::map<std::string, std::string>;

constexpr uint64_t kSegmentBytes = 8192;
constexpr uint64_t kCheckpointEntries = 40;
constexpr uint64_t kCheckpoints = 12;
constexpr uint64_t kBase = 420;     // the log is compacted up to about here
constexpr uint64_t kDurable = 496;  // the durable mark
constexpr uint64_t kLast = 500;
constexpr uint64_t kIncarnation = 1000;

Term TermOf(uint64_t index) { return Term{1 + index / 100}; }

Entry EntryOf(uint64_t index) {
  std::string payload = "entry " + std::to_string(index);
  payload.resize(payload.size() + index * 37 % 300, 'e');
  return {Index{index}, TermOf(index), EntryKind::kCommand, Slice(payload)};
}

std::vector<Entry> EntriesOf(uint64_t first, uint64_t last) {
  std::vector<Entry> entries;
  for (uint64_t index = first; index <= last; ++index) entries.push_back(EntryOf(index));
  return entries;
}

std::string RecordKey(uint64_t index) { return "key " + std::to_string(index % 70); }
std::string RecordValue(uint64_t index) {
  return std::string(index % 150, 'r') + std::to_string(index);
}

Records RecordsOf(uint64_t index) {
  Records records;
  for (uint64_t i = 1; i <= index; ++i) records[RecordKey(i)] = RecordValue(i);
  return records;
}

RecordStore::Metadata MetadataOf(uint64_t index) {
  consensus::SnapshotMeta meta;
  meta.index = Index{index};
  meta.term = TermOf(index);
  meta.membership.voters = {consensus::MemberId{1}, consensus::MemberId{2}, consensus::MemberId{3}};
  return {tree::Zxid(static_cast<int64_t>(index)), index * 7, consensus::EncodeSnapshotMeta(meta)};
}

// The state of a member at its start.
struct Whole {
  consensus::HardState hard_state;
  std::string cluster_id;
  uint64_t directory_epoch = 0;
  Index base;
  std::vector<Entry> entries;
  std::optional<RecordStore::Metadata> metadata;
  Records records;
};

template <class T>
T Require(absl::StatusOr<T> value) {
  INFO(value.status());
  REQUIRE(value.ok());
  return *std::move(value);
}
void Require(const absl::Status& status) {
  INFO(status);
  REQUIRE(status.ok());
}

std::string ConfigPath(const std::string& dir) { return dir + "/zoo.cfg"; }
std::string StorePath(const std::string& dir) { return dir + "/checkpoints"; }

absl::Status ReadLog(DataDir* data_dir, Whole* whole) {
  consensus::SegmentLog& log = data_dir->log();
  for (Index next = log.first_index(); next <= log.last_index();) {
    auto entries = log.Read(next, log.last_index(), 1000);
    if (!entries.ok()) return entries.status();
    next = entries->back().index + 1;
    for (Entry& entry : *entries) whole->entries.push_back(std::move(entry));
  }
  return absl::OkStatus();
}

absl::Status ReadStore(const RecordStore& store, Whole* whole) {
  whole->metadata = store.newest();
  if (!whole->metadata.has_value()) return absl::OkStatus();
  auto view = store.OpenView();
  if (!view.ok()) return view.status();
  for (bool more = true; more;) {
    auto next = (*view)->Next(1000, [&](std::string_view key, std::string_view value) {
      whole->records.emplace(key, value);
      return absl::OkStatus();
    });
    if (!next.ok()) return next.status();
    more = *next;
  }
  return absl::OkStatus();
}

// Starts as quorated does, and reads everything.
absl::StatusOr<Whole> Start(const std::string& dir) {
  auto config = rpc::LoadConfig(ConfigPath(dir));
  if (!config.ok()) return config.status();
  auto data_dir = DataDir::Open(Env::Posix(), config->log_dir, consensus::MemberId(config->my_id),
                                {.segment_bytes = kSegmentBytes}, /*directory_epoch_if_new=*/77);
  if (!data_dir.ok()) return data_dir.status();
  auto store = RocksRecordStore::Open(StorePath(dir));
  if (!store.ok()) return store.status();
  auto incarnation =
      rpc::NextIncarnation(Env::Posix(), config->log_dir, static_cast<int64_t>(kIncarnation + 1));
  if (!incarnation.ok()) return incarnation.status();
  REQUIRE(*incarnation > kIncarnation);
  Whole whole;
  if (absl::Status s = ReadStore(**store, &whole); !s.ok()) return s;
  Index index{0};
  Term term{0};
  if (whole.metadata.has_value()) {
    auto meta = consensus::DecodeSnapshotMeta(whole.metadata->caller_data);
    if (!meta.ok()) return meta.status();
    index = meta->index;
    term = meta->term;
  }
  if (absl::Status s = (*data_dir)->AlignLog(index, term); !s.ok()) return (*store)->WithOrigin(s);
  if (absl::Status s = ReadLog(data_dir->get(), &whole); !s.ok()) return s;
  whole.hard_state = (*data_dir)->hard_state();
  whole.cluster_id = (*data_dir)->cluster_id();
  whole.directory_epoch = (*data_dir)->directory_epoch();
  whole.base = (*data_dir)->log().base_index();
  return whole;
}

void WriteFile(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

void MakeDirectory(const std::string& dir) {
  fs::create_directory(dir);
  WriteFile(ConfigPath(dir),
            "dataDir=" + dir + "\nclientPort=1\nserver.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\n");
  WriteFile(dir + "/myid", "2\n");
  auto data_dir =
      Require(DataDir::Open(Env::Posix(), dir, consensus::MemberId{2},
                            {.segment_bytes = kSegmentBytes}, /*directory_epoch_if_new=*/9));
  Require(data_dir->SetClusterId(std::string(consensus::kClusterIdBytes, 'c')));
  auto store = Require(RocksRecordStore::Open(StorePath(dir)));
  Require(rpc::SaveIncarnation(Env::Posix(), dir, kIncarnation));
  for (uint64_t i = 1; i <= kCheckpoints; ++i) {
    const uint64_t begin = (i - 1) * kCheckpointEntries + 1;
    const uint64_t end = i * kCheckpointEntries;
    Require(data_dir->log().Append(EntriesOf(begin, end)));
    Require(data_dir->log().Sync());
    for (uint64_t index = begin; index <= end; ++index) {
      Require(store->Write(RecordKey(index), RecordValue(index)));
    }
    Require(store->Commit(MetadataOf(end)));
  }
  Require(data_dir->log().Append(EntriesOf(kCheckpoints * kCheckpointEntries + 1, kDurable)));
  Require(data_dir->log().Sync());
  Require(data_dir->log().CompactTo(Index{kBase}));
  Require(data_dir->log().DoChores());
  Require(data_dir->log().Sync());
  Require(data_dir->log().MakeBallast());
  const consensus::HardState state{TermOf(kLast), consensus::MemberId{3}, Index{kDurable},
                                   consensus::MemberState::kNormal};
  Require(data_dir->WriteHardState(state, Index{kDurable}));
  Require(data_dir->log().Append(EntriesOf(kDurable + 1, kLast)));
  Require(data_dir->log().Sync());
}

// The outcomes of the flips.
struct Counts {
  uint64_t refused = 0;           // refused with an error that names the file
  uint64_t same = 0;              // started with the same state
  uint64_t older_checkpoint = 0;  // started from an older checkpoint and more log, with the same
                                  // state in the end
  uint64_t all() const { return refused + same + older_checkpoint; }
};

std::ostream& operator<<(std::ostream& out, const Counts& c) {
  return out << c.all() << " bits: " << c.refused << " refused, " << c.same << " without effect, "
             << c.older_checkpoint << " an older checkpoint";
}

bool SameEntries(const std::vector<Entry>& a, const std::vector<Entry>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Entry& x, const Entry& y) {
    return x.index == y.index && x.term == y.term && x.kind == y.kind &&
           x.payload.view() == y.payload.view();
  });
}

void CheckFound(const absl::StatusOr<Whole>& found, const Whole& whole, const std::string& file,
                Counts* counts) {
  if (!found.ok()) {
    const std::string message(found.status().message());
    INFO(message);
    // A message about the number of the member may name myid without its directory.
    const bool is_number = file.ends_with("/myid");
    CHECK(message.find(is_number ? "myid" : file) != std::string::npos);
    ++counts->refused;
    return;
  }
  CHECK(found->hard_state == whole.hard_state);
  CHECK(found->cluster_id == whole.cluster_id);
  CHECK(found->directory_epoch == whole.directory_epoch);
  CHECK(found->base == whole.base);
  REQUIRE(found->metadata.has_value());
  const auto zxid = static_cast<uint64_t>(found->metadata->zxid.value());
  CHECK(found->metadata == MetadataOf(zxid));
  CHECK(found->records == RecordsOf(zxid));
  CHECK(SameEntries(found->entries, whole.entries));
  if (found->metadata != whole.metadata) {
    ++counts->older_checkpoint;
  } else {
    ++counts->same;
  }
}

bool IsData(const std::string& name) {
  return name != "zoo.cfg" && name != "LOCK" && name.rfind("LOG", 0) != 0;
}

class Flips {
 public:
  Flips() {
    const char* base = std::getenv("TEST_TMPDIR");
    root_ = std::string(base != nullptr ? base : "/tmp") + "/flips-XXXXXX";
    REQUIRE(mkdtemp(root_.data()) != nullptr);
    // All runs use the same directory, because the configuration contains its path.
    dir_ = root_ + "/member";
    MakeDirectory(dir_);
    fs::rename(dir_, root_ + "/original");
    Restore();
    whole_ = Require(Start(dir_));
    REQUIRE(whole_.metadata == MetadataOf(kCheckpoints * kCheckpointEntries));
    REQUIRE(whole_.base > Index{300});
    REQUIRE(whole_.entries.back().index == Index{kLast});
    Restore();
  }
  ~Flips() { fs::remove_all(root_); }

  // Flips one bit of each `step`th byte, and all bits of each byte whose offset is a multiple of
  // `all_step`.
  void Run(uint64_t step, uint64_t all_step) {
    std::map<std::string, Counts> by_kind;
    for (const auto& entry : fs::recursive_directory_iterator(root_ + "/original")) {
      const std::string name = entry.path().filename();
      if (!entry.is_regular_file() || !IsData(name)) continue;
      const std::string below = fs::relative(entry.path(), root_ + "/original");
      Counts& counts = by_kind[KindOf(name)];
      const uint64_t size = entry.file_size();
      const uint64_t begin = size < step ? 0 : random_() % step;
      for (uint64_t at = begin; at < size; at += size < 64 ? 1 : step) {
        const bool all = at % all_step == 0;
        for (unsigned bit = all ? 0 : random_() % 8; bit < 8; bit += all ? 1 : 8) {
          Flip(below, at, bit, &counts);
        }
      }
    }
    for (const auto& [kind, counts] : by_kind) std::cout << kind << ": " << counts << "\n";
    CHECK(by_kind.at("identity").refused > 0);
    CHECK(by_kind.at("log").refused > 0);
    CHECK(by_kind.at("sst").refused > 0);
    CHECK(by_kind.at("MANIFEST").refused > 0);
    CHECK(by_kind.at("current").refused > 0);
    CHECK(by_kind.at("hard_state").same > 0);
    CHECK(by_kind.at("spare").same == by_kind.at("spare").all());
  }

 private:
  static std::string KindOf(const std::string& name) {
    if (name.ends_with(".sst")) return "sst";
    if (name.ends_with(".first.log")) return "log";
    if (name.ends_with(".log")) return name.size() > 20 ? "log" : "write-ahead log";
    return name.substr(0, name.find('-'));
  }

  void Restore() {
    fs::remove_all(dir_);
    fs::copy(root_ + "/original", dir_, fs::copy_options::recursive);
  }

  void Flip(const std::string& below, uint64_t at, unsigned bit, Counts* counts) {
    Restore();
    const std::string path = dir_ + "/" + below;
    {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(static_cast<std::streamoff>(at));
      const int byte = file.get();
      file.seekp(static_cast<std::streamoff>(at));
      file.put(static_cast<char>(byte ^ (1 << bit)));
    }
    CAPTURE(below, at, bit);
    CheckFound(Start(dir_), whole_, path, counts);
  }

  std::string root_;
  std::string dir_;
  Whole whole_;
  std::mt19937_64 random_{42};
};

TEST_CASE("a flipped bit is found at the start, or changes nothing") {
  Flips().Run(/*step=*/211, /*all_step=*/1009);
}

TEST_CASE("a flipped bit of any byte is found at the start, or changes nothing", "[.all]") {
  Flips().Run(/*step=*/1, /*all_step=*/64);
}

}  // namespace
}  // namespace quorate
