#pragma once
namespace trainyard {

/// Whether what goes to stdout may be coloured: a terminal, and no NO_COLOR in the environment (no-color.org).
bool colours_on_stdout();
bool stdout_is_terminal();

/// From then on there are no progress lines.
void be_quiet();
bool is_quiet();
/// Lines of progress on a stderr that is no terminal: every ten seconds always, after a minute (the default), or never.
/// TRAINYARD_PROGRESS in the environment says "always" or "never".
enum class ProgressLines { after_a_minute, always, never };
void want_progress(ProgressLines);
ProgressLines wanted_progress();
/// What is printed to stdout is lost from then on.
void drop_stdout();

}  // namespace trainyard
