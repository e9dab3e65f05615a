// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/authorization.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "rpc/proto/quorate/v1/cluster.pb.h"
#include "rpc/proto/quorate/v1/lock.pb.h"
#include "rpc/proto/quorate/v1/session.pb.h"
#include "rpc/proto/quorate/v1/tree.pb.h"
#include "rpc/zookeeper/four_letter_words.h"
#include "rpc/zookeeper/opcodes.h"

namespace quorate::rpc {
namespace {

std::set<std::string> NamesOf(Protocol protocol) {
  std::set<std::string> names;
  for (const OperationInfo& info : kOperations) {
    if (info.protocol == protocol) names.emplace(info.name);
  }
  return names;
}

void AddMethods(const google::protobuf::FileDescriptor* file, std::set<std::string>* names) {
  for (int i = 0; i < file->service_count(); ++i) {
    const google::protobuf::ServiceDescriptor* service = file->service(i);
    for (int k = 0; k < service->method_count(); ++k) {
      names->insert(service->full_name() + "/" + service->method(k)->name());
    }
  }
}

TEST_CASE("each row stands at its own place, with a name of its own") {
  std::set<std::pair<Protocol, std::string_view>> names;
  for (const OperationInfo& info : kOperations) {
    CHECK(&InfoOf(info.operation) == &info);
    CHECK(names.emplace(info.protocol, info.name).second);
    CHECK(FindOperation(info.protocol, info.name) == &info);
  }
  CHECK(FindOperation(Protocol::kGrpc, "quorate.v1.ClusterService/Nothing") == nullptr);
}

TEST_CASE("the published RPCs and those of health and reflection are the rows of gRPC") {
  std::set<std::string> methods = {
      "grpc.health.v1.Health/Check",
      "grpc.health.v1.Health/Watch",
      "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
  };
  AddMethods(v1::StatusRequest::descriptor()->file(), &methods);
  AddMethods(v1::SessionRequest::descriptor()->file(), &methods);
  AddMethods(v1::AcquireRequest::descriptor()->file(), &methods);
  AddMethods(v1::GetRequest::descriptor()->file(), &methods);
  CHECK(methods == NamesOf(Protocol::kGrpc));
}

TEST_CASE("the opcodes are the rows of ZooKeeper's protocol") {
  std::set<std::string> names;
  for (const zk::OpCodeInfo& info : zk::kOpCodes) {
    names.emplace(info.name);
    const OperationInfo* row = FindOperation(Protocol::kZooKeeper, info.name);
    INFO(info.name);
    REQUIRE(row != nullptr);
    const bool is_refused = info.op == zk::OpCode::kDeleteContainer;
    CHECK((row->requirement == Requirement::kNobody) == (!zk::IsServed(info.op) || is_refused));
    if (zk::IsWrite(info.op) && !is_refused) CHECK(row->requirement == Requirement::kAccessLists);
  }
  CHECK(names == NamesOf(Protocol::kZooKeeper));
}

TEST_CASE("the four-letter words are the rows of words") {
  std::set<std::string> words;
  for (const std::string_view word : zk::FourLetterWords::All()) words.emplace(word);
  CHECK(words == NamesOf(Protocol::kFourLetterWord));
}

TEST_CASE("the page agrees with the table") {
  std::ifstream file(kAuthorizationPagePath, std::ios::binary);
  REQUIRE(file);
  const std::string page((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  INFO("the file differs from rpc/frontend/authorization.h; run\n" << kWriteAuthorizationReference);
  const bool is_current = page == AuthorizationPage();
  CHECK(is_current);
}

TEST_CASE("loopback addresses are distinguished from those of other machines") {
  using Origin = Principal::Origin;
  for (const char* address : {"127.0.0.1", "127.3.2.1", "::1", "::ffff:127.0.0.1"}) {
    INFO(address);
    CHECK(OriginOfAddress(address) == Origin::kLoopback);
  }
  for (const char* address : {"10.0.0.1", "128.0.0.1", "::2", "fe80::1", "::ffff:10.0.0.1",
                              "127.0.0.1.example", "", "localhost", "127.0.0.1:80"}) {
    INFO(address);
    CHECK(OriginOfAddress(address) == Origin::kRemote);
  }
}

TEST_CASE("a principal is recorded by the strongest thing that it has proved") {
  Principal principal{.address = "10.0.0.1"};
  CHECK(principal.Name() == "ip:10.0.0.1");
  CHECK_FALSE(principal.has_proof());
  principal.digest_user = "super";
  CHECK(principal.Name() == "digest:super");
  principal.subject = "CN=admin";
  CHECK(principal.Name() == "x509:CN=admin");
  principal.token = "ops";
  CHECK(principal.Name() == "token:ops");
  CHECK(principal.has_proof());
  CHECK(Principal{.origin = Principal::Origin::kUnixSocket, .address = "127.0.0.1"}.Name() ==
        "unix");
}

}  // namespace
}  // namespace quorate::rpc
