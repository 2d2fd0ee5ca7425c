/// Every command of the program. A command is one file, cmd_<name>.c.
#ifndef CRN_TOOLS_COMMANDS_H
#define CRN_TOOLS_COMMANDS_H

#include "tools/options.h"

extern const crn_tool_command crn_command_run;
extern const crn_tool_command crn_command_generate;
extern const crn_tool_command crn_command_chat;
extern const crn_tool_command crn_command_bench;
extern const crn_tool_command crn_command_cache;
extern const crn_tool_command crn_command_compile;
extern const crn_tool_command crn_command_inspect;
extern const crn_tool_command crn_command_import;
extern const crn_tool_command crn_command_tokenize;
extern const crn_tool_command crn_command_template;
extern const crn_tool_command crn_command_completion;
extern const crn_tool_command crn_command_version;
/// The alias with Apple's flag spellings.
extern const crn_tool_command crn_command_llm_runner;
extern const crn_tool_command crn_command_llm_benchmark;

/// The commands in the order help lists them.
const crn_tool_command *const *crn_tool_commands(int *out_n);

#endif
