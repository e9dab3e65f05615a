// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/native/translation.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/stubs/common.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/assert.h"
#include "rpc/proto/times.h"
#include "tree/acl.h"
#include "tree/limits.h"

namespace quorate::rpc::native {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;

// The maximum size of a field's tag and length, in bytes.
constexpr size_t kHeadBytesMax = 16;

std::string ShownText(std::string_view text) {
  std::string shown(text);
  if (google::protobuf::internal::IsStructurallyValidUTF8(shown.data(),
                                                          static_cast<int>(shown.size()))) {
    return shown;
  }
  for (char& c : shown) {
    if ((static_cast<unsigned char>(c) & 0x80) != 0) c = '?';
  }
  return shown;
}

tree::Acl FromProto(const v1::Acl& acl) { return {acl.permissions(), {acl.scheme(), acl.id()}}; }

template <class Acls>
std::vector<tree::Acl> AclsFrom(const Acls& acls) {
  std::vector<tree::Acl> to;
  to.reserve(static_cast<size_t>(acls.size()));
  for (const v1::Acl& acl : acls) to.push_back(FromProto(acl));
  return to;
}

// Translates a create, whose paths and data are views into `create`. Returns false if the tree has
// no such operation.
bool FromCreate(const v1::Operation::Create& create, tree::Op* op) {
  op->kind = tree::OpKind::kCreate;
  switch (create.mode()) {
    case v1::CREATE_MODE_UNSPECIFIED:
    case v1::CREATE_MODE_PERSISTENT:
      op->mode = tree::CreateMode::kPersistent;
      break;
    case v1::CREATE_MODE_EPHEMERAL:
      op->mode = tree::CreateMode::kEphemeral;
      break;
    case v1::CREATE_MODE_PERSISTENT_SEQUENTIAL:
      op->mode = tree::CreateMode::kPersistentSequential;
      break;
    case v1::CREATE_MODE_EPHEMERAL_SEQUENTIAL:
      op->mode = tree::CreateMode::kEphemeralSequential;
      break;
    case v1::CREATE_MODE_CONTAINER:
      op->kind = tree::OpKind::kCreateContainer;
      op->mode = tree::CreateMode::kContainer;
      break;
    case v1::CREATE_MODE_PERSISTENT_WITH_TTL:
      op->kind = tree::OpKind::kCreateTtl;
      op->mode = tree::CreateMode::kPersistentWithTtl;
      break;
    case v1::CREATE_MODE_PERSISTENT_SEQUENTIAL_WITH_TTL:
      op->kind = tree::OpKind::kCreateTtl;
      op->mode = tree::CreateMode::kPersistentSequentialWithTtl;
      break;
    default:
      return false;
  }
  op->path = create.path();
  op->has_data = true;
  op->data = create.data();
  op->acl = create.acl().empty() ? tree::OpenAcl() : AclsFrom(create.acl());
  if (create.has_ttl()) {
    const std::optional<int64_t> ttl_ms = v1::ToMs(create.ttl());
    if (!ttl_ms.has_value()) return false;
    op->ttl_ms = *ttl_ms;
  }
  op->with_parents = create.with_parents();
  return create.has_ttl() == (op->kind == tree::OpKind::kCreateTtl);
}

bool FromCreateIfNotExists(const v1::Operation::Create& create, tree::Op* op) {
  if (!FromCreate(create, op) || op->kind != tree::OpKind::kCreate) return false;
  op->kind = tree::OpKind::kCreateIfNotExists;
  return true;
}

void FromCheckStat(const v1::Operation::CheckStat& check, tree::Op* op) {
  op->kind = tree::OpKind::kCheckStat;
  op->path = check.path();
  // -1 matches any value.
  tree::Stat& expected = op->expected;
  expected.czxid = tree::Zxid(check.has_created_zxid() ? check.created_zxid() : -1);
  expected.mzxid = tree::Zxid(check.has_modified_zxid() ? check.modified_zxid() : -1);
  expected.pzxid =
      tree::Zxid(check.has_children_modified_zxid() ? check.children_modified_zxid() : -1);
  expected.ctime_ms = check.has_created_ms() ? check.created_ms() : -1;
  expected.mtime_ms = check.has_modified_ms() ? check.modified_ms() : -1;
  expected.version = check.has_version() ? check.version() : -1;
  expected.cversion = check.has_children_version() ? check.children_version() : -1;
  expected.aversion = check.has_acl_version() ? check.acl_version() : -1;
  expected.ephemeral_owner =
      tree::SessionId(check.has_ephemeral_session() ? check.ephemeral_session() : -1);
  expected.data_length = check.has_data_bytes() ? check.data_bytes() : -1;
  expected.num_children = check.has_children() ? check.children() : -1;
}

}  // namespace

v1::ErrorCode ToProto(tree::ErrorCode error) {
  switch (error) {
    case tree::ErrorCode::kOk:
      return v1::ERROR_CODE_UNSPECIFIED;
    case tree::ErrorCode::kRuntimeInconsistency:
      return v1::ERROR_CODE_NOT_ATTEMPTED;
    case tree::ErrorCode::kBadArguments:
    case tree::ErrorCode::kMarshallingError:
      return v1::ERROR_CODE_BAD_ARGUMENTS;
    case tree::ErrorCode::kUnimplemented:
      return v1::ERROR_CODE_UNIMPLEMENTED;
    case tree::ErrorCode::kNoNode:
      return v1::ERROR_CODE_NO_NODE;
    case tree::ErrorCode::kNoAuth:
      return v1::ERROR_CODE_NO_AUTH;
    case tree::ErrorCode::kBadVersion:
      return v1::ERROR_CODE_BAD_VERSION;
    case tree::ErrorCode::kNoChildrenForEphemerals:
      return v1::ERROR_CODE_NO_CHILDREN_FOR_EPHEMERALS;
    case tree::ErrorCode::kNodeExists:
      return v1::ERROR_CODE_NODE_EXISTS;
    case tree::ErrorCode::kNotEmpty:
      return v1::ERROR_CODE_NOT_EMPTY;
    case tree::ErrorCode::kSessionExpired:
      return v1::ERROR_CODE_SESSION_EXPIRED;
    case tree::ErrorCode::kInvalidAcl:
      return v1::ERROR_CODE_INVALID_ACL;
    case tree::ErrorCode::kAuthFailed:
      return v1::ERROR_CODE_AUTH_FAILED;
    case tree::ErrorCode::kSessionMoved:
      return v1::ERROR_CODE_SESSION_MOVED;
    case tree::ErrorCode::kQuotaExceeded:
      return v1::ERROR_CODE_QUOTA_EXCEEDED;
    case tree::ErrorCode::kAlreadyAcknowledged:
      return v1::ERROR_CODE_ALREADY_ACKNOWLEDGED;
    case tree::ErrorCode::kOutOfSequence:
      return v1::ERROR_CODE_OUT_OF_SEQUENCE;
    case tree::ErrorCode::kTooManyUnacknowledged:
      return v1::ERROR_CODE_TOO_MANY_UNACKNOWLEDGED;
    case tree::ErrorCode::kTooLarge:
      return v1::ERROR_CODE_TOO_LARGE;
    case tree::ErrorCode::kNoSpace:
      return v1::ERROR_CODE_NO_SPACE;
    case tree::ErrorCode::kSystemError:
    case tree::ErrorCode::kNotReadOnly:
    case tree::ErrorCode::kEphemeralOnLocalSession:
    case tree::ErrorCode::kNoWatcher:
    case tree::ErrorCode::kReconfigDisabled:
    case tree::ErrorCode::kReconfigInProgress:
    case tree::ErrorCode::kNewConfigNoQuorum:
      break;
  }
  return v1::ERROR_CODE_SYSTEM_ERROR;
}

void ToProto(const tree::Stat& stat, v1::Stat* to) {
  to->set_created_zxid(stat.czxid.value());
  to->set_modified_zxid(stat.mzxid.value());
  to->set_children_modified_zxid(stat.pzxid.value());
  to->set_created_ms(stat.ctime_ms);
  to->set_modified_ms(stat.mtime_ms);
  to->set_version(stat.version);
  to->set_children_version(stat.cversion);
  to->set_acl_version(stat.aversion);
  to->set_ephemeral_session(stat.ephemeral_owner.value());
  to->set_data_bytes(stat.data_length);
  to->set_children(stat.num_children);
}

void ToProto(const Event& event, v1::Event* to) {
  switch (event.type) {
    case tree::EventType::kNodeCreated:
      to->set_type(v1::EVENT_TYPE_NODE_CREATED);
      break;
    case tree::EventType::kNodeDeleted:
      to->set_type(v1::EVENT_TYPE_NODE_DELETED);
      break;
    case tree::EventType::kNodeDataChanged:
      to->set_type(v1::EVENT_TYPE_NODE_DATA_CHANGED);
      break;
    case tree::EventType::kNodeChildrenChanged:
      ASSERT(false, "the tree reports no such event");
  }
  to->set_path(event.path);
  to->set_zxid(event.zxid.value());
}

void ToProto(const tree::Acl& acl, v1::Acl* to) {
  to->set_permissions(acl.permissions);
  to->set_scheme(ShownText(acl.identity.scheme));
  to->set_id(ShownText(acl.identity.id));
}

void ToProto(const tree::Identity& identity, std::string* scheme, std::string* id) {
  *scheme = ShownText(identity.scheme);
  *id = ShownText(ClientIdentities::ShownId(identity));
}

void ToProto(const tree::OpResult& result, tree::OpKind asked, v1::OperationResult* to) {
  to->set_error(ToProto(result.error));
  if (result.error != tree::ErrorCode::kOk) return;
  switch (asked) {
    case tree::OpKind::kCreate:
    case tree::OpKind::kCreateContainer:
    case tree::OpKind::kCreateTtl:
      to->set_path(result.path);
      ToProto(result.stat, to->mutable_stat());
      break;
    case tree::OpKind::kCreateIfNotExists:
      to->set_path(result.path);
      // A znode that existed has no stat in the result.
      if (result.stat != tree::Stat()) ToProto(result.stat, to->mutable_stat());
      break;
    case tree::OpKind::kSetData:
    case tree::OpKind::kSetAcl:
      ToProto(result.stat, to->mutable_stat());
      break;
    case tree::OpKind::kDelete:
      to->set_removed(1);
      break;
    case tree::OpKind::kDeleteRecursive:
    case tree::OpKind::kRemoveSubtree:
    case tree::OpKind::kTryDelete:
      to->set_removed(static_cast<uint32_t>(result.removed));
      break;
    case tree::OpKind::kCheck:
    case tree::OpKind::kCheckAbsent:
    case tree::OpKind::kCheckCreated:
    case tree::OpKind::kRefused:
    case tree::OpKind::kCheckNotExists:
    case tree::OpKind::kCheckStat:
      break;
    case tree::OpKind::kGet:
    case tree::OpKind::kExists:
    case tree::OpKind::kGetChildren:
      to->set_exists(result.found);
      if (result.found) ToProto(result.stat, to->mutable_stat());
      to->set_data(result.data);
      for (const std::string& child : result.children) to->add_children(ShownText(child));
      break;
  }
}

std::span<const tree::OpKind> AskedKinds::Of(tree::Branch branch) const {
  const std::span<const tree::OpKind> all = kinds;
  const size_t count = std::min(then_count, all.size());
  switch (branch) {
    case tree::Branch::kNone:
      return all;
    case tree::Branch::kThen:
      return all.first(count);
    case tree::Branch::kOtherwise:
      return all.subspan(count);
    case tree::Branch::kCompares:
      break;
  }
  return {};
}

v1::Branch ToProto(tree::Branch branch) {
  switch (branch) {
    case tree::Branch::kNone:
      return v1::BRANCH_UNSPECIFIED;
    case tree::Branch::kThen:
      return v1::BRANCH_OPERATIONS;
    case tree::Branch::kOtherwise:
      return v1::BRANCH_OTHERWISE;
    case tree::Branch::kCompares:
      return v1::BRANCH_COMPARES;
  }
  ASSERT(false, "the tree knows no other branch");
}

bool FromProto(const v1::Operation& operation, tree::Op* op) {
  switch (operation.kind_case()) {
    case v1::Operation::kCreate:
      return FromCreate(operation.create(), op);
    case v1::Operation::kSet: {
      const v1::Operation::Set& set = operation.set();
      op->kind = tree::OpKind::kSetData;
      op->path = set.path();
      op->has_data = true;
      op->data = set.data();
      op->version = set.has_version() ? set.version() : tree::kAnyVersion;
      return true;
    }
    case v1::Operation::kSetAcl: {
      const v1::Operation::SetAcl& set = operation.set_acl();
      op->kind = tree::OpKind::kSetAcl;
      op->path = set.path();
      op->acl = AclsFrom(set.acl());
      op->version = set.has_acl_version() ? set.acl_version() : tree::kAnyVersion;
      return true;
    }
    case v1::Operation::kDelete: {
      const v1::Operation::Delete& remove = operation.delete_();
      op->kind = remove.recursive() ? tree::OpKind::kDeleteRecursive : tree::OpKind::kDelete;
      op->path = remove.path();
      op->version = remove.has_version() ? remove.version() : tree::kAnyVersion;
      return true;
    }
    case v1::Operation::kCheck: {
      const v1::Operation::Check& check = operation.check();
      op->kind = check.absent() ? tree::OpKind::kCheckAbsent : tree::OpKind::kCheck;
      op->path = check.path();
      op->version = check.has_version() ? check.version() : tree::kAnyVersion;
      return !(check.absent() && check.has_version());
    }
    case v1::Operation::kCheckCreated: {
      const v1::Operation::CheckCreated& check = operation.check_created();
      op->kind = tree::OpKind::kCheckCreated;
      op->path = check.path();
      op->created_zxid = tree::Zxid(check.created_zxid());
      return true;
    }
    case v1::Operation::kCheckNotExists: {
      const v1::Operation::CheckNotExists& check = operation.check_not_exists();
      op->kind = tree::OpKind::kCheckNotExists;
      op->path = check.path();
      op->version = check.has_version() ? check.version() : tree::kAnyVersion;
      return true;
    }
    case v1::Operation::kCreateIfNotExists:
      return FromCreateIfNotExists(operation.create_if_not_exists(), op);
    case v1::Operation::kRemoveRecursive: {
      const v1::Operation::RemoveRecursive& remove = operation.remove_recursive();
      op->kind = tree::OpKind::kRemoveSubtree;
      op->path = remove.path();
      op->limit = remove.has_limit() ? remove.limit() : tree::kDeleteRecursiveMax;
      return true;
    }
    case v1::Operation::kCheckStat:
      FromCheckStat(operation.check_stat(), op);
      return true;
    case v1::Operation::kTryRemove: {
      const v1::Operation::TryRemove& remove = operation.try_remove();
      op->kind = tree::OpKind::kTryDelete;
      op->path = remove.path();
      op->version = remove.has_version() ? remove.version() : tree::kAnyVersion;
      return true;
    }
    case v1::Operation::kGet:
      op->kind = tree::OpKind::kGet;
      op->path = operation.get().path();
      return true;
    case v1::Operation::kExists:
      op->kind = tree::OpKind::kExists;
      op->path = operation.exists().path();
      return true;
    case v1::Operation::kList:
      op->kind = tree::OpKind::kGetChildren;
      op->path = operation.list().path();
      return true;
    case v1::Operation::KIND_NOT_SET:
      break;
  }
  return false;
}

bool FromProto(const v1::Compare& compare, tree::Compare* to) {
  to->path = compare.path();
  switch (compare.relation()) {
    case v1::COMPARE_RELATION_UNSPECIFIED:
    case v1::COMPARE_RELATION_EQUAL:
      to->relation = tree::CompareRelation::kEqual;
      break;
    case v1::COMPARE_RELATION_NOT_EQUAL:
      to->relation = tree::CompareRelation::kNotEqual;
      break;
    case v1::COMPARE_RELATION_LESS:
      to->relation = tree::CompareRelation::kLess;
      break;
    case v1::COMPARE_RELATION_GREATER:
      to->relation = tree::CompareRelation::kGreater;
      break;
    default:
      return false;
  }
  const auto set = [to](tree::CompareTarget target, int64_t number) {
    to->target = target;
    to->number = number;
    return true;
  };
  switch (compare.target_case()) {
    case v1::Compare::kExists:
      return set(tree::CompareTarget::kExists, compare.exists() ? 1 : 0) &&
             to->relation <= tree::CompareRelation::kNotEqual;
    case v1::Compare::kCreatedZxid:
      return set(tree::CompareTarget::kCzxid, compare.created_zxid());
    case v1::Compare::kModifiedZxid:
      return set(tree::CompareTarget::kMzxid, compare.modified_zxid());
    case v1::Compare::kChildrenModifiedZxid:
      return set(tree::CompareTarget::kPzxid, compare.children_modified_zxid());
    case v1::Compare::kVersion:
      return set(tree::CompareTarget::kVersion, compare.version());
    case v1::Compare::kChildrenVersion:
      return set(tree::CompareTarget::kCversion, compare.children_version());
    case v1::Compare::kAclVersion:
      return set(tree::CompareTarget::kAversion, compare.acl_version());
    case v1::Compare::kData:
      to->target = tree::CompareTarget::kValue;
      to->value = compare.data();
      return true;
    case v1::Compare::TARGET_NOT_SET:
      break;
  }
  return false;
}

bool FromProto(v1::WatchScope scope, Scope* to) {
  switch (scope) {
    case v1::WATCH_SCOPE_UNSPECIFIED:
    case v1::WATCH_SCOPE_NODE:
      *to = Scope::kNode;
      return true;
    case v1::WATCH_SCOPE_CHILDREN:
      *to = Scope::kChildren;
      return true;
    case v1::WATCH_SCOPE_SUBTREE:
      *to = Scope::kSubtree;
      return true;
    default:
      return false;
  }
}

size_t DataBytesOf(const v1::Operation& operation) {
  switch (operation.kind_case()) {
    case v1::Operation::kCreate:
      return operation.create().data().size();
    case v1::Operation::kCreateIfNotExists:
      return operation.create_if_not_exists().data().size();
    case v1::Operation::kSet:
      return operation.set().data().size();
    default:
      return 0;
  }
}

size_t DataBytesOf(const v1::Compare& compare) { return compare.data().size(); }

void AppendField(int number, const google::protobuf::MessageLite& message, std::string* to) {
  const size_t size = message.ByteSizeLong();
  uint8_t head[kHeadBytesMax];
  uint8_t* end = CodedOutputStream::WriteTagToArray(
      WireFormatLite::MakeTag(number, WireFormatLite::WIRETYPE_LENGTH_DELIMITED), head);
  end = CodedOutputStream::WriteVarint32ToArray(static_cast<uint32_t>(size), end);
  to->append(reinterpret_cast<const char*>(head), static_cast<size_t>(end - head));
  const size_t offset = to->size();
  to->resize(offset + size);
  message.SerializeWithCachedSizesToArray(reinterpret_cast<uint8_t*>(to->data()) + offset);
}

void AppendField(int number, int64_t value, std::string* to) {
  uint8_t bytes[kHeadBytesMax];
  uint8_t* end = CodedOutputStream::WriteTagToArray(
      WireFormatLite::MakeTag(number, WireFormatLite::WIRETYPE_VARINT), bytes);
  end = CodedOutputStream::WriteVarint64ToArray(static_cast<uint64_t>(value), end);
  to->append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(end - bytes));
}

}  // namespace quorate::rpc::native
