// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/checkers/history.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"

namespace quorate::simulation {
namespace {

constexpr size_t kLinesOfSession = 12;
constexpr size_t kLinesOfPath = 12;
// Longer data in replies is dropped once all listeners have seen it.
constexpr size_t kKeptBytesMax = 256;

}  // namespace

bool Touches(const Request& request, std::string_view path) {
  return request.path == path ||
         std::any_of(request.steps.begin(), request.steps.end(), [path](const Step& step) {
           return step.path == path || (step.kind == OperationKind::kRemoveRecursive &&
                                        path.starts_with(step.path + "/"));
         });
}

LinkId History::OpenLink(Link link) {
  link.id = links_.size();
  link.opened_us = link.heard_us = environment_->now_us();
  links_.push_back(std::move(link));
  const Link& opened = links_.back();
  if (environment_->tracing()) environment_->Trace(Describe(opened));
  environment_->Mix(static_cast<uint64_t>(opened.session) ^ opened.client);
  for (HistoryListener* listener : listeners_) listener->OnLinkOpened(opened);
  return opened.id;
}

void History::CloseLink(LinkId id) {
  Link& link = links_.at(id);
  if (!link.open) return;
  link.open = false;
  for (OperationId operation_id : link.operations) {
    Operation& operation = operations_[operation_id];
    if (operation.outcome != Outcome::kPending) continue;
    operation.outcome = Outcome::kLost;
    operation.completed_us = environment_->now_us();
    if (environment_->tracing()) environment_->Trace(Describe(operation));
    for (HistoryListener* listener : listeners_) listener->OnLost(operation);
  }
  for (HistoryListener* listener : listeners_) listener->OnLinkClosed(link);
}

OperationId History::Invoke(LinkId link, int32_t xid, Request request) {
  Operation& operation = operations_.emplace_back();
  operation.id = operations_.size() - 1;
  operation.client = links_.at(link).client;
  operation.link = link;
  operation.xid = xid;
  operation.request = std::move(request);
  operation.invoked_us = environment_->now_us();
  links_[link].operations.push_back(operation.id);
  if (environment_->tracing()) environment_->Trace(Describe(operation));
  for (HistoryListener* listener : listeners_) listener->OnInvoked(operation);
  return operation.id;
}

void History::Answer(OperationId id, Reply reply) {
  Operation& operation = operations_.at(id);
  ASSERT(operation.outcome == Outcome::kPending);
  operation.outcome = Outcome::kAnswered;
  operation.completed_us = environment_->now_us();
  operation.reply = std::move(reply);
  links_[operation.link].heard_us = environment_->now_us();
  if (environment_->tracing()) environment_->Trace(Describe(operation));
  environment_->Mix(static_cast<uint64_t>(operation.reply.zxid) * 31 +
                    static_cast<uint64_t>(operation.reply.error));
  for (HistoryListener* listener : listeners_) listener->OnAnswered(operation);
  if (operation.reply.data.size() > kKeptBytesMax) operation.reply.data.resize(kKeptBytesMax);
  for (auto& data : operation.reply.child_data) {
    if (data.has_value() && data->size() > kKeptBytesMax) data->resize(kKeptBytesMax);
  }
}

void History::Pong(LinkId id, int64_t zxid) {
  links_.at(id).heard_us = environment_->now_us();
  environment_->Mix(static_cast<uint64_t>(zxid));
  for (HistoryListener* listener : listeners_) listener->OnPong(links_[id], zxid);
}

void History::Event(LinkId id, WatchEvent event) {
  links_.at(id).heard_us = environment_->now_us();
  if (environment_->tracing()) {
    environment_->Trace(
        absl::StrCat("client ", links_[id].client, " link ", id, " receives ", ToString(event)));
  }
  environment_->Mix(static_cast<uint64_t>(event.zxid) * 7 + static_cast<uint64_t>(event.type));
  for (HistoryListener* listener : listeners_) listener->OnEvent(links_[id], event);
}

void History::RefuseSession(size_t client, int64_t session) {
  if (environment_->tracing()) {
    environment_->Trace(
        absl::StrCat("client ", client, " is told that session ", session, " has ended"));
  }
  for (HistoryListener* listener : listeners_) listener->OnSessionRefused(client, session);
}

void History::AbandonSession(size_t client, int64_t session) {
  if (environment_->tracing()) {
    environment_->Trace(absl::StrCat("client ", client, " abandons session ", session));
  }
  for (HistoryListener* listener : listeners_) listener->OnSessionAbandoned(client, session);
}

std::string History::Describe(const Operation& operation) const {
  const Link& link = links_.at(operation.link);
  std::string text =
      absl::StrCat("client ", operation.client, " link ", operation.link, " member ", link.member,
                   " xid ", operation.xid, " [", operation.invoked_us, "us ");
  switch (operation.outcome) {
    case Outcome::kPending:
      absl::StrAppend(&text, "- pending] ", ToString(operation.request));
      break;
    case Outcome::kLost:
      absl::StrAppend(&text, "- lost at ", operation.completed_us, "us] ",
                      ToString(operation.request));
      break;
    case Outcome::kAnswered:
      absl::StrAppend(&text, "- ", operation.completed_us, "us] ", ToString(operation.request),
                      " -> ", ToString(operation.request, operation.reply));
      break;
  }
  return text;
}

std::string History::Describe(const Link& link) const {
  return absl::StrCat("client ", link.client, " link ", link.id, " member ", link.member,
                      " session ", link.session, link.new_session ? " (new)" : "", " timeout ",
                      link.timeout_ms, " ms, last zxid ", link.last_zxid_sent, ", opened at ",
                      link.opened_us, "us, last heard at ", link.heard_us, "us");
}

std::string History::Lines(const std::function<bool(const Operation&)>& wanted,
                           size_t count) const {
  std::vector<std::string> lines;
  for (auto it = operations_.rbegin(); it != operations_.rend() && lines.size() < count; ++it) {
    if (wanted(*it)) lines.push_back("  " + Describe(*it) + "\n");
  }
  std::string text;
  for (auto it = lines.rbegin(); it != lines.rend(); ++it) text += *it;
  return text;
}

void History::Fail(std::string_view invariant, const Operation& operation,
                   std::string_view details) const {
  const Link& link = links_.at(operation.link);
  std::string text = absl::StrCat(std::string(details), "\n", Describe(operation), "\n",
                                  Describe(link), "\nof the same session:\n");
  text += Lines([&](const Operation& other) { return links_[other.link].session == link.session; },
                kLinesOfSession);
  const std::string path =
      operation.request.steps.empty() ? operation.request.path : operation.request.steps[0].path;
  if (!path.empty()) {
    absl::StrAppend(&text, "of the same path:\n");
    text +=
        Lines([&](const Operation& other) { return Touches(other.request, path); }, kLinesOfPath);
  }
  environment_->Fail(invariant, text);
  std::abort();
}

void History::Fail(std::string_view invariant, const Link& link, std::string_view details) const {
  std::string text =
      absl::StrCat(std::string(details), "\n", Describe(link), "\nof the same session:\n");
  text += Lines([&](const Operation& other) { return links_[other.link].session == link.session; },
                kLinesOfSession);
  environment_->Fail(invariant, text);
  std::abort();
}

void History::Fail(std::string_view invariant, std::string_view details) const {
  environment_->Fail(invariant, details);
  std::abort();
}

}  // namespace quorate::simulation
