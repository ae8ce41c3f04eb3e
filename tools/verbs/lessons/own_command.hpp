#pragma once
#include <string>

namespace trainyard {

/// The answer of a trainyard command: the text on its screen, its JSON, and its picture or page.
struct CommandAnswer {
  std::string screen, json, picture;
};

/// Runs a trainyard command in this process ("bench all_reduce --on dgx-a100"). Words that begin with "scenarios/" are
/// shipped files. Quotes hold words together. `picture`: the flag by which the verb draws (html, svg, picture); empty:
/// no picture. Throws the errors of the command, and Interruption.
CommandAnswer answer_of(const std::string& command, const std::string& picture = "");

}  // namespace trainyard
