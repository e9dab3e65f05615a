// quorate: the command line of Quorate.

#include "base/build_version.h"
#include "tools/backup.h"
#include "tools/bench/command.h"
#include "tools/command_line.h"
#include "tools/completion_command.h"
#include "tools/offline/commands.h"
#include "tools/restore.h"
#include "tools/rolling_restart.h"
#include "tools/shell/guard_commands.h"
#include "tools/shell/shell_command.h"
#include "tools/shell/watch_command.h"
#include "tools/shell/word_candidates.h"
#include "tools/status.h"
#include "tools/zookeeper/commands.h"

int main(int argc, char** argv) {
  quorate::tools::CommandLine command_line;
  command_line.SetVersion(quorate::ProgramVersionText());
  quorate::tools::AddStatusCommands(&command_line);
  quorate::tools::AddRollingRestartCommand(&command_line);
  quorate::tools::AddShellCommand(&command_line);
  quorate::tools::AddWatchCommand(&command_line);
  quorate::tools::AddLockCommand(&command_line);
  quorate::tools::AddElectCommand(&command_line);
  quorate::tools::AddBackupCommand(&command_line);
  quorate::tools::AddRestoreCommand(&command_line);
  quorate::tools::bench::AddBenchCommand(&command_line);
  quorate::tools::AddOfflineCommands(&command_line);
  quorate::tools::zookeeper::AddImportCommand(&command_line);
  quorate::tools::zookeeper::AddExportCommand(&command_line);
  quorate::tools::AddCompletionCommand(&command_line, quorate::tools::ShellWordCandidates);
  return command_line.Run(argc, argv);
}
