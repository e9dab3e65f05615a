// SPDX-License-Identifier: Apache-2.0

// Reads of one znode that return results of the published interface. list_reader.h reads lists.
//
// Thread-safety: functions without state. REQUIRES, for all functions: the tree is locked for
// reading.
#pragma once

#include <string>

#include "rpc/frontend/client_identities.h"
#include "rpc/grpc/native/translation.h"
#include "rpc/proto/quorate/v1/types.pb.h"
#include "tree/tree.h"

namespace quorate::rpc::native {

// Each of these returns OK, or the error of the read. `members_text` is the content of
// /zookeeper/config.
v1::ErrorCode Read(const tree::Tree& tree, const std::string& path,
                   const ClientIdentities& identities, const std::string& members_text,
                   v1::GetResult* result);
v1::ErrorCode Read(const tree::Tree& tree, const std::string& path,
                   const ClientIdentities& identities, const std::string& members_text,
                   v1::ExistsResult* result);
v1::ErrorCode Read(const tree::Tree& tree, const std::string& path,
                   const ClientIdentities& identities, const std::string& members_text,
                   v1::GetAclResult* result);

}  // namespace quorate::rpc::native
