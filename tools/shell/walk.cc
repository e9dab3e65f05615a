// SPDX-License-Identifier: Apache-2.0

#include "tools/shell/walk.h"

#include <deque>
#include <optional>
#include <utility>

#include "tools/shell/printing.h"

namespace quorate::tools::shell {
namespace {

// The number of list requests that are outstanding at a time.
constexpr size_t kAhead = 256;

}  // namespace

absl::Status WalkSubtree(Client& client, const std::string& path,
                         const std::function<void(const std::string&)>& visit) {
  struct Pending {
    std::string path;
    std::optional<Call<ListResult>> call;
  };
  std::deque<Pending> pending;
  pending.push_back({path, std::nullopt});
  size_t asked = 0;  // the number of elements of `pending`, from the first one, that were requested
  for (bool is_first = true; !pending.empty(); is_first = false) {
    for (; asked < std::min(kAhead, pending.size()); ++asked) {
      pending[asked].call.emplace(client.AsyncList(pending[asked].path));
    }
    Pending next = std::move(pending.front());
    pending.pop_front();
    --asked;
    auto list = next.call->Wait();
    if (!list.ok()) {
      if (!is_first && ErrorOf(list.status()) == ErrorCode::kNoNode) continue;
      return Failure(list.status(), next.path);
    }
    if (is_first) visit(path);
    for (const std::string& name : list->children) {
      std::string child = ChildPath(next.path, name);
      visit(child);
      pending.push_back({std::move(child), std::nullopt});
    }
  }
  return absl::OkStatus();
}

std::string ChildPath(const std::string& parent, const std::string& name) {
  return parent == "/" ? "/" + name : parent + "/" + name;
}

std::string ParentPath(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
}

}  // namespace quorate::tools::shell
