#pragma once
#include <string>
#include <utility>
#include <vector>

#include "models/reading/registry.hpp"
#include "tools/verbs/arguments.hpp"

namespace trainyard {

/// A verb of the command: one file each, which registers itself.
struct Verb {
  std::string name;
  std::string summary;
  int (*run)(const std::vector<std::string>& words) = nullptr;  ///< the words after the verb; returns the exit code
  /// For programs: what it writes with --json. Null: it is for people alone. Throws UserError, MachineLimit, Interrupted.
  std::string (*answer)(const VerbQuestion&) = nullptr;
};
Registry<Verb>& verbs();
/// What the program does with its words: runs the verb, and says on stderr, in a line, what is wrong. Returns the exit code.
int run_command(const std::vector<std::string>& words);
/// What `trainyard help` prints: the verbs, a line each.
std::string usage();
/// The kinds of names that `trainyard list` knows, each with the key that takes it and the meaning of the figures.
std::vector<std::pair<std::string, std::string>> listed_kinds();

struct RegisterVerb {
  RegisterVerb(const char* name, const char* summary, int (*run)(const std::vector<std::string>&),
               std::string (*answer)(const VerbQuestion&) = nullptr) {
    verbs().add(name, {name, summary, run, answer});
  }
};

/// Exit codes: 1 is an answer that fails a limit the user stated.
constexpr int kGood = 0, kFailsLimit = 1, kBadInput = 2, kInterrupted = 3, kBug = 70;

}  // namespace trainyard
