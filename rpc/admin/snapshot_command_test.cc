// SPDX-License-Identifier: Apache-2.0

#include "rpc/admin/snapshot_command.h"

#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/testing/manual_clock.h"
#include "rpc/zookeeper_files/tree_snapshot.h"
#include "tree/testing/tree_test_util.h"

namespace quorate::rpc::admin {
namespace {

using Records = std::map<std::string, std::string>;

// A view of records in memory. Counts the views that exist.
class RecordsView : public tree::RecordStore::View {
 public:
  RecordsView(Records records, tree::Zxid zxid, int* open)
      : records_(std::move(records)), next_(records_.begin()), open_(open) {
    metadata_.zxid = zxid;
    ++*open_;
  }
  ~RecordsView() override { --*open_; }
  RecordsView(const RecordsView&) = delete;
  RecordsView& operator=(const RecordsView&) = delete;

  const tree::RecordStore::Metadata& metadata() const override { return metadata_; }
  absl::StatusOr<bool> Next(size_t bytes_max,
                            const tree::RecordStore::RecordFunction& record) override {
    for (size_t bytes = 0; next_ != records_.end() && bytes < bytes_max; ++next_) {
      bytes += next_->first.size() + next_->second.size();
      if (absl::Status s = record(next_->first, next_->second); !s.ok()) return s;
    }
    return next_ != records_.end();
  }
  absl::Status SeekBehind(std::string_view key) override {
    next_ = key.empty() ? records_.begin() : records_.upper_bound(std::string(key));
    return absl::OkStatus();
  }
  absl::Status ReadEvents(const tree::RecordStore::EventsFunction&) override {
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<View>> OpenAnother() const override {
    return absl::UnimplementedError("not used");
  }

 private:
  const Records records_;
  tree::RecordStore::Metadata metadata_;
  Records::const_iterator next_;
  int* const open_;
};

class Member : public Administration {
 public:
  ClusterView cluster_view() const override { return {}; }
  void TransferLeadership(consensus::MemberId, std::function<void(absl::Status)>) override {}
  void ChangeMembers(const ServerLines&, consensus::Index,
                     std::function<void(absl::Status)>) override {}
  void Barrier(std::function<void(tree::Zxid)> done) override {
    waiting = std::move(done);
    if (answers) waiting(tree.tree().last_zxid());
  }
  void RequestCheckpoint(tree::Zxid zxid, std::function<void()> done) override {
    CHECK(zxid == tree.tree().last_zxid());
    records.clear();
    tree.tree().ForEachRecord([this](std::string_view key, std::optional<std::string_view> value) {
      records.emplace(key, *value);
    });
    done();
  }
  tree::Zxid checkpoint_zxid() const override { return tree.tree().last_zxid(); }
  absl::StatusOr<CheckpointView> OpenCheckpoint() const override {
    if (is_damaged) return absl::DataLossError("the checkpoint is damaged");
    return CheckpointView{{},
                          std::make_unique<RecordsView>(records, tree.tree().last_zxid(), &open)};
  }

  tree::Server tree;
  Records records;
  bool answers = true;
  bool is_damaged = false;
  std::function<void(tree::Zxid)> waiting;
  mutable int open = 0;
};

struct Fixture {
  explicit Fixture(int znodes = 3) {
    member.tree.OpenSession();
    for (int i = 0; i < znodes; ++i) {
      member.tree.Do(tree::MakeCreate("/n" + std::to_string(i), std::string(100'000, 'x')));
    }
  }
  HttpResponse Run(const std::string& query = "") {
    return command.Run(*ParseRequestTarget("/commands/snapshot" + query));
  }

  Member member;
  ManualClock clock;
  Config config;
  SnapshotCommand command{config, &member, &clock};
};

std::string HeaderOf(const HttpResponse& response, std::string_view name) {
  for (const auto& [key, value] : response.headers) {
    if (key == name) return value;
  }
  return "";
}

// Returns what the tree's snapshot has to be.
std::string Wanted(const Records& records, tree::Zxid zxid) {
  zookeeper_files::SnapshotScan scan;
  for (const auto& [key, value] : records) CHECK(scan.Add(key, value).ok());
  const auto contents = scan.Finish();
  std::string bytes;
  zookeeper_files::SnapshotBuilder builder(contents, zxid, [&bytes](std::string_view piece) {
    bytes += piece;
    return absl::OkStatus();
  });
  CHECK(builder.Begin().ok());
  for (const auto& [key, value] : records) CHECK(builder.Add(key, value).ok());
  CHECK(builder.End().ok());
  return bytes;
}

}  // namespace

TEST_CASE("a snapshot is sent in pieces, of the size that was announced") {
  Fixture f(/*znodes=*/30);
  HttpResponse response = f.Run();
  REQUIRE(response.stream != nullptr);
  CHECK(response.status == 200);
  CHECK(response.content_type == "application/octet-stream");
  std::string bytes;
  while (bytes.size() < response.stream->size()) {
    std::string piece;
    REQUIRE(response.stream->Next(&piece).ok());
    REQUIRE_FALSE(piece.empty());
    CHECK(piece.size() < 1'000'000);
    bytes += piece;
  }
  CHECK(bytes.size() == response.stream->size());
  CHECK(HeaderOf(response, "snapshot_size") == std::to_string(bytes.size()));
  const tree::Zxid zxid = f.member.tree.tree().last_zxid();
  CHECK(HeaderOf(response, "last_zxid") == "0x1f");
  CHECK(zxid == tree::Zxid(0x1f));
  CHECK(bytes == Wanted(f.member.records, zxid));
  CHECK(f.member.open == 1);
  response.stream.reset();
  CHECK(f.member.open == 0);
}

TEST_CASE("the pieces of a snapshot are small where the paths are long") {
  Fixture f(/*znodes=*/0);
  const std::string parent = "/" + std::string(100'000, 'p');
  f.member.tree.Do(tree::MakeCreate(parent, ""));
  for (int i = 0; i < 100; ++i) {
    f.member.tree.Do(tree::MakeCreate(parent + "/" + std::to_string(i), ""));
  }
  const HttpResponse response = f.Run();
  REQUIRE(response.stream != nullptr);
  std::string bytes;
  while (bytes.size() < response.stream->size()) {
    std::string piece;
    REQUIRE(response.stream->Next(&piece).ok());
    REQUIRE_FALSE(piece.empty());
    CHECK(piece.size() < (256u << 10) + 101'000);
    bytes += piece;
  }
  CHECK(bytes.size() > 10'000'000);
  CHECK(bytes == Wanted(f.member.records, f.member.tree.tree().last_zxid()));
}

TEST_CASE("without streaming, the headers tell what the snapshot would be") {
  Fixture f;
  const HttpResponse response = f.Run("?streaming=false");
  CHECK(response.stream == nullptr);
  CHECK(response.body == "{\n  \"command\" : \"snapshot\",\n  \"error\" : null\n}");
  CHECK(HeaderOf(response, "last_zxid") == "0x4");
  CHECK(HeaderOf(response, "snapshot_size") ==
        std::to_string(Wanted(f.member.records, tree::Zxid(4)).size()));
  CHECK(f.member.open == 0);
  CHECK(f.Run("?streaming=maybe").status == 400);
}

TEST_CASE("one snapshot runs at a time, and one in the interval") {
  Fixture f;
  HttpResponse first = f.Run();
  REQUIRE(first.stream != nullptr);
  f.clock.Advance(300'000);
  const HttpResponse second = f.Run();
  CHECK(second.status == 429);
  CHECK(HeaderOf(second, "Retry-After") == "60");
  // As if its client were gone, or had sent HEAD: the next one need not wait.
  first.stream.reset();
  CHECK(f.Run().status == 200);
  HttpResponse whole = f.Run();
  REQUIRE(whole.stream != nullptr);
  whole.stream->OnSent();
  whole.stream.reset();
  f.clock.Advance(299'000);
  const HttpResponse early = f.Run();
  CHECK(early.status == 429);
  CHECK(HeaderOf(early, "Retry-After") == "1");
  f.clock.Advance(1'000);
  CHECK(f.Run().status == 200);
  f.config.admin_snapshot_interval_ms = 0;
  CHECK(f.Run().status == 200);
}

TEST_CASE("a snapshot that failed does not delay the next one") {
  Fixture f;
  f.member.is_damaged = true;
  const HttpResponse damaged = f.Run();
  CHECK(damaged.status == 500);
  CHECK(damaged.body.find("the checkpoint is damaged") != std::string::npos);
  f.member.is_damaged = false;
  CHECK(f.Run().status == 200);
}

TEST_CASE("a snapshot can be switched off") {
  Fixture f;
  f.config.admin_snapshot = false;
  CHECK(f.Run().status == 503);
}

TEST_CASE("a snapshot that waits for the cluster ends when the server stops") {
  Fixture f;
  f.member.answers = false;
  HttpResponse response;
  std::thread thread([&] { response = f.Run(); });
  f.command.Close();
  thread.join();
  CHECK(response.status == 503);
  // The confirmation of an earlier wait comes too late, and must not end a later one.
  f.member.waiting(f.member.tree.tree().last_zxid());
  CHECK(f.Run().status == 503);
}

TEST_CASE("a stream ends with an error when the server stops") {
  Fixture f(/*znodes=*/30);
  const HttpResponse response = f.Run();
  REQUIRE(response.stream != nullptr);
  std::string piece;
  CHECK(response.stream->Next(&piece).ok());
  f.command.Close();
  piece.clear();
  CHECK_FALSE(response.stream->Next(&piece).ok());
}

TEST_CASE("a restore is refused with the ways that there are") {
  const HttpResponse response = SnapshotCommand::RefuseRestore();
  CHECK(response.status == 501);
  CHECK(response.body.find("quorate import --zookeeper-data") != std::string::npos);
  CHECK(response.body.find("quorate restore") != std::string::npos);
}

}  // namespace quorate::rpc::admin
