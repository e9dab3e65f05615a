// SPDX-License-Identifier: Apache-2.0

// Scans: everything below a znode as a stream of pages.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rpc/frontend/listing.h"
#include "rpc/grpc/native/scan_stream.h"
#include "rpc/grpc/native/testing/fixture.h"

namespace quorate::rpc::native {
namespace {

using Strings = std::vector<std::string>;

v1::ScanRequest ScanOf(const std::string& path, v1::ScanOrder order = v1::SCAN_ORDER_PATHS) {
  v1::ScanRequest request;
  request.set_path(path);
  request.set_order(order);
  return request;
}

uint32_t Begin(Fixture* f, const v1::ScanRequest& request) {
  const uint32_t tag = f->transport.Open(Method::kScan);
  f->transport.Write(tag, request.SerializeAsString());
  return tag;
}

std::vector<v1::ScanResponse> PagesOf(Fixture* f, uint32_t tag) {
  std::vector<v1::ScanResponse> pages;
  for (const std::string& bytes : std::exchange(f->transport.received(tag), {})) {
    REQUIRE(pages.emplace_back().ParseFromString(bytes));
  }
  return pages;
}

Strings PathsOf(const std::vector<v1::ScanResponse>& pages) {
  Strings paths;
  for (const v1::ScanResponse& page : pages) {
    for (const v1::ScanEntry& entry : page.entries()) paths.push_back(entry.path());
  }
  return paths;
}

// Runs a scan to its end, and returns its pages.
std::vector<v1::ScanResponse> Scan(Fixture* f, const v1::ScanRequest& request) {
  const uint32_t tag = Begin(f, request);
  f->Settle();
  REQUIRE(f->transport.outcome(tag).has_value());
  REQUIRE(f->transport.outcome(tag)->ok());
  std::vector<v1::ScanResponse> pages = PagesOf(f, tag);
  f->transport.Forget(tag);
  return pages;
}

absl::Status OutcomeOf(Fixture* f, const v1::ScanRequest& request) {
  const uint32_t tag = Begin(f, request);
  f->Settle();
  REQUIRE(f->transport.outcome(tag).has_value());
  const absl::Status outcome = *f->transport.outcome(tag);
  f->transport.Forget(tag);
  return outcome;
}

void CreateMany(Fixture* f, const std::string& top, size_t count, const std::string& data = "") {
  f->Change(CreateOp(top));
  for (size_t begin = 0; begin < count; begin += 1000) {
    v1::TxnRequest request;
    for (size_t i = begin; i < std::min(count, begin + 1000); ++i) {
      *request.add_operations() = CreateOp(top + "/" + std::to_string(100'000 + i), data);
    }
    v1::TxnResponse response;
    REQUIRE(f->Unary(Method::kTxn, request, &response).ok());
  }
}

TEST_CASE("a scan shows everything below a znode in the order that was asked for") {
  Fixture f;
  for (const char* path : {"/t", "/t/b", "/t/a", "/t/a/x", "/t/a-", "/t/b/y"}) {
    f.Change(CreateOp(path, std::string("data of ") + path));
  }
  v1::ScanRequest request = ScanOf("/t");
  request.set_with_data(true);
  request.set_with_stats(true);
  const std::vector<v1::ScanResponse> pages = Scan(&f, request);
  REQUIRE(pages.size() == 1);
  CHECK(PathsOf(pages) == Strings{"/t/a", "/t/a/x", "/t/a-", "/t/b", "/t/b/y"});
  CHECK(pages[0].complete());
  CHECK(pages[0].zxid() == f.zxid());
  CHECK(pages[0].watch_after_zxid() == f.zxid());
  const v1::ScanEntry& entry = pages[0].entries(0);
  CHECK(entry.data() == "data of /t/a");
  CHECK(entry.stat().children() == 1);
  CHECK(entry.stat().data_bytes() == 12);
  CHECK(entry.kind() == v1::ZNODE_KIND_PERSISTENT);
  CHECK_FALSE(entry.no_auth());

  request = ScanOf("/t", v1::SCAN_ORDER_LEVELS);
  const std::vector<v1::ScanResponse> levels = Scan(&f, request);
  CHECK(PathsOf(levels) == Strings{"/t/a", "/t/a-", "/t/b", "/t/a/x", "/t/b/y"});
  CHECK(levels[0].entries(0).data().empty());
  CHECK_FALSE(levels[0].entries(0).has_stat());
  request.set_depth_max(1);
  CHECK(PathsOf(Scan(&f, request)) == Strings{"/t/a", "/t/a-", "/t/b"});
  request.set_prefix("a");
  CHECK(PathsOf(Scan(&f, request)) == Strings{"/t/a", "/t/a-"});
  request = ScanOf("/");
  request.set_prefix("t/b");
  CHECK(PathsOf(Scan(&f, request)) == Strings{"/t/b", "/t/b/y"});
}

TEST_CASE("a scan shows the kinds of znodes that were asked for") {
  Fixture f;
  const uint32_t tag = f.OpenSession();
  REQUIRE(f.CallOne(tag, WriteRequest(1, 1,
                                      {CreateOp("/t"), CreateOp("/t/p"), CreateOp("/t/p/q"),
                                       CreateOp("/t/e", "", v1::CREATE_MODE_EPHEMERAL),
                                       CreateOp("/t/c", "", v1::CREATE_MODE_CONTAINER)}))
              .error() == v1::ERROR_CODE_UNSPECIFIED);
  v1::ScanRequest request = ScanOf("/t");
  request.add_kinds(v1::ZNODE_KIND_EPHEMERAL);
  CHECK(PathsOf(Scan(&f, request)) == Strings{"/t/e"});
  request.add_kinds(v1::ZNODE_KIND_CONTAINER);
  const std::vector<v1::ScanResponse> pages = Scan(&f, request);
  CHECK(PathsOf(pages) == Strings{"/t/c", "/t/e"});
  CHECK(pages[0].entries(0).kind() == v1::ZNODE_KIND_CONTAINER);
  CHECK(pages[0].entries(1).kind() == v1::ZNODE_KIND_EPHEMERAL);
}

TEST_CASE("a long scan has pages of at most 1 MB, in short holds of the tree") {
  Fixture f;
  constexpr size_t kMany = 3 * kNodesPerHold;
  CreateMany(&f, "/p", kMany, std::string(1000, 'x'));
  f.Change(CreateOp("/p/large", std::string(1'040'000, 'x')));
  for (const v1::ScanOrder order : {v1::SCAN_ORDER_PATHS, v1::SCAN_ORDER_LEVELS}) {
    v1::ScanRequest request = ScanOf("/p", order);
    request.set_with_data(true);
    const uint32_t tag = Begin(&f, request);
    f.Settle();
    const std::vector<std::string> bytes = f.transport.received(tag);
    const std::vector<v1::ScanResponse> pages = PagesOf(&f, tag);
    const Strings paths = PathsOf(pages);
    CHECK(paths.size() == kMany + 1);
    CHECK(std::is_sorted(paths.begin(), paths.end()));
    CHECK(pages.size() > kMany / 1000);
    for (size_t i = 0; i < pages.size(); ++i) {
      CHECK((bytes[i].size() <= ScanStream::kPageBytesMax || pages[i].entries_size() == 1));
      CHECK(pages[i].complete() == (i + 1 == pages.size()));
    }
    f.transport.Forget(tag);
  }
  CHECK(f.loop.longest_hold() <= 3 * kNodesPerHold);
  CHECK(f.service.memory().used(MemoryUse::kReads) == 0);
}

TEST_CASE("a scan whose client does not read waits with one page") {
  Fixture f;
  CreateMany(&f, "/p", 10 * kNodesPerHold);
  v1::ScanRequest request = ScanOf("/p");
  request.set_with_stats(true);
  const uint32_t tag = Begin(&f, request);
  f.transport.SetReads(tag, false);
  f.Settle();
  const uint64_t reads = f.service.tree_reads;
  CHECK(f.loop.unsent_bytes() < ScanStream::kPageBytesMax);
  f.Pass(1000);
  f.Settle();
  CHECK(f.service.tree_reads - reads < 5);
  CHECK_FALSE(f.transport.outcome(tag).has_value());
  f.transport.SetReads(tag, true);
  while (f.transport.ReadOne(tag)) f.Settle();
  REQUIRE(f.transport.outcome(tag).has_value());
  CHECK(PathsOf(PagesOf(&f, tag)).size() == 10 * kNodesPerHold);
}

TEST_CASE("a scan with a limit goes on with the token of its last page") {
  Fixture f;
  for (const char* path : {"/t", "/t/a", "/t/a/x", "/t/a/y", "/t/b", "/t/b/z", "/t/c"}) {
    f.Change(CreateOp(path));
  }
  for (const v1::ScanOrder order : {v1::SCAN_ORDER_PATHS, v1::SCAN_ORDER_LEVELS}) {
    const Strings all = PathsOf(Scan(&f, ScanOf("/t", order)));
    REQUIRE(all.size() == 6);
    v1::ScanRequest request = ScanOf("/t", order);
    request.set_limit(2);
    Strings paths;
    int64_t first_zxid = 0;
    for (bool complete = false; !complete;) {
      const std::vector<v1::ScanResponse> pages = Scan(&f, request);
      for (const std::string& path : PathsOf(pages)) paths.push_back(path);
      CHECK(PathsOf(pages).size() <= 2);
      if (first_zxid == 0) first_zxid = pages.back().zxid();
      CHECK(pages.back().watch_after_zxid() == first_zxid);
      complete = pages.back().complete();
      request.set_token(pages.back().token());
      f.Change(SetOp("/t", "a later zxid"));
    }
    CHECK(paths == all);
  }
}

TEST_CASE("a member that has not applied the zxid of a token refuses to go on from it") {
  Fixture f;
  CreateMany(&f, "/p", 10);
  v1::ScanRequest request = ScanOf("/p");
  request.set_limit(1);
  request.set_token(Scan(&f, request).back().token());
  Fixture behind;
  behind.Change(CreateOp("/p"));
  const uint32_t tag = Begin(&behind, request);
  behind.Settle();
  CHECK_FALSE(behind.transport.outcome(tag).has_value());
  behind.Pass(3000);
  CHECK(behind.CodeOf(tag) == absl::StatusCode::kUnavailable);
  // A member that has applied it goes on.
  Fixture other;
  CreateMany(&other, "/p", 10);
  CHECK(PathsOf(Scan(&other, request)) == Strings{"/p/100001"});
}

TEST_CASE("a page shows the state at its zxid while the tree changes") {
  Fixture f;
  constexpr size_t kMany = 6 * kNodesPerHold;
  CreateMany(&f, "/p", kMany);
  v1::ScanRequest request = ScanOf("/p");
  request.set_with_data(true);
  const uint32_t tag = Begin(&f, request);
  f.transport.SetReads(tag, false);
  f.Settle();
  f.Change(SetOp("/p/100000", "late"));
  const std::string last = "/p/" + std::to_string(100'000 + kMany - 1);
  f.Change(SetOp(last, "new"));
  f.transport.SetReads(tag, true);
  while (f.transport.ReadOne(tag)) f.Settle();
  const std::vector<v1::ScanResponse> pages = PagesOf(&f, tag);
  CHECK(PathsOf(pages).size() == kMany);
  CHECK(pages.front().entries(0).data().empty());
  CHECK(pages.front().zxid() < f.zxid());
  CHECK(pages.back().zxid() == f.zxid());
  CHECK(pages.back().watch_after_zxid() == pages.front().zxid());
  const v1::ScanResponse& page = pages[pages.size() - (pages.back().entries_size() == 0 ? 2 : 1)];
  REQUIRE(page.entries_size() > 0);
  CHECK(page.entries(page.entries_size() - 1).data() == "new");
}

TEST_CASE("a scan that finds nothing for long reports how far it has come") {
  Fixture f;
  CreateMany(&f, "/p", 40 * kNodesPerHold);
  v1::ScanRequest request = ScanOf("/p");
  request.add_kinds(v1::ZNODE_KIND_TTL);
  const uint32_t tag = Begin(&f, request);
  for (int i = 0; i < 10; ++i) f.transport.RunIteration();
  CHECK(PagesOf(&f, tag).empty());
  f.clock.Advance(6000);
  f.loop.OnTimer();
  for (int i = 0; i < 3; ++i) f.transport.RunIteration();
  const std::vector<v1::ScanResponse> pages = PagesOf(&f, tag);
  REQUIRE(pages.size() == 1);
  CHECK(pages[0].entries_size() == 0);
  CHECK_FALSE(pages[0].complete());
  f.Settle();
  CHECK(PagesOf(&f, tag).back().complete());
}

TEST_CASE("a scan obeys the access control lists") {
  Fixture f;
  f.Change(CreateOp("/t"));
  v1::Operation secret = CreateOp("/t/s", "secret");
  v1::Acl* acl = secret.mutable_create()->add_acl();
  acl->set_permissions(tree::permission::kAll & ~tree::permission::kRead);
  acl->set_scheme("world");
  acl->set_id("anyone");
  f.Change(secret);
  f.Change(CreateOp("/t/s/below"));
  v1::ScanRequest request = ScanOf("/t");
  request.set_with_data(true);
  const std::vector<v1::ScanResponse> pages = Scan(&f, request);
  CHECK(PathsOf(pages) == Strings{"/t/s"});
  CHECK(pages[0].entries(0).no_auth());
  CHECK(pages[0].entries(0).data().empty());
  const absl::Status refused = OutcomeOf(&f, ScanOf("/t/s"));
  CHECK(refused.code() == absl::StatusCode::kPermissionDenied);
  CHECK(DetailOf(refused).path() == "/t/s");
  CHECK(OutcomeOf(&f, ScanOf("/none")).code() == absl::StatusCode::kNotFound);
}

TEST_CASE("a linearizable scan waits for a barrier") {
  Fixture f;
  CreateMany(&f, "/p", 3);
  v1::ScanRequest request = ScanOf("/p");
  request.mutable_options()->set_linearizable(true);
  const uint32_t tag = Begin(&f, request);
  f.transport.RunIterations();
  CHECK(f.service.syncs.size() == 1);
  CHECK(PagesOf(&f, tag).empty());
  f.Settle();
  CHECK(PathsOf(PagesOf(&f, tag)).size() == 3);
}

// Returns "/a/a/a" for 3.
std::string ChainOf(size_t depth, const std::string& name = "a") {
  std::string path;
  for (size_t i = 0; i < depth; ++i) path += "/" + name;
  return path;
}

TEST_CASE("a token takes memory only as deep as a scan goes, and it is counted while it waits") {
  Fixture f;
  CreateMany(&f, "/p", 3);
  v1::ScanRequest request = ScanOf("/p");
  request.set_limit(1);
  const std::string head = Scan(&f, request).back().token().substr(0, 18);
  request.set_token(head + ChainOf(3'000'000).substr(1));
  CHECK(OutcomeOf(&f, request).code() == absl::StatusCode::kInvalidArgument);
  request.set_token(head + std::string(7'000'000, 'a'));
  CHECK(OutcomeOf(&f, request).code() == absl::StatusCode::kInvalidArgument);
  request.set_token(head + ChainOf(4000, "0").substr(1));
  request.mutable_options()->set_linearizable(true);
  request.GetReflection()->MutableUnknownFields(&request)->AddLengthDelimited(
      1000, std::string(5'000'000, 'x'));
  const uint32_t tag = Begin(&f, request);
  f.transport.RunIterations();
  REQUIRE_FALSE(f.transport.outcome(tag).has_value());
  const int64_t kept = f.service.memory().used(MemoryUse::kReads);
  CHECK(kept > 4000 * 100);
  CHECK(kept < 4'000'000);
  f.Settle();
  CHECK(PathsOf(PagesOf(&f, tag)) == Strings{"/p/100000"});
}

TEST_CASE("a scan by levels of a subtree that is too deep says so") {
  Fixture f;
  const size_t max = tree::SubtreeDepthMax(tree::SubtreeOrder::kLevels);
  for (size_t depth = 1; depth <= max + 2; ++depth) f.Change(CreateOp(ChainOf(depth)));
  v1::ScanRequest request = ScanOf("/a", v1::SCAN_ORDER_LEVELS);
  const absl::Status refused = OutcomeOf(&f, request);
  CHECK(DetailOf(refused).code() == v1::ERROR_CODE_TOO_LARGE);
  CHECK(refused.message().find("depth_max") != absl::string_view::npos);
  request.set_depth_max(static_cast<uint32_t>(max));
  CHECK(PathsOf(Scan(&f, request)).size() == max);
  CHECK(PathsOf(Scan(&f, ScanOf("/a"))).size() == max + 1);
}

TEST_CASE("a bad request of a scan is refused") {
  Fixture f;
  CreateMany(&f, "/p", 3);
  const auto code_of = [&](const auto& change) {
    v1::ScanRequest request = ScanOf("/p");
    change(&request);
    return OutcomeOf(&f, request).code();
  };
  constexpr auto kBad = absl::StatusCode::kInvalidArgument;
  CHECK(code_of([](v1::ScanRequest* r) { r->set_path("p"); }) == kBad);
  CHECK(code_of([](v1::ScanRequest* r) { r->set_order(static_cast<v1::ScanOrder>(9)); }) == kBad);
  CHECK(code_of([](v1::ScanRequest* r) { r->set_depth_max(0); }) == kBad);
  CHECK(code_of([](v1::ScanRequest* r) { r->set_prefix(std::string(5'000'000, 'a')); }) == kBad);
  CHECK(code_of([](v1::ScanRequest* r) { r->set_path("/" + std::string(5'000'000, 'a')); }) ==
        kBad);
  CHECK(code_of([](v1::ScanRequest* r) { r->add_kinds(v1::ZNODE_KIND_UNSPECIFIED); }) == kBad);
  CHECK(code_of([](v1::ScanRequest* r) { r->add_kinds(static_cast<v1::ZnodeKind>(77)); }) == kBad);
  CHECK(code_of([](v1::ScanRequest* r) {
          for (int i = 0; i < 17; ++i) r->add_kinds(v1::ZNODE_KIND_TTL);
        }) == kBad);
  v1::ScanRequest request = ScanOf("/p");
  request.set_limit(1);
  const std::string token = Scan(&f, request).back().token();
  for (size_t size = 1; size < 18; ++size) {
    CHECK(code_of([&](v1::ScanRequest* r) { r->set_token(token.substr(0, size)); }) == kBad);
  }
  for (const char* path : {"/a", "a/", "a//b", "../a", "a/.."}) {
    CHECK(code_of([&](v1::ScanRequest* r) { r->set_token(token.substr(0, 18) + path); }) == kBad);
  }
  CHECK(code_of([&](v1::ScanRequest* r) {
          r->set_token(token);
          r->set_order(v1::SCAN_ORDER_LEVELS);
        }) == kBad);
  CHECK(code_of([&](v1::ScanRequest* r) {
          r->set_token(token + "/b/c");
          r->set_depth_max(2);
        }) == kBad);
  const uint32_t tag = f.transport.Open(Method::kScan);
  f.transport.Write(tag, "\xff\xff");
  f.Settle();
  CHECK(f.CodeOf(tag) == kBad);
  const uint32_t silent = f.transport.Open(Method::kScan);
  f.Pass(31'000);
  CHECK(f.CodeOf(silent) == absl::StatusCode::kDeadlineExceeded);
}

TEST_CASE("a scan ends when its member loses touch with its leader, and goes on elsewhere") {
  Fixture f;
  CreateMany(&f, "/p", 10 * kNodesPerHold);
  const uint32_t tag = Begin(&f, ScanOf("/p"));
  f.transport.SetReads(tag, false);
  f.Settle();
  f.service.current.leader_contact_age_ms = 3'600'000;
  f.Pass(100);
  f.transport.SetReads(tag, true);
  while (f.transport.ReadOne(tag)) f.Settle();
  CHECK(f.CodeOf(tag) == absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace quorate::rpc::native
