#pragma once
#include <string>

namespace trainyard {

/// What a command of ours answers: its screen, what it writes with --json, and its picture or page.
struct CommandAnswer {
  std::string screen, json, picture;
};

/// Runs a line of our own verbs ("bench all_reduce --on dgx-a100") in a process of its own, in the folder of the shipped
/// files, so that "scenarios/…" is found from anywhere. `picture`: the flag by which the verb draws (html, svg,
/// picture); empty: no picture. Quotes hold words together. Throws what the command throws.
CommandAnswer answer_of(const std::string& command, const std::string& picture = "");

}  // namespace trainyard
