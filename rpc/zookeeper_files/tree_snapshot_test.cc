// SPDX-License-Identifier: Apache-2.0

#include "rpc/zookeeper_files/tree_snapshot.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "base/bytes.h"
#include "rpc/zookeeper_files/checksum.h"
#include "tree/testing/tree_test_util.h"

namespace quorate::zookeeper_files {
namespace {

using tree::Server;

// The snapshot of a tree, and its largest piece.
struct Made {
  std::string bytes;
  size_t piece_max = 0;
  SnapshotContents contents;
};

Made Make(const tree::Tree& tree) {
  SnapshotScan scan;
  tree.ForEachRecord([&](std::string_view key, std::optional<std::string_view> value) {
    REQUIRE(scan.Add(key, *value).ok());
  });
  Made made;
  made.contents = scan.Finish();
  SnapshotBuilder builder(made.contents, tree.last_zxid(), [&](std::string_view bytes) {
    made.bytes += bytes;
    made.piece_max = std::max(made.piece_max, bytes.size());
    return absl::OkStatus();
  });
  REQUIRE(builder.Begin().ok());
  tree.ForEachRecord([&](std::string_view key, std::optional<std::string_view> value) {
    REQUIRE(builder.Add(key, *value).ok());
  });
  REQUIRE(builder.End().ok());
  return made;
}

}  // namespace

TEST_CASE("a snapshot has the size that the scan has found, and comes in pieces") {
  Server server;
  server.OpenSession();
  const std::string data(100'000, 'x');
  for (int i = 0; i < 20; ++i) {
    server.Do(tree::MakeCreate("/n" + std::to_string(i), data, tree::CreateMode::kPersistent,
                               {tree::MakeAcl(i % 3 + 1, "digest", "u:hash")}));
  }
  server.Do(tree::MakeCreate("/below", "y", tree::CreateMode::kEphemeral));
  const Made made = Make(server.tree());
  CHECK(made.bytes.size() == made.contents.bytes);
  CHECK(made.piece_max < SnapshotWriter::kPieceBytes + data.size() + 1000);
  CHECK(made.contents.lists.size() == 4);  // with that of /zookeeper/config
  CHECK(made.contents.sessions.size() == 1);
  CHECK(made.contents.ephemerals == 1);
  CHECK(made.contents.nodes == server.tree().node_count());
}

TEST_CASE("a snapshot ends with its digest and its last zxid, each with a checksum of all before") {
  Server server;
  server.OpenSession();
  server.Do(tree::MakeCreate("/a", "x"));
  const std::string bytes = Make(server.tree()).bytes;
  for (const size_t behind : {size_t{0}, size_t{21}, size_t{54}}) {
    const std::string_view part = std::string_view(bytes).substr(0, bytes.size() - behind);
    BigEndianReader seal(part.substr(part.size() - 13));
    CHECK(seal.Int<uint64_t>() == Adler32(part.substr(0, part.size() - 13)));
    CHECK(part.substr(part.size() - 5) == std::string_view("\0\0\0\1/", 5));
  }
  BigEndianReader zxid(std::string_view(bytes).substr(bytes.size() - 21));
  CHECK(zxid.Int<int64_t>() == server.tree().last_zxid().value());
}

TEST_CASE("a tree without a usable zxid has no snapshot") {
  CHECK(absl::IsFailedPrecondition(CheckLastZxid(tree::Zxid(0))));
  CHECK(CheckLastZxid(tree::Zxid(1)).ok());
  CHECK(CheckLastZxid(tree::Zxid(0x7ffffffdffffffff)).ok());
  CHECK(absl::IsFailedPrecondition(CheckLastZxid(tree::Zxid(0x7ffffffe00000000))));
}

}  // namespace quorate::zookeeper_files
