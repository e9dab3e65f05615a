// SPDX-License-Identifier: Apache-2.0

#include "tools/shell/shell.h"

#include <histedit.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/assert.h"
#include "tools/shell/printing.h"

namespace quorate::tools::shell {
namespace {

// How long to wait for the close of a session, which otherwise ends by its timeout.
constexpr int kCloseMs = 3000;

// Returns the text of zkCli.sh for the event, with the reason if there is one.
std::string EventText(const SessionEvent& event) {
  std::string state;
  switch (event.type) {
    case SessionEvent::Type::kConnected:
    case SessionEvent::Type::kReconnected:
    case SessionEvent::Type::kReplaced:
      state = "SyncConnected";
      break;
    case SessionEvent::Type::kSuspended:
      state = "Disconnected";
      break;
    case SessionEvent::Type::kLost:
      state = "Expired";
      break;
  }
  std::string text =
      absl::StrCat("\nWATCHER::\n\nWatchedEvent state:", state, " type:None path:null\n");
  if (!event.reason.ok()) absl::StrAppend(&text, std::string(event.reason.message()), "\n");
  return text;
}

std::string StateText(const Client* client) {
  if (client == nullptr) return "CLOSED";
  switch (client->state()) {
    case Client::State::kConnecting:
      return "CONNECTING";
    case Client::State::kConnected:
      return "CONNECTED";
    case Client::State::kSuspended:
      return "DISCONNECTED";
    case Client::State::kLost:
      return "EXPIRED";
    case Client::State::kClosed:
      return "CLOSED";
  }
  return "CLOSED";
}

}  // namespace

absl::StatusOr<std::vector<std::string>> SplitWords(const std::string& line) {
  // Checks this here, because the tokenizer would read past the end for the escaped character.
  const size_t other = line.find_last_not_of('\\');
  const size_t backslashes = line.size() - (other == std::string::npos ? 0 : other + 1);
  if (backslashes % 2 == 1) {
    return absl::InvalidArgumentError(absl::StrCat("nothing follows a backslash: ", line));
  }
  Tokenizer* tokenizer = tok_init(nullptr);
  ASSERT(tokenizer != nullptr);
  int count = 0;
  const char** texts = nullptr;
  const int outcome = tok_str(tokenizer, line.c_str(), &count, &texts);
  std::vector<std::string> words;
  if (outcome == 0) words.assign(texts, texts + count);
  tok_end(tokenizer);
  if (outcome == 0) return words;
  return absl::InvalidArgumentError(absl::StrCat("a quote has no end: ", line));
}

Shell::Shell(ShellOptions options, Console* console)
    : options_(std::move(options)), console_(console), watches_(console, options_.json) {}

Shell::~Shell() { static_cast<void>(Close()); }

absl::StatusOr<std::unique_ptr<Client>> Shell::MakeClient(const std::string& servers,
                                                          bool is_main) {
  ClientOptions options;
  options.servers = servers;
  options.session_timeout_ms = options_.session_timeout_ms;
  options.connect_timeout_ms = options_.timeout_ms;
  options.default_deadline_ms = options_.timeout_ms;
  options.on_session_loss = SessionLoss::kStop;  // the user learns of it, as from zkCli.sh
  options.credentials = credentials_;
  options.tls = options_.tls;
  if (is_main) {
    options.on_session_event = [console = console_, member = member_,
                                is_silent = options_.json](const SessionEvent& event) {
      {
        std::lock_guard<std::mutex> lock(member->mutex);
        if (!event.server.empty()) member->address = event.server;
      }
      if (event.type != SessionEvent::Type::kConnected && !is_silent) {
        console->PrintEvent(EventText(event));
      }
    };
  }
  return Client::Connect(std::move(options));
}

absl::Status Shell::Connect(const std::string& servers) {
  if (absl::Status s = Close(); !s.ok()) return s;
  if (!servers.empty()) options_.servers = servers;
  if (options_.servers.empty()) {
    return absl::InvalidArgumentError(
        "--server is missing: name members by their gRPC ports, host:port[,host:port][/chroot]");
  }
  auto client = MakeClient(options_.servers, true);
  if (!client.ok()) return client.status();
  client_ = *std::move(client);
  const size_t slash = options_.servers.find('/');
  chroot_ = slash == std::string::npos ? "" : options_.servers.substr(slash);
  if (chroot_ == "/") chroot_.clear();
  return absl::OkStatus();
}

absl::Status Shell::Close() {
  watches_.RemoveAll();
  ephemerals_.clear();
  whole_tree_client_.reset();
  if (client_ == nullptr) return absl::OkStatus();
  const bool is_lost = client_->state() == Client::State::kLost;
  const absl::Status status =
      client_->Close({.deadline_ms = std::min(options_.timeout_ms, kCloseMs)});
  client_.reset();
  return is_lost ? absl::OkStatus() : status;
}

Client& Shell::client() {
  ASSERT(client_ != nullptr);
  return *client_;
}

absl::StatusOr<Client*> Shell::WholeTreeClient() {
  ASSERT(client_ != nullptr);
  if (chroot_.empty()) return client_.get();
  if (whole_tree_client_ == nullptr) {
    auto client = MakeClient(options_.servers.substr(0, options_.servers.find('/')), false);
    if (!client.ok()) return client.status();
    whole_tree_client_ = *std::move(client);
  }
  return whole_tree_client_.get();
}

int Shell::RunLine(const std::string& typed) {
  std::string line = typed;
  auto words = SplitWords(line);
  if (words.ok() && (words->empty() || words->front().starts_with("#"))) return 0;
  size_t number = 0;
  if (words.ok() && words->size() == 2 && words->front() == "redo" &&
      absl::SimpleAtoi((*words)[1], &number) && number < history_.size()) {
    line = history_[number];
    words = SplitWords(line);
  }
  history_.emplace_back(absl::StripAsciiWhitespace(line));
  if (!words.ok()) {
    PrintFailure(words.status(), "", "", {});
    return ExitStatusOf(words.status());
  }
  return RunWords(*words);
}

int Shell::RunWords(const std::vector<std::string>& words) {
  const std::string& name = words.front();
  const Command* command = FindCommand(name);
  if (command == nullptr) {
    const std::vector<std::string> similar = SimilarCommands(name);
    const absl::Status unknown = absl::InvalidArgumentError(
        absl::StrCat("Command not found: ", name,
                     similar.empty() ? "; help lists the commands"
                                     : "; do you mean " + absl::StrJoin(similar, " or ") + "?"));
    PrintFailure(unknown, name, "", {{"command", name}});
    return ExitStatusOf(unknown);
  }
  nlohmann::ordered_json json = {{"command", name}};
  auto invocation = Invocation::Parse(*command, *this, {words.begin() + 1, words.end()});
  if (!invocation.ok()) {
    PrintFailure(invocation.status(), name, "", std::move(json));
    return ExitStatusOf(invocation.status());
  }
  if (!invocation->path().empty()) json["path"] = invocation->path();
  absl::Status status = Prepare(*command);
  if (status.ok()) {
    status = command->run(*invocation);
    if (!status.ok()) status = Failure(status, invocation->path());
  }
  if (!status.ok()) {
    PrintFailure(status, name, invocation->path(), std::move(json));
  } else if (options_.json) {
    if (!invocation->json().is_null()) json.update(invocation->json());
    console_->Print(Dump(json) + "\n");
  }
  return ExitStatusOf(status);
}

absl::Status Shell::Prepare(const Command& command) {
  if (command.is_local || client_ != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError("Not connected; connect begins a session");
}

void Shell::PrintFailure(const absl::Status& status, const std::string& command,
                         const std::string& path, nlohmann::ordered_json json) {
  const std::string message(status.message());
  const std::string hint = HintFor(status, command, path);
  if (options_.json) {
    json["error"] = NameOfError(status);
    json["message"] = message;
    if (!hint.empty()) json["hint"] = hint;
    console_->Print(Dump(json) + "\n");
    return;
  }
  console_->PrintError(
      absl::StrCat(message, "\n", hint.empty() ? "" : "hint: ", hint, hint.empty() ? "" : "\n"));
}

std::string Shell::Prompt() const {
  std::lock_guard<std::mutex> lock(member_->mutex);
  return absl::StrCat("[quorate: ", member_->address.empty() ? "nowhere" : member_->address, "(",
                      StateText(client_.get()), ") ", history_.size(), "] ");
}

}  // namespace quorate::tools::shell
