#include <fmt/format.h>

#include <cstdio>
#include <new>

#include "sim/error.hpp"
#include "tools/verbs/verbs.hpp"

using namespace trainyard;

namespace {

void usage() {
  fmt::print(
      "trainyard: how long a training step takes, what limits it, whether it fits, what to change\n\nusage: trainyard "
      "VERB ...\n\n");
  for (const std::string& name : verbs().names()) {
    const Verb& verb = verbs().find(name, {});
    fmt::print("  {:10} {}\n", verb.name, verb.summary);
  }
  fmt::print(
      "\n`trainyard VERB --help` explains each. Start with:\n  trainyard run scenarios/gpt2-xl-ddp-dgx-a100.yaml\n");
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    if (words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
      usage();
      return words.empty() ? kBadInput : kGood;
    }
    Place place;
    place.file = std::make_shared<const std::string>("trainyard");
    return verbs().find(words[0], place).run({words.begin() + 1, words.end()});
  } catch (const UserError& e) {
    fmt::print(stderr, "{}\n", e.what());
    return kBadInput;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "trainyard: not enough memory for this run\n");
    return kBadInput;
  } catch (const std::exception& e) {
    fmt::print(stderr, "trainyard: internal error (please report it): {}\n", e.what());
    return kBug;
  }
}
