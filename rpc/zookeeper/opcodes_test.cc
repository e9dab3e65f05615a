// SPDX-License-Identifier: Apache-2.0

#include "rpc/zookeeper/opcodes.h"

#include <catch2/catch.hpp>
#include <limits>
#include <set>
#include <string_view>

namespace quorate::rpc::zk {
namespace {

TEST_CASE("every opcode has a number and a name of its own") {
  std::set<OpCode> numbers;
  std::set<std::string_view> names;
  for (const OpCodeInfo& info : kOpCodes) {
    CAPTURE(info.name);
    CHECK(&InfoOf(info.op) == &info);
    CHECK(numbers.insert(info.op).second);
    CHECK(names.insert(info.name).second);
    CHECK_FALSE(info.name.empty());
    CHECK_FALSE(info.cons_name.empty());
  }
}

TEST_CASE("a number that is no opcode is not served, and has no name in cons") {
  std::set<int32_t> numbers;
  for (const OpCodeInfo& info : kOpCodes) numbers.insert(static_cast<int32_t>(info.op));
  CHECK(*numbers.begin() == kOpCodeMin);
  CHECK(*numbers.rbegin() == kOpCodeMax);
  const auto is_unknown = [](int32_t number) {
    const auto op = static_cast<OpCode>(number);
    return &InfoOf(op) == &kUnknownOpCode && !IsServed(op) && !IsWrite(op) && !IsCreate(op) &&
           InfoOf(op).cons_name == "NA";
  };
  for (int32_t number = kOpCodeMin - 5; number <= kOpCodeMax + 5; ++number) {
    CAPTURE(number);
    CHECK(is_unknown(number) == !numbers.contains(number));
  }
  CHECK(is_unknown(std::numeric_limits<int32_t>::min()));
  CHECK(is_unknown(std::numeric_limits<int32_t>::max()));
}

TEST_CASE("only writes and requests of the session need a quorum") {
  for (const OpCodeInfo& info : kOpCodes) {
    CAPTURE(info.name);
    if (info.kind == OpCodeKind::kWrite) CHECK(info.quorum == Quorum::kNeeded);
    if (info.quorum == Quorum::kNeeded) {
      CHECK((info.kind == OpCodeKind::kWrite || info.kind == OpCodeKind::kSession));
    }
  }
}

}  // namespace
}  // namespace quorate::rpc::zk
