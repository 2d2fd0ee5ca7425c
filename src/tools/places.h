/// One rule for the files of a command line: places to write to can be written, and each is apart from all that is read or written else.
///
/// The tables of options tell which options name files (`place`), so that a new option is covered by its row.
#ifndef CRN_TOOLS_PLACES_H
#define CRN_TOOLS_PLACES_H

#include "tools/tool.h"

/// Checks the options of the command as they were given, before any work. A file of that name, or by whatever links, is the same place;
/// what is no regular file (a terminal, a pipe, /dev/null) may be used twice. Errors: those of tools/outputs.h; INVALID_ARGUMENT naming
/// both options.
cairn_status crn_places_check(crn_tool *t, const crn_tool_command *command, const void *values);
/// The same for a file that is read and that no option names, such as a picture of a conversation. When it is a place to write to, nothing
/// is written there any more: --trace is left out. Errors: INVALID_ARGUMENT naming the option.
cairn_status crn_places_check_read(crn_tool *t, const char *path);

#endif
