// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/checkpoints/divergence_marker.h"

#include <catch2/catch.hpp>
#include <string>

#include "consensus/log/testing/fault_env.h"

namespace quorate::rpc {
namespace {

constexpr char kDir[] = "data";
const Divergence kSome{0x1f4, 0x93b1c2a70c1f5e22, 0x0000000000000029};

class Disk {
 public:
  Disk() { REQUIRE(env.CreateDirectories(kDir).ok()); }
  absl::Status Write() { return WriteDivergenceMarker(&env, kDir, kSome); }
  uint64_t size() {
    auto file = env.OpenFile(path(), false);
    REQUIRE(file.ok());
    return *(*file)->Size();
  }
  static std::string path() { return std::string(kDir) + "/" + kDivergenceMarkerName; }
  consensus::FaultEnv env;
};

TEST_CASE("a marker says what was written, and forbids the start") {
  Disk disk;
  CHECK(CheckNotDiverged(&disk.env, kDir).ok());
  CHECK(*ReadDivergenceMarker(&disk.env, kDir) == std::nullopt);
  REQUIRE(disk.Write().ok());
  CHECK(*ReadDivergenceMarker(&disk.env, kDir) == kSome);
  const absl::Status status = CheckNotDiverged(&disk.env, kDir);
  CHECK(absl::IsFailedPrecondition(status));
  const std::string message(status.message());
  CHECK(message.find("zxid 0x1f4") != std::string::npos);
  CHECK(message.find("93b1c2a70c1f5e22") != std::string::npos);
  CHECK(message.find("0000000000000029") != std::string::npos);
  CHECK(message.find("quorate rebuild") != std::string::npos);
}

TEST_CASE("a marker that was written is there after a power failure, and never half") {
  for (uint64_t operations = 0;; ++operations) {
    Disk disk;
    disk.env.PowerOffAfter(operations);
    const bool written = disk.Write().ok();
    disk.env.Crash(operations);
    const auto found = ReadDivergenceMarker(&disk.env, kDir);
    REQUIRE(found.ok());
    CHECK((*found == std::nullopt || **found == kSome));
    if (!written) continue;
    CHECK(*found == kSome);
    return;
  }
}

TEST_CASE("a start that was refused is refused after a power failure, too") {
  bool done = false;
  uint64_t refused_early = 0;
  for (uint64_t n = 0; !done; ++n) {
    for (uint64_t m = 0; m < 3; ++m) {
      for (uint64_t seed = 0; seed < 20; ++seed) {
        CAPTURE(n, m, seed);
        Disk disk;
        disk.env.FailAfter(n, absl::InternalError("killed"));
        done = disk.Write().ok();
        disk.env.Kill();
        disk.env.CancelFaults();
        disk.env.PowerOffAfter(m);
        // Only an error about the tree counts, because the power failure may also make the check
        // fail.
        const bool refused = absl::IsFailedPrecondition(CheckNotDiverged(&disk.env, kDir));
        disk.env.Crash(seed);
        if (!refused) continue;
        CHECK(absl::IsFailedPrecondition(CheckNotDiverged(&disk.env, kDir)));
        if (!done) ++refused_early;
      }
    }
  }
  CHECK(refused_early > 0);
}

TEST_CASE("a damaged marker forbids the start, too") {
  Disk disk;
  REQUIRE(disk.Write().ok());
  for (uint64_t bit = 0; bit < disk.size() * 8; ++bit) {
    disk.env.FlipBit(Disk::path(), bit);
    const absl::Status status = CheckNotDiverged(&disk.env, kDir);
    CHECK(absl::IsDataLoss(status));
    CHECK(status.message().find("quorate rebuild") != std::string::npos);
    disk.env.FlipBit(Disk::path(), bit);
  }
}

}  // namespace
}  // namespace quorate::rpc
