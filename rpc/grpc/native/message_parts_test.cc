// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/native/message_parts.h"

#include <catch2/catch.hpp>
#include <optional>
#include <string>

#include "rpc/proto/errors.h"
#include "rpc/proto/quorate/v1/lock.pb.h"
#include "rpc/proto/quorate/v1/tree.pb.h"

namespace quorate::rpc::native {
namespace {

// Returns a transaction with three operations, each with its kind, and two entries of access control
// lists.
v1::TxnRequest Transaction() {
  v1::TxnRequest txn;
  v1::Operation::Create* create = txn.add_operations()->mutable_create();
  create->set_path("/a");
  create->set_data(std::string(1000, 'x'));
  create->add_acl()->set_scheme("auth");
  create->add_acl();
  txn.add_operations()->mutable_delete_()->set_path("/b");
  txn.add_operations()->mutable_check()->set_path("/c");
  return txn;
}

TEST_CASE("messages within a message are counted at every depth") {
  const std::string bytes = Transaction().SerializeAsString();
  const auto count = [&bytes](size_t max) {
    return CountParts(*v1::TxnRequest::descriptor(), bytes, max);
  };
  CHECK(count(100) == 8);
  CHECK(count(8) == 8);
  for (size_t max = 0; max < 8; ++max) CHECK(count(max) == max + 1);
  CHECK(CountField(bytes, v1::TxnRequest::kOperationsFieldNumber) == 3);
}

TEST_CASE("messages are counted up to the first part that cannot be decoded") {
  std::string bytes = Transaction().SerializeAsString();
  for (size_t size = 0; size < bytes.size(); ++size) {
    CHECK(CountParts(*v1::TxnRequest::descriptor(), bytes.substr(0, size), 100) <= 8);
  }
  // The length of one operation is beyond the end, the other one has the wrong wire type.
  CHECK(CountParts(*v1::TxnRequest::descriptor(), "\x0a\xff\xff\xff\x7f", 100) <= 1);
  CHECK(CountParts(*v1::TxnRequest::descriptor(), "\x08\x01", 100) == 0);
}

TEST_CASE("a message with too many messages in it is refused, one with the maximum is accepted") {
  v1::TxnRequest txn;
  for (size_t i = 0; i < kPartsMax; ++i) txn.add_operations();
  // Makes the message so long that CheckParts counts.
  txn.mutable_operations(0)->mutable_create()->set_data(std::string(100, 'x'));
  txn.mutable_operations()->RemoveLast();
  CHECK(CheckParts(*v1::TxnRequest::descriptor(), txn.SerializeAsString()).ok());
  txn.add_operations();
  const absl::Status status = CheckParts(*v1::TxnRequest::descriptor(), txn.SerializeAsString());
  REQUIRE_FALSE(status.ok());
  CHECK(v1::DetailOf(status)->code() == v1::ERROR_CODE_TOO_LARGE);
}

TEST_CASE("an operation that is short on the wire counts with its size in memory") {
  v1::Request request;
  for (int i = 0; i < 1000; ++i) request.mutable_write()->add_operations();
  CHECK(DecodedBytes(request) > request.SpaceUsedLong());
  for (int i = 0; i < 1000; ++i) {
    request.mutable_write()->mutable_operations(i)->mutable_create()->add_acl();
  }
  CHECK(DecodedBytes(request) > request.SpaceUsedLong() / 2);
  for (int i = 0; i < 10'000; ++i) {
    v1::Operation* operation = request.mutable_write()->mutable_operations(i / 10);
    operation->mutable_create_if_not_exists()->add_acl();
  }
  CHECK(DecodedBytes(request) > request.SpaceUsedLong());
  // Of all operations, this one has the most fields.
  for (int i = 0; i < 1000; ++i) {
    request.mutable_write()->mutable_operations(i)->mutable_check_stat();
  }
  CHECK(DecodedBytes(request) > request.SpaceUsedLong());
}

TEST_CASE("the session of a contender is found in its request") {
  v1::AcquireRequest request;
  CHECK(ContenderSessionOf(request.SerializeAsString()) == std::nullopt);
  request.mutable_contender()->set_path("/q");
  request.mutable_contender()->set_session_id(-7);
  request.mutable_contender()->set_session_password("password");
  request.set_data(std::string(1000, 'x'));
  request.set_only_token(5);
  const std::string bytes = request.SerializeAsString();
  CHECK(ContenderSessionOf(bytes) == -7);
  // The last one counts, as for a decoder.
  v1::ReleaseRequest more;
  more.mutable_contender()->set_session_id(8);
  CHECK(ContenderSessionOf(bytes + more.SerializeAsString()) == 8);
  // What is cut off anywhere does no harm.
  for (size_t size = 0; size < 40; ++size) {
    const std::optional<int64_t> session = ContenderSessionOf(bytes.substr(0, size));
    CHECK(session.value_or(-7) == -7);
  }
  CHECK(ContenderSessionOf(std::string(100, '\xff')) == std::nullopt);
}

}  // namespace
}  // namespace quorate::rpc::native
