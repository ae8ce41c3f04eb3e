// Sentences that verbs print are true of their figures.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>

#include "sim/json_text.hpp"
#include "tests/tools/topo_shell.hpp"
#include "tools/reports/report_lines.hpp"

namespace tools_test_statements {

using namespace trainyard;
using namespace trainyard::test;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

TEST_CASE("compare says which plans are at risk to run out of memory, as run does", "[compare]") {
  const TopoFolder shell;
  const std::string scenarios = "gpt2-one-a100 llama3-405b-16k-h100";
  const std::string table = shell.trainyard("compare " + scenarios).out;
  const std::size_t at = table.find("\nmemory allocated, GiB");
  REQUIRE(at != std::string::npos);
  const std::string row = table.substr(at + 1, table.find('\n', at + 1) - at - 1);
  const auto verdict = [&shell](const std::string& scenario) {
    return parse_json(shell.trainyard("run " + scenario + " --no-what-if --json -").out).at("fits_in_words");
  };
  CHECK(verdict("gpt2-one-a100") == "yes");
  CHECK(verdict("llama3-405b-16k-h100") == "at risk");
  CHECK(row.ends_with(" (at risk)"));
  CHECK(row.find("(at risk)") == row.rfind("(at risk)"));
}

TEST_CASE("size --model takes no longer samples than the model has positions", "[size]") {
  const TopoFolder shell;
  const std::string more = " --tokens 1B --days 3 --gpus 8 --work 50K --nodes-of dgx-h100 --write found.yaml";
  for (const auto& [model, length] : {std::pair{"gpt2", "1024"}, {"llama-3-8b", "8192"}}) {
    CAPTURE(model);
    const TopoAnswer answer = shell.trainyard("size --model " + std::string(model) + more);
    INFO(answer.err << answer.out);
    CHECK(answer.exit == 0);
    CHECK_THAT(shell.text("found.yaml"), Contains(fmt::format("seq_length: {}", length)));
    CHECK_THAT(answer.out, Contains("No other size was tried."));
  }
  CHECK_THAT(shell.trainyard("size --model gpt2 --set plan.seq_length=4096" + more).out,
             Contains("--set plan.seq_length"));
}

TEST_CASE("size says that no other size is in time only of sizes that it tried", "[size]") {
  const TopoFolder shell;
  const TopoAnswer answer = shell.trainyard(
      "size --model llama-3.2-1b --tokens 1B --days 0.5 --work 50K --nodes-of dgx-h100,dgx-a100 --json size.json");
  INFO(answer.err);
  const nlohmann::json json = parse_json(shell.text("size.json"));
  int others = 0, refused = 0, in_time = 0;
  for (const nlohmann::json& row : json.at("rows")) {
    const bool is_best =
        row.at("node") == json.at("cheapest").at("node") && row.at("nodes") == json.at("cheapest").at("nodes");
    (row.value("refused", false) ? refused : others) += is_best ? 0 : 1;
    in_time += !is_best && row.value("meets", false) ? 1 : 0;
  }
  const bool says_none = answer.out.find("No other size that was tried meets the deadline.") != std::string::npos;
  CHECK(says_none == (others > 0 && in_time == 0));
  CHECK((answer.out.find("No other size was tried.") != std::string::npos) == (others + refused == 0));
  CHECK((answer.out.find("Next of the simulated sizes comes ") != std::string::npos) == (in_time > 0));
  // The site has no room for the other type of nodes, so no size of it was tried.
  CHECK_THAT(shell
                 .trainyard("size --model llama-3.2-1b --tokens 20B --days 20 --work 50K --gpus 32 --nodes-of "
                            "dgx-a100,dgx-h100 --site '{power: 40 kW, pue: 1.2}'")
                 .out,
             Contains("No other size was simulated. 4 x dgx-h100: the site has room for 3 nodes (site.power).") &&
                 !Contains("No other size that was tried"));
}

TEST_CASE("switches stand in the room that nodes leave in their racks, and a reason names what networks miss",
          "[size]") {
  const TopoFolder shell;
  const std::string question =
      "size --model llama-3.2-1b --tokens 20B --days 20 --work 50K --gpus 40 --nodes-of dgx-b200 --purchase --network "
      "nonblocking --switch quantum-2 --prices " TRAINYARD_SOURCE_DIR "/scenarios/prices-example.yml --json - --site ";
  // A node has ten units, so the fifth leaves ten for the switch.
  const nlohmann::json roomy = parse_json(shell.trainyard(question + "'{racks: 3, rack_units: 20}'").out);
  CHECK(roomy["networks"]["rows"][0]["racks"] == 3);
  CHECK(roomy["networks"]["rows"][0]["chosen"] == true);
  const nlohmann::json full = parse_json(shell.trainyard(question + "'{racks: 5, rack_units: 10}'").out);
  CHECK(full["networks"]["rows"][0]["racks"] == 6);
  CHECK_THAT(full["networks"]["reason"].get<std::string>(),
             Contains("no network of the table meets all conditions: each misses the racks"));
}

namespace {

/// Joins the words of a screen with single spaces, without its line ends and columns.
std::string one_line(const std::string& screen) {
  std::istringstream words(screen);
  std::string line, word;
  while (words >> word) line += (line.empty() ? "" : " ") + word;
  return line;
}

}  // namespace

TEST_CASE("plans of a search have the listed values, apart from the user's own, and their counts sum",
          "[search][cli]") {
  const TopoFolder shell;
  for (const auto& [scenario, size] : {std::pair{"gpt2-one-a100", 8}, std::pair{"gpt2-xl-ddp-dgx-a100", 2}}) {
    const std::string question = fmt::format("plan {} --vary plan.micro_batch_size={}", scenario, size);
    const nlohmann::json answer = parse_json(shell.trainyard(question + " --json -").out);
    CAPTURE(question);
    CHECK(answer["simulated_outside"] == 1);
    const auto count = [&answer](const char* key) { return answer[key].get<int>(); };
    CHECK(count("simulated") + count("refused") + count("too_large") + count("dropped") ==
          count("plans") + count("simulated_outside"));
    for (const char* rows : {"best", "pareto", "neighbours"})
      for (const nlohmann::json& row : answer[rows]) {
        const std::string plan = row["plan"];
        CHECK((plan.ends_with(", as the scenario says it") ||
               (plan + ",").find(fmt::format("micro-batch {},", size)) != std::string::npos));
      }
    CHECK_THAT(answer["best"][0]["plan"].get<std::string>(), Contains("as the scenario says it"));
    const std::string screen = one_line(shell.trainyard(question).out);
    CHECK_THAT(screen, Contains("with yours, which the search does not reach"));
    CHECK_THAT(screen, Contains(", best: faster than all searched plans, by values that the search does not try"));
  }
  for (const char* sizes : {"3", "3,8"}) {
    const TopoAnswer answer = shell.trainyard(fmt::format("plan gpt2-one-a100 --vary plan.micro_batch_size={}", sizes));
    CHECK(answer.exit == 2);
    CHECK_THAT(answer.err, Contains("--vary plan.micro_batch_size: no plan has 3; nearest: 2 or 4"));
  }
}

TEST_CASE("plan says what is proved, and both figures of a limit of work", "[search][cli]") {
  const TopoFolder shell;
  const std::string small_screen =
      one_line(shell.trainyard("plan gpt2-one-a100 --vary plan.micro_batch_size=16 --vary plan.recompute=none").out);
  CHECK_THAT(small_screen, Contains("searched 1 plan on 1 GPU = 1 simulated"));
  CHECK_THAT(small_screen,
             Contains("no other combination of the searched fields that leaves the headroom can be faster"));
  // A field that the search does not vary makes the proved plan faster.
  const std::string question = "plan --model llama-3-8b --on dgx-h100 --nodes 2 --batch 64 --json - --brief";
  const nlohmann::json usual_answer = parse_json(shell.trainyard(question).out);
  const nlohmann::json wider_answer =
      parse_json(shell.trainyard(question + " --vary plan.recompute_modules=[mlp_act] --vary plan.recompute=none").out);
  CHECK(usual_answer["proved"] == true);
  CHECK(wider_answer["best"][0]["step_time_s"] < usual_answer["best"][0]["step_time_s"]);
  const std::string limited_screen =
      one_line(shell.trainyard("plan --model gpt2-xl --on dgx-a100 --batch 64 --brief --work 1000").out);
  CHECK_THAT(limited_screen,
             Contains("M simulated operations; its limit is 0.001 M (--work), but it goes on until a plan fits, "
                      "and finishes simulations that have begun"));
}

TEST_CASE("a plan that does not fit has the memory that run states, or no figure", "[search][cli]") {
  const TopoFolder shell;
  const nlohmann::json answer = parse_json(
      shell.trainyard("plan --model llama-3-8b --on dgx-h100 --nodes 2 --batch 64 --json - --write best.yaml").out);
  int stated_peaks = 0, missing_peaks = 0;
  for (const nlohmann::json& row : answer["neighbours"]) {
    const std::string change = row["change"];
    const bool is_without_zero = change.starts_with("no ZeRO"), is_larger = change.starts_with("micro-batch 2 ");
    if (!is_without_zero && !is_larger) continue;
    const std::string set = is_larger ? "--set plan.micro_batch_size=2" : "--set 'plan.data_parallel={size: 16}'";
    const nlohmann::json run = parse_json(shell.trainyard("run best.yaml --no-what-if " + set + " --json -").out);
    CAPTURE(change);
    CHECK(run["memory_bytes"]["peak"] > answer["memory_capacity_bytes"]);
    if (row.contains("memory_peak_bytes"))
      CHECK(row["memory_peak_bytes"].get<double>() == Approx(run["memory_bytes"]["peak"].get<double>()));
    (row.contains("memory_peak_bytes") ? stated_peaks : missing_peaks) += 1;
  }
  CHECK(stated_peaks == 1);
  CHECK(missing_peaks == 1);
}

TEST_CASE("the first line of each shipped scenario, which list prints, ends with its sentence", "[cli]") {
  int scenarios = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TRAINYARD_SOURCE_DIR "/scenarios")) {
    if (entry.path().extension() != ".yaml") continue;
    ++scenarios;
    std::ifstream in(entry.path());
    std::string line;
    std::getline(in, line);
    CAPTURE(entry.path().string(), line);
    CHECK(line.starts_with("# "));
    CHECK((line.ends_with('.') || line.ends_with('?')));
  }
  CHECK(scenarios > 30);
}

TEST_CASE("the first line of run says that a network is changed, and how many parameters it has", "[report]") {
  const TopoFolder shell;
  CHECK_THAT(shell.trainyard("run trillion-800xv100 --no-what-if").out,
             StartsWith("gpt3-175b (changed: 1.01 trillion parameters) in fp16 with "));
  CHECK_THAT(shell.trainyard("run gpt2-one-a100 --no-what-if").out, StartsWith("gpt2 in ") && !Contains("them idle"));
  // The mean power counts all GPUs of the node, also those that have no work.
  CHECK_THAT(shell.trainyard("run zero-offload-v100 --no-what-if").out,
             StartsWith("gpt2-xl (changed: ") && Contains("15 of them idle"));
}

TEST_CASE("numbers of reports keep three digits and their sign of per cent", "[report]") {
  CHECK(trainyard::three_digits(10) == "10.0");
  CHECK(trainyard::three_digits(1.1) == "1.10");
  CHECK(trainyard::three_digits(0.0123) == "0.0123");
  for (std::size_t length = 110; length < 122; ++length) {  // some of these lines are full before the "%"
    CAPTURE(length);
    const std::string line = std::string(length, 'x').replace(60, 1, " ") + " % and more\n";
    CHECK_THAT(trainyard::broken_lines(line), !Contains("\n" + trainyard::report_label("") + "%"));
  }
}

TEST_CASE("twice a resource saves at most half of its share of the critical path and of the slow-down by exchanges",
          "[explain][what-if]") {
  // The old critical path is still there with the faster resource, so no step can be shorter than what is left of it.
  const TopoFolder shell;
  const std::string one_sample = " --set plan.global_batch_size=32 --set plan.micro_batch_size=1";
  for (const std::string& words : std::vector<std::string>{
           "gpt2-xl-ddp-dgx-a100", "gpt2-xl-ddp-dgx-a100" + one_sample, "accelerators-gpt2", "bert-large-ddp-8xh100",
           "llama3-8b-fsdp-64xh100 --set \"cluster.hca.rate=50 Gbit/s\"",
           "trillion-800xv100 --set \"cluster.hca.rate=200 Gbit/s\"", "zero-stages --set \"cluster.pcie.rate=5 GB/s\"",
           "mixtral-ep8 --set \"cluster.hca.rate=400 Gbit/s\" --set \"cluster.pcie.rate=10 GB/s\"",
           "gpt2-ddp-t4-servers --set \"cluster.pcie.rate=2 GB/s\"",
           "ddp-100k --set cluster.nodes=128 --set plan.global_batch_size=4096 --set plan.data_parallel.bucket=25MB "
           "--set "
           "plan.data_parallel.all_reduce.fidelity=flows"}) {
    CAPTURE(words);
    const TopoAnswer answer = shell.trainyard("run " + words + " --json -");
    INFO(answer.err);
    REQUIRE(answer.exit == 0);
    const nlohmann::json json = parse_json(answer.out);
    const double step = json.at("step_time_s");
    const std::string bottleneck = json.at("bottleneck").at("resource");
    bool is_tried = false;
    for (const nlohmann::json& change : json.at("what_if")) {
      const std::string resource = change.at("resource");
      const std::string named = resource == "compute"    ? "GPU compute"
                                : resource == "memory"   ? "GPU memory"
                                : resource == "software" ? "framework"
                                                         : resource;
      CAPTURE(named, change.dump());
      const nlohmann::json& path = json.at("critical_path_s");
      const double factor = change.at("factor"),
                   share = (path.value(named, 0.0) + path.value("slow-down by exchanges", 0.0)) / step;
      CHECK(change.at("saves_share").get<double>() <= (1 - 1 / std::max(factor, 1 / factor)) * share + 0.01);
      if (named == bottleneck) {
        is_tried = true;
        CHECK(change.at("saves_share").get<double>() > 0.01);
      }
    }
    CHECK(is_tried);
  }
}

TEST_CASE("run explains why the critical path has more of the framework than the step, and half of it saves half",
          "[what-if]") {
  const TopoFolder shell;
  const TopoAnswer text = shell.trainyard(
      "run gpt2-one-a100 --set plan.micro_batch_size=1 --set plan.global_batch_size=1 --set plan.seq_length=64 --json "
      "run.json");
  INFO(text.err << text.out);
  REQUIRE(text.exit == 0);
  const nlohmann::json run = parse_json(shell.text("run.json"));
  const double step = run.at("step_time_s"), part = run.at("breakdown_s").at("framework"),
               path = run.at("critical_path_s").at("framework");
  CHECK(run.at("bottleneck").at("resource") == "framework");
  CHECK(path > part + 0.02 * step);
  CHECK_THAT(
      text.out,
      Contains(fmt::format("bottleneck framework, {} of the critical path", percent(path / step, 0))) &&
          Contains(fmt::format("the part \"framework\" ({} of the step) is the time in which a rank waits for its host",
                               percent(part / step))));
  double faster = step;
  for (const nlohmann::json& change : run.at("what_if"))
    if (change.at("resource") == "framework") faster = change.at("step_time_s");
  CHECK(step - faster == Approx(path / 2).epsilon(0.02));  // the whole launching, not only the waits
}

TEST_CASE("framework on the path of a host that does not run ahead is kernels that compute counts", "[what-if]") {
  const TopoFolder shell;
  const std::string few =
      "run zero-stages --set cluster.nodes=1 --set plan.global_batch_size=8 --set plan.data_parallel.zero_stage=0 "
      "--set "
      "plan.tensor_parallel=8 --set model.n_layer=2 --no-what-if --json ";
  const TopoAnswer text = shell.trainyard(few + "late.json");
  REQUIRE(text.exit == 0);
  CHECK_THAT(text.out, Contains("kernels that are shorter than their launches"));
  REQUIRE(shell.trainyard(few + "free.json --set 'software.kernel_dispatch=0 s'").exit == 0);
  const nlohmann::json late = parse_json(shell.text("late.json")).at("breakdown_s"),
                       free = parse_json(shell.text("free.json")).at("breakdown_s");
  CHECK(late.at("compute") > 1.2 * free.at("compute").get<double>());
  CHECK(late.at("framework") == free.at("framework"));
}

TEST_CASE("the latency of a storage is a resource of its own, which what-ifs halve", "[what-if][input]") {
  const TopoFolder shell;
  const std::string slow = "--set input.storage=object-store --set 'input.decode.rate=10000 /s' ";
  const TopoAnswer text = shell.trainyard("run input-resnet50-dgx " + slow + "--json run.json");
  REQUIRE(text.exit == 0);
  const nlohmann::json run = parse_json(shell.text("run.json"));
  CHECK(run.at("bottleneck").at("resource") == "storage latency");
  CHECK(run.at("critical_path_s").at("latency") < 1e-6);
  const auto time_by = [&](const std::string& resource) {
    for (const nlohmann::json& change : run.at("what_if"))
      if (change.at("resource") == resource) return change.at("step_time_s").get<double>();
    return 0.0;
  };
  const auto time_with = [&](const std::string& set) {
    REQUIRE(shell.trainyard("run input-resnet50-dgx " + slow + set + " --no-what-if --json again.json").exit == 0);
    return parse_json(shell.text("again.json")).at("step_time_s").get<double>();
  };
  CHECK(time_by("storage latency") == time_with("--set 'input.storage={base: object-store, latency: 50 ms}'"));
  CHECK(time_by("storage latency") < 0.9 * run.at("step_time_s").get<double>());
  CHECK(time_by("readers") == time_with("--set input.readers=192"));
}

TEST_CASE("run says what a rank encodes and how busy copying CPUs are, and plan how many plans are equal", "[trust]") {
  const TopoFolder shell;
  const TopoAnswer sparse = shell.trainyard("run learn-topk-1gbit --no-what-if --json run.json");
  const nlohmann::json compression = parse_json(shell.text("run.json")).at("compression");
  const double dense = compression.at("dense_bytes"), sent = compression.at("sent_bytes");
  CHECK_THAT(sparse.out, Contains(fmt::format("each rank encodes {:.4g} MB in {:.4g} MB a step, 1 : {:.4g}",
                                              dense * 1e-6, sent * 1e-6, dense / sent)));
  const TopoAnswer copies = shell.trainyard("run horovod-mnist-2xt4 --no-what-if --json run.json");
  const double busy = parse_json(shell.text("run.json")).at("traffic_bytes").at("busiest_share").at("CPU copies");
  CHECK_THAT(copies.out, Contains(fmt::format("the busiest CPU copies in {} of the step", percent(busy, 0))));
  const TopoAnswer plans = shell.trainyard("plan --model gpt3-13b --on dgx-a100 --nodes 1 --batch 32 --json plan.json");
  const int equal = parse_json(shell.text("plan.json")).at("equal");
  CHECK_THAT(plans.out, Contains(fmt::format("as for {} of the simulated plans beside the best", equal - 1)));
}

TEST_CASE("one thing is named in the singular", "[words]") {
  const TopoFolder shell;
  CHECK_THAT(shell.trainyard("show gpt2-one-a100 --mesh").out,
             StartsWith("gpt2-one-a100: 1 rank in a mesh of 1 rank, on 1 of 1 GPU ("));
  CHECK(shell.trainyard("show gpt2-one-a100 --fold").out ==
        "gpt2-one-a100: its one rank is simulated: there is no other rank\n");
  CHECK_THAT(shell.trainyard("topo design --hosts 1 --ports 2").out, Contains("between switches; 1 port left\n"));
  CHECK_THAT(shell.trainyard("learn learn-local-sgd --set learn.steps=1").out, Contains(": not within 1 step\n"));
}

TEST_CASE("a comparison of trainings prints the interval of each step that the JSON has", "[learn]") {
  const TopoFolder shell;
  const std::string compared =
      "learn learn-async-vs-sync --set software=pytorch-ddp --set learn.steps=2 --compare plan.micro_batch_size=8,16 ";
  const std::string text = shell.trainyard(compared).out;
  CHECK_THAT(text, Contains("80 % of real steps"));
  const auto j = parse_json(shell.trainyard(compared + "--json -").out);
  REQUIRE(j["variants"].size() == 2);
  for (const auto& variant : j["variants"]) {
    const auto ends = variant["step_time_interval_s"].get<std::array<double, 2>>();
    CHECK_THAT(text, Contains(show(Seconds{ends[0]}) + " to " + show(Seconds{ends[1]})));
  }
}

TEST_CASE("learn reaches its target at the first evaluation that has it, at the interval that it prints", "[learn]") {
  const TopoFolder shell;
  const std::string text = shell.trainyard("learn learn-batch-size").out;
  const auto run = parse_json(shell.trainyard("learn learn-batch-size --json -").out)["variants"][0]["runs"][0];
  constexpr double target = 0.8;
  const auto& points = run["points"];
  double first = -1;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (first < 0 && points[i]["accuracy"].get<double>() >= target) first = points[i]["steps"];
    if (i > 0) CHECK(std::fmod(points[i]["steps"].get<double>() - points[i - 1]["steps"].get<double>(), 2.0) == 0);
  }
  CHECK(run["reached"]["steps"] == first);
  CHECK_THAT(text, Contains(fmt::format("accuracy 80 %: {} · {:.0f} steps",
                                        show(Seconds{run["reached"]["time_s"].get<double>()}), first)) &&
                       Contains("at the first evaluation that reaches it, one every 2 steps (learn.evaluate_every)"));
  // An evaluation after each step needs no such words, and finds the target no later.
  const std::string each = " --set learn.evaluate_every=1";
  CHECK_THAT(shell.trainyard("learn learn-batch-size" + each).out, !Contains("at the first evaluation"));
  CHECK(parse_json(shell.trainyard("learn learn-batch-size --json -" + each)
                       .out)["variants"][0]["runs"][0]["reached"]["steps"] <= first);
}

TEST_CASE("± of learn is half of the 95 % interval of the mean over the seeds", "[learn]") {
  const TopoFolder shell;
  const std::string words =
      "learn learn-local-sgd --compare plan.data_parallel.local_steps=1,8 --set learn.steps=8 --seeds 3 ";
  const std::string text = shell.trainyard(words).out;
  CHECK_THAT(text, Contains("±: half of the 95 % interval of the mean over the seeds\n"));
  for (const auto& variant : parse_json(shell.trainyard(words + "--json -").out)["variants"]) {
    double sum = 0, squares = 0;
    for (const auto& run : variant["runs"]) sum += run["points"].back()["loss"].get<double>();
    const double mean = sum / 3;
    for (const auto& run : variant["runs"]) squares += std::pow(run["points"].back()["loss"].get<double>() - mean, 2);
    constexpr double student = 4.302653;  // 97.5 % of Student's t with 2 degrees of freedom
    const double half = student * std::sqrt(squares / 2 / 3);
    CHECK(variant["final"]["loss"]["mean"].get<double>() == Approx(mean));
    CHECK(variant["final"]["loss"]["half_width"].get<double>() == Approx(half));
    CHECK_THAT(text, Contains(fmt::format("{:.4g} ± {:.4g}", mean, half)));
  }
  CHECK_THAT(
      shell.trainyard("learn learn-local-sgd --compare plan.data_parallel.local_steps=1,8 --set learn.steps=2").out,
      !Contains("±"));
}

TEST_CASE("run says that the site has no room for the nodes", "[run][cli]") {
  const TopoFolder shell;
  const std::string run = "run gpt2-xl-ddp-dgx-a100 --no-what-if --set ";
  CHECK_THAT(shell.trainyard(run + "'site={power: 20 kW}'").out,
             Contains("\nsite       room for 1 x dgx-a100 (site.power; ") && Contains(", not for 4\n"));
  CHECK(shell.trainyard(run + "'site={power: 1 MW}'").out.find("\nsite ") == std::string::npos);
}

TEST_CASE("run and explain give one critical path", "[run][cli]") {
  const TopoFolder shell;
  for (const char* scenario : {"zero-offload-v100", "naive-vs-gpipe", "mixtral-ep8"}) {
    const auto answer = [&](const std::string& verb) {
      return trainyard::parse_json(shell.trainyard(verb + " " + scenario + " --json -").out);
    };
    const nlohmann::json run = answer("run"), explained = answer("explain");
    CAPTURE(scenario);
    CHECK(run.at("critical_path_s") == explained.at("critical_path_s"));
    CHECK(run.at("step_time_s") == explained.at("step_time_s"));
  }
}

TEST_CASE("forward passes of images are not described as tokens", "[run]") {
  const TopoFolder shell;
  const std::string images = shell.trainyard("run lessons/2-machines/22-precision.yaml --no-what-if").out;
  CHECK_THAT(images, Contains("inference  forward passes alone: a batch is answered after ") && !Contains("token"));
  CHECK_THAT(images, Contains("--sources lists them\n"));  // one GPU has no collectives
}

TEST_CASE("a what-if of adapters says how much of it their slots pass", "[cli][what-if]") {
  const TopoFolder shell;
  const std::string run = "run trillion-800xv100 ", set = "--set 'cluster.hca.rate=200 Gbit/s' --no-what-if";
  const std::string asked = shell.trainyard(run).out;
  CHECK_THAT(asked,
             Contains("2x HCA rate is 1.26x: the slot of an adapter of ") && Contains("passes 126 of 200 Gbit/s\n"));
  CHECK_THAT(shell.trainyard(run + set).out, Contains("capped by its slot at 126 Gbit/s"));
  CHECK_THAT(shell.trainyard("run gpt2-ddp-t4-servers").out,
             Contains("2x HCA rate saves") && !Contains("the slot of an"));
}

}  // namespace tools_test_statements
