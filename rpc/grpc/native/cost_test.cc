// SPDX-License-Identifier: Apache-2.0

// Measures the cost of the most expensive request of each kind on a large tree. Prints a table, and
// checks it against bounds. QUORATE_COST_NODES sets the number of znodes: a cost that grows with it
// exceeds its bound.
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rpc/frontend/listing.h"
#include "rpc/frontend/request_limits.h"
#include "rpc/grpc/native/testing/fixture.h"
#include "rpc/proto/quorate/v1/lock.pb.h"
#include "rpc/zookeeper/testing/loop_fixture.h"
#include "tree/limits.h"

// The bytes allocated now, and their maximum.
static std::atomic<int64_t> allocated{0};
static std::atomic<int64_t> most_allocated{0};
// The bytes of all allocations so far.
static std::atomic<int64_t> all_allocated{0};

void* operator new(size_t size) {
  void* block = std::malloc(size);
  if (block == nullptr) throw std::bad_alloc();
  const auto bytes = static_cast<int64_t>(malloc_usable_size(block));
  all_allocated += bytes;
  const int64_t now = allocated.fetch_add(bytes) + bytes;
  if (now > most_allocated) most_allocated = now;
  return block;
}
void operator delete(void* block) noexcept {
  if (block != nullptr) allocated -= static_cast<int64_t>(malloc_usable_size(block));
  std::free(block);
}
void operator delete(void* block, size_t) noexcept { operator delete(block); }

namespace quorate::rpc {
namespace {

constexpr size_t kMiB = 1u << 20;
constexpr size_t kRequestBytes = 1'000'000;  // about the largest that jute.maxbuffer allows

size_t Nodes() {
  const char* text = std::getenv("QUORATE_COST_NODES");
  return text == nullptr ? 20'000 : std::strtoull(text, nullptr, 10);
}

// The bounds of one request's cost.
struct Bounds {
  size_t sent = 0;  // bytes
  size_t log = 0;   // bytes
  size_t allocated = 0;
};

class Table {
 public:
  Table() {
    std::printf(
        "| request | worst case | bytes sent | bytes in the log | bytes allocated "
        "|\n| --- | --- | --- | --- | --- |\n");
  }
  void Add(const std::string& name, const char* worst, size_t sent, size_t log, size_t bytes) {
    std::printf("| %s | %s | %zu | %zu | %zu |\n", name.c_str(), worst, sent, log, bytes);
  }
};

std::string WatchedPaths(size_t lists, const std::string& first_list) {
  std::string body(8, '\0');
  body += first_list;
  for (size_t i = 1; i < lists; ++i) body += std::string(4, '\0');
  return body;
}

std::string Repeated(size_t bytes, const std::string& item) {
  std::string list;
  BigEndianWriter to(&list);
  const size_t count = bytes / (4 + item.size());
  to.Int(static_cast<int32_t>(count));
  for (size_t i = 0; i < count; ++i) to.String(item);
  return list;
}

std::string Multi(zk::OpCode op, const std::string& body) {
  std::string multi;
  BigEndianWriter to(&multi);
  while (multi.size() < kRequestBytes) {
    zk::WriteMultiResultHeader(op, to);
    to.Raw(body);
  }
  zk::WriteMultiEnd(to);
  return multi;
}

std::string PathAndInt(const std::string& path, int32_t number) {
  std::string body = zk::Path(path);
  BigEndianWriter(&body).Int(number);
  return body;
}

// The body of checkStat, with a stat whose fields match any value.
std::string CheckStat(const std::string& path) {
  constexpr size_t kStatBytes = 68;
  return PathAndInt(path, -1) + std::string(kStatBytes, '\xff');
}

// The body of setACL with a list of 1 MB.
std::string SetAcl(const std::string& path) {
  std::string body = zk::Path(path);
  BigEndianWriter to(&body);
  constexpr size_t kEntryBytes = 40;
  const size_t count = kRequestBytes / kEntryBytes - 1;
  to.Int(static_cast<int32_t>(count));
  for (size_t i = 0; i < count; ++i) {
    to.Int<int32_t>(tree::permission::kAll);
    to.String("digest");
    to.String("user-" + std::to_string(1'000'000 + i) + ":hash-hash");
  }
  to.Int<int32_t>(-1);
  return body;
}

TEST_CASE("the cost of one ZooKeeper request of any kind is bounded") {
  zk::Fixture f;
  const uint32_t tag = f.ConnectSession();
  const auto call = [&](zk::OpCode op, const std::string& body) {
    REQUIRE(f.Call(tag, op, body).error == tree::ErrorCode::kOk);
  };
  call(zk::OpCode::kCreate, zk::Create("/d", std::string(900'000, 'x')));
  call(zk::OpCode::kCreate, zk::Create("/d/m", ""));
  const size_t nodes = Nodes();
  for (size_t made = 0; made < nodes;) {
    std::string multi;
    BigEndianWriter to(&multi);
    for (size_t i = 0; i < 1000 && made < nodes; ++i, ++made) {
      zk::WriteMultiResultHeader(zk::OpCode::kCreate, to);
      to.Raw(zk::Create("/d/m/node-" + std::to_string(made), "", 1));
    }
    zk::WriteMultiEnd(to);
    call(zk::OpCode::kMulti, multi);
  }
  // The most that one recursive removal removes, with paths that are rather long.
  const std::string removed = "/" + std::string(500, 'r');
  call(zk::OpCode::kCreate, zk::Create(removed, ""));
  for (size_t made = 1; made < tree::kDeleteRecursiveMax;) {
    std::string multi;
    BigEndianWriter to(&multi);
    for (size_t i = 0; i < 1000 && made < tree::kDeleteRecursiveMax; ++i, ++made) {
      zk::WriteMultiResultHeader(zk::OpCode::kCreate, to);
      to.Raw(zk::Create(removed + "/" + std::to_string(made), "x"));
    }
    zk::WriteMultiEnd(to);
    call(zk::OpCode::kMulti, multi);
  }
  struct Case {
    zk::OpCode op;
    const char* worst;
    std::string body;
    Bounds bounds;
  };
  const size_t reply_max = static_cast<size_t>(f.config.max_reply_bytes) + 1024;
  const std::string large(kRequestBytes - 1000, 'x');
  const std::string list = PathAndInt("/d/m", 0).substr(0, 9);  // the path, no watch
  const std::vector<Case> cases = {
      {zk::OpCode::kPing, "any", "", {20, 0, kMiB}},
      {zk::OpCode::kExists,
       "a path of 1 MB",
       zk::PathAndWatch("/" + large, true),
       {100, 0, 8 * kMiB}},
      {zk::OpCode::kGetData, "data of 900 KB", zk::PathAndWatch("/d", false), {kMiB, 0, 8 * kMiB}},
      {zk::OpCode::kGetAcl, "any", zk::Path("/d"), {200, 0, kMiB}},
      {zk::OpCode::kGetChildren,
       "all znodes",
       zk::PathAndWatch("/d/m", false),
       {reply_max, 0, 4 * reply_max}},
      {zk::OpCode::kGetChildren2,
       "all znodes",
       zk::PathAndWatch("/d/m", false),
       {reply_max, 0, 4 * reply_max}},
      {zk::OpCode::kMultiRead,
       "1 MB of getData of 900 KB each",
       Multi(zk::OpCode::kGetData, zk::PathAndWatch("/d", false)),
       {reply_max, 0, 4 * reply_max}},
      {zk::OpCode::kMultiRead,
       "1 MB of getChildren of all znodes",
       Multi(zk::OpCode::kGetChildren, list),
       {reply_max, 0, 4 * reply_max}},
      {zk::OpCode::kGetEphemerals, "all znodes", zk::Path("/"), {reply_max, 0, 4 * reply_max}},
      {zk::OpCode::kGetAllChildrenNumber, "all znodes", zk::Path("/d"), {100, 0, kMiB}},
      {zk::OpCode::kSetWatches,
       "1 MB of paths that changed",
       WatchedPaths(3, Repeated(kRequestBytes, "/")),
       {8 * kMiB, 0, 64 * kMiB}},
      {zk::OpCode::kSetWatches2,
       "1 MB of paths that changed",
       WatchedPaths(5, Repeated(kRequestBytes, "/")),
       {8 * kMiB, 0, 64 * kMiB}},
      {zk::OpCode::kAddWatch, "a path of 1 MB", PathAndInt("/" + large, 1), {100, 0, 8 * kMiB}},
      {zk::OpCode::kCheckWatches, "a path of 1 MB", PathAndInt("/" + large, 3), {100, 0, 8 * kMiB}},
      {zk::OpCode::kRemoveWatches,
       "a path of 1 MB",
       PathAndInt("/" + large, 3),
       {100, 0, 8 * kMiB}},
      {zk::OpCode::kWhoAmI, "any", "", {1000, 0, kMiB}},
      {zk::OpCode::kFilteredList,
       "the ephemerals among all znodes",
       list + std::string("\2"),
       {reply_max, 0, 4 * reply_max}},
      {zk::OpCode::kFilteredListDetailed,
       "all znodes with stats and data",
       list + std::string("\0\1\1", 3),
       {reply_max, 0, 4 * reply_max}},
      {zk::OpCode::kMultiRead,
       "1 MB of lists of all znodes with stats and data",
       Multi(zk::OpCode::kFilteredListDetailed, list + std::string("\0\1\1", 3)),
       {reply_max, 0, 4 * reply_max}},
      {zk::OpCode::kListRecursive,
       "all znodes",
       PathAndInt("/d", -1),
       {reply_max, 0, 4 * reply_max}},
      {zk::OpCode::kCheckNotExists, "any", PathAndInt("/none", -1), {100, 500, kMiB}},
      {zk::OpCode::kCreateIfNotExists,
       "data of 1 MB",
       zk::Create("/large3", large),
       {100, 2 * kMiB, 16 * kMiB}},
      {zk::OpCode::kRemoveRecursive,
       "more than 10,000 znodes",
       PathAndInt("/d/m", -1),
       {100, 500, 8 * kMiB}},
      {zk::OpCode::kRemoveRecursive,
       "10,000 znodes",
       PathAndInt(removed, -1),
       {100, 2000, 16 * kMiB}},
      {zk::OpCode::kCheckStat, "any", CheckStat("/d"), {100, 500, kMiB}},
      {zk::OpCode::kTryRemove, "any", PathAndInt("/d", -1), {100, 500, kMiB}},
      {zk::OpCode::kMulti,
       "1 MB of removeRecursive of missing znodes",
       Multi(zk::OpCode::kRemoveRecursive, PathAndInt("/n", -1)),
       {8 * kMiB, 2 * kMiB, 128 * kMiB}},
      {zk::OpCode::kReconfig, "1 MB of members", zk::Path(large), {100, 0, 8 * kMiB}},
      {zk::OpCode::kCreate,
       "data of 1 MB",
       zk::Create("/large", large),
       {100, 2 * kMiB, 16 * kMiB}},
      {zk::OpCode::kCreate2,
       "data of 1 MB",
       zk::Create("/large2", large),
       {200, 2 * kMiB, 16 * kMiB}},
      {zk::OpCode::kCreateContainer,
       "data of 1 MB",
       zk::Create("/large4", large, static_cast<int32_t>(tree::CreateMode::kContainer)),
       {200, 2 * kMiB, 16 * kMiB}},
      {zk::OpCode::kCreateTtl,
       "data of 1 MB",
       zk::Create("/large5", large, static_cast<int32_t>(tree::CreateMode::kPersistentWithTtl)) +
           std::string(6, '\0') + std::string("\1\0", 2),
       {200, 2 * kMiB, 16 * kMiB}},
      {zk::OpCode::kDeleteContainer, "any", zk::Path("/d"), {100, 0, kMiB}},
      {zk::OpCode::kSetAcl, "1 MB of entries", SetAcl("/large2"), {200, 2 * kMiB, 64 * kMiB}},
      {zk::OpCode::kSetData,
       "data of 1 MB",
       zk::SetData("/large", large),
       {200, 2 * kMiB, 16 * kMiB}},
      {zk::OpCode::kCheck, "any", PathAndInt("/d", -1), {100, 500, kMiB}},
      {zk::OpCode::kDelete, "data of 1 MB", PathAndInt("/large", -1), {100, 500, 2 * kMiB}},
      {zk::OpCode::kMulti,
       "1 MB of setData",
       Multi(zk::OpCode::kSetData, zk::SetData("/d/m", "")),
       {8 * kMiB, 2 * kMiB, 128 * kMiB}},
  };
  Table table;
  for (const Case& each : cases) {
    const std::string name(zk::InfoOf(each.op).name);
    CAPTURE(name, each.worst);
    const std::string packet = zk::RequestPacket(7, each.op, each.body);
    const int64_t before = allocated;
    most_allocated = before;
    f.sockets.Write(tag, packet);
    f.sockets.RunIterations();
    size_t log = 0;
    for (const CommandBatch& batch : f.service.batches) log += batch.bytes->size();
    f.Settle();
    const size_t sent = f.sockets.received(tag).size();
    f.sockets.received(tag).clear();
    // The memory of the request, and of the reply at the client, does not count as the server's
    // memory.
    const int64_t counted =
        most_allocated - before - static_cast<int64_t>(sent) - static_cast<int64_t>(packet.size());
    const size_t bytes = static_cast<size_t>(std::max<int64_t>(counted, 0));
    table.Add(name, each.worst, sent, log, bytes);
    REQUIRE(f.sockets.open(tag));
    CHECK(sent <= each.bounds.sent);
    CHECK(log <= each.bounds.log);
    CHECK(f.loop.longest_hold() <= 3 * kNodesPerHold);
    CHECK(bytes <= each.bounds.allocated);
  }
  for (const zk::OpCodeInfo& info : zk::kOpCodes) {
    if (info.kind == zk::OpCodeKind::kNotServed || info.kind == zk::OpCodeKind::kSession) continue;
    CAPTURE(info.name);
    CHECK(std::ranges::any_of(cases, [&](const Case& each) { return each.op == info.op; }));
  }
}

}  // namespace

namespace native {
namespace {

TEST_CASE("the cost of one gRPC request of any kind is bounded") {
  Fixture f;
  f.Change(CreateOp("/d", std::string(900'000, 'x')));
  f.Change(CreateOp("/d/m"));
  const size_t nodes = Nodes();
  for (size_t made = 0; made < nodes;) {
    v1::TxnRequest request;
    for (size_t i = 0; i < 1000 && made < nodes; ++i, ++made) {
      *request.add_operations() = CreateOp("/d/m/node-" + std::to_string(made));
    }
    v1::TxnResponse response;
    REQUIRE(f.Unary(Method::kTxn, request, &response).ok());
  }
  const size_t reply_max = static_cast<size_t>(f.config.max_reply_bytes) + 1024;
  Table table;
  const auto cost = [&](const char* name, const char* worst, Method method,
                        const std::string& message, const Bounds& bounds) {
    CAPTURE(name, worst);
    const uint32_t tag = f.transport.Open(method);
    const int64_t before = allocated;
    most_allocated = before;
    f.transport.Write(tag, message);
    f.transport.RunIterations();
    size_t log = 0;
    for (const CommandBatch& batch : f.service.batches) log += batch.bytes->size();
    f.Settle();
    size_t sent = 0;
    for (const std::string& part : f.transport.received(tag)) sent += part.size();
    const int64_t counted = most_allocated - before - static_cast<int64_t>(sent);
    const size_t bytes = static_cast<size_t>(std::max<int64_t>(counted, 0));
    table.Add(name, worst, sent, log, bytes);
    CHECK(sent <= bounds.sent);
    CHECK(log <= bounds.log);
    CHECK(f.loop.longest_hold() <= 3 * kNodesPerHold);
    CHECK(bytes <= bounds.allocated);
  };
  v1::GetRequest get;
  get.set_path("/d");
  cost("Get", "data of 900 KB", Method::kGet, get.SerializeAsString(), {kMiB, 0, 8 * kMiB});
  v1::ExistsRequest exists;
  exists.set_path("/" + std::string(kRequestBytes, 'x'));
  cost("Exists", "a path of 1 MB", Method::kExists, exists.SerializeAsString(), {200, 0, 8 * kMiB});
  v1::ListRequest list;
  list.set_path("/d/m");
  cost("List", "all znodes", Method::kList, list.SerializeAsString(),
       {reply_max, 0, 12 * reply_max});
  list.set_kind(v1::CHILD_KIND_PERSISTENT);
  cost("List", "the persistent ones of all znodes", Method::kList, list.SerializeAsString(),
       {reply_max, 0, 12 * reply_max});
  list.set_kind(v1::CHILD_KIND_ALL);
  list.set_with_stats(true);
  list.set_with_data(true);
  cost("List", "all znodes with stats and data", Method::kList, list.SerializeAsString(),
       {reply_max, 0, 12 * reply_max});
  v1::ListRecursiveRequest recursive;
  recursive.set_path("/");
  cost("ListRecursive", "all znodes", Method::kListRecursive, recursive.SerializeAsString(),
       {reply_max, 0, 12 * reply_max});
  // The sent bytes of a scan are many pages: the test lets the client take all of them.
  v1::ScanRequest scan;
  scan.set_path("/");
  scan.set_with_stats(true);
  scan.set_with_data(true);
  cost("Scan", "all znodes with stats and data", Method::kScan, scan.SerializeAsString(),
       {4 * reply_max, 0, 32 * kMiB});
  scan.set_order(v1::SCAN_ORDER_LEVELS);
  scan.add_kinds(v1::ZNODE_KIND_TTL);
  cost("Scan", "none of all znodes", Method::kScan, scan.SerializeAsString(), {kMiB, 0, 32 * kMiB});
  v1::CreateRequest create;
  *create.mutable_create() = CreateOp("/large", std::string(kRequestBytes, 'x')).create();
  cost("Create", "data of 1 MB", Method::kCreate, create.SerializeAsString(),
       {300, 2 * kMiB, 16 * kMiB});
  v1::SetRequest set;
  *set.mutable_set() = SetOp("/large", std::string(kRequestBytes, 'x')).set();
  cost("Set", "data of 1 MB", Method::kSet, set.SerializeAsString(), {300, 2 * kMiB, 16 * kMiB});
  v1::TxnRequest txn;
  for (size_t i = 0; i < kRequestBytes / 10; ++i) *txn.add_operations() = SetOp("/d/m", "");
  cost("Txn", "1 MB of Set", Method::kTxn, txn.SerializeAsString(),
       {16 * kMiB, 8 * kMiB, 256 * kMiB});
  v1::TxnRequest reads;
  for (size_t i = 0; i < 500'000 / 2 - 1; ++i)
    reads.add_operations()->mutable_exists()->set_path("/d");
  cost("Txn", "more than 1 MB of reads", Method::kTxn, reads.SerializeAsString(),
       {16 * kMiB, 8 * kMiB, 256 * kMiB});
  reads.mutable_operations()->DeleteSubrange(0, reads.operations_size() - 1000);
  reads.add_operations()->mutable_get()->set_path("/d");
  cost("Txn", "1 MB of reads", Method::kTxn, reads.SerializeAsString(),
       {2 * kMiB, kMiB, 32 * kMiB});
  v1::TxnRequest compares;
  for (size_t i = 0; i < kBranchPartsMax; ++i) {
    v1::Compare* compare = compares.add_compares();
    compare->set_path("/" + std::string(2 * kMiB / kBranchPartsMax, 'x'));
    compare->set_exists(false);
  }
  cost("Txn", "2 MB of compares", Method::kTxn, compares.SerializeAsString(),
       {100, 8 * kMiB, 32 * kMiB});
  // A failure has a result for each compare.
  for (v1::Compare& compare : *compares.mutable_compares()) compare.set_path("x");
  cost("Txn", "the most compares, of which the first cannot be made", Method::kTxn,
       compares.SerializeAsString(), {100, kMiB, 16 * kMiB});
  v1::TxnRequest deep_create;
  v1::Operation::Create* with_parents = deep_create.add_operations()->mutable_create();
  for (int i = 0; i < 2800; ++i) with_parents->mutable_path()->append("/a");
  with_parents->set_with_parents(true);
  cost("Txn", "a create with 8 MB of paths of parents", Method::kTxn,
       deep_create.SerializeAsString(), {16'000, 16'000, 32 * kMiB});
  // A list may have as many children as its limit allows, with names of a few bytes.
  v1::TxnRequest siblings;
  siblings.add_operations()->mutable_create()->set_path("/l");
  for (int i = 0; i < 7900; ++i) {
    siblings.add_operations()->mutable_create()->set_path("/l/" + std::to_string(i));
  }
  v1::TxnResponse siblings_made;
  REQUIRE(f.Unary(Method::kTxn, siblings, &siblings_made).ok());
  v1::TxnRequest lists;
  lists.add_operations()->mutable_list()->set_path("/l");
  cost("Txn", "a list of 7,900 children", Method::kTxn, lists.SerializeAsString(),
       {kMiB, 500, 8 * kMiB});
  lists.mutable_operations(0)->mutable_list()->set_path("/d/m");
  cost("Txn", "a list of all znodes", Method::kTxn, lists.SerializeAsString(), {500, 500, kMiB});
  // Each parent has the list of the create, which is looked up once and copied once.
  v1::TxnRequest protected_create;
  for (int top = 0; top < 3; ++top) {
    v1::Operation::Create* deep = protected_create.add_operations()->mutable_create();
    deep->set_path("/acl" + std::to_string(top));
    for (int i = 0; i < 800; ++i) deep->mutable_path()->append("/a");
    deep->set_with_parents(true);
    for (int i = 0; i < 255; ++i) {
      v1::Acl* entry = deep->add_acl();
      entry->set_permissions(tree::permission::kAll);
      entry->set_scheme("digest");
      entry->set_id(std::to_string(1000 * top + i) + ":" + std::string(200, 'x'));
    }
  }
  const int64_t allocated_before = all_allocated;
  cost("Txn", "creates with 2,400 parents and lists of 64 KiB", Method::kTxn,
       protected_create.SerializeAsString(), {16'000, kMiB, 32 * kMiB});
  const int64_t allocated_by_creates = all_allocated - allocated_before;
  CAPTURE(allocated_by_creates);
  CHECK(allocated_by_creates < 32 * static_cast<int64_t>(kMiB));
  v1::ExistsRequest is_made;
  is_made.set_path("/acl2/a");
  v1::ExistsResponse was_made;
  REQUIRE(f.Unary(Method::kExists, is_made, &was_made).ok());
  CHECK(was_made.result().exists());
  // Each operation takes two bytes here, and far more in memory.
  v1::TxnRequest empty;
  for (size_t i = 0; i < 4 * kMiB - 16; ++i) empty.add_operations();
  cost("Txn", "8 MB of empty operations", Method::kTxn, empty.SerializeAsString(),
       {500, 0, 16 * kMiB});
  empty.mutable_operations()->DeleteSubrange(0, empty.operations_size() - 1'000'000);
  cost("Txn", "2 MB of empty operations", Method::kTxn, empty.SerializeAsString(),
       {500, 0, 128 * kMiB});
  v1::DeleteRequest remove;
  *remove.mutable_delete_() = DeleteOp("/d/m", /*recursive=*/true).delete_();
  cost("Delete", "recursive, more than 10,000 znodes", Method::kDelete, remove.SerializeAsString(),
       {300, 500, 8 * kMiB});
  v1::CreateIfNotExistsRequest create_if;
  *create_if.mutable_create() = CreateOp("/large2", std::string(kRequestBytes, 'x')).create();
  cost("CreateIfNotExists", "data of 1 MB", Method::kCreateIfNotExists,
       create_if.SerializeAsString(), {300, 2 * kMiB, 16 * kMiB});
  v1::RemoveRecursiveRequest remove_recursive;
  remove_recursive.mutable_remove()->set_path("/d/m");
  cost("RemoveRecursive", "more than 10,000 znodes", Method::kRemoveRecursive,
       remove_recursive.SerializeAsString(), {300, 500, 8 * kMiB});
  const int64_t session = [&] {
    v1::SessionOpened opened;
    f.OpenSession(&opened);
    return opened.session_id();
  }();
  const auto contender = [&](const std::string& path) {
    v1::Contender made;
    made.set_path(path);
    made.set_id(std::string(64, 'x'));
    made.set_session_id(session);
    made.set_session_password(kPassword);
    return made;
  };
  v1::AcquireRequest acquire;
  *acquire.mutable_contender() = contender("/d/m");
  acquire.set_data(std::string(kRequestBytes, 'x'));
  cost("Acquire", "data of 1 MB, among all znodes", Method::kAcquire, acquire.SerializeAsString(),
       {300, 2 * kMiB, 16 * kMiB});
  v1::ProclaimRequest proclaim;
  *proclaim.mutable_contender() = contender("/d/m");
  proclaim.set_data(std::string(kRequestBytes, 'x'));
  cost("Proclaim", "data of 1 MB, among all znodes", Method::kProclaim,
       proclaim.SerializeAsString(), {300, 2 * kMiB, 16 * kMiB});
  v1::ObserveRequest observe;
  observe.set_path("/d/m");
  cost("Observe", "data of 1 MB, among all znodes", Method::kObserve, observe.SerializeAsString(),
       {2 * kMiB, 0, 8 * kMiB});
  v1::ReleaseRequest release;
  *release.mutable_contender() = contender("/d/m");
  cost("Release", "among all znodes", Method::kRelease, release.SerializeAsString(),
       {300, 500, 8 * kMiB});
  std::string deep;
  while (deep.size() < kRequestBytes) deep += "/y";
  v1::CampaignRequest campaign;
  *campaign.mutable_contender() = contender(deep);
  cost("Campaign", "a path of 1 MB that does not exist", Method::kCampaign,
       campaign.SerializeAsString(), {300, 0, 16 * kMiB});
  v1::ResignRequest resign;
  *resign.mutable_contender() = contender(deep);
  cost("Resign", "a path of 1 MB that does not exist", Method::kResign, resign.SerializeAsString(),
       {300, 500, 16 * kMiB});
  v1::TryRemoveRequest try_remove;
  try_remove.mutable_remove()->set_path("/large2");
  cost("TryRemove", "data of 1 MB", Method::kTryRemove, try_remove.SerializeAsString(),
       {300, 500, 8 * kMiB});
}

}  // namespace
}  // namespace native
}  // namespace quorate::rpc
