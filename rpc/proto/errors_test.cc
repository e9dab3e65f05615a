// SPDX-License-Identifier: Apache-2.0

#include "rpc/proto/errors.h"

#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/cord.h"

namespace quorate::v1 {
namespace {

TEST_CASE("every error has a status of its own kind, and a text") {
  const google::protobuf::EnumDescriptor* codes = ErrorCode_descriptor();
  for (int i = 0; i < codes->value_count(); ++i) {
    const auto code = static_cast<ErrorCode>(codes->value(i)->number());
    if (code == ERROR_CODE_UNSPECIFIED) continue;
    CAPTURE(codes->value(i)->name());
    // The texts of the codes that have no case in the tables are those of an unknown code.
    const bool is_internal = code == ERROR_CODE_SYSTEM_ERROR;
    CHECK((CodeOf(code) == absl::StatusCode::kInternal) == is_internal);
    CHECK((TextOf(code) == TextOf(static_cast<ErrorCode>(12345))) == is_internal);
  }
}

TEST_CASE("an error keeps its code, message and details on its way through gRPC") {
  ErrorDetail detail;
  detail.set_path("/a");
  detail.set_operation_index(0);
  detail.set_zxid(77);
  detail.add_results()->set_error(ERROR_CODE_BAD_VERSION);
  const absl::Status sent = ToStatus(ERROR_CODE_BAD_VERSION, "the version is another one", detail);
  const grpc::Status on_the_way = ToGrpc(sent);
  CHECK(on_the_way.error_code() == grpc::StatusCode::FAILED_PRECONDITION);
  CHECK(on_the_way.error_message() == "the version is another one");
  const absl::Status received = FromGrpc(on_the_way);
  CHECK(received == sent);
  const std::optional<ErrorDetail> is = DetailOf(received);
  REQUIRE(is.has_value());
  CHECK(is->code() == ERROR_CODE_BAD_VERSION);
  CHECK(is->path() == "/a");
  CHECK(is->has_operation_index());
  CHECK(is->zxid() == 77);
  CHECK(is->results_size() == 1);
}

TEST_CASE("an error without a message has the text of its code") {
  CHECK(ToStatus(ERROR_CODE_NO_NODE, {}).message() == "there is no such znode");
}

TEST_CASE("a status without details, or with bytes that are no details, has no ErrorDetail") {
  CHECK_FALSE(DetailOf(absl::NotFoundError("no")).has_value());
  CHECK_FALSE(DetailOf(FromGrpc({grpc::StatusCode::NOT_FOUND, "no", "\xFF\xFF"})).has_value());
  absl::Status status = absl::NotFoundError("no");
  status.SetPayload(kErrorDetailUrl, absl::Cord("\xFF"));
  CHECK_FALSE(DetailOf(status).has_value());
}

TEST_CASE("the operation that failed is the first with an error of its own") {
  ErrorDetail detail;
  CHECK_FALSE(FailedIndexOf(detail.results()).has_value());
  detail.add_results();
  CHECK_FALSE(FailedIndexOf(detail.results()).has_value());
  detail.add_results()->set_error(ERROR_CODE_NOT_ATTEMPTED);
  CHECK_FALSE(FailedIndexOf(detail.results()).has_value());
  detail.add_results()->set_error(ERROR_CODE_NO_NODE);
  detail.add_results()->set_error(ERROR_CODE_BAD_VERSION);
  CHECK(FailedIndexOf(detail.results()) == 2u);
}

}  // namespace
}  // namespace quorate::v1
