#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "models/software/stack.hpp"
#include "tests/tools/topo_shell.hpp"

using namespace trainyard;
using namespace trainyard::test;
using nlohmann::json;

namespace {

SoftwareStack stack_of(const std::string& name) { return read_stack(Catalog().resolve("stack", Node::of_text(name))); }

}  // namespace

TEST_CASE("measured training steps and their memory are predicted within the limits, as their stacks say",
          "[validate-training]") {
  const TopoFolder shell;
  const TopoAnswer answer = shell.trainyard("validate training --points --json -");
  REQUIRE(answer.exit == 0);
  const json sets = json::parse(answer.out).at("sets");
  REQUIRE(sets.size() == 3);
  for (const json& set : sets) {
    CAPTURE(set.at("name").get<std::string>());
    const bool memory = set.at("name").get<std::string>().find("memory") != std::string::npos;
    CHECK(set.at("pass") == true);
    CHECK(set.at("mean_abs_error").get<double>() <= (memory ? 0.001 : 0.07));
    if (!memory) CHECK(set.at("rank_correlation").get<double>() >= 0.95);
  }
  // A stack says the error that validate training gives.
  for (const auto& [family, stack] :
       {std::pair{"simumax-b200-dense", "megatron-core"}, {"korthikanti-small", "megatron-2022"}})
    for (const json& set : sets) {
      if (set.at("name") != std::string("step time of ") + family) continue;
      const SoftwareStack::Judged judged = stack_of(stack).judged.at(0);
      CHECK(judged.runs == set.at("n").get<int>());
      CHECK(judged.mean_error == Approx(set.at("mean_abs_error").get<double>()).margin(6e-4));
      CHECK(judged.worst_error == Approx(set.at("worst_abs_error").get<double>()).margin(6e-4));
    }
}
