// SPDX-License-Identifier: Apache-2.0

// A list of operations that the servers make together, as one change of the tree, or not at all.
// Client::Commit commits it.
//
// Thread-safety: as a std::vector. A Transaction can be committed any number of times.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "client/types.h"

namespace quorate {

class Transaction {
 public:
  struct CreateOperation {
    std::string path;
    std::string data;
    CreateMode mode = CreateMode::kPersistent;
    std::vector<Acl> acl;  // empty: all clients have all permissions
    int64_t ttl_ms = 0;
  };
  struct SetOperation {
    std::string path;
    std::string data;
    std::optional<int32_t> version;
  };
  struct SetAclOperation {
    std::string path;
    std::vector<Acl> acl;
    std::optional<int32_t> acl_version;
  };
  struct DeleteOperation {
    std::string path;
    std::optional<int32_t> version;
    bool recursive = false;
  };
  struct CheckOperation {
    std::string path;
    std::optional<int32_t> version;
    bool absent = false;
  };
  struct CheckCreatedOperation {
    std::string path;
    int64_t created_zxid = 0;
  };
  using Operation = std::variant<CreateOperation, SetOperation, SetAclOperation, DeleteOperation,
                                 CheckOperation, CheckCreatedOperation>;

  // Each of these functions appends an operation. `version` is the version that the znode must
  // have; nullopt accepts any version.
  Transaction& Create(std::string path, std::string data = {},
                      CreateMode mode = CreateMode::kPersistent, std::vector<Acl> acl = {},
                      int64_t ttl_ms = 0) {
    return Add(CreateOperation{std::move(path), std::move(data), mode, std::move(acl), ttl_ms});
  }
  Transaction& Set(std::string path, std::string data, std::optional<int32_t> version = {}) {
    return Add(SetOperation{std::move(path), std::move(data), version});
  }
  Transaction& SetAcl(std::string path, std::vector<Acl> acl,
                      std::optional<int32_t> acl_version = {}) {
    return Add(SetAclOperation{std::move(path), std::move(acl), acl_version});
  }
  Transaction& Delete(std::string path, std::optional<int32_t> version = {}) {
    return Add(DeleteOperation{std::move(path), version, false});
  }
  // Deletes the whole subtree, at most 10,000 znodes.
  Transaction& DeleteRecursive(std::string path) {
    return Add(DeleteOperation{std::move(path), {}, true});
  }
  Transaction& CheckVersion(std::string path, int32_t version) {
    return Add(CheckOperation{std::move(path), version, false});
  }
  // Checks that the znode is the one with this Stat::created_zxid, not a later one at the same
  // path. Fails the transaction with BAD_VERSION if not; with UNIMPLEMENTED while the cluster has
  // servers of a version without this operation.
  Transaction& CheckCreated(std::string path, int64_t created_zxid) {
    return Add(CheckCreatedOperation{std::move(path), created_zxid});
  }
  Transaction& CheckExists(std::string path) {
    return Add(CheckOperation{std::move(path), {}, false});
  }
  Transaction& CheckAbsent(std::string path) {
    return Add(CheckOperation{std::move(path), {}, true});
  }

  Transaction& Add(Operation operation) {
    operations_.push_back(std::move(operation));
    return *this;
  }
  const std::vector<Operation>& operations() const { return operations_; }

 private:
  std::vector<Operation> operations_;
};

// The result of one operation of a committed transaction.
struct OperationResult {
  // Of a create: the path, with the sequence number appended if the mode is sequential.
  std::string path;
  // Of a create, set or set_acl: the znode's metadata after the operation.
  Stat stat;
  // Of a delete: how many znodes were deleted.
  uint32_t removed = 0;
};

struct TransactionResult {
  int64_t zxid = 0;
  // One for each operation, in the same order.
  std::vector<OperationResult> results;
};

}  // namespace quorate
