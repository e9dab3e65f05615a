// SPDX-License-Identifier: Apache-2.0

#include "tools/shell/watch_command.h"

#include <poll.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/client.h"
#include "tools/shell/child_process.h"
#include "tools/shell/console.h"
#include "tools/shell/mailbox.h"
#include "tools/shell/printing.h"

namespace quorate::tools {
namespace {

using shell::ChildProcess;
using shell::Console;
using shell::Mailbox;
using shell::WatchedSignals;

struct Options {
  std::string path;
  bool recursive = false;
  bool children = false;
  std::string exec;
  uint64_t count = 0;  // 0: any number
  std::string after;   // a zxid; empty: from now on
};

std::string Name(EventType type) {
  switch (type) {
    case EventType::kNodeCreated:
      return "created";
    case EventType::kNodeDeleted:
      return "deleted";
    case EventType::kNodeDataChanged:
      return "changed";
  }
  return "unknown";
}

// Prints or handles events, with new sessions if necessary, until a signal or --count ends it.
class Watcher {
 public:
  Watcher(const GlobalOptions& global, Options options, int64_t after_zxid)
      : global_(global), options_(std::move(options)), zxid_(after_zxid) {}

  absl::Status Run() {
    absl::Status status = Begin();
    while (status.ok() && !is_done_) {
      std::array<pollfd, 2> files = {{{signals_.file(), POLLIN, 0}, {mailbox_.file(), POLLIN, 0}}};
      if (poll(files.data(), files.size(), -1) < 0 && errno != EINTR) {
        return absl::InternalError(absl::StrCat("poll: ", std::strerror(errno)));
      }
      TakeSignals(nullptr);
      while (!is_done_ && status.ok()) {
        std::optional<Item> item = mailbox_.Take();
        if (!item.has_value()) break;
        status = Handle(*item);
      }
    }
    return status;
  }

 private:
  // A notification of session number `session`, counted from 1.
  struct Item {
    uint64_t session = 0;
    std::variant<WatchNotification, SessionEvent> what;
  };

  // Opens a session: the first one within a limited time, later ones as soon as possible. Opens
  // none if a signal to end comes first.
  absl::Status Connect(uint64_t session) {
    constexpr int kConnectMs = 2'000;  // one attempt, during which signals have to wait
    constexpr int kFirstAttempts = 5;
    constexpr int kPauseMs = 1'000;
    ClientOptions options;
    options.servers = global_.servers;
    options.tls = global_.tls;
    options.connect_timeout_ms = kConnectMs;
    // The next session continues the watch from the last zxid, and so loses no event.
    options.on_session_loss = SessionLoss::kStop;
    options.on_session_event = [this, session](const SessionEvent& event) {
      mailbox_.Put({session, event});
    };
    for (int attempt = 1;; ++attempt) {
      auto client = Client::Connect(options);
      if (client.ok()) {
        client_ = *std::move(client);
        return absl::OkStatus();
      }
      const bool may_change = absl::IsDeadlineExceeded(client.status());
      if (session == 1 && (!may_change || attempt == kFirstAttempts)) return client.status();
      if (session > 1) {
        console_.PrintError(
            absl::StrCat("no session: ", std::string(client.status().message()), "\n"));
        pollfd file = {signals_.file(), POLLIN, 0};
        poll(&file, 1, kPauseMs);
      }
      TakeSignals(nullptr);
      if (is_done_) return absl::OkStatus();
    }
  }

  // Opens a session and sets its watch, from `zxid_` on.
  absl::Status Begin() {
    const uint64_t session = ++session_;
    handle_.End();
    if (absl::Status s = Connect(session); !s.ok() || is_done_) return s;
    const bool has_gap = session > 1 && zxid_ == 0;
    if (zxid_ == 0) {
      // Stores the zxid at which the watch begins, in case it has to be continued in another
      // session. Without this zxid, the watch of that session would begin later.
      if (auto root = client_->Get("/"); root.ok()) zxid_ = root->zxid;
    }
    const WatchScope scope = options_.recursive  ? WatchScope::kSubtree
                             : options_.children ? WatchScope::kChildren
                                                 : WatchScope::kNode;
    auto handle = client_->Watch(options_.path, scope,
                                 [this, session](const WatchNotification& what) {
                                   mailbox_.Put({session, what});
                                 },
                                 {.after_zxid = told_of_zxid_ > 0 ? zxid_ - 1 : zxid_});
    if (!handle.ok()) return handle.status();
    // The events of a transaction may have been reported only in part.
    skip_ = told_of_zxid_;
    if (has_gap) Tell("lost", options_.path, zxid_);
    handle_ = *std::move(handle);
    if (session == 1) console_.PrintError(absl::StrCat("watching ", options_.path, "\n"));
    return absl::OkStatus();
  }

  absl::Status Handle(const Item& item) {
    if (item.session != session_) return absl::OkStatus();
    if (const auto* event = std::get_if<SessionEvent>(&item.what)) return HandleSession(*event);
    const auto& what = std::get<WatchNotification>(item.what);
    if (const auto* reset = std::get_if<WatchReset>(&what)) {
      skip_ = 0;
      Tell("lost", options_.path, reset->zxid);
      told_of_zxid_ = 0;
    } else {
      const Event& event = std::get<Event>(what);
      if (event.zxid == zxid_ && skip_ > 0) {
        --skip_;
        return absl::OkStatus();
      }
      skip_ = 0;
      told_of_zxid_ = event.zxid == zxid_ ? told_of_zxid_ + 1 : 1;
      Tell(Name(event.type), event.path, event.zxid);
    }
    return absl::OkStatus();
  }

  absl::Status HandleSession(const SessionEvent& event) {
    switch (event.type) {
      case SessionEvent::Type::kSuspended:
        console_.PrintError(
            absl::StrCat("no member serves: ", std::string(event.reason.message()), "\n"));
        break;
      case SessionEvent::Type::kReconnected:
        console_.PrintError(absl::StrCat("reconnected to ", event.server, "\n"));
        break;
      case SessionEvent::Type::kLost:
        return Begin();
      case SessionEvent::Type::kConnected:
      case SessionEvent::Type::kReplaced:
        break;
    }
    return absl::OkStatus();
  }

  void Tell(const std::string& event, const std::string& path, int64_t zxid) {
    zxid_ = zxid;
    const std::string number = absl::StrFormat("0x%x", zxid);
    if (global_.json) {
      console_.Print(shell::Dump({{"event", event}, {"path", path}, {"zxid", number}}) + "\n");
    } else {
      console_.Print(absl::StrCat(event, " ", number, " ", path, "\n"));
    }
    if (!options_.exec.empty()) Execute(event, path, number);
    if (++told_ == options_.count) is_done_ = true;
  }

  // Runs the command and waits for its end, so that commands run in the order of the events.
  void Execute(const std::string& event, const std::string& path, const std::string& zxid) {
    auto child = ChildProcess::Start(
        {"sh", "-c", options_.exec},
        {{"QUORATE_EVENT", event}, {"QUORATE_PATH", path}, {"QUORATE_ZXID", zxid}});
    if (!child.ok()) {
      console_.PrintError(absl::StrCat(std::string(child.status().message()), "\n"));
      return;
    }
    const bool has_terminal = child->has_terminal();
    std::optional<int> status;
    while (!(status = child->Poll()).has_value()) {
      pollfd file = {signals_.file(), POLLIN, 0};
      poll(&file, 1, -1);
      TakeSignals(&*child);
    }
    // The terminal sent Ctrl-C only to the command.
    if (has_terminal && *status == 128 + SIGINT) is_done_ = true;
    if (*status != 0) {
      console_.PrintError(
          absl::StrCat("--exec ended with status ", *status, " for ", event, " ", path, "\n"));
    }
  }

  // `child` is the running command; it may be null.
  void TakeSignals(ChildProcess* child) {
    while (const std::optional<int> signal = signals_.Take()) {
      if (WatchedSignals::IsEnd(*signal)) is_done_ = true;
      if (child != nullptr && *signal != SIGCHLD) child->Signal(*signal);
    }
  }

  const GlobalOptions global_;
  const Options options_;
  WatchedSignals signals_;
  Console console_{isatty(STDOUT_FILENO) != 0};
  Mailbox<Item> mailbox_;
  int64_t zxid_;
  uint64_t session_ = 0;
  uint64_t told_ = 0;
  uint64_t told_of_zxid_ = 0;  // the number of events of the transaction zxid_ that were reported
  uint64_t skip_ = 0;          // the number of those events that the new session repeats
  bool is_done_ = false;
  std::unique_ptr<Client> client_;
  WatchHandle handle_;
};

absl::Status RunWatch(const GlobalOptions& global, const Options& options) {
  int64_t after_zxid = 0;
  if (!options.after.empty()) {
    char* end = nullptr;
    after_zxid = std::strtoll(options.after.c_str(), &end, 0);
    if (*end != '\0' || after_zxid <= 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("--after: \"", options.after, "\" is not a zxid, like 0x1a"));
    }
  }
  if (global.servers.empty()) {
    return absl::InvalidArgumentError(
        "--server is missing: name members by their gRPC ports, host:port[,host:port][/chroot]");
  }
  return Watcher(global, options, after_zxid).Run();
}

}  // namespace

void AddWatchCommand(CommandLine* command_line) {
  auto options = std::make_shared<Options>();
  CLI::App* command = command_line->Add(
      command_line->root(), "watch", "Prints changes of znodes as they happen",
      [command_line, options] { return RunWatch(command_line->global(), *options); });
  command->add_option("path", options->path, "The znode, which need not exist")->required();
  auto* recursive =
      command->add_flag("-r,--recursive", options->recursive, "Watch everything below it, too");
  command->add_flag("-c,--children", options->children, "Watch its children, too")
      ->excludes(recursive);
  command->add_option("--exec", options->exec,
                      "Shell command to run for each change, one after another; $QUORATE_EVENT, "
                      "$QUORATE_PATH and $QUORATE_ZXID describe the change");
  command->add_option("--count", options->count, "End after this number of changes");
  command->add_option(
      "--after", options->after,
      "The zxid after which to begin: that of the last line of an earlier watch (all "
      "changes of a transaction have the same zxid)");
  command->footer(
      "    quorate watch --server 10.0.0.1:2281 /app --recursive\n"
      "    quorate watch --server ... /app/config --exec 'systemctl reload app'\n\n"
      "A line has the event (created, deleted, changed), the zxid and the path; with --json, it "
      "is\n"
      "an object. Each change is reported once, in order, even if members die meanwhile. If the\n"
      "command was disconnected for so long that the servers no longer keep the events, it prints "
      "a\n"
      "line with the event \"lost\": read the watched znodes again. SIGINT and SIGTERM end the\n"
      "command with status 0.");
}

}  // namespace quorate::tools
