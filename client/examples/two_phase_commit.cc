// SPDX-License-Identifier: Apache-2.0

// A coordinator lets two banks make transfers: both banks carry out a transfer, or neither does.
//
//   two_phase_commit 127.0.0.1:2281,127.0.0.1:2282

#include "client/recipes/two_phase_commit.h"

#include <cstdio>
#include <string>
#include <thread>

#include "client/client.h"

using quorate::Client;
using quorate::Decision;

namespace {

constexpr int kPatienceMs = 10'000;

const char* NameOf(Decision decision) { return decision == Decision::kCommit ? "commit" : "abort"; }

// Does the work of a bank. Usually each bank is a separate program.
absl::Status TakePart(Client* client, const std::string& path, const char* bank, bool agrees) {
  quorate::TwoPhaseParticipant participant(client, path, bank);
  const absl::StatusOr<std::string> request = participant.Request();
  if (!request.ok()) return request.status();
  // Before it votes yes, a bank prepares everything, so that it can carry out the transfer in any
  // case.
  const absl::Status voted = participant.Vote(agrees).status();
  if (!voted.ok() && !absl::IsAborted(voted)) return voted;
  const absl::StatusOr<Decision> decision = participant.WaitForDecision(kPatienceMs);
  if (!decision.ok()) return decision.status();
  std::printf("%s: \"%s\": %s\n", bank, request->c_str(), NameOf(*decision));
  return participant.Acknowledge();
}

absl::Status Transfer(Client* client, const std::string& what, bool second_agrees) {
  const std::string path = "/example-transfer";
  auto coordinator = quorate::TwoPhaseCoordinator::Begin(client, path, {"bank-a", "bank-b"}, what);
  if (!coordinator.ok()) return coordinator.status();
  absl::Status a, b;
  std::thread first([&] { a = TakePart(client, path, "bank-a", true); });
  std::thread second([&] { b = TakePart(client, path, "bank-b", second_agrees); });
  const absl::StatusOr<Decision> decision = coordinator->Decide(kPatienceMs);
  first.join();
  second.join();
  if (!decision.ok()) return decision.status();
  if (!a.ok()) return a;
  if (!b.ok()) return b;
  std::printf("coordinator: %s\n", NameOf(*decision));
  return coordinator->Finish(kPatienceMs);
}

absl::Status Run(Client* client) {
  if (absl::Status s = Transfer(client, "100 from a to b", true); !s.ok()) return s;
  return Transfer(client, "5000 from b to a", false);
}

}  // namespace

int main(int argc, char** argv) {
  absl::StatusOr<std::unique_ptr<Client>> client =
      Client::Connect({.servers = argc > 1 ? argv[1] : "127.0.0.1:2281"});
  absl::Status status = client.ok() ? Run(client->get()) : client.status();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
