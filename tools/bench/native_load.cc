// SPDX-License-Identifier: Apache-2.0

// The workloads write, read and mix over the gRPC front end. Each connection is a C++ client with
// its own thread.

#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/client.h"
#include "tools/bench/load.h"
#include "tools/bench/workload.h"

namespace quorate::tools::bench {
namespace {

constexpr size_t kSetUpDepth = 200;

// The state that all clients of a load share.
struct Shared {
  const Options& options;
  double read_share;
  std::atomic<bool> is_running{false};
};

TlsOptions TlsOf(const wire::TlsFiles& files) {
  TlsOptions options;
  options.enabled = true;
  options.ca_file = files.authorities;
  options.certificate_file = files.certificate;
  options.key_file = files.key.empty() ? files.certificate : files.key;
  return options;
}

// A client that keeps a number of calls outstanding.
class Session {
 public:
  Session(Shared* shared, size_t number) : shared_(*shared), random_(number + 1) {}

  absl::Status Connect(const std::string& server, bool has_tls) {
    ClientOptions options;
    options.servers = server;
    options.session_timeout_ms = shared_.options.session_timeout_ms;
    if (has_tls) options.tls = TlsOf(shared_.options.tls_files);
    absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(std::move(options));
    if (!client.ok()) return client.status();
    client_ = std::move(*client);
    return client_->Sync();
  }

  // Keeps calls outstanding until shared.is_running is false.
  void Start() {
    under_way_ = shared_.options.depth;
    for (size_t i = 0; i < shared_.options.depth; ++i) Issue();
  }
  // Records into a new slice with the times of `slice` from now on. Returns the slice that was
  // recorded before.
  std::optional<Slice> SwitchTo(const Slice& slice) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::optional<Slice> next(std::in_place, slice.latencies.size());
    next->begin_ns = slice.begin_ns;
    next->end_ns = slice.end_ns;
    slice_.swap(next);
    return next;
  }
  // Sets the end of the slice. Answers after `end_ns` do not count.
  void SetEnd(int64_t end_ns) {
    std::lock_guard<std::mutex> lock(mutex_);
    slice_->end_ns = end_ns;
  }
  size_t under_way() const { return under_way_; }
  Client& client() { return *client_; }

 private:
  void Issue() {
    constexpr uint32_t kParts = 1 << 20;
    const int64_t start_ns = NowNs();
    uint32_t part, key;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      part = static_cast<uint32_t>(random_() % kParts);
      key = static_cast<uint32_t>(random_() % shared_.options.keys);
    }
    const bool is_read = part < shared_.read_share * kParts;
    const std::string path = NumberedPath(shared_.options.root, 'k', key);
    const size_t series = is_read || shared_.read_share <= 0 ? 0 : 1;
    if (is_read) {
      client_->AsyncGet(path).Then([this, series, start_ns](absl::StatusOr<GetResult> result) {
        const bool is_right = !result.ok() || result->data.size() == shared_.options.data_bytes;
        Finish(series, start_ns, is_right ? result.status() : absl::DataLossError("wrong data"));
      });
    } else {
      std::string data(shared_.options.data_bytes, 'x');
      client_->AsyncSet(path, std::move(data))
          .Then([this, series, start_ns](absl::StatusOr<Stat> result) {
            Finish(series, start_ns, result.status());
          });
    }
  }
  void Finish(size_t series, int64_t start_ns, const absl::Status& status) {
    const int64_t now_ns = NowNs();
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (status.ok()) {
        slice_->Record(series, start_ns, now_ns);
        slice_->Count(now_ns);
      } else {
        const std::optional<ErrorCode> code = ErrorOf(status);
        ++slice_->errors[code.has_value() ? std::string(NameOf(*code))
                                          : std::string(status.message())];
      }
    }
    if (shared_.is_running && status.ok()) {
      Issue();
    } else {
      --under_way_;
    }
  }

  Shared& shared_;
  std::unique_ptr<Client> client_;
  std::mutex mutex_;
  std::minstd_rand random_;     // guarded by mutex_
  std::optional<Slice> slice_;  // guarded by mutex_
  std::atomic<size_t> under_way_{0};
};

class NativeLoad : public Load {
 public:
  NativeLoad(const Options& options, const ClusterOptions& cluster, double read_share,
             Engine* engine)
      : shared_{options, read_share}, cluster_(cluster), engine_(*engine) {}

  std::vector<std::string> series() const override {
    if (shared_.read_share <= 0) return {"setData"};
    if (shared_.read_share >= 1) return {"getData"};
    return {"getData", "setData"};
  }

  // Each session knows only its own pauses.
  bool sees_pauses() const override { return false; }

  absl::Status Prepare() override {
    const std::vector<std::string> servers =
        absl::StrSplit(cluster_.servers, ',', absl::SkipEmpty());
    for (size_t i = 0; i < shared_.options.connections; ++i) {
      sessions_.push_back(std::make_unique<Session>(&shared_, i));
      // Each client begins with a different server, as connections of the ZooKeeper protocol do.
      const std::string& server = servers[i % servers.size()];
      if (absl::Status s = sessions_.back()->Connect(server, cluster_.tls); !s.ok()) return s;
      if (i > 0) continue;
      if (absl::Status s = MakeKeys(&sessions_.front()->client()); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  void Start(Slice* slice) override {
    Next(slice);
    shared_.is_running = true;
    for (const auto& session : sessions_) session->Start();
  }
  void Next(Slice* slice) override {
    for (const auto& session : sessions_) Take(session->SwitchTo(*slice));
    slice_ = slice;
  }
  void WorkUntil(int64_t deadline_ns) override {
    // Keeps the other cluster's sessions alive meanwhile.
    engine_.RunUntil(deadline_ns, [] { return false; });
  }
  absl::Status Stop() override {
    shared_.is_running = false;
    for (const auto& session : sessions_) session->SetEnd(slice_->end_ns);
    const int64_t deadline_ns = NowNs() + kDrainTimeoutNs;
    while (UnderWay() > 0 && NowNs() < deadline_ns) {
      engine_.RunUntil(NowNs() + kNsInMs, [] { return false; });
    }
    if (UnderWay() > 0) {
      return absl::UnavailableError(
          absl::StrCat("calls were not answered within ", kDrainTimeoutNs / kNsInSecond, " s"));
    }
    for (const auto& session : sessions_) Take(session->SwitchTo(*slice_));
    slice_ = nullptr;
    return absl::OkStatus();
  }
  bool is_exhausted() const override { return false; }
  void Detach() override {
    shared_.is_running = false;
    slice_ = nullptr;
  }

  absl::Status Finish() override {
    if (!has_nodes_ || shared_.options.keep) return absl::OkStatus();
    // Deletes the znodes one by one, because a recursive delete is limited to a number of znodes.
    Client& client = sessions_.front()->client();
    std::deque<Call<uint32_t>> calls;
    for (uint32_t key = 0; key < shared_.options.keys; ++key) {
      calls.push_back(client.AsyncDelete(NumberedPath(shared_.options.root, 'k', key)));
      if (calls.size() < kSetUpDepth) continue;
      if (auto result = TakeFirst(&calls); !result.ok()) return result.status();
    }
    while (!calls.empty()) {
      if (auto result = TakeFirst(&calls); !result.ok()) return result.status();
    }
    return client.Delete(shared_.options.root).status();
  }

 private:
  template <class T>
  static absl::StatusOr<T> TakeFirst(std::deque<Call<T>>* calls) {
    absl::StatusOr<T> result = calls->front().Wait();
    calls->pop_front();
    return result;
  }

  absl::Status MakeKeys(Client* client) {
    CreateOptions with_parents;
    with_parents.create_parents = true;
    absl::Status status = client->Create(shared_.options.root, "", with_parents).status();
    if (!status.ok() && ErrorOf(status) != ErrorCode::kNodeExists) return status;
    has_nodes_ = true;
    std::deque<Call<CreateResult>> calls;
    for (uint32_t key = 0; key < shared_.options.keys; ++key) {
      calls.push_back(client->AsyncCreate(NumberedPath(shared_.options.root, 'k', key),
                                          std::string(shared_.options.data_bytes, 'x')));
      if (calls.size() < kSetUpDepth) continue;
      if (auto result = TakeFirst(&calls); !result.ok()) return result.status();
    }
    while (!calls.empty()) {
      if (auto result = TakeFirst(&calls); !result.ok()) return result.status();
    }
    return absl::OkStatus();
  }

  // Adds what a session has recorded to the common slice.
  void Take(const std::optional<Slice>& part) {
    if (slice_ == nullptr || !part.has_value()) return;
    slice_->operations += part->operations;
    for (size_t i = 0; i < part->latencies.size(); ++i) {
      slice_->latencies[i].Merge(part->latencies[i]);
    }
    for (const auto& [what, times] : part->errors) slice_->errors[what] += times;
  }

  size_t UnderWay() const {
    size_t count = 0;
    for (const auto& session : sessions_) count += session->under_way();
    return count;
  }

  Shared shared_;
  const ClusterOptions& cluster_;
  Engine& engine_;
  Slice* slice_ = nullptr;
  bool has_nodes_ = false;
  std::vector<std::unique_ptr<Session>> sessions_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Load>> MakeNativeLoad(const std::string& name,
                                                     const Options& options,
                                                     const ClusterOptions& cluster,
                                                     Engine* engine) {
  double read_share = 0;
  if (name == "read") {
    read_share = 1;
  } else if (name == "mix") {
    read_share = options.read_share < 0 ? 0.9 : options.read_share;
  } else if (name != "write") {
    return absl::UnimplementedError(
        absl::StrCat("the workload ", name,
                     " is not available over gRPC, only write, read and mix are: leave out "
                     "--native"));
  }
  return std::make_unique<NativeLoad>(options, cluster, read_share, engine);
}

}  // namespace quorate::tools::bench
