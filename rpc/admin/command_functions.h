// SPDX-License-Identifier: Apache-2.0

// The functions of the table of commands (commands.cc). Each adds the fields of one command, as
// ZooKeeper's documentation of the AdminServer lists them. ReportSlowRequests,
// ReportTopRequests and ReportLatencies are Quorate's own.
//
// Thread-safety: any thread. Those that show sessions, connections and watches lock the tree or a
// table for a part of them at a time.
#pragma once

#include "rpc/admin/commands.h"

namespace quorate::rpc::admin {

// --- The server (server_commands.cc) -------------------------------------------------------------
void ReportNothing(const CommandContext& context, Json* fields);
void ReportConfiguration(const CommandContext& context, Json* fields);
void ReportDirectories(const CommandContext& context, Json* fields);
void ReportEnvironment(const CommandContext& context, Json* fields);
void ReportHash(const CommandContext& context, Json* fields);
void ReportInitialConfiguration(const CommandContext& context, Json* fields);
void ReportLastSnapshot(const CommandContext& context, Json* fields);
void ReportMonitor(const CommandContext& context, Json* fields);
void ReportReadOnly(const CommandContext& context, Json* fields);
void ReportServerStatistics(const CommandContext& context, Json* fields);
void ReportSystemProperties(const CommandContext& context, Json* fields);
void ReportTraceMask(const CommandContext& context, Json* fields);
void ResetConnectionStatistics(const CommandContext& context, Json* fields);
void ResetServerStatistics(const CommandContext& context, Json* fields);
void SetTraceMask(const CommandContext& context, Json* fields);

// --- The cluster (cluster_commands.cc) -----------------------------------------------------------
void ReportLeader(const CommandContext& context, Json* fields);
void ReportObservers(const CommandContext& context, Json* fields);
void ReportVotingView(const CommandContext& context, Json* fields);
void ReportZabState(const CommandContext& context, Json* fields);

// --- Clients (client_commands.cc) ----------------------------------------------------------------
void ReportConnections(const CommandContext& context, Json* fields);
void ReportDump(const CommandContext& context, Json* fields);
void ReportLatencies(const CommandContext& context, Json* fields);
void ReportSlowRequests(const CommandContext& context, Json* fields);
void ReportStatistics(const CommandContext& context, Json* fields);
void ReportTopRequests(const CommandContext& context, Json* fields);
void ReportWatchSummary(const CommandContext& context, Json* fields);
void ReportWatches(const CommandContext& context, Json* fields);
void ReportWatchesByPath(const CommandContext& context, Json* fields);

}  // namespace quorate::rpc::admin
