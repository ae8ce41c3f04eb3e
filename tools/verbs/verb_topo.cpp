#include <fmt/format.h>

#include "tools/verbs/topo.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {

Registry<TopoVerb>& topo_verbs() {
  static Registry<TopoVerb> registry{"verb of topo"};
  return registry;
}

namespace {

std::string topo_usage() {
  std::string text =
      "trainyard topo: what a machine's wiring can do, and which wiring to buy\n\nusage: trainyard topo VERB ...\n\n";
  for (const std::string& name : topo_verbs().names()) {
    const TopoVerb& verb = topo_verbs().find(name, {});
    text += fmt::format("  {:10} {}\n", verb.name, verb.summary);
  }
  return text +
         "\n`trainyard topo VERB --help` explains each verb. Example:\n  trainyard topo design --hosts 1024 --ports "
         "64\n";
}

int topo_verb(const std::vector<std::string>& words) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    print(topo_usage());
    return words.empty() ? kBadInput : kGood;
  }
  return topo_verbs().find(words[0], Place::named("trainyard topo")).run({words.begin() + 1, words.end()});
}

const RegisterVerb registered_topo{"topo", VerbGroup::choose,
                                   "examine or design the wiring: show, check, design, path, rings, import, export",
                                   topo_verb};

}  // namespace
}  // namespace trainyard
