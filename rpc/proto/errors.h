// Errors of quorate.v1, as both ends of a call tell them.
//
// Thread-safety: functions without state.
#pragma once

#include <grpcpp/support/status.h>

#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "rpc/proto/quorate/v1/types.pb.h"

namespace quorate::v1 {

// A status of ours has an ErrorDetail as its payload of this type.
inline constexpr char kErrorDetailUrl[] = "type.googleapis.com/quorate.v1.ErrorDetail";

// The canonical code of an error. REQUIRES: it is one.
absl::StatusCode CodeOf(ErrorCode code);
// What people are told of it.
std::string_view TextOf(ErrorCode code);

// The canonical status of an error, with `detail` and the code as its payload. An empty message is
// TextOf(code). REQUIRES: code is not OK.
absl::Status ToStatus(ErrorCode code, std::string_view message, ErrorDetail detail = {});

// Nothing, if there is none.
std::optional<ErrorDetail> DetailOf(const absl::Status& status);

// Code and message as they are; payloads as a google.rpc.Status among the details
// (grpc-status-details-bin), which clients in every language can take apart.
grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace quorate::v1
