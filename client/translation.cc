// SPDX-License-Identifier: Apache-2.0

#include "client/translation.h"

#include "client/paths.h"
#include "rpc/proto/credentials.h"
#include "rpc/proto/times.h"

namespace quorate::internal {
namespace {

static_assert(static_cast<int>(CreateMode::kPersistentSequentialWithTtl) ==
              v1::CREATE_MODE_PERSISTENT_SEQUENTIAL_WITH_TTL);
static_assert(static_cast<int>(EventType::kNodeDataChanged) == v1::EVENT_TYPE_NODE_DATA_CHANGED);
static_assert(static_cast<int>(WatchScope::kSubtree) == v1::WATCH_SCOPE_SUBTREE);
static_assert(static_cast<int>(ChildKind::kEphemeral) == v1::CHILD_KIND_EPHEMERAL);
static_assert(static_cast<int>(Relation::kGreater) == v1::COMPARE_RELATION_GREATER);

bool IsSequential(CreateMode mode) {
  return mode == CreateMode::kPersistentSequential || mode == CreateMode::kEphemeralSequential ||
         mode == CreateMode::kPersistentSequentialWithTtl;
}

absl::Status ToProto(const std::vector<Acl>& acl, google::protobuf::RepeatedPtrField<v1::Acl>* to) {
  for (const Acl& entry : acl) {
    if (!IsUtf8(entry.scheme) || !IsUtf8(entry.id)) {
      return absl::InvalidArgumentError("an access control list must be valid UTF-8");
    }
    v1::Acl* added = to->Add();
    added->set_permissions(entry.permissions);
    added->set_scheme(entry.scheme);
    added->set_id(entry.id);
  }
  return absl::OkStatus();
}

class Translator {
 public:
  Translator(std::string_view chroot, v1::Operation* to) : chroot_(chroot), to_(to) {}

  absl::Status operator()(const Transaction::CreateOperation& from) {
    return Fill(from, to_->mutable_create());
  }
  absl::Status operator()(const Transaction::SetOperation& from) {
    v1::Operation::Set* set = to_->mutable_set();
    set->set_data(from.data);
    if (from.version.has_value()) set->set_version(*from.version);
    return SetPath(from.path, set);
  }
  absl::Status operator()(const Transaction::SetAclOperation& from) {
    v1::Operation::SetAcl* set_acl = to_->mutable_set_acl();
    if (from.acl_version.has_value()) set_acl->set_acl_version(*from.acl_version);
    if (absl::Status s = ToProto(from.acl, set_acl->mutable_acl()); !s.ok()) return s;
    return SetPath(from.path, set_acl);
  }
  absl::Status operator()(const Transaction::DeleteOperation& from) {
    v1::Operation::Delete* deletion = to_->mutable_delete_();
    if (from.version.has_value()) deletion->set_version(*from.version);
    deletion->set_recursive(from.recursive);
    return SetPath(from.path, deletion);
  }
  absl::Status operator()(const Transaction::CheckOperation& from) {
    v1::Operation::Check* check = to_->mutable_check();
    if (from.version.has_value()) check->set_version(*from.version);
    check->set_absent(from.absent);
    return SetPath(from.path, check);
  }
  absl::Status operator()(const Transaction::CheckCreatedOperation& from) {
    v1::Operation::CheckCreated* check = to_->mutable_check_created();
    check->set_created_zxid(from.created_zxid);
    return SetPath(from.path, check);
  }
  absl::Status operator()(const Transaction::CheckNotExistsOperation& from) {
    v1::Operation::CheckNotExists* check = to_->mutable_check_not_exists();
    if (from.version.has_value()) check->set_version(*from.version);
    return SetPath(from.path, check);
  }
  absl::Status operator()(const Transaction::CreateIfNotExistsOperation& from) {
    return Fill(from.create, to_->mutable_create_if_not_exists());
  }
  absl::Status operator()(const Transaction::RemoveRecursiveOperation& from) {
    v1::Operation::RemoveRecursive* remove = to_->mutable_remove_recursive();
    if (from.limit.has_value()) remove->set_limit(*from.limit);
    return SetPath(from.path, remove);
  }
  absl::Status operator()(const Transaction::CheckStatOperation& from) {
    v1::Operation::CheckStat* check = to_->mutable_check_stat();
    const StatCondition& is = from.condition;
    if (is.created_zxid.has_value()) check->set_created_zxid(*is.created_zxid);
    if (is.modified_zxid.has_value()) check->set_modified_zxid(*is.modified_zxid);
    if (is.children_modified_zxid.has_value()) {
      check->set_children_modified_zxid(*is.children_modified_zxid);
    }
    if (is.created_ms.has_value()) check->set_created_ms(*is.created_ms);
    if (is.modified_ms.has_value()) check->set_modified_ms(*is.modified_ms);
    if (is.version.has_value()) check->set_version(*is.version);
    if (is.children_version.has_value()) check->set_children_version(*is.children_version);
    if (is.acl_version.has_value()) check->set_acl_version(*is.acl_version);
    if (is.ephemeral_session.has_value()) check->set_ephemeral_session(*is.ephemeral_session);
    if (is.data_bytes.has_value()) check->set_data_bytes(*is.data_bytes);
    if (is.children.has_value()) check->set_children(*is.children);
    return SetPath(from.path, check);
  }
  absl::Status operator()(const Transaction::TryRemoveOperation& from) {
    v1::Operation::TryRemove* remove = to_->mutable_try_remove();
    if (from.version.has_value()) remove->set_version(*from.version);
    return SetPath(from.path, remove);
  }
  absl::Status operator()(const Transaction::GetOperation& from) {
    return SetPath(from.path, to_->mutable_get());
  }
  absl::Status operator()(const Transaction::ExistsOperation& from) {
    return SetPath(from.path, to_->mutable_exists());
  }
  absl::Status operator()(const Transaction::ListOperation& from) {
    return SetPath(from.path, to_->mutable_list());
  }

 private:
  absl::Status Fill(const Transaction::CreateOperation& from, v1::Operation::Create* create) {
    create->set_data(from.data);
    create->set_mode(static_cast<v1::CreateMode>(from.mode));
    create->set_with_parents(from.with_parents);
    if (from.ttl_ms != 0) *create->mutable_ttl() = v1::DurationOfMs(from.ttl_ms);
    if (absl::Status s = ToProto(from.acl, create->mutable_acl()); !s.ok()) return s;
    return SetPath(from.path, create, IsSequential(from.mode));
  }
  template <class Message>
  absl::Status SetPath(const std::string& path, Message* message, bool is_sequential = false) {
    if (absl::Status s = CheckPath(path, is_sequential); !s.ok()) return s;
    message->set_path(is_sequential && path == "/" ? std::string(chroot_) + "/"
                                                   : AddChroot(chroot_, path));
    return absl::OkStatus();
  }

  const std::string_view chroot_;
  v1::Operation* const to_;
};

void SetTarget(const Compare& compare, v1::Compare* to) {
  switch (compare.target) {
    case Compare::Target::kExists:
      return to->set_exists(compare.number != 0);
    case Compare::Target::kCreatedZxid:
      return to->set_created_zxid(compare.number);
    case Compare::Target::kModifiedZxid:
      return to->set_modified_zxid(compare.number);
    case Compare::Target::kChildrenModifiedZxid:
      return to->set_children_modified_zxid(compare.number);
    case Compare::Target::kVersion:
      return to->set_version(static_cast<int32_t>(compare.number));
    case Compare::Target::kChildrenVersion:
      return to->set_children_version(static_cast<int32_t>(compare.number));
    case Compare::Target::kAclVersion:
      return to->set_acl_version(static_cast<int32_t>(compare.number));
    case Compare::Target::kData:
      return to->set_data(compare.data);
  }
}

absl::Status ToProto(const Compare& compare, std::string_view chroot, v1::Compare* to) {
  if (absl::Status s = CheckPath(compare.path); !s.ok()) return s;
  to->set_path(AddChroot(chroot, compare.path));
  to->set_relation(static_cast<v1::CompareRelation>(compare.relation));
  SetTarget(compare, to);
  return absl::OkStatus();
}

}  // namespace

Stat FromProto(const v1::Stat& stat) {
  return {.created_zxid = stat.created_zxid(),
          .modified_zxid = stat.modified_zxid(),
          .children_modified_zxid = stat.children_modified_zxid(),
          .created_ms = stat.created_ms(),
          .modified_ms = stat.modified_ms(),
          .version = stat.version(),
          .children_version = stat.children_version(),
          .acl_version = stat.acl_version(),
          .ephemeral_session = stat.ephemeral_session(),
          .data_bytes = stat.data_bytes(),
          .children = stat.children()};
}

std::vector<Acl> FromProto(const google::protobuf::RepeatedPtrField<v1::Acl>& acl) {
  std::vector<Acl> result;
  for (const v1::Acl& entry : acl) {
    result.push_back({entry.permissions(), entry.scheme(), entry.id()});
  }
  return result;
}

absl::Status ToProto(const Transaction::Operation& operation, std::string_view chroot,
                     v1::Operation* to) {
  return std::visit(Translator(chroot, to), operation);
}

absl::Status ToProto(const Transaction& transaction, std::string_view chroot,
                     v1::Request::Write* to) {
  if (transaction.operations().empty() && transaction.compares().empty() &&
      transaction.otherwise().empty()) {
    return absl::InvalidArgumentError("the transaction has no operation");
  }
  if (transaction.has_nested_branches()) {
    return absl::InvalidArgumentError(
        "branches of a transaction cannot be nested: Then and Else take a transaction without If "
        "and Else");
  }
  for (const Transaction::Operation& operation : transaction.operations()) {
    if (absl::Status s = ToProto(operation, chroot, to->add_operations()); !s.ok()) return s;
  }
  for (const Compare& compare : transaction.compares()) {
    if (absl::Status s = ToProto(compare, chroot, to->add_compares()); !s.ok()) return s;
  }
  for (const Transaction::Operation& operation : transaction.otherwise()) {
    if (absl::Status s = ToProto(operation, chroot, to->add_otherwise()); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status ToProto(const Credential& credential, v1::Credential* to) {
  if (!v1::IsCredentialScheme(credential.scheme)) {
    return absl::InvalidArgumentError(
        "a credential's scheme must be 1 to 32 lower-case letters and digits, such as digest");
  }
  to->set_scheme(credential.scheme);
  to->set_secret(credential.secret);
  return absl::OkStatus();
}

absl::Status Present(const std::vector<Credential>& credentials, PresentedCredentials* presented) {
  PresentedCredentials checked;
  if (presented == nullptr) presented = &checked;
  for (const Credential& credential : credentials) {
    v1::Credential message;
    if (absl::Status s = ToProto(credential, &message); !s.ok()) return s;
    const std::string text = v1::CredentialText(credential.scheme, credential.secret);
    if (absl::Status s = presented->Reserve(text); !s.ok()) {
      return absl::InvalidArgumentError(s.message());
    }
    presented->Confirm(text);
  }
  return absl::OkStatus();
}

}  // namespace quorate::internal
