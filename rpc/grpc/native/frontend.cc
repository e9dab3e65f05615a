#include "rpc/grpc/native/frontend.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "rpc/frontend/frontends.h"
#include "rpc/frontend/session_ids.h"
#include "rpc/grpc/native/stream_loop.h"
#include "rpc/proto/errors.h"

namespace quorate::rpc::native {
namespace {

// The approximate bytes that a watch takes here and in its stream, besides its path.
constexpr size_t kWatchBytes = 250;

}  // namespace

NativeFrontend::NativeFrontend(const Config& config, Service* service, const Clock* clock,
                               RandomBytes* random)
    : config_(config),
      members_text_(config.MembersText()),
      service_(service),
      clock_(clock),
      random_(random),
      history_(static_cast<size_t>(config.event_history_bytes)) {}

size_t NativeFrontend::AddLoop(StreamLoop* loop) {
  ASSERT(next_tag_.load() == 1, "tags tell the loops apart by their number");
  loops_.push_back(loop);
  return loops_.size() - 1;
}

StreamLoop& NativeFrontend::LoopOf(uint32_t tag) {
  return *loops_[(tag - kNativeTags.first) % loops_.size()];
}

uint32_t NativeFrontend::TagOfLoop(size_t loop) const {
  return kNativeTags.first + static_cast<uint32_t>(loop);
}

uint32_t NativeFrontend::NewTag(size_t loop) {
  const auto loops = static_cast<uint32_t>(loops_.size());
  const uint32_t of_loop_max = kNativeTags.count / loops - 1;
  return TagOfLoop(loop) + (1 + next_tag_.fetch_add(1) % of_loop_max) * loops;
}

tree::SessionId NativeFrontend::NewSessionId() {
  return DrawSessionId(service_->proposer().member, random_);
}

// --- What was applied ----------------------------------------------------------------------------

bool NativeFrontend::AllowsInlineApply() const {
  if (!watches_mutex_.TryLock()) return false;
  const bool allows_inline = watch_totals_.count <= kInlineWatchesMax;
  watches_mutex_.Unlock();
  return allows_inline;
}

void NativeFrontend::OnNodeEvent(tree::EventType type, std::string_view path, tree::Zxid zxid,
                                 const tree::EventAcls& acls) {
  listings_.OnNodeEvent(type, path);
  const uint64_t number = history_.next_number();
  const Readers readers = ReadersOf(acls.node);
  const Readers parent_readers =
      type == tree::EventType::kNodeDataChanged ? nullptr : ReadersOf(acls.parent);
  history_.Add(type, path, zxid, readers, parent_readers);
  MutexLock lock(&watches_mutex_);
  if (watches_.empty()) return;
  watchers_.clear();
  watches_.Find(path, &watchers_);
  if (watchers_.empty()) return;
  const auto event =
      std::make_shared<const Event>(Event{type, std::string(path), zxid, readers, parent_readers});
  for (uint64_t watcher : watchers_) {
    const auto tag = static_cast<uint32_t>(watcher);
    LoopOf(tag).Push(StreamLoop::EventItem{tag, number, event});
  }
}

void NativeFrontend::OnSessionAttached(const tree::SessionInfo& session) {
  const std::optional<uint32_t> tag = sessions_.Take(session.id);
  if (tag.has_value()) LoopOf(*tag).Push(StreamLoop::SessionAttached{*tag, session.attach_zxid});
}

void NativeFrontend::OnSessionClosed(tree::SessionId session, tree::Zxid) {
  const std::optional<uint32_t> tag = sessions_.Take(session);
  if (tag.has_value()) LoopOf(*tag).Push(StreamLoop::SessionClosed{*tag});
}

void NativeFrontend::OnResult(tree::ApplyResult result) {
  const uint32_t tag = result.header.proposer_tag;
  const tree::CommandKind kind = result.header.kind;
  if ((kind == tree::CommandKind::kCreateSession || kind == tree::CommandKind::kAttachSession) &&
      result.error == tree::ErrorCode::kOk) {
    sessions_.Set(result.header.session, tag);
  }
  LoopOf(tag).Push(std::move(result));
}

void NativeFrontend::OnTreeReplaced(const tree::Tree& tree) {
  history_.Clear(tree.last_zxid());
  for (StreamLoop* loop : loops_) loop->Push(StreamLoop::TreeReplaced{});
}

std::shared_ptr<const RecentEvents> NativeFrontend::TakeRecentEvents() const {
  return history_.Take();
}

void NativeFrontend::OnRecentEvents(std::span<const std::string> parts, tree::Zxid zxid) {
  const absl::Status restored = history_.Restore(parts, zxid);
  if (restored.ok()) return;
  spdlog::warn(
      "watches of gRPC clients cannot resume from before the checkpoint: {}; their clients learn "
      "that events were lost, and read again; nothing has to be done here",
      std::string(restored.message()));
}

std::vector<int64_t> NativeFrontend::HeldUpSessions() {
  return sessions_.OfStalledLoops(loops_, clock_->Now(),
                                  [this](uint32_t tag) { return &LoopOf(tag); });
}

WatchTotals NativeFrontend::watch_totals() const {
  MutexLock lock(&watches_mutex_);
  return watch_totals_;
}

void NativeFrontend::OnBatchApplied() {
  for (StreamLoop* loop : loops_) loop->Wake();
}

void NativeFrontend::OnSyncDone(uint32_t proposer_tag, uint64_t sync_id, tree::Zxid) {
  StreamLoop& loop = LoopOf(proposer_tag);
  loop.Push(StreamLoop::BarrierDone{sync_id});
  loop.Wake();
}

// --- Streams -------------------------------------------------------------------------------------

absl::Status NativeFrontend::Admit(const std::string& address) {
  const int streams = streams_.fetch_add(1);
  const int max = config_.max_connections;
  if (max > 0 && streams >= max) {
    streams_.fetch_sub(1);
    return ToStatus(v1::TOO_MANY_STREAMS, absl::StrCat(max, " streams are open (maxCnxns)"));
  }
  if (!addresses_.Add(address, config_.max_client_connections)) {
    streams_.fetch_sub(1);
    return ToStatus(v1::TOO_MANY_STREAMS,
                    absl::StrCat(address, " has ", config_.max_client_connections,
                                 " streams already (maxClientCnxns)"));
  }
  return absl::OkStatus();
}

void NativeFrontend::Release(const std::string& address) {
  addresses_.Remove(address);
  streams_.fetch_sub(1);
}

void NativeFrontend::ForgetSession(tree::SessionId session, uint32_t tag) {
  sessions_.Forget(session, tag);
}

void NativeFrontend::AddWatch(uint32_t tag, std::string_view path, Scope scope) {
  MutexLock lock(&watches_mutex_);
  watches_.Add(tag, path, scope);
  ++watch_totals_.count;
  watch_totals_.bytes += kWatchBytes + path.size();
}

void NativeFrontend::RemoveWatch(uint32_t tag, std::string_view path, Scope scope) {
  MutexLock lock(&watches_mutex_);
  watches_.Remove(tag, path, scope);
  ASSERT(watch_totals_.count > 0, "each is removed once");
  --watch_totals_.count;
  watch_totals_.bytes -= kWatchBytes + path.size();
}

}  // namespace quorate::rpc::native
