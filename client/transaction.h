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

// Operations that the servers make all, or none (Client::Commit).
class Transaction {
 public:
  // What the function Create appends; each of the types below belongs to the function of its name.
  struct CreateOperation {
    std::string path;
    std::string data;
    CreateMode mode = CreateMode::kPersistent;
    std::vector<Acl> acl;  // empty: all clients have all permissions
    int64_t ttl_ms = 0;
  };
  // As Client::Set.
  struct SetOperation {
    std::string path;
    std::string data;
    std::optional<int32_t> version;
  };
  // As Client::SetAcl.
  struct SetAclOperation {
    std::string path;
    std::vector<Acl> acl;
    std::optional<int32_t> acl_version;
  };
  // As Client::Delete.
  struct DeleteOperation {
    std::string path;
    std::optional<int32_t> version;
    bool recursive = false;
  };
  // That a znode exists, has a version, or is absent.
  struct CheckOperation {
    std::string path;
    std::optional<int32_t> version;
    bool absent = false;
  };
  // That a znode is still the one that was created then.
  struct CheckCreatedOperation {
    std::string path;
    int64_t created_zxid = 0;
  };
  // That no znode exists, or none with a version.
  struct CheckNotExistsOperation {
    std::string path;
    std::optional<int32_t> version;
  };
  // As Client::CreateIfNotExists.
  struct CreateIfNotExistsOperation {
    CreateOperation create;
  };
  // As Client::RemoveRecursive.
  struct RemoveRecursiveOperation {
    std::string path;
    std::optional<uint32_t> limit;  // nullopt: 10,000
  };
  // That a znode has a certain Stat.
  struct CheckStatOperation {
    std::string path;
    StatCondition condition;
  };
  // As Client::TryRemove.
  struct TryRemoveOperation {
    std::string path;
    std::optional<int32_t> version;
  };
  // One operation of a transaction.
  using Operation =
      std::variant<CreateOperation, SetOperation, SetAclOperation, DeleteOperation, CheckOperation,
                   CheckCreatedOperation, CheckNotExistsOperation, CreateIfNotExistsOperation,
                   RemoveRecursiveOperation, CheckStatOperation, TryRemoveOperation>;

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

  // The functions below append the operations of ClickHouse Keeper. They fail the transaction with
  // UNIMPLEMENTED while the cluster has servers of a version without them.

  // Checks that no znode exists at the path; with a version, that no znode with this version does.
  // Fails the transaction with NODE_EXISTS if not. Unlike CheckAbsent, it needs the permission to
  // read a znode that exists.
  Transaction& CheckNotExists(std::string path, std::optional<int32_t> version = {}) {
    return Add(CheckNotExistsOperation{std::move(path), version});
  }
  // As Create, but leaves a znode that exists as it is. `mode` is none of those of containers and
  // TTLs.
  Transaction& CreateIfNotExists(std::string path, std::string data = {},
                                 CreateMode mode = CreateMode::kPersistent,
                                 std::vector<Acl> acl = {}) {
    return Add(CreateIfNotExistsOperation{
        CreateOperation{std::move(path), std::move(data), mode, std::move(acl)}});
  }
  // Deletes the whole subtree, or nothing if the znode does not exist. Fails the transaction with
  // NOT_EMPTY if there are more znodes than `limit`, or than the servers delete at a time (10,000).
  Transaction& RemoveRecursive(std::string path, std::optional<uint32_t> limit = {}) {
    return Add(RemoveRecursiveOperation{std::move(path), limit});
  }
  // Checks that the znode exists and that its Stat meets the condition. Fails the transaction with
  // NO_NODE or BAD_VERSION if not. Needs the permission to read.
  Transaction& CheckStat(std::string path, const StatCondition& condition) {
    return Add(CheckStatOperation{std::move(path), condition});
  }
  // Deletes the znode, or does nothing if the znode does not exist, has another version or has
  // children.
  Transaction& TryRemove(std::string path, std::optional<int32_t> version = {}) {
    return Add(TryRemoveOperation{std::move(path), version});
  }

  // Appends an operation that was made elsewhere.
  Transaction& Add(Operation operation) {
    operations_.push_back(std::move(operation));
    return *this;
  }
  // Returns the operations in the order in which they were appended.
  const std::vector<Operation>& operations() const { return operations_; }

 private:
  std::vector<Operation> operations_;
};

// The result of one operation of a committed transaction.
struct OperationResult {
  // Of a create, also if the znode existed: the path, with the sequence number appended if the mode
  // is sequential.
  std::string path;
  // Of a create, set or set_acl: the znode's metadata after the operation. With created_zxid 0 if a
  // CreateIfNotExists found that the znode existed.
  Stat stat;
  // Of a Delete, DeleteRecursive, RemoveRecursive or TryRemove: how many znodes were deleted.
  uint32_t removed = 0;
};

// The outcome of a committed transaction.
struct TransactionResult {
  int64_t zxid = 0;
  // One for each operation, in the same order.
  std::vector<OperationResult> results;
};

}  // namespace quorate
