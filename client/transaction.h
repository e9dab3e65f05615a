// SPDX-License-Identifier: Apache-2.0

// A list of operations that the servers make together, as one change of the tree, or not at all; and,
// if it has compares, another list that they make instead if a compare does not hold. Client::Commit
// commits it.
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

// How the value of a znode has to compare to the given one.
enum class Relation { kEqual = 1, kNotEqual = 2, kLess = 3, kGreater = 4 };

// A condition that chooses what a transaction does (Transaction::If). The functions make one of each
// kind: the field of the znode's Stat with that name, or its data, is equal to, not equal to, less
// than or greater than the given value. Data are compared as unsigned bytes.
//
// If there is no znode, its zxids compare as 0, which no znode has that a client has created: so a
// CreatedZxid of 0 holds only if it does not exist. A compare of its versions or its data does not
// hold then, whatever the relation. The permission to read is needed, but for Exists and CreatedZxid.
struct Compare {
  // What is compared: whether the znode exists, a field of its Stat, or its data.
  enum class Target {
    kExists,
    kCreatedZxid,
    kModifiedZxid,
    kChildrenModifiedZxid,
    kVersion,
    kChildrenVersion,
    kAclVersion,
    kData,
  };

  // Each of these functions returns a compare of the target of its name.
  static Compare Exists(std::string path, bool exists = true) {
    return {std::move(path), Target::kExists, Relation::kEqual, exists ? 1 : 0, {}};
  }
  static Compare CreatedZxid(std::string path, int64_t zxid, Relation relation = Relation::kEqual) {
    return {std::move(path), Target::kCreatedZxid, relation, zxid, {}};
  }
  static Compare ModifiedZxid(std::string path, int64_t zxid,
                              Relation relation = Relation::kEqual) {
    return {std::move(path), Target::kModifiedZxid, relation, zxid, {}};
  }
  static Compare ChildrenModifiedZxid(std::string path, int64_t zxid,
                                      Relation relation = Relation::kEqual) {
    return {std::move(path), Target::kChildrenModifiedZxid, relation, zxid, {}};
  }
  static Compare Version(std::string path, int32_t version, Relation relation = Relation::kEqual) {
    return {std::move(path), Target::kVersion, relation, version, {}};
  }
  static Compare ChildrenVersion(std::string path, int32_t version,
                                 Relation relation = Relation::kEqual) {
    return {std::move(path), Target::kChildrenVersion, relation, version, {}};
  }
  static Compare AclVersion(std::string path, int32_t version,
                            Relation relation = Relation::kEqual) {
    return {std::move(path), Target::kAclVersion, relation, version, {}};
  }
  static Compare Data(std::string path, std::string data, Relation relation = Relation::kEqual) {
    return {std::move(path), Target::kData, relation, 0, std::move(data)};
  }

  std::string path;
  Target target = Target::kExists;
  Relation relation = Relation::kEqual;
  int64_t number = 0;  // of all targets but kData; kExists: 1 if the znode is to exist, otherwise 0
  std::string data;    // of kData
};

// Operations that the servers make all, or none (Client::Commit). With compares, it does one of two
// lists of operations:
//
//   client->Commit(Transaction()
//                      .If(Compare::ModifiedZxid("/config", seen))
//                      .Set("/config", data)
//                      .Else(Transaction().Get("/config")));
//
// A compare that does not hold is no error; a Check that fails is one. The servers limit what a
// transaction may cost: the data that it has and reads, the znodes that it deletes and creates as
// parents (docs/reference/grpc.md, TreeService.Txn). They refuse one that exceeds that with
// TOO_LARGE.
class Transaction {
 public:
  // What the function Create appends; each of the types below belongs to the function of its name.
  struct CreateOperation {
    std::string path;
    std::string data;
    CreateMode mode = CreateMode::kPersistent;
    std::vector<Acl> acl;  // empty: all clients have all permissions
    int64_t ttl_ms = 0;
    bool with_parents = false;  // missing parents are created too
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
  // The data and the Stat of a znode.
  struct GetOperation {
    std::string path;
  };
  // Whether a znode exists, and its Stat.
  struct ExistsOperation {
    std::string path;
  };
  // The names of a znode's children, and its Stat.
  struct ListOperation {
    std::string path;
  };
  // One operation of a transaction.
  using Operation =
      std::variant<CreateOperation, SetOperation, SetAclOperation, DeleteOperation, CheckOperation,
                   CheckCreatedOperation, CheckNotExistsOperation, CreateIfNotExistsOperation,
                   RemoveRecursiveOperation, CheckStatOperation, TryRemoveOperation, GetOperation,
                   ExistsOperation, ListOperation>;

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

  // The functions below need cluster version 12. They fail the transaction with UNIMPLEMENTED while
  // the cluster has an older one.

  // Appends a compare. If all compares hold in the state before the transaction, the servers make
  // the operations that the other functions append, otherwise those of Else. A compare that cannot
  // be made fails the transaction: NO_AUTH, or BAD_ARGUMENTS if an exists is compared with another
  // relation than kEqual and kNotEqual. A transaction with If or Else has at most 10,000 compares and
  // operations, those of Else included: TOO_LARGE.
  Transaction& If(Compare compare) {
    compares_.push_back(std::move(compare));
    return *this;
  }
  // Appends the operations of `then`, as if its functions had been called on this object, so that a
  // program can write both branches as lists. Branches cannot be nested: if `then` has compares or an Else, Commit
  // fails with INVALID_ARGUMENT.
  Transaction& Then(Transaction then) {
    has_nested_branches_ |= then.has_branches();
    for (Operation& operation : then.operations_) operations_.push_back(std::move(operation));
    return *this;
  }
  // Appends the operations of `otherwise` to those that the servers make if a compare does not hold.
  // Fails as Then if `otherwise` has branches. What a recipe's Guard appends to the transaction is
  // checked only in the first branch: append it to `otherwise` too if that needs it.
  Transaction& Else(Transaction otherwise) {
    has_nested_branches_ |= otherwise.has_branches();
    for (Operation& operation : otherwise.operations_) otherwise_.push_back(std::move(operation));
    return *this;
  }
  // As Create, but creates the parents that do not exist too, as persistent znodes with empty data
  // and with `acl`. The permission to create is needed of the lowest existing znode above them only.
  Transaction& CreateWithParents(std::string path, std::string data = {},
                                 CreateMode mode = CreateMode::kPersistent,
                                 std::vector<Acl> acl = {}, int64_t ttl_ms = 0) {
    return Add(CreateOperation{std::move(path), std::move(data), mode, std::move(acl), ttl_ms,
                               /*with_parents=*/true});
  }
  // Each of these functions appends a read, whose result is part of the transaction's. It sees the
  // operations before it. Get and List fail the transaction with NO_NODE or NO_AUTH. The results of
  // all reads of a transaction can have about 64 KiB, and List about 500 names. The client sends a
  // transaction that reads when the one before it is answered; all calls after it wait with it.
  Transaction& Get(std::string path) { return Add(GetOperation{std::move(path)}); }
  Transaction& Exists(std::string path) { return Add(ExistsOperation{std::move(path)}); }
  Transaction& List(std::string path) { return Add(ListOperation{std::move(path)}); }

  // Appends an operation that was made elsewhere.
  Transaction& Add(Operation operation) {
    operations_.push_back(std::move(operation));
    return *this;
  }
  // Returns the operations in the order in which they were appended.
  const std::vector<Operation>& operations() const { return operations_; }
  // Return what If and Else have appended.
  const std::vector<Compare>& compares() const { return compares_; }
  const std::vector<Operation>& otherwise() const { return otherwise_; }
  // Returns whether Then or Else was called with a transaction that has branches itself.
  bool has_nested_branches() const { return has_nested_branches_; }

 private:
  bool has_branches() const {
    return !compares_.empty() || !otherwise_.empty() || has_nested_branches_;
  }

  std::vector<Operation> operations_;
  std::vector<Compare> compares_;
  std::vector<Operation> otherwise_;
  bool has_nested_branches_ = false;
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
  // Of a Get, Exists or List: whether the znode exists. Its metadata is in `stat`.
  bool exists = false;
  // Of a Get: the data.
  std::string data;
  // Of a List: the names of the children, in byte order.
  std::vector<std::string> children;
};

// The outcome of a committed transaction.
struct TransactionResult {
  int64_t zxid = 0;
  // One for each operation that was made, in the same order: those of Else if a compare did not hold.
  std::vector<OperationResult> results;
  // Whether all compares held; true if the transaction has none.
  bool succeeded = true;
};

}  // namespace quorate
