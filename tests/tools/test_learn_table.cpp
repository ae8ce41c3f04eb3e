// The table of `trainyard learn --compare` has the figures of the answer.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "sim/json_text.hpp"
#include "tests/tools/topo_shell.hpp"

namespace tools_test_learn_table {

using namespace trainyard;
using namespace trainyard::test;

TEST_CASE("each column of compared trainings is a figure of the answer", "[learn][cli]") {
  const TopoFolder shell;
  const TopoAnswer screen = shell.trainyard(
      "learn learn-local-sgd --compare plan.data_parallel.local_steps=1,8 --set learn.steps=120 --seeds 2 --json "
      "l.json");
  const nlohmann::json answer = parse_json(shell.text("l.json"));
  // The cells of a row stand two spaces or more apart; an amount may have half an interval behind it.
  const auto cells = [&screen](const std::string& name) {
    std::string row = screen.out.substr(screen.out.find("\n  " + name) + 3);
    row.resize(row.find('\n'));
    const std::regex gap("  +");
    return std::vector<std::string>{std::sregex_token_iterator(row.begin(), row.end(), gap, -1), {}};
  };
  const auto amount = [](const std::string& text) {
    static const std::map<std::string, double> units{{"ms", 1e-3}, {"s", 1},         {"min", 60},
                                                     {"%", 0.01},  {"MiB", 1 << 20}, {"GiB", 1 << 30}};
    std::istringstream words(text);
    double number = 0;
    std::string unit;
    words >> number >> unit;
    return number * (units.contains(unit) ? units.at(unit) : 1);
  };
  for (const nlohmann::json& variant : answer["variants"]) {
    const std::vector<std::string> row = cells(variant["name"]);
    CAPTURE(variant["name"], row);
    REQUIRE(row.size() == 14);
    // `rounding`: half of the last digit that the column shows.
    const auto is_mean = [&](std::size_t column, const nlohmann::json& figure, double rounding = 0.0006) {
      CHECK(amount(row[column]) == Approx(figure["mean"].get<double>()).epsilon(0.006));
      const std::string half = row[column].substr(row[column].find("±") + std::string("±").size());
      CHECK(amount(half) == Approx(figure["half_width"].get<double>()).epsilon(0.006).margin(rounding));
    };
    CHECK(amount(row[1]) == Approx(variant["step_time_s"].get<double>()).epsilon(0.006));
    is_mean(2, variant["final"]["loss"]);
    is_mean(3, variant["final"]["accuracy"]);
    double samples = 0, bytes = 0;
    for (const nlohmann::json& run : variant["runs"]) {
      samples += run["points"].back()["samples"].get<double>() / 2;
      bytes += run["points"].back()["bytes"].get<double>() / 2;
    }
    CHECK(amount(row[4]) == Approx(samples));
    CHECK(amount(row[5]) == Approx(bytes).epsilon(0.006));
    const nlohmann::json& target = variant["to_target"];
    int column = 6;
    for (const std::string figure : {"time_s", "speedup", "steps", "samples", "gpu_hours"})
      is_mean(column++, target[figure], figure == "steps" || figure == "samples" ? 0.5 : 0.0006);
    CHECK(row[11] == fmt::format("{} of {}", variant["reached"].get<int>(), answer["seeds"].get<int>()));
    CHECK(amount(row[12]) == Approx(variant["step_time_interval_s"][0].get<double>()).epsilon(0.006));
    CHECK(amount(row[12].substr(row[12].find(" to ") + 4)) ==
          Approx(variant["step_time_interval_s"][1].get<double>()).epsilon(0.006));
    is_mean(13, variant["final"]["replicas_apart"]);
  }
}

}  // namespace tools_test_learn_table
