// SPDX-License-Identifier: Apache-2.0

#include <catch2/catch.hpp>
#include <string>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/random.h"
#include "base/secrets.h"
#include "base/similar_names.h"
#include "base/slice.h"
#include "base/strong_int.h"
#include "base/testing/manual_clock.h"

namespace quorate {
namespace {

TEST_CASE("CRC-32C has the check value of its definition") {
  CHECK(Crc32c("123456789") == 0xE3069283u);
  CHECK(internal::Crc32cPortable("123456789", 0) == 0xE3069283u);
}

TEST_CASE("CRC-32C continues from a prefix, and both implementations agree at each length") {
  std::string bytes;
  for (int i = 0; i < 100; ++i) {
    uint32_t whole = Crc32c(bytes);
    CHECK(whole == internal::Crc32cPortable(bytes, 0));
    size_t half = bytes.size() / 2;
    std::string_view view = bytes;
    CHECK(Crc32c(view.substr(half), Crc32c(view.substr(0, half))) == whole);
    bytes.push_back(static_cast<char>(i * 37));
  }
}

TEST_CASE("a reader returns what a writer wrote, in either byte order") {
  std::string little;
  LittleEndianWriter writer(&little);
  writer.Int<uint16_t>(0x1234);
  writer.String("abc");
  CHECK(little == std::string("\x34\x12\x03\0\0\0abc", 9));

  std::string big;
  BigEndianWriter(&big).Int<int32_t>(-2);
  CHECK(big == std::string("\xff\xff\xff\xfe", 4));
  CHECK(BigEndianReader(big).Int<int32_t>() == -2);

  LittleEndianReader reader(little);
  CHECK(reader.Int<uint16_t>() == 0x1234);
  CHECK(reader.String() == "abc");
  CHECK(reader.empty());
  CHECK(reader.ok());
}

TEST_CASE("a reader that runs out of bytes reports it and stays empty") {
  std::string bytes("\xff\0\0\0rest", 8);
  LittleEndianReader reader(bytes);
  CHECK(reader.String().empty());
  CHECK_FALSE(reader.ok());
  CHECK(reader.Int<uint8_t>() == 0);
}

TEST_CASE("a slice keeps its buffer alive") {
  Slice part;
  {
    auto buffer = std::make_shared<const std::string>("0123456789 and more than fits inline");
    part = Slice(buffer, 3, 4);
  }
  CHECK(part.view() == "3456");
}

TEST_CASE("a manual clock changes only by Advance, and its wall time also by SetWallMs") {
  ManualClock clock(1000);
  const auto begin = clock.Now();
  clock.Advance(50);
  CHECK(clock.Now() - begin == std::chrono::milliseconds(50));
  CHECK(clock.WallMs() == 1050);
  clock.SetWallMs(7);
  CHECK(clock.Now() - begin == std::chrono::milliseconds(50));
  CHECK(clock.WallMs() == 7);
}

TEST_CASE("the system's clock does not go back, and its random bytes differ") {
  const auto begin = Clock::System()->Now();
  CHECK(Clock::System()->Now() >= begin);
  CHECK(Clock::System()->WallMs() > 1'700'000'000'000);
  const std::string bytes = RandomBytes::System()->Make(1000);
  CHECK(bytes.size() == 1000);
  CHECK(bytes.substr(0, 16) != bytes.substr(984));
  CHECK(bytes != RandomBytes::System()->Make(1000));
}

TEST_CASE("similar names differ in at most two letters or in case, or begin with the given name") {
  const std::vector<std::string> names = {"status", "stat", "snapshot", "lock"};
  CHECK(SimilarNames("statsu", names) == std::vector<std::string>{"status", "stat"});
  CHECK(SimilarNames("snap", names) == std::vector<std::string>{"stat", "snapshot"});
  CHECK(SimilarNames("LOCK", names) == std::vector<std::string>{"lock"});
  CHECK(SimilarNames("backup", names).empty());
}

TEST_CASE("secrets are equal if all of their bytes are equal") {
  CHECK(SecretsEqual("", ""));
  CHECK(SecretsEqual(std::string("a\0b", 3), std::string("a\0b", 3)));
  CHECK_FALSE(SecretsEqual(std::string("a\0b", 3), std::string("a\0c", 3)));
  CHECK_FALSE(SecretsEqual("secret", "secre"));
  CHECK_FALSE(SecretsEqual("", "s"));
}

}  // namespace
}  // namespace quorate
