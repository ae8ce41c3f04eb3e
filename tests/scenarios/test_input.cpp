// Samples on their way to the GPUs: what makes GPUs wait, what a cache keeps, and what is refused.
#include <nlohmann/json.hpp>
#include <set>

#include "models/hardware/input_supply.hpp"
#include "scenarios/src/running/faster_fields.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "tests/support.hpp"
#include "tests/user_errors.hpp"
#include "tools/reports/report.hpp"
#include "tools/reports/report_lines.hpp"

namespace scenarios_test_input {

using namespace trainyard;
using namespace trainyard::test;
using Catch::Matchers::Contains;

namespace {

/// Returns a scenario without an input section: an MLP on a node of four GPUs with two drives.
std::string text_without_input() {
  return "cluster: {nodes: 1, node: pcie-4, nvme: {count: 2, read: 2 GB/s, latency: 0 us, lanes: 4}, host_memory: 64 "
         "GB}\n"
         "model: {mlp: {widths: [1024, 2048, 10]}}\n"
         "plan: {global_batch_size: 256, micro_batch_size: 32, precision: fp32}\n";
}

/// Returns a scenario with an input section, to which `input` adds lines.
std::string text(const std::string& input) {
  return text_without_input() + "input:\n  dataset: {samples: 100000, sample_size: 1 MB}\n" + input;
}

Result run(const std::string& input, const Overrides& overrides = {}) {
  return simulate(read_scenario_text(text(input), "input.yaml", overrides));
}

std::string refusal(const std::string& input, const Overrides& overrides = {}) {
  return test::user_error([&] { simulate(read_scenario_text(text(input), "input.yaml", overrides)); });
}

bool contains(const std::string& all, const char* part) { return all.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a step waits for its samples: the drives are the limit", "[input]") {
  const Result r = run("");
  // A step reads 256 samples of 1 MB from two drives of 2 GB/s.
  CHECK(r.step_time.value == near(256e6 / 4e9));
  CHECK(r.input->storage_busy == Approx(1).epsilon(0.2));
  // The share is that of all simulated steps, the first one included: with more steps the first batch weighs less.
  const Result longer = run("", {{"plan.steps", "64"}});
  CHECK(longer.input->storage_busy > r.input->storage_busy);
  CHECK(longer.input->storage_busy == Approx(1).epsilon(0.02));
  // All ranks starve: a rank that waits in the all-reduce for another one waits for samples too.
  const double time_without_input = simulate(read_scenario_text(text_without_input(), "input.yaml")).step_time.value;
  CHECK(r.input->starved_share == near(1 - time_without_input / r.step_time.value));
  CHECK(r.breakdown.input.value == near(r.step_time.value - time_without_input));
  CHECK(r.breakdown.input.value > 0.9 * r.step_time.value);
  double sum = r.breakdown.compute.value + r.breakdown.optimizer.value + r.breakdown.bubble.value +
               r.breakdown.other.value + r.breakdown.framework.value + r.breakdown.input.value;
  for (const auto& [group, seconds] : r.breakdown.exposed_communication) sum += seconds;
  CHECK(sum == near(r.step_time.value));
  CHECK(r.bottleneck == "NVMe");
  CHECK(run("", {{"cluster.nvme.read", "3 GB/s"}}).step_time.value < r.step_time.value);
}

TEST_CASE("a what-if beyond the most readers of a node is refused with the reason, and the others are answered",
          "[input]") {
  const Scenario s = read_scenario_text(text("  readers: 64\n"), "input.yaml");
  const auto rows = [&s](double factor) {
    std::set<std::string> classes;
    for (const WhatIf& row : what_if(s, factor)) classes.insert(row.resource_class);
    return classes;
  };
  std::set<std::string> most = rows(1024), beyond = rows(1025);  // at most 65,536 readers
  CHECK(most.erase("readers") == 1);
  CHECK(beyond == most);
  Answer refused;
  refused.result = simulate(s);
  refused.what_ifs = what_if(s, 1025, {}, &refused.result.refused_what_ifs);
  REQUIRE(refused.result.refused_what_ifs.size() == 1);
  const RefusedWhatIf& readers = refused.result.refused_what_ifs.front();
  CHECK(readers.resource_class == "readers");
  CHECK_THAT(readers.reason, Contains("65600") && Contains("65536"));
  CHECK_THAT(what_if_line(refused.result, refused.what_ifs),
             Contains(what_if_in_words("readers", 1025) + " is not possible: " + readers.reason + "\n"));
  CHECK_THAT(what_if_table(refused.result, refused.what_ifs), Contains(" is not possible: " + readers.reason + "\n"));
  const nlohmann::json j = answer_json(refused, false);
  CHECK(j["refused_what_if"].size() == 1);
  CHECK(j["refused_what_if"][0]["reason"] == readers.reason);
}

TEST_CASE("decoding is shared by the workers of a node", "[input]") {
  const std::string decode = "  decode: {workers: 8, rate: 100 /s}\n";
  const Result r = run(decode);
  CHECK(r.step_time.value == near(256 / 800.0));
  CHECK(r.bottleneck == "decoding");
  CHECK(r.input->starved_share > 0.9);
  CHECK(run("  decode: {workers: 8, time: 10 ms}\n").step_time.value == near(r.step_time.value));
  CHECK(run("  decode: {workers: 16, rate: 100 /s}\n").step_time.value == near(256 / 1600.0));
  CHECK(run("  decode: {workers: 16, rate: 100 /s, cores: 8}\n").step_time.value == near(r.step_time.value));
}

TEST_CASE("each small file costs a latency and a request of the storage", "[input]") {
  const std::string small = "  storage: {read: 100 GB/s, latency: 1 ms}\n  readers: 4\n";
  // Each of a node's four readers reads a file in 1 ms and the time of 1 MB at 100 GB/s.
  const Overrides files{{"input.dataset.files", "small"}};
  const double step = run(small, files).step_time.value;
  CHECK(step == Approx(256 / 4 * (1e-3 + 1e-5)).epsilon(0.05));  // the first byte of a batch comes one latency later
  CHECK(run(small).step_time.value < 0.5 * step);
  const Overrides requests{{"input.dataset.files", "small"}, {"input.storage.iops", "1000"}, {"input.readers", "1024"}};
  CHECK(run(small, requests).step_time.value == Approx(256 / 1000.0).epsilon(0.02));
}

TEST_CASE("a cache saves reads of the storage, as its policy says", "[input]") {
  CHECK(run("  cache: {size: 50 GB}\n  epoch: 2\n").input->from_cache == Approx(0).margin(1e-9));
  CHECK(run("  cache: {size: 50 GB, policy: pinned}\n  epoch: 2\n").input->from_cache == Approx(0.5).epsilon(0.01));
  CHECK(run("  cache: {size: 60 GB, policy: pinned}\n").input->from_cache == Approx(0).margin(1e-9));
  const std::vector<Bytes> shuffled =
      missed_reads(1000, Bytes{1}, PageCache(Bytes{500}, CachePolicy::lru), ReadOrder::shuffled, 2);
  double missed = 0;
  for (const Bytes b : shuffled) missed += b.value;
  // The cache holds the latest half of the samples. Some of these are read again before later reads replace them.
  CHECK(missed > 500);
  CHECK(missed < 900);
}

TEST_CASE("the more of its input overlaps (none, prefetch, full), the shorter is a step", "[input]") {
  const std::string decode = "  decode: {workers: 8, rate: 1000 /s}\n";
  const double none = run(decode + "  overlap: none\n").step_time.value,
               prefetch = run(decode + "  overlap: prefetch\n").step_time.value, full = run(decode).step_time.value;
  CHECK(none > prefetch);
  CHECK(prefetch > full);
}

TEST_CASE("decoding workers share the cores of the node's CPUs", "[input]") {
  // One socket of 64 cores: 128 workers decode no more than 64 do.
  const Overrides epyc{{"cluster.cpu", "epyc-7742"}};
  const auto run_with = [&](int workers, const std::string& more = "") {
    return run(fmt::format("  decode: {{workers: {}, rate: 10 /s{}}}\n", workers, more), epyc).step_time.value;
  };
  CHECK(run_with(128) == near(256 / 640.0));
  CHECK(run_with(32) == near(256 / 320.0));
  CHECK(run_with(128, ", cores: 32") == near(256 / 320.0));
  CHECK(contains(refusal("  decode: {workers: 2, rate: 10 /s, cores: 65}\n", epyc),
                 "input.decode.cores: 65 is too many; the most is 64"));
}

TEST_CASE("impossible input is refused with its place", "[input]") {
  CHECK(contains(refusal("  prefetch: 0\n"), "input.yaml:6:13: input.prefetch: 0 is too small; the least is 1"));
  CHECK(contains(refusal("  overlap: none\n  prefetch: 2\n"), "nothing is fetched ahead with overlap: none"));
  CHECK(contains(refusal("  decode: {workers: 2}\n"), "either rate"));
  CHECK(contains(refusal("  decode: {workers: 2, rate: fast}\n"), "samples a second of one worker expected"));
  CHECK(contains(refusal("  cache: {size: 65 GB}\n"), "of host memory"));
  CHECK(contains(refusal("  storage: nosuch\n"), "nosuch"));
  CHECK(contains(refusal("  port: 1 GB/s\n"), "with a storage that nodes share only"));
  CHECK(contains(refusal("", {{"cluster", "{nodes: 1, node: pcie-4}"}}), "has no NVMe drives"));
  CHECK(contains(refusal("", {{"plan.data_parallel.mechanism", "master"}}), "with mechanism all-reduce only"));
  CHECK(contains(refusal("", {{"input.dataset.record_file", "1 kB"}}), "does not hold a sample"));
  CHECK(contains(refusal("  storage: {read: 1 GB/s, latency: 0 us, capacity: 10 GB}\n"), "custom-storage holds"));
  CHECK(contains(refusal("  decode: {workers: 100000, rate: 10 /s}\n"),
                 "input.decode.workers: 100000 is too many; the most is 65536"));
  CHECK(contains(refusal("", {{"cluster.nvme.capacity", "40 GB"}}), "input.dataset: 93.1 GiB for the node, but "));
  CHECK(contains(refusal("", {{"input.dataset.samples", "100"}}), "input.dataset.samples: 100, but a step takes 256"));
  CHECK(contains(refusal("", {{"plan.step_time", "1 s"}}), "input: plan.step_time says how long the step takes"));
}

TEST_CASE("staged samples and cached samples count as host memory", "[input]") {
  const Result fits = run("  prefetch: 2\n");
  REQUIRE(fits.input->host_bytes.value > 0);
  CHECK(fits.fits);
  CHECK(fits.host_memory.input.value == fits.input->host_bytes.value);
  CHECK(fits.host_memory.peak.value == fits.input->host_bytes.value);
  const double staged = fits.input->host_bytes.value;
  const auto run_with = [staged](double share) {
    return run("  prefetch: 2\n", {{"cluster.host_memory", fmt::format("{:.0f} B", staged * share)}});
  };
  CHECK(run_with(1.01).fits);
  CHECK_FALSE(run_with(0.99).fits);
  // Cached samples count too.
  CHECK_FALSE(
      run("  cache: {size: 50 GB}\n  epoch: 2\n", {{"cluster.host_memory", fmt::format("{:.0f} B", 50e9 + staged / 2)}})
          .fits);
}

TEST_CASE("a disk that seeks reads nothing else meanwhile", "[input]") {
  const auto step = [](const char* files, const char* order, const Overrides& more = {}) {
    Overrides all{{"input.dataset.files", files}, {"input.order", order}};
    all.insert(all.end(), more.begin(), more.end());
    return run("  storage: hard-disk\n  readers: 64\n", all).step_time.value;
  };
  const double transfer = 256e6 / 250e6, seek = 11.56e-3;
  CHECK(step("small", "sequential") == Approx(transfer).epsilon(0.03));
  CHECK(step("small", "shuffled") == Approx(transfer + 256 * seek).epsilon(0.03));
  CHECK(step("records", "shuffled") == Approx(transfer + 256e6 / 134.2e6 * seek).epsilon(0.03));
  // More readers do not speed up the head of a disk. Without seeks only the transfer remains.
  CHECK(step("small", "shuffled", {{"input.readers", "1024"}}) == Approx(transfer + 256 * seek).epsilon(0.03));
  CHECK(step("small", "shuffled", {{"input.storage.seek", "0 s"}}) == Approx(transfer).epsilon(0.03));
}

TEST_CASE("shards of replicas differ by at most one sample, and the answer names their sizes", "[input]") {
  for (const double samples : {100000, 100001, 100003, 257}) {
    CAPTURE(samples);
    const Result::Input shards = *run("", {{"input.dataset.samples", std::to_string(static_cast<int>(samples))}}).input;
    CHECK(shards.largest_shard - shards.smallest_shard <= 1);
    CHECK(shards.largest_shards * shards.largest_shard + (4 - shards.largest_shards) * shards.smallest_shard ==
          samples);
    if (samples == 100000)
      CHECK(shards_in_words(shards, 4) == "a sampler deals 25,000 samples of an epoch to 4 replicas");
    if (samples == 100001)
      CHECK(shards_in_words(shards, 4) == "a sampler deals 25,001 samples of an epoch to 1 replica, 25,000 to 3");
  }
}

}  // namespace scenarios_test_input
