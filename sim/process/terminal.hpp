#pragma once
namespace trainyard {

/// Returns true if stdout may be coloured: it is a terminal, and NO_COLOR is not in the environment (no-color.org).
bool colours_on_stdout();
bool stdout_is_terminal();

/// Turns off progress lines for the rest of the process.
void be_quiet();
bool is_quiet();
/// Progress lines if stderr is not a terminal: every ten seconds always, only after a minute (the default), or never.
/// TRAINYARD_PROGRESS in the environment can be "always" or "never".
enum class ProgressLines { after_a_minute, always, never };
void want_progress(ProgressLines);
ProgressLines wanted_progress();
/// Discards everything printed to stdout from now on.
void drop_stdout();

}  // namespace trainyard
