// SPDX-License-Identifier: Apache-2.0

// One transaction of a ZooKeeper log: the changes that a server applied with one zxid.
//
// Thread-safety: values; functions without state.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "rpc/zookeeper/opcodes.h"
#include "tree/types.h"

namespace quorate::tools::zookeeper {

// The opcode of a transaction's request, or of one operation of a multi.
using TransactionType = rpc::zk::OpCode;

// A change of one znode. Views point into the decoded bytes.
struct Operation {
  // kCreate stands for all creates, kDelete and kSetData for their variants; or kSetAcl.
  TransactionType type = TransactionType::kCreate;
  std::string_view path;
  bool has_data = false;
  std::string_view data;
  std::vector<tree::Acl> acl;
  tree::SessionId owner;         // create: encodes the kind of node (tree/node_kind.h)
  int32_t parent_cversion = -1;  // create: the parent's new cversion; -1: the old one plus 1
  int32_t version = 0;           // setData, setAcl: the new version
};

struct Transaction {
  tree::SessionId session;
  tree::Zxid zxid;
  int64_t time_ms = 0;
  TransactionType type = TransactionType::kError;
  int32_t timeout_ms = 0;                 // createSession
  std::vector<std::string_view> closed;   // closeSession: the deleted znodes, if listed
  std::vector<Operation> operations;      // none if the transaction failed
  std::optional<int32_t> digest_version;  // of ZooKeeper's digest, if there is one
  uint64_t digest = 0;                    // of the tree after the transaction
};

// Decodes `bytes` into `*transaction`, reusing its memory. The message of DataLoss says what is
// wrong.
absl::Status DecodeTransaction(std::string_view bytes, Transaction* transaction);

}  // namespace quorate::tools::zookeeper
