// SPDX-License-Identifier: Apache-2.0

#include "client/error.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/strings.h"
#include "client/session_loss.h"
#include "client/types.h"
#include "rpc/proto/errors.h"

namespace quorate {
namespace {

static_assert(static_cast<int>(ErrorCode::kMembersChanged) == v1::ErrorCode_MAX);
static_assert(static_cast<int>(ErrorCode::kSessionExpired) == v1::ERROR_CODE_SESSION_EXPIRED);

std::string DescribeOperation(const v1::Operation& operation) {
  switch (operation.kind_case()) {
    case v1::Operation::kCreate:
      return absl::StrCat("Create ", operation.create().path());
    case v1::Operation::kSet:
      return absl::StrCat("Set ", operation.set().path());
    case v1::Operation::kSetAcl:
      return absl::StrCat("SetAcl ", operation.set_acl().path());
    case v1::Operation::kDelete:
      return absl::StrCat("Delete ", operation.delete_().path());
    case v1::Operation::kCreateIfNotExists:
      return absl::StrCat("CreateIfNotExists ", operation.create_if_not_exists().path());
    case v1::Operation::kRemoveRecursive:
      return absl::StrCat("RemoveRecursive ", operation.remove_recursive().path());
    case v1::Operation::kTryRemove:
      return absl::StrCat("TryRemove ", operation.try_remove().path());
    case v1::Operation::kCheckNotExists:
      return absl::StrCat("CheckNotExists ", operation.check_not_exists().path());
    case v1::Operation::kCheckStat:
      return absl::StrCat("CheckStat ", operation.check_stat().path());
    case v1::Operation::kCheckCreated:
      return absl::StrCat("Check ", operation.check_created().path());
    case v1::Operation::kGet:
      return absl::StrCat("Get ", operation.get().path());
    case v1::Operation::kExists:
      return absl::StrCat("Exists ", operation.exists().path());
    case v1::Operation::kList:
      return absl::StrCat("List ", operation.list().path());
    default:
      return absl::StrCat("Check ", operation.check().path());
  }
}

}  // namespace

std::optional<ErrorCode> ErrorOf(const absl::Status& status) {
  const std::optional<v1::ErrorDetail> detail = v1::DetailOf(status);
  if (!detail.has_value()) return std::nullopt;
  return static_cast<ErrorCode>(detail->code());
}

std::optional<size_t> FailedOperationOf(const absl::Status& status) {
  const std::optional<v1::ErrorDetail> detail = v1::DetailOf(status);
  if (!detail.has_value() || !detail->has_operation_index()) return std::nullopt;
  return detail->operation_index();
}

std::optional<TransactionPart> FailedPartOf(const absl::Status& status) {
  const std::optional<v1::ErrorDetail> detail = v1::DetailOf(status);
  if (!detail.has_value() || !detail->has_operation_index()) return std::nullopt;
  if (detail->branch() == v1::BRANCH_OTHERWISE) return TransactionPart::kElse;
  if (detail->branch() == v1::BRANCH_COMPARES) return TransactionPart::kCompares;
  return TransactionPart::kOperations;
}

std::optional<int64_t> ZxidOf(const absl::Status& status) {
  const std::optional<v1::ErrorDetail> detail = v1::DetailOf(status);
  if (!detail.has_value() || detail->zxid() == 0) return std::nullopt;
  return detail->zxid();
}

std::optional<int64_t> DataBytesMaxOf(const absl::Status& status) {
  const std::optional<v1::ErrorDetail> detail = v1::DetailOf(status);
  if (!detail.has_value() || detail->data_bytes_max() == 0) return std::nullopt;
  return detail->data_bytes_max();
}

std::string_view NameOf(ErrorCode code) {
  const google::protobuf::EnumValueDescriptor* value =
      v1::ErrorCode_descriptor()->FindValueByNumber(static_cast<int>(code));
  if (value == nullptr) return "UNKNOWN";
  if (code == ErrorCode::kOk) return "OK";
  return std::string_view(value->name()).substr(std::string_view("ERROR_CODE_").size());
}

namespace internal {

absl::Status MakeError(v1::ErrorCode code, const std::string& what, const v1::Response* response) {
  v1::ErrorDetail detail;
  if (response != nullptr) {
    *detail.mutable_results() = response->write().results();
    detail.set_branch(response->write().branch());
    const std::optional<uint32_t> failed = v1::FailedIndexOf(detail.results());
    if (failed.has_value()) detail.set_operation_index(*failed);
    detail.set_zxid(response->zxid());
    detail.set_data_bytes_max(response->data_bytes_max());
  }
  return v1::ToStatus(code, absl::StrCat(what, ": ", ToAbsl(v1::TextOf(code))), std::move(detail));
}

absl::Status SessionLostError(const std::string& message) {
  return MakeError(v1::ERROR_CODE_SESSION_EXPIRED, message);
}

absl::Status WithText(const absl::Status& status, absl::string_view text) {
  absl::Status longer(status.code(), absl::StrCat(status.message(), text));
  status.ForEachPayload([&longer](absl::string_view url, const absl::Cord& payload) {
    longer.SetPayload(url, payload);
  });
  return longer;
}

std::string Describe(const v1::Request& request) {
  switch (request.kind_case()) {
    case v1::Request::kGet:
      return absl::StrCat("Get ", request.get().path());
    case v1::Request::kExists:
      return absl::StrCat("Exists ", request.exists().path());
    case v1::Request::kList:
      return absl::StrCat("List ", request.list().path());
    case v1::Request::kListRecursive:
      return absl::StrCat("ListRecursive ", request.list_recursive().path());
    case v1::Request::kGetAcl:
      return absl::StrCat("GetAcl ", request.get_acl().path());
    case v1::Request::kWatch:
      return absl::StrCat("Watch ", request.watch().path());
    case v1::Request::kAddCredential:
      return "AddCredential";
    case v1::Request::kSync:
      return "Sync";
    case v1::Request::kWhoAmI:
      return "WhoAmI";
    case v1::Request::kClose:
      return "Close";
    default:
      break;
  }
  const int operations = request.write().operations_size();
  const int compares = request.write().compares_size();
  if (compares > 0 || request.write().otherwise_size() > 0) {
    return absl::StrCat(
        "Commit of ", operations, " operations, or ", request.write().otherwise_size(),
        " otherwise, by ", compares, " compares",
        compares == 0 ? "" : ", the first one of " + request.write().compares(0).path());
  }
  if (operations == 0) return "Commit of nothing";
  if (operations == 1) return DescribeOperation(request.write().operations(0));
  // The last operation identifies the write best: those before it are often conditions for it.
  return absl::StrCat("Commit of ", operations, " operations, the last one ",
                      DescribeOperation(request.write().operations(operations - 1)));
}

}  // namespace internal
}  // namespace quorate
