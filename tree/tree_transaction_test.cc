// SPDX-License-Identifier: Apache-2.0

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tree/limits.h"
#include "tree/testing/tree_test_util.h"
#include "tree/tree.h"

namespace quorate::tree {
namespace {

using Strings = std::vector<std::string>;

const std::vector<Acl> kOfOwner = {MakeAcl(31, "digest", "u:p")};

Op MakeRead(OpKind kind, std::string_view path) {
  Op op;
  op.kind = kind;
  op.path = path;
  return op;
}

Op MakeCreateWithParents(std::string_view path, std::vector<Acl> acl = OpenAcl()) {
  Op op = MakeCreate(path, "data", CreateMode::kPersistent, std::move(acl));
  op.with_parents = true;
  return op;
}

Compare MakeCompare(std::string_view path, CompareTarget target, CompareRelation relation,
                    int64_t number) {
  return {target, relation, path, number, {}};
}

Compare MakeCompare(std::string_view path, CompareRelation relation, std::string_view value) {
  return {CompareTarget::kValue, relation, path, 0, value};
}

Request MakeBranches(std::vector<Compare> compares, std::vector<Op> then,
                     const std::vector<Op>& otherwise = {}) {
  Request request;
  request.multi = true;
  request.has_branches = true;
  request.compares = std::move(compares);
  request.then_count = then.size();
  request.ops = std::move(then);
  request.ops.insert(request.ops.end(), otherwise.begin(), otherwise.end());
  return request;
}

// Returns whether the compare holds; CHECKs that it can be made.
bool Holds(Server* server, const Compare& compare) {
  const ApplyResult result = server->DoRequest(MakeBranches({compare}, {}));
  CHECK(result.error == ErrorCode::kOk);
  CHECK(result.ops.empty());
  CHECK(result.branch != Branch::kCompares);
  return result.branch == Branch::kThen;
}

TEST_CASE("a request with branches makes one of them, by whether all of its compares hold") {
  Server server;
  server.OpenSession();
  server.Do(MakeCreate("/a", "1"));
  const Compare is_zero = MakeCompare("/a", CompareTarget::kVersion, CompareRelation::kEqual, 0);
  const Compare is_one = MakeCompare("/a", CompareRelation::kEqual, "1");
  const Request request = MakeBranches({is_zero, is_one}, {MakeSetData("/a", "2")},
                                       {MakeCreate("/b"), MakeRead(OpKind::kGet, "/a")});
  const ApplyResult then = server.DoRequest(request);
  CHECK(then.branch == Branch::kThen);
  REQUIRE(then.ops.size() == 1);
  CHECK(then.ops[0].stat.version == 1);
  CHECK(server.events() == Strings{"changed /a"});
  CHECK_FALSE(server.Has("/b"));

  const ApplyResult otherwise = server.DoRequest(request);
  CHECK(otherwise.branch == Branch::kOtherwise);
  REQUIRE(otherwise.ops.size() == 2);
  CHECK(otherwise.ops[0].path == "/b");
  CHECK(otherwise.ops[1].data == "2");
  CHECK(server.events() == Strings{"created /b"});
  CHECK(server.DataOf("/a") == "2");

  // Without a compare, all of them hold.
  CHECK(server.DoRequest(MakeBranches({}, {MakeDelete("/b")})).branch == Branch::kThen);
  CHECK_FALSE(server.Has("/b"));
  CHECK(server.Do(MakeCheck("/a")).error == ErrorCode::kOk);
}

TEST_CASE("an operation that fails undoes its branch") {
  Server server;
  server.OpenSession();
  const bool then = GENERATE(true, false);
  const std::vector<Op> ops = {MakeCreate("/a"), MakeCreate("/a/b"), MakeDelete("/none"),
                               MakeCreate("/c")};
  const Compare root = MakeCompare("/", CompareTarget::kExists, CompareRelation::kEqual, then);
  const ApplyResult result = server.DoRequest(
      MakeBranches({root}, then ? ops : std::vector<Op>{}, then ? std::vector<Op>{} : ops));
  CHECK(result.branch == (then ? Branch::kThen : Branch::kOtherwise));
  REQUIRE(result.ops.size() == 4);
  CHECK(result.ops[1].error == ErrorCode::kOk);
  CHECK(result.ops[1].path.empty());
  CHECK(result.ops[2].error == ErrorCode::kNoNode);
  CHECK(result.ops[3].error == ErrorCode::kRuntimeInconsistency);
  CHECK_FALSE(server.Has("/a"));
  CHECK(server.events().empty());
}

TEST_CASE("compares look at each field of the stat, in each relation") {
  Server server;
  server.OpenSession();
  server.Do(MakeCreate("/a"));
  server.Do(MakeSetData("/a", "x"));
  server.Do(MakeSetData("/a", "y"));
  server.Do(MakeSetAcl("/a", OpenAcl()));
  server.Do(MakeCreate("/a/b"));
  server.Do(MakeCreate("/a/c"));
  server.Do(MakeCreate("/a/d"));
  const Stat stat = server.StatOf("/a");
  const std::pair<CompareTarget, int64_t> kNumbers[] = {
      {CompareTarget::kExists, 1},
      {CompareTarget::kCzxid, stat.czxid.value()},
      {CompareTarget::kMzxid, stat.mzxid.value()},
      {CompareTarget::kPzxid, stat.pzxid.value()},
      {CompareTarget::kVersion, 2},
      {CompareTarget::kCversion, 3},
      {CompareTarget::kAversion, 1},
  };
  CHECK(stat.czxid < stat.mzxid);
  CHECK(stat.mzxid < stat.pzxid);
  for (const auto& [target, number] : kNumbers) {
    CAPTURE(target, number);
    const auto holds = [&, target = target](CompareRelation relation, int64_t expected) {
      return Holds(&server, MakeCompare("/a", target, relation, expected));
    };
    CHECK(holds(CompareRelation::kEqual, number));
    CHECK_FALSE(holds(CompareRelation::kEqual, number + 1));
    CHECK_FALSE(holds(CompareRelation::kNotEqual, number));
    CHECK(holds(CompareRelation::kNotEqual, number + 1));
    CHECK(holds(CompareRelation::kLess, number + 1));
    CHECK_FALSE(holds(CompareRelation::kLess, number));
    CHECK(holds(CompareRelation::kGreater, number - 1));
    CHECK_FALSE(holds(CompareRelation::kGreater, number));
  }
}

TEST_CASE("compares of data are of unsigned bytes, and null data are as empty data") {
  Server server;
  server.OpenSession();
  server.Do(MakeCreate("/a", "b\x80"));
  CHECK(Holds(&server, MakeCompare("/a", CompareRelation::kEqual, "b\x80")));
  CHECK_FALSE(Holds(&server, MakeCompare("/a", CompareRelation::kEqual, "b")));
  CHECK(Holds(&server, MakeCompare("/a", CompareRelation::kGreater, "b\x7f")));
  CHECK(Holds(&server, MakeCompare("/a", CompareRelation::kGreater, "b")));
  CHECK(Holds(&server, MakeCompare("/a", CompareRelation::kLess,
                                   "b\x80"
                                   "a")));
  CHECK(Holds(&server, MakeCompare("/a", CompareRelation::kNotEqual, "")));
  Op null = MakeSetData("/a", "");
  null.has_data = false;
  server.Do(null);
  CHECK(Holds(&server, MakeCompare("/a", CompareRelation::kEqual, "")));
  CHECK(Holds(&server, MakeCompare("/a", CompareRelation::kLess, "a")));
}

TEST_CASE("a node that does not exist has zxids of 0, and neither versions nor data") {
  Server server;
  server.OpenSession();
  for (const CompareTarget target : {CompareTarget::kExists, CompareTarget::kCzxid,
                                     CompareTarget::kMzxid, CompareTarget::kPzxid}) {
    CAPTURE(target);
    CHECK(Holds(&server, MakeCompare("/a", target, CompareRelation::kEqual, 0)));
    CHECK(Holds(&server, MakeCompare("/a", target, CompareRelation::kLess, 1)));
    CHECK_FALSE(Holds(&server, MakeCompare("/a", target, CompareRelation::kEqual, 1)));
  }
  for (const CompareRelation relation : {CompareRelation::kEqual, CompareRelation::kNotEqual,
                                         CompareRelation::kLess, CompareRelation::kGreater}) {
    CAPTURE(relation);
    CHECK_FALSE(Holds(&server, MakeCompare("/a", CompareTarget::kVersion, relation, 0)));
    CHECK_FALSE(Holds(&server, MakeCompare("/a", relation, "")));
  }
}

TEST_CASE("a compare that cannot be made fails the request") {
  Server server;
  server.OpenSession();
  server.Do(MakeCreate("/secret", "x", CreateMode::kPersistent, kOfOwner));
  const Compare root = MakeCompare("/", CompareTarget::kExists, CompareRelation::kEqual, 1);
  const auto fails = [&](const Compare& compare) {
    const ApplyResult result = server.DoRequest(
        MakeBranches({root, compare, root}, {MakeCreate("/a")}, {MakeCreate("/b")}));
    CHECK_FALSE(server.Has("/a"));
    CHECK_FALSE(server.Has("/b"));
    REQUIRE(result.branch == Branch::kCompares);
    REQUIRE(result.ops.size() == 3);
    CHECK(result.ops[0].error == ErrorCode::kOk);
    CHECK(result.ops[2].error == ErrorCode::kRuntimeInconsistency);
    return result.ops[1].error;
  };
  for (const char* path : {"", "a", "/a/", "/a//b", "/.."}) {
    CAPTURE(path);
    CHECK(fails(MakeCompare(path, CompareRelation::kEqual, "")) == ErrorCode::kBadArguments);
  }
  CHECK(fails(MakeCompare("/secret", CompareRelation::kEqual, "x")) == ErrorCode::kNoAuth);
  for (const CompareTarget target :
       {CompareTarget::kMzxid, CompareTarget::kPzxid, CompareTarget::kVersion,
        CompareTarget::kCversion, CompareTarget::kAversion}) {
    CAPTURE(target);
    CHECK(fails(MakeCompare("/secret", target, CompareRelation::kEqual, 0)) == ErrorCode::kNoAuth);
  }
  // Existence and creation are not protected.
  const int64_t czxid = server.StatOf("/secret").czxid.value();
  CHECK(Holds(&server, MakeCompare("/secret", CompareTarget::kExists, CompareRelation::kEqual, 1)));
  CHECK(Holds(&server,
              MakeCompare("/secret", CompareTarget::kCzxid, CompareRelation::kEqual, czxid)));
}

TEST_CASE("reads see the writes before them, and nothing of those after them") {
  Server server;
  server.OpenSession();
  CHECK(server.Do(MakeRead(OpKind::kGet, "/a")).error == ErrorCode::kNoNode);
  CHECK(server.Do(MakeRead(OpKind::kGetChildren, "/a")).error == ErrorCode::kNoNode);
  const std::vector<OpResult> results = server.DoMulti(
      {MakeRead(OpKind::kExists, "/a"), MakeCreate("/a", "1"), MakeCreate("/a/c"),
       MakeCreate("/a/b"), MakeRead(OpKind::kGet, "/a"), MakeRead(OpKind::kGetChildren, "/a"),
       MakeSetData("/a", "2"), MakeDelete("/a/b"), MakeRead(OpKind::kGet, "/a"),
       MakeRead(OpKind::kExists, "/a"), MakeRead(OpKind::kGetChildren, "/a")});
  REQUIRE(results.size() == 11);
  CHECK_FALSE(results[0].found);
  CHECK(results[4].found);
  CHECK(results[4].data == "1");
  CHECK(results[4].stat.num_children == 2);
  CHECK(results[5].children == Strings{"b", "c"});
  CHECK(results[8].data == "2");
  CHECK(results[8].stat.version == 1);
  CHECK(results[9].found);
  CHECK(results[9].stat == server.StatOf("/a"));
  CHECK(results[10].children == Strings{"c"});
  for (const OpKind kind : {OpKind::kGet, OpKind::kExists, OpKind::kGetChildren}) {
    CHECK(server.Do(MakeRead(kind, "a")).error == ErrorCode::kBadArguments);
    CHECK(server.Do(MakeRead(kind, "/zookeeper/quota")).found);
  }
}

TEST_CASE("reads of data and children need the permission to read") {
  Server server;
  server.OpenSession();
  server.Do(MakeCreate("/secret", "x", CreateMode::kPersistent, kOfOwner));
  CHECK(server.Do(MakeRead(OpKind::kGet, "/secret")).error == ErrorCode::kNoAuth);
  CHECK(server.Do(MakeRead(OpKind::kGetChildren, "/secret")).error == ErrorCode::kNoAuth);
  CHECK(server.Do(MakeRead(OpKind::kExists, "/secret")).found);
  server.identities = {Identity{"digest", "u:p"}};
  CHECK(server.Do(MakeRead(OpKind::kGet, "/secret")).data == "x");
}

TEST_CASE("the reads of a request are limited by what they cost together") {
  Server server, other;
  const std::string half(kReadCostMax / 2 - 2 * kReadCost, 'x');
  for (Server* each : {&server, &other}) {
    each->OpenSession();
    each->Do(MakeCreate("/half", half));
  }
  const Op get = MakeRead(OpKind::kGet, "/half");
  const std::vector<OpResult> fit = server.DoMulti({get, get});
  CHECK(fit[1].error == ErrorCode::kOk);
  CHECK(fit[1].data == half);
  const std::vector<OpResult> results = server.DoMulti({MakeCreate("/a"), get, get, get});
  CHECK(results[3].error == ErrorCode::kTooLarge);
  CHECK(results[1].data.empty());
  CHECK_FALSE(server.Has("/a"));
  // Reads that return nothing cost something too.
  const std::vector<Op> exists(kReadCostMax / kReadCost + 1, MakeRead(OpKind::kExists, "/none"));
  CHECK(server.DoMulti({exists.begin() + 1, exists.end()}).back().error == ErrorCode::kOk);
  CHECK(server.DoMulti(exists).back().error == ErrorCode::kTooLarge);
  // So do children with short names.
  std::vector<Op> creates = {MakeCreate("/p")};
  Strings paths;
  for (size_t i = 0; i < kReadCostMax / kReadChildCost; ++i) {
    paths.push_back("/p/" + std::to_string(i));
  }
  for (const std::string& path : paths) creates.push_back(MakeCreate(path));
  server.DoMulti(creates);
  CHECK(server.Do(MakeRead(OpKind::kGetChildren, "/p")).error == ErrorCode::kTooLarge);
  server.DoMulti({MakeDelete(paths[0]), MakeDelete(paths[1])});
  CHECK(server.Do(MakeRead(OpKind::kGetChildren, "/p")).error == ErrorCode::kTooLarge);
}

TEST_CASE("a request lists no more children than it may delete nodes, however short their names") {
  Server server;
  server.OpenSession();
  Strings paths;
  for (size_t i = 0; i <= kDeleteRecursiveMax; ++i) paths.push_back("/p/" + std::to_string(i));
  std::vector<Op> creates = {MakeCreate("/p"), MakeCreate("/q")};
  for (const std::string& path : paths) creates.push_back(MakeCreate(path));
  server.DoMulti(creates);
  CHECK(server.Do(MakeRead(OpKind::kGetChildren, "/p")).error == ErrorCode::kTooLarge);
  CHECK(server.Do(MakeRead(OpKind::kGetChildren, "/q")).error == ErrorCode::kOk);
}

TEST_CASE("a repeated numbered request gets the branch and the reads of the first time") {
  Server server;
  server.OpenSession();
  const Request request =
      MakeBranches({MakeCompare("/a", CompareTarget::kCzxid, CompareRelation::kEqual, 0)},
                   {MakeCreate("/a", "1"), MakeRead(OpKind::kGet, "/a")}, {MakeDelete("/a")});
  const ApplyResult first = server.DoSequenced(1, 0, request);
  CHECK(first.branch == Branch::kThen);
  REQUIRE(first.ops.size() == 2);
  CHECK(first.ops[1].data == "1");
  server.Do(MakeSetData("/a", "2"));
  const ApplyResult again = server.DoSequenced(1, 0, request);
  CHECK(again.repeated);
  CHECK(again.branch == Branch::kThen);
  CHECK(again.ops == first.ops);
  CHECK(server.DoSequenced(2, 1, request).branch == Branch::kOtherwise);
  CHECK_FALSE(server.Has("/a"));

  // So does one with a compare that could not be made.
  const Request bad = MakeBranches({MakeCompare("/x/", CompareRelation::kEqual, "")}, {});
  const ApplyResult refused = server.DoSequenced(3, 2, bad);
  CHECK(refused.branch == Branch::kCompares);
  CHECK(server.DoSequenced(3, 2, bad).ops == refused.ops);
  CHECK(server.DoSequenced(3, 2, bad).branch == Branch::kCompares);
}

TEST_CASE("lists and recursive deletes of a request count together") {
  Server server;
  server.OpenSession();
  Strings paths;
  for (size_t i = 0; i < kDeleteRecursiveMax / 2; ++i) {
    paths.push_back("/l/" + std::to_string(i));
    paths.push_back("/d/" + std::to_string(i));
  }
  std::vector<Op> creates = {MakeCreate("/l"), MakeCreate("/d")};
  for (const std::string& path : paths) creates.push_back(MakeCreate(path));
  server.DoMulti(creates);
  const Op list = MakeRead(OpKind::kGetChildren, "/l");
  Op remove = MakeDelete("/d");
  remove.kind = OpKind::kDeleteRecursive;
  // With the node itself the delete is one too many.
  CHECK(server.DoMulti({list, remove})[1].error == ErrorCode::kTooLarge);
  CHECK(server.DoMulti({remove, list})[1].error == ErrorCode::kTooLarge);
  server.DoMulti({MakeDelete(paths[1])});
  CHECK(server.DoMulti({list, remove, MakeCreateWithParents("/x/y")})[2].error ==
        ErrorCode::kTooLarge);
  CHECK(server.DoMulti({list, remove})[1].error == ErrorCode::kOk);
}

TEST_CASE("a numbered request whose reads do not fit into a kept response fails") {
  Server server;
  server.OpenSession();
  server.Do(MakeCreate("/a", std::string(kNumberedReadCostMax - kReadCost, 'x')));
  const Op get = MakeRead(OpKind::kGet, "/a");
  CHECK(server.Do(get).data.size() == kNumberedReadCostMax - kReadCost);
  const Op create = MakeCreate("/b", "", CreateMode::kPersistentSequential);
  const Op exists = MakeRead(OpKind::kExists, "/none");
  const std::vector<Op> ops = {create, exists, get};
  const ApplyResult result = server.DoSequenced(1, 0, MakeBranches({}, ops));
  CHECK(result.branch == Branch::kThen);
  CHECK(result.ops[2].error == ErrorCode::kTooLarge);
  CHECK_FALSE(server.Has("/b0000000000"));
  CHECK(server.DoSequenced(1, 0, MakeBranches({}, ops)).ops == result.ops);
  // Alone, the read just fits.
  CHECK(server.DoSequenced(2, 1, MakeBranches({}, {create, get})).ops[1].error == ErrorCode::kOk);
}

TEST_CASE("the bytes of a response that were not read do not count as read") {
  Server server;
  server.OpenSession();
  const std::string name = "/" + std::string(40, 'x');
  std::vector<Op> ops = {MakeRead(OpKind::kExists, "/")};
  ops.resize(2000, MakeCreate(name, "", CreateMode::kPersistentSequential));
  const ApplyResult result = server.DoSequenced(1, 0, MakeBranches({}, ops));
  REQUIRE(result.ops.size() == 2000);
  CHECK(result.ops[0].error == ErrorCode::kOk);
  CHECK(result.ops[0].found);
  CHECK(server.Has(name + "0000000000"));
  CHECK(server.tree().answer_memory_bytes() > kReadAnswerBytesMax);
  // What it has read is kept, and counts.
  server.Do(MakeCreate("/a", std::string(kNumberedReadCostMax - kReadCost, 'x')));
  const Request get = MakeBranches({}, {MakeRead(OpKind::kGet, "/a")});
  CHECK(server.DoSequenced(2, 0, get).error == ErrorCode::kTooManyUnacknowledged);
  CHECK(server.DoSequenced(2, 1, get).error == ErrorCode::kOk);
}

TEST_CASE("a transaction whose response is too large names the operation that is too much") {
  Server server;
  server.OpenSession();
  const std::string name = "/" + std::string(10'000, 'x');
  std::vector<Op> ops = {MakeCheck("/")};
  ops.resize(200, MakeCreate(name, "", CreateMode::kPersistentSequential));
  const ApplyResult result = server.DoSequenced(1, 0, MakeBranches({}, ops));
  REQUIRE(result.ops.size() == 200);
  const size_t place = 1 + kAnswerBytesMax / 10'041;
  CHECK(result.ops[place].error == ErrorCode::kTooLarge);
  CHECK(result.ops[place - 1].error == ErrorCode::kOk);
  CHECK_FALSE(server.Has(name + "0000000000"));
  CHECK(server.DoSequenced(1, 0, MakeBranches({}, ops)).ops == result.ops);
}

TEST_CASE("a repeated request has its response in few bytes, and expands no more than is asked") {
  Server server;
  server.OpenSession();
  // The first compare cannot be made.
  std::vector<Compare> compares(5000, MakeCompare("x", CompareRelation::kEqual, ""));
  const Request bad = MakeBranches(compares, {});
  CHECK(server.DoSequenced(1, 0, bad).ops.size() == 5000);
  Request checks;
  checks.multi = true;
  checks.ops.resize(300, MakeCheck("/"));
  CHECK(server.DoSequenced(2, 0, checks).ops.size() == 300);
  ApplyResult again = server.DoSequenced(1, 0, bad);
  CHECK(again.ops.size() == 5000);
  CHECK(again.kept.size() < 20);
  ExpandRepeated(3, &again);
  REQUIRE(again.ops.size() == 3);
  CHECK(again.ops[0].error == ErrorCode::kBadArguments);
  again = server.DoSequenced(2, 0, checks);
  ExpandRepeated(1, &again);
  CHECK(again.ops.size() == 1);
  // If what failed is not among the first ones, the last one tells.
  checks.ops[250] = MakeCheck("/none");
  again = server.DoSequenced(3, 0, checks);
  CHECK(again.ops[250].error == ErrorCode::kNoNode);
  again = server.DoSequenced(3, 0, checks);
  CHECK(again.ops[250].error == ErrorCode::kNoNode);
  ExpandRepeated(2, &again);
  CHECK(again.ops[0].error == ErrorCode::kOk);
  CHECK(again.ops[1].error == ErrorCode::kNoNode);
}

TEST_CASE("compares, and what is repeated, count as visits") {
  Server server;
  server.OpenSession();
  const auto visits = [&](uint64_t sequence, const Request& request) {
    const uint64_t before = server.tree().visited_nodes();
    server.DoSequenced(sequence, 0, request);
    return server.tree().visited_nodes() - before;
  };
  CHECK(visits(1, MakeBranches(
                      std::vector<Compare>(500, MakeCompare("/none", CompareRelation::kEqual, "")),
                      {})) == 500);
  const std::string name = "/" + std::string(100'000, 'x');
  const Request creates =
      MakeBranches({}, {MakeCreate(name, "", CreateMode::kPersistentSequential),
                        MakeCreate(name, "", CreateMode::kPersistentSequential)});
  CHECK(visits(2, creates) == 0);
  CHECK(visits(2, creates) >= 200'000 / kReadChildCost);
}

TEST_CASE("what the servers keep of the reads of one session is limited together") {
  Server server;
  server.OpenSession();
  server.Do(MakeCreate("/a", std::string(kReadAnswerBytesMax / 2, 'x')));
  const Request get = MakeBranches({}, {MakeRead(OpKind::kGet, "/a")});
  // A request that is not numbered may read far more.
  CHECK(server.DoRequest(MakeBranches({}, std::vector<Op>(20, get.ops[0]))).ops[19].error ==
        ErrorCode::kOk);
  CHECK(server.DoSequenced(1, 0, MakeBranches({}, {get.ops[0], get.ops[0]})).ops[1].error ==
        ErrorCode::kTooLarge);
  CHECK(server.DoSequenced(2, 0, get).ops[0].error == ErrorCode::kOk);
  CHECK(server.DoSequenced(3, 0, get).error == ErrorCode::kTooManyUnacknowledged);
  // Other writes need no acknowledgement.
  Request set;
  set.ops = {MakeSetData("/b", "")};
  CHECK(server.DoSequenced(3, 0, set).error == ErrorCode::kOk);
  CHECK(server.DoSequenced(4, 1, get).error == ErrorCode::kTooManyUnacknowledged);
  // A string may have allocated twice what it holds.
  CHECK(server.tree().answer_memory_bytes() < 3 * kReadAnswerBytesMax / 2);
  CHECK(server.DoSequenced(4, 2, get).error == ErrorCode::kOk);
  CHECK(server.DoSequenced(4, 2, get).repeated);
  CHECK(server.tree().digest() == server.tree().ComputeDigest());
}

TEST_CASE("a create with parents creates the missing ones from the top, as one change") {
  Server server;
  server.OpenSession();
  server.Do(MakeCreate("/a"));
  const std::vector<Acl> acl = {MakeAcl(permission::kRead, "world", "anyone")};
  Op op = MakeCreateWithParents("/a/b/c/n-", acl);
  op.mode = CreateMode::kEphemeralSequential;
  const OpResult result = server.Do(op);
  REQUIRE(result.error == ErrorCode::kOk);
  CHECK(result.path == "/a/b/c/n-0000000000");
  CHECK(result.stat.ephemeral_owner == kSession);
  CHECK(server.events() ==
        Strings{"created /a/b", "created /a/b/c", "created /a/b/c/n-0000000000"});
  // The parents are persistent, with empty data and the ACL of the node: it opens them for reading
  // only, so that another node below them is refused.
  CHECK(server.StatOf("/a/b").ephemeral_owner == kNoSession);
  CHECK(server.StatOf("/a/b").czxid == server.tree().last_zxid());
  CHECK(server.DataOf("/a/b") == "");
  CHECK(server.Do(op).error == ErrorCode::kNoAuth);
  CHECK(server.Do(MakeCreateWithParents("/a/b/x/y")).error == ErrorCode::kNoAuth);
  CHECK_FALSE(server.Has("/a/b/x"));
  // Parents that exist are no error, nor is a node that exists if the create allows that.
  CHECK(server.Do(MakeCreateWithParents("/a")).error == ErrorCode::kNodeExists);
  op = MakeCreateWithParents("/d/e");
  op.kind = OpKind::kCreateIfNotExists;
  CHECK(server.Do(op).stat.czxid > Zxid(0));
  CHECK(server.Do(op).stat.czxid == Zxid(0));
  CHECK(server.DataOf("/d/e") == "data");
}

TEST_CASE("the result of a create with parents tells how many it has added") {
  Server server;
  server.OpenSession();
  CHECK(server.Do(MakeCreateWithParents("/a/b/c", kOfOwner)).added_parents == 2);
  CHECK(server.Do(MakeCreateWithParents("/a/b/d", kOfOwner)).error == ErrorCode::kNoAuth);
  server.identities = {Identity{"digest", "u:p"}};
  CHECK(server.Do(MakeCreateWithParents("/a/b/d")).added_parents == 0);
  Request request;
  request.ops = {MakeCreateWithParents("/e/f", kOfOwner)};
  CHECK(server.DoSequenced(1, 0, request).ops[0].added_parents == 1);
  CHECK(server.DoSequenced(1, 0, request).ops[0].added_parents == 1);
  // Each node has the list, and drops its reference to it.
  Op remove = MakeDelete("/e");
  remove.kind = OpKind::kDeleteRecursive;
  CHECK(server.Do(remove).removed == 2);
  CHECK(server.Do(MakeRead(OpKind::kGet, "/a/b/c")).found);
  CHECK(server.tree().digest() == server.tree().ComputeDigest());
}

TEST_CASE("a create with parents that fails leaves none of them") {
  Server server;
  server.OpenSession();
  server.Do(MakeCreate("/e", "", CreateMode::kEphemeral));
  server.Do(MakeCreate("/secret", "", CreateMode::kPersistent, kOfOwner));
  server.Do(MakeCreate("/zookeeper/quota/q"));
  server.Do(
      MakeCreate("/zookeeper/quota/q/zookeeper_limits", "count=2,bytes=-1=;countHardLimit=2"));
  server.Do(MakeCreate("/zookeeper/quota/q/zookeeper_stats"));
  server.Do(MakeCreate("/q"));
  const size_t nodes = server.tree().node_count();
  server.enforces_quota = true;
  CHECK(server.Do(MakeCreateWithParents("/q/a/b")).error == ErrorCode::kQuotaExceeded);
  CHECK(server.Do(MakeCreateWithParents("/e/a/b")).error == ErrorCode::kNoChildrenForEphemerals);
  CHECK(server.Do(MakeCreateWithParents("/secret/a/b")).error == ErrorCode::kNoAuth);
  CHECK(server.Do(MakeCreateWithParents("/n/a/", OpenAcl())).error == ErrorCode::kBadArguments);
  CHECK(server.Do(MakeCreateWithParents("/n/../b")).error == ErrorCode::kBadArguments);
  CHECK(server.Do(MakeCreateWithParents("n")).error == ErrorCode::kBadArguments);
  CHECK(server.Do(MakeCreateWithParents("/n/a", {})).error == ErrorCode::kInvalidAcl);
  CHECK(server.DoMulti({MakeCreateWithParents("/n/a/b"), MakeDelete("/none")})[1].error ==
        ErrorCode::kNoNode);
  CHECK(server.events().empty());
  CHECK(server.tree().node_count() == nodes);
  CHECK(server.tree().digest() == server.tree().ComputeDigest());
  CHECK(server.Do(MakeCreateWithParents("/q/a")).error == ErrorCode::kOk);
}

TEST_CASE("the missing parents of a request are limited by the bytes of their paths") {
  Server server;
  server.OpenSession();
  // The paths of n parents with names of one byte take n * (n + 1) bytes.
  size_t parents = 1;
  while ((parents + 1) * (parents + 2) <= kDeleteRecursivePathBytesMax) ++parents;
  REQUIRE(parents < kDeleteRecursiveMax);
  std::string path;
  for (size_t i = 0; i < parents; ++i) path += "/a";
  CHECK(server.Do(MakeCreateWithParents(path + "/a/a")).error == ErrorCode::kTooLarge);
  CHECK_FALSE(server.Has("/a"));
  CHECK(server.Do(MakeCreateWithParents(path + "/a")).error == ErrorCode::kOk);
}

TEST_CASE("the missing parents of a request are limited, together with its recursive deletes") {
  Server server;
  server.OpenSession();
  Strings paths;  // of nodes with 100 missing parents each
  for (size_t i = 0; i <= kDeleteRecursiveMax / 100; ++i) {
    std::string& path = paths.emplace_back("/" + std::to_string(100 + i));
    for (int depth = 1; depth < 100; ++depth) path += "/a";
    path += "/x";
  }
  std::vector<Op> ops;
  for (const std::string& path : paths) ops.push_back(MakeCreateWithParents(path));
  CHECK(server.DoMulti(ops).back().error == ErrorCode::kTooLarge);
  CHECK_FALSE(server.Has("/100"));
  // The parents of the first are added by its create, those of its siblings exist.
  std::string sibling = paths.front();
  sibling.back() = 'y';
  ops.back() = MakeCreateWithParents(sibling);
  CHECK(server.DoMulti(ops).back().error == ErrorCode::kOk);

  // A recursive delete of 102 nodes, and 98 or 99 creates with 100 missing parents each.
  Server other;
  other.OpenSession();
  other.DoMulti({ops.front(), ops.back()});
  const size_t creates = GENERATE(98u, 99u);
  std::vector<Op> both(ops.begin() + 1, ops.begin() + 1 + static_cast<ptrdiff_t>(creates));
  Op& remove = both.emplace_back(MakeDelete("/100"));
  remove.kind = OpKind::kDeleteRecursive;
  const OpResult removed = other.DoMulti(both).back();
  CHECK(removed.error == (creates == 98 ? ErrorCode::kOk : ErrorCode::kTooLarge));
  CHECK(removed.removed == (creates == 98 ? 102 : 0));
}

TEST_CASE("a branch that fails leaves the same tree as one that does nothing") {
  Server failing;
  Server other;
  for (Server* server : {&failing, &other}) {
    server->OpenSession();
    server->Do(MakeCreate("/a", "1"));
    server->Do(MakeCreate("/a/b", "2", CreateMode::kEphemeral));
    server->Do(MakeCreate("/c"));
  }
  const bool then = GENERATE(true, false);
  const auto with_parents = [](Op op) {
    op.with_parents = true;
    return op;
  };
  Op container = MakeCreate("/d/e/f", "", CreateMode::kContainer);
  container.kind = OpKind::kCreateContainer;
  Op ttl = MakeCreate("/d/e/t/u", "x", CreateMode::kPersistentSequentialWithTtl, kOfOwner);
  ttl.kind = OpKind::kCreateTtl;
  ttl.ttl_ms = 1000;
  Op remove = MakeDelete("/a");
  remove.kind = OpKind::kDeleteRecursive;
  const std::vector<Op> ops = {
      with_parents(container),
      with_parents(ttl),
      with_parents(MakeCreate("/g/h/i", "x", CreateMode::kEphemeral, kOfOwner)),
      MakeSetData("/a", "3"),
      MakeCreate("/a/s", "", CreateMode::kEphemeralSequential),
      remove,
      with_parents(MakeCreate("/a/b/c", "", CreateMode::kPersistent, kOfOwner)),
      MakeRead(OpKind::kGetChildren, "/"),
      MakeDelete("/none")};
  const Compare root = MakeCompare("/", CompareTarget::kExists, CompareRelation::kEqual, then);
  const ApplyResult result = failing.DoRequest(
      MakeBranches({root}, then ? ops : std::vector<Op>{}, then ? std::vector<Op>{} : ops));
  REQUIRE(result.ops.size() == ops.size());
  CHECK(result.ops.back().error == ErrorCode::kNoNode);
  other.Do(MakeDelete("/none"));
  CHECK(failing.events().empty());
  CHECK(failing.tree().digest() == other.tree().digest());
  CHECK(failing.tree().ComputeDigest() == failing.tree().digest());
  CHECK(failing.tree().node_count() == other.tree().node_count());
  CHECK(failing.tree().ephemeral_count() == other.tree().ephemeral_count());
  CHECK(failing.tree().data_bytes() == other.tree().data_bytes());
  // Also in what is not part of the digest: the next sequence numbers, and the lists.
  for (Server* server : {&failing, &other}) {
    server->DoMulti({ops.begin(), ops.end() - 1});
    CHECK(server->tree().ComputeDigest() == server->tree().digest());
  }
  CHECK(failing.tree().digest() == other.tree().digest());
  CHECK(failing.events() == other.events());
}

}  // namespace
}  // namespace quorate::tree
