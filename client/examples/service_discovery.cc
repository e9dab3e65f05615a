// SPDX-License-Identifier: Apache-2.0

// Two instances of a service register, a client finds them, and one goes away.
//
//   service_discovery 127.0.0.1:2281,127.0.0.1:2282

#include "client/recipes/service_discovery.h"

#include <cstdio>
#include <string>

#include "client/client.h"

using quorate::Client;

namespace {

absl::Status ShowNext(quorate::ServiceProvider* provider, int times) {
  if (absl::Status s = provider->WaitUntilCurrent(); !s.ok()) return s;
  for (int i = 0; i < times; ++i) {
    const absl::StatusOr<quorate::ServiceInstance> next = provider->Next();
    if (!next.ok()) return next.status();
    std::printf("call %d goes to %s:%d\n", i + 1, next->address.c_str(), next->port.value_or(0));
  }
  return absl::OkStatus();
}

absl::Status Run(Client* client) {
  quorate::ServiceDiscovery services(client, "/example-services");
  auto first = services.Register(
      {.name = "orders", .id = "1", .address = "10.0.0.1", .port = 8080, .payload = "v1.2"});
  if (!first.ok()) return first.status();
  auto second =
      services.Register({.name = "orders", .id = "2", .address = "10.0.0.2", .port = 8080});
  if (!second.ok()) return second.status();
  if (absl::Status s = (*first)->WaitUntilThere(); !s.ok()) return s;
  if (absl::Status s = (*second)->WaitUntilThere(); !s.ok()) return s;

  // The part of the program that calls the service: a copy in memory that follows all changes.
  auto provider = services.Follow("orders");
  if (!provider.ok()) return provider.status();
  if (absl::Status s = ShowNext(provider->get(), 3); !s.ok()) return s;

  // Unregister an instance, as the end of its program would.
  first->reset();
  std::printf("the first one is gone\n");
  return ShowNext(provider->get(), 2);
}

}  // namespace

int main(int argc, char** argv) {
  absl::StatusOr<std::unique_ptr<Client>> client =
      Client::Connect({.servers = argc > 1 ? argv[1] : "127.0.0.1:2281"});
  absl::Status status = client.ok() ? Run(client->get()) : client.status();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
