// SPDX-License-Identifier: Apache-2.0

// The commands on watches: addWatch, removewatches, printwatches.

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/shell/command.h"
#include "tools/shell/shell.h"

namespace quorate::tools::shell {
namespace {

absl::Status AddWatch(Invocation& invocation) {
  const std::string mode = invocation.Has('m') ? invocation.Value('m') : "PERSISTENT_RECURSIVE";
  if (mode != "PERSISTENT" && mode != "PERSISTENT_RECURSIVE") {
    return absl::InvalidArgumentError(
        absl::StrCat("addWatch: there is no mode ", mode,
                     "; the modes are PERSISTENT and PERSISTENT_RECURSIVE\nusage: ",
                     UsageOf(invocation.command())));
  }
  return invocation.shell().watches().Add(
      invocation.client(), invocation.path(),
      mode == "PERSISTENT" ? WatchKind::kPersistent : WatchKind::kPersistentRecursive, 0);
}

absl::Status RemoveWatches(Invocation& invocation) {
  constexpr std::array<WatchKind, 4> kKinds = {WatchKind::kData, WatchKind::kChildren,
                                               WatchKind::kPersistent,
                                               WatchKind::kPersistentRecursive};
  const bool only_data = invocation.Has('d') && !invocation.Has('a');
  const bool only_children = invocation.Has('c') && !invocation.Has('a');
  size_t removed = 0;
  for (const WatchKind kind : kKinds) {
    const bool is_meant = (!only_data && !only_children) ||
                          (only_data && kind == WatchKind::kData) ||
                          (only_children && kind == WatchKind::kChildren);
    if (is_meant && invocation.shell().watches().Remove(invocation.path(), kind)) ++removed;
  }
  invocation.json()["removed"] = removed;
  if (removed != 0) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat("KeeperErrorCode = No such watcher for ", invocation.path()));
}

absl::Status PrintWatches(Invocation& invocation) {
  Watches& watches = invocation.shell().watches();
  if (const auto word = invocation.argument(0)) {
    if (*word != "on" && *word != "off") {
      return absl::InvalidArgumentError("usage: " + UsageOf(invocation.command()));
    }
    watches.SetPrints(*word == "on");
  } else {
    invocation.Line(absl::StrCat("printwatches is ", watches.prints() ? "on" : "off"));
  }
  invocation.json()["prints"] = watches.prints();
  return absl::OkStatus();
}

}  // namespace

std::vector<Command> WatchCommands() {
  return {
      {.name = "addWatch",
       .options = {{'m', "mode", "PERSISTENT or PERSISTENT_RECURSIVE (the default)"}},
       .arguments = "path",
       .arguments_min = 1,
       .arguments_max = 1,
       .summary = "Prints every change of a znode until the watch is removed",
       .details =
           "PERSISTENT watches the znode and the list of its children; PERSISTENT_RECURSIVE\n"
           "watches the znode and everything below it. The znode need not exist. In scripts,\n"
           "`quorate watch` is simpler.",
       .example = "addWatch /app\naddWatch -m PERSISTENT /app/config",
       .run = AddWatch},
      {.name = "removewatches",
       .options = {{'c', "", "only watches of the list of children (ls -w)"},
                   {'d', "", "only watches of the data (get -w, stat -w)"},
                   {'a', "", "all watches (the default)"},
                   {'l', "", "also without a connection; accepted as by zkCli.sh"}},
       .arguments = "path",
       .arguments_min = 1,
       .arguments_max = 1,
       .summary = "Ends the watches of this session on a znode",
       .details = "",
       .example = "removewatches /app",
       .run = RemoveWatches},
      {.name = "printwatches",
       .options = {},
       .arguments = "[on|off]",
       .arguments_min = 0,
       .arguments_max = 1,
       .summary = "Shows or sets whether events of watches are printed",
       .details = "",
       .example = "printwatches off",
       .takes_path = false,
       .is_local = true,
       .run = PrintWatches},
  };
}

}  // namespace quorate::tools::shell
