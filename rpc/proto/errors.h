// SPDX-License-Identifier: Apache-2.0

// Conversions of the errors of quorate.v1, for clients and servers.
//
// Thread-safety: functions without state.
#pragma once

#include <grpcpp/support/status.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "rpc/proto/quorate/v1/types.pb.h"

namespace quorate::v1 {

// The type URL of the payload of our statuses, an ErrorDetail.
inline constexpr char kErrorDetailUrl[] = "type.googleapis.com/quorate.v1.ErrorDetail";

// Returns the canonical status code of an error. REQUIRES: `code` is not OK.
absl::StatusCode CodeOf(ErrorCode code);
// Returns the default message of an error, for people.
std::string_view TextOf(ErrorCode code);

// Returns the index of the operation that failed, among the results of all operations of a write:
// the first that is neither without error nor NOT_ATTEMPTED. Nothing if there is none.
std::optional<uint32_t> FailedIndexOf(
    const google::protobuf::RepeatedPtrField<OperationResult>& results);

// Returns the canonical status of an error, with `detail` and the code as its payload. An empty
// message stands for TextOf(code). REQUIRES: `code` is not OK.
absl::Status ToStatus(ErrorCode code, std::string_view message, ErrorDetail detail = {});

// Returns the ErrorDetail of a status; no value if it has none.
std::optional<ErrorDetail> DetailOf(const absl::Status& status);

// Convert a status from Abseil's type to gRPC's and back. Code and message stay the same. The
// payloads become a google.rpc.Status in the details (grpc-status-details-bin), which clients in
// every language can decode.
grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace quorate::v1
