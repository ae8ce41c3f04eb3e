#include <fmt/format.h>

#include "sim/process/output.hpp"
#include "tools/verbs/teaching/teach.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {

Registry<TeachTopic>& teach_topics() {
  static Registry<TeachTopic> registry{"topic"};
  return registry;
}

int label_start(int number) {
  if (number < 0 || number > 1) throw UserError(fmt::format("--labels-from {}: 0 or 1 expected", number));
  return number;
}

double shown_slots(const std::string& flag, const std::string& text, bool zero_too) {
  constexpr double kMost = 1e6;
  double value = 0;
  try {
    value = parse_number(text);
  } catch (const UserError& e) {
    throw UserError(fmt::format("{}: {}", flag, e.what()));
  }
  if (value < (zero_too ? 0 : 1e-3) || value > kMost)
    throw UserError(fmt::format("{} {}: {} to {:.0f} expected", flag, text, zero_too ? "0" : "0.001", kMost));
  return value;
}

namespace {

std::string teach_usage() {
  std::string text =
      "trainyard teach: one thing, step by step, as the simulator does it\n\nusage: trainyard teach TOPIC ...\n\n";
  for (const std::string& name : teach_topics().names()) {
    const TeachTopic& topic = teach_topics().find(name, {});
    if (!topic.summary.empty()) text += fmt::format("  {:15} {}\n", topic.name, topic.summary);
  }
  return text +
         "\n`trainyard teach TOPIC --help` explains each. Example:\n  trainyard teach all-reduce --algorithm ring "
         "--ranks 4\n";
}

int teach(const std::vector<std::string>& words) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    print(teach_usage());
    return words.empty() ? kBadInput : kGood;
  }
  Place place;
  place.file = std::make_shared<const std::string>("trainyard teach");
  const TeachTopic& topic = teach_topics().find(words[0], place);
  return topic.run(topic.name, {words.begin() + 1, words.end()});
}

const RegisterVerb registered_teach{"teach", "a collective, a pipeline, ZeRO's memory: step by step, as simulated",
                                    teach};

}  // namespace
}  // namespace trainyard
