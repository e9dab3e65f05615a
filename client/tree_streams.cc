// SPDX-License-Identifier: Apache-2.0

#include "client/tree_streams.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "client/paths.h"
#include "client/presented_credentials.h"
#include "client/resuming_stream.h"
#include "client/translation.h"
#include "rpc/proto/credentials.h"
#include "rpc/proto/quorate/v1/tree.pb.h"
#include "rpc/proto/times.h"

namespace quorate {
namespace {

using internal::AddChroot;
using internal::FromProto;
using internal::StripChroot;

// A scan sends a page at least every 5 s, unless the server is overloaded.
constexpr std::chrono::milliseconds kScanSilenceMax{20'000};
// How many intervals a watch may be silent, and for how long in any case.
constexpr int kIntervalsMax = 4;
constexpr std::chrono::milliseconds kSilenceMin{5000};
constexpr std::chrono::milliseconds kIntervalMin{100};
constexpr std::chrono::milliseconds kIntervalMax{3'600'000};

// Where the streams of `options` lead to.
struct Target {
  std::vector<std::string> members;
  std::string chroot;
  internal::Access access;
  std::vector<std::string> credentials;  // values of the metadata
};

template <class Request>
absl::StatusOr<Target> MakeTarget(const TreeStreamOptions& options, std::string_view path,
                                  std::string_view prefix, Request* request) {
  if (absl::Status s = internal::CheckPath(path); !s.ok()) return s;
  if (!internal::IsUtf8(prefix)) return absl::InvalidArgumentError("the prefix is not UTF-8");
  if (options.patience_ms < 1) return absl::InvalidArgumentError("patience_ms must be positive");
  absl::StatusOr<internal::Servers> servers = internal::ParseServers(options.servers);
  if (!servers.ok()) return servers.status();
  internal::PresentedCredentials credentials;
  if (absl::Status s = internal::Present(options.credentials, &credentials); !s.ok()) return s;
  absl::StatusOr<internal::Access> access = internal::Access::Load(
      options.tls, {.token = options.token, .file = options.token_file}, servers->members);
  if (!access.ok()) return access.status();
  request->set_path(AddChroot(servers->chroot, path));
  request->set_prefix(std::string(prefix));
  return Target{std::move(servers->members), std::move(servers->chroot), *std::move(access),
                credentials.Texts()};
}

void Show(const std::vector<std::string>& credentials, grpc::ClientContext* context) {
  for (const std::string& text : credentials) context->AddMetadata(v1::kCredentialKey, text);
}

}  // namespace

// --- Scan ----------------------------------------------------------------------------------------

class Scan::Impl {
 public:
  Impl(v1::ScanRequest request, Target target, std::chrono::milliseconds patience)
      : request_(std::move(request)),
        chroot_(std::move(target.chroot)),
        credentials_(std::move(target.credentials)),
        stream_(std::move(target.members), std::move(target.access), kScanSilenceMax, patience,
                [this](v1::TreeService::Stub* stub, grpc::ClientContext* context,
                       grpc::CompletionQueue* queue) {
                  Show(credentials_, context);
                  return stub->PrepareAsyncScan(context, request_, queue);
                }) {}

  absl::StatusOr<std::optional<ScanPage>> Next() {
    if (is_complete_) return std::optional<ScanPage>();
    absl::StatusOr<v1::ScanResponse> response = stream_.Read();
    if (!response.ok()) return response.status();
    v1::ScanResponse& from = *response;
    is_complete_ = from.complete();
    request_.set_token(from.token());
    ScanPage page;
    page.zxid = from.zxid();
    page.token = std::move(*from.mutable_token());
    page.watch_after_zxid = from.watch_after_zxid();
    page.entries.reserve(static_cast<size_t>(from.entries_size()));
    for (v1::ScanEntry& entry : *from.mutable_entries()) {
      ScanEntry& to = page.entries.emplace_back();
      to.path = StripChroot(chroot_, entry.path());
      to.kind = static_cast<ZnodeKind>(entry.kind());
      if (entry.has_stat()) to.stat = FromProto(entry.stat());
      to.data = std::move(*entry.mutable_data());
      to.no_auth = entry.no_auth();
    }
    return std::optional<ScanPage>(std::move(page));
  }
  void Cancel() { stream_.Cancel(); }

 private:
  v1::ScanRequest request_;  // for the next call
  const std::string chroot_;
  const std::vector<std::string> credentials_;
  bool is_complete_ = false;
  internal::ResumingStream<v1::ScanResponse> stream_;
};

absl::StatusOr<std::unique_ptr<Scan>> Scan::Create(TreeStreamOptions options, std::string_view path,
                                                   ScanOptions scan) {
  v1::ScanRequest request;
  absl::StatusOr<Target> target = MakeTarget(options, path, scan.prefix, &request);
  if (!target.ok()) return target.status();
  if (scan.depth_max == 0u) {
    return absl::InvalidArgumentError("depth_max must be positive; nullopt: everything");
  }
  request.set_order(static_cast<v1::ScanOrder>(scan.order));
  for (const ZnodeKind kind : scan.kinds) request.add_kinds(static_cast<v1::ZnodeKind>(kind));
  if (scan.depth_max.has_value()) request.set_depth_max(*scan.depth_max);
  request.set_with_stats(scan.with_stats);
  request.set_with_data(scan.with_data);
  request.mutable_options()->set_linearizable(scan.linearizable);
  request.mutable_options()->set_min_zxid(scan.min_zxid);
  request.set_token(std::move(scan.token));
  return std::unique_ptr<Scan>(new Scan(std::make_unique<Impl>(
      std::move(request), *std::move(target), std::chrono::milliseconds(options.patience_ms))));
}

Scan::Scan(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Scan::~Scan() = default;
absl::StatusOr<std::optional<ScanPage>> Scan::Next() { return impl_->Next(); }
void Scan::Cancel() { impl_->Cancel(); }

// --- EventStream ---------------------------------------------------------------------------------

class EventStream::Impl {
 public:
  Impl(v1::WatchRequest request, Target target, std::chrono::milliseconds silence_max,
       std::chrono::milliseconds patience)
      : request_(std::move(request)),
        chroot_(std::move(target.chroot)),
        credentials_(std::move(target.credentials)),
        stream_(std::move(target.members), std::move(target.access), silence_max, patience,
                [this](v1::TreeService::Stub* stub, grpc::ClientContext* context,
                       grpc::CompletionQueue* queue) {
                  Rewind();
                  Show(credentials_, context);
                  return stub->PrepareAsyncWatch(context, request_, queue);
                }) {
    zxid_ = request_.after_zxid();
  }

  absl::StatusOr<EventBatch> Next() {
    absl::StatusOr<v1::WatchResponse> response = stream_.Read();
    if (!response.ok()) return response.status();
    EventBatch batch;
    for (v1::Event& event : *response->mutable_events()) {
      if (!IsNew(event.zxid())) continue;
      TreeEvent& to = batch.events.emplace_back();
      to.event.type = static_cast<EventType>(event.type());
      to.event.path = StripChroot(chroot_, event.path());
      to.event.zxid = event.zxid();
      if (event.has_value()) to.value = std::move(*event.mutable_value());
      if (event.has_previous_value()) {
        to.previous_value = std::move(*event.mutable_previous_value());
      }
      to.values_lost = event.values_lost();
    }
    if (response->zxid() != 0) {
      // A member may say again from where the stream goes on.
      zxid_ = std::max(zxid_, response->zxid());
      batch.zxid = zxid_;
    }
    return batch;
  }
  void Cancel() { stream_.Cancel(); }

 private:
  // Prepares the request of a stream that goes on behind what was returned. A member that the reader
  // keeps waiting does not send zxid_, so that the zxid before the last event may be much later; the
  // servers do not keep all events since zxid_.
  void Rewind() {
    request_.set_after_zxid(std::max({zxid_, event_zxid_ - 1, skip_zxid_ - 1}));
    // Events behind that zxid that were returned already come again.
    const std::pair<int64_t, size_t> returned(event_zxid_, event_count_);
    if (returned > std::pair(skip_zxid_, skip_)) std::tie(skip_zxid_, skip_) = returned;
    event_count_ = 0;
    event_zxid_ = 0;
  }

  // Counts an event, and returns whether it was not returned before the stream broke.
  bool IsNew(int64_t zxid) {
    if (zxid != event_zxid_) event_count_ = 0;
    event_zxid_ = zxid;
    ++event_count_;
    return zxid > skip_zxid_ || (zxid == skip_zxid_ && event_count_ > skip_);
  }

  v1::WatchRequest request_;  // for the next call
  const std::string chroot_;
  const std::vector<std::string> credentials_;
  // All events up to zxid_ were returned and, beyond that, all before event_zxid_ and the first
  // event_count_ of event_zxid_.
  int64_t zxid_ = 0;
  int64_t event_zxid_ = 0;
  size_t event_count_ = 0;
  // Events before skip_zxid_ and the first skip_ ones of it are not returned again.
  int64_t skip_zxid_ = 0;
  size_t skip_ = 0;
  internal::ResumingStream<v1::WatchResponse> stream_;
};

absl::StatusOr<std::unique_ptr<EventStream>> EventStream::Create(TreeStreamOptions options,
                                                                 std::string_view path,
                                                                 EventStreamOptions watch) {
  v1::WatchRequest request;
  absl::StatusOr<Target> target = MakeTarget(options, path, watch.prefix, &request);
  if (!target.ok()) return target.status();
  if (watch.progress_interval < kIntervalMin || watch.progress_interval > kIntervalMax) {
    return absl::InvalidArgumentError("progress_interval must be between 100 ms and one hour");
  }
  if (watch.after_zxid < 0) return absl::InvalidArgumentError("after_zxid must not be negative");
  request.set_scope(static_cast<v1::WatchScope>(watch.scope));
  request.set_after_zxid(watch.after_zxid);
  for (const EventType type : watch.types) request.add_types(static_cast<v1::EventType>(type));
  request.set_with_value(watch.with_value);
  request.set_with_previous_value(watch.with_previous_value);
  *request.mutable_progress_interval() = v1::DurationOfMs(watch.progress_interval.count());
  const std::chrono::milliseconds silence_max =
      std::max<std::chrono::milliseconds>(kIntervalsMax * watch.progress_interval, kSilenceMin);
  return std::unique_ptr<EventStream>(
      new EventStream(std::make_unique<Impl>(std::move(request), *std::move(target), silence_max,
                                             std::chrono::milliseconds(options.patience_ms))));
}

EventStream::EventStream(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
EventStream::~EventStream() = default;
absl::StatusOr<EventBatch> EventStream::Next() { return impl_->Next(); }
void EventStream::Cancel() { impl_->Cancel(); }

}  // namespace quorate
