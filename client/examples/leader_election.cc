// SPDX-License-Identifier: Apache-2.0

// Runs three candidates, each with its own session. The leader fails, and the next candidate leads.
//
//   leader_election 127.0.0.1:2281,127.0.0.1:2282

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "client/client.h"
#include "client/recipes/election.h"

using quorate::Client;
using quorate::Election;

namespace {

struct Candidate {
  std::unique_ptr<Client> client;
  std::unique_ptr<Election> election;
};

absl::Status Run(const std::string& servers) {
  std::vector<Candidate> candidates;
  for (const std::string id : {"anna", "bert", "cleo"}) {
    absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect({.servers = servers});
    if (!client.ok()) return client.status();
    // The listener runs on the client's callback thread: real work belongs on another thread.
    auto print = [id](const quorate::ElectionEvent& event) {
      std::printf("%s: %s\n", id.c_str(), std::string(NameOf(event.state)).c_str());
    };
    auto election = std::make_unique<Election>(
        client->get(), "/examples/election",
        quorate::ElectionOptions{.id = id, .listener = std::move(print)});
    if (absl::Status s = election->Start(); !s.ok()) return s;
    // Start them one after another, so that the output is always the same.
    if (absl::Status s = (*client)->Sync(); !s.ok()) return s;
    if (candidates.empty()) {
      if (absl::Status s = election->AwaitLeadership(10'000).status(); !s.ok()) return s;
    }
    candidates.push_back({*std::move(client), std::move(election)});
  }
  for (size_t i = 1; i < candidates.size(); ++i) {
    // End the leader's session, as after a crash, but without waiting for the session timeout.
    if (absl::Status s = candidates[i - 1].client->Close(); !s.ok()) return s;
    absl::StatusOr<int64_t> token = candidates[i].election->AwaitLeadership(10'000);
    if (!token.ok()) return token.status();
    absl::StatusOr<quorate::Participant> leader = candidates[i].election->Leader();
    if (!leader.ok()) return leader.status();
    std::printf("now %s leads\n", leader->id.c_str());
  }
  return candidates.back().election->Stop(10'000);
}

}  // namespace

int main(int argc, char** argv) {
  const absl::Status status = Run(argc > 1 ? argv[1] : "127.0.0.1:2281");
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
