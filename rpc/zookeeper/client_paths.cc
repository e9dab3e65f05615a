// SPDX-License-Identifier: Apache-2.0

#include "rpc/zookeeper/client_paths.h"

#include "rpc/zookeeper/keeper_nodes.h"
#include "rpc/zookeeper/protocol.h"

namespace quorate::rpc::zk {
namespace {

// Returns whether `path` is `top` or below it. REQUIRES: `top` does not end with '/'.
bool IsWithin(std::string_view path, std::string_view top) {
  return path.starts_with(top) && (path.size() == top.size() || path[top.size()] == '/');
}

bool IsOfTheSystem(std::string_view path) {
  return IsWithin(path, "/zookeeper") || IsKeeperPath(path);
}

// Returns the first path of a setWatches; empty if it has none.
std::string_view FirstWatch(OpCode op, std::string_view body) {
  SetWatchesRequest request;
  if (!DecodeSetWatches(op, body, &request)) return {};
  for (const std::vector<std::string_view>* paths : request.lists()) {
    if (!paths->empty()) return paths->front();
  }
  return {};
}

// Returns the path with which the request begins, or the first path of a request with several ones;
// empty if there is none.
std::string_view FirstPath(OpCode op, std::string_view body) {
  BigEndianReader reader(body);
  switch (op) {
    case OpCode::kSetWatches:
    case OpCode::kSetWatches2:
      return FirstWatch(op, body);
    case OpCode::kMulti:
    case OpCode::kMultiRead:  // the header of the first item is in front of its path
      reader.Int<int32_t>();
      reader.Int<uint8_t>();
      reader.Int<int32_t>();
      break;
    default: {
      const OpCodeKind kind = InfoOf(op).kind;
      const bool has_path = kind == OpCodeKind::kRead || kind == OpCodeKind::kWrite ||
                            kind == OpCodeKind::kWatch || op == OpCode::kSync;
      if (!has_path || op == OpCode::kWhoAmI) return {};
    }
  }
  const std::string_view path = reader.String();
  return reader.ok() ? path : std::string_view();
}

}  // namespace

void ClientPaths::Decide(OpCode op, std::string_view body) {
  const std::string_view path = FirstPath(op, body);
  if (path.empty() || IsOfTheSystem(path)) return;
  state_ = IsWithin(path, kLinearizableChroot) ? State::kChroot : State::kPlain;
}

bool ClientPaths::RemovePrefix(std::string_view* path) {
  if (!IsWithin(*path, kLinearizableChroot)) return IsOfTheSystem(*path);
  path->remove_prefix(kLinearizableChroot.size());
  if (path->empty()) *path = "/";
  return true;
}

bool ClientPaths::ToTree(std::vector<std::string_view>* paths) const {
  for (std::string_view& path : *paths) {
    if (!ToTree(&path)) return false;
  }
  return true;
}

std::string_view ClientPaths::ToClient(std::string_view path, std::string* storage) const {
  if (state_ != State::kChroot || IsOfTheSystem(path)) return path;
  storage->assign(kLinearizableChroot);
  if (path != "/") storage->append(path);
  return *storage;
}

}  // namespace quorate::rpc::zk
