// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/tree_writer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/strings.h"
#include "rpc/frontend/request_limits.h"

namespace quorate::rpc {

absl::Status TreeWriter::Check(const tree::Request& request) const {
  if (!service_->status().serving()) {
    return absl::UnavailableError(
        "this member does not serve at the moment; nothing was written: use another member");
  }
  if (service_->cluster_version() < tree::VersionNeeded(tree::CommandHeader(), request)) {
    return absl::UnavailableError(
        "not all members are known to be of a version that has such writes; update those that are "
        "not, and start those that are stopped");
  }
  if (service_->congested()) {
    return absl::UnavailableError("this member has too much to do; nothing was written: try again");
  }
  const tree::Op& op = request.ops.front();
  const auto data_bytes_max = static_cast<size_t>(config_.jute_max_buffer_bytes);
  if (op.path.size() > data_bytes_max || op.data.size() > data_bytes_max ||
      !AclsFit(request, request.identities)) {
    return absl::InvalidArgumentError(
        "the path, the data or the access control list is larger than jute.maxbuffer or the limits "
        "of lists allow");
  }
  if (service_->refuses_data() && tree::AddsData(request)) {
    return absl::ResourceExhaustedError(
        "disks or memory are almost full, so that writes that add data are refused: delete znodes, "
        "free disk space, or raise memoryLimitMb");
  }
  return absl::OkStatus();
}

absl::Status TreeWriter::Write(tree::Op op, const ClientIdentities& identities, Done done) {
  tree::Request request;
  request.ops.push_back(std::move(op));
  identities.ResolveAuth(&request);
  request.identities = identities.all();
  request.enforces_quota =
      config_.enforce_quota && service_->cluster_version() >= tree::kVersionExpiry;
  absl::Status checked = Check(request);
  tree::CommandHeader header;
  header.kind = tree::CommandKind::kRequest;
  header.proposer = service_->proposer();
  CommandBatch batch;
  if (checked.ok()) {
    MutexLock lock(&mutex_);
    if (waiting_.size() < kWaitingMax) {
      do {
        header.proposer_tag = tags_.first + next_++ % tags_.count;
      } while (waiting_.contains(header.proposer_tag));
      tree::AppendRequest(header, request, batch.bytes.get());
      if (batch.bytes->size() <= kCommandBytesMax) {
        waiting_[header.proposer_tag] = std::move(done);
      } else {
        checked = absl::InvalidArgumentError("the write is larger than the log takes");
      }
    } else {
      checked = absl::ResourceExhaustedError(
          absl::StrCat(kWaitingMax, " writes are under way at this server; try again later"));
    }
  }
  if (!checked.ok()) return checked;
  batch.commands.push_back({0, batch.bytes->size()});
  service_->Submit(std::move(batch));
  return absl::OkStatus();
}

void TreeWriter::OnResult(tree::ApplyResult result) {
  Done done;
  {
    MutexLock lock(&mutex_);
    const auto found = waiting_.find(result.header.proposer_tag);
    if (found == waiting_.end()) return;  // the tree was replaced meanwhile
    done = std::move(found->second);
    waiting_.erase(found);
  }
  ASSERT(result.error == tree::ErrorCode::kOk && result.ops.size() == 1,
         "a request without a session is always applied");
  done(std::move(result.ops.front()));
}

void TreeWriter::OnTreeReplaced(const tree::Tree& /*tree*/) {
  absl::flat_hash_map<uint32_t, Done> waiting;
  {
    MutexLock lock(&mutex_);
    waiting.swap(waiting_);
  }
  for (const auto& [tag, done] : waiting) {
    done(absl::UnavailableError(
        "this member was far behind, and does not know the outcome; look at the znode again"));
  }
}

}  // namespace quorate::rpc
