// SPDX-License-Identifier: Apache-2.0

// Asynchronous use: many calls at a time, callbacks, a coroutine, and a watch.
//
//   async 127.0.0.1:2281,127.0.0.1:2282

#include <coroutine>
#include <cstdio>
#include <exception>
#include <future>
#include <string>
#include <vector>

#include "client/client.h"

using quorate::Client;

namespace {

// The return type of a coroutine whose result is not awaited. Coroutine libraries have better ones.
struct Detached {
  struct promise_type {
    Detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

// Adds 1 to /count. Runs on the client's callback thread after the first co_await.
Detached AddOne(Client& client, std::promise<absl::Status>& done) {
  absl::StatusOr<quorate::GetResult> read = co_await client.AsyncGet("/count");
  if (!read.ok()) {
    done.set_value(read.status());
    co_return;
  }
  const std::string next = std::to_string(std::stoi(read->data) + 1);
  absl::StatusOr<quorate::Stat> set =
      co_await client.AsyncSet("/count", next, {.version = read->stat.version});
  done.set_value(set.status());
}

absl::Status Run(Client& client) {
  // The calls take effect in this order, and are sent to the servers together.
  constexpr int kCalls = 1000;
  std::vector<quorate::Call<quorate::Stat>> calls;
  calls.reserve(kCalls);
  auto created = client.AsyncCreate("/count");
  for (int i = 0; i < kCalls; ++i) calls.push_back(client.AsyncSet("/count", std::to_string(i)));
  if (absl::Status s = created.Wait().status(); !s.ok()) return s;
  for (auto& call : calls) {
    if (absl::Status s = call.Wait().status(); !s.ok()) return s;
  }

  // The watch's callback runs on the client's callback thread, too.
  absl::StatusOr<quorate::WatchHandle> watch =
      client
          .AsyncWatch("/count", quorate::WatchScope::kNode,
                      [](const quorate::WatchNotification& notification) {
                        const auto* event = std::get_if<quorate::Event>(&notification);
                        std::printf("changed: %s\n", event ? event->path.c_str() : "unknown");
                      })
          .Wait();
  if (!watch.ok()) return watch.status();

  std::promise<absl::Status> added;
  AddOne(client, added);
  if (absl::Status s = added.get_future().get(); !s.ok()) return s;

  // Callbacks run on the client's callback thread, in the order of the calls, and must not use
  // blocking functions of the client.
  std::promise<absl::Status> told;
  client.AsyncGet("/count").Then([](absl::StatusOr<quorate::GetResult> read) {
    if (read.ok()) std::printf("count: %s\n", read->data.c_str());
  });
  client.AsyncList("/").Then([&](absl::StatusOr<quorate::ListResult> list) {
    for (const std::string& child : list.ok() ? list->children : std::vector<std::string>()) {
      if (child == "count") std::printf("it is listed\n");
    }
    told.set_value(list.status());
  });
  if (absl::Status s = told.get_future().get(); !s.ok()) return s;
  return client.Delete("/count").status();
}

}  // namespace

int main(int argc, char** argv) {
  absl::StatusOr<std::unique_ptr<Client>> client =
      Client::Connect({.servers = argc > 1 ? argv[1] : "127.0.0.1:2281"});
  absl::Status status = client.ok() ? Run(**client) : client.status();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
