// A change of a znode, as watches are told of it.
//
// Thread-safety: values that nobody changes.
#pragma once

#include <string>

#include "rpc/server/client_identities.h"
#include "tree/types.h"

namespace quorate::rpc::native {

struct Event {
  tree::EventType type{};  // never kNodeChildrenChanged
  std::string path;
  tree::Zxid zxid;
  Readers readers;
  // Of a creation or deletion: who may list the parent. A watch on its children tells them of it,
  // also those who are not among the readers.
  Readers parent_readers;

  bool changes_children() const { return type != tree::EventType::kNodeDataChanged; }
};

}  // namespace quorate::rpc::native
