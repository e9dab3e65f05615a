// SPDX-License-Identifier: Apache-2.0

#include "rpc/zookeeper/wire/wire.h"

#include <catch2/catch.hpp>

namespace quorate::wire {
namespace {

TEST_CASE("A request is its header and its body behind their length") {
  std::string out = "before";
  {
    RequestWriter request(&out, 7, kDelete);
    WriteDelete("/a", -1, request.body());
  }
  std::string expected;
  BigEndianWriter writer(&expected);
  writer.Int<int32_t>(18);
  writer.Int<int32_t>(7);
  writer.Int<int32_t>(2);
  writer.Int<int32_t>(2);
  writer.Raw("/a");
  writer.Int<int32_t>(-1);
  CHECK(out == "before" + expected);
}

TEST_CASE("Packets are cut off a stream one after the other") {
  const std::string stream = Framed("one") + Framed("") + Framed("three").substr(0, 6);
  std::string_view rest = stream;
  std::string_view packet;
  REQUIRE(CutPacket(&rest, &packet) == Cut::kPacket);
  CHECK(packet == "one");
  REQUIRE(CutPacket(&rest, &packet) == Cut::kPacket);
  CHECK(packet.empty());
  CHECK(CutPacket(&rest, &packet) == Cut::kIncomplete);
  CHECK(rest.size() == 6);
  rest = rest.substr(0, 3);
  CHECK(CutPacket(&rest, &packet) == Cut::kIncomplete);
}

TEST_CASE("A length that no reply has ends the stream") {
  const std::string stream = "\xff\xff\xff\xfe rest";
  std::string_view rest = stream;
  std::string_view packet;
  CHECK(CutPacket(&rest, &packet) == Cut::kBad);
  PacketReader reader;
  reader.Add(stream);
  std::string copy;
  CHECK_FALSE(reader.Next(&copy));
  CHECK(reader.bad());
}

}  // namespace
}  // namespace quorate::wire
