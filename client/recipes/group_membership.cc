#include "client/recipes/group_membership.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace quorate {

using internal::CallbackThread;

namespace {

// The listener of a TreeCache that tells of members.
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
  // Before the lock, here and below: who holds it may wait for the thread of callbacks.
  if (absl::Status s = CallbackThread::CheckMayBlock(); !s.ok()) return s;
  std::lock_guard<std::mutex> lock(mutex_);
  if (own_ != nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("it is a member of ", path_, " already"));
  }
  auto own = PersistentNode::Start(client_, absl::StrCat(path_, "/", id), std::move(data),
                                   {.takes_over = true});
  if (!own.ok()) return own.status();
  if (absl::Status s = (*own)->WaitUntilThere(deadline_ms); !s.ok()) return s;
  own_ = *std::move(own);
  return absl::OkStatus();
}

absl::Status GroupMembership::SetData(std::string data) {
  if (absl::Status s = CallbackThread::CheckMayBlock(); !s.ok()) return s;
  std::lock_guard<std::mutex> lock(mutex_);
  if (own_ != nullptr) return own_->SetData(std::move(data));
  return absl::FailedPreconditionError(absl::StrCat("it is no member of ", path_));
}

absl::Status GroupMembership::Leave() {
  if (absl::Status s = CallbackThread::CheckMayBlock(); !s.ok()) return s;
  std::lock_guard<std::mutex> lock(mutex_);
  if (own_ == nullptr) return absl::OkStatus();
  return std::exchange(own_, nullptr)->Close();
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
