// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/backup_sender.h"

#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/strings.h"
#include "base/thread.h"
#include "rpc/proto/errors.h"
#include "rpc/proto/times.h"

namespace quorate::rpc {
namespace {

constexpr size_t kBlockBytes = size_t{256} << 10;
constexpr size_t kKeyBytesMax = 64;
// The low priority of the thread: clients, elections and all other work come first.
constexpr int kThreadNice = 10;
// The time for which a client that resumes waits until this server detects that its stream broke.
constexpr auto kResumeTimeout = std::chrono::seconds(2);
constexpr auto kResumeRetry = std::chrono::milliseconds(50);

// Returns a status with an ErrorDetail. Errors of a checkpoint have no code of their own, and get
// SYSTEM_ERROR.
absl::Status WithDetail(const absl::Status& status) {
  if (v1::DetailOf(status).has_value()) return status;
  return v1::ToStatus(v1::ERROR_CODE_SYSTEM_ERROR, ToStd(status.message()));
}

// A stream that ends at once.
class Refusal : public grpc::ServerWriteReactor<v1::BackupResponse> {
 public:
  explicit Refusal(const absl::Status& why) { Finish(v1::ToGrpc(why)); }
  void OnDone() override { delete this; }
};

}  // namespace

// The members that are not const are either guarded by the sender's mutex or used only by its
// thread, as marked.
class BackupSender::Stream : public grpc::ServerWriteReactor<v1::BackupResponse> {
 public:
  Stream(BackupSender* owner, grpc::CallbackServerContext* call, const v1::BackupRequest& request,
         uint64_t rate)
      : sender(owner),
        context(call),
        resumes(request.has_resume()),
        resume_zxid(request.resume().zxid()),
        resume_key(request.resume().last_key()),
        bytes_per_second(rate) {}

  void OnWriteDone(bool ok) override {
    Change([&] {
      writing = false;
      if (!ok) cancelled = true;
    });
  }
  void OnCancel() override {
    Change([&] { cancelled = true; });
  }
  void OnDone() override {
    Change([&] { done = true; });
  }

  BackupSender* const sender;
  grpc::CallbackServerContext* const context;
  const bool resumes;
  const tree::Zxid resume_zxid;
  const std::string resume_key;
  const uint64_t bytes_per_second;

  // Guarded by the sender's mutex.
  bool waiting = false;    // waits for the checkpoint; until then the stream must live
  bool writing = false;    // a message is being sent
  bool cancelled = false;  // the client cancelled, or the stream broke
  bool finishing = false;  // Finish was called
  bool done = false;       // OnDone was called: gRPC no longer uses the stream

  // Used only by the sender's thread.
  Time write_began;
  Time allowed_at;
  Time resume_until;
  bool stalled = false;
  std::optional<CheckpointView> checkpoint;
  bool begun = false;  // the first message was sent
  bool more = true;
  uint64_t records = 0;
  v1::BackupResponse response;  // the message being sent

 private:
  template <typename Function>
  void Change(Function function) {
    MutexLock lock(&sender->mutex_);
    function();
    sender->woken_ = true;
    sender->changed_.NotifyOne();
  }
};

BackupSender::BackupSender(Administration* administration, const Clock* clock, Options options)
    : administration_(administration), clock_(clock), options_(options) {}

BackupSender::~BackupSender() { ASSERT(!thread_.joinable(), "Stop was called"); }

void BackupSender::Start() {
  thread_ = StartThread("backup", [this] { Run(); });
}

void BackupSender::Stop() {
  if (!thread_.joinable()) return;
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    woken_ = true;
    changed_.NotifyOne();
  }
  thread_.join();
  MutexLock lock(&mutex_);
  streams_.clear();
}

grpc::ServerWriteReactor<v1::BackupResponse>* BackupSender::Refuse(const absl::Status& why) {
  return new Refusal(why);
}

grpc::ServerWriteReactor<v1::BackupResponse>* BackupSender::Open(
    grpc::CallbackServerContext* context, const v1::BackupRequest& request) {
  if (request.resume().last_key().size() > kKeyBytesMax) {
    return Refuse(
        v1::ToStatus(v1::ERROR_CODE_BAD_ARGUMENTS,
                     "resume.last_key is not a key; send the last one that was received"));
  }
  const uint64_t wanted = request.bytes_per_second_max();
  const uint64_t rate =
      wanted == 0 ? options_.bytes_per_second : std::min(wanted, options_.bytes_per_second);
  auto stream = std::make_shared<Stream>(this, context, request, rate);
  stream->waiting = !stream->resumes;
  stream->resume_until = clock_->Now() + kResumeTimeout;
  {
    MutexLock lock(&mutex_);
    if (streams_.size() >= options_.streams_max) {
      return Refuse(v1::ToStatus(v1::ERROR_CODE_TOO_MANY_STREAMS,
                                 absl::StrCat("this member is sending ", streams_.size(),
                                              " backups already; try another one, or later")));
    }
    streams_.push_back(stream);
  }
  Wake();
  if (stream->resumes) return stream.get();
  // When the barrier is done, everything acknowledged before the call is applied here. Then the
  // requested checkpoint includes it.
  administration_->Barrier([this, stream](tree::Zxid zxid) {
    administration_->RequestCheckpoint(zxid, [this, stream] { OnCheckpoint(stream.get()); });
  });
  return stream.get();
}

void BackupSender::OnCheckpoint(Stream* stream) {
  {
    MutexLock lock(&mutex_);
    stream->waiting = false;
  }
  Wake();
}

void BackupSender::Wake() {
  MutexLock lock(&mutex_);
  woken_ = true;
  changed_.NotifyOne();
}

// --- The thread ----------------------------------------------------------------------------------

void BackupSender::Run() {
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kThreadNice);
  while (true) {
    std::vector<std::pair<std::shared_ptr<Stream>, Step>> steps;
    {
      MutexLock lock(&mutex_);
      if (stopping_) break;
      woken_ = false;
      const Time now = clock_->Now();
      Time wake = Time::max();
      RemoveEnded(now);
      for (const Kept& kept : kept_) wake = std::min(wake, kept.until);
      for (const auto& stream : streams_) {
        const Step step = NextStep(stream.get(), now, &wake);
        if (step != Step::kNone) steps.emplace_back(stream, step);
      }
      if (steps.empty()) {
        // Waits by the real clock, even if clock_ is another clock.
        const bool waits_for_time = wake != Time::max();
        const auto deadline =
            waits_for_time ? std::chrono::steady_clock::now() + (wake - now) : Time::max();
        while (!woken_) {
          if (!waits_for_time) {
            changed_.Wait(&mutex_);
          } else if (!changed_.WaitUntil(&mutex_, deadline)) {
            break;
          }
        }
      }
    }
    for (const auto& [stream, step] : steps) {
      if (step == Step::kFinish) {
        Finish(stream.get(), absl::CancelledError("the stream broke"));
      } else {
        Send(stream.get());
      }
    }
  }
  kept_.clear();
}

void BackupSender::RemoveEnded(Time now) {
  std::erase_if(streams_, [](const auto& stream) { return stream->done && !stream->waiting; });
  std::erase_if(kept_, [now](const Kept& kept) { return kept.until <= now; });
}

BackupSender::Step BackupSender::NextStep(Stream* stream, Time now, Time* wake) {
  if (stream->finishing || stream->done) return Step::kNone;
  if (stream->cancelled) return Step::kFinish;
  if (stream->waiting) return Step::kNone;
  if (stream->writing) {
    const Time stalls_at = stream->write_began + options_.stall_timeout;
    if (now < stalls_at) {
      *wake = std::min(*wake, stalls_at);
    } else if (!std::exchange(stream->stalled, true)) {
      // Uses TryCancel, because a status would wait behind the message that the client does not
      // read.
      stream->context->TryCancel();
    }
    return Step::kNone;
  }
  const Time allowed_at = std::max(allowed_at_, stream->allowed_at);
  if (now >= allowed_at) return Step::kSend;
  *wake = std::min(*wake, allowed_at);
  return Step::kNone;
}

void BackupSender::Send(Stream* stream) {
  v1::BackupResponse& response = stream->response;
  response.Clear();
  if (!stream->begun) {
    const auto found = FindCheckpoint(stream);
    if (!found.ok()) return Finish(stream, WithDetail(found.status()));
    if (!*found) {
      stream->allowed_at = clock_->Now() + kResumeRetry;
      return;
    }
    stream->begun = true;
    const consensus::SnapshotMeta& meta = stream->checkpoint->meta;
    v1::BackupBegin* begin = response.mutable_begin();
    begin->set_zxid(stream->checkpoint->records->metadata().zxid.value());
    begin->set_term(meta.term.value());
    begin->set_digest(stream->checkpoint->records->metadata().digest);
    begin->set_cluster_id(meta.cluster_id);
    for (consensus::MemberId id : meta.membership.voters) begin->add_voters(id.value());
    for (consensus::MemberId id : meta.membership.learners) begin->add_observers(id.value());
    *begin->mutable_begin_time() = v1::TimestampOfMs(clock_->WallMs());
  } else if (stream->more) {
    const absl::Status filled = FillBlock(stream, &response);
    if (!filled.ok()) return Finish(stream, WithDetail(filled));
  } else {
    response.mutable_end()->set_records(stream->records);
    spdlog::info("the backup of zxid 0x{:x} was sent",
                 stream->checkpoint->records->metadata().zxid.value());
    // StartWriteAndFinish sends the status too: no further step follows.
    {
      MutexLock lock(&mutex_);
      stream->finishing = true;
    }
    stream->checkpoint.reset();
    stream->StartWriteAndFinish(&response, grpc::WriteOptions(), grpc::Status::OK);
    return;
  }
  stream->write_began = clock_->Now();
  {
    MutexLock lock(&mutex_);
    stream->writing = true;
  }
  stream->StartWrite(&response);
}

absl::StatusOr<bool> BackupSender::FindCheckpoint(Stream* stream) {
  if (!stream->resumes) {
    auto opened = administration_->OpenCheckpoint();
    if (!opened.ok()) return opened.status();
    stream->checkpoint = *std::move(opened);
    spdlog::info("sending a backup of zxid 0x{:x} to {}",
                 stream->checkpoint->records->metadata().zxid.value(), stream->context->peer());
    return true;
  }
  stream->checkpoint = TakeKept(stream->resume_zxid);
  if (!stream->checkpoint.has_value()) {
    auto opened = administration_->OpenCheckpoint();
    if (opened.ok() && opened->records->metadata().zxid == stream->resume_zxid) {
      stream->checkpoint = *std::move(opened);
    }
  }
  if (!stream->checkpoint.has_value()) {
    // This server may not have detected yet that the stream broke.
    if (clock_->Now() < stream->resume_until) return false;
    return v1::ToStatus(
        v1::ERROR_CODE_NO_BACKUP,
        absl::StrCat("this member does not have the backup of zxid 0x",
                     absl::Hex(stream->resume_zxid.value()), " any more; start the backup again"));
  }
  if (absl::Status s = stream->checkpoint->records->SeekBehind(stream->resume_key); !s.ok())
    return s;
  spdlog::info("resuming the backup of zxid 0x{:x}", stream->resume_zxid.value());
  return true;
}

std::optional<CheckpointView> BackupSender::TakeKept(tree::Zxid zxid) {
  for (auto it = kept_.begin(); it != kept_.end(); ++it) {
    if (it->checkpoint.records->metadata().zxid != zxid) continue;
    CheckpointView checkpoint = std::move(it->checkpoint);
    kept_.erase(it);
    return checkpoint;
  }
  return std::nullopt;
}

absl::Status BackupSender::FillBlock(Stream* stream, v1::BackupResponse* response) {
  std::string* bytes = response->mutable_records()->mutable_records();
  LittleEndianWriter writer(bytes);
  auto more = stream->checkpoint->records->Next(kBlockBytes,
                                                [&](std::string_view key, std::string_view value) {
                                                  writer.Int(static_cast<uint32_t>(key.size()));
                                                  writer.Int(static_cast<uint32_t>(value.size()));
                                                  writer.Raw(key);
                                                  writer.Raw(value);
                                                  ++stream->records;
                                                  return absl::OkStatus();
                                                });
  if (!more.ok()) return more.status();
  stream->more = *more;
  response->mutable_records()->set_crc32c(Crc32c(*bytes));
  const Time now = clock_->Now();
  const auto pause = [&](uint64_t rate) {
    return std::chrono::nanoseconds(bytes->size() * 1'000'000'000 / rate);
  };
  allowed_at_ = std::max(allowed_at_, now) + pause(options_.bytes_per_second);
  stream->allowed_at = std::max(stream->allowed_at, now) + pause(stream->bytes_per_second);
  return absl::OkStatus();
}

void BackupSender::Finish(Stream* stream, const absl::Status& status) {
  if (stream->checkpoint.has_value() && absl::IsCancelled(status)) {
    spdlog::info("the stream of the backup of zxid 0x{:x} broke",
                 stream->checkpoint->records->metadata().zxid.value());
    if (kept_.size() >= options_.kept_max) kept_.pop_back();
    kept_.push_front({*std::move(stream->checkpoint), clock_->Now() + options_.keep_time});
  } else if (!status.ok() && !absl::IsCancelled(status)) {
    spdlog::warn("a backup could not be sent: {}", ToStd(status.message()));
  }
  stream->checkpoint.reset();
  {
    MutexLock lock(&mutex_);
    stream->finishing = true;
  }
  stream->grpc::ServerWriteReactor<v1::BackupResponse>::Finish(v1::ToGrpc(status));
}

}  // namespace quorate::rpc
