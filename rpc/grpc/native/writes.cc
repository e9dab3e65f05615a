// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/native/writes.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "rpc/frontend/reply_bytes.h"
#include "rpc/frontend/request_limits.h"
#include "rpc/grpc/native/translation.h"
#include "rpc/proto/errors.h"

namespace quorate::rpc::native {
namespace {

tree::ErrorCode RefusalOf(v1::ErrorCode why) {
  switch (why) {
    case v1::ERROR_CODE_BAD_ARGUMENTS:
      return tree::ErrorCode::kBadArguments;
    case v1::ERROR_CODE_UNIMPLEMENTED:
      return tree::ErrorCode::kUnimplemented;
    case v1::ERROR_CODE_TOO_LARGE:
      return tree::ErrorCode::kTooLarge;
    case v1::ERROR_CODE_NO_SPACE:
      return tree::ErrorCode::kNoSpace;
    default:
      break;
  }
  ASSERT(false, "MakeRequest returns no other error");
}

}  // namespace

absl::Status CheckServing(const Service& service) {
  if (!service.status().in_touch) return OutOfTouch();
  if (service.cluster_version() >= tree::kVersionNumbered) return absl::OkStatus();
  return ToStatus(v1::ERROR_CODE_UNAVAILABLE,
                  "not all servers are known to be of a version that has this interface; update "
                  "those that are not, and start those that are stopped");
}

absl::Status OutOfTouch() {
  return ToStatus(v1::ERROR_CODE_UNAVAILABLE,
                  "this member is out of touch with a majority of the servers; try another one");
}

absl::Status CheckCaughtUp(const ServerStatus& status) {
  if (status.caught_up) return absl::OkStatus();
  return ToStatus(v1::ERROR_CODE_UNAVAILABLE,
                  "this member has not caught up with a leader since it started; try another one");
}

absl::Status CheckContact(const ServerStatus& status, int64_t limit_ms) {
  if (status.leader_contact_age_ms <= limit_ms) return absl::OkStatus();
  return ToStatus(v1::ERROR_CODE_UNAVAILABLE,
                  absl::StrCat("this member has had no contact with a leader for ",
                               status.leader_contact_age_ms, " ms; try another one"));
}

absl::Status CheckFresh(const ServerStatus& status, const Config& config) {
  if (absl::Status s = CheckCaughtUp(status); !s.ok()) return s;
  const int64_t limit_ms = config.StaleReadLimitMs();
  return limit_ms < 0 ? absl::OkStatus() : CheckContact(status, limit_ms);
}

size_t PathBytesMax(const Config& config) {
  return static_cast<size_t>(std::max(config.jute_max_buffer_bytes, config.max_multi_bytes));
}

absl::Status IsBehind(tree::Zxid wanted, tree::Zxid applied) {
  return ToStatus(
      v1::ERROR_CODE_UNAVAILABLE,
      absl::StrCat("the client has seen zxid ", wanted.value(), ", this member has applied only ",
                   applied.value(), "; try another one"));
}

v1::ErrorCode MakeRequest(const v1::Request::Write& write, const Config& config,
                          const Service& service, tree::Request* request) {
  const size_t then_count = static_cast<size_t>(write.operations_size());
  const size_t count = then_count + static_cast<size_t>(write.otherwise_size());
  const size_t compares = static_cast<size_t>(write.compares_size());
  // This is checked before memory is allocated for each operation: a short message can have very
  // many.
  if (!ChecksFit(count + compares, request->identities.size())) return v1::ERROR_CODE_TOO_LARGE;
  request->has_branches = compares > 0 || count > then_count;
  if (request->has_branches && count + compares > kBranchPartsMax) return v1::ERROR_CODE_TOO_LARGE;
  request->multi = request->has_branches || count > 1;
  request->then_count = request->has_branches ? then_count : 0;
  request->ops.resize(count);
  request->compares.resize(compares);
  size_t data_bytes = 0;
  bool is_good = count + compares > 0;
  const auto translate = [&](const auto& from, auto to) {
    for (int i = 0; is_good && i < from.size(); ++i, ++to) {
      is_good = FromProto(from[i], &*to);
      data_bytes += DataBytesOf(from[i]);
    }
  };
  translate(write.operations(), request->ops.begin());
  translate(write.otherwise(), request->ops.begin() + static_cast<ptrdiff_t>(then_count));
  translate(write.compares(), request->compares.begin());
  if (!is_good) return v1::ERROR_CODE_BAD_ARGUMENTS;
  if (tree::VersionNeeded(*request) > service.cluster_version())
    return v1::ERROR_CODE_UNIMPLEMENTED;
  if (data_bytes > static_cast<size_t>(config.jute_max_buffer_bytes))
    return v1::ERROR_CODE_TOO_LARGE;
  if (ResultBytesMax(*request) > static_cast<size_t>(config.max_reply_bytes))
    return v1::ERROR_CODE_TOO_LARGE;
  if (!AclsFit(*request, request->identities)) return v1::ERROR_CODE_TOO_LARGE;
  // Every member keeps the answer of a numbered write.
  const bool adds = tree::AddsData(*request) || (write.sequence() != 0 && tree::HasReads(*request));
  return service.refuses_data() && adds ? v1::ERROR_CODE_NO_SPACE : v1::ERROR_CODE_UNSPECIFIED;
}

void MakeRefused(v1::ErrorCode why, uint32_t version, tree::Request* request) {
  tree::Op op;
  op.path = "";  // not a valid path
  if (version >= tree::kVersionCheckCreated) {
    op.kind = tree::OpKind::kRefused;
    op.refusal = RefusalOf(why);
  } else {
    op.kind = tree::OpKind::kDelete;
  }
  request->multi = false;
  request->has_branches = false;
  request->compares.clear();
  request->then_count = 0;
  request->ops.assign(1, op);
}

bool IsRefusal(const tree::ApplyResult& result, const AskedKinds& asked, bool is_refused) {
  if (result.branch != tree::Branch::kNone || result.ops.size() != 1) return false;
  const tree::ErrorCode error = result.ops[0].error;
  if (!tree::IsRefusal(error)) return false;
  const bool is_one_operation = !asked.has_branches && asked.kinds.size() == 1;
  const bool is_of_front_end =
      error == tree::ErrorCode::kNoSpace || error == tree::ErrorCode::kUnimplemented;
  // The first answer to one operation that is refused now may have been the tree's.
  const bool may_be_of_tree = is_one_operation && (result.repeated || !is_refused);
  return is_of_front_end || !may_be_of_tree;
}

std::string ReasonOf(v1::ErrorCode refused, const tree::Request& request, uint32_t version) {
  if (refused != v1::ERROR_CODE_UNIMPLEMENTED) return {};
  return absl::StrCat("the write needs cluster version ", tree::VersionNeeded(request),
                      ", and the cluster has version ", version,
                      "; update the servers that run an older program, start those that are "
                      "stopped, and remove clusterVersionMax");
}

size_t PartsOf(const v1::Request::Write& write) {
  return static_cast<size_t>(write.operations_size()) +
         static_cast<size_t>(write.otherwise_size()) + static_cast<size_t>(write.compares_size());
}

AskedKinds KindsOf(const tree::Request& request) {
  AskedKinds asked;
  asked.kinds.reserve(request.ops.size());
  for (const tree::Op& op : request.ops) asked.kinds.push_back(op.kind);
  asked.has_branches = request.has_branches;
  asked.then_count = request.then_count;
  return asked;
}

void RecordRefused(RequestAudit* audit, tree::SessionId session,
                   std::span<const tree::Identity> identities, const v1::Request::Write& write) {
  if (audit == nullptr) return;
  tree::Request request;
  request.multi =
      write.operations_size() != 1 || write.compares_size() > 0 || write.otherwise_size() > 0;
  // Of an operation that is not valid, what was translated is recorded.
  if (!request.multi) FromProto(write.operations(0), &request.ops.emplace_back());
  audit->OnRefused(session, identities, request);
}

}  // namespace quorate::rpc::native
