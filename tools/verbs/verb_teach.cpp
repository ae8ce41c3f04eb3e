#include <fmt/format.h>

#include "tools/verbs/teach.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {

Registry<TeachTopic>& teach_topics() {
  static Registry<TeachTopic> registry{"topic"};
  return registry;
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
    fmt::print("{}", teach_usage());
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
