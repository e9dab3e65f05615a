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
};

}  // namespace quorate::rpc::native
