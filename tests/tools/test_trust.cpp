// The trust line states the errors outside the fit, and what was never measured.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>

#include "models/networks/transformers/operator_lists.hpp"
#include "models/reading/shipped_files.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/reading/read_stages.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/studies/answer.hpp"
#include "scenarios/src/studies/measured/doubt_answer.hpp"
#include "scenarios/src/studies/measured/left_out_errors.hpp"
#include "scenarios/src/studies/measured/step_doubt.hpp"
#include "tests/user_errors.hpp"
#include "tools/reports/report.hpp"

namespace tools_test_trust {

using namespace trainyard;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

namespace {

LeftOutErrors errors_of(const char* family, StepTraits traits, double error) {
  return {"training", family, std::move(traits), 10, error / 2, error, error * 2};
}

std::string on_one_line(const std::string& text) {
  std::string line;
  for (const char c : text)
    if (c == '\n' || c == ' ') {
      if (!line.ends_with(' ')) line += ' ';
    } else {
      line += c;
    }
  return line;
}

/// The trust text of a scenario, on one line.
std::string trust_of(const std::string& file, const Overrides& overrides = {}) {
  return on_one_line(trust_lines(read_scenario(shipped_file(file), overrides)));
}

}  // namespace

TEST_CASE("the nearest measured steps share most traits, the kind of network first", "[trust]") {
  const StepTraits wanted{"dense decoders", "nemo", "h100", "bf16"};
  const std::vector<LeftOutErrors> all{errors_of("a", {"dense decoders", "nemo", "b200", "bf16"}, 0.1),
                                       errors_of("b", {"dense decoders", "fsdp", "h100", "bf16"}, 0.2),
                                       errors_of("c", {"CNNs", "nemo", "h100", "bf16"}, 0.3)};
  const NearestSteps nearest = nearest_steps(wanted, all);
  REQUIRE(nearest.errors.size() == 1);
  CHECK(nearest.errors.front().family == "a");
  CHECK(nearest.shared == std::array<bool, kStepTraits>{true, true, false, true});
  CHECK(nearest.seen == std::array<bool, kStepTraits>{true, true, true, true});
  // Steps of a CNN are never near a decoder, whatever else they share. Steps of dense decoders are near those with
  // experts.
  CHECK(nearest_steps(wanted, {all[2]}).errors.empty());
  CHECK(nearest_steps({"mixtures of experts", "nemo", "h100", "bf16"}, all).errors.front().family == "a");
  CHECK(nearest_steps({"dense decoders", "plain", "t4", "bf16"}, all).errors.empty());
}

TEST_CASE("the kept errors of families left out of the fit are nearest to their own traits", "[trust]") {
  const std::vector<LeftOutErrors> all = errors_by_traits(kept_left_out_steps());
  REQUIRE(all.size() > 20);
  for (const LeftOutErrors& errors : all) {
    CAPTURE(errors.family);
    CHECK(errors.steps > 0);
    CHECK(errors.worst >= errors.left_out);
    const NearestSteps nearest = nearest_steps(errors.traits, all);
    CHECK(nearest.shared == std::array<bool, kStepTraits>{true, true, true, true});
  }
}

TEST_CASE("fp8 attention saves memory, and time if its kernels were measured; else the trust details say so",
          "[trust]") {
  const std::string line = "attention keeps its tensors in fp8 and takes as long as in 16 bits";
  for (const std::string model :
       {"{base: deepseek-v2, num_hidden_layers: 2}", "{base: llama-3-8b, num_hidden_layers: 2}"}) {
    CAPTURE(model);
    const auto scenario_with = [&model](const std::string& narrow, const std::string& precision = "fp8",
                                        const std::string& node = "dgx-h100",
                                        const std::string& stack = "megatron-core",
                                        const std::string& tokens = "4096") {
      return read_scenario_text("cluster: {node: " + node + "}\nmodel: " + model + "\nsoftware: {base: " + stack +
                                    ", fp8_attention: " + narrow +
                                    "}\nplan: {data_parallel: {size: 8}, global_batch_size: 8, micro_batch_size: 1, "
                                    "seq_length: " +
                                    tokens + ", precision: " + precision + "}\n",
                                "x.yaml");
    };
    const Scenario narrow = scenario_with("true"), wide = scenario_with("false");
    CHECK_THAT(trust_details(narrow), Contains(line));
    CHECK_THAT(trust_details(wide), !Contains(line));
    CHECK_THAT(trust_details(scenario_with("true", "bf16")), !Contains(line));
    const Result less = simulate(narrow), more = simulate(wide);
    CHECK(less.step_time.value >= more.step_time.value);  // the casts
    CHECK(less.step_time.value == Approx(more.step_time.value).epsilon(0.05));
    CHECK(less.memory.peak.value < more.memory.peak.value);
    for (const char* precision : {"fp8-cs", "mxfp8"}) {
      const auto bridge = [&](const char* format) {
        return scenario_with(format, precision, "{base: gb300-nvl72, gpu: {count: 8}}", "megatron-bridge", "32768");
      };
      CHECK_THAT(trust_details(bridge("true")), !Contains(line));
      CHECK(simulate(bridge("true")).step_time.value < simulate(bridge("false")).step_time.value);
    }
  }
}

TEST_CASE("a precision that a chip lacks is refused with one that it has", "[trust][fp8]") {
  const Catalog catalog;
  int refused = 0;
  for (const std::string& gpu : catalog.names("gpu"))
    for (const char* precision : {"nvfp4", "mxfp4", "mxfp6", "mxfp8", "fp8", "bf16", "fp16"}) {
      CAPTURE(gpu, precision);
      const auto error_in = [&gpu](const std::string& name) {
        return test::user_error([&] {
          read_scenario_text(
              fmt::format("cluster: {{node: {{gpu: {{count: 1, type: {}}}, interconnect: pcie, pcie: {{generation: 4, "
                          "latency: 0.25 us}}}}}}\nmodel: llama-3-8b\nplan: {{micro_batch_size: 1, precision: {}}}\n",
                          gpu, name),
              "x.yaml");
        });
      };
      const std::string error = error_in(precision), mark = "nearest: ";
      CAPTURE(error);
      if (error.find(gpu + " has no " + precision + ";") == std::string::npos) continue;
      ++refused;
      const std::string offered = error.substr(error.find(mark) + mark.size());
      CHECK(offered != precision);
      CHECK(error_in(offered).find(" has no ") == std::string::npos);
      CHECK(error.find(offered) < error.find(mark));
    }
  CHECK(refused > 100);
}

TEST_CASE("a precision of few bits has a scaling, and the first and last blocks can stay in bf16", "[trust][fp8]") {
  const auto scenario_with = [](const std::string& precision, Overrides more = {}, const char* node = "dgx-b200") {
    more.insert(more.end(), {{"cluster.node", node}, {"plan.precision", precision}});
    return read_scenario(shipped_file("scenarios/llama3-70b-tp8-pp4.yaml"), more);
  };
  const std::map<std::string, Fp8Scaling> scalings{{"mxfp8", Fp8Scaling::block},    {"fp8-cs", Fp8Scaling::current},
                                                   {"fp8-ds", Fp8Scaling::delayed}, {"nvfp4", Fp8Scaling::nvfp4},
                                                   {"mxfp4", Fp8Scaling::mxfp4},    {"mxfp6", Fp8Scaling::mxfp6}};
  for (const auto& [name, scaling] : scalings) {
    CAPTURE(name);
    const Scenario s = scenario_with(name);
    CHECK(s.fp8);
    CHECK(s.precision == Precision::bf16);
    CHECK(s.software.fp8_scaling == scaling);
    CHECK(s.precision_word() == (name.find("fp8") == std::string::npos ? name : "fp8"));
    CHECK(s.precision_title() == name);
  }
  CHECK_THROWS_WITH(scenario_with("fp4"), Contains("unknown value \"fp4\"; not modelled yet; nearest: \"nvfp4\""));
  CHECK_THROWS_WITH(scenario_with("nvfp4", {{"plan.fp8_scaling", "block"}}), Contains("nvfp4 states the scaling"));
  CHECK_THROWS_WITH(scenario_with("nvfp4", {}, "dgx-h100"), Contains("h100-sxm5-80gb has no nvfp4"));
  CHECK(scenario_with("fp8").precision_title() == "fp8");
  CHECK_THAT(test::user_error([&] { scenario_with("nvfp4", {}, "mi355x-8x"); }),
             Contains("mi355x has no nvfp4; it has ") && EndsWith("nearest: mxfp4"));
  CHECK_THAT(test::user_error([&] { scenario_with("mxfp8", {}, "dgx-h100"); }), EndsWith("nearest: fp8"));
  const auto narrow_products = [](const Scenario& s) {
    std::size_t count = 0;
    for (const Layer& layer : s.network.layers)
      count += std::any_of(layer.forward.begin(), layer.forward.end(), [](const KernelCall& call) {
        return call.work.precision == static_cast<std::uint8_t>(Precision::fp4) && call.work.flops.value > 0;
      });
    return count;
  };
  CHECK(narrow_products(scenario_with("nvfp4")) == 80);
  CHECK(narrow_products(scenario_with("nvfp4", {{"plan.bf16_blocks", "{first: 2, last: 8}"}})) == 70);
  const Overrides hybrid{
      {"model", "nemotron-3-nano"}, {"plan.tensor_parallel", "1"}, {"plan.sequence_parallel", "false"}};
  CHECK(narrow_products(scenario_with("nvfp4", hybrid)) == 52);
  Overrides wide = hybrid;
  wide.emplace_back("plan.bf16_blocks", "{last: 14}");
  CHECK(narrow_products(scenario_with("nvfp4", wide)) == 38);
  CHECK_THROWS_WITH(scenario_with("nvfp4", {{"plan.bf16_blocks", "{first: 81}"}}),
                    Contains("81 blocks, but the network has 80"));
  CHECK_THROWS_WITH(scenario_with("bf16", {{"plan.bf16_blocks", "{first: 2}"}}),
                    Contains("only with precision fp8 or fewer"));
}

TEST_CASE("an answer on an announced chip says so, and counts as unmeasured", "[trust]") {
  const std::string plain = "scenarios/llama3-8b-fsdp-64xh100.yaml";
  const Overrides rubin{{"cluster.node", "{base: vr-nvl72, gpu: {count: 64}}"}, {"cluster.nodes", "1"}};
  CHECK_THAT(trust_of(plain, rubin), Contains("announced: the figures of rubin are preliminary"));
  CHECK_THAT(trust_of(plain), !Contains("announced"));
  CHECK(profile_of(read_scenario(shipped_file(plain), rubin), 1).unmeasured_parts.contains("announced chip"));
}

TEST_CASE("ranges of an announced chip make ranges of the step, and widen its interval", "[trust]") {
  const Overrides rubin{
      {"cluster.node", "{base: vr-nvl72, gpu: {count: 8}}"}, {"cluster.nodes", "1"}, {"plan.global_batch_size", "8"}};
  const auto answer_with = [](Overrides changes, const Overrides& further) {
    changes.insert(changes.end(), further.begin(), further.end());
    const Scenario s = read_scenario(shipped_file("scenarios/llama3-8b-fsdp-64xh100.yaml"), changes);
    AnswerOptions options;
    options.factor = 0;
    Result r = answer(s, options).result;
    StepDoubt doubt = step_doubt(s, r);
    doubt.fast = doubt.slow = 1;
    const auto plain = likely_step_times(r.step_time.value, doubt);
    return std::pair{std::move(r), plain};
  };
  const auto [r, plain_interval] = answer_with(rubin, {});
  REQUIRE(r.announced_step_times);
  const auto [fast, slow] = *r.announced_step_times;
  CHECK(fast <= r.step_time.value);
  CHECK(slow > 1.05 * fast);
  // The ends are the steps with the figures at the ends of their ranges.
  const Overrides slowest{{"cluster.gpu.memory_bandwidth", "13 TB/s"}, {"cluster.gpu.peak.fp4", "34700 TFLOP/s"}};
  CHECK(answer_with(rubin, slowest).first.step_time.value == Approx(slow).epsilon(1e-9));
  CHECK_FALSE(answer_with(rubin, slowest).first.announced_step_times);
  REQUIRE(r.likely_step_times);
  REQUIRE(plain_interval);
  CHECK(r.likely_step_times->back() == Approx(plain_interval->back() * slow / r.step_time.value));
  CHECK(r.likely_step_times->front() == Approx(plain_interval->front() * fast / r.step_time.value));
  CHECK_FALSE(answer_with({}, {}).first.announced_step_times);
  const Scenario s = read_scenario(shipped_file("scenarios/llama3-8b-fsdp-64xh100.yaml"), rubin);
  CHECK_THAT(on_one_line(trust_lines(s, &r)), Contains("announced: the figures of rubin are preliminary; with ") &&
                                                  Contains("memory_bandwidth 13 TB/s to 22 TB/s") &&
                                                  Contains(" the step takes "));
}

TEST_CASE("all ranges of the catalog can be read at both ends, slowest first", "[trust][catalog]") {
  int ranges = 0;
  for (const std::string node : {"vr-nvl72", "vr-nvl144"}) {
    const Scenario s =
        read_scenario_text("{cluster: {node: " + node + "}, model: gpt2, plan: {micro_batch_size: 1}}", "announced");
    for (const FigureSource& figure : s.sources) ranges += figure.range.empty() ? 0 : 1;
  }
  CHECK(ranges == 4);
  CHECK_THROWS_WITH(
      read_scenario_text("{cluster: {node: {base: vr-nvl72, gpu: {type: {base: rubin, memory_bandwidth: "
                         "{value: 22 TB/s, range: [13 TB/s]}}}}}, model: gpt2, plan: {micro_batch_size: 1}}",
                         "announced"),
      Contains("range: expected two figures, that of the slowest hardware first"));
}

TEST_CASE("the ideal stack has no error to expect, and real stacks are slower", "[trust]") {
  const std::string file = "scenarios/gpt2-xl-ddp-dgx-a100.yaml";
  CHECK_THAT(trust_of(file, {{"software", "plain"}}),
             Contains("trust the stack is ideal (plain: no software costs), so no measured step is like it") &&
                 Contains("name yours (key software)") && !Contains("error to expect") && !Contains("extrapolated"));
  const auto step_with = [&file](const char* stack) {
    return simulate(read_scenario(shipped_file(file), {{"software", stack}})).step_time;
  };
  const Seconds ideal = step_with("plain");
  for (const char* stack : {"pytorch-ddp", "megatron-core", "deepspeed", "nemo"}) {
    CAPTURE(stack);
    CHECK(step_with(stack) > ideal);
  }
}

TEST_CASE("a backbone that is trained without a loss is said to have none", "[trust]") {
  const auto scenario = [](const char* model, const char* mode = "") {
    return read_scenario_text(
        fmt::format("cluster: {{node: dgx-a100}}\nmodel: {}\nplan: {{micro_batch_size: 1{}}}\n", model, mode),
        "backbone.yaml");
  };
  const Scenario backbone = scenario("dinov2-base");
  CHECK_THAT(
      on_one_line(trust_lines(backbone)),
      Contains("dinov2-base has no loss: no operator of its last layer, head, computes one, and a loss is not timed"));
  const ListedLayer* end = end_without_loss(backbone);
  REQUIRE(end != nullptr);
  CHECK(end->operators.back().word == "layer_norm");
  CHECK_THAT(trust_lines(scenario("dinov2-base", ", mode: inference")), !Contains("no loss"));
  for (const char* with_loss : {"dit-xl-2", "siglip-base", "bert-base"})
    CHECK_THAT(trust_lines(scenario(with_loss)), !Contains("no loss"));
}

TEST_CASE("the error to expect is that of the step's interval, and it allows for a slow host", "[trust]") {
  const auto trust_with_interval = [](const char* file) {
    const Scenario s = read_scenario(shipped_file(file));
    Result r = simulate(s);
    r.likely_step_times = likely_step_times(r.step_time.value, step_doubt(s, r));
    const double factor = step_doubt(s, r).slow_host;
    r.expected_error = answer(s).result.expected_error;
    CHECK(r.expected_error == DoubtModel::shipped().expected_error(step_doubt(s, r)));
    const std::string text = on_one_line(trust_lines(s, &r));
    CHECK_THAT(text, Contains(fmt::format("error to expect: {:.1f} % on average, by the interval of the step",
                                          100 * result_fields().json(r).at("expected_error").get<double>())));
    if (factor > 1) CHECK_THAT(text, Contains(fmt::format("a slow host would lengthen the step {:.2f} times", factor)));
    return text;
  };
  CHECK_THAT(trust_with_interval("scenarios/bert-large-ddp-8xh100.yaml"),
             Contains("no measured step shows how fast this stack's host launches kernels"));
  CHECK_THAT(trust_with_interval("scenarios/gpt2-xl-ddp-dgx-a100.yaml"), !Contains("slow host"));
}

TEST_CASE("errors of collectives are those of where the plan's groups lie", "[trust]") {
  const auto details = [](int tensor, int pipeline) {
    return on_one_line(trust_details(read_scenario(shipped_file("scenarios/llama3-70b-tp8-pp4.yaml"),
                                                   {{"cluster.nodes", "2"},
                                                    {"plan.tensor_parallel", fmt::format("{}", tensor)},
                                                    {"plan.pipeline_parallel", fmt::format("{}", pipeline)},
                                                    {"plan.sequence_parallel", tensor > 1 ? "true" : "false"}})));
  };
  CHECK_THAT(details(1, 1), Contains("error to expect between nodes by infiniband"));
  CHECK_THAT(details(8, 1), Contains("error to expect in nodes, sizes left out") && Contains("; between nodes by "));
  CHECK_THAT(details(8, 2), Contains("error to expect sizes left out") && !Contains("between nodes by "));
}

TEST_CASE("the trust lines say that collectives have more GPUs of a node than were measured", "[trust]") {
  const auto check = [](const std::string& node, int tensor, int gpus) {
    CAPTURE(node, tensor);
    const Scenario s = read_scenario(shipped_file("scenarios/llama3-8b-fsdp-64xh100.yaml"),
                                     {{"cluster.node", node},
                                      {"cluster.nodes", "1"},
                                      {"plan.global_batch_size", "144"},
                                      {"plan.tensor_parallel", fmt::format("{}", tensor)}});
    Result r;
    r.extrapolated = extrapolated_collectives(s);
    CHECK(r.extrapolated.has_value() == (gpus > 0));
    const std::string words =
        fmt::format("extrapolated: collectives among {} GPUs of a node; those of up to 8 were measured", gpus);
    CHECK((on_one_line(trust_lines(s)).find(words) != std::string::npos) == (gpus > 0));
    CHECK(to_json(r).contains("extrapolated_collectives") == (gpus > 0));
    if (gpus > 0) CHECK(to_json(r)["extrapolated_collectives"]["gpus"] == gpus);
    if (gpus > 0) CHECK(to_json(r)["extrapolated_collectives"]["measured_gpus"] == 8);
    return on_one_line(trust_details(s));
  };
  CHECK_THAT(check("gb300-nvl72", 1, 72), Contains("measured with up to 8 GPUs of a node, extrapolated to 72"));
  CHECK_THAT(check("gb300-nvl72", 8, 9), Contains("measured with up to 8 GPUs of a node, extrapolated to 72"));
  CHECK_THAT(check("dgx-h100", 1, 0), !Contains("extrapolated"));
}

TEST_CASE("the trust line names the traits that were never measured", "[trust]") {
  const std::string ddp = trust_of("scenarios/gpt2-xl-ddp-dgx-a100.yaml");
  CHECK_THAT(ddp, Contains("extrapolated: no measured step has this stack (pytorch-ddp)") &&
                      Contains(" similar measured steps that the fit did not use were off by ") &&
                      Contains(" at worst: dense decoders in bf16 on this GPU with ") && !Contains("error to expect") &&
                      Contains("validate training --left-out"));
  CHECK_THAT(trust_of("scenarios/mixtral-ep8.yaml"), Contains("mixtures of experts"));
  CHECK_THAT(trust_of("scenarios/gpt2-ddp-t4-servers.yaml"), Contains("this GPU (t4)") && !Contains("similar"));
  const std::string measured = "scenarios/measured/training/mpt-a100_80gb.yaml@a100_80gb_7b_s2048_g8_L184";
  CHECK_THAT(trust_of(measured),
             Contains(": dense decoders in bf16 on this GPU with this stack (") && !Contains("extrapolated"));
  CHECK_THAT(trust_of(measured, {{"plan.precision", "fp16"}}), Contains("no measured step has fp16 "));
  CHECK_THAT(trust_of("scenarios/gpt2-one-a100.yaml", {{"plan.mode", "inference"}, {"plan.optimizer", "null"}}),
             Contains("forward passes alone"));
}

TEST_CASE("the trust line says that only one measured step is similar, and its error", "[trust]") {
  const Overrides overrides{{"software", "nemo-automodel"}};
  const Scenario s = read_scenario(shipped_file("scenarios/llama3-70b-tp8-pp4.yaml"), overrides);
  const NearestSteps nearest = nearest_steps(traits_of(s), errors_by_traits(kept_left_out_steps()));
  REQUIRE(nearest.errors.size() == 1);
  REQUIRE(nearest.errors.front().steps == 1);
  CHECK_THAT(trust_of("scenarios/llama3-70b-tp8-pp4.yaml", overrides),
             Contains(fmt::format(
                 "the only similar measured step that the fit did not use was off by {:.1f} %: dense decoders "
                 "in bf16 on this GPU with this stack",
                 nearest.errors.front().left_out * 100)) &&
                 Contains("this is one step; all dense decoders on this GPU or with this stack: "));
}

}  // namespace tools_test_trust
