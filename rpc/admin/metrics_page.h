// SPDX-License-Identifier: Apache-2.0

// The page /metrics: the table of metrics that mntr shows too, ZooKeeper's names that are not counted
// here, and what only Prometheus gets, because its lines have labels.
//
// Thread-safety: any thread. The cost of a page does not depend on the number of clients or znodes.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "rpc/admin/metrics_text.h"
#include "rpc/frontend/administration.h"
#include "rpc/tls/context.h"
#include "rpc/zookeeper/frontend.h"

namespace quorate::rpc::admin {

// A certificate of this server: the prefix of the keys of its stores ("ssl", "ssl.quorum"), and the
// Unix time in seconds at which it expires.
struct CertificateExpiry {
  std::string stores;
  int64_t unix_seconds = 0;
};

// A metric whose samples have a label, or that is only for Prometheus.
struct LabelledMetric {
  std::string_view name;
  zk::MetricType type;
  std::string_view label;  // empty: none
  std::string_view help;
};
std::span<const LabelledMetric> LabelledMetrics();

// Returns when the certificate of a context expires, in seconds of Unix time.
int64_t ExpirySeconds(const tls::Context& context);

class MetricsPage {
 public:
  // All must outlive the object.
  MetricsPage(zk::ZkFrontend* frontend, const Administration* administration, const Clock* clock,
              std::string_view version)
      : frontend_(*frontend), administration_(*administration), clock_(*clock), version_(version) {}

  // Returns the page; only the metrics in `only`, unless it is empty.
  std::string Text(const std::set<std::string, std::less<>>& only,
                   const std::vector<CertificateExpiry>& certificates);

 private:
  void AddLatencies(MetricsText* text) const;
  void AddStages(MetricsText* text) const;
  void AddTopRequests(MetricsText* text) const;
  void AddServer(const ServerStatus& status, MetricsText* text) const;
  void AddMembers(MetricsText* text) const;
  // Returns the Unix time of the start in ms. It is computed once: a value that differs by some
  // milliseconds from one scrape to the next would look like a restart.
  int64_t StartMs(int64_t uptime_ms) const;
  void AddProcess(const zk::MetricSources& sources, MetricsText* text) const;

  zk::ZkFrontend& frontend_;
  const Administration& administration_;
  const Clock& clock_;
  const std::string version_;
  QuantileWindow window_;
  mutable Mutex start_mutex_;
  mutable int64_t start_ms_ ABSL_GUARDED_BY(start_mutex_) = 0;  // 0: not computed yet
};

}  // namespace quorate::rpc::admin
