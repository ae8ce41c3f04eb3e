// Advice for plans that do not fit.
#include "scenarios/src/studies/fitting.hpp"

#include <algorithm>
#include <set>
#include <sstream>

#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "tests/support.hpp"
#include "tools/reports/report.hpp"

namespace scenarios_test_fitting {

using namespace trainyard;
using namespace trainyard::test;

namespace {

/// Replicas of gpt2-xl on eight GPUs of 16 GB.
Scenario replicas(const std::string& data_parallel, const Overrides& overrides = {}) {
  return read_scenario_text(
      "cluster: {node: {base: dgx-1v, gpu: {type: v100-sxm2-16gb}}}\nmodel: gpt2-xl\n"
      "plan: {micro_batch_size: 2, seq_length: 512, precision: fp16" +
          data_parallel + "}\nsoftware: pytorch-ddp\n",
      "replicas.yaml", overrides);
}

/// Returns the scenario with the changes of the advice, as a user sets them with --set.
Scenario advised_scenario(const Scenario& s, const FittingChange& change) {
  Overrides overrides;
  std::istringstream words(change.set);
  for (std::string word; words >> word;) {
    if (word.find('=') != std::string::npos && word.starts_with("plan."))
      overrides.push_back(parse_override_option(word));
    else if (word != "--set")
      overrides.back().second += " " + word;  // a space inside the value of a map
  }
  return read_again(s, overrides);
}

const FittingChange* find(const std::vector<FittingChange>& changes, const std::string& set) {
  const auto change = std::ranges::find_if(changes, [&](const auto& c) { return c.set == set; });
  return change == changes.end() ? nullptr : &*change;
}

}  // namespace

TEST_CASE("a data-parallel plan that does not fit gets changes that fit, with their step times", "[fitting]") {
  for (const char* data_parallel : {"", ", data_parallel: 8", ", data_parallel: {bucket: 50 MiB}"}) {
    CAPTURE(data_parallel);
    const Scenario s = replicas(data_parallel);
    REQUIRE_FALSE(simulate(s).fits);
    const std::vector<FittingChange> changes = fitting_changes(s);
    REQUIRE(changes.size() >= 6);
    CHECK(changes.front().fits);
    for (std::size_t i = 0; i < changes.size(); ++i) {
      const FittingChange& change = changes[i];
      CAPTURE(change.set);
      const Scenario advised = advised_scenario(s, change);
      CHECK(advised.global_batch_size == s.global_batch_size);
      if (i < 2) {
        const Result again = simulate(advised);
        CHECK(again.memory.peak.value == change.peak.value);
        CHECK(again.fits == change.fits);
        CHECK(again.risk == change.risk);
        CHECK(again.step_time.value == near(change.step_time.value));
      }
      CHECK(change.lacks == (change.fits ? "" : "GPU memory"));
      if (i == 0) continue;
      CHECK(changes[i - 1].fits >= change.fits);
      CHECK((changes[i - 1].fits != change.fits ||
             (change.fits ? changes[i - 1].step_time <= change.step_time : changes[i - 1].peak <= change.peak)));
    }
    CHECK(std::ranges::count_if(changes, [](const auto& c) { return c.fits; }) >= 2);
  }
  const std::vector<FittingChange> changes = fitting_changes(replicas(""));
  for (const char* set : {"plan.recompute=full", "plan.data_parallel.zero_stage=3",
                          "plan.micro_batch_size=1 --set plan.global_batch_size=16",
                          "plan.data_parallel.zero_stage=2 --set plan.data_parallel.offload=cpu"}) {
    CAPTURE(set);
    CHECK(find(changes, set));
  }
  CHECK(find(fitting_changes(replicas(", data_parallel: 8")), "plan.data_parallel={size: 8, zero_stage: 3}"));
}

TEST_CASE("if no single change is enough, pairs of changes are tried", "[fitting]") {
  const Overrides small{{"cluster.gpu.memory_capacity", "3 GiB"}};
  const std::vector<FittingChange> changes =
      fitting_changes(replicas(", data_parallel: {size: 2}, idle_devices: allowed", small));
  const auto parts = [](const FittingChange& c) { return std::ranges::count(c.set, '='); };
  REQUIRE_FALSE(changes.empty());
  CHECK(std::ranges::any_of(changes, [&](const auto& c) { return parts(c) > 2; }));
  std::set<std::string> sets;
  for (const FittingChange& change : changes) {
    std::set<std::string> fields;  // fields in another order are the same plan
    for (std::size_t from = 0, to = 0; from < change.set.size(); from = to + 1) {
      const std::string flag = " --set ";
      to = std::min(change.set.find(flag, from), change.set.size());
      fields.insert(change.set.substr(from, to - from));
      to += flag.size() - 1;
    }
    std::string sorted;
    for (const std::string& field : fields) sorted += field + " ";
    CHECK(sets.insert(sorted).second);
  }
}

TEST_CASE("advice names the host memory if only that is too small, and the screen says it", "[fitting]") {
  const Scenario s = replicas("", {{"cluster.host_memory", "1 GiB"}});
  Result r = simulate(s);
  r.changes = fitting_changes(s);
  int short_of_host_memory = 0;
  for (const FittingChange& change : r.changes) {
    if (change.lacks != "host memory") continue;
    CAPTURE(change.set);
    const Result again = simulate(advised_scenario(s, change));
    CHECK_FALSE(again.fits);
    CHECK(std::string(again.fits_in_words()) == "no");
    CHECK(again.host_memory.peak > again.host_memory.capacity);
    ++short_of_host_memory;
  }
  CHECK(short_of_host_memory > 0);
  const auto line = [&](const FittingChange& change) {
    r.changes = {change};
    const std::string text = screen(s, plan(s), r, {});
    const std::size_t at = text.find(change.set);
    REQUIRE(at != std::string::npos);
    const std::size_t begin = text.rfind('\n', at) + 1;
    return text.substr(begin, text.find('\n', at) - begin);
  };
  using Catch::Matchers::Contains;
  const std::string set = "plan.recompute=full";
  CHECK_THAT(line({set, Bytes{1e9}, false, Seconds{1}, 0, "host memory"}),
             Contains("not even with") && Contains("too little host memory"));
  CHECK_THAT(line({set, Bytes{1e9}, false, Seconds{1}, 0.7, "GPU memory"}),
             Contains("hardly with") && Contains("with a probability of 70 %") && !Contains("too little"));
  for (const double risk : {0.1, 0.49, 0.51, 0.94})
    CHECK_THAT(line({set, Bytes{1e9}, false, Seconds{1}, risk, "GPU memory"}),
               Contains(risk > 0.5 ? "hardly with" : "may fit with"));
  CHECK_THAT(line({set, Bytes{1e9}, false, Seconds{1}, 1, "GPU memory"}),
             Contains("not even with") && !Contains("probability"));
  CHECK_THAT(line({set, Bytes{1e9}, true, Seconds{1}, 0.2, ""}),
             Contains("may fit with") && Contains("with a probability of 20 %"));
  CHECK_THAT(line({set, Bytes{1e9}, true, Seconds{1}, 0.01, ""}), Contains(" fits with") && !Contains("probability"));
}

TEST_CASE("a change that neither GPUs nor hosts can hold is refused for the hosts, whose lack is certain",
          "[fitting]") {
  Result r;
  r.fits = false;
  r.risk = 0.8;
  r.memory.needed = Bytes{90e9};
  r.memory.usable = Bytes{80e9};
  CHECK(std::string(r.fits_in_words()) == "at risk");
  r.host_memory.capacity = Bytes{1e12};
  r.host_memory.peak = Bytes{2e12};
  CHECK(r.lack_outside_gpus() == "host memory");
  CHECK(std::string(r.fits_in_words()) == "no");
}

TEST_CASE("for a step too large to simulate repeatedly, the advice gives memory but no step time", "[fitting]") {
  const Scenario few = replicas(", global_batch_size: 64"), many = replicas(", global_batch_size: 262144");
  const std::vector<FittingChange> changes_of_few = fitting_changes(few), changes_of_many = fitting_changes(many);
  const FittingChange* change_of_many = find(changes_of_many, "plan.recompute=full");
  REQUIRE(change_of_many);
  CHECK(change_of_many->step_time.value == 0);
  const FittingChange* change_of_few = find(changes_of_few, "plan.recompute=full");
  REQUIRE(change_of_few);
  CHECK(change_of_few->step_time.value > 0);
  CHECK(change_of_few->peak.value == near(change_of_many->peak.value));
}

}  // namespace scenarios_test_fitting
