// SPDX-License-Identifier: Apache-2.0

// Translates between the messages of the published interface (rpc/proto/quorate/v1) and the types
// of the tree.
//
// Thread-safety: functions without state.
#pragma once

#include <google/protobuf/message_lite.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/frontend/event.h"
#include "rpc/grpc/native/scope.h"
#include "rpc/proto/quorate/v1/types.pb.h"
#include "tree/tree.h"

namespace quorate::rpc::native {

v1::ErrorCode ToProto(tree::ErrorCode error);
void ToProto(const tree::Stat& stat, v1::Stat* to);
void ToProto(const Event& event, v1::Event* to);
// Translates an ACL entry. Text that is not UTF-8, which a message cannot have, is shown with
// question marks.
void ToProto(const tree::Acl& acl, v1::Acl* to);

// Sets the scheme and the id. The id of a digest is set without its hash.
void ToProto(const tree::Identity& identity, std::string* scheme, std::string* id);
// Translates the result of an operation of kind `asked`.
void ToProto(const tree::OpResult& result, tree::OpKind asked, v1::OperationResult* to);
// The kinds of the operations of a write: the first `then_count` are those of `then`, if the write has
// branches.
struct AskedKinds {
  std::vector<tree::OpKind> kinds;
  bool has_branches = false;
  size_t then_count = 0;

  // Returns the kinds of the operations of a branch; none for kCompares. The write need not have
  // that branch.
  std::span<const tree::OpKind> Of(tree::Branch branch) const;
};

// Translates a branch. That of a write without branches is BRANCH_UNSPECIFIED.
v1::Branch ToProto(tree::Branch branch);
// Translates all results of a write. Returns the error of the operation or compare that failed, or OK
// if none failed. There may be fewer kinds than results, if a client sent a write again with other
// operations.
template <class Repeated>
v1::ErrorCode ToProto(std::span<const tree::OpResult> results, tree::Branch branch,
                      const AskedKinds& asked_kinds, Repeated* to) {
  const std::span<const tree::OpKind> asked = asked_kinds.Of(branch);
  v1::ErrorCode failed = v1::ERROR_CODE_UNSPECIFIED;
  for (size_t i = 0; i < results.size(); ++i) {
    v1::OperationResult* result = to->Add();
    ToProto(results[i], i < asked.size() ? asked[i] : tree::OpKind::kCheck, result);
    if (failed == v1::ERROR_CODE_UNSPECIFIED && result->error() != v1::ERROR_CODE_NOT_ATTEMPTED)
      failed = result->error();
  }
  return failed;
}

// Translates an operation. `*op` gets views into `operation`, which must outlive it. Returns false
// if the tree has no such operation: it has no kind, or an unknown mode.
bool FromProto(const v1::Operation& operation, tree::Op* op);
// Translates a compare, as an operation. Returns false if the tree has no such compare.
bool FromProto(const v1::Compare& compare, tree::Compare* to);
// Translates a scope. Returns false if the scope is unknown.
bool FromProto(v1::WatchScope scope, Scope* to);

// Return the bytes of data in an operation and in a compare.
size_t DataBytesOf(const v1::Operation& operation);
size_t DataBytesOf(const v1::Compare& compare);

// Appends `message` to the bytes of another message, as an element of its field `number`.
void AppendField(int number, const google::protobuf::MessageLite& message, std::string* to);
// Appends a number to the bytes of a message, as the field `number`.
void AppendField(int number, int64_t value, std::string* to);

}  // namespace quorate::rpc::native
