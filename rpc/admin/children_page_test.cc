// SPDX-License-Identifier: Apache-2.0

#include "rpc/admin/children_page.h"

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <utility>

#include "rpc/frontend/listing.h"
#include "rpc/frontend/testing/fake_service.h"

namespace quorate::rpc::admin {
namespace {

class NoFrontend final : public Frontend {
 public:
  bool AllowsInlineApply() const override { return true; }
  void OnNodeEvent(tree::EventType, std::string_view, tree::Zxid, const tree::EventAcls&) override {
  }
  void OnSessionAttached(const tree::SessionInfo&) override {}
  void OnSessionClosed(tree::SessionId, tree::Zxid) override {}
  void OnResult(tree::ApplyResult result) override {
    CHECK(result.error == tree::ErrorCode::kOk);
    for (const tree::OpResult& op : result.ops) CHECK(op.error == tree::ErrorCode::kOk);
  }
  void OnTreeReplaced(const tree::Tree&) override {}
  void OnBatchApplied() override {}
  void OnSyncDone(uint32_t, uint64_t, tree::Zxid) override {}
};

struct PageFixture {
  void Create(const std::string& path, std::vector<tree::Acl> acl = tree::OpenAcl()) {
    tree::Request request;
    tree::Op& op = request.ops.emplace_back();
    op.kind = tree::OpKind::kCreate;
    op.path = path;
    op.acl = std::move(acl);
    tree::CommandHeader header;
    header.proposer = service.proposer();
    CommandBatch batch;
    tree::AppendRequest(header, request, &*batch.bytes);
    batch.commands.push_back({0, batch.bytes->size()});
    service.Submit(std::move(batch));
    service.Apply(&frontend);
  }
  ChildrenPage Read(const ChildrenRequest& request) {
    ChildrenPage page;
    CHECK(ReadChildrenPage(service, request, {}, &page) == tree::ErrorCode::kOk);
    return page;
  }

  FakeService service;
  NoFrontend frontend;
};

TEST_CASE("pages show each child once, in the order of names") {
  PageFixture f;
  f.Create("/d");
  for (const char* name : {"c", "a", "e", "b", "d"}) f.Create(std::string("/d/") + name);
  ChildrenPage page = f.Read({"/d", "", "", 2});
  CHECK(page.names == std::vector<std::string>{"a", "b"});
  CHECK(page.has_more);
  CHECK(page.stat.num_children == 5);
  page = f.Read({"/d", "", "b", 2});
  CHECK(page.names == std::vector<std::string>{"c", "d"});
  CHECK(page.has_more);
  page = f.Read({"/d", "", "d", 2});
  CHECK(page.names == std::vector<std::string>{"e"});
  CHECK_FALSE(page.has_more);
  // A full page that is the last one.
  CHECK_FALSE(f.Read({"/d", "", "c", 2}).has_more);
}

TEST_CASE("a prefix leaves out the other names") {
  PageFixture f;
  f.Create("/d");
  for (const char* name : {"ab", "aa", "b", "a"}) f.Create(std::string("/d/") + name);
  const ChildrenPage page = f.Read({"/d", "a", "a", 10});
  CHECK(page.names == std::vector<std::string>{"aa", "ab"});
  CHECK_FALSE(page.has_more);
}

TEST_CASE("the bytes of names limit a page, which has at least one name") {
  PageFixture f;
  f.Create("/d");
  for (const char c : {'b', 'a', 'c'}) f.Create("/d/" + std::string(kPageNameBytesMax * 2 / 3, c));
  const ChildrenPage page = f.Read({"/d", "", "", 10});
  REQUIRE(page.names.size() == 1);
  CHECK(page.names[0][0] == 'a');
  CHECK(page.has_more);
}

TEST_CASE("a long list is read in pieces, between which the tree is unlocked") {
  PageFixture f;
  f.Create("/d");
  const size_t count = 3 * kNodesPerHold;
  for (size_t i = 0; i < count; ++i) f.Create("/d/n" + std::to_string(100'000 + i));
  f.service.tree_reads = 0;
  const ChildrenPage page = f.Read({"/d", "", "n110000", 3});
  CHECK(page.names == std::vector<std::string>{"n110001", "n110002", "n110003"});
  CHECK(f.service.tree_reads >= 3);
}

TEST_CASE("children are listed only to callers that may read the znode") {
  PageFixture f;
  f.Create("/d", {{tree::permission::kAll, {"digest", "u:hash"}}});
  ChildrenPage page;
  CHECK(ReadChildrenPage(f.service, {"/d", "", "", 1}, {}, &page) == tree::ErrorCode::kNoAuth);
  CHECK(ReadChildrenPage(f.service, {"/x", "", "", 1}, {}, &page) == tree::ErrorCode::kNoNode);
  const tree::Identity user{"digest", "u:hash"};
  CHECK(ReadChildrenPage(f.service, {"/d", "", "", 1}, {&user, 1}, &page) == tree::ErrorCode::kOk);
}

}  // namespace
}  // namespace quorate::rpc::admin
