// SPDX-License-Identifier: Apache-2.0

// quorate: runs the subcommands of Quorate's command line.

#include "base/build_version.h"
#include "tools/administration/member_command.h"
#include "tools/administration/rolling_restart.h"
#include "tools/administration/sessions_command.h"
#include "tools/administration/status.h"
#include "tools/backup/backup.h"
#include "tools/backup/recover.h"
#include "tools/backup/restore.h"
#include "tools/bench/command.h"
#include "tools/certs/command.h"
#include "tools/cli/command_line.h"
#include "tools/cli/completion_command.h"
#include "tools/monitor/doctor_command.h"
#include "tools/monitor/slow_command.h"
#include "tools/monitor/top_command.h"
#include "tools/offline/commands.h"
#include "tools/shell/guard_commands.h"
#include "tools/shell/shell_command.h"
#include "tools/shell/watch_command.h"
#include "tools/shell/word_candidates.h"
#include "tools/zookeeper/commands.h"

int main(int argc, char** argv) {
  quorate::tools::CommandLine command_line;
  command_line.SetVersion(quorate::ProgramVersionText());
  quorate::tools::AddStatusCommands(&command_line);
  quorate::tools::AddTopCommand(&command_line);
  quorate::tools::AddSlowCommand(&command_line);
  quorate::tools::AddDoctorCommand(&command_line);
  quorate::tools::AddRollingRestartCommand(&command_line);
  quorate::tools::AddMemberCommands(&command_line);
  quorate::tools::AddSessionsCommands(&command_line);
  quorate::tools::AddShellCommand(&command_line);
  quorate::tools::AddWatchCommand(&command_line);
  quorate::tools::AddLockCommand(&command_line);
  quorate::tools::AddElectCommand(&command_line);
  quorate::tools::AddBackupCommand(&command_line);
  quorate::tools::AddRestoreCommand(&command_line);
  quorate::tools::AddRecoverCommand(&command_line);
  quorate::tools::AddCertsCommands(&command_line);
  quorate::tools::bench::AddBenchCommand(&command_line);
  quorate::tools::AddOfflineCommands(&command_line);
  quorate::tools::zookeeper::AddImportCommand(&command_line);
  quorate::tools::zookeeper::AddExportCommand(&command_line);
  quorate::tools::AddCompletionCommand(&command_line, quorate::tools::ShellWordCandidates);
  return command_line.Run(argc, argv);
}
