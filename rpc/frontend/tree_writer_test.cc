// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/tree_writer.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "rpc/frontend/testing/fake_service.h"

namespace quorate::rpc {
namespace {

tree::Op Make(tree::OpKind kind, std::string_view path, std::string_view data = "") {
  tree::Op op;
  op.kind = kind;
  op.path = path;
  op.has_data = true;
  op.data = data;
  if (kind == tree::OpKind::kCreate) op.acl = tree::OpenAcl();
  return op;
}

class Fixture {
 public:
  Fixture() { service.current.leader_known = service.current.in_touch = true; }

  absl::Status Write(tree::Op op, bool applies = true) {
    const absl::Status begun = writer.Write(
        std::move(op), identities, [this](const absl::StatusOr<tree::OpResult>& result) {
          outcomes.push_back(result.ok() ? std::string(tree::ToString(result->error))
                                         : absl::StatusCodeToString(result.status().code()));
        });
    if (begun.ok() && applies) service.Apply(&writer);
    return begun;
  }

  FakeService service;
  Config config = TestConfig();
  TreeWriter writer{config, &service, kWriterTags};
  ClientIdentities identities{config, "10.0.0.1"};
  std::vector<std::string> outcomes;
};

TEST_CASE("a write is applied with the identities of its caller, and checked against the lists") {
  Fixture f;
  tree::Op op = Make(tree::OpKind::kCreate, "/a", "x");
  op.acl = {{tree::permission::kAll, {"ip", "10.0.0.2"}}};
  REQUIRE(f.Write(op).ok());
  REQUIRE(f.Write(Make(tree::OpKind::kSetData, "/a", "y")).ok());
  op.path = "/b";
  op.acl = {{tree::permission::kAll, {"ip", "10.0.0.1"}}};
  REQUIRE(f.Write(op).ok());
  REQUIRE(f.Write(Make(tree::OpKind::kSetData, "/b", "y")).ok());
  const std::string ok(tree::ToString(tree::ErrorCode::kOk));
  CHECK(f.outcomes == std::vector<std::string>{
                          ok, std::string(tree::ToString(tree::ErrorCode::kNoAuth)), ok, ok});
}

TEST_CASE("a write with another version changes nothing") {
  Fixture f;
  REQUIRE(f.Write(Make(tree::OpKind::kCreate, "/a", "x")).ok());
  tree::Op op = Make(tree::OpKind::kSetData, "/a", "y");
  op.version = 1;
  REQUIRE(f.Write(op).ok());
  CHECK(f.outcomes.back() == tree::ToString(tree::ErrorCode::kBadVersion));
  op.version = 0;
  REQUIRE(f.Write(op).ok());
  CHECK(f.outcomes.back() == tree::ToString(tree::ErrorCode::kOk));
}

TEST_CASE("a server that cannot write soon, or has no space, submits nothing") {
  Fixture f;
  const tree::Op create = Make(tree::OpKind::kCreate, "/a");
  f.service.current.in_touch = false;
  CHECK(absl::IsUnavailable(f.Write(create)));
  f.service.current.in_touch = true;
  f.service.is_congested = true;
  CHECK(absl::IsUnavailable(f.Write(create)));
  f.service.is_congested = false;
  f.service.version = tree::kVersionNumbered - 1;
  CHECK(absl::IsUnavailable(f.Write(create)));
  f.service.version = consensus::kVersionNewest;
  f.service.is_refusing_data = true;
  CHECK(absl::IsResourceExhausted(f.Write(create)));
  CHECK(f.Write(Make(tree::OpKind::kDelete, "/a")).ok());
  f.service.is_refusing_data = false;
  const std::string large(static_cast<size_t>(f.config.jute_max_buffer_bytes) + 1, 'x');
  CHECK(absl::IsInvalidArgument(f.Write(Make(tree::OpKind::kCreate, "/a", large))));
  tree::Op many = create;
  many.acl.assign(1000, tree::OpenAcl().front());
  CHECK(absl::IsInvalidArgument(f.Write(many)));
  CHECK(f.service.batches.empty());
  CHECK(f.outcomes.size() == 1);
}

TEST_CASE(
    "so many writes wait at most, and those have no known outcome when the tree is replaced") {
  Fixture f;
  const tree::Op remove = Make(tree::OpKind::kDelete, "/a");
  for (size_t i = 0; i < TreeWriter::kWaitingMax; ++i) {
    REQUIRE(f.Write(remove, /*applies=*/false).ok());
  }
  CHECK(absl::IsResourceExhausted(f.Write(remove, /*applies=*/false)));
  f.service.ReplaceTree(&f.writer);
  CHECK(f.outcomes == std::vector<std::string>(TreeWriter::kWaitingMax, "UNAVAILABLE"));
  CHECK(f.Write(remove).ok());
  CHECK(f.outcomes.back() == tree::ToString(tree::ErrorCode::kNoNode));
}

}  // namespace
}  // namespace quorate::rpc
