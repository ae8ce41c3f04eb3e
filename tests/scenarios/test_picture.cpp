#include <catch2/catch.hpp>
#include <filesystem>

#include "models/reading/shipped_files.hpp"
#include "scenarios/src/pictures/chart.hpp"
#include "scenarios/src/pictures/step_picture.hpp"
#include "scenarios/src/pictures/svg.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/running/step_run.hpp"
#include "sim/error.hpp"
#include "sim/json_text.hpp"
#include "tests/support.hpp"
#include "tests/svg_checks.hpp"
#include "tests/temporary_folder.hpp"

namespace scenarios_test_picture {

using namespace trainyard;
using test::rectangles_within;
using test::well_formed;
namespace fs = std::filesystem;

namespace {

Scenario small(const Overrides& overrides = {}) {
  return read_scenario_text(
      "cluster: {nodes: 2, node: t4-server, fabric: nonblocking}\nmodel: {base: gpt2, n_layer: 2}\n"
      "plan: {global_batch_size: 16, micro_batch_size: 1, seq_length: 64, precision: fp16, collectives: "
      "messages}\nsoftware: pytorch-ddp\n",
      "small.yaml", overrides);
}

/// The picture as the product writes it, and the answer beside it.
struct DrawnStep {
  Result result;
  std::string svg;
};
DrawnStep draw_step(const Scenario& s, std::optional<int> rank = {}) {
  const test::TemporaryFolder folder;
  Result result = simulate(s, {.watch = picture_of(s, folder.path() / "step.svg", rank)});
  return {std::move(result), folder.text("step.svg")};
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// A picture with this number of bars, which alternate between two tones.
StepPicture comb(int bars) {
  StepPicture p;
  p.title = "<b> & \"c\"\n";
  p.end = 2;
  p.tones = {{"forward", "#111111", "#222222", 1}, {"backward", "#333333", "#444444", 1}};
  p.lanes = {{"com<pute", {}, false}};
  const double width = p.end / bars;
  for (int i = 0; i < bars; ++i)
    p.lanes[0].bars.push_back({i * width, (i + 1) * width, static_cast<std::size_t>(i % 2), 0});
  p.memory = {{0, 1e9}, {1, 3e9}, {1.0000001, 2e9}};
  p.capacity = 4e9;
  p.peak = 3e9;
  return p;
}

}  // namespace

TEST_CASE("labels of ticks have whole digits up to a million", "[picture]") {
  CHECK(short_number(65536) == "65,536");
  CHECK(short_number(16384) == "16,384");
  CHECK(short_number(0.125) == "0.125");
}

TEST_CASE("a step's picture is well-formed, stands alone and stays on its canvas", "[picture]") {
  const DrawnStep d = draw_step(small());
  well_formed(d.svg);
  CHECK(rectangles_within(d.svg) > 20);
  for (const char* word : {">compute<", ">send<", ">receive<", ">memory<", ">ms<", "forward", "backward", "optimizer",
                           "exposed all-reduce", "One training step of", "ring all-reduce", "capacity", "peak"}) {
    CAPTURE(word);
    CHECK(has(d.svg, word));
  }
  CHECK_FALSE(has(d.svg, "href"));
  CHECK_FALSE(has(d.svg, "url("));
  CHECK(has(d.svg, show(d.result.step_time)));
  CHECK(has(d.svg, "exposed all-reduce " + show(Seconds{d.result.breakdown.exposed_communication.at("all-reduce")})));
  CHECK(has(d.svg, "optimizer " + show(d.result.breakdown.optimizer)));
  CHECK(d.svg.size() < 150'000);
}

TEST_CASE("the same step seen from the same rank gives the same picture, byte by byte", "[picture]") {
  const std::string first = draw_step(small(), 3).svg;
  CHECK(first == draw_step(small(), 3).svg);
  CHECK(has(first, "seen from rank 3"));
  const std::string one_device_svg = draw_step(small({{"cluster", "{node: {base: t4-server, gpu: {count: 1}}}"}})).svg;
  well_formed(one_device_svg);
  CHECK_FALSE(has(one_device_svg, ">send<"));
  CHECK_FALSE(has(one_device_svg, "all-reduce"));
}

TEST_CASE("the waiting time of a pipeline stage is called bubble, as in the breakdown", "[picture]") {
  const Scenario s = small({{"plan.pipeline_parallel", "2"}});
  // The breakdown is that of the stage that waits least, so the rank of that stage is drawn.
  const DrawnStep d = draw_step(s, simulate(s).breakdown.rank);
  REQUIRE(d.result.breakdown.bubble.value > 0);
  CHECK(has(d.svg, "bubble " + show(d.result.breakdown.bubble)));
  CHECK_FALSE(has(d.svg, ">other "));
}

TEST_CASE("a picture shows as much of the framework as the breakdown has, and spans of the trace too", "[picture]") {
  for (const char* speed : {"1", "0.1"}) {
    const Scenario s =
        read_scenario(shipped_file("scenarios/gpt2-one-a100.yaml"), {{"cluster.cpu.thread_speed", speed}});
    const test::TemporaryFolder folder;
    const fs::path trace = folder.path() / "trace.json";
    double framework = 0;
    const Result r = simulate(s, {.trace = trace, .watch = [&framework](const StepRun& run) {
                                    for (const auto& tone : step_picture(run, 0, PicturePart::one_step).tones)
                                      if (tone.name == "framework") framework = tone.seconds;
                                  }});
    CAPTURE(speed);
    CHECK(framework == Approx(r.breakdown.framework.value).epsilon(1e-9));
    double spans = 0;
    const nlohmann::json written = parse_json(folder.text("trace.json"));
    for (const auto& span : written.at("traceEvents"))
      if (span.value("cat", "") == "delay") spans += span.at("dur").get<double>() * 1e-6;
    CHECK(spans == Approx(r.breakdown.framework.value).epsilon(1e-6));
  }
}

TEST_CASE("a step has the same answer whether or not it is watched", "[picture]") {
  const Scenario s =
      read_scenario(shipped_file("scenarios/published/deepseek-v3-2048.yaml"), {{"cluster.nodes", "16"},
                                                                                {"plan.data_parallel.size", "8"},
                                                                                {"plan.expert_parallel.size", "8"},
                                                                                {"plan.global_batch_size", "256"}});
  double watched = 0;
  const Result r = simulate(s, {.watch = [&watched](const StepRun& run) { watched = run.end.end.value; }});
  CHECK(r.step_time == simulate(s).step_time);
  CHECK(watched == Approx(r.step_time.value).epsilon(5e-4));  // kernel by kernel, its host waits a little less
}

TEST_CASE("a rank that does not exist is refused before anything is simulated or written", "[picture]") {
  for (const int rank : {-1, 8}) {
    CHECK_THROWS_WITH(picture_of(small(), "/nowhere/step.svg", rank),
                      "--rank " + std::to_string(rank) + ": the scenario has ranks 0 to 7");
    CHECK_THROWS_AS(picture_of(small(), "/nowhere/step.svg", rank), UserError);
  }
}

TEST_CASE("the tones sum to the step, and no bar of a lane covers another", "[picture]") {
  const Scenario s = small();
  const Plan step_plan = plan(s);
  SimulateOptions options;
  options.watch = [](const StepRun&) {};
  const StepRun run(s, step_plan, options);
  const double end = run.end.end.value;
  const StepPicture p = step_picture(run, 2, PicturePart::one_step);
  double sum = 0, exposed = 0;
  bool is_ordered = true;
  for (const auto& tone : p.tones) sum += tone.seconds;
  for (const auto& lane : p.lanes)
    for (std::size_t i = 0; i < lane.bars.size(); ++i) {
      is_ordered &= i == 0 || lane.bars[i].begin >= lane.bars[i - 1].end - 1e-12;
      if (p.tones[lane.bars[i].tone].name == "exposed all-reduce") exposed += lane.bars[i].end - lane.bars[i].begin;
    }
  CHECK(sum == test::near(end));
  CHECK(is_ordered);
  CHECK(exposed == test::near(run.breakdown.parts(2).exposed.at("all-reduce").value));
  CHECK(exposed > 0);
  CHECK(p.lanes.size() == 3);
}

TEST_CASE("a picture's size is bounded by its pixels, not by the operations", "[picture]") {
  const std::string ten_bars = draw(comb(10)), million_bars = draw(comb(1'000'000));
  well_formed(ten_bars);
  well_formed(million_bars);
  CHECK(has(ten_bars, "com&lt;pute"));
  CHECK(has(ten_bars, "&lt;b&gt; &amp; &quot;c&quot; "));
  CHECK(rectangles_within(million_bars) < 4000);
  CHECK(ten_bars.size() < 12000);
  StepPicture empty;
  well_formed(draw(empty));
}

TEST_CASE("numbers in a picture are short and plain", "[picture]") {
  CHECK(Svg::number(0) == "0");
  CHECK(Svg::number(-0.001) == "0");
  CHECK(Svg::number(12.5) == "12.5");
  CHECK(Svg::number(100) == "100");
  CHECK(Svg::number(1e6) == "1000000");
  CHECK(Svg::escape("a\x01<\xc3\xa9>") == "a &lt;\xc3\xa9&gt;");
}

TEST_CASE("a step that waits for its samples is drawn too", "[picture][input]") {
  const std::string text =
      "cluster: {nodes: 1, node: pcie-4, nvme: {count: 2, read: 2 GB/s, latency: 0 us, lanes: 4}}\n"
      "model: {mlp: {widths: [1024, 2048, 10]}}\n"
      "plan: {global_batch_size: 256, micro_batch_size: 32, precision: fp32}\n"
      "input: {dataset: {samples: 100000, sample_size: 1 MB}}\n";
  for (const char* overlap : {"none", "prefetch", "full"})
    for (int rank = 0; rank < 4; ++rank) {
      const DrawnStep picture = draw_step(read_scenario_text(text, "input.yaml", {{"input.overlap", overlap}}), rank);
      CHECK(has(picture.svg, "exposed input"));
      CHECK(has(picture.svg, ">CPU read<"));  // the lane of the host above that of the GPU
      CHECK(has(picture.svg, "read samples on the host"));
      CHECK(picture.svg.find(">CPU read<") < picture.svg.find(">compute<"));
      CHECK(has(picture.svg, "One training step of mlp: " + show(picture.result.step_time)));
    }
}

}  // namespace scenarios_test_picture
