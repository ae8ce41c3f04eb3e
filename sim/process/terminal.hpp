#pragma once

namespace trainyard {

/// Whether what goes to stdout may be coloured: a terminal, and no NO_COLOR in the environment (no-color.org).
bool colours_on_stdout();

/// From then on there are no progress lines.
void be_quiet();
bool is_quiet();
/// What is printed to stdout is lost from then on.
void drop_stdout();

}  // namespace trainyard
