// SPDX-License-Identifier: Apache-2.0

// Conversions between the client's types and the messages of rpc/proto/quorate/v1.
//
// Thread-safety: functions without state.
#pragma once

#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "client/presented_credentials.h"
#include "client/transaction.h"
#include "client/types.h"
#include "rpc/proto/quorate/v1/session.pb.h"

namespace quorate::internal {

Stat FromProto(const v1::Stat& stat);
std::vector<Acl> FromProto(const google::protobuf::RepeatedPtrField<v1::Acl>& acl);

// Fills `to`. INVALID_ARGUMENT: a path that is not valid, text that is not UTF-8, or a transaction
// that has neither operations nor compares, or branches within branches.
absl::Status ToProto(const Transaction::Operation& operation, std::string_view chroot,
                     v1::Operation* to);
absl::Status ToProto(const Transaction& transaction, std::string_view chroot,
                     v1::Request::Write* to);
absl::Status ToProto(const Credential& credential, v1::Credential* to);
// Adds the credentials of a program's options to `presented`, confirmed; nullptr: only checks them.
// INVALID_ARGUMENT: one has another form, or they exceed the limits.
absl::Status Present(const std::vector<Credential>& credentials, PresentedCredentials* presented);

}  // namespace quorate::internal
