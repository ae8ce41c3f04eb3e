#pragma once
#include <string>
#include <utility>
#include <vector>

#include "models/reading/registry.hpp"
#include "sim/process/output.hpp"
#include "tools/verbs/arguments.hpp"

namespace trainyard {

/// The aim of a user. `trainyard help` lists the verbs by aim, in this order.
enum class VerbGroup { predict, choose, measure, learn, teach, prepare };

/// A verb of the command. Each is one file, which registers itself.
struct Verb {
  std::string name;
  VerbGroup group = VerbGroup::predict;
  std::string summary;
  /// Takes the words after the verb; returns the exit code.
  int (*run)(const std::vector<std::string>& words) = nullptr;
  /// Answers a program with the text that --json writes. Null: the verb is for people only. Throws UserError,
  /// MachineLimit, Interruption.
  std::string (*answer)(const VerbQuestion&) = nullptr;
};
Registry<Verb>& verbs();
/// Answers the question of a program with a verb that has an answer. Errors in a document without lines name its keys.
std::string answer_program(const Verb&, const VerbQuestion&);
/// Runs the verb that the words name. Prints an error as one line on stderr. Returns the exit code.
int run_command(const std::vector<std::string>& words);
/// The text of `trainyard help`: the verbs by group, one line each.
std::string usage();
/// The kinds of names that `trainyard list` shows, each with the key that takes such a name and what its figures mean.
std::vector<std::pair<std::string, std::string>> listed_kinds();

struct RegisterVerb {
  RegisterVerb(const char* name, VerbGroup group, const char* summary, int (*run)(const std::vector<std::string>&),
               std::string (*answer)(const VerbQuestion&) = nullptr) {
    verbs().add(name, {name, group, summary, run, answer});
  }
};

/// Exit codes. kFailsLimit: the answer does not meet a limit that the user set. kBug: an internal error.
constexpr int kGood = 0, kFailsLimit = 1, kBadInput = 2, kInterrupted = 3, kBug = 70;

}  // namespace trainyard
