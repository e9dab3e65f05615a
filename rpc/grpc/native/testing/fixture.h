// SPDX-License-Identifier: Apache-2.0

// One loop of the native front end with its clients, controlled by the test, in front of a tree
// that applies commands when the test says so.
//
// Thread-safety: none.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/testing/manual_clock.h"
#include "rpc/frontend/frontends.h"
#include "rpc/frontend/testing/fake_service.h"
#include "rpc/grpc/native/frontend.h"
#include "rpc/grpc/native/stream_loop.h"
#include "rpc/grpc/native/testing/manual_transport.h"
#include "rpc/grpc/native/translation.h"
#include "rpc/proto/errors.h"
#include "rpc/proto/quorate/v1/session.pb.h"
#include "rpc/proto/quorate/v1/tree.pb.h"
#include "rpc/proto/times.h"

namespace quorate::rpc::native {

inline const std::string kPassword = "0123456789abcdef";

inline v1::Operation CreateOp(const std::string& path, const std::string& data = "",
                              v1::CreateMode mode = v1::CREATE_MODE_PERSISTENT) {
  v1::Operation operation;
  operation.mutable_create()->set_path(path);
  operation.mutable_create()->set_data(data);
  operation.mutable_create()->set_mode(mode);
  return operation;
}

inline v1::Operation SetOp(const std::string& path, const std::string& data) {
  v1::Operation operation;
  operation.mutable_set()->set_path(path);
  operation.mutable_set()->set_data(data);
  return operation;
}

inline v1::Operation DeleteOp(const std::string& path, bool recursive = false) {
  v1::Operation operation;
  operation.mutable_delete_()->set_path(path);
  operation.mutable_delete_()->set_recursive(recursive);
  return operation;
}

inline v1::Operation CheckVersionOp(const std::string& path, int32_t version) {
  v1::Operation operation;
  operation.mutable_check()->set_path(path);
  operation.mutable_check()->set_version(version);
  return operation;
}

inline v1::Operation CheckCreatedOp(const std::string& path, int64_t created_zxid) {
  v1::Operation operation;
  operation.mutable_check_created()->set_path(path);
  operation.mutable_check_created()->set_created_zxid(created_zxid);
  return operation;
}

inline v1::Request WriteRequest(uint64_t id, uint64_t sequence,
                                const std::vector<v1::Operation>& operations) {
  v1::Request request;
  request.set_id(id);
  request.mutable_write()->set_sequence(sequence);
  for (const v1::Operation& operation : operations) {
    *request.mutable_write()->add_operations() = operation;
  }
  return request;
}

inline v1::Request GetRequestOf(uint64_t id, const std::string& path, bool linearizable = false) {
  v1::Request request;
  request.set_id(id);
  request.mutable_get()->set_path(path);
  request.mutable_get()->set_linearizable(linearizable);
  return request;
}

inline v1::Request WatchRequestOf(uint64_t id, uint64_t watch_id, const std::string& path,
                                  v1::WatchScope scope, int64_t after_zxid = 0) {
  v1::Request request;
  request.set_id(id);
  request.mutable_watch()->set_watch_id(watch_id);
  request.mutable_watch()->set_path(path);
  request.mutable_watch()->set_scope(scope);
  request.mutable_watch()->set_after_zxid(after_zxid);
  return request;
}

inline v1::SessionRequest MessageOf(const std::vector<v1::Request>& requests) {
  v1::SessionRequest message;
  for (const v1::Request& request : requests) *message.add_requests() = request;
  return message;
}

inline v1::SessionRequest OpenMessage(int64_t session_id = 0) {
  v1::SessionRequest message;
  message.mutable_open()->set_session_id(session_id);
  message.mutable_open()->set_password(kPassword);
  *message.mutable_open()->mutable_timeout() = v1::DurationOfMs(4000);
  return message;
}

class Fixture {
 public:
  explicit Fixture(Config c = TestConfig()) : config(std::move(c)) {
    service.current.caught_up = service.current.in_touch = true;
    transport.SetLoop(&loop);
  }

  // Runs iterations, and applies their batches, until there is nothing left to do.
  void Settle() {
    transport.RunIterations();
    while (!service.batches.empty() || !service.syncs.empty()) {
      if (!service.batches.empty()) service.Apply(listener);
      for (const auto& [tag, sync_id] : std::exchange(service.syncs, {})) {
        listener->OnSyncDone(tag, sync_id, service.ReadTree()->last_zxid());
      }
      transport.RunIterations();
    }
  }
  void Send(uint32_t tag, const v1::SessionRequest& message) {
    transport.Write(tag, message.SerializeAsString());
  }
  // Returns the messages of a session's stream since the last call, merged into one.
  v1::SessionResponse Received(uint32_t tag) {
    v1::SessionResponse all;
    for (const std::string& bytes : std::exchange(transport.received(tag), {})) {
      REQUIRE(all.MergeFromString(bytes));
    }
    return all;
  }
  // Sends requests, and returns the messages that arrive in response, merged into one.
  v1::SessionResponse Call(uint32_t tag, const std::vector<v1::Request>& requests) {
    Send(tag, MessageOf(requests));
    Settle();
    return Received(tag);
  }
  v1::Response CallOne(uint32_t tag, const v1::Request& request) {
    const v1::SessionResponse response = Call(tag, {request});
    REQUIRE(response.items_size() >= 1);
    const v1::SessionItem& item = response.items(response.items_size() - 1);
    REQUIRE(item.has_response());
    CHECK(item.response().id() == request.id());
    return item.response();
  }
  // Opens a session. Returns the tag of its stream.
  uint32_t OpenSession(v1::SessionOpened* opened, int64_t session_id = 0) {
    const uint32_t tag = transport.Open(Method::kSession);
    Send(tag, OpenMessage(session_id));
    Settle();
    const v1::SessionResponse response = Received(tag);
    REQUIRE(response.has_opened());
    *opened = response.opened();
    return tag;
  }
  uint32_t OpenSession() {
    v1::SessionOpened ignored;
    return OpenSession(&ignored);
  }
  // Returns what a client has shown that shows digest credentials, each "user:password".
  static CallerProof Digests(const std::vector<std::string>& secrets) {
    CallerProof proof;
    proof.principal.address = "10.0.0.1";
    for (const std::string& secret : secrets) {
      v1::Credential& credential = proof.credentials.emplace_back();
      credential.set_scheme("digest");
      credential.set_secret(secret);
    }
    return proof;
  }
  // Makes a unary call, runs it to its end, and returns its status.
  template <class Request, class Response>
  absl::Status Unary(Method method, const Request& request, Response* response,
                     CallerProof proof = Digests({})) {
    const uint32_t tag = transport.Open(method, std::move(proof));
    transport.Write(tag, request.SerializeAsString());
    Settle();
    REQUIRE(transport.outcome(tag).has_value());
    const absl::Status outcome = *transport.outcome(tag);
    if (outcome.ok()) {
      REQUIRE(transport.received(tag).size() == 1);
      REQUIRE(response->ParseFromString(transport.received(tag)[0]));
    }
    transport.Forget(tag);
    return outcome;
  }
  absl::StatusCode CodeOf(uint32_t tag) {
    REQUIRE(transport.outcome(tag).has_value());
    return transport.outcome(tag)->code();
  }
  // Makes the change as another client, so that the session under test gets only its events.
  void Change(const v1::Operation& operation) {
    v1::TxnRequest request;
    *request.add_operations() = operation;
    v1::TxnResponse response;
    REQUIRE(Unary(Method::kTxn, request, &response).ok());
  }
  int64_t zxid() const { return service.ReadTree()->last_zxid().value(); }
  void Pass(int64_t ms) {
    clock.Advance(ms);
    loop.OnTimer();
    Settle();
  }

  const Config config;
  ManualClock clock{kStartMs};
  CountingBytes random;
  FakeService service;
  EventHistory history{static_cast<size_t>(config.event_history_bytes)};
  NativeFrontend frontend{config, &service, &clock, &random, &history};
  Frontends frontends{{{&frontend, kNativeTags}}, &history};
  Frontend* listener = &frontends;  // receives the results and events of applied commands
  ManualTransport transport;
  StreamLoop loop{&frontend, &transport};
};

inline v1::ErrorDetail DetailOf(const absl::Status& status) {
  const std::optional<v1::ErrorDetail> detail = v1::DetailOf(status);
  REQUIRE(detail.has_value());
  return *detail;
}

}  // namespace quorate::rpc::native
