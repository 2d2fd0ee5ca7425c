/// Help in its three forms, all from the option tables.
#ifndef CRN_TOOLS_HELP_H
#define CRN_TOOLS_HELP_H

#include "tools/tool.h"

/// The whole help of a command on stdout.
cairn_status crn_tool_help_text(crn_tool *t, const crn_tool_command *command);
/// {"name","synopsis","summary","options":[{"name","short","argument","choices","group","help"}]} on stdout.
cairn_status crn_tool_help_json(crn_tool *t, const crn_tool_command *command);
/// All commands: an overview, or an array of what crn_tool_help_json gives.
cairn_status crn_tool_overview_text(crn_tool *t, const crn_tool_command *const *commands, int n);
cairn_status crn_tool_overview_json(crn_tool *t, const crn_tool_command *const *commands, int n);
/// A bash completion script for the program and its commands.
cairn_status crn_tool_completion_bash(crn_tool *t, const crn_tool_command *const *commands, int n);

#endif
