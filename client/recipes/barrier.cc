// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/barrier.h"

#include "absl/strings/str_cat.h"
#include "client/recipes/waiting.h"

namespace quorate {

absl::Status Barrier::Close() { return internal::EnsureZnode(client_, path_); }

absl::Status Barrier::Open() {
  absl::Status status = client_->Delete(path_).status();
  return ErrorOf(status) == ErrorCode::kNoNode ? absl::OkStatus() : status;
}

absl::Status Barrier::Wait(int deadline_ms) {
  const internal::WaitDeadline deadline(deadline_ms);
  std::optional<int64_t> first_zxid;
  return internal::WaitUntil(
      client_, path_, WatchScope::kNode, deadline, absl::StrCat("the barrier at ", path_),
      [&]() -> absl::StatusOr<bool> {
        // Linearizable, so that a gate that another client closed before this call is seen closed.
        auto stat = client_->Exists(
            path_, {.linearizable = true, .deadline_ms = deadline.ReadDeadlineMs()});
        if (!stat.ok()) return stat.status();
        if (!stat->has_value()) return true;
        if (!first_zxid.has_value()) first_zxid = (*stat)->created_zxid;
        return *first_zxid != (*stat)->created_zxid;
      });
}

}  // namespace quorate
