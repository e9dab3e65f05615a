// SPDX-License-Identifier: Apache-2.0

// Multis that are longer than jute.maxbuffer.
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rpc/zookeeper/testing/loop_fixture.h"

namespace quorate::rpc::zk {
namespace {

using tree::ErrorCode;

constexpr size_t kBufferBytes = 2000;
constexpr size_t kMultiBytes = 20'000;

Config SmallConfig() {
  Config config = TestConfig();
  config.jute_max_buffer_bytes = kBufferBytes;
  config.max_multi_bytes = kMultiBytes;
  return config;
}

// The packet of a multi of creations with `data_bytes` of data each.
std::string MultiPacket(int32_t xid, size_t count, size_t data_bytes) {
  std::vector<std::pair<OpCode, std::string>> items;
  for (size_t i = 0; i < count; ++i) {
    items.emplace_back(OpCode::kCreate,
                       Create("/" + std::to_string(i), std::string(data_bytes, 'x')));
  }
  return RequestPacket(xid, OpCode::kMulti, Multi(items));
}

// Hands in `bytes` in pieces, each in an iteration of its own.
void WriteInPieces(Fixture& f, uint32_t tag, std::string_view bytes, size_t piece_bytes) {
  for (; !bytes.empty(); bytes.remove_prefix(std::min(piece_bytes, bytes.size()))) {
    f.sockets.Write(tag, bytes.substr(0, piece_bytes));
    f.Settle();
  }
}

TEST_CASE("a multi may be longer than jute.maxbuffer, and come in pieces of any size") {
  const size_t piece_bytes = GENERATE(3, 500, 1'000'000);
  Fixture f(SmallConfig());
  const uint32_t tag = f.ConnectSession();
  const std::string packet = MultiPacket(1, 10, kBufferBytes / 2);
  REQUIRE(packet.size() > kBufferBytes * 3);
  WriteInPieces(f, tag, packet, piece_bytes);
  const Packet reply = f.Next(tag);
  CHECK(reply.xid == 1);
  CHECK(reply.error == ErrorCode::kOk);
  CHECK(f.Call(tag, OpCode::kExists, PathAndWatch("/9", false)).error == ErrorCode::kOk);
}

TEST_CASE("a multi above maxMultiBytes gets an error in its turn, and the connection goes on") {
  const size_t piece_bytes = GENERATE(3, 500, 1'000'000);
  Fixture f(SmallConfig());
  const uint32_t tag = f.ConnectSession();
  const std::string packet = MultiPacket(2, 40, kBufferBytes / 2);
  REQUIRE(packet.size() > kMultiBytes);
  const std::string all = RequestPacket(1, OpCode::kCreate, Create("/before", "")) + packet +
                          RequestPacket(3, OpCode::kCreate, Create("/behind", ""));
  WriteInPieces(f, tag, all, piece_bytes);
  CHECK(f.Next(tag).xid == 1);
  const Packet reply = f.Next(tag);
  CHECK(reply.xid == 2);
  CHECK(reply.error == ErrorCode::kBadArguments);
  const Packet behind = f.Next(tag);
  CHECK(behind.xid == 3);
  CHECK(behind.error == ErrorCode::kOk);
  CHECK(f.Call(tag, OpCode::kExists, PathAndWatch("/0", false)).error == ErrorCode::kNoNode);
}

TEST_CASE("a multiRead has the same bounds as a multi") {
  Fixture f(SmallConfig());
  const uint32_t tag = f.ConnectSession();
  const auto reads = [](size_t count) {
    return Multi(std::vector<std::pair<OpCode, std::string>>(
        count, {OpCode::kGetData, PathAndWatch("/", false)}));
  };
  CHECK(f.Call(tag, OpCode::kMultiRead, reads(kBufferBytes / 10)).error == ErrorCode::kOk);
  CHECK(f.Call(tag, OpCode::kMultiRead, reads(kMultiBytes / 10)).error == ErrorCode::kBadArguments);
  CHECK(f.Call(tag, OpCode::kExists, PathAndWatch("/", false)).error == ErrorCode::kOk);
}

TEST_CASE("the bytes of a multi that is too long are not kept") {
  Fixture f(SmallConfig());
  const uint32_t tag = f.ConnectSession();
  const std::string packet = MultiPacket(1, 40, kBufferBytes / 2);
  WriteInPieces(f, tag, std::string_view(packet).substr(0, packet.size() - 1), 1000);
  CHECK(f.service.memory().used(MemoryUse::kRequests) == 0);
  CHECK(f.Next(tag).error == ErrorCode::kBadArguments);
  f.sockets.Write(tag, packet.substr(packet.size() - 1));
  CHECK(f.Call(tag, OpCode::kExists, PathAndWatch("/", false)).error == ErrorCode::kOk);
}

TEST_CASE("the data of a znode stays within jute.maxbuffer, in a multi too") {
  Fixture f(SmallConfig());
  const uint32_t tag = f.ConnectSession();
  f.sockets.Write(tag, MultiPacket(1, 2, kBufferBytes));
  f.Settle();
  CHECK(f.Next(tag).error == ErrorCode::kOk);
  f.sockets.Write(tag, MultiPacket(2, 2, kBufferBytes + 1));
  f.Settle();
  CHECK(f.Next(tag).error == ErrorCode::kBadArguments);
}

TEST_CASE("another request above jute.maxbuffer ends the connection, and so does any before it") {
  Fixture f(SmallConfig());
  const std::string length = RequestPacket(1, OpCode::kMulti, std::string(kBufferBytes, 'x'));
  const uint32_t early = f.Connect();
  f.sockets.Write(early, length);
  f.Settle();
  CHECK_FALSE(f.sockets.open(early));

  const uint32_t tag = f.ConnectSession();
  f.sockets.Write(tag,
                  RequestPacket(1, OpCode::kCreate, Create("/a", std::string(kBufferBytes, 'x'))));
  f.Settle();
  CHECK_FALSE(f.sockets.open(tag));
}

TEST_CASE("with a maxMultiBytes that is not above jute.maxbuffer, a multi is like other requests") {
  Config config = SmallConfig();
  config.max_multi_bytes = kBufferBytes;
  Fixture f(config);
  const uint32_t tag = f.ConnectSession();
  f.sockets.Write(tag, MultiPacket(1, 10, kBufferBytes / 2).substr(0, 4));
  f.Settle();
  CHECK_FALSE(f.sockets.open(tag));
}

TEST_CASE("no long multi is received if requests take an eighth of the memory") {
  Fixture f(SmallConfig());
  const std::string packet = MultiPacket(1, 10, kBufferBytes / 2);
  f.service.memory().SetLimit(packet.size() * 8 * 2);
  const uint32_t first = f.ConnectSession();
  const uint32_t second = f.ConnectSession();
  const uint32_t third = f.ConnectSession();
  // Not all of it has come, but the memory for the rest is taken already.
  for (const uint32_t tag : {first, second, third}) {
    f.sockets.Write(tag, packet.substr(0, 100));
    f.Settle();
  }
  CHECK(f.sockets.received(first).empty());
  CHECK(f.sockets.received(second).empty());
  CHECK(f.Next(third).error == ErrorCode::kSystemError);
  f.sockets.Write(first, packet.substr(100));
  f.sockets.Write(third, packet.substr(100));
  f.Settle();
  CHECK(f.Next(first).error == ErrorCode::kOk);
  CHECK(f.Call(third, OpCode::kExists, PathAndWatch("/9", false)).error == ErrorCode::kOk);
}

}  // namespace
}  // namespace quorate::rpc::zk
