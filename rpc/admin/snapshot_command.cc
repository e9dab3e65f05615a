// SPDX-License-Identifier: Apache-2.0

#include "rpc/admin/snapshot_command.h"

#include <spdlog/spdlog.h>

#include <atomic>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/strings.h"
#include "rpc/admin/commands.h"
#include "rpc/zookeeper_files/tree_snapshot.h"

namespace quorate::rpc::admin {
namespace {

using zookeeper_files::SnapshotBuilder;
using zookeeper_files::SnapshotContents;
using zookeeper_files::SnapshotScan;

// The bytes of records that are read at once for the size.
constexpr size_t kReadBytes = 256u << 10;
// The bytes from which on a piece is whole. It ends with a whole znode, so it may be longer by one.
constexpr size_t kPieceBytes = 256u << 10;
constexpr std::string_view kSnapshot = "snapshot";

HttpResponse Refuse(unsigned status, std::string_view error) {
  return Commands::Refuse(status, kSnapshot, error);
}

}  // namespace

struct SnapshotCommand::Shared {
  // Ends the wait. Called on the node thread.
  void OnCheckpoint(uint64_t wait) {
    MutexLock lock(&mutex);
    if (wait == waits) is_durable = true;
    changed.NotifyAll();
  }

  Mutex mutex;
  ConditionVariable changed;
  bool is_running ABSL_GUARDED_BY(mutex) = false;
  std::optional<std::chrono::steady_clock::time_point> last_begin ABSL_GUARDED_BY(mutex);
  uint64_t waits ABSL_GUARDED_BY(mutex) = 0;  // the number of the wait that is under way
  bool is_durable ABSL_GUARDED_BY(mutex) = false;
  std::atomic<bool> is_closed = false;
};

// A snapshot while it is sent. It has the right to run until it is destroyed.
class SnapshotCommand::Stream final : public HttpStream {
 public:
  Stream(std::shared_ptr<Shared> shared, std::chrono::steady_clock::time_point began)
      : shared_(std::move(shared)), began_(began) {}
  ~Stream() override {
    MutexLock lock(&shared_->mutex);
    shared_->is_running = false;
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Reads all records once. An error is that of the checkpoint.
  absl::Status Open(Administration* administration) {
    auto checkpoint = administration->OpenCheckpoint();
    if (!checkpoint.ok()) return checkpoint.status();
    records_ = std::move(checkpoint->records);
    if (absl::Status s = zookeeper_files::CheckLastZxid(zxid()); !s.ok()) return s;
    SnapshotScan scan;
    for (bool more = true; more;) {
      const auto read = Read(kReadBytes, [&scan](std::string_view key, std::string_view value) {
        return scan.Add(key, value);
      });
      if (!read.ok()) return read.status();
      more = *read;
    }
    contents_ = scan.Finish();
    builder_.emplace(contents_, zxid(), [this](std::string_view bytes) {
      *piece_ += bytes;
      return absl::OkStatus();
    });
    return records_->SeekBehind("");
  }
  tree::Zxid zxid() const { return records_->metadata().zxid; }

  // Only a snapshot that a client has received completely delays the next one.
  void OnSent() override {
    MutexLock lock(&shared_->mutex);
    shared_->last_begin = began_;
  }
  uint64_t size() const override { return contents_.bytes; }
  absl::Status Next(std::string* piece) override {
    piece_ = piece;
    absl::Status status = Fill();
    piece_ = nullptr;
    if (!status.ok()) {
      spdlog::warn("a snapshot for ZooKeeper could not be sent: {}", ToStd(status.message()));
    }
    return status;
  }

 private:
  template <class Function>
  absl::StatusOr<bool> Read(size_t bytes_max, Function function) {
    if (shared_->is_closed) return absl::UnavailableError("the server is stopping");
    return records_->Next(bytes_max, function);
  }

  // Appends to the piece until it is whole. One record is read at a time, as the path of a znode may be
  // far longer than its record.
  absl::Status Fill() {
    if (!has_begun_) {
      has_begun_ = true;
      if (absl::Status s = builder_->Begin(); !s.ok()) return s;
    }
    while (piece_->size() < kPieceBytes) {
      if (!has_more_) return builder_->End();
      const auto read = Read(/*bytes_max=*/1, [this](std::string_view key, std::string_view value) {
        return builder_->Add(key, value);
      });
      if (!read.ok()) return read.status();
      has_more_ = *read;
    }
    return absl::OkStatus();
  }

  const std::shared_ptr<Shared> shared_;
  const std::chrono::steady_clock::time_point began_;
  std::unique_ptr<tree::RecordStore::View> records_;
  SnapshotContents contents_;
  std::string* piece_ = nullptr;  // to which the builder appends
  std::optional<SnapshotBuilder> builder_;
  bool has_begun_ = false;
  bool has_more_ = true;
};

SnapshotCommand::SnapshotCommand(const Config& config, Administration* administration,
                                 const Clock* clock)
    : config_(config),
      administration_(administration),
      clock_(clock),
      shared_(std::make_shared<Shared>()) {}

std::optional<HttpResponse> SnapshotCommand::Begin() {
  if (!config_.admin_snapshot) {
    return Refuse(503, "the command snapshot is switched off; set admin.snapshot.enabled=true");
  }
  MutexLock lock(&shared_->mutex);
  if (shared_->is_running) {
    HttpResponse response = Refuse(429, "another snapshot is being sent; try again later");
    // Nobody knows how fast its client is.
    response.headers.emplace_back("Retry-After", "60");
    return response;
  }
  const auto now = clock_->Now();
  const std::chrono::milliseconds interval(config_.admin_snapshot_interval_ms);
  if (shared_->last_begin.has_value() && now - *shared_->last_begin < interval) {
    const auto left =
        std::chrono::ceil<std::chrono::seconds>(*shared_->last_begin + interval - now);
    HttpResponse response =
        Refuse(429, absl::StrCat("the last snapshot was taken too recently; try again in ",
                                 left.count(), " s, or lower admin.rateLimiterIntervalInMS"));
    response.headers.emplace_back("Retry-After", absl::StrCat(left.count()));
    return response;
  }
  shared_->is_running = true;
  return std::nullopt;
}

HttpResponse SnapshotCommand::Run(const RequestTarget& target) {
  const std::string_view streaming = target.Find("streaming").value_or("true");
  if (streaming != "true" && streaming != "false") {
    return Refuse(400, "?streaming= has to be true or false");
  }
  if (std::optional<HttpResponse> refusal = Begin()) return *std::move(refusal);
  const auto stream = std::make_shared<Stream>(shared_, clock_->Now());
  if (absl::Status s = AwaitCheckpoint(); !s.ok()) return Refuse(503, ToStd(s.message()));
  if (absl::Status s = stream->Open(administration_); !s.ok()) {
    return Refuse(500, ToStd(s.message()));
  }
  HttpResponse response;
  if (streaming == "true") {
    spdlog::info("sending a snapshot for ZooKeeper of zxid 0x{:x}, bytes={}",
                 stream->zxid().value(), stream->size());
    response.content_type = "application/octet-stream";
    response.headers.emplace_back(
        "Content-Disposition",
        absl::StrFormat("attachment; filename=\"snapshot.%x\"", stream->zxid().value()));
    response.stream = stream;
  } else {
    stream->OnSent();
    response = Commands::Succeed(kSnapshot, Json::object());
  }
  response.headers.emplace_back("last_zxid", absl::StrFormat("0x%x", stream->zxid().value()));
  response.headers.emplace_back("snapshot_size", absl::StrCat(stream->size()));
  return response;
}

absl::Status SnapshotCommand::AwaitCheckpoint() {
  uint64_t number = 0;
  {
    MutexLock lock(&shared_->mutex);
    number = ++shared_->waits;
    shared_->is_durable = false;
  }
  administration_->Barrier(
      [administration = administration_, shared = shared_, number](tree::Zxid zxid) {
        administration->RequestCheckpoint(zxid, [shared, number] { shared->OnCheckpoint(number); });
      });
  const auto deadline = std::chrono::steady_clock::now() + kWait;
  MutexLock lock(&shared_->mutex);
  while (!shared_->is_durable && !shared_->is_closed) {
    if (!shared_->changed.WaitUntil(&shared_->mutex, deadline)) break;
  }
  if (shared_->is_closed) return absl::UnavailableError("the server is stopping");
  if (shared_->is_durable) return absl::OkStatus();
  return absl::DeadlineExceededError(
      "no checkpoint was confirmed in time: the cluster has no quorum, or this server's disk is "
      "slow; ask another member, or try again");
}

void SnapshotCommand::Close() {
  MutexLock lock(&shared_->mutex);
  shared_->is_closed = true;
  shared_->changed.NotifyAll();
}

HttpResponse SnapshotCommand::RefuseRestore() {
  return Commands::Refuse(
      501, "restore",
      "the tree follows from the log of the cluster, so it is not replaced on one server: stop the "
      "members, and create their data with `quorate import --zookeeper-data` from a snapshot of "
      "ZooKeeper, or with `quorate restore` from a backup; or write single znodes to the running "
      "cluster as a client");
}

}  // namespace quorate::rpc::admin
