// SPDX-License-Identifier: Apache-2.0

#include "rpc/zookeeper/four_letter_words.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/escape.h"
#include "base/strings.h"
#include "rpc/config/config_keys.h"
#include "rpc/frontend/config_node.h"
#include "rpc/zookeeper/frontend.h"
#include "rpc/zookeeper/monitor.h"
#include "rpc/zookeeper/opcodes.h"
#include "rpc/zookeeper/server_info.h"

namespace quorate::rpc::zk {
namespace {

constexpr std::string_view kWords[] = {"conf", "cons", "crst", "dirs", "dump", "envi",
                                       "gtmk", "hash", "isro", "mntr", "ruok", "srst",
                                       "srvr", "stat", "stmk", "wchc", "wchp", "wchs"};
constexpr std::string_view kSetTraceMask = "stmk";
constexpr size_t kTraceMaskBytes = 8;
// The maximum number of lines of one piece.
constexpr size_t kPieceLines = 500;
// Limits of the watches shown: the table changes between pieces, so only a part of a large one is
// shown.
constexpr size_t kWatchesShownMax = 100'000;
constexpr size_t kWatchBytesShownMax = 16u << 20;
constexpr tree::SessionId kBeforeSessions{std::numeric_limits<int64_t>::min()};
constexpr char kMoreWatches[] = "(there are more watches than are shown)\n";

std::string Hex(int64_t value) { return absl::StrFormat("0x%x", static_cast<uint64_t>(value)); }

void AppendConnection(const ConnectionStatistics& connection, bool cleared, bool whole,
                      std::string* to) {
  absl::StrAppend(to, " /", connection.peer, "[1](queued=", connection.queued.value(),
                  ",recved=", cleared ? 0 : connection.received.value(),
                  ",sent=", cleared ? 0 : connection.sent.value());
  if (whole && connection.session_id.value() != 0) {
    const int64_t count = cleared ? 0 : connection.latency_count.value();
    const auto shown = [&](const Counter& counter) { return count == 0 ? 0 : counter.value(); };
    const auto operation = static_cast<OpCode>(connection.last_operation.value());
    absl::StrAppend(to, ",sid=", Hex(connection.session_id.value()),
                    ",lop=", std::string(InfoOf(operation).cons_name),
                    ",est=", connection.established_ms.value(),
                    ",to=", connection.timeout_ms.value());
    if (connection.last_xid.value() >= 0) {
      absl::StrAppend(to, ",lcxid=", Hex(connection.last_xid.value()));
    }
    absl::StrAppend(to, ",lzxid=", Hex(connection.last_zxid.value()),
                    ",lresp=", connection.last_response_ms.value(),
                    ",llat=", shown(connection.last_latency_ms),
                    ",minlat=", shown(connection.latency_min_ms),
                    ",avglat=", count == 0 ? 0 : connection.latency_sum_ms.value() / count,
                    ",maxlat=", shown(connection.latency_max_ms));
  }
  absl::StrAppend(to, ")\n");
}

// Returns a function that appends a line for each connection, in pieces, and then the text that
// `end` returns.
FourLetterWords::Pieces ConnectionLines(const Statistics* statistics, bool whole,
                                        std::function<std::string(const tree::Tree&)> end) {
  return [statistics, whole, end = std::move(end), next = uint32_t{0}](const tree::Tree& tree,
                                                                       std::string* to) mutable {
    const std::optional<uint32_t> tag = statistics->Visit(
        next, kPieceLines, [&](const ConnectionStatistics& connection, bool cleared) {
          AppendConnection(connection, cleared, whole, to);
        });
    if (tag.has_value()) {
      next = *tag;
      return true;
    }
    *to += end(tree);
    return false;
  };
}

}  // namespace

FourLetterWords::FourLetterWords(ZkFrontend* frontend) : frontend_(*frontend) {}

std::span<const std::string_view> FourLetterWords::All() { return kWords; }

size_t FourLetterWords::BytesOf(std::string_view word) const {
  ASSERT(word.size() == kWordBytes);
  if (std::find(std::begin(kWords), std::end(kWords), word) == std::end(kWords)) return 0;
  const bool has_argument = word == kSetTraceMask && frontend_.config().AllowsFourLetterWord(word);
  return kWordBytes + (has_argument ? kTraceMaskBytes : 0);
}

FourLetterWords::Pieces FourLetterWords::Answer(std::string_view bytes, std::string* to) {
  const std::string_view word = bytes.substr(0, kWordBytes);
  if (!frontend_.config().AllowsFourLetterWord(word)) {
    absl::StrAppend(to, std::string(word),
                    " is not executed because it is not in the whitelist.\n");
    return nullptr;
  }
  const ServerStatus status = frontend_.service().status();
  const bool serving = status.serving() || status.read_only;
  if (word == "ruok") {
    *to += "imok";
  } else if (word == "isro") {
    *to += !serving ? "null" : status.read_only ? "ro" : "rw";
  } else if (word == "envi") {
    *to += Environment();
  } else if (word == "gtmk") {
    absl::StrAppend(to, frontend_.info().trace_mask());
  } else if (word == kSetTraceMask) {
    frontend_.info().set_trace_mask(LoadInt<std::endian::big, int64_t>(bytes.data() + kWordBytes));
    absl::StrAppend(to, frontend_.info().trace_mask());
  } else if (!serving) {
    *to += "This ZooKeeper instance is not currently serving requests\n";
  } else {
    return AnswerServing(word, status, to);
  }
  return nullptr;
}

FourLetterWords::Pieces FourLetterWords::AnswerServing(std::string_view word,
                                                       const ServerStatus& status,
                                                       std::string* to) {
  if (word == "srvr") {
    return [this, status](const tree::Tree& tree, std::string* text) {
      *text += VersionLines(status) + ServerLines(status, tree);
      return false;
    };
  }
  if (word == "stat") return Status(status);
  if (word == "mntr") return Monitor(status);
  if (word == "cons") return Connections();
  if (word == "dump") return Dump();
  if (word == "wchc") return WatchesByConnection();
  if (word == "wchp") return WatchesByPath();
  if (word == "wchs") {
    return [this](const tree::Tree&, std::string* text) {
      Watches& watches = frontend_.watches();
      MutexLock lock(&watches.mutex);
      absl::StrAppend(text, watches.table.node_watcher_count(), " connections watching ",
                      watches.table.node_path_count(),
                      " paths\nTotal watches:", watches.table.node_watch_count(), "\n");
      return false;
    };
  }
  if (word == "hash") {
    return [](const tree::Tree& tree, std::string* text) {
      absl::StrAppend(text, absl::StrFormat("%x: %d\n", tree.last_zxid().value(), tree.digest()));
      return false;
    };
  }
  if (word == "conf") {
    return [this](const tree::Tree& tree, std::string* text) {
      *text += Configuration(tree);
      return false;
    };
  }
  if (word == "dirs") {
    *to += Directories();
  } else if (word == "crst") {
    frontend_.statistics().ResetConnections();
    *to += "Connection stats reset.\n";
  } else {
    ASSERT(word == "srst");
    frontend_.statistics().ResetServer();
    *to += "Server stats reset.\n";
  }
  return nullptr;
}

// --- The server ----------------------------------------------------------------------------------

std::string FourLetterWords::VersionLines(const ServerStatus& status) const {
  return absl::StrCat("Zookeeper version: ", ToAbsl(kReportedVersion), "\n",
                      status.read_only ? "READ-ONLY mode; serving only read-only clients\n" : "");
}

std::string FourLetterWords::ServerLines(const ServerStatus& status, const tree::Tree& tree) {
  const Statistics& statistics = frontend_.statistics();
  const Statistics::Totals totals = statistics.Sum();
  std::string text = absl::StrCat(
      "Latency min/avg/max: ", totals.latency_ms.shown_min(), "/",
      DecimalText(totals.latency_ms.average()), "/", totals.latency_ms.max,
      "\nReceived: ", totals.packets_received, "\nSent: ", totals.packets_sent,
      "\nConnections: ", statistics.connections(), "\nOutstanding: ", statistics.outstanding(),
      "\nZxid: ", Hex(tree.last_zxid().value()), "\nMode: ");
  absl::StrAppend(&text, std::string(frontend_.info().ModeName(status)),
                  "\nNode count: ", tree.node_count(), "\n");
  if (status.is_leader && !status.standalone) {
    const ServerMetrics metrics = frontend_.service().metrics();
    absl::StrAppend(&text, "Proposal sizes last/min/max: ", metrics.proposal_bytes_last, "/",
                    metrics.proposal_bytes_min, "/", metrics.proposal_bytes_max, "\n");
  }
  return text;
}

FourLetterWords::Pieces FourLetterWords::Status(const ServerStatus& status) {
  Pieces lines = ConnectionLines(
      &frontend_.statistics(), /*whole=*/false,
      [this, status](const tree::Tree& tree) { return "\n" + ServerLines(status, tree); });
  return [this, status, lines = std::move(lines), begun = false](const tree::Tree& tree,
                                                                 std::string* to) mutable {
    if (!std::exchange(begun, true)) *to += VersionLines(status) + "Clients:\n";
    return lines(tree, to);
  };
}

FourLetterWords::Pieces FourLetterWords::Connections() {
  return ConnectionLines(&frontend_.statistics(), /*whole=*/true,
                         [](const tree::Tree&) { return std::string("\n"); });
}

FourLetterWords::Pieces FourLetterWords::Monitor(const ServerStatus& status) {
  const ServerInfo::Descriptors descriptors = ServerInfo::CountDescriptors();
  return [this, status, descriptors](const tree::Tree& tree, std::string* to) {
    frontend_.info().ReadMetrics(
        status, descriptors, TreeTotals(tree),
        [to](const MetricSources& sources) { *to += MonitorText(sources); });
    return false;
  };
}

// --- The process ---------------------------------------------------------------------------------

std::string FourLetterWords::Configuration(const tree::Tree& tree) {
  const Config& config = frontend_.config();
  const auto line = [&config](std::string_view key) { return ConfigLine(key, config); };
  // A port on which the server does not listen is -1.
  const auto port = [&line](std::string_view key, uint16_t number) {
    return number == 0 ? absl::StrCat(ToAbsl(key), "=-1\n") : line(key);
  };
  std::string text = absl::StrCat(
      port("clientPort", config.client_port), port("secureClientPort", config.secure_client_port),
      line("dataDir"), "dataDirSize=", ServerInfo::FileBytes(config.data_dir), "\n",
      line("dataLogDir"), "dataLogSize=", ServerInfo::FileBytes(config.log_dir), "\n",
      line("tickTime"), line("maxClientCnxns"), line("minSessionTimeout"),
      line("maxSessionTimeout"), "clientPortListenBacklog=-1\nserverId=", config.my_id, "\n");
  if (config.standalone()) return text;
  const ServerLine& own = config.servers.at(config.my_id);
  absl::StrAppend(&text, line("initLimit"), line("syncLimit"),
                  "electionAlg=3\nelectionPort=", own.election_port, "\nquorumPort=", own.peer_port,
                  "\npeerType=", frontend_.service().status().observer ? 1 : 0, "\nmembership: \n",
                  ReadMembersText(tree, frontend_.members_text()));
  return text;
}

std::string FourLetterWords::Environment() const {
  std::string text = "Environment:\n";
  for (const auto& [name, value] : ServerInfo::Environment()) {
    absl::StrAppend(&text, name, "=", value, "\n");
  }
  return text;
}

std::string FourLetterWords::Directories() const {
  return absl::StrCat("datadir_size: ", ServerInfo::FileBytes(frontend_.config().data_dir),
                      "\nlogdir_size: ", ServerInfo::FileBytes(frontend_.config().log_dir), "\n");
}

// --- Sessions ------------------------------------------------------------------------------------

FourLetterWords::Pieces FourLetterWords::Dump() {
  // Each piece shows sessions and ephemeral nodes in their state at that time.
  struct Progress {
    enum class Stage { kBegin, kLocal, kGlobal, kSessions, kCount, kEphemerals, kConnections };
    Stage stage = Stage::kBegin;
    tree::SessionId last = kBeforeSessions;  // the last one that was shown or counted
    std::string last_ephemeral;              // of the session after `last`; empty: none yet
    size_t with_ephemerals = 0;
    Pieces connections;
  };
  auto progress = std::make_shared<Progress>();
  progress->connections = [statistics = &frontend_.statistics(), next = uint32_t{0}](
                              const tree::Tree&, std::string* to) mutable {
    if (next == 0) {
      absl::StrAppend(to, "Connections dump:\nConnections (", statistics->connections(), "):\n");
    }
    const std::optional<uint32_t> tag =
        statistics->Visit(next, kPieceLines, [&](const ConnectionStatistics& connection, bool) {
          absl::StrAppend(to, "\tip: /", connection.peer,
                          " sessionId: ", Hex(connection.session_id.value()), "\n");
        });
    next = tag.value_or(0);
    return tag.has_value();
  };
  return [progress, frontend = &frontend_](const tree::Tree& tree, std::string* to) {
    using Stage = Progress::Stage;
    Progress& p = *progress;
    if (p.stage == Stage::kConnections) return p.connections(tree, to);
    if (p.stage == Stage::kBegin) {
      absl::StrAppend(to, "SessionTracker dump:\n");
      p.stage = frontend->config().local_sessions ? Stage::kLocal : Stage::kGlobal;
      // ZooKeeper has a set for each time at which sessions expire; here they are one set.
      const size_t count = frontend->local_sessions().size();
      if (p.stage == Stage::kLocal) {
        absl::StrAppend(to, "Local Session Sets (", count > 0 ? 1 : 0, ")/(", count, "):\n");
      }
    }
    if (p.stage == Stage::kLocal) {
      const auto locals = frontend->local_sessions().After(p.last, kPieceLines);
      for (const LocalSessions::Shown& session : locals) {
        absl::StrAppend(to, "\t", Hex(session.id.value()), "\n");
        p.last = session.id;
      }
      if (locals.size() == kPieceLines) return true;
      p.last = kBeforeSessions;
      p.stage = Stage::kGlobal;
    }
    if (p.stage == Stage::kGlobal) {
      absl::StrAppend(to, "Global Sessions(", tree.session_count(), "):\n");
      p.stage = Stage::kSessions;
    }
    const std::vector<tree::SessionInfo> sessions = tree.SessionsAfter(p.last, kPieceLines);
    size_t lines = 0;
    for (const tree::SessionInfo& session : sessions) {
      if (p.stage == Stage::kSessions) {
        absl::StrAppend(to, Hex(session.id.value()), "\t", session.timeout_ms, "ms\n");
      } else if (p.stage == Stage::kCount) {
        p.with_ephemerals += session.ephemerals > 0 ? 1 : 0;
      } else if (session.ephemerals > 0) {
        if (lines >= kPieceLines) return true;
        if (p.last_ephemeral.empty()) absl::StrAppend(to, Hex(session.id.value()), ":\n");
        bool more = false;
        tree.ReadEphemerals(session.id, p.last_ephemeral, [&](std::string_view path) {
          more = lines++ >= kPieceLines;
          if (more) return false;
          absl::StrAppend(to, "\t", EscapeLine(path), "\n");
          p.last_ephemeral = path;
          return true;
        });
        if (more) return true;
        p.last_ephemeral.clear();
      }
      p.last = session.id;
    }
    if (sessions.size() == kPieceLines) return true;
    p.last = kBeforeSessions;
    if (p.stage == Stage::kCount) {
      absl::StrAppend(to, "ephemeral nodes dump:\nSessions with Ephemerals (", p.with_ephemerals,
                      "):\n");
    }
    p.stage = static_cast<Stage>(static_cast<int>(p.stage) + 1);
    return true;
  };
}

// --- Watches -------------------------------------------------------------------------------------
// As in ZooKeeper: only watches of nodes, not of their children.

FourLetterWords::Pieces FourLetterWords::WatchesByPath() {
  return [this, shown = ZkFrontend::WatchesShown{kWatchesShownMax, kWatchBytesShownMax}](
             const tree::Tree&, std::string* to) mutable {
    std::string path_shown;
    std::set<int64_t> sessions;  // the sessions that watch the path
    const auto show = [&] {
      // A client may watch a path that is not legal, and so may have control characters.
      if (!sessions.empty()) absl::StrAppend(to, EscapeLine(path_shown), "\n");
      for (int64_t session : sessions) absl::StrAppend(to, "\t", Hex(session), "\n");
      sessions.clear();
    };
    frontend_.ShowNodeWatches(&shown, [&](std::string_view path, int64_t session) {
      if (path != path_shown) show();
      path_shown = path;
      sessions.insert(session);
    });
    show();
    if (shown.done) absl::StrAppend(to, shown.all ? "" : kMoreWatches, "\n");
    return !shown.done;
  };
}

FourLetterWords::Pieces FourLetterWords::WatchesByConnection() {
  struct Progress {
    ZkFrontend::WatchesShown shown{kWatchesShownMax, kWatchBytesShownMax};
    std::map<int64_t, std::set<std::string>> paths;  // by session
    std::optional<int64_t> named;
  };
  return [this, progress = std::make_shared<Progress>()](const tree::Tree&, std::string* to) {
    ZkFrontend::WatchesShown& shown = progress->shown;
    std::map<int64_t, std::set<std::string>>& paths = progress->paths;
    if (!shown.done) {
      frontend_.ShowNodeWatches(&shown, [&paths](std::string_view path, int64_t session) {
        paths[session].emplace(path);
      });
      return true;
    }
    size_t lines = 0;
    while (!paths.empty() && lines < kPieceLines) {
      auto& [session, of_session] = *paths.begin();
      // If a session's paths continue in the next piece, the session is not named again.
      if (progress->named != session) absl::StrAppend(to, Hex(session), "\n");
      progress->named = session;
      for (; !of_session.empty() && lines < kPieceLines; ++lines) {
        absl::StrAppend(to, "\t", EscapeLine(*of_session.begin()), "\n");
        of_session.erase(of_session.begin());
      }
      if (of_session.empty()) paths.erase(paths.begin());
    }
    if (!paths.empty()) return true;
    absl::StrAppend(to, shown.all ? "" : kMoreWatches, "\n");
    return false;
  };
}

}  // namespace quorate::rpc::zk
