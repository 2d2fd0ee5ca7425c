// cairn completion bash: a completion script made from the option tables.
#include <string.h>

#include "tools/commands.h"
#include "tools/help.h"

static int run_completion(crn_tool *t, const void *values) {
  (void)values;
  int n;
  const crn_tool_command *const *commands = crn_tool_commands(&n);
  if (strcmp(t->positionals[0], "bash") != 0)
    return crn_tool_usage_error(t, "'%s' is no shell with completion; there is bash", t->positionals[0]);
  return crn_tool_flush(t, crn_tool_result(t, crn_tool_completion_bash(t, commands, n)));
}

const crn_tool_command crn_command_completion = {
    .name = "completion",
    .synopsis = "bash",
    .summary = "completion of commands and options for a shell",
    .description = "Prints a script that completes the commands and options of cairn in bash:\n\n  source <(cairn completion bash)",
    .min_positionals = 1,
    .max_positionals = 1,
    .run = run_completion,
};
