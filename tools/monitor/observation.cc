// SPDX-License-Identifier: Apache-2.0

#include "tools/monitor/observation.h"

#include <future>
#include <utility>

namespace quorate::tools {
namespace {

Observation Ask(ClusterClient* client, uint32_t top_count) {
  Observation observation{.address = client->address(),
                          .status = client->Status(),
                          .members = absl::UnavailableError("not asked"),
                          .metrics = absl::UnavailableError("not asked")};
  if (observation.status.ok()) {
    observation.members = client->Members();
    absl::StatusOr<std::string> text = client->Metrics();
    observation.metrics =
        text.ok() ? absl::StatusOr<Metrics>(Metrics::Parse(*text)) : text.status();
    if (top_count > 0) observation.top = client->TopRequests(top_count);
  }
  observation.at = std::chrono::steady_clock::now();
  observation.wall = std::chrono::system_clock::now();
  return observation;
}

}  // namespace

std::optional<double> Observation::Value(std::string_view name, std::string_view labels) const {
  return metrics.ok() ? metrics->Value(name, labels) : std::nullopt;
}

std::optional<double> Increase(const Observation& before, const Observation& now,
                               std::string_view name) {
  const std::optional<double> first = before.Value(name);
  const std::optional<double> second = now.Value(name);
  if (!first.has_value() || !second.has_value() || *second < *first) return std::nullopt;
  return *second - *first;
}

std::optional<double> Rate(const Observation& before, const Observation& now,
                           std::string_view name) {
  const std::optional<double> increase = Increase(before, now, name);
  const double seconds = std::chrono::duration<double>(now.at - before.at).count();
  if (!increase.has_value() || seconds <= 0) return std::nullopt;
  return *increase / seconds;
}

Observer::Observer(const std::vector<std::string>& addresses, const Access& access,
                   uint32_t top_count)
    : top_count_(top_count) {
  for (const std::string& address : addresses) {
    clients_.push_back(std::make_unique<ClusterClient>(address, access));
  }
}

std::vector<Observation> Observer::Look() {
  std::vector<std::future<Observation>> answers;
  answers.reserve(clients_.size());
  for (const auto& client : clients_) {
    answers.push_back(std::async(std::launch::async, Ask, client.get(), top_count_));
  }
  std::vector<Observation> observations;
  observations.reserve(answers.size());
  for (auto& answer : answers) observations.push_back(answer.get());
  return observations;
}

}  // namespace quorate::tools
