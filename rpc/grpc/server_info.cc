// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/server_info.h"

#include "absl/strings/str_cat.h"
#include "base/version.h"
#include "rpc/proto/errors.h"
#include "tree/command.h"

namespace quorate::rpc {

void SetServer(uint32_t cluster_version, v1::Server* server) {
  server->set_version(kProgramVersion);
  server->set_revision(kApiRevision);
  if (cluster_version >= tree::kVersionCheckCreated) {
    server->add_features(v1::FEATURE_CHECK_CREATED);
  }
  if (cluster_version >= tree::kVersionKeeper) {
    server->add_features(v1::FEATURE_KEEPER_OPERATIONS);
  }
  if (cluster_version >= tree::kVersionTransactions) {
    server->add_features(v1::FEATURE_TRANSACTIONS);
  }
}

absl::Status CheckRevision(uint32_t min_revision) {
  if (min_revision <= kApiRevision) return absl::OkStatus();
  return v1::ToStatus(v1::ERROR_CODE_UNIMPLEMENTED,
                      absl::StrCat("the client needs revision ", min_revision,
                                   " of the API quorate.v1, and this member (version ",
                                   kProgramVersion, ") has revision ", kApiRevision,
                                   "; update the servers, or use an older client"));
}

}  // namespace quorate::rpc
