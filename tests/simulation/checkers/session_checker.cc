// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/checkers/session_checker.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace quorate::simulation {
namespace {

using tree::ErrorCode;

constexpr int64_t kMsToUs = 1000;

bool IsDeletion(const Step& step) {
  return step.kind == OperationKind::kDelete || step.kind == OperationKind::kTryRemove;
}

bool IsEphemeral(const Step& step) {
  return step.kind == OperationKind::kCreate &&
         (step.mode == tree::CreateMode::kEphemeral ||
          step.mode == tree::CreateMode::kEphemeralSequential);
}

}  // namespace

SessionChecker::SessionChecker(History* history, ReplayChecker* replay, double clock_drift_max,
                               int64_t unnoticed_us)
    : history_(history),
      replay_(replay),
      clock_drift_max_(clock_drift_max),
      unnoticed_us_(unnoticed_us) {
  history->AddListener(this);
  replay->AddListener(this);
  history->environment().AddObserver(this);
}

void SessionChecker::OnLeads(size_t member, consensus::Term term) {
  leaders_.emplace(term, member);
}

void SessionChecker::OnStoodStill(size_t member, int64_t from_us) {
  pauses_[member].push_back({from_us, history_->environment().now_us()});
}

int64_t SessionChecker::LeaderRanUs(consensus::Term term, int64_t from_us) const {
  int64_t ran_us = history_->environment().now_us() - from_us;
  const auto leader = leaders_.find(term);
  if (leader == leaders_.end()) return ran_us;
  const auto pauses = pauses_.find(leader->second);
  if (pauses == pauses_.end()) return ran_us;
  for (const Pause& pause : pauses->second) {
    const int64_t stood_us = pause.to_us - std::max(pause.from_us, from_us);
    ran_us -= std::max<int64_t>(0, stood_us - unnoticed_us_);
  }
  return ran_us;
}

void SessionChecker::BeginSteadyPeriod(int64_t settle_us) {
  steady_from_us_ = history_->environment().now_us() + settle_us;
}

// The shortest silence, in virtual time, after which a session may expire: its timeout on the
// fastest clock. Servers count in milliseconds, so the last one may be cut.
int64_t SessionChecker::LeastSilenceUs(int32_t timeout_ms) const {
  return static_cast<int64_t>(static_cast<double>((timeout_ms - 2) * kMsToUs) /
                              (1.0 + clock_drift_max_));
}

void SessionChecker::OnEntry(const consensus::Entry& entry, const Model::Applied& applied) {
  const int64_t now_us = history_->environment().now_us();
  // Only the first no-op of a term: the leader answers the read index of each recovering member
  // with another no-op.
  if (entry.kind == consensus::EntryKind::kNoOp) term_began_us_.emplace(entry.term.value(), now_us);
  if (!applied.counts || applied.error != ErrorCode::kOk) return;
  const int64_t session = applied.header.session.value();
  switch (applied.header.kind) {
    case tree::CommandKind::kCreateSession:
    case tree::CommandKind::kAttachSession:
      attached_[session] = {now_us, replay_->model().sessions().at(session).timeout_ms};
      break;
    case tree::CommandKind::kExpireSession:
      CheckExpiry(entry, session);
      break;
    default:
      break;
  }
}

void SessionChecker::CheckExpiry(const consensus::Entry& entry, int64_t session) const {
  const int64_t now_us = history_->environment().now_us();
  const Attachment& attachment = attached_.at(session);
  const int64_t least_us = LeastSilenceUs(attachment.timeout_ms);
  const auto fail = [&](const std::string& details) {
    const auto open = open_links_.find(session);
    const std::string text = absl::StrCat("session ", session, " with a timeout of ",
                                          attachment.timeout_ms, " ms was expired at zxid ",
                                          entry.index.value(), ", ", now_us, "us: ", details);
    if (open != open_links_.end()) {
      history_->Fail("a session does not expire before its timeout", history_->link(open->second),
                     text);
    }
    history_->Fail("a session does not expire before its timeout", text);
  };
  const int64_t ran_us = LeaderRanUs(entry.term, attachment.committed_us);
  if (ran_us < least_us) {
    fail(absl::StrCat("it was attached at ", attachment.committed_us, "us, and the leader of term ",
                      entry.term.value(), " has been at work for ", ran_us, "us since"));
  }
  const auto term = term_began_us_.find(entry.term.value());
  if (term != term_began_us_.end() && LeaderRanUs(entry.term, term->second) < least_us) {
    fail(absl::StrCat("the leader's term ", entry.term.value(), " began at ", term->second, "us"));
  }
  const auto open = open_links_.find(session);
  if (now_us < steady_from_us_ || open == open_links_.end()) return;
  const Link& link = history_->link(open->second);
  if (now_us - link.opened_us >= least_us && now_us - link.heard_us < least_us / 2) {
    fail("all servers work, and its client was answered not long ago");
  }
}

void SessionChecker::OnLinkOpened(const Link& link) { open_links_[link.session] = link.id; }

void SessionChecker::OnLinkClosed(const Link& link) {
  const auto open = open_links_.find(link.session);
  if (open != open_links_.end() && open->second == link.id) open_links_.erase(open);
}

void SessionChecker::OnSessionAbandoned(size_t, int64_t session) {
  abandoned_.insert(session);
  open_links_.erase(session);
}

std::vector<int64_t> SessionChecker::LingeringSessions() const {
  std::vector<int64_t> lingering;
  for (int64_t session : abandoned_) {
    if (replay_->model().ended_sessions().count(session) == 0) lingering.push_back(session);
  }
  return lingering;
}

// --- Ephemerals ----------------------------------------------------------------------------------

void SessionChecker::OnInvoked(const Operation& operation) {
  for (const Step& step : operation.request.steps) {
    const bool is_recursive = step.kind == OperationKind::kRemoveRecursive;
    if (!IsDeletion(step) && !is_recursive) continue;
    ++(is_recursive ? removals_ : deletions_)[step.path].open;
    ephemerals_.erase(step.path);
    if (!is_recursive) continue;
    const std::string prefix = step.path + "/";
    const auto is_below = [&](const auto& each) { return each.first.starts_with(prefix); };
    std::erase_if(ephemerals_, is_below);
  }
}

bool SessionChecker::MayBeDeleted(const std::string& path, int64_t from_us) const {
  const auto may = [from_us](const std::map<std::string, Deletions>& deletions,
                             const std::string& at) {
    const auto found = deletions.find(at);
    return found != deletions.end() &&
           (found->second.open > 0 || found->second.answered_us >= from_us);
  };
  if (may(deletions_, path)) return true;
  for (size_t end = path.size(); end > 0 && end != std::string::npos;
       end = path.rfind('/', end - 1)) {
    if (may(removals_, path.substr(0, end))) return true;
  }
  return false;
}

void SessionChecker::OnAnswered(const Operation& operation) {
  const Request& request = operation.request;
  // A multi with a failed step has no effect.
  const bool done = operation.reply.error == ErrorCode::kOk &&
                    operation.reply.steps.size() == request.steps.size() &&
                    std::all_of(operation.reply.steps.begin(), operation.reply.steps.end(),
                                [](const auto& step) { return step.error == ErrorCode::kOk; });
  for (size_t i = 0; i < request.steps.size(); ++i) {
    const Step& step = request.steps[i];
    const bool is_recursive = step.kind == OperationKind::kRemoveRecursive;
    if (IsDeletion(step) || is_recursive) {
      // An answered deletion is over; a lost one may still happen at any time.
      Deletions& deletions = (is_recursive ? removals_ : deletions_)[step.path];
      --deletions.open;
      deletions.answered_us = operation.completed_us;
    }
    if (!done || !IsEphemeral(step)) continue;
    const std::string& path = operation.reply.steps[i].path;
    // Which of the two came first is not known.
    if (MayBeDeleted(path, operation.invoked_us)) continue;
    ephemerals_[path] = {history_->link(operation.link).session, operation.id};
  }
}

void SessionChecker::CheckEphemerals(size_t member, const tree::Tree& tree,
                                     const std::set<int64_t>& living) const {
  for (const auto& [path, ephemeral] : ephemerals_) {
    if (living.count(ephemeral.session) == 0) continue;
    tree::Stat stat;
    if (tree.FindStat(path, &stat) && stat.ephemeral_owner.value() == ephemeral.session) continue;
    history_->Fail("an ephemeral node lives as long as its session",
                   history_->operation(ephemeral.created_by),
                   absl::StrCat("at member ", member, " it does not exist, and session ",
                                ephemeral.session, " lives"));
  }
  for (const tree::SessionInfo& session : tree.Sessions()) {
    if (living.count(session.id.value()) > 0 || session.ephemerals == 0) continue;
    history_->Fail("an ephemeral node lives as long as its session",
                   absl::StrCat("member ", member, " has ", session.ephemerals,
                                " ephemeral nodes of session ", session.id.value(),
                                ", which no client has: ", tree.Ephemerals(session.id)[0]));
  }
  std::vector<std::string> paths{"/"};
  while (!paths.empty()) {
    const std::string path = paths.back();
    paths.pop_back();
    tree::Stat stat;
    tree.GetChildren(
        path, {},
        [&](std::string_view name) {
          paths.push_back(absl::StrCat(path == "/" ? "" : path, "/", std::string(name)));
        },
        &stat);
    const int64_t owner = stat.ephemeral_owner.value();
    if (owner == 0 || living.count(owner) > 0) continue;
    history_->Fail("an ephemeral node lives as long as its session",
                   absl::StrCat("member ", member, " has ", path, " of session ", owner,
                                ", which no client has"));
  }
}

}  // namespace quorate::simulation
