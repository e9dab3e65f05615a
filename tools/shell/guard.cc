// SPDX-License-Identifier: Apache-2.0

#include "tools/shell/guard.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/escape.h"

namespace quorate::tools::shell {
namespace {

// How long to wait for members when a turn ends. Whatever is not done by then is done by the end of
// the session.
constexpr int kReleaseMs = 3'000;
// The timeout of one attempt to connect, during which signals have to wait.
constexpr int kConnectMs = 2'000;

using std::chrono::milliseconds;

// Returns the name of this process for other candidates.
std::string OwnId() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) return absl::StrCat("process ", getpid());
  return absl::StrCat(host.data(), " process ", getpid());
}

}  // namespace

Guard::Guard(GuardOptions options) : options_(std::move(options)) {}

Guard::~Guard() {
  child_.reset();  // ends the command before others can have the turn
  GiveUp();
}

absl::StatusOr<int> Guard::Run() {
  if (options_.wait_ms > 0) give_up_at_ = Clock::now() + milliseconds(options_.wait_ms);
  if (absl::Status s = BeginFirst(); !s.ok()) return s;
  while (!outcome_.has_value()) {
    std::array<pollfd, 2> files = {{{signals_.file(), POLLIN, 0}, {mailbox_.file(), POLLIN, 0}}};
    if (poll(files.data(), files.size(), WaitMs()) < 0 && errno != EINTR) {
      return absl::InternalError(absl::StrCat("poll: ", std::strerror(errno)));
    }
    TakeSignals();
    while (const std::optional<Item> item = mailbox_.Take()) {
      if (item->session == session_) Handle(item->event);
    }
    CheckTimes();
    if (is_session_over_ && !child_.has_value() && !outcome_.has_value()) BeginAgain();
  }
  GiveUp();
  return *outcome_;
}

absl::Status Guard::BeginFirst() {
  Time until = Clock::now() + milliseconds(options_.session_timeout_ms);
  if (options_.wait_ms == 0) until = Clock::now();
  if (give_up_at_.has_value()) until = std::min(until, *give_up_at_);
  while (true) {
    const absl::Status status = Begin();
    if (status.ok() || !absl::IsDeadlineExceeded(status) || Clock::now() >= until) return status;
    GiveUp();
    TakeSignals();
    if (outcome_.has_value()) return absl::OkStatus();
  }
}

absl::Status Guard::Begin() {
  const uint64_t session = ++session_;
  is_session_over_ = false;
  ClientOptions options;
  options.servers = options_.servers;
  options.tls = options_.tls;
  options.session_timeout_ms = options_.session_timeout_ms;
  options.connect_timeout_ms = kConnectMs;
  options.on_session_loss = SessionLoss::kStop;
  auto client = Client::Connect(std::move(options));
  if (!client.ok()) return client.status();
  client_ = *std::move(client);
  sixth_ms_ = client_->session_timeout_ms() / 6;
  election_ = std::make_unique<Election>(
      client_.get(), options_.path,
      ElectionOptions{.id = OwnId(), .listener = [this, session](const ElectionEvent& event) {
                        mailbox_.Put({session, event});
                      }});
  return election_->Start();
}

void Guard::BeginAgain() {
  GiveUp();
  while (!outcome_.has_value()) {
    const absl::Status status = Begin();
    if (status.ok()) return;
    Say(absl::StrCat("no session: ", std::string(status.message())));
    GiveUp();
    pollfd file = {signals_.file(), POLLIN, 0};
    poll(&file, 1, static_cast<int>(options_.restart_after_ms));
    TakeSignals();
  }
}

void Guard::GiveUp() {
  has_turn_ = false;
  if (election_ != nullptr) static_cast<void>(election_->Stop(kReleaseMs));
  election_.reset();
  if (client_ != nullptr) static_cast<void>(client_->Close({.deadline_ms = kReleaseMs}));
  client_.reset();
}

void Guard::Handle(const ElectionEvent& event) {
  switch (event.state) {
    case ElectionState::kElected:
      has_turn_ = true;
      fencing_token_ = event.fencing_token;
      give_up_at_.reset();
      // The connection was lost only for a moment, and no other process had the turn.
      if (child_.has_value() && !kill_at_.has_value()) terminate_at_.reset();
      if (!child_.has_value()) {
        start_at_ = has_run_ ? started_at_ + milliseconds(options_.restart_after_ms) : Clock::now();
      }
      break;
    case ElectionState::kReady:
      if (options_.wait_ms == 0 && !has_run_) outcome_ = NotInTime();
      break;
    case ElectionState::kSuspended:
      has_turn_ = false;
      start_at_.reset();
      if (child_.has_value() && !terminate_at_.has_value()) {
        // A client reports this at the latest when seven twelfths of the timeout are over, unless
        // it was paused. With two more twelfths to reconnect, and two to end, the command has ended
        // before the session does. After a pause there is less time left, or none.
        const int64_t left_ms = sixth_ms_ * 9 / 2 - client_->ms_since_served();
        terminate_after_ms_ = std::clamp<int64_t>(left_ms, 0, sixth_ms_);
        terminate_at_ = Clock::now() + milliseconds(terminate_after_ms_);
      }
      break;
    case ElectionState::kFailed:
      is_session_over_ = true;
      OnLost(event.reason);
      break;
    case ElectionState::kOffer:
      // The first offer, or another one because the znode of this process was deleted.
      has_turn_ = false;
      start_at_.reset();
      if (!event.reason.ok() && child_.has_value()) OnLost(event.reason);
      break;
    case ElectionState::kStart:
    case ElectionState::kDetermine:
    case ElectionState::kStopped:
      break;
  }
}

void Guard::OnLost(const absl::Status& reason) {
  has_turn_ = false;
  start_at_.reset();
  if (child_.has_value()) {
    Terminate(absl::StrCat("lost ", options_.path, ": ", std::string(reason.message())));
  } else if (!options_.repeats || ErrorOf(reason) != ErrorCode::kSessionExpired) {
    // A new session helps only if the session itself has ended.
    outcome_ = reason.ok() ? absl::AbortedError("the election has ended") : reason;
  }
}

void Guard::TakeSignals() {
  while (const std::optional<int> signal = signals_.Take()) OnSignal(*signal);
}

void Guard::OnSignal(int signal) {
  if (signal == SIGCHLD) {
    if (!child_.has_value()) return;
    const bool has_terminal = child_->has_terminal();
    const std::optional<int> status = child_->Poll();
    if (!status.has_value()) return;
    // The terminal sent Ctrl-C only to the command.
    if (has_terminal && *status == 128 + SIGINT) end_signal_ = SIGINT;
    OnCommandEnded(*status);
    return;
  }
  const bool ends = signal == SIGINT || signal == SIGTERM || signal == SIGQUIT;
  if (ends) end_signal_ = signal;
  if (child_.has_value()) {
    child_->Signal(signal);
  } else if (WatchedSignals::IsEnd(signal)) {
    outcome_ = 128 + signal;
  }
}

void Guard::CheckTimes() {
  const Time now = Clock::now();
  if (give_up_at_.has_value() && now >= *give_up_at_ && !outcome_.has_value()) {
    outcome_ = NotInTime();
  }
  if (terminate_at_.has_value() && now >= *terminate_at_) {
    Terminate(absl::StrCat("no member has served for ",
                           terminate_after_ms_ < sixth_ms_ ? client_->ms_since_served() : sixth_ms_,
                           " ms, ", options_.path, " may be lost"));
  }
  if (kill_at_.has_value() && now >= *kill_at_ && child_.has_value()) {
    child_->Signal(SIGKILL);
    Say("the command has not ended: killed");
    kill_at_ = now + milliseconds(KillAfterMs());
  }
  if (start_at_.has_value() && now >= *start_at_ && !outcome_.has_value()) StartCommand();
}

void Guard::StartCommand() {
  start_at_.reset();
  has_run_ = true;
  started_at_ = Clock::now();
  auto child = ChildProcess::Start(
      options_.command,
      {{"QUORATE_PATH", options_.path}, {"QUORATE_FENCING_TOKEN", absl::StrCat(fencing_token_)}});
  if (!child.ok()) {
    Say(std::string(child.status().message()));
    outcome_ = ExitStatusOfStart(child.status());
    return;
  }
  child_.emplace(*std::move(child));
  // A signal that arrived before the command started is meant for the command, too.
  if (end_signal_.has_value()) child_->Signal(*end_signal_);
}

void Guard::Terminate(const std::string& why) {
  terminate_at_.reset();
  if (kill_at_.has_value()) return;
  was_lost_ = true;
  child_->Signal(SIGTERM);
  kill_at_ = Clock::now() + milliseconds(KillAfterMs());
  Say(absl::StrCat(why, "; the command is terminated"));
}

int64_t Guard::KillAfterMs() const {
  return options_.kill_after_ms < 0 ? sixth_ms_ : options_.kill_after_ms;
}

void Guard::OnCommandEnded(int status) {
  child_.reset();
  terminate_at_.reset();
  kill_at_.reset();
  const bool was_lost = std::exchange(was_lost_, false);
  if (!options_.repeats) {
    if (was_lost) {
      outcome_ = absl::AbortedError(
          absl::StrCat(options_.path, " was lost while the command ran; it ended with status ",
                       status, ", and another process may have had the turn"));
    } else {
      outcome_ = status;
    }
    return;
  }
  if (end_signal_.has_value()) {
    outcome_ = status;
    return;
  }
  Say(absl::StrCat("the command ended with status ", status));
  if (was_lost) {
    // This process may have been elected again already.
    if (has_turn_) start_at_ = started_at_ + milliseconds(options_.restart_after_ms);
    return;
  }
  // Gives other processes their turn: the command may succeed there.
  has_turn_ = false;
  if (absl::Status s = election_->Resign(); !s.ok()) Say(std::string(s.message()));
}

absl::Status Guard::NotInTime() {
  std::string holder = "another process";
  if (auto leader = election_->Leader({.deadline_ms = kReleaseMs}); leader.ok()) {
    holder = absl::StrCat(Escape(leader->id), " (", Escape(leader->node), ")");
  }
  return absl::DeadlineExceededError(absl::StrCat(
      options_.path, " is taken by ", holder,
      options_.wait_ms > 0 ? absl::StrCat("; it was not free within ", options_.wait_ms, " ms")
                           : ""));
}

void Guard::Say(const std::string& text) const {
  if (options_.is_quiet) return;
  // A blocked standard error must not delay the end of the command.
  pollfd file = {STDERR_FILENO, POLLOUT, 0};
  if (poll(&file, 1, 0) != 1) return;
  const std::string line = absl::StrCat("quorate: ", EscapeControls(text), "\n");
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

int Guard::WaitMs() const {
  std::optional<Time> next;
  for (const std::optional<Time>& time : {give_up_at_, start_at_, terminate_at_, kill_at_}) {
    if (time.has_value() && (!next.has_value() || *time < *next)) next = time;
  }
  if (!next.has_value()) return -1;
  const auto left = std::chrono::ceil<milliseconds>(*next - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
}

}  // namespace quorate::tools::shell
