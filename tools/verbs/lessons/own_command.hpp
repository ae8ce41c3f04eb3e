#pragma once
#include <string>

namespace trainyard {

/// What a command of ours answers: its screen, what it writes with --json, and its picture or page.
struct CommandAnswer {
  std::string screen, json, picture;
};

/// Runs a line of our own verbs ("bench all_reduce --on dgx-a100"). Words that begin with "scenarios/" are shipped files.
/// `picture`: the flag by which the verb draws (html, svg, picture); empty: no picture. Quotes hold words together. Throws
/// what the command throws, and Interrupted.
CommandAnswer answer_of(const std::string& command, const std::string& picture = "");

}  // namespace trainyard
