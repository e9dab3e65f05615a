// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/group_membership.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace quorate {

using internal::CallbackThread;

namespace {

// Returns a listener for the TreeCache that passes the changes of members to `listener`.
TreeCache::Listener Translate(std::string path, GroupMembership::Listener listener) {
  if (listener == nullptr) return nullptr;
  return [path = std::move(path), listener = std::move(listener)](const TreeCache::Change& change) {
    using From = TreeCache::Change::Type;
    using To = GroupMembership::Change::Type;
    if (change.type == From::kLost) return listener({.type = To::kLost});
    if (change.type == From::kLoaded || change.znode.path == path) return;
    const To type = change.type == From::kAdded     ? To::kJoined
                    : change.type == From::kRemoved ? To::kLeft
                                                    : To::kDataChanged;
    const std::string& member = change.znode.path;
    listener({type, member.substr(member.rfind('/') + 1), change.znode.data});
  };
}

}  // namespace

absl::StatusOr<std::unique_ptr<GroupMembership>> GroupMembership::Start(Client* client,
                                                                        std::string path,
                                                                        Listener listener,
                                                                        int deadline_ms) {
  std::unique_ptr<GroupMembership> group(new GroupMembership(client, path));
  auto members =
      TreeCache::Start(client, path, Translate(path, std::move(listener)), WatchScope::kChildren);
  if (!members.ok()) return members.status();
  group->members_ = *std::move(members);
  if (absl::Status s = group->members_->WaitUntilLoaded(deadline_ms); !s.ok()) return s;
  return group;
}

absl::Status GroupMembership::Join(std::string id, std::string data, int deadline_ms) {
  if (absl::Status s = CallbackThread::CheckMayBlock(); !s.ok()) return s;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (own_ != nullptr || is_joining_) {
      return absl::FailedPreconditionError(absl::StrCat("this is a member of ", path_, " already"));
    }
    is_joining_ = true;
    is_leaving_ = false;
  }
  auto started = PersistentNode::Start(client_, absl::StrCat(path_, "/", id), std::move(data),
                                       {.takes_over = true});
  const absl::Status start_status = started.status();
  std::shared_ptr<PersistentNode> own;
  if (start_status.ok()) own = *std::move(started);
  bool is_cancelled = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    is_joining_ = false;
    if (!start_status.ok()) return start_status;
    is_cancelled = is_leaving_;
    if (!is_cancelled) own_ = own;
  }
  if (is_cancelled) {
    return absl::CancelledError(absl::StrCat("it left ", path_, " before its znode existed"));
  }
  const absl::Status status = own->WaitUntilThere(deadline_ms);
  if (status.ok()) return status;
  // The last reference to the PersistentNode, which closes it, is dropped after the lock is
  // released.
  std::lock_guard<std::mutex> lock(mutex_);
  if (own_ == own) own_.reset();
  return status;
}

absl::Status GroupMembership::SetData(std::string data) {
  if (absl::Status s = CallbackThread::CheckMayBlock(); !s.ok()) return s;
  std::shared_ptr<PersistentNode> own;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    own = own_;
  }
  if (own != nullptr) return own->SetData(std::move(data));
  return absl::FailedPreconditionError(
      absl::StrCat(path_, ": this object has not joined the group; call Join first"));
}

absl::Status GroupMembership::Leave() {
  if (absl::Status s = CallbackThread::CheckMayBlock(); !s.ok()) return s;
  std::shared_ptr<PersistentNode> own;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    is_leaving_ = is_joining_;
    own = std::exchange(own_, nullptr);
  }
  return own == nullptr ? absl::OkStatus() : own->Close();
}

std::map<std::string, std::string> GroupMembership::Members() const {
  std::map<std::string, std::string> members;
  for (auto& [id, znode] : members_->Children(path_)) members.emplace(id, std::move(znode.data));
  return members;
}

absl::StatusOr<std::map<std::string, std::string>> GroupMembership::CurrentMembers(
    int deadline_ms) {
  if (absl::Status s = members_->WaitUntilCurrent(deadline_ms); !s.ok()) return s;
  return Members();
}

}  // namespace quorate
