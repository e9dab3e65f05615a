// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/server_info.h"

#include <catch2/catch.hpp>
#include <string>

#include "base/version.h"
#include "rpc/proto/errors.h"
#include "tree/command.h"

namespace quorate::rpc {
namespace {

TEST_CASE("a feature is named as soon as the cluster version has it") {
  const auto features = [](uint32_t cluster_version) {
    v1::Server server;
    SetServer(cluster_version, &server);
    CHECK(server.version() == kProgramVersion);
    CHECK(server.revision() == kApiRevision);
    std::string names;
    for (int i = 0; i < server.features_size(); ++i) {
      names += v1::Feature_Name(server.features(i)) + " ";
    }
    return names;
  };
  CHECK(features(0).empty());
  CHECK(features(tree::kVersionCheckCreated - 1).empty());
  CHECK(features(tree::kVersionCheckCreated) == "FEATURE_CHECK_CREATED ");
  CHECK(features(tree::kVersionKeeper - 1) == "FEATURE_CHECK_CREATED ");
  CHECK(features(tree::kVersionKeeper) == "FEATURE_CHECK_CREATED FEATURE_KEEPER_OPERATIONS ");
  CHECK(features(tree::kVersionTransactions - 1) ==
        "FEATURE_CHECK_CREATED FEATURE_KEEPER_OPERATIONS ");
  CHECK(features(UINT32_MAX) ==
        "FEATURE_CHECK_CREATED FEATURE_KEEPER_OPERATIONS FEATURE_TRANSACTIONS ");
}

TEST_CASE("a client that needs a later revision learns which one this member has") {
  CHECK(CheckRevision(0).ok());
  CHECK(CheckRevision(kApiRevision).ok());
  for (const uint32_t needed : {kApiRevision + 1, UINT32_MAX}) {
    const absl::Status status = CheckRevision(needed);
    CHECK(status.code() == absl::StatusCode::kUnimplemented);
    REQUIRE(v1::DetailOf(status).has_value());
    CHECK(v1::DetailOf(status)->code() == v1::ERROR_CODE_UNIMPLEMENTED);
    CHECK(std::string(status.message()).find("has revision 1") != std::string::npos);
  }
}

}  // namespace
}  // namespace quorate::rpc
