// Statuses of what the servers refuse.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "rpc/proto/quorate/v1/session.pb.h"

namespace quorate::internal {

// With the code in it, for ErrorOf. `what` is what was refused. `code` is not OK.
absl::Status MakeError(v1::ErrorCode code, const std::string& what,
                       const v1::Response* response = nullptr);

// "Get /a/b".
std::string Describe(const v1::Request& request);

}  // namespace quorate::internal
