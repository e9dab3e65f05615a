// SPDX-License-Identifier: Apache-2.0

#include "rpc/proto/errors.h"

#include <string>

#include "absl/strings/cord.h"
#include "base/assert.h"
#include "base/strings.h"
#include "rpc/proto/rpc_status.pb.h"

namespace quorate::v1 {

absl::StatusCode CodeOf(ErrorCode code) {
  switch (code) {
    case ERROR_CODE_NO_NODE:
    case ERROR_CODE_NO_BACKUP:
      return absl::StatusCode::kNotFound;
    case ERROR_CODE_NODE_EXISTS:
      return absl::StatusCode::kAlreadyExists;
    case ERROR_CODE_BAD_VERSION:
    case ERROR_CODE_NOT_EMPTY:
    case ERROR_CODE_NO_CHILDREN_FOR_EPHEMERALS:
    case ERROR_CODE_OUT_OF_SEQUENCE:
    case ERROR_CODE_ALREADY_ACKNOWLEDGED:
    case ERROR_CODE_CANNOT_TRANSFER:
    case ERROR_CODE_CANNOT_CHANGE_MEMBERS:
      return absl::StatusCode::kFailedPrecondition;
    case ERROR_CODE_NO_AUTH:
      return absl::StatusCode::kPermissionDenied;
    case ERROR_CODE_INVALID_ACL:
    case ERROR_CODE_BAD_ARGUMENTS:
      return absl::StatusCode::kInvalidArgument;
    case ERROR_CODE_QUOTA_EXCEEDED:
    case ERROR_CODE_TOO_MANY_UNACKNOWLEDGED:
    case ERROR_CODE_NO_SPACE:
    case ERROR_CODE_TOO_MANY_STREAMS:
    case ERROR_CODE_TOO_SLOW:
      return absl::StatusCode::kResourceExhausted;
    case ERROR_CODE_TOO_LARGE:
    case ERROR_CODE_EVENTS_LOST:
      return absl::StatusCode::kOutOfRange;
    case ERROR_CODE_NOT_ATTEMPTED:
    case ERROR_CODE_SESSION_MOVED:
    case ERROR_CODE_MEMBERS_CHANGED:
      return absl::StatusCode::kAborted;
    case ERROR_CODE_SESSION_EXPIRED:
    case ERROR_CODE_AUTH_FAILED:
      return absl::StatusCode::kUnauthenticated;
    case ERROR_CODE_UNAVAILABLE:
      return absl::StatusCode::kUnavailable;
    case ERROR_CODE_UNIMPLEMENTED:
      return absl::StatusCode::kUnimplemented;
    case ERROR_CODE_NO_REQUEST:
      return absl::StatusCode::kDeadlineExceeded;
    default:
      return absl::StatusCode::kInternal;
  }
}

std::string_view TextOf(ErrorCode code) {
  switch (code) {
    case ERROR_CODE_NO_NODE:
      return "there is no such znode";
    case ERROR_CODE_NODE_EXISTS:
      return "the znode exists already";
    case ERROR_CODE_BAD_VERSION:
      return "the znode has another version, or was created by another transaction";
    case ERROR_CODE_NOT_EMPTY:
      return "the znode has children";
    case ERROR_CODE_NO_CHILDREN_FOR_EPHEMERALS:
      return "an ephemeral znode cannot have children";
    case ERROR_CODE_NO_AUTH:
      return "none of the caller's identities has the permission";
    case ERROR_CODE_INVALID_ACL:
      return "the access control list names an unknown scheme, or no identity";
    case ERROR_CODE_BAD_ARGUMENTS:
      return "the request is not valid: it has an invalid path, no operation, an unknown mode or "
             "field, fields that exclude each other, or an operation that needs a session";
    case ERROR_CODE_QUOTA_EXCEEDED:
      return "the write would exceed the hard limit of a quota";
    case ERROR_CODE_TOO_LARGE:
      return "the request or its answer exceeds a limit on the znodes or bytes of one request";
    case ERROR_CODE_NO_SPACE:
      return "the servers' disks are nearly full; only requests that add no data are served";
    case ERROR_CODE_NOT_ATTEMPTED:
      return "another operation of the transaction failed";
    case ERROR_CODE_SESSION_EXPIRED:
      return "there is no such session, it has ended, or the password is wrong";
    case ERROR_CODE_SESSION_MOVED:
      return "the session is attached to another stream now";
    case ERROR_CODE_AUTH_FAILED:
      return "a credential has an unknown scheme, or there are too many of them";
    case ERROR_CODE_UNAVAILABLE:
      return "this member cannot serve now; try another one";
    case ERROR_CODE_UNIMPLEMENTED:
      return "not all servers are known to run a version that has this operation; update the older "
             "ones, and start those that are stopped";
    case ERROR_CODE_OUT_OF_SEQUENCE:
      return "writes before this one are missing";
    case ERROR_CODE_TOO_MANY_UNACKNOWLEDGED:
      return "too many answers to the client's writes are not acknowledged yet";
    case ERROR_CODE_ALREADY_ACKNOWLEDGED:
      return "the client has acknowledged the answer, which is no longer kept";
    case ERROR_CODE_EVENTS_LOST:
      return "the events after that zxid are no longer kept; read again, and watch from the zxid "
             "of that read";
    case ERROR_CODE_TOO_MANY_STREAMS:
      return "this member has reached its limit of streams; try another one, or try later";
    case ERROR_CODE_TOO_SLOW:
      return "the client did not read its events while they were kept; watch again on a new "
             "stream, from the last received zxid";
    case ERROR_CODE_NO_REQUEST:
      return "the member received no message on the new stream in time";
    case ERROR_CODE_CANNOT_TRANSFER:
      return "leadership cannot be transferred";
    case ERROR_CODE_CANNOT_CHANGE_MEMBERS:
      return "the members cannot be changed";
    case ERROR_CODE_MEMBERS_CHANGED:
      return "the members have changed meanwhile; read them again";
    case ERROR_CODE_NO_BACKUP:
      return "this member no longer has that backup; start the backup again";
    default:
      return "an internal error of the server";
  }
}

std::optional<uint32_t> FailedIndexOf(
    const google::protobuf::RepeatedPtrField<OperationResult>& results) {
  for (int i = 0; i < results.size(); ++i) {
    const ErrorCode error = results[i].error();
    if (error != ERROR_CODE_UNSPECIFIED && error != ERROR_CODE_NOT_ATTEMPTED) {
      return static_cast<uint32_t>(i);
    }
  }
  return std::nullopt;
}

absl::Status ToStatus(ErrorCode code, std::string_view message, ErrorDetail detail) {
  ASSERT(code != ERROR_CODE_UNSPECIFIED);
  absl::Status status(CodeOf(code), ToAbsl(message.empty() ? TextOf(code) : message));
  detail.set_code(code);
  status.SetPayload(kErrorDetailUrl, absl::Cord(detail.SerializeAsString()));
  return status;
}

std::optional<ErrorDetail> DetailOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kErrorDetailUrl);
  ErrorDetail detail;
  if (!payload.has_value() || !detail.ParseFromString(std::string(*payload))) return std::nullopt;
  return detail;
}

grpc::Status ToGrpc(const absl::Status& status) {
  const auto code = static_cast<int>(status.code());
  const std::string message(status.message());
  rpc_status::Status details;
  status.ForEachPayload([&](absl::string_view type_url, const absl::Cord& value) {
    rpc_status::Status::Any* detail = details.add_details();
    detail->set_type_url(std::string(type_url));
    detail->set_value(std::string(value));
  });
  if (details.details().empty()) return {static_cast<grpc::StatusCode>(code), message};
  details.set_code(code);
  details.set_message(message);
  return {static_cast<grpc::StatusCode>(code), message, details.SerializeAsString()};
}

absl::Status FromGrpc(const grpc::Status& status) {
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  rpc_status::Status details;
  if (!details.ParseFromString(status.error_details())) return result;
  for (const rpc_status::Status::Any& detail : details.details()) {
    result.SetPayload(detail.type_url(), absl::Cord(detail.value()));
  }
  return result;
}

}  // namespace quorate::v1
