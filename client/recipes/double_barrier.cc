// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/double_barrier.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "client/recipes/sequential_names.h"
#include "client/recipes/waiting.h"
#include "client/session_loss.h"

namespace quorate {
namespace {

constexpr std::string_view kReady = "ready";
// Writes have no deadline: after one whose outcome is unknown, a member might be inside without
// knowing it.
constexpr CallOptions kNoDeadline{.deadline_ms = -1};

// Returns whether another client changed a condition of the transaction, so that it must be
// retried.
bool IsConflict(const absl::Status& status) {
  const std::optional<ErrorCode> error = ErrorOf(status);
  return error == ErrorCode::kBadVersion || error == ErrorCode::kNoNode ||
         error == ErrorCode::kNodeExists;
}

}  // namespace

DoubleBarrier::DoubleBarrier(Client* client, std::string path, int members)
    : client_(client), path_(std::move(path)), members_(members) {
  ASSERT(members > 0, "a barrier has members");
}

std::string DoubleBarrier::PathOf(std::string_view name) const {
  return path_ + "/" + std::string(name);
}

absl::StatusOr<DoubleBarrier::View> DoubleBarrier::Read(int deadline_ms) {
  absl::StatusOr<ListResult> list = client_->List(path_, {.deadline_ms = deadline_ms});
  if (!list.ok()) return list.status();
  View view;
  view.version = list->stat.version;
  for (std::string& name : list->children) {
    if (name == kReady) {
      view.is_ready = true;
    } else {
      view.members.push_back(std::move(name));
    }
  }
  return view;
}

absl::Status DoubleBarrier::Join(const internal::WaitDeadline& deadline) {
  // A UUID. It is stored before it is known whether the znode was created.
  own_ = NewProtectionPrefix().substr(3, 36);
  for (;;) {
    absl::StatusOr<View> view = Read(deadline.ReadDeadlineMs());
    if (ErrorOf(view.status()) == ErrorCode::kNoNode) {
      if (absl::Status s = internal::EnsureZnode(client_, path_); !s.ok()) return s;
      continue;
    }
    if (!view.ok()) return view.status();
    Transaction transaction;
    if (view->is_ready && view->members.empty()) {
      // Members that all crashed have left `ready` behind.
      transaction.CheckVersion(path_, view->version).Delete(PathOf(kReady));
    } else if (view->is_ready) {
      // This member is late. The new version makes a concurrent removal of `ready` fail and retry.
      transaction.Set(path_, "", view->version).CheckExists(PathOf(kReady));
    } else {
      // If `ready` exists, the view was stale: entering without the new version of the case above,
      // this member could be inside while the others close the barrier.
      transaction.CheckAbsent(PathOf(kReady));
    }
    transaction.Create(PathOf(own_), "", CreateMode::kEphemeral);
    const auto made = client_->Commit(transaction, kNoDeadline);
    if (made.ok()) own_session_id_ = made->results.back().stat.ephemeral_session;
    if (made.ok() || !IsConflict(made.status())) return made.status();
  }
}

absl::StatusOr<bool> DoubleBarrier::OpenIfComplete(const internal::WaitDeadline& deadline) {
  for (;;) {
    const absl::StatusOr<View> view = Read(deadline.ReadDeadlineMs());
    if (!view.ok()) return view.status();
    // Without this member's znode, which may have ended with its session, this member is outside,
    // also if others have opened the barrier.
    if (std::find(view->members.begin(), view->members.end(), own_) == view->members.end()) {
      const std::string what =
          absl::StrCat(path_, ": the znode of this member was deleted before it had entered");
      return client_->session_id() == own_session_id_ ? absl::AbortedError(what)
                                                      : internal::SessionLostError(what);
    }
    if (view->is_ready) return true;
    if (view->members.size() < static_cast<size_t>(members_)) return false;
    Transaction transaction;
    transaction.Set(path_, "", view->version);
    for (const std::string& member : view->members) transaction.CheckExists(PathOf(member));
    transaction.Create(PathOf(kReady));
    const absl::Status status = client_->Commit(transaction, kNoDeadline).status();
    if (status.ok()) return true;
    if (!IsConflict(status)) return status;
  }
}

absl::Status DoubleBarrier::GiveUp(absl::Status reason) {
  const absl::Status status = client_
                                  ->Commit(Transaction()
                                               .CheckExists(PathOf(own_))
                                               .CheckAbsent(PathOf(kReady))
                                               .Delete(PathOf(own_)),
                                           kNoDeadline)
                                  .status();
  // The barrier opened just before: this member is inside.
  if (ErrorOf(status) == ErrorCode::kNodeExists) return absl::OkStatus();
  // The znode has ended with its session, or another client deleted it.
  const bool is_gone =
      ErrorOf(status) == ErrorCode::kNoNode || internal::IsSessionReplaced(*client_, status);
  if (!status.ok() && !is_gone) return status;
  own_.clear();
  return reason;
}

absl::Status DoubleBarrier::Enter(int deadline_ms) {
  if (!own_.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(path_, ": this member has entered already"));
  }
  const internal::WaitDeadline deadline(deadline_ms);
  if (absl::Status s = Join(deadline); !s.ok()) {
    own_.clear();
    return s;
  }
  const absl::StatusOr<bool> is_open = OpenIfComplete(deadline);
  if (!is_open.ok()) return GiveUp(is_open.status());
  if (*is_open) return absl::OkStatus();
  const std::string ready = PathOf(kReady);
  absl::Status status = internal::WaitUntil(
      client_, ready, WatchScope::kNode, deadline,
      absl::StrCat(members_, " members at the barrier ", path_),
      [&]() -> absl::StatusOr<bool> {
        auto stat = client_->Exists(ready, {.deadline_ms = deadline.ReadDeadlineMs()});
        if (!stat.ok()) return stat.status();
        return stat->has_value();
      },
      own_session_id_);
  return status.ok() ? status : GiveUp(std::move(status));
}

absl::StatusOr<bool> DoubleBarrier::CloseIfEmpty(const std::vector<std::string>& inside,
                                                 const internal::WaitDeadline& deadline,
                                                 std::string* next) {
  for (;;) {
    const absl::StatusOr<View> view = Read(deadline.ReadDeadlineMs());
    if (ErrorOf(view.status()) == ErrorCode::kNoNode) return true;
    if (!view.ok()) return view.status();
    // Without `ready` the barrier is closed: all members that are there wait for the next round.
    if (!view->is_ready) return true;
    next->clear();
    for (const std::string& member : inside) {
      if (std::find(view->members.begin(), view->members.end(), member) != view->members.end()) {
        *next = std::max(*next, member);
      }
    }
    if (!next->empty()) return false;
    // Only late members are inside; the last of them closes the barrier.
    if (!view->members.empty()) return true;
    const absl::Status status =
        client_
            ->Commit(Transaction().CheckVersion(path_, view->version).Delete(PathOf(kReady)),
                     kNoDeadline)
            .status();
    if (!status.ok() && !IsConflict(status)) return status;
  }
}

absl::Status DoubleBarrier::Leave(int deadline_ms) {
  if (own_.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot leave the barrier ", path_, ": this object has not entered it"));
  }
  const internal::WaitDeadline deadline(deadline_ms);
  const absl::Status removed = client_->Delete(PathOf(own_), {.deadline_ms = -1}).status();
  if (!removed.ok() && ErrorOf(removed) != ErrorCode::kNoNode) return removed;
  own_.clear();
  const absl::StatusOr<View> view = Read(deadline.ReadDeadlineMs());
  if (ErrorOf(view.status()) == ErrorCode::kNoNode) return absl::OkStatus();
  if (!view.ok()) return view.status();
  for (std::string awaited;;) {
    const absl::StatusOr<bool> is_empty = CloseIfEmpty(view->members, deadline, &awaited);
    if (!is_empty.ok()) return is_empty.status();
    if (*is_empty) return absl::OkStatus();
    absl::Status status = internal::WaitUntil(
        client_, PathOf(awaited), WatchScope::kNode, deadline,
        absl::StrCat("the others to leave the barrier ", path_), [&]() -> absl::StatusOr<bool> {
          auto stat = client_->Exists(PathOf(awaited), {.deadline_ms = deadline.ReadDeadlineMs()});
          if (!stat.ok()) return stat.status();
          return !stat->has_value();
        });
    if (!status.ok()) return status;
  }
}

}  // namespace quorate
