// SPDX-License-Identifier: Apache-2.0

#include "base/build_version.h"

#include "base/build_commit.h"
#include "base/version.h"

namespace quorate {

std::string ProgramVersionText() {
#ifdef NDEBUG
  constexpr char kBuild[] = "opt";
#else
  constexpr char kBuild[] = "debug";
#endif
  return std::string(kProgramVersion) + " commit=" + kBuildCommit + " build=" + kBuild;
}

}  // namespace quorate
