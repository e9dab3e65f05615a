// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/simulation.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace quorate::simulation {

std::string Simulation::Stamp(std::string_view who) const {
  const int64_t now = now_us();
  return fmt::format("{:>5}.{:06} {:<4} ", now / 1'000'000, now % 1'000'000, who);
}

void Simulation::PrintFailure(std::string_view invariant, std::string_view details) {
  for (const std::string& line : trace_.last()) std::printf("%s\n", line.c_str());
  std::printf("\n%sFAILED: %.*s\n  %.*s\n", Stamp("").c_str(), static_cast<int>(invariant.size()),
              invariant.data(), static_cast<int>(details.size()), details.data());
  if (trace_.wanted()) {
    std::printf("\n%s", ToString(options_).c_str());
    if (describe_) std::printf("\n%s", describe_().c_str());
  }
  std::printf("seed %lu\n", options_.seed);
  std::fflush(stdout);
}

void Simulation::Fail(std::string_view invariant, std::string_view details) {
  PrintFailure(invariant, details);
  std::_Exit(kFailed);
}

}  // namespace quorate::simulation
