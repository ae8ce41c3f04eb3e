#include <fmt/format.h>

#include <cstdio>
#include <new>

#include "sim/error.hpp"
#include "tools/verbs/verbs.hpp"

using namespace trainyard;

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    if (words.empty() || words[0] == "--help" || words[0] == "-h") {
      fmt::print("{}", usage());
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
