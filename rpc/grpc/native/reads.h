// What is read from the tree for a client, in the words of the published interface.
//
// Thread-safety: functions without state. REQUIRES, of all: the tree is locked for reading.
#pragma once

#include <string>

#include "rpc/grpc/native/translation.h"
#include "rpc/proto/quorate/v1/types.pb.h"
#include "rpc/server/client_identities.h"
#include "tree/tree.h"

namespace quorate::rpc::native {

// Each returns OK, or why nothing was read. `members_text` is what /zookeeper/config shows.
v1::ErrorCode Read(const tree::Tree& tree, const std::string& path,
                   const ClientIdentities& identities, const std::string& members_text,
                   v1::GetResult* result);
v1::ErrorCode Read(const tree::Tree& tree, const std::string& path,
                   const ClientIdentities& identities, const std::string& members_text,
                   v1::ExistsResult* result);
v1::ErrorCode Read(const tree::Tree& tree, const std::string& path,
                   const ClientIdentities& identities, const std::string& members_text,
                   v1::ListResult* result);
v1::ErrorCode Read(const tree::Tree& tree, const std::string& path,
                   const ClientIdentities& identities, const std::string& members_text,
                   v1::GetAclResult* result);

}  // namespace quorate::rpc::native
