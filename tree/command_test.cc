// SPDX-License-Identifier: Apache-2.0

#include "tree/command.h"

#include <catch2/catch.hpp>
#include <random>
#include <string>

#include "base/bytes.h"

namespace quorate::tree {
namespace {

CommandHeader SampleHeader() {
  CommandHeader header;
  header.proposer = Proposer{3, 0x1122334455667788};
  header.proposer_tag = 0xAABBCCDD;
  header.sequence = 42;
  header.time_ms = 1'700'000'000'123;
  header.session = SessionId(0x0100000000000007);
  header.attach_zxid = Zxid(99);
  return header;
}

Request SampleMulti() {
  Request request;
  request.multi = true;
  request.identities = {Identity{"ip", "127.0.0.1"}, Identity{"digest", "u:h"}};
  Op create;
  create.kind = OpKind::kCreate;
  create.path = "/a";
  create.has_data = true;
  create.data = std::string_view("x\0y", 3);
  create.acl = {Acl{31, Identity{"world", "anyone"}}, Acl{1, Identity{"auth", ""}}};
  create.mode = CreateMode::kEphemeralSequential;
  Op remove;
  remove.kind = OpKind::kDelete;
  remove.path = "/b";
  remove.version = 5;
  Op set;
  set.kind = OpKind::kSetData;
  set.path = "/c";
  set.version = -1;
  Op empty = set;
  empty.has_data = true;
  Op check;
  check.kind = OpKind::kCheck;
  check.path = "/d";
  check.version = 7;
  Op set_acl;
  set_acl.kind = OpKind::kSetAcl;
  set_acl.path = "/e";
  set_acl.acl = {Acl{31, Identity{"ip", "10.0.0.0/8"}}};
  set_acl.version = 2;
  Op container = create;
  container.kind = OpKind::kCreateContainer;
  container.mode = CreateMode::kContainer;
  Op ttl = create;
  ttl.kind = OpKind::kCreateTtl;
  ttl.mode = CreateMode::kPersistentWithTtl;
  ttl.ttl_ms = 0x0102030405;
  Op check_absent;
  check_absent.kind = OpKind::kCheckAbsent;
  check_absent.path = "/f";
  Op remove_all = remove;
  remove_all.kind = OpKind::kDeleteRecursive;
  Op check_created;
  check_created.kind = OpKind::kCheckCreated;
  check_created.path = "/g";
  check_created.created_zxid = Zxid(0x0102030405060708);
  Op refused;
  refused.kind = OpKind::kRefused;
  refused.refusal = ErrorCode::kNoSpace;
  Op check_not_exists = check;
  check_not_exists.kind = OpKind::kCheckNotExists;
  Op create_if_not_exists = create;
  create_if_not_exists.kind = OpKind::kCreateIfNotExists;
  Op remove_subtree;
  remove_subtree.kind = OpKind::kRemoveSubtree;
  remove_subtree.path = "/h";
  remove_subtree.limit = 0xFEDCBA98;
  Op check_stat = check;
  check_stat.kind = OpKind::kCheckStat;
  check_stat.expected = {Zxid(1), Zxid(2), 3, 4, 5, 6, 7, SessionId(8), 9, 10, Zxid(11)};
  Op try_delete = remove;
  try_delete.kind = OpKind::kTryDelete;
  Op with_parents = ttl;
  with_parents.with_parents = true;
  Op get;
  get.kind = OpKind::kGet;
  get.path = "/i";
  Op exists = get;
  exists.kind = OpKind::kExists;
  Op get_children = get;
  get_children.kind = OpKind::kGetChildren;
  request.ops = {create,
                 remove,
                 set,
                 empty,
                 check,
                 set_acl,
                 container,
                 ttl,
                 check_absent,
                 remove_all,
                 check_created,
                 refused,
                 check_not_exists,
                 create_if_not_exists,
                 remove_subtree,
                 check_stat,
                 try_delete,
                 with_parents,
                 get,
                 exists,
                 get_children};
  return request;
}

// Gives the request branches.
Request WithBranches(Request request) {
  request.has_branches = true;
  request.then_count = 3;
  request.compares = {
      {CompareTarget::kExists, CompareRelation::kEqual, "/a", 1, {}},
      {CompareTarget::kMzxid, CompareRelation::kLess, "/b", 0x0102030405060708, {}},
      {CompareTarget::kValue, CompareRelation::kGreater, "/c", 0, std::string_view("x\0y", 3)},
      {CompareTarget::kVersion, CompareRelation::kNotEqual, "/d", -1, {}}};
  return request;
}

void RequireSame(const Request& a, const Request& b) {
  REQUIRE(a.multi == b.multi);
  REQUIRE(a.enforces_quota == b.enforces_quota);
  REQUIRE(a.identities == b.identities);
  REQUIRE(a.ops.size() == b.ops.size());
  for (size_t i = 0; i < a.ops.size(); ++i) {
    CAPTURE(i);
    REQUIRE(a.ops[i].kind == b.ops[i].kind);
    REQUIRE(a.ops[i].path == b.ops[i].path);
    REQUIRE(a.ops[i].has_data == b.ops[i].has_data);
    REQUIRE(a.ops[i].data == b.ops[i].data);
    REQUIRE(a.ops[i].acl == b.ops[i].acl);
    REQUIRE(a.ops[i].mode == b.ops[i].mode);
    REQUIRE(a.ops[i].version == b.ops[i].version);
    REQUIRE(a.ops[i].ttl_ms == b.ops[i].ttl_ms);
    REQUIRE(a.ops[i].created_zxid == b.ops[i].created_zxid);
    REQUIRE(a.ops[i].refusal == b.ops[i].refusal);
    REQUIRE(a.ops[i].limit == b.ops[i].limit);
    REQUIRE(a.ops[i].expected == b.ops[i].expected);
    REQUIRE(a.ops[i].with_parents == b.ops[i].with_parents);
  }
  REQUIRE(a.has_branches == b.has_branches);
  REQUIRE(a.then_count == b.then_count);
  REQUIRE(a.compares.size() == b.compares.size());
  for (size_t i = 0; i < a.compares.size(); ++i) {
    CAPTURE(i);
    REQUIRE(a.compares[i].target == b.compares[i].target);
    REQUIRE(a.compares[i].relation == b.compares[i].relation);
    REQUIRE(a.compares[i].path == b.compares[i].path);
    REQUIRE(a.compares[i].number == b.compares[i].number);
    REQUIRE(a.compares[i].value == b.compares[i].value);
  }
}

TEST_CASE("a header is decoded as it was encoded, at the documented offsets") {
  CommandHeader header = SampleHeader();
  header.kind = CommandKind::kExpireSession;
  std::string bytes;
  AppendCloseSession(header, &bytes);
  REQUIRE(bytes.size() == kCommandHeaderBytes);
  CHECK(bytes[0] == 1);
  CHECK(bytes[1] == 4);
  CHECK(LoadInt<std::endian::little, uint16_t>(bytes.data() + 2) == 3);
  CHECK(LoadInt<std::endian::little, uint32_t>(bytes.data() + 4) == 0xAABBCCDD);
  CHECK(LoadInt<std::endian::little, int64_t>(bytes.data() + 8) == header.time_ms);
  CHECK(LoadInt<std::endian::little, uint64_t>(bytes.data() + 16) == header.proposer.incarnation);
  CHECK(LoadInt<std::endian::little, uint64_t>(bytes.data() + 24) == 42);
  CHECK(LoadInt<std::endian::little, int64_t>(bytes.data() + 32) == header.session.value());
  CHECK(LoadInt<std::endian::little, int64_t>(bytes.data() + 40) == 99);

  const absl::StatusOr<CommandHeader> read = DecodeHeader(bytes);
  REQUIRE(read.ok());
  CHECK(read->kind == CommandKind::kExpireSession);
  CHECK(read->proposer == header.proposer);
  CHECK(read->proposer_tag == header.proposer_tag);
  CHECK(read->sequence == header.sequence);
  CHECK(read->time_ms == header.time_ms);
  CHECK(read->session == header.session);
  CHECK(read->attach_zxid == header.attach_zxid);
}

TEST_CASE("StampTime and StampSequence write into an encoded command in place") {
  std::string bytes;
  AppendCreateSession(SampleHeader(), 4000, "secret", &bytes);
  const std::string before = bytes;
  StampTime(bytes.data(), 5);
  StampSequence(bytes.data(), 6);
  const absl::StatusOr<CommandHeader> read = DecodeHeader(bytes);
  REQUIRE(read.ok());
  CHECK(read->time_ms == 5);
  CHECK(read->sequence == 6);
  StampTime(bytes.data(), SampleHeader().time_ms);
  StampSequence(bytes.data(), SampleHeader().sequence);
  CHECK(bytes == before);
}

TEST_CASE("the first path of a command is found without the bytes behind it") {
  CommandHeader header;
  header.session = SessionId(5);
  Request request;
  request.multi = true;
  request.identities = {{"digest", "alice:x"}, {"ip", "10.0.0.1"}};
  for (const std::string_view path : {"/first", "/second"}) {
    Op& op = request.ops.emplace_back();
    op.kind = OpKind::kDelete;
    op.path = path;
  }
  std::string bytes;
  SECTION("a request") { AppendRequest(header, request, &bytes); }
  SECTION("a numbered request") { AppendSequencedRequest(header, 7, 6, request, &bytes); }
  const size_t size = bytes.size();
  header.kind = CommandKind::kCloseSession;
  AppendCloseSession(header, &bytes);
  CHECK(FirstPathOf(bytes) == "/first");
  CHECK(FirstPathOf(std::string_view(bytes).substr(size)).empty());
  // However much is missing, nothing behind the end is read.
  const size_t end = bytes.find("/first") + request.ops[0].path.size();
  for (size_t i = 0; i < size; ++i) {
    const std::string part = bytes.substr(0, i);
    CHECK((FirstPathOf(part).empty() || i >= end));
  }
}

TEST_CASE("a session command has a timeout and a password") {
  std::string bytes;
  AppendCreateSession(SampleHeader(), 4000, "secret", &bytes);
  absl::StatusOr<SessionBody> body = DecodeSessionBody(bytes);
  REQUIRE(body.ok());
  CHECK(body->timeout_ms == 4000);
  CHECK(body->password == "secret");
  CHECK_FALSE(DecodeRequest(bytes).ok());
  CHECK_FALSE(DecodeSessionBody(bytes + "x").ok());
  CHECK_FALSE(DecodeSessionBody(bytes.substr(0, bytes.size() - 1)).ok());

  std::string attach;
  AppendAttachSession(SampleHeader(), 5000, "", &attach);
  REQUIRE(DecodeHeader(attach)->kind == CommandKind::kAttachSession);
  CHECK(DecodeSessionBody(attach)->timeout_ms == 5000);
}

TEST_CASE("headers that no version writes are refused") {
  std::string good;
  AppendCreateSession(SampleHeader(), 4000, "secret", &good);
  CHECK_FALSE(DecodeHeader("").ok());
  CHECK_FALSE(DecodeHeader(std::string_view(good).substr(0, kCommandHeaderBytes - 1)).ok());
  for (char kind : {0, 8, 100}) {
    std::string bad = good;
    bad[1] = kind;
    CHECK_FALSE(DecodeHeader(bad).ok());
  }
  std::string format = good;
  format[0] = 2;
  CHECK(DecodeHeader(format).status().code() == absl::StatusCode::kInvalidArgument);
  std::string no_session = good;
  StoreInt<std::endian::little>(no_session.data() + 32, int64_t{0});
  CHECK_FALSE(DecodeHeader(no_session).ok());
  for (uint64_t taken : {uint64_t{1} << 63, uint64_t{0xFF} << 56 | 5}) {
    std::string other_kind = good;
    StoreInt<std::endian::little>(other_kind.data() + 32, taken);
    CHECK_FALSE(DecodeHeader(other_kind).ok());
  }
  std::string close_with_body = good;
  close_with_body[1] = 3;
  CHECK_FALSE(DecodeHeader(close_with_body).ok());
}

TEST_CASE("a negative timeout is refused") {
  std::string bytes;
  AppendCreateSession(SampleHeader(), -1, "secret", &bytes);
  CHECK(DecodeSessionBody(bytes).status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("a deleteContainer command has the path of the container") {
  std::string bytes;
  AppendDeleteContainer(SampleHeader(), "/a/b", &bytes);
  REQUIRE(DecodeHeader(bytes)->kind == CommandKind::kDeleteContainer);
  REQUIRE(DecodeDeleteContainer(bytes).ok());
  CHECK(*DecodeDeleteContainer(bytes) == "/a/b");
  CHECK_FALSE(DecodeDeleteContainer(bytes + "x").ok());
  CHECK_FALSE(DecodeDeleteContainer(bytes.substr(0, bytes.size() - 1)).ok());
  CHECK_FALSE(DecodeRequest(bytes).ok());
  bytes[1] = static_cast<char>(CommandKind::kRequest);
  CHECK_FALSE(DecodeDeleteContainer(bytes).ok());
}

TEST_CASE("a request is decoded as it was encoded") {
  const Request request = SampleMulti();
  std::string bytes;
  AppendRequest(SampleHeader(), request, &bytes);
  REQUIRE(DecodeHeader(bytes)->kind == CommandKind::kRequest);
  const absl::StatusOr<Request> read = DecodeRequest(bytes);
  REQUIRE(read.ok());
  RequireSame(*read, request);
  Request enforced = request;
  enforced.enforces_quota = true;
  std::string other;
  AppendRequest(SampleHeader(), enforced, &other);
  REQUIRE(DecodeRequest(other).ok());
  RequireSame(*DecodeRequest(other), enforced);
  other[kCommandHeaderBytes] = 9;  // an unknown flag
  CHECK_FALSE(DecodeRequest(other).ok());

  CHECK_FALSE(read->ops[2].has_data);
  CHECK(read->ops[3].has_data);
  const char* data = read->ops[0].data.data();
  CHECK((data >= bytes.data() && data < bytes.data() + bytes.size()));

  std::string empty;
  AppendRequest(SampleHeader(), Request{true, {}, {}}, &empty);
  REQUIRE(DecodeRequest(empty).ok());
  CHECK(DecodeRequest(empty)->ops.empty());
}

TEST_CASE("a sequenced request is decoded as it was encoded, at the documented offsets") {
  const Request request = SampleMulti();
  std::string bytes;
  AppendSequencedRequest(SampleHeader(), 0x1122334455667788, 0x99, request, &bytes);
  REQUIRE(DecodeHeader(bytes)->kind == CommandKind::kSequencedRequest);
  CHECK(bytes[1] == 7);
  CHECK(LoadInt<std::endian::little, uint64_t>(bytes.data() + 48) == 0x1122334455667788);
  CHECK(LoadInt<std::endian::little, uint64_t>(bytes.data() + 56) == 0x99);
  absl::StatusOr<SequencedRequest> read = DecodeSequencedRequest(bytes);
  REQUIRE(read.ok());
  CHECK(read->sequence == 0x1122334455667788);
  CHECK(read->acknowledged == 0x99);
  RequireSame(read->request, request);
  // The rest is the same as in a request without a number.
  std::string plain;
  AppendRequest(SampleHeader(), request, &plain);
  CHECK(bytes.substr(64) == plain.substr(48));
  CHECK_FALSE(DecodeRequest(bytes).ok());
  CHECK_FALSE(DecodeSequencedRequest(plain).ok());

  for (size_t size = 0; size < bytes.size(); ++size) {
    CAPTURE(size);
    REQUIRE_FALSE(DecodeSequencedRequest(std::string_view(bytes).substr(0, size)).ok());
  }
  CHECK_FALSE(DecodeSequencedRequest(bytes + '\0').ok());
  std::string no_session = bytes;
  StoreInt<std::endian::little>(no_session.data() + 32, int64_t{0});
  CHECK_FALSE(DecodeHeader(no_session).ok());
  StoreInt<std::endian::little>(bytes.data() + 48, uint64_t{0});
  CHECK(DecodeSequencedRequest(bytes).status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("a request with branches is decoded as it was encoded") {
  const Request request = WithBranches(SampleMulti());
  std::string bytes;
  AppendRequest(SampleHeader(), request, &bytes);
  const absl::StatusOr<Request> read = DecodeRequest(bytes);
  REQUIRE(read.ok());
  RequireSame(*read, request);
  CHECK(OpsOf(*read, Branch::kThen).size() == 3);
  CHECK(OpsOf(*read, Branch::kThen).front().path == "/a");
  CHECK(OpsOf(*read, Branch::kOtherwise).size() == request.ops.size() - 3);
  CHECK(OpsOf(*read, Branch::kOtherwise).front().has_data);
  CHECK(OpsOf(SampleMulti(), Branch::kNone).size() == request.ops.size());
  CHECK(FirstPathOf(bytes) == "/a");
  for (size_t size = 0; size < bytes.size(); ++size) {
    CAPTURE(size);
    REQUIRE_FALSE(DecodeRequest(std::string_view(bytes).substr(0, size)).ok());
  }
  CHECK_FALSE(DecodeRequest(bytes + '\0').ok());

  // Branches without any operation or compare.
  std::string empty;
  AppendRequest(SampleHeader(), Request{true, {}, {}, false, true, {}, 0}, &empty);
  REQUIRE(DecodeRequest(empty).ok());
  const size_t then_count = empty.size() - 8;
  StoreInt<std::endian::little>(empty.data() + then_count, uint32_t{1});
  CHECK_FALSE(DecodeRequest(empty).ok());  // more operations of a branch than of the request
  StoreInt<std::endian::little>(empty.data() + then_count, uint32_t{0});
  StoreInt<std::endian::little>(empty.data() + then_count + 4, uint32_t{0xFFFFFFFF});
  CHECK_FALSE(DecodeRequest(empty).ok());  // a count that exceeds the command
}

TEST_CASE("a request that is cut short or has further bytes is refused") {
  std::string bytes;
  AppendRequest(SampleHeader(), SampleMulti(), &bytes);
  for (size_t size = 0; size < bytes.size(); ++size) {
    CAPTURE(size);
    REQUIRE_FALSE(DecodeRequest(std::string_view(bytes).substr(0, size)).ok());
  }
  CHECK_FALSE(DecodeRequest(bytes + '\0').ok());
}

TEST_CASE("a request with many short operations is decoded") {
  Request request;
  request.multi = true;
  for (int i = 0; i < 100; ++i) {
    Op& op = request.ops.emplace_back();
    op.kind = OpKind::kCheckAbsent;
    op.path = "/";
  }
  std::string bytes;
  AppendRequest(SampleHeader(), request, &bytes);
  REQUIRE(DecodeRequest(bytes).ok());
  RequireSame(*DecodeRequest(bytes), request);
}

TEST_CASE("a request that is not a multi has exactly one operation") {
  std::string bytes;
  AppendRequest(SampleHeader(), SampleMulti(), &bytes);
  bytes[kCommandHeaderBytes] = 0;
  CHECK_FALSE(DecodeRequest(bytes).ok());
  std::string empty;
  AppendRequest(SampleHeader(), Request{true, {}, {}}, &empty);
  empty[kCommandHeaderBytes] = 0;
  CHECK_FALSE(DecodeRequest(empty).ok());
}

// Any bytes that decode are exactly the bytes that AppendRequest would write. All other bytes are
// refused without a crash.
TEST_CASE("decoding a command accepts only bytes that encoding writes, and never crashes") {
  const bool has_branches = GENERATE(false, true);
  std::string good;
  AppendRequest(SampleHeader(), has_branches ? WithBranches(SampleMulti()) : SampleMulti(), &good);
  std::mt19937_64 random(20240229);
  int accepted = 0;
  for (int round = 0; round < 200'000; ++round) {
    std::string bytes = good;
    const int changes = 1 + static_cast<int>(random() % 3);
    for (int i = 0; i < changes; ++i) {
      const size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
          break;
        case 2:
          bytes.erase(at, 1 + random() % 8);
          break;
        default:
          bytes.insert(at, 1 + random() % 8, static_cast<char>(random() % 3));
      }
      if (bytes.empty()) bytes = good;
    }
    // The copy is on the heap and of the exact size, so that a sanitizer detects a read beyond its
    // end.
    const std::vector<char> exact(bytes.begin(), bytes.end());
    const std::string_view view(exact.data(), exact.size());
    const absl::StatusOr<Request> read = DecodeRequest(view);
    static_cast<void>(DecodeSessionBody(view));
    if (!read.ok()) {
      REQUIRE(read.status().code() == absl::StatusCode::kInvalidArgument);
      continue;
    }
    ++accepted;
    std::string again;
    AppendRequest(*DecodeHeader(view), *read, &again);
    REQUIRE(again == bytes);
  }
  CHECK(accepted > 1000);
}

TEST_CASE("no memory is allocated for a count that exceeds the command") {
  std::string bytes;
  AppendRequest(SampleHeader(), Request{true, {}, {}}, &bytes);
  StoreInt<std::endian::little>(bytes.data() + kCommandHeaderBytes + 1, uint32_t{0xFFFFFFFF});
  CHECK_FALSE(DecodeRequest(bytes).ok());
}

TEST_CASE("operations that older members do not know need a newer version, alone and in a multi") {
  Request request = SampleMulti();
  CommandHeader numbered = SampleHeader();
  numbered.kind = CommandKind::kSequencedRequest;
  for (; request.ops.size() > 17; request.ops.pop_back()) {
    CAPTURE(request.ops.size());
    CHECK(VersionNeeded(Request{false, {request.ops.back()}, {}}) == kVersionTransactions);
    CHECK(VersionNeeded(request) == kVersionTransactions);
  }
  for (; request.ops.size() > 12; request.ops.pop_back()) {
    CAPTURE(request.ops.size());
    CHECK(VersionNeeded(Request{false, {request.ops.back()}, {}}) == kVersionKeeper);
    CHECK(VersionNeeded(request) == kVersionKeeper);
  }
  CHECK(VersionNeeded(request) == kVersionCheckCreated);
  CHECK(VersionNeeded(numbered, request) == kVersionCheckCreated);
  request.ops.resize(10);
  CHECK(VersionNeeded(request) == kVersionNumbered);
  request.ops.resize(8);
  CHECK(VersionNeeded(request) == kVersionExpiry);
  request.ops.resize(6);
  CHECK(VersionNeeded(request) == kVersionFirst);
  request.enforces_quota = true;
  CHECK(VersionNeeded(request) == kVersionExpiry);
  CHECK(VersionNeeded(SampleHeader(), request) == kVersionExpiry);
  CommandHeader no_session = SampleHeader();
  no_session.session = kNoSession;
  CHECK(VersionNeeded(no_session, request) == kVersionNumbered);
  CHECK(VersionNeeded(numbered, request) == kVersionNumbered);
  CommandHeader local = SampleHeader();
  local.kind = CommandKind::kRequest;
  local.attach_zxid = Zxid(0);
  CHECK(VersionNeeded(local, request) == kVersionLocalSessions);
  request.has_branches = true;
  CHECK(VersionNeeded(request) == kVersionTransactions);
  CHECK(VersionNeeded(CommandKind::kSequencedRequest) == kVersionNumbered);
  CHECK(VersionNeeded(CommandKind::kRequest) == kVersionFirst);
  CHECK(VersionNeeded(CommandKind::kExpireSession) == kVersionFirst);
  CHECK(VersionNeeded(CommandKind::kDeleteContainer) == kVersionExpiry);
}

TEST_CASE("errors have names") {
  CHECK(ToString(ErrorCode::kNoNode) == "no node");
  CHECK(ToString(static_cast<ErrorCode>(-999)) == "unknown error");
  CHECK(OpenAcl() == std::vector<Acl>{Acl{31, Identity{"world", "anyone"}}});
}

}  // namespace
}  // namespace quorate::tree
