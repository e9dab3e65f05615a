// SPDX-License-Identifier: Apache-2.0

#include "tools/zookeeper/transaction.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "rpc/zookeeper_files/jute.h"
#include "tree/node_kind.h"
#include "tree/path.h"

namespace quorate::tools::zookeeper {
namespace {

using zookeeper_files::ReadAcl;
using zookeeper_files::ReadBuffer;
using zookeeper_files::ReadString;

constexpr size_t kDigestBytes = sizeof(int32_t) + sizeof(int64_t);
// The version of the digest, which may come in place of a list of paths.
constexpr int32_t kDigestVersion = 2;

absl::Status UnknownType(int32_t type) {
  return absl::DataLossError(absl::StrCat("a transaction of the unknown type ", type));
}

void ReadData(BigEndianReader* reader, Operation* operation) {
  const std::optional<std::string_view> data = ReadBuffer(reader);
  operation->has_data = data.has_value();
  operation->data = data.value_or(std::string_view());
}

absl::Status ReadCreate(TransactionType type, tree::SessionId session, BigEndianReader* reader,
                        Operation* operation) {
  operation->path = ReadString(reader);
  ReadData(reader, operation);
  ReadAcl(reader, &operation->acl);
  if (type == TransactionType::kCreate || type == TransactionType::kCreate2) {
    if (reader->Int<uint8_t>() != 0) operation->owner = session;
    // Before ZooKeeper 3.4 the record ended here.
    if (reader->ok() && !reader->empty()) operation->parent_cversion = reader->Int<int32_t>();
    return absl::OkStatus();
  }
  operation->parent_cversion = reader->Int<int32_t>();
  if (type == TransactionType::kCreateContainer) {
    operation->owner = tree::kContainerOwner;
    return absl::OkStatus();
  }
  const int64_t ttl_ms = reader->Int<int64_t>();
  if (!reader->ok()) return absl::OkStatus();
  if (!tree::IsValidTtl(ttl_ms)) {
    return absl::DataLossError(absl::StrCat("a node with the impossible TTL of ", ttl_ms, " ms"));
  }
  operation->owner = tree::TtlOwner(ttl_ms);
  return absl::OkStatus();
}

// Reads an operation, which may be part of a multi. A check or an error changes nothing, and is not
// added.
absl::Status ReadOperation(TransactionType type, tree::SessionId session, BigEndianReader* reader,
                           std::vector<Operation>* operations) {
  Operation operation;
  switch (type) {
    case TransactionType::kCreate:
    case TransactionType::kCreate2:
    case TransactionType::kCreateContainer:
    case TransactionType::kCreateTtl:
      if (absl::Status s = ReadCreate(type, session, reader, &operation); !s.ok()) return s;
      break;
    case TransactionType::kDelete:
    case TransactionType::kDeleteContainer:
      operation.type = TransactionType::kDelete;
      operation.path = ReadString(reader);
      break;
    case TransactionType::kSetData:
    case TransactionType::kReconfig:
      operation.type = TransactionType::kSetData;
      operation.path = ReadString(reader);
      ReadData(reader, &operation);
      operation.version = reader->Int<int32_t>();
      break;
    case TransactionType::kSetAcl:
      operation.type = TransactionType::kSetAcl;
      operation.path = ReadString(reader);
      ReadAcl(reader, &operation.acl);
      operation.version = reader->Int<int32_t>();
      break;
    case TransactionType::kCheck:
      ReadString(reader);
      reader->Int<int32_t>();
      return absl::OkStatus();
    case TransactionType::kError:
      reader->Int<int32_t>();
      return absl::OkStatus();
    default:
      return UnknownType(static_cast<int32_t>(type));
  }
  const bool comes_or_goes =
      operation.type == TransactionType::kCreate || operation.type == TransactionType::kDelete;
  if (reader->ok() &&
      (!tree::IsValidPath(operation.path) || (comes_or_goes && operation.path == "/"))) {
    return absl::DataLossError("a transaction with an illegal path");
  }
  operations->push_back(std::move(operation));
  return absl::OkStatus();
}

absl::Status ReadMulti(BigEndianReader* reader, Transaction* transaction) {
  const int32_t count = reader->Int<int32_t>();
  bool failed = false;
  for (int32_t i = 0; i < count && reader->ok(); ++i) {
    const auto type = static_cast<TransactionType>(reader->Int<int32_t>());
    BigEndianReader item(ReadString(reader));
    if (!reader->ok()) break;
    if (type == TransactionType::kMulti) return absl::DataLossError("a multi inside a multi");
    failed = failed || type == TransactionType::kError;
    absl::Status read = ReadOperation(type, transaction->session, &item, &transaction->operations);
    if (!read.ok()) return read;
    if (!item.ok()) return absl::DataLossError("an operation of a multi is cut off");
  }
  if (failed) transaction->operations.clear();
  return absl::OkStatus();
}

// Reads the paths that are deleted with a session. Servers before 3.6, and those configured so, do
// not list them.
void ReadClosed(BigEndianReader* reader, Transaction* transaction) {
  BigEndianReader paths = *reader;
  const int32_t count = paths.Int<int32_t>();
  const bool is_digest = reader->rest().size() == kDigestBytes && count == kDigestVersion;
  if (reader->empty() || is_digest) return;
  for (int32_t i = 0; i < count && paths.ok(); ++i)
    transaction->closed.push_back(ReadString(&paths));
  *reader = paths;
}

}  // namespace

absl::Status DecodeTransaction(std::string_view bytes, Transaction* transaction) {
  BigEndianReader reader(bytes);
  transaction->session = tree::SessionId(reader.Int<int64_t>());
  reader.Int<int32_t>();  // the client's request number (cxid)
  transaction->zxid = tree::Zxid(reader.Int<int64_t>());
  transaction->time_ms = reader.Int<int64_t>();
  transaction->type = static_cast<TransactionType>(reader.Int<int32_t>());
  transaction->timeout_ms = 0;
  transaction->closed.clear();
  transaction->operations.clear();
  transaction->digest_version.reset();
  if (!reader.ok()) return absl::DataLossError("the header of a transaction is cut off");
  absl::Status status;
  switch (transaction->type) {
    case TransactionType::kCreateSession:
      transaction->timeout_ms = reader.Int<int32_t>();
      break;
    case TransactionType::kCloseSession:
      ReadClosed(&reader, transaction);
      break;
    case TransactionType::kMulti:
      status = ReadMulti(&reader, transaction);
      break;
    case TransactionType::kCheck:
      status = UnknownType(static_cast<int32_t>(transaction->type));
      break;
    default:
      status =
          ReadOperation(transaction->type, transaction->session, &reader, &transaction->operations);
  }
  if (!status.ok()) return status;
  if (!reader.ok()) return absl::DataLossError("a transaction is cut off");
  if (reader.empty()) return absl::OkStatus();
  if (reader.rest().size() != kDigestBytes) {
    return absl::DataLossError("there are bytes after a transaction");
  }
  transaction->digest_version = reader.Int<int32_t>();
  transaction->digest = reader.Int<uint64_t>();
  return absl::OkStatus();
}

}  // namespace quorate::tools::zookeeper
