// SPDX-License-Identifier: Apache-2.0

// Statuses for refusals by the servers.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "rpc/proto/quorate/v1/session.pb.h"

namespace quorate::internal {

// Returns a status that ErrorOf decodes to `code`. `what` describes the refused request; `response`
// adds details, if given. REQUIRES: `code` is not OK.
absl::Status MakeError(v1::ErrorCode code, const std::string& what,
                       const v1::Response* response = nullptr);

// Returns `status` with `text` at the end of its message, for the same ErrorOf.
absl::Status WithText(const absl::Status& status, absl::string_view text);

// Returns a description for messages, such as "Get /a/b".
std::string Describe(const v1::Request& request);

}  // namespace quorate::internal
