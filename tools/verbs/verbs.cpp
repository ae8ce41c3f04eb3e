#include "tools/verbs/verbs.hpp"

#include <fmt/format.h>

#include <new>

#include "models/reading/document_text.hpp"
#include "models/reading/program_version.hpp"
#include "sim/error.hpp"
#include "sim/process/job.hpp"
#include "tools/reports/table.hpp"

namespace trainyard {
namespace {

constexpr std::pair<VerbGroup, const char*> kGroupTitles[] = {
    {VerbGroup::predict, "Predict a training step"},
    {VerbGroup::choose, "Choose a machine and a plan"},
    {VerbGroup::measure, "Measure: simulated times beside measured ones"},
    {VerbGroup::learn, "Learn: loss against simulated time"},
    {VerbGroup::teach, "Teach how distributed training works"},
    {VerbGroup::prepare, "Write scenarios and look things up"},
};

int run_words(const std::vector<std::string>& words) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h") {
    print(usage());
    return words.empty() ? kBadInput : kGood;
  }
  if (words[0] == "--version") {
    print(fmt::format("trainyard {}\n", program_version()));
    return kGood;
  }
  return verbs().find(words[0], Place::named("trainyard")).run({words.begin() + 1, words.end()});
}

}  // namespace

Registry<Verb>& verbs() {
  static Registry<Verb> registry{"verb"};
  return registry;
}

std::string answer_program(const Verb& verb, const VerbQuestion& question) {
  if (question.keyed_name.empty()) return verb.answer(question);
  try {
    return places_as_keys(verb.answer(question), *question.document, question.keyed_name);
  } catch (const UserError& e) {
    throw UserError(places_as_keys(e.what(), *question.document, question.keyed_name));
  }
}

int run_command(const std::vector<std::string>& words) {
  try {
    const int code = run_words(words);
    check_printed();
    return code;
  } catch (const UserError& e) {
    complain(e.what());
    return kBadInput;
  } catch (const MachineLimit& e) {
    complain(e.what());
    return kBadInput;
  } catch (const Interruption& e) {
    complain(e.what());
    return kInterrupted;
  } catch (const std::bad_alloc&) {
    complain("trainyard: not enough memory for this run");
    return kBadInput;
  } catch (const std::exception& e) {
    complain(fmt::format("trainyard: internal error (please report it): {}", e.what()));
    return kBug;
  }
}

std::string usage() {
  constexpr std::size_t width = 120, summary_column = 13;
  std::string text =
      "trainyard: how long a training step takes, what limits it, whether it fits, what to change\n\nusage: trainyard "
      "VERB ...\n\n";
  for (const auto& [group, title] : kGroupTitles) {
    text += fmt::format("{}:\n", title);
    for (const std::string& name : verbs().names())
      if (const Verb& verb = verbs().find(name, {}); verb.group == group)
        text += hanging_lines(fmt::format("  {:10} {}", name, verb.summary), width, summary_column);
  }
  return text + "\n`trainyard VERB --help` explains each verb. Start with:\n  trainyard run gpt2-xl-ddp-dgx-a100\n";
}

}  // namespace trainyard
