#include "rpc/server/build_version.h"

#include "rpc/server/build_commit.h"
#include "rpc/server/version.h"

namespace quorate::rpc {

std::string VersionText() {
#ifdef NDEBUG
  constexpr char kBuild[] = "opt";
#else
  constexpr char kBuild[] = "debug";
#endif
  return std::string(kVersion) + " commit=" + kBuildCommit + " build=" + kBuild;
}

}  // namespace quorate::rpc
