// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/session_closer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"

namespace quorate::rpc {

absl::Status SessionCloser::Close(tree::SessionId session, Done done) {
  if (!service_->status().serving()) {
    return absl::UnavailableError(
        "this member does not serve at the moment; the session was not closed: ask another member");
  }
  if (service_->congested()) {
    return absl::UnavailableError(
        "this member has too much to do; the session was not closed: ask another member, or try "
        "again");
  }
  tree::CommandHeader header;
  // Without the zxid of an attachment, the command closes the session whatever its client.
  header.kind = tree::CommandKind::kCloseSession;
  header.proposer = service_->proposer();
  header.session = session;
  {
    MutexLock lock(&mutex_);
    if (waiting_.size() >= kWaitingMax) {
      return absl::ResourceExhaustedError(
          absl::StrCat(kWaitingMax, " sessions are being closed at this server; try again later"));
    }
    do {
      header.proposer_tag = tags_.first + next_++ % tags_.count;
    } while (waiting_.contains(header.proposer_tag));
    waiting_[header.proposer_tag] = std::move(done);
  }
  CommandBatch batch;
  tree::AppendCloseSession(header, batch.bytes.get());
  batch.commands.push_back({0, batch.bytes->size()});
  service_->Submit(std::move(batch));
  return absl::OkStatus();
}

void SessionCloser::OnResult(tree::ApplyResult result) {
  Done done;
  {
    MutexLock lock(&mutex_);
    const auto found = waiting_.find(result.header.proposer_tag);
    if (found == waiting_.end()) return;  // the tree was replaced meanwhile
    done = std::move(found->second);
    waiting_.erase(found);
  }
  ASSERT(result.error == tree::ErrorCode::kOk || result.error == tree::ErrorCode::kSessionExpired,
         "a command without an attachment has no other outcome");
  done(result.error == tree::ErrorCode::kOk);
}

void SessionCloser::OnTreeReplaced(const tree::Tree& /*tree*/) {
  absl::flat_hash_map<uint32_t, Done> waiting;
  {
    MutexLock lock(&mutex_);
    waiting.swap(waiting_);
  }
  for (const auto& [tag, done] : waiting) {
    done(absl::UnavailableError(
        "this member was far behind, and does not know the outcome; look for the session again"));
  }
}

}  // namespace quorate::rpc
