#include "rpc/proto/errors.h"

#include <string>

#include "absl/strings/cord.h"
#include "base/assert.h"
#include "base/strings.h"
#include "rpc/proto/rpc_status.pb.h"

namespace quorate::v1 {

absl::StatusCode CodeOf(ErrorCode code) {
  switch (code) {
    case NO_NODE:
    case NO_BACKUP:
      return absl::StatusCode::kNotFound;
    case NODE_EXISTS:
      return absl::StatusCode::kAlreadyExists;
    case BAD_VERSION:
    case NOT_EMPTY:
    case NO_CHILDREN_FOR_EPHEMERALS:
    case OUT_OF_SEQUENCE:
    case ALREADY_ACKNOWLEDGED:
    case CANNOT_TRANSFER:
      return absl::StatusCode::kFailedPrecondition;
    case NO_AUTH:
      return absl::StatusCode::kPermissionDenied;
    case INVALID_ACL:
    case BAD_ARGUMENTS:
      return absl::StatusCode::kInvalidArgument;
    case QUOTA_EXCEEDED:
    case TOO_MANY_UNACKNOWLEDGED:
    case NO_SPACE:
    case TOO_MANY_STREAMS:
    case TOO_SLOW:
      return absl::StatusCode::kResourceExhausted;
    case TOO_LARGE:
    case EVENTS_LOST:
      return absl::StatusCode::kOutOfRange;
    case NOT_ATTEMPTED:
    case SESSION_MOVED:
      return absl::StatusCode::kAborted;
    case SESSION_EXPIRED:
    case AUTH_FAILED:
      return absl::StatusCode::kUnauthenticated;
    case UNAVAILABLE:
      return absl::StatusCode::kUnavailable;
    case UNIMPLEMENTED:
      return absl::StatusCode::kUnimplemented;
    case NO_REQUEST:
      return absl::StatusCode::kDeadlineExceeded;
    default:
      return absl::StatusCode::kInternal;
  }
}

std::string_view TextOf(ErrorCode code) {
  switch (code) {
    case NO_NODE:
      return "there is no such znode";
    case NODE_EXISTS:
      return "there is such a znode already";
    case BAD_VERSION:
      return "the znode has another version, or is of another creation";
    case NOT_EMPTY:
      return "the znode has children";
    case NO_CHILDREN_FOR_EPHEMERALS:
      return "an ephemeral znode cannot have children";
    case NO_AUTH:
      return "none of the caller's identities may do that";
    case INVALID_ACL:
      return "the access control list names an unknown scheme, or nobody";
    case BAD_ARGUMENTS:
      return "the request makes no sense: a path that is not valid, no operation, a mode or a "
             "field "
             "that is not known or does not go with the others, or what needs a session without "
             "one";
    case QUOTA_EXCEEDED:
      return "a quota does not allow that";
    case TOO_LARGE:
      return "that is more than one request may hold or touch";
    case NO_SPACE:
      return "the servers' disks are nearly full; what adds no data goes on";
    case NOT_ATTEMPTED:
      return "another operation of the transaction failed";
    case SESSION_EXPIRED:
      return "there is no such session, it has ended, or the password is wrong";
    case SESSION_MOVED:
      return "the session is attached to another stream now";
    case AUTH_FAILED:
      return "a credential is of a scheme that is not known, or there are too many of them";
    case UNAVAILABLE:
      return "this member cannot serve now; try another one";
    case UNIMPLEMENTED:
      return "not all servers are known to be of a version that has this operation; update those "
             "that are not, and start those that are stopped";
    case OUT_OF_SEQUENCE:
      return "writes before this one are missing";
    case TOO_MANY_UNACKNOWLEDGED:
      return "too many answers were not acknowledged";
    case ALREADY_ACKNOWLEDGED:
      return "the answer was acknowledged, and is not kept any more";
    case EVENTS_LOST:
      return "events since that zxid are not kept any more; read again, and watch from there";
    case TOO_MANY_STREAMS:
      return "this member has as many streams as it may; try another one, or later";
    case TOO_SLOW:
      return "the client did not read its events while they were kept; watch again from what was "
             "received, on a new stream";
    case NO_REQUEST:
      return "nothing came on the stream in the time that it has";
    case CANNOT_TRANSFER:
      return "leadership cannot be handed over";
    case NO_BACKUP:
      return "this member does not have that backup any more; start the backup again";
    default:
      return "a mistake of the server";
  }
}

absl::Status ToStatus(ErrorCode code, std::string_view message, ErrorDetail detail) {
  ASSERT(code != OK);
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
  RpcStatus details;
  status.ForEachPayload([&](absl::string_view type_url, const absl::Cord& value) {
    RpcStatus::Any* detail = details.add_details();
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
  RpcStatus details;
  if (!details.ParseFromString(status.error_details())) return result;
  for (const RpcStatus::Any& detail : details.details()) {
    result.SetPayload(detail.type_url(), absl::Cord(detail.value()));
  }
  return result;
}

}  // namespace quorate::v1
