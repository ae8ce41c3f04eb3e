// Orders of pipeline schedules: they are complete, free of deadlock, and have the bubbles and memory of their papers.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>

#include "strategies/pipelines/pipeline_schedule.hpp"
#include "tests/places.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/user_errors.hpp"

namespace strategies_test_pipeline_schedules {

using namespace trainyard;
using Catch::Matchers::Contains;
using Catch::Matchers::Equals;
using trainyard::test::nowhere;
using Pass = PipelineTask::Pass;

namespace {

/// Durations of the passes of a chunk, in whole slots, so that times compare exactly.
struct Slots {
  int forward = 1, backward_input = 1, backward_weights = 1;
  int duration_of(Pass pass) const {
    const int by_pass[] = {forward, backward_input + backward_weights, backward_input, backward_weights};
    return by_pass[static_cast<int>(pass)];
  }
};

struct StageRun {
  int first = -1, last = 0, busy = 0;  // slots
  int peak = 0;                        // chunks whose activations are stored for the weight gradients
  int done = 0;
  bool complete = true;  // each task is done once, and every activation is released
};

struct Run {
  std::vector<StageRun> stages;
  int end = 0;
  bool deadlock = false;
  int bubble(int stage) const { return end - stages[stage].busy; }
  int peak() const { return std::ranges::max_element(stages, {}, &StageRun::peak)->peak; }
};

/// Executes the tasks of each stage in order, each as soon as its inputs have arrived. Messages take no time. Two tasks
/// that alternate are one piece of work, as in figure 4 of DeepSeek-V3: it needs the inputs of both, and both end with
/// it.
class Checker {
 public:
  Checker(const PipelineSchedule& schedule, const PipelineShape& shape, const Slots& slots)
      : schedule_(schedule), shape_(shape), slots_(slots) {}

  Run run() {
    orders_ = schedule_.orders(shape_);
    run_.stages.resize(orders_.size());
    positions_.resize(orders_.size());
    stored_.resize(orders_.size());
    for (bool advances = true; advances;) {
      advances = false;
      for (std::size_t stage = 0; stage < orders_.size(); ++stage)
        while (positions_[stage] < orders_[stage].size() && step(stage)) advances = true;
    }
    for (std::size_t stage = 0; stage < orders_.size(); ++stage) {
      StageRun& s = run_.stages[stage];
      run_.deadlock |= positions_[stage] < orders_[stage].size();
      s.complete &= s.done == 2 * shape_.micro_batches * shape_.chunks / schedule_.copies && stored_[stage] == 0;
      run_.end = std::max(run_.end, s.last);
    }
    return run_;
  }

 private:
  enum PassResult { output, gradient, weight_gradient };
  const PipelineSchedule& schedule_;
  PipelineShape shape_;
  Slots slots_;
  std::vector<std::vector<PipelineTask>> orders_;
  std::vector<std::size_t> positions_;
  std::vector<int> stored_;
  std::map<std::tuple<PassResult, int, int>, int> ready_;  // slots, by result, virtual stage and micro-batch
  Run run_;

  /// Returns the first slot in which all inputs of a task are there, or no value if one of them has not come yet.
  std::optional<int> inputs_ready(std::size_t stage, const PipelineTask& task) const {
    const int v = schedule_.virtual_stage(static_cast<int>(stage), task.chunk, shape_);
    const bool first = schedule_.begins_network(v, shape_), last = schedule_.ends_network(v, shape_);
    std::vector<std::tuple<PassResult, int, int>> needs;
    if (task.pass == Pass::forward && !first) needs.push_back({output, v - 1, task.micro_batch});
    if (task.pass != Pass::forward) needs.push_back({output, v, task.micro_batch});
    if (task.pass == Pass::backward_weights) needs.push_back({gradient, v, task.micro_batch});
    if ((task.pass == Pass::backward || task.pass == Pass::backward_input) && !last)
      needs.push_back({gradient, v + 1, task.micro_batch});
    int slot = 0;
    for (const auto& need : needs) {
      const auto found = ready_.find(need);
      if (found == ready_.end()) return std::nullopt;
      slot = std::max(slot, found->second);
    }
    return slot;
  }

  bool step(std::size_t stage) {
    const std::span<const PipelineTask> rest = std::span<const PipelineTask>(orders_[stage]).subspan(positions_[stage]);
    const std::span<const PipelineTask> tasks = rest.first(rest.front().beside_next ? 2 : 1);
    StageRun& s = run_.stages[stage];
    int begin = s.last, slots = 0;
    for (const PipelineTask& task : tasks) {
      const std::optional<int> ready = inputs_ready(stage, task);
      if (!ready) return false;
      begin = std::max(begin, *ready);
      slots += slots_.duration_of(task.pass);
    }
    if (s.first < 0) s.first = begin;
    s.last = begin + slots;
    s.busy += slots;
    positions_[stage] += tasks.size();
    for (const PipelineTask& task : tasks) finish(stage, task);
    return true;
  }

  /// Books the results of a task at the end of its piece of work.
  void finish(std::size_t stage, const PipelineTask& task) {
    StageRun& s = run_.stages[stage];
    const int v = schedule_.virtual_stage(static_cast<int>(stage), task.chunk, shape_);
    const auto give = [&](PassResult result) {
      s.complete &= ready_.emplace(std::tuple{result, v, task.micro_batch}, s.last).second;
    };
    if (task.pass == Pass::forward) give(output);
    if (task.pass == Pass::backward || task.pass == Pass::backward_input) give(gradient);
    if (task.pass == Pass::backward || task.pass == Pass::backward_weights) give(weight_gradient);
    stored_[stage] += task.pass == Pass::forward ? 1 : task.pass == Pass::backward_input ? 0 : -1;
    s.done += task.pass != Pass::backward_input ? 1 : 0;
    s.peak = std::max(s.peak, stored_[stage]);
  }
};

Run run_of(const std::string& name, const PipelineShape& shape, const Slots& slots = {}) {
  return Checker(find_pipeline_schedule(name, shape, nowhere()), shape, slots).run();
}

bool is_supported(const std::string& name, const PipelineShape& shape) {
  const PipelineSchedule& schedule = pipeline_schedules().find(name, nowhere());
  return !schedule.refuses || schedule.refuses(shape).empty();
}

std::string refusal(const std::string& name, const PipelineShape& shape) {
  return test::user_error([&] { find_pipeline_schedule(name, shape, nowhere()); });
}

}  // namespace

TEST_CASE("every schedule does every task once, in a possible order", "[pipeline]") {
  CHECK(pipeline_schedules().names() == std::vector<std::string>{"1f1b", "dualpipe", "dualpipe-v", "gpipe",
                                                                 "interleaved-1f1b", "naive", "v-half", "v-min",
                                                                 "zb-2p", "zb-auto", "zb-h1", "zb-v"});
  for (const std::string& name : pipeline_schedules().names()) {
    int shapes = 0;
    for (int stages = 1; stages <= 9; ++stages)
      for (int chunks = 1; chunks <= 4; ++chunks)
        for (const int micro_batches : {1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 18, 24}) {
          const PipelineShape shape{stages, micro_batches, chunks};
          if (!is_supported(name, shape)) continue;
          CAPTURE(name, stages, micro_batches, chunks);
          for (const Slots& slots : {Slots{1, 1, 1}, Slots{3, 1, 2}}) {
            const Run run = run_of(name, shape, slots);
            REQUIRE_FALSE(run.deadlock);
            for (const StageRun& stage : run.stages) REQUIRE(stage.complete);
          }
          ++shapes;
        }
    CAPTURE(name);
    CHECK(shapes >= (name == "dualpipe" ? 18 : 30));  // even numbers of stages and micro-batches only
  }
}

TEST_CASE("virtual stages and places are each other's inverse", "[pipeline]") {
  for (const std::string& name : pipeline_schedules().names()) {
    const PipelineSchedule& schedule = pipeline_schedules().find(name, nowhere());
    const PipelineShape shape{3, 12, name == "interleaved-1f1b" ? 4 : schedule.least_chunks};
    std::set<std::pair<int, int>> places;
    for (int v = 0; v < shape.stages * shape.chunks; ++v) {
      const PipelinePlace place = schedule.place_of(v, shape);
      CHECK(schedule.virtual_stage(place.stage, place.chunk, shape) == v);
      places.emplace(place.stage, place.chunk);
    }
    CHECK(places.size() == static_cast<std::size_t>(shape.stages * shape.chunks));
  }
}

TEST_CASE("naive, gpipe and 1f1b idle as long as their closed forms say", "[pipeline]") {
  for (int p = 1; p <= 9; ++p)
    for (const int m : {1, 2, 3, 5, 8, 16, 27}) {
      CAPTURE(p, m);
      const Run naive = run_of("naive", {p, m, 1});
      CHECK(naive.end == 3 * p * m);
      for (const std::string name : {"gpipe", "1f1b"}) {
        const Run run = run_of(name, {p, m, 1});
        CHECK(run.end == 3 * (m + p - 1));
        for (int k = 0; k < p; ++k) {
          CHECK(run.bubble(k) * (m + p - 1) == run.end * (p - 1));  // (p − 1) / (m + p − 1) of the total
          CHECK(run.stages[k].peak == (name == "gpipe" ? m : std::min(m, p - k)));
        }
      }
    }
}

TEST_CASE("interleaved 1f1b divides the bubble by its chunks", "[pipeline]") {
  for (int p = 2; p <= 8; ++p)
    for (int v = 2; v <= 4; ++v)
      for (const int rounds : {1, 2, 3, 5}) {
        const int m = p * rounds;
        CAPTURE(p, v, m);
        const Run run = run_of("interleaved-1f1b", {p, m, v});
        const int ideal = 3 * m * v;  // slots of a chunk
        for (int k = 0; k < p; ++k) {
          CHECK(run.bubble(k) * v * m == ideal * (p - 1));
          CHECK(run.stages[k].peak == std::min(m * v, 2 * (p - k - 1) + (v - 1) * p + 1));
        }
      }
}

TEST_CASE("interleaved 1f1b has Megatron-LM's order", "[pipeline]") {
  const PipelineShape shape{2, 4, 2};
  const auto in_words = [&shape](int stage) {
    std::string words;
    for (const PipelineTask& t : find_pipeline_schedule("interleaved-1f1b", shape, nowhere()).tasks(stage, shape))
      words += (t.pass == Pass::forward ? 'F' : 'B') + std::to_string(t.micro_batch) + (t.chunk == 0 ? " " : "' ");
    return words;
  };
  CHECK_THAT(in_words(0), Equals("F0 F1 F0' F1' F2 B0' F3 B1' F2' B0 F3' B1 B2' B3' B2 B3 "));
  CHECK_THAT(in_words(1), Equals("F0 F1 F0' B0' F1' B1' F2 B0 F3 B1 F2' B2' F3' B3' B2 B3 "));
}

TEST_CASE("zero-bubble schedules have the bubbles and memory of Qi et al.", "[pipeline]") {
  for (int p = 1; p <= 9; ++p)
    for (const int m : {p, p + 1, 2 * p, 3 * p, 4 * p + 1}) {
      CAPTURE(p, m);
      const Run h1 = run_of("zb-h1", {p, m, 1});
      const int most = run_of("1f1b", {p, m, 1}).peak();
      for (int k = 0; k < p; ++k) {
        CHECK(h1.bubble(k) == p - 1);  // (p − 1)(F + B − W)
        CHECK(h1.stages[k].peak <= most);
      }
      const Run zb_2p = run_of("zb-2p", {p, m, 1});
      for (const StageRun& stage : zb_2p.stages) {
        CHECK(stage.peak == std::min(m, 2 * p - 1));
        if (m >= 2 * p - 1) CHECK(stage.last - stage.first == stage.busy);
        CHECK(zb_2p.end - stage.busy >= p - 1);  // a step by itself waits for the first forward passes
      }
    }
}

TEST_CASE("zb-auto keeps to its limit, and is never longer than the fixed orders that keep to it", "[pipeline]") {
  // The time sums that of a step by itself and that of one of many in a row.
  const auto time = [](const Run& run) {
    int longest = 0;
    for (const StageRun& stage : run.stages) longest = std::max(longest, stage.last - stage.first);
    return run.end + longest;
  };
  int shorter = 0;
  for (int p = 1; p <= 8; ++p)
    for (const int m : {1, p, 2 * p, 3 * p + 1})
      for (const Slots& slots : {Slots{1, 1, 1}, Slots{2, 3, 1}, Slots{4, 5, 3}, Slots{3, 1, 2}, Slots{1, 4, 4}})
        for (const double limit : {1.0, 1.5, 2.0}) {
          CAPTURE(p, m, limit, slots.forward, slots.backward_input, slots.backward_weights);
          PipelineShape shape{p, m, 1};
          shape.figures.times = {1.0 * slots.forward, 1.0 * slots.backward_input, 1.0 * slots.backward_weights};
          shape.figures.activation_limit = limit;
          const Run solved = run_of("zb-auto", shape, slots);
          const int fixed = time(run_of(limit == 2 ? "zb-2p" : "zb-h1", shape, slots));
          CHECK(time(solved) <= fixed);
          shorter += time(solved) < fixed ? 1 : 0;
          CHECK(solved.peak() <= std::min(m, static_cast<int>(limit * p)));
          for (const StageRun& stage : solved.stages) CHECK(stage.complete);
        }
  CHECK(shorter > 20);
}

TEST_CASE("every stage of dualpipe-v idles p - 1 forward passes of a chunk", "[pipeline]") {
  for (int p = 1; p <= 8; ++p)
    for (const int m : {2 * p, 2 * p + 1, 4 * p}) {
      CAPTURE(p, m);
      const Run run = run_of("dualpipe-v", {p, m, 2});
      for (int k = 0; k < p; ++k) {
        CHECK(run.bubble(k) == p - 1);  // forward passes of a chunk
        CHECK(run.stages[k].peak == 2 * p + 1);
      }
    }
}

TEST_CASE("dualpipe has the bubble and the activations of its paper", "[pipeline]") {
  const std::string name = "dualpipe";
  for (const int p : {2, 4, 6, 8, 12})
    for (const int m : {2 * p, 2 * p + 2, 3 * p, 4 * p})
      for (const Slots& slots : {Slots{1, 1, 1}, Slots{3, 3, 2}, Slots{10, 10, 7}, Slots{10, 10, 1}}) {
        const int f = slots.forward, w = slots.backward_weights, b = slots.backward_input + w;
        CAPTURE(p, m, f, b, w);
        // Each pass sends its message when it ends.
        const Run single_passes = run_of(name, {p, m, 2}, slots);
        // A pair of passes is one piece of work, F&B = F + B: table 2 of DeepSeek-V3's report.
        const Run pairs = run_of(name, {p, m, 2, true}, slots);
        CHECK_FALSE((single_passes.deadlock || pairs.deadlock));
        for (int k = 0; k < p; ++k) {
          CHECK(single_passes.bubble(k) == (p / 2 - 1) * (f + b - 2 * w));
          CHECK(pairs.bubble(k) == (p / 2 - 1) * ((f + b) + b - 3 * w));
          for (const Run* run : {&single_passes, &pairs}) {
            CHECK(run->stages[k].complete);
            CHECK(run->stages[k].peak == p + 1);
          }
        }
      }
}

TEST_CASE("opposite stages of dualpipe run the same layers at the same time, for other micro-batches", "[pipeline]") {
  for (const PipelineShape& shape : {PipelineShape{4, 8, 2}, PipelineShape{8, 20, 2, true}}) {
    const PipelineSchedule& schedule = find_pipeline_schedule("dualpipe", shape, nowhere());
    for (int stage = 0; stage < shape.stages; ++stage) {
      const std::vector<PipelineTask> tasks = schedule.tasks(stage, shape),
                                      opposite_tasks = schedule.tasks(shape.stages - 1 - stage, shape);
      REQUIRE(tasks.size() == opposite_tasks.size());
      for (std::size_t i = 0; i < tasks.size(); ++i) {
        CHECK(tasks[i].pass == opposite_tasks[i].pass);
        CHECK(tasks[i].chunk == 1 - opposite_tasks[i].chunk);
        CHECK(std::abs(tasks[i].micro_batch - opposite_tasks[i].micro_batch) == shape.micro_batches / 2);
        CHECK((tasks[i].micro_batch < shape.micro_batches / 2) == (tasks[i].chunk == 0));
      }
    }
  }
}

TEST_CASE("schedules in the shape of a V have the bubbles and memory of Qi et al.", "[pipeline]") {
  for (int p = 1; p <= 9; ++p)
    for (const int m : {2 * p, 2 * p + 1, 4 * p}) {
      CAPTURE(p, m);
      // Chunks are half of a stage: 1f1b idles for 6 (p - 1) of their slots, and keeps 2 p of them.
      const Run zb_v = run_of("zb-v", {p, m, 2});
      CHECK(zb_v.bubble(0) == p - 1);
      CHECK(zb_v.peak() == 2 * p);
      const Run half = run_of("v-half", {p, m, 2});
      CHECK(half.bubble(0) == (p % 2 == 0 || p == 1 ? 3 * (p - 1) : 3 * p - 4));
      CHECK(half.peak() == 2 * ((p + 2) / 2));
      const Run least = run_of("v-min", {p, m, 2});
      CHECK(least.bubble(0) == std::max(0, 4 * p - (p % 3 == 0 ? 3 : 5)));
      CHECK(least.peak() == 2 * ((p + 4) / 3));
    }
}

TEST_CASE("shapes that a schedule does not support are refused with the rule", "[pipeline]") {
  CHECK_THAT(refusal("1f2b", {4, 8, 1}), Equals("test: unknown pipeline schedule \"1f2b\"; did you mean \"1f1b\"?"));
  CHECK_THAT(refusal("gpipe", {0, 8, 1}), Equals("test: a pipeline of 0 stages; at least 1"));
  CHECK_THAT(refusal("gpipe", {4, 0, 1}), Equals("test: a pipeline of 0 micro-batches; at least 1"));
  CHECK_THAT(refusal("gpipe", {4, 8, 0}), Equals("test: a pipeline of 0 model chunks a stage; at least 1"));
  for (const char* name : {"naive", "gpipe", "1f1b", "zb-auto", "zb-h1", "zb-2p"})
    CHECK_THAT(refusal(name, {4, 8, 2}),
               Equals(std::string("test: pipeline schedule ") + name +
                      ": 2 model chunks on each stage; this schedule runs one (interleaved-1f1b runs several)"));
  CHECK_THAT(refusal("interleaved-1f1b", {4, 10, 2}),
             Equals("test: pipeline schedule interleaved-1f1b: 10 micro-batches are no multiple of the 4 stages; "
                    "nearest: 12"));
  CHECK_THAT(refusal("interleaved-1f1b", {4, 8, 1}),
             Equals("test: pipeline schedule interleaved-1f1b: 1 model chunk on each stage; this schedule "
                    "interleaves several (1f1b runs one)"));
  CHECK_THAT(refusal("interleaved-1f1b", {1, 8, 2}),
             Equals("test: pipeline schedule interleaved-1f1b: 1 stage; this schedule interleaves the chunks of "
                    "several"));
  CHECK_THAT(refusal("dualpipe-v", {4, 7, 2}),
             Equals("test: pipeline schedule dualpipe-v: 7 micro-batches for 4 stages; at least 8, twice as many"));
  CHECK_THAT(refusal("dualpipe-v", {4, 8, 1}),
             Equals("test: pipeline schedule dualpipe-v: model chunks on each stage: 1; this schedule needs 2, one "
                    "down and one up"));
  CHECK_THAT(refusal("dualpipe", {4, 8, 1}), Contains("model chunks on each stage: 1; this schedule needs 2"));
  CHECK_THAT(refusal("dualpipe", {3, 8, 2}),
             Equals("test: pipeline schedule dualpipe: 3 stages; an even number is expected, half of them for each "
                    "direction; nearest: 2 or 4"));
  CHECK_THAT(refusal("dualpipe", {1, 8, 2}), Contains("1 stage; an even number is expected") && Contains("nearest: 2"));
  CHECK_THAT(refusal("dualpipe", {4, 6, 2}),
             Equals("test: pipeline schedule dualpipe: 6 micro-batches for 4 stages; at least 8, twice as many"));
  CHECK_THAT(refusal("dualpipe", {4, 9, 2}),
             Equals("test: pipeline schedule dualpipe: 9 micro-batches; an even number is expected, half of them for "
                    "each direction; nearest: 8 or 10"));
  CHECK_THAT(refusal("v-min", {4, 8, 3}),
             Equals("test: pipeline schedule v-min: model chunks on each stage: 3; this schedule needs 2, one down "
                    "and one up"));
}

TEST_CASE("the file of a schedule has the order of that schedule", "[pipeline][schedule-file]") {
  const test::TemporaryFolder folder;
  for (const std::string& name : pipeline_schedules().names())
    for (const PipelineShape& shape : {PipelineShape{4, 8, 1}, PipelineShape{4, 8, 2}, PipelineShape{3, 12, 4}}) {
      if (!is_supported(name, shape)) continue;
      const PipelineSchedule& schedule = pipeline_schedules().find(name, nowhere());
      CAPTURE(name, shape.chunks);
      const std::string file =
          folder.write(name + std::to_string(shape.chunks) + ".yaml", pipeline_schedule_text(schedule, shape));
      const PipelineSchedule& read = find_pipeline_schedule(file, shape, nowhere());
      CHECK(read.least_chunks == shape.chunks);
      CHECK(read.copies == schedule.copies);
      CHECK(read.orders(shape) == schedule.orders(shape));
      for (int stage = 0; stage < shape.stages; ++stage)
        for (int chunk = 0; chunk < shape.chunks; ++chunk)
          CHECK(read.virtual_stage(stage, chunk, shape) == schedule.virtual_stage(stage, chunk, shape));
      CHECK_THAT(refusal(file, {shape.stages, 7, shape.chunks}), Contains("8 micro-batches") || Contains("12 micro"));
    }
}

TEST_CASE("a wrong order of passes is refused at its line", "[pipeline][schedule-file]") {
  const test::TemporaryFolder folder;
  const auto error = [&](const std::string& stages, const std::string& keys = "") {
    const std::string file = folder.write("order.yaml", keys + "stages:\n" + stages);
    return test::user_error_in(file, [&] { read_pipeline_schedule(file); });
  };
  CHECK(error("  - [F0, F1, B0, B1]\n  - [F0, B0, F1, B1]\n").empty());
  CHECK(error("  - [F0, F1, I0, W0, B1]\n  - [F0, I0, F1, W0, B1]\n").empty());
  CHECK_THAT(error("  - [F0, G1]\n"), Contains(":2:10: \"G1\" is no pass; expected F (forward)"));
  CHECK_THAT(error("  - [F0, B0]\n  - [F0, F0, B0]\n"),
             Contains(":3:10: F0 of stage 1 comes twice; the first is in line 3"));
  CHECK_THAT(error("  - [F0, F1, B0, B1]\n  - [F0, F1, B0]\n"), Contains(":3:5: stage 1 lacks B1"));
  CHECK_THAT(error("  - [F0, F1, B0, B1]\n  - [F0, F1, B0, I1]\n"), Contains("stage 1 lacks W1"));
  CHECK_THAT(error("  - [F0, B0, W0]\n"), Contains(":2:14: W0 of stage 0: the micro-batch goes back twice"));
  CHECK_THAT(error("  - [F0.1, B0.1]\n"), Contains(":2:6: F0.1: chunk 1, expected 0 to 0 (chunks: 1)"));
  CHECK_THAT(error("  - [F900, B0]\n"), Contains("micro-batch 900, but the stage has 2 passes in all"));
  CHECK_THAT(error("  - [B0, F0]\n"), Contains(":2:6: deadlock: B0 of stage 0 waits for F0 of stage 0 (line 2)"));
  CHECK_THAT(
      error("  - [F0, B0, F1, B1]\n  - [F0, F1, B0, B1]\n"),
      Contains(":2:10: deadlock: B0 of stage 0 waits for B0 of stage 1 (line 3), and F1 of stage 1 waits for F1 of "
               "stage 0 (line 2)"));
  CHECK_THAT(error("  - [F0, B0]\n", "placement: v\n"),
             Contains(":1:12: order of passes: placement: v needs chunks: 2"));
  const std::string both_ends = "chunks: 2\nplacement: both-ends\n";
  CHECK(error("  - [F0.0, F1.1, B1.1, B0.0]\n  - [F1.1, F0.0, B0.0, B1.1]\n", both_ends).empty());
  CHECK_THAT(error("  - [F0.0, F1.0, B1.0, B0.0]\n  - [F1.1, F0.0, B0.0, B1.1]\n", both_ends),
             Contains(":4:12: F1.0: micro-batch 1 of 2 goes through chunk 1, as placement: both-ends says"));
  CHECK_THAT(error("  - [F0.0, B0.0]\n  - [F1.1, F0.0, B0.0, B1.1]\n", both_ends), Contains("stage 0 lacks F1.1"));
  CHECK_THAT(error("  - [F0.0, F1.1, B1.1, B0.0]\n  - [F0.0, F1.1, B0.0, B1.1]\n", both_ends),
             Contains(":5:6: F0.0 of stage 1: stage 0 holds the same layers"));
  CHECK_THAT(error("  - [F0.0, F1.1, B1.1, B0.0]\n  - [F1.1, F0.0, B0.0, I1.1, W1.1]\n", both_ends),
             Contains(":5:24: I1.1 of stage 1: stage 0 holds the same layers"));
  CHECK_THAT(error("  - [F0.0, F1.1, B0.0, B1.1]\n  - [F1.1, F0.0, B1.1, B0.0]\n", both_ends),
             Contains(":4:24: B1.1 ends stage 0: a pass of chunk 0 is expected"));
  CHECK_THAT(error("  - [F0.0, F1.1, B1.1, B0.0]\n", both_ends),
             Contains("both-ends needs even numbers of stages and micro-batches, not 1 and 2"));
  CHECK_THAT(error("  - [F0, B0]\n", "chunk: 2\n"), Contains("did you mean \"chunks\"?"));
}

}  // namespace strategies_test_pipeline_schedules
