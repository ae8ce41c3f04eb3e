#include <unistd.h>

#include <fstream>

#include "scenarios/seeds/seed_case.hpp"
#include "tests/support.hpp"
#include "tests/temporary_folder.hpp"

using namespace trainyard;

TEST_CASE("the seed cases hold", "[seeds]") {
  const std::vector<SeedOutcome> outcomes = run_seed_cases(TRAINYARD_SOURCE_DIR "/tests/seeds/cases.yaml");
  CHECK(outcomes.size() >= 14);
  for (const SeedOutcome& o : outcomes) {
    CAPTURE(o.id, nlohmann::json(o.expected).dump(), nlohmann::json(o.got).dump());
    CHECK(o.pass);
    CHECK_FALSE(o.expected.empty());
  }
}

TEST_CASE("a wrong figure of a seed case is noticed", "[seeds]") {
  const test::TemporaryFolder folder;
  const auto path = folder.write(
      "cases.yaml",
      "cases:\n  - {id: UNIT-01, title: t, tolerance: 1e-9, inputs: {size: 160 MB, bits: 16 Gb/s, bytes: 16 GB/s},"
      " expected: {ms_if_bits: 81, ms_if_bytes: 10}}\n");
  const auto outcomes = run_seed_cases(path);
  REQUIRE(outcomes.size() == 1);
  CHECK_FALSE(outcomes[0].pass);
}
