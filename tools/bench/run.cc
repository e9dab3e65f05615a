// SPDX-License-Identifier: Apache-2.0

#include "tools/bench/run.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/bench/control.h"
#include "tools/bench/failover.h"
#include "tools/bench/idle_sessions.h"
#include "tools/bench/load.h"
#include "tools/bench/processes.h"
#include "tools/bench/workload.h"

namespace quorate::tools::bench {
namespace {

// The share of a slice that does not count at its beginning, if the slice begins without load, and
// the maximum of that time.
constexpr double kRampShare = 0.1;
constexpr int64_t kRampMaxNs = 200 * kNsInMs;

int64_t ToNs(double seconds) { return static_cast<int64_t>(seconds * kNsInSecond); }
double ToSeconds(int64_t ns) { return static_cast<double>(ns) / kNsInSecond; }

// A cluster and its state in the measurement.
struct SideState {
  const ClusterOptions* options = nullptr;
  // The options of this side's load. They have a separate root, because both sides may be the same
  // cluster.
  Options work;
  std::vector<Endpoint> servers;
  std::optional<std::vector<int>> pids;
  std::unique_ptr<IdleSessions> idle;
  // The load and the measurement of the running workload.
  std::unique_ptr<Load> load;
  Measurement* measurement = nullptr;

  std::optional<double> ServerCpuSeconds() const {
    return pids.has_value() ? CpuSecondsOf(*pids) : std::nullopt;
  }
};

class Runner {
 public:
  Runner(const Options& options, std::function<void(const std::string&)> show)
      : options_(options), show_(std::move(show)), engine_(options.session_timeout_ms) {
    engine_.SetProgress([this] { Show(); });
  }

  absl::StatusOr<Results> RunAll() {
    results_.machine = DescribeMachine();
    sides_.resize(options_.clusters.size());
    for (size_t i = 0; i < sides_.size(); ++i) {
      if (absl::Status s = FindCluster(options_.clusters[i], &sides_[i]); !s.ok()) return s;
    }
    for (SideState& side : sides_) {
      if (absl::Status s = OpenIdleSessions(&side); !s.ok()) return s;
    }
    for (const std::string& name : options_.workloads) {
      WorkloadResult result;
      result.name = name;
      absl::Status status = RunWorkload(name, &result);
      for (SideState& side : sides_) {
        if (side.load != nullptr) side.load->Detach();
      }
      for (SideState& side : sides_) {
        if (side.load != nullptr && status.ok()) status = side.load->Finish();
        side.load.reset();
      }
      if (!status.ok()) return absl::Status(status.code(), absl::StrCat(name, ": ", Text(status)));
      if (sides_.size() == 2) {
        result.ratios = Compare(result.measurements[0].slices, result.measurements[1].slices);
      }
      results_.workloads.push_back(std::move(result));
    }
    return std::move(results_);
  }

 private:
  static std::string Text(const absl::Status& status) { return std::string(status.message()); }

  absl::Status FindCluster(const ClusterOptions& cluster, SideState* side) {
    std::shared_ptr<const wire::TlsClient> tls;
    if (cluster.tls) {
      auto client = wire::TlsClient::Create(options_.tls_files);
      if (!client.ok()) return client.status();
      tls = *std::move(client);
    }
    absl::StatusOr<std::vector<Endpoint>> servers = Resolve(cluster.servers, std::move(tls));
    if (!servers.ok()) return servers.status();
    side->options = &cluster;
    side->work = options_;
    if (side != &sides_.front()) side->work.root += "-compared";
    side->work.data_bytes = cluster.data_bytes.value_or(options_.data_bytes);
    side->work.populated = cluster.populated.value_or(options_.populated);
    side->servers = std::move(*servers);
    side->pids = ListenersOf(side->servers);
    if (!cluster.pids.empty()) side->pids = cluster.pids;
    if (side->pids.has_value() && !CpuSecondsOf(*side->pids).has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat(cluster.label,
                       ": the processor time of its processes cannot be read: are "
                       "the process ids right?"));
    }
    ClusterFacts facts;
    facts.label = cluster.label;
    facts.servers = cluster.servers;
    facts.native = cluster.native;
    facts.tls = cluster.tls;
    facts.members = side->servers.size();
    if (!cluster.native) facts.version = VersionOf(side->servers);
    facts.has_processes = side->pids.has_value();
    results_.clusters.push_back(std::move(facts));
    return absl::OkStatus();
  }

  absl::Status OpenIdleSessions(SideState* side) {
    const ClusterOptions& cluster = *side->options;
    if (cluster.idle_sessions == 0) return absl::OkStatus();
    now_ = absl::StrCat("opening idle sessions at ", cluster.label);
    side->idle = std::make_unique<IdleSessions>(cluster.idle_sessions, cluster.idle_watches,
                                                side->work.root, side->servers, &engine_);
    if (absl::Status s = side->idle->Open(); !s.ok()) {
      return absl::Status(s.code(), absl::StrCat(cluster.label, ": ", Text(s)));
    }
    return absl::OkStatus();
  }

  absl::Status RunWorkload(const std::string& name, WorkloadResult* result) {
    now_ = name;
    slice_ = nullptr;
    for (SideState& side : sides_) {
      if (side.options->native) {
        auto load = MakeNativeLoad(name, side.work, *side.options, &engine_);
        if (!load.ok()) return load.status();
        side.load = std::move(*load);
      } else {
        side.load = MakeWireLoad(name, side.work, side.servers, &engine_);
      }
      result->measurements.emplace_back(side.load->series());
    }
    for (size_t i = 0; i < sides_.size(); ++i) {
      sides_[i].measurement = &result->measurements[i];
      now_ = absl::StrCat(name, " at ", sides_[i].options->label, ": creating znodes and sessions");
      if (absl::Status s = sides_[i].load->Prepare(); !s.ok()) {
        return absl::Status(s.code(), absl::StrCat(sides_[i].options->label, ": ", Text(s)));
      }
    }
    if (name == "failover") return RunFailover();
    // The znodes that populate creates stay: a warm-up would create some of them without counting.
    if (name != "populate") {
      for (SideState& side : sides_) {
        now_ = absl::StrCat(name, " at ", side.options->label, ": warming up");
        if (absl::Status s = WarmUp(&side); !s.ok()) return s;
      }
    }
    return sides_.size() == 1 ? RunAlone(name) : RunInTurns(name);
  }

  absl::Status RunFailover() {
    for (int round = 0; round < options_.rounds; ++round) {
      for (SideState& side : sides_) {
        now_ = absl::StrFormat("failover at %s, round %d of %d", side.options->label, round + 1,
                               options_.rounds);
        absl::Status status =
            FailOver(*side.options, side.servers, &engine_, side.load.get(), side.measurement);
        if (!status.ok()) {
          return absl::Status(status.code(), absl::StrCat(side.options->label, ": ", Text(status)));
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status WarmUp(SideState* side) {
    Slice slice(side->measurement->series.size());
    side->load->Start(&slice);
    slice_ = nullptr;
    side->load->WorkUntil(NowNs() + ToNs(options_.warm_up_seconds));
    return side->load->Stop();
  }

  // Returns the number of slices for each cluster.
  size_t SliceCount() const {
    const double count = std::round(options_.seconds / options_.slice_seconds);
    return std::max<size_t>(1, static_cast<size_t>(count));
  }

  // Measures a single cluster, under load without a pause.
  absl::Status RunAlone(const std::string& name) {
    SideState& side = sides_.front();
    const bool has_end = name == "populate";
    std::unique_ptr<Slice> last;
    for (size_t i = 0; has_end ? !side.load->is_exhausted() : i < SliceCount(); ++i) {
      auto slice = std::make_unique<Slice>(side.measurement->series.size());
      SetNow(name, side, i);
      if (last == nullptr) {
        slice->begin_ns = NowNs() + (has_end ? 0 : Ramp());
        side.load->Start(slice.get());
        side.load->WorkUntil(slice->begin_ns);
      } else {
        slice->begin_ns = last->end_ns;
        slice->last_answer_ns = last->last_answer_ns;
        side.load->Next(slice.get());
        Add(*last, &side);
      }
      const CpuTimes before = Cpu(side);
      slice_ = slice.get();
      side.load->WorkUntil(slice->begin_ns + ToNs(options_.slice_seconds));
      EndSlice(before, side, slice.get());
      last = std::move(slice);
    }
    absl::Status status = side.load->Stop();
    slice_ = nullptr;
    if (last != nullptr) Add(*last, &side);
    return status;
  }

  // Measures two clusters in turns.
  absl::Status RunInTurns(const std::string& name) {
    const bool has_end = name == "populate";
    const auto is_over = [](const SideState& side) { return side.load->is_exhausted(); };
    // A multiple of four slices (SideOf).
    const size_t count = (SliceCount() + 1) / 2 * 4;
    const SideState* last = nullptr;
    for (size_t i = 0; has_end || i < count; ++i) {
      if (std::all_of(sides_.begin(), sides_.end(), is_over)) break;
      SideState& side = sides_[static_cast<size_t>(SideOf(i))];
      if (is_over(side)) continue;
      if (&side != last) WaitForDisks();
      last = &side;
      SetNow(name, side, i / 2);
      absl::Status status = TakeTurn(&side, has_end);
      slice_ = nullptr;
      if (!status.ok()) {
        return absl::Status(status.code(), absl::StrCat(side.options->label, ": ", Text(status)));
      }
    }
    return absl::OkStatus();
  }

  // Syncs all disks if any server is on this machine. Otherwise data that a server has written and
  // not synced would be written to the disk seconds later, and slow down the other cluster in its
  // slice.
  void WaitForDisks() {
    const auto is_here = [](const SideState& side) { return side.pids.has_value(); };
    if (std::none_of(sides_.begin(), sides_.end(), is_here)) return;
    now_ = "waiting until the data is on the disk";
    const std::future<void> written = std::async(std::launch::async, ::sync);
    // Runs the engine meanwhile, to keep the sessions alive.
    while (written.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      engine_.RunUntil(NowNs() + kNsInMs, [] { return false; });
    }
  }

  // Measures one slice that begins and ends without load. If `counts_all`, all operations in it
  // count.
  absl::Status TakeTurn(SideState* side, bool counts_all) {
    Slice slice(side->measurement->series.size());
    slice.begin_ns = NowNs() + (counts_all ? 0 : Ramp());
    side->load->Start(&slice);
    side->load->WorkUntil(slice.begin_ns);
    const CpuTimes before = Cpu(*side);
    slice_ = &slice;
    side->load->WorkUntil(slice.begin_ns + ToNs(options_.slice_seconds));
    if (!counts_all) EndSlice(before, *side, &slice);
    absl::Status status = side->load->Stop();
    if (counts_all) EndSlice(before, *side, &slice);
    Add(slice, side);
    return status;
  }

  int64_t Ramp() const { return std::min(kRampMaxNs, ToNs(options_.slice_seconds * kRampShare)); }

  struct CpuTimes {
    std::optional<double> servers;
    double tool = 0;
  };
  static CpuTimes Cpu(const SideState& side) { return {side.ServerCpuSeconds(), OwnCpuSeconds()}; }

  // Ends the slice; later answers do not count.
  static void EndSlice(const CpuTimes& before, const SideState& side, Slice* slice) {
    const CpuTimes after = Cpu(side);
    slice->end_ns = NowNs();
    slice->tool_cpu_seconds = after.tool - before.tool;
    if (before.servers.has_value() && after.servers.has_value()) {
      slice->server_cpu_seconds = *after.servers - *before.servers;
    }
    if (side.load->sees_pauses()) slice->RecordPause(slice->end_ns);
  }

  static void Add(const Slice& slice, SideState* side) {
    side->measurement->Add(slice, ToSeconds(slice.end_ns - slice.begin_ns));
  }

  void SetNow(const std::string& name, const SideState& side, size_t slice) {
    now_ = absl::StrFormat("%s at %s, slice %d", name, side.options->label, slice + 1);
    if (name != "populate") absl::StrAppend(&now_, " of ", SliceCount());
  }

  void Show() {
    if (!show_) return;
    const int64_t now_ns = NowNs();
    if (slice_ == nullptr || now_ns <= slice_->begin_ns || slice_->operations == 0) {
      return show_(now_);
    }
    const double seconds = ToSeconds(std::min(now_ns, slice_->end_ns) - slice_->begin_ns);
    show_(absl::StrFormat("%s: %.0f/s, p50 %.0f us", now_,
                          static_cast<double>(slice_->operations) / seconds,
                          static_cast<double>(slice_->latencies[0].PercentileNs(0.5)) / kNsInUs));
  }

  const Options& options_;
  const std::function<void(const std::string&)> show_;
  Engine engine_;
  std::vector<SideState> sides_;
  Results results_;
  std::string now_;               // the current step, for the progress line
  const Slice* slice_ = nullptr;  // the slice being measured
};

}  // namespace

absl::StatusOr<Results> Run(const Options& options, std::function<void(const std::string&)> show) {
  return Runner(options, std::move(show)).RunAll();
}

}  // namespace quorate::tools::bench
