// SPDX-License-Identifier: Apache-2.0

#include "tree/types.h"

#include "base/assert.h"

namespace quorate::tree {

std::string_view ToString(ErrorCode code) {
  switch (code) {
    case ErrorCode::kOk:
      return "ok";
    case ErrorCode::kSystemError:
      return "system error";
    case ErrorCode::kRuntimeInconsistency:
      return "runtime inconsistency";
    case ErrorCode::kMarshallingError:
      return "marshalling error";
    case ErrorCode::kUnimplemented:
      return "unimplemented";
    case ErrorCode::kBadArguments:
      return "bad arguments";
    case ErrorCode::kNoNode:
      return "no node";
    case ErrorCode::kNoAuth:
      return "not authorized";
    case ErrorCode::kBadVersion:
      return "bad version";
    case ErrorCode::kNoChildrenForEphemerals:
      return "no children for ephemerals";
    case ErrorCode::kNodeExists:
      return "node exists";
    case ErrorCode::kNotEmpty:
      return "not empty";
    case ErrorCode::kSessionExpired:
      return "session expired";
    case ErrorCode::kInvalidAcl:
      return "invalid ACL";
    case ErrorCode::kAuthFailed:
      return "authentication failed";
    case ErrorCode::kSessionMoved:
      return "session moved";
    case ErrorCode::kNoWatcher:
      return "no watcher";
    case ErrorCode::kNewConfigNoQuorum:
      return "the new members would have no quorum";
    case ErrorCode::kReconfigInProgress:
      return "another reconfiguration is in progress";
    case ErrorCode::kReconfigDisabled:
      return "reconfiguration is disabled";
    case ErrorCode::kQuotaExceeded:
      return "quota exceeded";
    case ErrorCode::kNotReadOnly:
      return "server serves reads only";
    case ErrorCode::kEphemeralOnLocalSession:
      return "ephemeral on a local session";
    case ErrorCode::kAlreadyAcknowledged:
      return "already acknowledged";
    case ErrorCode::kOutOfSequence:
      return "out of sequence";
    case ErrorCode::kTooManyUnacknowledged:
      return "too many unacknowledged writes";
    case ErrorCode::kTooLarge:
      return "too large";
    case ErrorCode::kNoSpace:
      return "no space";
  }
  return "unknown error";
}

void SetFailed(ErrorCode error, size_t place, std::span<OpResult> results) {
  ASSERT(place < results.size(), "one of the operations failed");
  for (size_t i = 0; i < results.size(); ++i) {
    results[i] = OpResult{};
    if (i == place) results[i].error = error;
    if (i > place) results[i].error = ErrorCode::kRuntimeInconsistency;
  }
}

std::vector<Acl> OpenAcl() { return {Acl{permission::kAll, Identity{"world", "anyone"}}}; }

}  // namespace quorate::tree
