// SPDX-License-Identifier: Apache-2.0

#include "tree/response_cache.h"

#include <catch2/catch.hpp>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tree/limits.h"

namespace quorate::tree {
namespace {

constexpr SessionId kSession{0x0100000000000001};

Stat LikelyStat(Zxid zxid) {
  Stat stat;
  stat.czxid = Zxid(zxid.value() - 123'456);
  stat.mzxid = zxid;
  stat.pzxid = stat.czxid;
  stat.mtime_ms = 1'700'000'123'456;
  stat.ctime_ms = 1'700'000'000'000;
  stat.version = 4321;
  stat.data_length = 100;
  return stat;
}

Stat ExtremeStat() {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  constexpr int32_t kLeast32 = std::numeric_limits<int32_t>::min();
  Stat stat;
  stat.czxid = Zxid(kLeast);
  stat.mzxid = Zxid(kMost);
  stat.pzxid = Zxid(-1);
  stat.ctime_ms = kLeast;
  stat.mtime_ms = kMost;
  stat.version = stat.cversion = stat.aversion = kLeast32;
  stat.ephemeral_owner = SessionId(kLeast);
  stat.data_length = std::numeric_limits<int32_t>::max();
  stat.num_children = kLeast32;
  return stat;
}

std::string Encode(Zxid zxid, const std::vector<OpResult>& results, Branch branch = Branch::kNone) {
  std::string answer;
  EncodeAnswer(zxid, branch, results, &answer);
  return answer;
}

void RequireSurvives(Zxid zxid, const std::vector<OpResult>& results,
                     Branch branch = Branch::kNone) {
  const std::string answer = Encode(zxid, results, branch);
  Zxid read_zxid;
  Branch read_branch = Branch::kNone;
  std::vector<OpResult> read = {OpResult{}};
  REQUIRE(DecodeAnswer(answer, &read_zxid, &read_branch, &read));
  CHECK(read_branch == branch);
  CHECK(read_zxid == zxid);
  CHECK((read == results));
  for (size_t size = 0; size < answer.size(); ++size) {
    REQUIRE_FALSE(DecodeAnswer(answer.substr(0, size), &read_zxid, &read_branch, nullptr));
  }
  REQUIRE_FALSE(DecodeAnswer(answer + '\0', &read_zxid, &read_branch, nullptr));
}

TEST_CASE("a response is decoded as it was encoded") {
  const Zxid zxid(5'000'000);
  OpResult create;
  create.path = "/a/n0000000007";
  create.stat = LikelyStat(zxid);
  OpResult set;
  set.stat = ExtremeStat();
  OpResult remove;
  OpResult removed_many;
  removed_many.removed = 10'000;
  OpResult with_parents = create;
  with_parents.added_parents = 300;
  RequireSurvives(zxid, {with_parents});
  RequireSurvives(zxid, {create});
  RequireSurvives(zxid, {remove});
  RequireSurvives(Zxid(1), {set});
  RequireSurvives(Zxid(std::numeric_limits<int64_t>::max()), {set, create, remove, removed_many});
  RequireSurvives(zxid, {});
}

TEST_CASE("the response of a failed request is short, however large the request is") {
  for (size_t place : {size_t{0}, size_t{3}, size_t{4999}}) {
    std::vector<OpResult> results(5000);
    SetFailed(ErrorCode::kBadVersion, place, results);
    CHECK(results[place].error == ErrorCode::kBadVersion);
    RequireSurvives(Zxid(70'000), results);
    CHECK(Encode(Zxid(70'000), results).size() < 16);
  }
}

TEST_CASE("the response of a setData takes few bytes") {
  OpResult set;
  set.stat = LikelyStat(Zxid(3'000'000'000));
  CHECK(Encode(Zxid(3'000'000'000), {set}).size() <= 40);
  // The stat of an ephemeral node takes few bytes too.
  set.stat.ephemeral_owner = kSession;
  CHECK(Encode(Zxid(3'000'000'000), {set}).size() <= 64);
  set.stat = ExtremeStat();
  CHECK(Encode(Zxid(std::numeric_limits<int64_t>::max()), {set}).size() < kAnswerNumbersBytesMax);
}

TEST_CASE("a response with a branch and with reads is decoded as it was encoded") {
  const Zxid zxid(5'000'000);
  OpResult absent;
  OpResult empty;
  empty.found = true;  // a system node can have a stat without any number
  OpResult get;
  get.found = true;
  get.stat = LikelyStat(zxid);
  get.data = std::string("\0data", 5);
  OpResult children;
  children.found = true;
  children.stat = LikelyStat(zxid);
  children.children = {"a", "b", std::string(300, 'c')};
  for (const Branch branch : {Branch::kNone, Branch::kThen, Branch::kOtherwise}) {
    RequireSurvives(zxid, {absent, empty, get, children}, branch);
    RequireSurvives(zxid, {}, branch);
  }
  std::vector<OpResult> failed(3);
  SetFailed(ErrorCode::kNoAuth, 2, failed);
  RequireSurvives(zxid, failed, Branch::kCompares);
  // Compares have no result but an error.
  Zxid read_zxid;
  Branch branch = Branch::kNone;
  CHECK_FALSE(
      DecodeAnswer(Encode(zxid, {absent}, Branch::kCompares), &read_zxid, &branch, nullptr));
  // A response without branches has the bytes that it had before there were any.
  CHECK(Encode(Zxid(5), {absent}) == std::string("\x05\x01\x00\x00", 4));
}

// Any bytes that decode are exactly the bytes that EncodeAnswer would write. All other bytes are
// refused, without a crash and without much memory.
TEST_CASE("decoding a response accepts only bytes that encoding writes, and never crashes") {
  OpResult create;
  create.path = "/a";
  create.stat = LikelyStat(Zxid(200'000));
  OpResult removed_many;
  removed_many.removed = 300;
  std::vector<OpResult> failed(3);
  SetFailed(ErrorCode::kNoNode, 1, failed);
  OpResult children;
  children.found = true;
  children.children = {"a", "bc"};
  OpResult get = children;
  get.children.clear();
  get.data = "data";
  const std::vector<std::string> good = {
      Encode(Zxid(200'000), {create, removed_many, children, get}, Branch::kThen),
      Encode(Zxid(200'000), failed, Branch::kCompares)};
  std::mt19937_64 random(20240301);
  int accepted = 0;
  for (int round = 0; round < 30'000; ++round) {
    std::string bytes = good[round % 2];
    for (uint64_t changes = 1 + random() % 2; changes > 0; --changes) {
      const size_t at = random() % bytes.size();
      if (random() % 3 > 0) {
        bytes[at] = static_cast<char>(random());
      } else if (random() % 2 == 0) {
        bytes.insert(at, 1, static_cast<char>(random()));
      } else if (bytes.size() > 1) {
        bytes.erase(at, 1);
      }
    }
    const std::vector<char> exact(bytes.begin(), bytes.end());
    Zxid zxid;
    std::vector<OpResult> results;
    const std::string_view view(exact.data(), exact.size());
    Branch branch = Branch::kNone;
    const bool is_sound = DecodeAnswer(view, &zxid, &branch, nullptr);
    // A short response of a failed request may have a million operations, which take long to
    // compare.
    if (round % 2 == 1) continue;
    REQUIRE(is_sound == DecodeAnswer(view, &zxid, &branch, &results));
    if (!is_sound) continue;
    ++accepted;
    REQUIRE(Encode(zxid, results, branch) == bytes);
  }
  CHECK(accepted > 1000);
}

// A simple model of the cache.
struct Expected {
  std::vector<std::string> answers;  // the response to number n is at n - 1
  uint64_t acknowledged = 0;
};

void RequireSame(const ResponseCache& table, const Expected& expected) {
  REQUIRE(table.last_sequence() == expected.answers.size());
  REQUIRE(table.acknowledged() == expected.acknowledged);
  for (uint64_t n = expected.acknowledged + 1; n <= expected.answers.size(); ++n) {
    REQUIRE(table.Find(n) == expected.answers[n - 1]);
  }
  REQUIRE(table.Hash() == table.ComputeHash());
}

TEST_CASE("a response cache keeps the responses that were not acknowledged") {
  ResponseCache table(kSession);
  Expected expected;
  std::mt19937_64 random(1);
  for (int round = 0; round < 3000; ++round) {
    const uint64_t size = random() % (random() % 50 == 0 ? 5000 : 60);
    std::string answer(size, static_cast<char>(random()));
    if (table.HasRoom(answer)) {
      table.Append(answer);
      expected.answers.push_back(std::move(answer));
    }
    if (random() % 4 == 0) {
      const uint64_t up_to = random() % 8 == 0 ? table.last_sequence() + random() % 5
                                               : random() % (table.last_sequence() + 1);
      table.Acknowledge(up_to);
      expected.acknowledged =
          std::max(expected.acknowledged, std::min<uint64_t>(up_to, expected.answers.size()));
    }
    if (round % 10 == 0) RequireSame(table, expected);
  }
  RequireSame(table, expected);
}

TEST_CASE("response caches that differ have different hashes") {
  ResponseCache table(kSession);
  table.Append("one");
  table.Append("two");
  ResponseCache same(kSession);
  same.Append("one");
  same.Append("two");
  CHECK(same.Hash() == table.Hash());
  same.Acknowledge(1);
  CHECK(same.Hash() != table.Hash());
  table.Acknowledge(1);
  CHECK(same.Hash() == table.Hash());
  ResponseCache other_session(SessionId(2));
  other_session.Append("one");
  other_session.Append("two");
  other_session.Acknowledge(1);
  CHECK(other_session.Hash() != table.Hash());
  ResponseCache other_order(kSession);
  other_order.Append("two");
  other_order.Append("one");
  ResponseCache order(kSession);
  order.Append("one");
  order.Append("two");
  CHECK(other_order.Hash() != order.Hash());
}

TEST_CASE("a response cache is bounded in responses and in bytes") {
  ResponseCache many(kSession);
  while (many.HasRoom("")) many.Append("");
  CHECK(many.size() == kAnswersMax);
  many.Acknowledge(1);
  CHECK(many.HasRoom(""));

  ResponseCache large(kSession);
  const std::string answer(2000, 'a');
  while (large.HasRoom(answer)) large.Append(answer);
  CHECK(large.bytes().size() <= kAnswerBytesMax);
  CHECK(large.bytes().size() + answer.size() + 2 > kAnswerBytesMax);
  large.Acknowledge(2);
  CHECK(large.HasRoom(answer));

  // The length takes three bytes.
  CHECK_FALSE(ResponseCache::IsTooLarge(std::string(kAnswerBytesMax - 3, '\0')));
  CHECK(ResponseCache::IsTooLarge(std::string(kAnswerBytesMax - 2, '\0')));
  ResponseCache empty(kSession);
  CHECK(empty.HasRoom(std::string(kAnswerBytesMax - 3, '\0')));
  CHECK_FALSE(empty.HasRoom(std::string(kAnswerBytesMax - 2, '\0')));
}

TEST_CASE("IsValid refuses bytes that no response cache can hold") {
  ResponseCache table(kSession);
  OpResult set;
  for (int64_t zxid = 10; zxid < 14; ++zxid) {
    set.stat = LikelyStat(Zxid(zxid));
    table.Append(Encode(Zxid(zxid), {set}));
  }
  table.Acknowledge(1);
  const std::string bytes(table.bytes());
  Zxid newest;
  REQUIRE(ResponseCache::IsValid(4, 1, bytes, &newest));
  CHECK(newest == Zxid(13));
  const auto restored = ResponseCache::Restore(kSession, 4, 1, bytes);
  CHECK(restored->Hash() == table.Hash());
  CHECK(restored->Find(3) == table.Find(3));

  CHECK(ResponseCache::IsValid(4, 4, "", &newest));
  CHECK(newest == Zxid(0));
  CHECK_FALSE(ResponseCache::IsValid(0, 0, "", &newest));
  CHECK_FALSE(ResponseCache::IsValid(4, 5, "", &newest));
  CHECK_FALSE(ResponseCache::IsValid(4, 0, bytes, &newest));
  CHECK_FALSE(ResponseCache::IsValid(4, 2, bytes, &newest));
  CHECK_FALSE(ResponseCache::IsValid(std::numeric_limits<uint64_t>::max(), 0, bytes, &newest));
  for (size_t size = 0; size < bytes.size(); ++size) {
    REQUIRE_FALSE(ResponseCache::IsValid(4, 1, bytes.substr(0, size), &newest));
  }
  // The zxids descend, or one of them occurs twice.
  ResponseCache falling(kSession);
  falling.Append(Encode(Zxid(11), {set}));
  falling.Append(Encode(Zxid(10), {set}));
  CHECK_FALSE(ResponseCache::IsValid(2, 0, falling.bytes(), &newest));
  ResponseCache twice(kSession);
  twice.Append(Encode(Zxid(11), {set}));
  twice.Append(Encode(Zxid(11), {set}));
  CHECK_FALSE(ResponseCache::IsValid(2, 0, twice.bytes(), &newest));
  // More responses than a session may have, each of them valid.
  std::string many;
  for (int64_t zxid = 1; zxid <= static_cast<int64_t>(kAnswersMax) + 1; ++zxid) {
    const std::string answer = Encode(Zxid(zxid), {OpResult{}});
    many += static_cast<char>(answer.size());
    many += answer;
  }
  CHECK_FALSE(ResponseCache::IsValid(kAnswersMax + 1, 0, many, &newest));
}

TEST_CASE("the memory of a cache has what is allocated for responses, also for dropped ones") {
  OpResult create;
  create.path = "/" + std::string(1000, 'x');
  ResponseCache cache(kSession);
  CHECK(cache.memory_bytes() < sizeof(ResponseCache) + 100);
  for (int64_t zxid = 1; zxid <= 100; ++zxid) cache.Append(Encode(Zxid(zxid), {create}));
  const size_t memory = cache.memory_bytes();
  CHECK(memory >= sizeof(ResponseCache) + cache.bytes().size());
  // A few are dropped, and their bytes stay; then more than half of all, and the rest is moved.
  cache.Acknowledge(40);
  CHECK(cache.bytes().size() < 62'000);
  CHECK(cache.memory_bytes() == memory);
  cache.Acknowledge(60);
  CHECK(cache.memory_bytes() < sizeof(ResponseCache) + 2 * cache.bytes().size());
  cache.Acknowledge(100);
  CHECK(cache.memory_bytes() < sizeof(ResponseCache) + 100);
}

TEST_CASE("the responses with reads have a lower limit together, also after they were restored") {
  OpResult get;
  get.found = true;
  get.stat = LikelyStat(Zxid(200'000));
  get.data = std::string(kReadAnswerBytesMax / 2, 'x');
  OpResult create;
  create.path = "/" + get.data;
  const std::string read = Encode(Zxid(200'000), {get});
  const std::string made = Encode(Zxid(200'001), {create});
  ResponseCache cache(kSession);
  REQUIRE(cache.HasRoom(read));
  cache.Append(read);
  CHECK_FALSE(cache.HasRoom(read));
  CHECK(cache.HasRoom(made));
  cache.Append(made);
  const auto restored = ResponseCache::Restore(kSession, 2, 0, cache.bytes());
  CHECK_FALSE(restored->HasRoom(read));
  restored->Acknowledge(1);
  CHECK(restored->HasRoom(read));
  CHECK_FALSE(ResponseCache::IsTooLarge(Encode(Zxid(200'000), {create, create})));
  // A cache beyond the limit cannot have been written.
  const std::string bytes(restored->bytes());
  Zxid zxid;
  CHECK(ResponseCache::IsValid(
      1, 0, std::string(cache.bytes()).substr(0, cache.bytes().size() - bytes.size()), &zxid));
  const std::string later = Encode(Zxid(200'002), {get});
  std::string both(cache.bytes().substr(0, cache.bytes().size() - bytes.size()));
  ResponseCache other(kSession);
  other.Append(later);
  both += other.bytes();
  CHECK_FALSE(ResponseCache::IsValid(2, 0, both, &zxid));
}

}  // namespace
}  // namespace quorate::tree
