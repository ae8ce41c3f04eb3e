#include <cstdlib>

#include "sim/json_text.hpp"
#include "tests/seeds/seed_case.hpp"
#include "tests/support.hpp"
#include "tests/temporary_folder.hpp"

namespace seeds_test_seeds {

using namespace trainyard;

TEST_CASE("every seed case gives its expected figures", "[seeds]") {
  const std::vector<SeedOutcome> outcomes = run_seed_cases(TRAINYARD_SOURCE_DIR "/tests/seeds/cases.yaml");
  CHECK(outcomes.size() == 133);
  int with_experiment = 0;
  for (const SeedOutcome& o : outcomes) {
    CAPTURE(o.id, nlohmann::json(o.expected).dump(), nlohmann::json(o.got).dump());
    CHECK(o.state != SeedState::fail);
    CHECK_FALSE(o.expected.empty());
    with_experiment += o.state == SeedState::missing ? 0 : 1;
  }
  CHECK(with_experiment == 133);
}

namespace {

std::vector<SeedOutcome> run_one(const std::string& row, const std::vector<std::string>& ids = {"X"}) {
  const test::TemporaryFolder folder;
  return run_seed_cases(folder.write("cases.yaml", "cases:\n  - " + row + "\n"), ids);
}

}  // namespace

TEST_CASE("a seed case with a wrong figure fails", "[seeds]") {
  const auto outcomes = run_one(
      "{id: UNIT-01, title: t, tolerance: 1e-9, inputs: {size: 160 MB, bits: 16 Gb/s, bytes: 16 GB/s},"
      " expected: {ms_if_bits: 81, ms_if_bytes: 10}}",
      {"UNIT-01"});
  REQUIRE(outcomes.size() == 1);
  CHECK(outcomes[0].state == SeedState::fail);
}

TEST_CASE("a seed case without an experiment is missing, and one that throws fails", "[seeds]") {
  CHECK(run_one("{id: X, title: t, tolerance: 0, inputs: {}, expected: {a: 1}}").at(0).state == SeedState::missing);
  const SeedOutcome thrown =
      run_one("{id: UNIT-01, title: t, tolerance: 0, inputs: {}, expected: {a: 1}}", {"UNIT-01"}).at(0);
  CHECK(thrown.state == SeedState::fail);
  CHECK(thrown.got.contains("error"));
  CHECK_THROWS_WITH(run_one("{id: X, title: t, tolerance: 0, inputs: {}, expected: {a: 1}}", {}),
                    Catch::Contains("no row of the seed case"));
  CHECK_THROWS_WITH(run_one("{id: X, title: t, tolerance: 0, inputs: {}, expected: {a: 1}}", {"Y"}),
                    Catch::Contains("unknown seed case \"Y\""));
}

TEST_CASE("the JSON of the table of seed cases has pass, expected and got", "[seeds]") {
  const test::TemporaryFolder folder;
  const auto file = folder.path() / "seeds.json";
  const std::string command = TRAINYARD_SEEDS " UNIT-01 ALPA-01 --json '" + file.string() + "' > /dev/null";
  CHECK(std::system(command.c_str()) == 0);
  const auto cases = parse_json(folder.text("seeds.json")).at("cases");
  REQUIRE(cases.size() == 2);
  CHECK(cases[0].at("id") == "UNIT-01");
  CHECK(cases[0].at("pass") == true);
  CHECK(cases[0].at("got").at("ms_if_bytes") == 10);
  CHECK(cases[1].at("pass") == true);
  CHECK(cases[1].at("expected").at("count_ordered_triples") == 10);
  CHECK(std::system(TRAINYARD_SEEDS " NOCASE 2> /dev/null") == 2 << 8);
}

}  // namespace seeds_test_seeds
