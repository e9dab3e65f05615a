// SPDX-License-Identifier: Apache-2.0

#include "tree/store/load.h"

#include <catch2/catch.hpp>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "tree/testing/tree_test_util.h"

namespace quorate::tree {
namespace {

using Records = std::vector<std::pair<std::string, std::string>>;

// A view of records that a test provides.
class ListView : public RecordStore::View {
 public:
  ListView(const Records* records, RecordStore::Metadata metadata)
      : records_(*records), metadata_(std::move(metadata)) {}

  const RecordStore::Metadata& metadata() const override { return metadata_; }
  absl::StatusOr<bool> Next(size_t bytes_max, const RecordStore::RecordFunction& record) override {
    for (size_t bytes = 0; at_ < records_.size() && (bytes == 0 || bytes < bytes_max); ++at_) {
      if (at_ == fail_at) return absl::InternalError("the disk failed");
      const auto& [key, value] = records_[at_];
      if (absl::Status status = record(key, value); !status.ok()) return status;
      bytes += key.size() + value.size();
    }
    return at_ < records_.size();
  }
  absl::Status SeekBehind(std::string_view key) override {
    at_ = 0;
    while (at_ < records_.size() && records_[at_].first <= key) ++at_;
    return absl::OkStatus();
  }
  absl::Status ReadEvents(const RecordStore::EventsFunction& /*events*/) override {
    return SeekBehind({});
  }
  absl::StatusOr<std::unique_ptr<View>> OpenAnother() const override {
    return std::make_unique<ListView>(&records_, metadata_);
  }

  size_t fail_at = ~size_t{0};

 private:
  const Records& records_;
  const RecordStore::Metadata metadata_;
  size_t at_ = 0;
};

struct Stored {
  explicit Stored(int nodes) {
    const std::string data(100, 'd');
    std::deque<std::string> paths;
    Request request;
    request.multi = true;
    for (int i = 0; i < nodes; ++i) {
      request.ops.push_back(MakeCreate(paths.emplace_back("/n" + std::to_string(i)), data));
    }
    server.OpenSession();
    server.DoRequest(request);
    server.tree().ForEachRecord(
        [this](std::string_view key, std::optional<std::string_view> value) {
          records.emplace_back(key, *value);
        });
    metadata = {server.tree().last_zxid(), server.tree().digest(), "metadata"};
  }

  Server server;
  Records records;
  RecordStore::Metadata metadata;
};

TEST_CASE("a tree is loaded with and without a second thread") {
  const int nodes = GENERATE(0, 1, 20'000);
  const Stored stored(nodes);
  ListView view(&stored.records, stored.metadata);
  uint64_t calls = 0;
  uint64_t last_nodes = 0;
  auto tree = LoadTree(&view, [&](uint64_t so_far, uint64_t in_all) {
    ++calls;
    CHECK(so_far >= last_nodes);
    CHECK(so_far <= stored.server.tree().node_count());
    CHECK((in_all == 0 || in_all == stored.server.tree().node_count()));
    last_nodes = so_far;
  });
  REQUIRE(tree.ok());
  CHECK((*tree)->node_count() == stored.server.tree().node_count());
  CHECK((*tree)->ComputeDigest() == stored.server.tree().digest());
  CHECK((calls > 0) == (nodes == 20'000));
}

TEST_CASE("a bad record is an error, at any place") {
  const int nodes = GENERATE(10, 20'000);
  Stored stored(nodes);
  const size_t at = GENERATE_REF(size_t{1}, stored.records.size() / 2, stored.records.size() - 1);
  SECTION("missing") { stored.records.erase(stored.records.begin() + static_cast<ptrdiff_t>(at)); }
  SECTION("damaged") { stored.records[at].second.resize(5); }
  SECTION("another digest") { stored.metadata.digest ^= 1; }
  ListView view(&stored.records, stored.metadata);
  CHECK(absl::IsDataLoss(LoadTree(&view, nullptr).status()));
}

TEST_CASE("an error of reading is returned") {
  const Stored stored(20'000);
  ListView view(&stored.records, stored.metadata);
  view.fail_at = GENERATE(size_t{0}, size_t{10'000});
  CHECK(absl::IsInternal(LoadTree(&view, nullptr).status()));
}

}  // namespace
}  // namespace quorate::tree
