#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "sim/json_text.hpp"
#include "tests/tools/topo_shell.hpp"

namespace trainyard::test {

/// A folder in which `trainyard bench` runs.
struct BenchShell : TopoFolder {
  nlohmann::json rows(const std::string& arguments) const {
    const TopoAnswer answer = trainyard("bench " + arguments + " --json -");
    INFO(arguments << ": " << answer.err);
    REQUIRE(answer.exit == 0);
    return parse_json(answer.out);
  }
  void refused(const std::string& arguments, const std::string& error) const {
    check_refused("bench " + arguments, error);
  }
};

}  // namespace trainyard::test
