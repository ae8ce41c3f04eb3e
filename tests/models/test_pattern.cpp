#include <catch2/catch.hpp>

#include "models/reading/pattern.hpp"

namespace models_test_pattern {

using namespace trainyard;

TEST_CASE("a pattern finds the groups of the first match and replaces each match", "[pattern]") {
  const Pattern memory(R"(([0-9]+)MiB */ *([0-9]+)MiB)");
  CHECK(memory.find("| 12MiB / 34MiB | 5MiB / 6MiB |") == Pattern::Groups{"12MiB / 34MiB", "12", "34"});
  CHECK(memory.find("12 MiB").empty());
  CHECK(memory.replace("1MiB/2MiB, 3MiB/4MiB.", [](const auto& match) { return match[2] + ":" + match[1]; }) ==
        "2:1, 4:3.");
  CHECK(memory.replace("nothing", [](const auto&) { return "something"; }) == "nothing");
}

}  // namespace models_test_pattern
