// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/leader_latch.h"

#include <memory>
#include <utility>

namespace quorate {
namespace {

constexpr char kPrefix[] = "latch-";

std::function<void(const ElectionEvent&)> ListenerFor(std::function<void(bool)> listener) {
  if (listener == nullptr) return nullptr;
  return [listener = std::move(listener),
          had = std::make_shared<bool>(false)](const ElectionEvent& event) {
    const bool has = event.state == ElectionState::kElected;
    if (std::exchange(*had, has) != has) listener(has);
  };
}

}  // namespace

LeaderLatch::LeaderLatch(Client* client, std::string path, LeaderLatchOptions options)
    : election_(client, std::move(path),
                ElectionOptions{std::move(options.id), ListenerFor(std::move(options.listener))},
                kPrefix) {}

}  // namespace quorate
