// SPDX-License-Identifier: Apache-2.0

#include "rpc/admin/metrics_page.h"

#include <openssl/asn1.h>
#include <openssl/x509.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/assert.h"

namespace quorate::rpc::admin {
namespace {

using zk::MetricType;

constexpr LabelledMetric kLabelledMetrics[] = {
    {"quorate_build_info", MetricType::kGauge, "version", "always 1; the label has the version"},
    {"quorate_role", MetricType::kGauge, "role", "1 for the role that the server has, else 0"},
    {"quorate_member_reachable", MetricType::kGauge, "member",
     "1 for a member that this server has a connection with, else 0"},
    {"quorate_member_match_index", MetricType::kGauge, "member",
     "index up to which the leader knows the log of a member to be durable; leader only"},
    {"quorate_request_latency_seconds", MetricType::kHistogram, "operation",
     "time from a client's request to its reply, in seconds, by operation, of gRPC with `grpc.` "
     "before it; only operations that were requested"},
    {"quorate_request_stage_seconds", MetricType::kHistogram, "stage",
     "time that clients' requests spent in a stage, in seconds; only stages that were "
     "passed. Writes have the first five: queue, log_write, commit, apply, answer, barrier, read"},
    {"quorate_request_stage_p99_1m_seconds", MetricType::kGauge, "stage",
     "time in a stage that 99 % of the requests of the last minute did not exceed, in seconds"},
    {"quorate_request_stage_p99_5m_seconds", MetricType::kGauge, "stage",
     "the same, of the last five minutes"},
    {"quorate_slow_requests_total", MetricType::kCounter, "operation",
     "requests that took slowRequestThresholdMs or longer"},
    {"quorate_top_client_requests_per_second", MetricType::kGauge, "rank",
     "requests in a second of the clients with the most in the last minute; "
     "/commands/top_requests names them"},
    {"quorate_top_identity_requests_per_second", MetricType::kGauge, "rank",
     "the same of identities"},
    {"quorate_top_path_requests_per_second", MetricType::kGauge, "rank",
     "the same of the first two components of paths"},
    {"quorate_certificate_expiry_timestamp_seconds", MetricType::kGauge, "stores",
     "Unix time at which a certificate of this server expires, by the prefix of its stores' keys"},
    {"quorate_clock_timestamp_seconds", MetricType::kGauge, "",
     "Unix time by this server's clock, in seconds"},
    {"process_cpu_seconds_total", MetricType::kCounter, "", "processor time, in seconds"},
    {"process_start_time_seconds", MetricType::kGauge, "", "Unix time of the start, in seconds"},
    {"process_open_fds", MetricType::kGauge, "", "open file descriptors"},
    {"process_max_fds", MetricType::kGauge, "", "file descriptors that the process may have"},
    {"process_virtual_memory_bytes", MetricType::kGauge, "", "virtual memory, in bytes"},
    {"process_resident_memory_bytes", MetricType::kGauge, "", "resident memory, in bytes"},
    // Alerts for ZooKeeper compare these two.
    {"jvm_memory_bytes_used", MetricType::kGauge, "area",
     "resident memory of the process, in bytes"},
    {"jvm_memory_bytes_max", MetricType::kGauge, "area",
     "memory that the process may take, in bytes; absent without a limit, as is the one used"},
};

using Samples =
    std::vector<std::pair<std::string, double>>;  // the value of the label, and that of it

// The keys of each kind whose rates are shown. Their names are not: they would make a new time series for
// each client, and all who may read metrics would see them.
constexpr size_t kTopRanks = 5;

const LabelledMetric& Find(std::string_view name) {
  const auto* metric = std::ranges::find(kLabelledMetrics, name, &LabelledMetric::name);
  ASSERT(metric != std::end(kLabelledMetrics));
  return *metric;
}

// Adds a metric of kLabelledMetrics.
void Add(std::string_view name, const Samples& samples, MetricsText* text) {
  const LabelledMetric* metric = &Find(name);
  std::vector<std::pair<MetricsText::Labels, double>> labelled;
  for (const auto& [label, value] : samples) {
    MetricsText::Labels labels;
    if (!metric->label.empty()) labels.emplace_back(metric->label, label);
    labelled.emplace_back(std::move(labels), value);
  }
  text->Add(metric->name, metric->type, metric->help, labelled);
}

constexpr double kMicrosecondsPerSecond = 1e6;
constexpr double kMillisecondsPerSecond = 1e3;

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) +
         static_cast<double>(time.tv_usec) / kMicrosecondsPerSecond;
}

StageHistograms Sum(StageHistograms stages, const StageHistograms& others) {
  for (size_t i = 0; i < stages.size(); ++i) stages[i].Merge(others[i]);
  return stages;
}

double VirtualBytes() {
  unsigned long long pages = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  const int fields = std::fscanf(file, "%llu", &pages);
  std::fclose(file);
  return fields == 1 ? static_cast<double>(pages) * static_cast<double>(sysconf(_SC_PAGESIZE)) : 0;
}

}  // namespace

std::span<const LabelledMetric> LabelledMetrics() { return kLabelledMetrics; }

int64_t ExpirySeconds(const tls::Context& context) {
  std::tm time{};
  const ASN1_TIME* expiry = X509_get0_notAfter(context.certificate());
  if (ASN1_TIME_to_tm(expiry, &time) != 1) return 0;
  return timegm(&time);
}

std::string MetricsPage::Text(const std::set<std::string, std::less<>>& only,
                              const std::vector<CertificateExpiry>& certificates) {
  MetricsText text(only);
  const ServerStatus status = frontend_.service().status();
  const auto descriptors = zk::ServerInfo::CountDescriptors();
  const auto now = clock_.Now();
  const auto tree = zk::TreeTotals::Read(frontend_.service());
  frontend_.info().ReadMetrics(status, descriptors, tree, [&](const zk::MetricSources& sources) {
    for (const zk::Metric& metric : zk::Metrics()) {
      if (metric.is_shown != nullptr && !metric.is_shown(sources)) continue;
      text.Add(metric, metric.value(sources), &window_, now);
    }
    AddProcess(sources, &text);
  });
  for (const zk::UnusedMetric& metric : zk::UnusedMetrics()) text.Add(metric);
  AddLatencies(&text);
  AddStages(&text);
  AddTopRequests(&text);
  AddServer(status, &text);
  AddMembers(&text);
  Samples expiries;
  for (const CertificateExpiry& certificate : certificates) {
    expiries.emplace_back(certificate.stores, static_cast<double>(certificate.unix_seconds));
  }
  Add("quorate_certificate_expiry_timestamp_seconds", expiries, &text);
  return text.text();
}

void MetricsPage::AddLatencies(MetricsText* text) const {
  const zk::OpLatencies latencies = frontend_.statistics().SumOpLatencies();
  std::vector<MetricsText::LabelledHistogram> histograms;
  for (size_t i = 0; i < latencies.size(); ++i) {
    if (latencies[i].count() == 0) continue;
    const bool is_known = i < std::size(zk::kOpCodes);
    histograms.emplace_back((is_known ? zk::kOpCodes[i] : zk::kUnknownOpCode).name, latencies[i]);
  }
  for (const auto& [operation, latency] : frontend_.service().requests().SumOperations()) {
    if (latency.count() > 0) histograms.emplace_back(operation, latency);
  }
  const LabelledMetric& metric = Find("quorate_request_latency_seconds");
  text->AddHistograms(metric.name, metric.help, metric.label, histograms);
}

void MetricsPage::AddStages(MetricsText* text) const {
  const zk::Statistics& statistics = frontend_.statistics();
  const RequestStatistics& requests = frontend_.service().requests();
  const auto now = clock_.Now();
  const StageHistograms all = Sum(statistics.SumStages(), requests.SumStages());
  const auto recent = [&](std::chrono::minutes window) {
    return Sum(statistics.SumRecentStages(window, now), requests.SumRecentStages(window, now));
  };
  const StageHistograms last_minute = recent(std::chrono::minutes(1));
  const StageHistograms last_five = recent(std::chrono::minutes(5));
  std::vector<MetricsText::LabelledHistogram> histograms;
  Samples of_last_minute;
  Samples of_last_five;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].count() == 0) continue;
    const std::string stage(NameOf(static_cast<RequestStage>(i)));
    histograms.emplace_back(stage, all[i]);
    of_last_minute.emplace_back(stage, last_minute[i].PercentileUs(0.99) / kMicrosecondsPerSecond);
    of_last_five.emplace_back(stage, last_five[i].PercentileUs(0.99) / kMicrosecondsPerSecond);
  }
  const LabelledMetric& metric = Find("quorate_request_stage_seconds");
  text->AddHistograms(metric.name, metric.help, metric.label, histograms);
  Add("quorate_request_stage_p99_1m_seconds", of_last_minute, text);
  Add("quorate_request_stage_p99_5m_seconds", of_last_five, text);
  Samples slow;
  for (const auto& [operation, count] : frontend_.service().slow_requests().counts()) {
    slow.emplace_back(operation, static_cast<double>(count));
  }
  Add("quorate_slow_requests_total", slow, text);
}

void MetricsPage::AddTopRequests(MetricsText* text) const {
  const RequestStatistics& requests = frontend_.service().requests();
  const auto now = clock_.Now();
  const WindowLatencies all = requests.SumRecent(LoopTopRequests::kWindow, now).all();
  const auto add = [&](RequestKey key, std::string_view name) {
    Samples samples;
    for (const TopEntry& entry : requests.Top(key, now, kTopRanks)) {
      samples.emplace_back(absl::StrCat(samples.size() + 1), all.PerSecond(entry.count));
    }
    Add(name, samples, text);
  };
  add(RequestKey::kClient, "quorate_top_client_requests_per_second");
  add(RequestKey::kIdentity, "quorate_top_identity_requests_per_second");
  add(RequestKey::kPath, "quorate_top_path_requests_per_second");
}

void MetricsPage::AddServer(const ServerStatus& status, MetricsText* text) const {
  Add("quorate_build_info", {{version_, 1}}, text);
  const std::string_view role = frontend_.info().ModeName(status);
  Samples roles;
  for (const std::string_view name :
       {"leader", "follower", "observer", "standalone", "read-only"}) {
    roles.emplace_back(name, name == role ? 1 : 0);
  }
  Add("quorate_role", roles, text);
}

void MetricsPage::AddMembers(MetricsText* text) const {
  const ClusterView view = administration_.cluster_view();
  Samples reachable;
  Samples positions;
  for (const ClusterView::Member& member : view.members) {
    const std::string id = absl::StrCat(member.id.value());
    reachable.emplace_back(id, member.reachable ? 1 : 0);
    if (view.is_leader) positions.emplace_back(id, static_cast<double>(member.match_index.value()));
  }
  Add("quorate_member_reachable", reachable, text);
  Add("quorate_member_match_index", positions, text);
}

int64_t MetricsPage::StartMs(int64_t uptime_ms) const {
  MutexLock lock(&start_mutex_);
  if (start_ms_ == 0) start_ms_ = clock_.WallMs() - uptime_ms;
  return start_ms_;
}

void MetricsPage::AddProcess(const zk::MetricSources& sources, MetricsText* text) const {
  const auto add = [text](std::string_view name, double value) { Add(name, {{"", value}}, text); };
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto resident_bytes = static_cast<double>(sources.memory.resident_bytes());
  add("quorate_clock_timestamp_seconds",
      static_cast<double>(clock_.WallMs()) / kMillisecondsPerSecond);
  add("process_cpu_seconds_total", Seconds(used.ru_utime) + Seconds(used.ru_stime));
  add("process_start_time_seconds",
      static_cast<double>(StartMs(sources.uptime_ms)) / kMillisecondsPerSecond);
  add("process_open_fds", static_cast<double>(sources.open_files));
  add("process_max_fds", static_cast<double>(sources.open_files_max));
  add("process_virtual_memory_bytes", VirtualBytes());
  add("process_resident_memory_bytes", resident_bytes);
  if (sources.memory.limit() == 0) return;
  Add("jvm_memory_bytes_used", {{"heap", resident_bytes}}, text);
  Add("jvm_memory_bytes_max", {{"heap", static_cast<double>(sources.memory.limit())}}, text);
}

}  // namespace quorate::rpc::admin
