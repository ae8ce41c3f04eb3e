#include "tools/verbs/verbs.hpp"

namespace trainyard {

Registry<Verb>& verbs() {
  static Registry<Verb> registry{"verb"};
  return registry;
}

std::string usage() {
  std::string text =
      "trainyard: how long a training step takes, what limits it, whether it fits, what to change\n\nusage: trainyard "
      "VERB ...\n\n";
  for (const std::string& name : verbs().names())
    text += fmt::format("  {:10} {}\n", name, verbs().find(name, {}).summary);
  return text +
         "\n`trainyard VERB --help` explains each. Start with:\n  trainyard run "
         "scenarios/gpt2-xl-ddp-dgx-a100.yaml\n";
}

}  // namespace trainyard
