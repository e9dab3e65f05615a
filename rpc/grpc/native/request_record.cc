// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/native/request_record.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace quorate::rpc::native {
namespace {

constexpr std::string_view kNames[] = {
    "grpc.get",
    "grpc.exists",
    "grpc.list",
    "grpc.list_recursive",
    "grpc.get_acl",
    "grpc.create",
    "grpc.set",
    "grpc.set_acl",
    "grpc.delete",
    "grpc.check",
    "grpc.create_if_not_exists",
    "grpc.remove_recursive",
    "grpc.try_remove",
    "grpc.txn",
    "grpc.sync",
    "grpc.watch",
    "grpc.unwatch",
    "grpc.add_credential",
    "grpc.who_am_i",
    "grpc.close",
    "grpc.release",
    "grpc.proclaim",
    "grpc.resign",
    "grpc.unknown",
};
static_assert(std::size(kNames) == static_cast<size_t>(RequestKind::kUnknown) + 1);

}  // namespace

std::span<const std::string_view> RequestKindNames() { return kNames; }

RequestKind KindOf(const v1::Request::Write& write) {
  const bool has_branches = write.compares_size() > 0 || write.otherwise_size() > 0;
  if (write.operations_size() != 1 || has_branches) return RequestKind::kTxn;
  switch (write.operations(0).kind_case()) {
    case v1::Operation::kCreate:
      return RequestKind::kCreate;
    case v1::Operation::kSet:
      return RequestKind::kSet;
    case v1::Operation::kSetAcl:
      return RequestKind::kSetAcl;
    case v1::Operation::kDelete:
      return RequestKind::kDelete;
    case v1::Operation::kCheck:
    case v1::Operation::kCheckCreated:
    case v1::Operation::kCheckNotExists:
    case v1::Operation::kCheckStat:
      return RequestKind::kCheck;
    case v1::Operation::kCreateIfNotExists:
      return RequestKind::kCreateIfNotExists;
    case v1::Operation::kRemoveRecursive:
      return RequestKind::kRemoveRecursive;
    case v1::Operation::kTryRemove:
      return RequestKind::kTryRemove;
    case v1::Operation::kGet:
    case v1::Operation::kExists:
    case v1::Operation::kList:
      return RequestKind::kTxn;
    case v1::Operation::KIND_NOT_SET:
      break;
  }
  return RequestKind::kUnknown;
}

RequestKind KindOf(const v1::Request& request) {
  switch (request.kind_case()) {
    case v1::Request::kGet:
      return RequestKind::kGet;
    case v1::Request::kExists:
      return RequestKind::kExists;
    case v1::Request::kList:
      return RequestKind::kList;
    case v1::Request::kListRecursive:
      return RequestKind::kListRecursive;
    case v1::Request::kGetAcl:
      return RequestKind::kGetAcl;
    case v1::Request::kWrite:
      return KindOf(request.write());
    case v1::Request::kSync:
      return RequestKind::kSync;
    case v1::Request::kWatch:
      return RequestKind::kWatch;
    case v1::Request::kUnwatch:
      return RequestKind::kUnwatch;
    case v1::Request::kAddCredential:
      return RequestKind::kAddCredential;
    case v1::Request::kWhoAmI:
      return RequestKind::kWhoAmI;
    case v1::Request::kClose:
      return RequestKind::kClose;
    default:
      break;
  }
  return RequestKind::kUnknown;
}

bool IsWrite(RequestKind kind) {
  switch (kind) {
    case RequestKind::kCreate:
    case RequestKind::kSet:
    case RequestKind::kSetAcl:
    case RequestKind::kDelete:
    case RequestKind::kCheck:
    case RequestKind::kCreateIfNotExists:
    case RequestKind::kRemoveRecursive:
    case RequestKind::kTryRemove:
    case RequestKind::kTxn:
    case RequestKind::kClose:
    case RequestKind::kRelease:
    case RequestKind::kProclaim:
    case RequestKind::kResign:
      return true;
    default:
      return false;
  }
}

bool HasReads(const v1::Request::Write& write) {
  const auto reads = [](const v1::Operation& operation) {
    return operation.has_get() || operation.has_exists() || operation.has_list();
  };
  return std::any_of(write.operations().begin(), write.operations().end(), reads) ||
         std::any_of(write.otherwise().begin(), write.otherwise().end(), reads);
}

std::string_view PathOf(const v1::Operation& operation) {
  switch (operation.kind_case()) {
    case v1::Operation::kCreate:
      return operation.create().path();
    case v1::Operation::kSet:
      return operation.set().path();
    case v1::Operation::kSetAcl:
      return operation.set_acl().path();
    case v1::Operation::kDelete:
      return operation.delete_().path();
    case v1::Operation::kCheck:
      return operation.check().path();
    case v1::Operation::kCheckCreated:
      return operation.check_created().path();
    case v1::Operation::kCheckNotExists:
      return operation.check_not_exists().path();
    case v1::Operation::kCreateIfNotExists:
      return operation.create_if_not_exists().path();
    case v1::Operation::kRemoveRecursive:
      return operation.remove_recursive().path();
    case v1::Operation::kCheckStat:
      return operation.check_stat().path();
    case v1::Operation::kTryRemove:
      return operation.try_remove().path();
    case v1::Operation::kGet:
      return operation.get().path();
    case v1::Operation::kExists:
      return operation.exists().path();
    case v1::Operation::kList:
      return operation.list().path();
    case v1::Operation::KIND_NOT_SET:
      break;
  }
  return {};
}

std::string TakePath(v1::Request* request) {
  std::string* path = nullptr;
  switch (request->kind_case()) {
    case v1::Request::kGet:
      path = request->mutable_get()->mutable_path();
      break;
    case v1::Request::kExists:
      path = request->mutable_exists()->mutable_path();
      break;
    case v1::Request::kList:
      path = request->mutable_list()->mutable_path();
      break;
    case v1::Request::kListRecursive:
      path = request->mutable_list_recursive()->mutable_path();
      break;
    case v1::Request::kGetAcl:
      path = request->mutable_get_acl()->mutable_path();
      break;
    case v1::Request::kWatch:
      path = request->mutable_watch()->mutable_path();
      break;
    default:
      return {};
  }
  return std::move(*path);
}

}  // namespace quorate::rpc::native
