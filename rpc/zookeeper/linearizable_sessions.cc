// SPDX-License-Identifier: Apache-2.0

#include "rpc/zookeeper/linearizable_sessions.h"

#include <charconv>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace quorate::rpc::zk {
namespace {

// Returns the session that a name stands for; no value if it is not the name of a session in the
// only form that is accepted, so that no two names stand for one session.
std::optional<tree::SessionId> SessionOf(std::string_view name) {
  constexpr std::string_view kPrefix = "0x";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kPrefix.size());
  uint64_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, /*base=*/16);
  if (error != std::errc() || digits != absl::StrCat(absl::Hex(value))) return std::nullopt;
  return tree::SessionId(static_cast<int64_t>(value));
}

}  // namespace

std::optional<LinearizableSessions::Change> LinearizableSessions::OnNodeEvent(
    tree::EventType type, std::string_view path) {
  if (type == tree::EventType::kNodeDataChanged || path.size() <= kParent.size() + 1 ||
      !path.starts_with(kParent) || path[kParent.size()] != '/') {
    return std::nullopt;
  }
  const std::optional<tree::SessionId> session = SessionOf(path.substr(kParent.size() + 1));
  if (!session.has_value()) return std::nullopt;
  const bool is_linearizable = type == tree::EventType::kNodeCreated;
  Set(*session, is_linearizable);
  return Change{*session, is_linearizable};
}

void LinearizableSessions::Reset(const tree::Tree& tree) {
  {
    MutexLock lock(&mutex_);
    sessions_.clear();
  }
  any_.store(false);
  const std::vector<tree::Identity> everything = {{"super", ""}};
  tree::Stat stat;
  const auto add = [this](std::string_view name) {
    if (const auto session = SessionOf(name)) Set(*session, /*is_linearizable=*/true);
  };
  // There may be no such znode.
  static_cast<void>(tree.GetChildren(kParent, everything, add, &stat));
}

bool LinearizableSessions::Has(tree::SessionId session) const {
  if (!any_.load()) return false;
  MutexLock lock(&mutex_);
  return sessions_.contains(session);
}

void LinearizableSessions::Set(tree::SessionId session, bool is_linearizable) {
  MutexLock lock(&mutex_);
  if (is_linearizable) {
    sessions_.insert(session);
  } else {
    sessions_.erase(session);
  }
  any_.store(!sessions_.empty());
}

}  // namespace quorate::rpc::zk
