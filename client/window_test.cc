// SPDX-License-Identifier: Apache-2.0

// Tests of how many writes a client sends before the first of them is answered.

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/client.h"
#include "client/scripted_server.h"

namespace quorate {
namespace {

using Moment = ScriptedServer::Moment;

std::unique_ptr<Client> Connect(const std::string& servers) {
  absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect({.servers = servers});
  INFO(client.status().ToString());
  REQUIRE(client.ok());
  return *std::move(client);
}

}  // namespace

TEST_CASE("a client whose answers are large loses few streams, and tries to send more again") {
  // As a server that keeps 1 MB of answers of 4.5 KB.
  constexpr int kWrites = 10'000;
  ScriptedServer server({.unacknowledged_max = 233});
  auto client = Connect(server.address());
  REQUIRE(client->Create("/a").ok());
  const auto set = [&](int writes) {
    std::vector<Call<Stat>> calls;
    calls.reserve(static_cast<size_t>(writes));
    for (int i = 0; i < writes; ++i) calls.push_back(client->AsyncSet("/a", ""));
    for (Call<Stat>& call : calls) REQUIRE(call.Wait().ok());
  };
  set(kWrites - 2000);
  server.TakeMostUnacknowledged();
  set(2000);
  CHECK(server.changes().size() == kWrites + 1);
  // The first one, and one for each of the sizes 512 and 256.
  CHECK(server.streams() <= 3);
  // The size after those was 128.
  CHECK(server.TakeMostUnacknowledged() > 128);
}

TEST_CASE("transactions with reads are sent one by one, also after the stream was broken") {
  for (int breaks = 2; breaks < 12; ++breaks) {
    CAPTURE(breaks);
    ScriptedServer server({.at_moment = [&](int number, Moment) {
      return number == breaks ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "broken by the script")
                              : grpc::Status::OK;
    }});
    auto client = Connect(server.address());
    std::vector<Call<CreateResult>> creates;
    std::vector<Call<TransactionResult>> reads;
    for (int i = 0; i < 5; ++i) {
      reads.push_back(client->AsyncCommit(Transaction().Get("/none")));
      creates.push_back(client->AsyncCreate("/" + std::to_string(i)));
    }
    for (Call<TransactionResult>& call : reads) {
      CHECK(call.Wait().status().code() == absl::StatusCode::kNotFound);
    }
    for (Call<CreateResult>& call : creates) CHECK(call.Wait().ok());
    CHECK(server.changes().size() == 5);
  }
}

}  // namespace quorate
