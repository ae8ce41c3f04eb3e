// `trainyard teach pipeline` and `teach zero`: figures from the simulator, equal to the papers' closed forms.
#include <regex>

#include "models/reading/formula.hpp"
#include "scenarios/src/lessons/figures.hpp"
#include "scenarios/src/lessons/teach_pipeline.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "tests/places.hpp"
#include "tests/support.hpp"
#include "tests/tools/teach_shell.hpp"
#include "tools/reports/teaching/lesson_views.hpp"

namespace tools_test_teach_pipeline {

using namespace trainyard;
using namespace trainyard::test;
using Catch::Matchers::Contains;

namespace {

const PipelineSchedule& schedule(const std::string& name, const PipelineShape& shape) {
  return find_pipeline_schedule(name, shape, {});
}

PipelineLesson lesson(const std::string& name, const PipelineShape& shape, double transfer = 0) {
  return teach_pipeline(schedule(name, shape), shape, {}, transfer);
}

}  // namespace

TEST_CASE("simulated pipelines have the bubbles and activations of their closed forms", "[teach][pipeline]") {
  for (const int p : {1, 2, 4, 8})
    for (const int m : {1, 4, 8, 24}) {
      CAPTURE(p, m);
      for (const char* name : {"gpipe", "1f1b"}) {
        const PipelineLesson done = lesson(name, {p, m, 1});
        CHECK(done.end == near(3.0 * (m + p - 1)));
        CHECK(done.bubble_share() == near((p - 1.0) / (m + p - 1)));
        CHECK(done.bubble_over_ideal() == near((p - 1.0) / m));
        CHECK(done.speed_up() == near(static_cast<double>(m) * p / (m + p - 1)));
        for (int k = 0; k < p; ++k)
          CHECK(done.run.in_flight[static_cast<std::size_t>(k)] == (name[0] == 'g' ? m : std::min(m, p - k)));
      }
    }
  for (const int v : {2, 3, 4}) {
    const PipelineLesson done = lesson("interleaved-1f1b", {4, 8, v});
    CHECK(done.bubble_over_ideal() == near(3.0 / (v * 8)));
    for (int k = 0; k < 4; ++k) CHECK(done.run.in_flight[static_cast<std::size_t>(k)] == 2 * (3 - k) + (v - 1) * 4 + 1);
  }
  const PipelineLesson h1 = lesson("zb-h1", {4, 12, 1}), zb_2p = lesson("zb-2p", {4, 12, 1});
  CHECK(h1.end == near(36 + 3));
  CHECK(h1.run.in_flight == std::vector<double>(4, 4));
  CHECK(zb_2p.run.in_flight == std::vector<double>(4, 7));
  for (std::size_t k = 0; k < 4; ++k)
    CHECK(zb_2p.run.stages[k].back().end - zb_2p.run.stages[k].front().begin == near(zb_2p.run.busy(k)));
  CHECK(lesson("dualpipe-v", {4, 8, 2}).run.in_flight == std::vector<double>(4, 9));
  CHECK(lesson("v-min", {4, 8, 2}).run.in_flight == std::vector<double>(4, 4));
}

TEST_CASE("the list of pipelines has the bubbles and activations that the simulator gives", "[teach][pipeline]") {
  for (const int p : {3, 4, 5, 8})
    for (const std::string& name : pipeline_schedules().names()) {
      const PipelineShape shape{p, 3 * p, pipeline_schedules().find(name, {}).least_chunks};
      CAPTURE(name, p);
      const PipelineSchedule& found = pipeline_schedules().find(name, {});
      if (found.refuses && !found.refuses(shape).empty()) continue;  // dualpipe takes even numbers of stages
      const PipelineSchedule& listed = schedule(name, shape);
      const nlohmann::ordered_json figures = {
          {"p", p}, {"m", shape.micro_batches}, {"v", shape.chunks}, {"F", 1}, {"B", 1}, {"W", 1}};
      const std::string formula = listed.bubble.substr(0, listed.bubble.find(" if "));
      const double bubble = figure_of(figures, formula, nowhere()),
                   stored = evaluate(listed.activations, [&](std::string_view figure) {
                     return figures.at(std::string(figure)).get<double>();
                   });
      const PipelineLesson done = teach_pipeline(listed, shape, PipelineTimes{1, 1, 1}, 0);
      // Pairs of passes as one piece of work, which the paper of dualpipe assumes, are in test_pipeline_schedules.cpp.
      if (name == "dualpipe")
        CHECK(bubble == near(2 * (p / 2.0 - 1)));
      else
        CHECK(std::abs((done.steps_overlap() ? done.period : done.end) - done.ideal() - bubble) <= 0.5 + 1e-9);
      double most = 0;
      for (std::size_t k = 0; k < static_cast<std::size_t>(p); ++k) most = std::max(most, done.activations(k));
      if (name == "zb-auto")
        CHECK(most <= stored + 1e-9);
      else
        CHECK(most == near(stored));
    }
}

TEST_CASE("teach says what run stores if the passes of dualpipe alternate layer by layer", "[teach][pipeline]") {
  const auto stored = [](const std::string& name, const char* overlap) {
    const Scenario s = read_scenario_text(
        "cluster: {nodes: 4, node: dgx-h100, fabric: nonblocking}\nmodel: {base: llama-3-70b, num_hidden_layers: 40, "
        "vocab_size: 128}\nplan: {micro_batch_size: 1, global_batch_size: 16, seq_length: 2048, tensor_parallel: 8, "
        "sequence_parallel: true, pipeline_parallel: 4, pipeline: {schedule: " +
            name + "}, expert_parallel: {overlap: " + overlap + "}}\n",
        "s.yaml");
    return simulate(s, {.critical_path = false}).memory.activations.value;
  };
  const double micro_batch = stored("1f1b", "null") / 4;
  for (const char* name : {"dualpipe", "dualpipe-v"}) {
    const PipelineLesson done = lesson(name, {4, 16, 2});
    double most = 0;
    for (std::size_t k = 0; k < 4; ++k) most = std::max(most, done.activations(k));
    CAPTURE(name, most);
    CHECK(stored(name, "false") / micro_batch == Approx(most).epsilon(0.01));
    CHECK(stored(name, "null") / micro_batch == Approx(4).epsilon(0.01));
    CHECK_THAT(Teacher().teach(std::string("pipeline --schedule ") + name + " --chunks 2 --micro-batches 16").out,
               Contains("frees, so that a stage stores about 4 micro-batches\n"));
  }
}

TEST_CASE("a listed bubble holds for all times of the passes, but those that its condition leaves out",
          "[teach][pipeline]") {
  for (const std::string& name : pipeline_schedules().names())
    for (const PipelineTimes& t : {PipelineTimes{1, 2, 1}, PipelineTimes{1, 1, 0.5}, PipelineTimes{2, 3, 2.5}}) {
      const PipelineShape shape{4, 12, pipeline_schedules().find(name, {}).least_chunks};
      CAPTURE(name, t.backward_input, t.backward_weights);
      const PipelineSchedule& listed = schedule(name, shape);
      const std::size_t end = listed.bubble.find(" if ");
      const std::string condition = end == std::string::npos ? "" : listed.bubble.substr(end);
      if (!condition.empty() && (condition != " if W <= F" || t.backward_weights > t.forward)) continue;
      const nlohmann::ordered_json figures = {{"p", 4},
                                              {"m", 12},
                                              {"v", shape.chunks},
                                              {"F", t.forward},
                                              {"B", t.backward_input},
                                              {"W", t.backward_weights}};
      const PipelineLesson done = teach_pipeline(listed, shape, t, 0);
      CHECK((done.steps_overlap() ? done.period : done.end) - done.ideal() ==
            near(figure_of(figures, listed.bubble.substr(0, end), nowhere())));
    }
}

TEST_CASE("the simulated dualpipe has the closed forms of its order", "[teach][pipeline]") {
  for (const int p : {2, 4, 8})
    for (const int m : {2 * p, 2 * p + 2, 4 * p})
      for (const PipelineTimes& t : {PipelineTimes{1, 1, 1}, PipelineTimes{2, 2, 0.5}, PipelineTimes{0.7, 0.7, 0.7}}) {
        CAPTURE(p, m, t.backward_weights);
        const PipelineShape shape{p, m, 2};
        const PipelineLesson done = teach_pipeline(schedule("dualpipe", shape), shape, t, 0);
        // (stages / 2 - 1)(F + B - 2 W): messages leave at the end of each pass (see strategies/pipelines/dualpipe.cpp).
        const double bubble = (p / 2 - 1) * (t.forward + t.backward_input - t.backward_weights);
        CHECK(done.ideal() == near(m * (t.forward + t.backward_input + t.backward_weights)));
        CHECK(done.end == near(done.ideal() + bubble));
        CHECK(done.run.in_flight == std::vector<double>(static_cast<std::size_t>(p), p + 1));
        for (std::size_t k = 0; k < static_cast<std::size_t>(p); ++k) {
          CHECK(done.activations(k) == p + 1);
          CHECK(done.run.busy(k) == near(done.ideal()));
        }
      }
  CHECK_THAT(Teacher().teach("pipeline --schedule dualpipe --chunks 2").out,
             Contains("dualpipe: 4 stages, 8 micro-batches, 2 model chunks a stage\n") &&
                 Contains("\nthe number in a pass is its micro-batch; the width of a pass is its time\n") &&
                 Contains("time: 25; without waiting: 24\n") && Contains("activations of 5 micro-batches at most\n") &&
                 Contains("parameters: two copies; stages k and 3 - k hold the same layers"));
}

TEST_CASE("zb-auto has the bubbles that its authors published, and so have the fixed orders", "[teach][pipeline]") {
  // Qi et al. 2023, the times of the passes and of a message that they measured, ms, and their table of bubble rates: of
  // 1F1B, ZB-H1, ZB-H2 (zb-2p), ZB-1p and ZB-2p. A micro-batch of s tokens takes 34 s h + 5 a s² bytes a layer, of which
  // weight gradients need 32 s h (h: width, a: heads).
  struct Published {
    int stages, micro_batches;
    double forward, input, weights, message, width, heads;
    double one_f_one_b, h1, h2, auto_1, auto_2;
  };
  constexpr Published rows[] = {
      {8, 24, 18.522, 18.086, 9.337, 0.601, 2304, 24, 0.2431, 0.1585, 0.1083, 0.1585, 0.0433},
      {8, 32, 18.513, 18.086, 9.331, 0.626, 2304, 24, 0.1985, 0.1242, 0.0837, 0.1242, 0.0039},
      {8, 64, 18.546, 18.097, 9.321, 0.762, 2304, 24, 0.1240, 0.0674, 0.0444, 0.0674, 0.0026},
      {8, 24, 29.718, 29.444, 19.927, 0.527, 4096, 32, 0.2347, 0.1323, 0.0698, 0.1323, 0.0029},
      {8, 32, 29.802, 29.428, 19.530, 0.577, 4096, 32, 0.1898, 0.1045, 0.0559, 0.1045, 0.0022},
      {8, 64, 29.935, 29.621, 19.388, 0.535, 4096, 32, 0.1091, 0.0554, 0.0294, 0.0554, 0.0010},
      {16, 48, 11.347, 11.248, 8.132, 0.377, 5120, 40, 0.2552, 0.1397, 0.0672, 0.1397, 0.0066},
      {16, 64, 11.307, 11.254, 8.101, 0.379, 5120, 40, 0.2082, 0.1088, 0.0516, 0.1088, 0.0054},
      {16, 128, 11.325, 11.308, 8.109, 0.378, 5120, 40, 0.1251, 0.0576, 0.0266, 0.0576, 0.0028},
      {32, 96, 10.419, 10.207, 7.715, 0.408, 6144, 48, 0.2646, 0.1421, 0.0641, 0.1421, 0.0038},
      {32, 128, 10.408, 10.204, 7.703, 0.408, 6144, 48, 0.2168, 0.1106, 0.0490, 0.1106, 0.0029},
      {32, 256, 10.402, 10.248, 7.698, 0.460, 6144, 48, 0.1352, 0.0594, 0.0257, 0.0594, 0.0018}};
  for (const Published& r : rows) {
    CAPTURE(r.stages, r.micro_batches, r.width);
    PipelineShape shape{r.stages, r.micro_batches, 1};
    shape.figures.kept_share = 32 * r.width / (34 * r.width + 5 * r.heads * 1024);
    const auto bubble = [&](const char* name, double limit) {
      shape.figures.activation_limit = limit;
      const PipelineLesson done =
          teach_pipeline(schedule(name, shape), shape, {r.forward, r.input, r.weights}, r.message);
      for (std::size_t k = 0; k < done.run.stages.size(); ++k)
        if (std::string(name) == "zb-auto") CHECK(done.activations(k) <= limit * r.stages * (1 + 1e-9));
      return Approx(done.bubble_share_in_a_row()).margin(0.00006).epsilon(0);
    };
    CHECK(r.one_f_one_b == bubble("1f1b", 1));
    CHECK(r.h1 == bubble("zb-h1", 1));
    CHECK(r.h2 == bubble("zb-2p", 1));
    CHECK(r.auto_1 == bubble("zb-auto", 1));
    CHECK(r.auto_2 == bubble("zb-auto", 2));
  }
}

TEST_CASE("the order of zb-auto that --write gives is the one that is drawn, and wrong flags are errors",
          "[teach][pipeline]") {
  const Teacher shell;
  const std::string times = " --backward 2.3 --weights 1.1 --transfer 0.4 --micro-batches 12 --kept 0.4";
  const std::string drawn =
      shell.teach("pipeline --schedule zb-auto --activation-limit 2 --write order.yaml" + times).out;
  const std::string read = shell.teach("pipeline --schedule order.yaml" + times).out;
  const auto time = [](const std::string& text) { return text.substr(text.find("\ntime: "), 24); };
  CHECK(time(drawn) == time(read));
  shell.check_refused("pipeline --activation-limit 2",
                      "--activation-limit: 1f1b has a fixed order; expected --schedule zb-auto");
  shell.check_refused("pipeline --schedule all --kept 0.5",
                      "--schedule all: expected no --kept, which is for a single schedule");
}

TEST_CASE("steps in a row take no longer than one alone, and zb-2p has no bubble between them", "[teach][pipeline]") {
  const std::pair<const char*, PipelineShape> cases[] = {
      {"naive", {4, 2, 1}},   {"gpipe", {4, 8, 1}},  {"1f1b", {4, 8, 1}},   {"interleaved-1f1b", {4, 8, 2}},
      {"zb-h1", {4, 12, 1}},  {"zb-2p", {4, 12, 1}}, {"zb-2p", {8, 16, 1}}, {"dualpipe-v", {4, 8, 2}},
      {"dualpipe", {4, 8, 2}}};
  for (const auto& [name, shape] : cases) {
    CAPTURE(name, shape.stages);
    const PipelineLesson done = lesson(name, shape);
    CHECK(done.period <= done.end * (1 + 1e-9));
    CHECK(done.period >= done.ideal() * (1 - 1e-9));
    // The pipeline is in its steady state: later steps take equally long.
    TrainingPlan plan = even_pipeline(schedule(name, shape), shape, {}, 0);
    plan.steps = 8;
    const PipelineRun many = run_pipeline(plan);
    CHECK(many.step_end(7, 8) - many.step_end(6, 8) == near(done.period));
    CHECK(many.in_flight == done.run.in_flight);
    const bool overlaps = std::string(name) == "zb-2p";
    CHECK(done.steps_overlap() == overlaps);
    CHECK(done.steps == (overlaps ? 3 : 1));
    if (overlaps) {
      CHECK(done.period == near(done.ideal()));
      CHECK(done.bubble_share() == near(1 - done.ideal() / (done.ideal() + shape.stages - 1)));
    }
  }
  const Teacher shell;
  CHECK_THAT(shell.teach("pipeline --schedule zb-2p --micro-batches 12").out,
             Contains("zb-2p: 4 stages, 12 micro-batches, 3 steps in a row\n") && Contains("bubble: 7.692 %") &&
                 Contains("in a row a step takes 36: bubble 0.00 % of the stages' time\n"));
  CHECK_THAT(shell.teach("pipeline --schedule zb-h1 --micro-batches 12").out,
             Contains("bubble: 7.692 %") && Contains("steps in a row take 39 each, as one alone\n"));
  CHECK_THAT(shell.teach("pipeline --steps 2 --svg p.svg").out, Contains("2 steps in a row\n"));
  const json data = json::parse(shell.teach("pipeline --schedule zb-2p --json -").out);
  CHECK(data["steps"] == 3);
  CHECK(data["in_a_row"]["time"] == 24);
  CHECK(data["stage"][0]["tasks"].size() == 3 * 3 * 8);
  CHECK(data["stage"][0]["tasks"].back()["step"] == 2);
  // Figures of a stage are those of one step, as its time is, however many steps the tasks have.
  const json alone = json::parse(shell.teach("pipeline --schedule zb-2p --steps 1 --json -").out);
  for (std::size_t stage = 0; stage < 4; ++stage) {
    const json& figures = data["stage"][stage];
    CHECK(figures["works"] == alone["stage"][stage]["works"]);
    CHECK(figures["idle"] == alone["stage"][stage]["idle"]);
    CHECK(figures["works"].get<double>() + figures["idle"].get<double>() == near(data["time"].get<double>()));
    CHECK(figures["works"].get<double>() == near(data["ideal_time"].get<double>()));
  }
  CHECK_THAT(shell.teach("pipeline --schedule zb-2p").out,
             Contains("works, idle: in one step alone; the picture has 3 steps"));
  shell.check_refused("pipeline --steps 9", "--steps 9: 1 to 8 expected");
}

TEST_CASE("messages add their time to a pipeline", "[teach][pipeline]") {
  // The time of messages shows once, forward and back over three cuts. In the steady state, work of equal length hides
  // it.
  CHECK(lesson("gpipe", {4, 8, 1}, 0.5).end == near(33 + 2 * 3 * 0.5));
  CHECK(lesson("naive", {4, 2, 1}, 0.5).end == near(2 * (12 + 2 * 3 * 0.5)));
  CHECK(lesson("1f1b", {4, 8, 1}, 0.5).end > 33 + 2 * 3 * 0.5);  // each micro-batch waits for a round trip
}

TEST_CASE("without overlap stages wait for the arrival of their messages", "[teach][pipeline]") {
  TrainingPlan plan = even_pipeline(schedule("gpipe", {4, 8, 1}), {4, 8, 1}, {}, 0.5);
  plan.overlap_pipeline = false;
  // Each stage waits for the arrival of its messages, except the last stage forward and the first stage backward.
  CHECK(run_pipeline(plan).end == near((7 + 3) * 1.5 + 1 + (7 + 3) * 2.5 + 2));
}

TEST_CASE("orders that wait for each other give a deadlock that names the stages", "[teach][pipeline]") {
  TrainingPlan pipeline = even_pipeline(schedule("1f1b", {2, 2, 1}), {2, 2, 1}, {}, 0);
  std::vector<PipelineTask>& tasks = pipeline.stages[0].tasks;
  std::swap(tasks.front(), tasks.back());
  std::string text;
  try {
    run_pipeline(pipeline);
  } catch (const Deadlock& deadlock) {
    text = deadlock.what();
  }
  CHECK_THAT(text, Contains("stage 0") && Contains("stage 1"));
}

TEST_CASE("teach pipeline shows every task and the figures", "[teach][pipeline]") {
  const Teacher shell;
  const TopoAnswer answer = shell.teach("pipeline --svg p.svg --json p.json --html p.html");
  CHECK(answer.exit == 0);
  CHECK(answer.err.empty());
  CHECK_THAT(answer.out, Contains("1f1b: 4 stages, 8 micro-batches\n") &&
                             Contains("stage 3 ......F0B0- F1B1- F2B2- F3B3- F4B4- F5B5- F6B6- F7B7- ............\n") &&
                             Contains("bubble: 27.27 % of the stages' time, 37.5 % of the time without waiting\n") &&
                             Contains("(naive) takes 96: 2.909 times as long\n") &&
                             Contains("memory: activations of 4 micro-batches at most\n"));
  CHECK_THAT(shell.teach("pipeline --micro-batches 1").out, Contains("(naive) takes 12: as long\n"));
  // Schedules keep p / 2 + 1 and (p + 4) / 3 micro-batches, as their descriptions say.
  for (const auto& [schedule, most] : {std::pair{"v-half", 5}, {"v-min", 4}, {"zb-v", 8}})
    CHECK_THAT(
        shell.teach(fmt::format("pipeline --schedule {} --stages 8 --chunks 2 --micro-batches 16", schedule)).out,
        Contains(fmt::format("memory: activations of {} micro-batches at most\n", most)));
  const json data = json::parse(shell.text("p.json"));
  CHECK(data["time"] == 33);
  REQUIRE(data["stage"].size() == 4);
  CHECK(data["stage"][1]["activations_peak_micro_batches"] == 3);
  CHECK(data["stage"][3]["tasks"].size() == 16);
  const std::string picture = shell.text("p.svg"), page = shell.text("p.html");
  const std::regex cell("fill=\"#(7aa6dc|8fcf8f)\"");
  CHECK(std::distance(std::sregex_iterator(picture.begin(), picture.end(), cell), {}) ==
        2 * 4 * 8 + 2);  // and the legend
  CHECK_THAT(page, Contains(picture));
  CHECK(shell.teach("pipeline --json -").out == shell.text("p.json"));
}

TEST_CASE("teach pipeline counts stages and micro-batches from 1 with --labels-from 1", "[teach][pipeline]") {
  const Teacher shell;
  const TopoAnswer from_0 = shell.teach("pipeline --svg 0.svg --json 0.json --html 0.html");
  const TopoAnswer from_1 = shell.teach("pipeline --labels-from 1 --svg 1.svg --json 1.json --html 1.html");
  CHECK_THAT(from_1.out, Contains("stage 4 ......F1B1- F2B2- F3B3- F4B4- F5B5- F6B6- F7B7- F8B8- ............\n") &&
                             Contains("\n      4          24           9   1       #\n") && !Contains("stage 0"));
  CHECK(shell.text("1.json") == shell.text("0.json"));
  for (const char* view : {"svg", "html"}) {
    const std::string zero = shell.text(std::string("0.") + view), one = shell.text(std::string("1.") + view);
    CHECK_THAT(zero, Contains("stage 0<") && !Contains("stage 4<"));
    CHECK_THAT(one, Contains("stage 4<") && !Contains("stage 0<"));
  }
  CHECK(shell.teach("pipeline --labels-from 0").out == from_0.out);
  shell.check_refused("pipeline --labels-from 2", "--labels-from 2: 0 or 1 expected");
}

TEST_CASE("teach pipeline fits a terminal with any flags", "[teach][pipeline]") {
  const Teacher shell;
  for (const char* arguments :
       {"", "--micro-batches 64", "--schedule interleaved-1f1b --chunks 4 --micro-batches 16", "--schedule zb-2p",
        "--schedule dualpipe-v --chunks 2", "--schedule dualpipe --chunks 2 --stages 32 --micro-batches 64",
        "--stages 1 --micro-batches 1", "--backward 500", "--transfer 0.3", "--schedule zb_h1 --weights 0.25",
        "--stages 32 --micro-batches 256 --schedule gpipe"}) {
    CAPTURE(arguments);
    const TopoAnswer answer = shell.teach("pipeline " + std::string(arguments) + " --svg p.svg");
    CHECK(answer.exit == 0);
    CHECK(answer.err.empty());
    CHECK(answer.out.find('\x1b') == std::string::npos);
    CHECK(widest_line(answer.out) <= 100);
  }
  CHECK_THAT(lesson_text(lesson_view(lesson("1f1b", {2, 2, 1})), true), Contains("\x1b[44;97m"));
}

TEST_CASE("teach pipeline draws the schedule that it wrote", "[teach][pipeline][schedule-file]") {
  const Teacher shell;
  for (const std::string flags : {"1f1b", "zb-h1", "zb-v --chunks 2", "dualpipe --chunks 2"}) {
    const std::string shape = flags.substr(flags.find(' ') < flags.size() ? flags.find(' ') : flags.size());
    CHECK(shell.teach("pipeline --schedule " + flags + " --write order.yaml --json built-in.json").exit == 0);
    CHECK(shell.teach("pipeline --schedule order.yaml" + shape + " --json file.json").exit == 0);
    const json built_in = json::parse(shell.text("built-in.json")), file = json::parse(shell.text("file.json"));
    CHECK(built_in["stage"] == file["stage"]);
    CHECK(built_in["time"] == file["time"]);
  }
}

TEST_CASE("teach pipeline refuses impossible lessons in one line", "[teach][pipeline]") {
  const Teacher shell;
  shell.check_refused("pipeline --schedule gpip",
                      "--schedule gpip: unknown pipeline schedule \"gpip\"; did you mean \"gpipe\"?");
  shell.check_refused("pipeline --stages 0", "--stages 0: 1 to 32 expected");
  shell.check_refused("pipeline --micro-batches 257", "--micro-batches 257: 1 to 256 expected");
  shell.check_refused(
      "pipeline --schedule interleaved-1f1b --chunks 2 --micro-batches 6",
      "--schedule interleaved-1f1b: pipeline schedule interleaved-1f1b: 6 micro-batches are no multiple "
      "of the 4 stages; nearest: 8");
  shell.check_refused("pipeline --chunks 2",
                      "--schedule 1f1b: pipeline schedule 1f1b: 2 model chunks on each stage; this schedule runs one "
                      "(interleaved-1f1b runs several)");
  shell.check_refused("pipeline --forward 0", "--forward 0: 0.001 to 1000000 expected");
  shell.check_refused("pipeline --transfer -1", "--transfer -1: 0 to 1000000 expected");
  shell.check_refused("pipeline --weights 2", "--weights 2: a part of the backward time is expected, less than 2");
  shell.check_refused("pipelin", "trainyard teach: unknown topic \"pipelin\"; did you mean \"pipeline\"?");
}

TEST_CASE("teach zero shows the bars of the ZeRO paper", "[teach][zero]") {
  const Teacher shell;
  const TopoAnswer answer = shell.teach("zero --stage 3 --svg z.svg --json z.json");
  CHECK(answer.exit == 0);
  CHECK_THAT(answer.out, Contains("> ZeRO stage 3") && Contains(" 29.2 GiB\n") && Contains("parameters 1/64 (") &&
                             Contains("as the ZeRO paper counts: 120 GB, 31.41 GB, 16.64 GB, 1.875 GB\n") &&
                             Contains("64 times less than data parallel"));
  const json data = json::parse(shell.text("z.json"));
  const double figures[] = {120e9, 31.40625e9, 16.640625e9, 1.875e9};
  for (std::size_t stage = 0; stage < 4; ++stage) {
    CHECK(data["stages"][stage]["rank_bytes"] == near(figures[stage]));
    CHECK(data["stages"][stage]["bytes_per_parameter"] == near(figures[stage] / 7.5e9));
  }
  CHECK(data["stages"][3]["all_ranks_bytes"] == near(120e9));
  CHECK_THAT(shell.text("z.svg"), Contains("ZeRO stage 3") && Contains("</svg>"));
  CHECK_THAT(shell.teach("zero --precision fp32 --optimizer sgd --ranks 4").out,
             Contains("4 ranks") && Contains("gradients 1/4 (6.98 GiB), optimizer none (0 B)\n"));
  CHECK(widest_line(answer.out) <= 100);
  shell.check_refused("zero --stage 4",
                      "--stage 4: 0 (data parallel), 1 (optimizer), 2 (and gradients) or 3 (and parameters) expected");
  shell.check_refused("zero --ranks 0", "--ranks 0: 1 to 4096 expected");
  shell.check_refused("zero --parameters 0", "--parameters 0: 1 to 1e18 expected");
  shell.check_refused("zero --optimizer adan", "--optimizer adan: unknown optimizer \"adan\"; did you mean \"adam\"?");
}

TEST_CASE("teach pipeline shows all schedules on one scale of time, each as alone", "[teach][pipeline]") {
  const Teacher shell;
  const std::string shape = "--stages 4 --micro-batches 8 --backward 3 --weights 1.2 --transfer 0.25";
  const TopoAnswer all = shell.teach("pipeline --schedule all " + shape + " --svg all.svg --json all.json");
  REQUIRE(all.exit == 0);
  CHECK(widest_line(all.out) <= 100);
  const json schedules = json::parse(shell.text("all.json")).at("schedules");
  const std::string picture = shell.text("all.svg");
  std::vector<std::string> names;
  double last = 0;
  for (const json& shown : schedules) {
    const std::string name = shown.at("schedule");
    CAPTURE(name);
    names.push_back(name);
    const TopoAnswer alone =
        shell.teach(fmt::format("pipeline --schedule {} --chunks {} {} --steps 1 --json alone.json", name,
                                shown.at("chunks").get<int>(), shape));
    REQUIRE(alone.exit == 0);
    const json one = json::parse(shell.text("alone.json"));
    for (const char* figure : {"time", "bubble_share", "in_a_row", "stage"}) CHECK(shown.at(figure) == one.at(figure));
    CHECK_THAT(all.out, Contains(name));
    CHECK_THAT(picture, Contains(name));
    last = std::max(last, shown.at("time").get<double>());
  }
  CHECK(names == pipeline_schedules().names());
  CHECK(last == near(schedules.at(5).at("time").get<double>()));  // naive is the longest
  CHECK(names.at(5) == "naive");

  const TopoAnswer odd = shell.teach("pipeline --schedule all --stages 3 --micro-batches 6");
  CHECK(odd.exit == 0);
  CHECK_THAT(odd.out, Contains("dualpipe is left out: 3 stages; an even number is expected"));
  shell.check_refused("pipeline --schedule all --write passes.yaml",
                      "--schedule all: expected no --write and no --steps, which are for a single schedule");
}

}  // namespace tools_test_teach_pipeline
