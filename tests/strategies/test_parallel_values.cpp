// Training steps of every strategy and of their products, simulated message by message, equal those of one device.
#include <catch2/catch.hpp>
#include <random>

#include "numeric_tasks.hpp"
#include "sim/error.hpp"
#include "simulated_step.hpp"
#include "strategies/plan/training_plan.hpp"
#include "tests/cases.hpp"
#include "tests/temporary_folder.hpp"

namespace strategies_test_parallel_values {

using namespace trainyard;

namespace {

SplitStep split(int data, int pipeline, int tensor, int context = 1, int expert = 1) {
  SplitStep s;
  s.mesh.data = data;
  s.mesh.pipeline = pipeline;
  s.mesh.tensor = s.sharding.tensor = tensor;
  s.mesh.context = s.sharding.context = context;
  s.mesh.expert = s.sharding.expert = expert;
  return s;
}

void check(const TrainingTask& task, const SplitStep& s) {
  INFO(in_words(s));
  const StepOutcome out = simulated_step(task, s);
  INFO(out.worst);
  INFO(out.error);
  CHECK(out.error.empty());
  CHECK(out.difference < 1e-10);
  CHECK(out.hazards == 0);
}

}  // namespace

TEST_CASE("simulated data parallelism and ZeRO compute the step of one device", "[parallel-values]") {
  for (const ZeroStage zero : {ZeroStage::none, ZeroStage::optimizer, ZeroStage::gradients, ZeroStage::parameters})
    for (const bool overlap : {false, true}) {
      SplitStep s = split(4, 1, 1);
      s.zero = zero;
      s.micro_batches = s.steps = 2;
      s.overlap_gradients = s.overlap_parameters = overlap;
      check(small_mlp(), s);
      check(small_gpt2(), s);
      if (zero == ZeroStage::none) continue;
      s.zero_group = 2;
      s.reshard = overlap;
      s.prefetch = overlap ? 2 : 0;
      check(small_llama(), s);
    }
}

TEST_CASE("steps with their states on the host or on drives compute the step of one device", "[parallel-values]") {
  for (const int ranks : {1, 4})
    for (const ZeroStage zero : {ZeroStage::none, ZeroStage::optimizer, ZeroStage::gradients, ZeroStage::parameters})
      for (const bool overlap : {false, true})
        for (const OffloadDevice parameters : {OffloadDevice::none, OffloadDevice::cpu, OffloadDevice::nvme}) {
          SplitStep s = split(ranks, 1, 1);
          s.zero = zero;
          s.micro_batches = s.steps = 2;
          s.overlap_gradients = overlap || zero >= ZeroStage::gradients;
          s.overlap_parameters = s.reshard = overlap;
          s.optimizer = OffloadDevice::cpu;
          s.parameters = parameters;
          if (ranks > 1 && zero == ZeroStage::none) continue;
          if (parameters != OffloadDevice::none && zero != ZeroStage::parameters) continue;
          check(small_mlp(), s);
          check(small_gpt2(), s);
          if (zero == ZeroStage::parameters) s.optimizer = OffloadDevice::nvme;
          if (ranks > 1) s.zero_group = 2;
          check(small_llama(), s);
        }
}

TEST_CASE("steps with their activations on the host compute the step of one device", "[parallel-values]") {
  for (const int ahead : {0, 1, 3})
    for (const Recompute recompute : {Recompute::none, Recompute::full})
      for (const char* schedule : {"gpipe", "1f1b", "interleaved-1f1b"}) {
        SplitStep s = split(2, 1, 2);
        s.micro_batches = s.steps = 2;
        s.activations_ahead = ahead;
        s.sharding.recompute = recompute;
        check(small_gpt2(), s);
        s.zero = ZeroStage::parameters;
        check(small_llama(), s);
        s = split(1, 2, 1);
        s.activations_ahead = ahead;
        s.sharding.recompute = recompute;
        s.schedule = schedule;
        s.micro_batches = 4;
        s.chunks = s.schedule == "interleaved-1f1b" ? 2 : 1;
        check(small_gpt2(), s);
      }
}

TEST_CASE("simulated tensor and sequence parallelism compute the step of one device", "[parallel-values]") {
  for (const bool sequence : {false, true})
    for (const bool overlap : {false, true})
      for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
        SplitStep s = split(1, 1, 2);
        s.sharding.sequence = sequence;
        s.sharding.overlap = overlap;
        s.sharding.recompute = recompute;
        check(small_gpt2(), s);
        check(small_llama(), s);
        if (recompute == Recompute::none && !sequence) check(small_mlp(), s);
        if (recompute != Recompute::none) continue;
        s.mesh.tensor = s.sharding.tensor = 4;
        check(small_gpt2(false), s);
        check(small_mixtral(), s);
      }
}

TEST_CASE("a simulated MLP split by pairs, columns and rows computes the step of one device", "[parallel-values]") {
  for (const LinearSplit linear_split : {LinearSplit::pairs, LinearSplit::columns, LinearSplit::rows})
    for (const MlpLoss loss : {MlpLoss::mean_squared_error, MlpLoss::softmax_cross_entropy})
      for (const int stages : {1, 2, 4}) {
        SplitStep s = split(2, stages, 2);
        s.sharding.linear_split = linear_split;
        s.micro_batches = stages == 1 ? 2 : 4;
        check(small_mlp(loss), s);
      }
}

TEST_CASE("an MLP with a split of its own for each layer computes the step of one device", "[parallel-values]") {
  constexpr LinearSplit kSplits[] = {LinearSplit::columns, LinearSplit::rows, LinearSplit::replicated};
  for (unsigned number = 0; number < 81; ++number) {  // every list of four layers
    SplitStep s = split(number % 2 + 1, number % 5 == 0 ? 2 : 1, 2);
    unsigned rest = number;
    for (int layer = 0; layer < 4; ++layer, rest /= 3) s.sharding.linear_splits.push_back(kSplits[rest % 3]);
    s.micro_batches = 2;
    CAPTURE(number);
    check(small_mlp(), s);
  }
}

TEST_CASE("recomputation on two stages of two tensor ranks changes no number", "[parallel-values]") {
  for (const Recompute recompute : {Recompute::selective, Recompute::full})
    for (const bool sequence : {false, true}) {
      SplitStep s = split(1, 2, 2);
      s.micro_batches = 2;
      s.sharding.recompute = recompute;
      s.sharding.sequence = sequence;
      check(small_gpt2(), s);
      check(small_mixtral(), s);
      if (recompute != Recompute::full) continue;
      s.recomputes_some = true;
      check(small_gpt2(), s);
      check(small_mixtral(), s);
      s.recomputes_some = false;
      s.mesh.pipeline = 1;
      s.mesh.context = s.sharding.context = 2;
      check(small_llama(), s);
    }
}

TEST_CASE("simulated context parallelism computes the step of one device", "[parallel-values]") {
  for (const ContextExchange exchange : {ContextExchange::ring, ContextExchange::all_to_all})
    for (const int ranks : {2, 4}) {
      SplitStep s = split(1, 1, 1, ranks);
      s.sharding.context_exchange = exchange;
      check(small_gpt2(), s);
      if (exchange == ContextExchange::ring || ranks == 2) check(small_llama(), s);
      if (exchange == ContextExchange::all_to_all) check(small_mixtral(), s);
      s.sharding.recompute = Recompute::selective;  // the blocks circulate once more
      check(small_gpt2(), s);
      if (exchange == ContextExchange::ring || ranks == 2) check(small_llama(), s);
    }
}

TEST_CASE("simulated expert parallelism computes the step of one device", "[parallel-values]") {
  for (const int experts : {2, 4}) check(small_mixtral(), split(4, 1, 1, 1, experts));
  SplitStep s = split(4, 1, 2, 1, 2);
  s.sharding.sequence = true;
  s.zero = ZeroStage::optimizer;
  check(small_mixtral(), s);
}

namespace {

/// A step with experts on all ranks of a stage, each expert split over `tensor` ranks.
SplitStep with_expert_tensor(SplitStep s, int tensor) {
  s.mesh.expert_tensor = s.sharding.expert_tensor = tensor;
  return s;
}

}  // namespace

TEST_CASE("experts with tensor ranks of their own compute the step of one device", "[parallel-values]") {
  for (const auto& [data, tensor, expert, split_of_one] : {std::array{1, 2, 2, 1},
                                                           {1, 2, 1, 2},
                                                           {2, 1, 1, 2},
                                                           {2, 2, 4, 1},
                                                           {2, 2, 2, 2},
                                                           {4, 1, 2, 2},
                                                           {4, 2, 2, 1},
                                                           {4, 2, 1, 4},
                                                           {1, 4, 2, 2}})
    for (const ZeroStage zero : {ZeroStage::none, ZeroStage::optimizer, ZeroStage::parameters}) {
      SplitStep s = with_expert_tensor(split(data, 1, tensor, 1, expert), split_of_one);
      s.sharding.sequence = tensor > 1;
      s.zero = zero;
      s.steps = 2;
      s.micro_batches = 2;
      for (const Recompute recompute : {Recompute::none, Recompute::full}) {
        s.sharding.recompute = recompute;
        check(small_mixtral(), s);
      }
    }
  SplitStep mixed = with_expert_tensor(split(2, 2, 2, 2, 4), 2);
  mixed.sharding.sequence = true;
  mixed.sharding.context_exchange = ContextExchange::all_to_all;
  mixed.mesh.order = {Axis::pipeline, Axis::data, Axis::tensor, Axis::context};
  mixed.micro_batches = 4;
  check(small_mixtral(), mixed);
}

TEST_CASE("forward and backward passes that alternate compute the step of one device", "[parallel-values]") {
  for (const char* schedule : {"1f1b", "interleaved-1f1b", "dualpipe-v"}) {
    SplitStep s = split(2, 2, 2, 1, 2);
    s.schedule = schedule;
    s.chunks = s.schedule == "1f1b" ? 1 : 2;
    s.micro_batches = 4;
    s.pairs_passes = true;
    check(small_mixtral(), s);
  }
  SplitStep as_many = split(1, 4, 2);  // micro-batches as stages: the first backward pass is alone
  as_many.schedule = "1f1b";
  as_many.micro_batches = 4;
  as_many.pairs_passes = true;
  check(small_mlp(), as_many);
  SplitStep one = split(4, 1, 1, 1, 4);
  one.micro_batches = 3;
  one.pairs_passes = true;
  check(small_mixtral(), one);
}

TEST_CASE("simulated pipelines compute the step of one device", "[parallel-values]") {
  for (const char* schedule : {"naive", "gpipe", "1f1b", "zb-h1", "zb-2p"})
    for (const bool overlap : {false, true}) {
      SplitStep s = split(2, 2, 1);
      s.schedule = schedule;
      s.micro_batches = 4;
      s.overlap_pipeline = overlap;
      check(small_gpt2(), s);
      check(small_mlp(), s);
    }
  for (const char* schedule : {"interleaved-1f1b", "dualpipe-v", "zb-v", "v-half", "v-min"}) {
    SplitStep s = split(1, 2, 2);
    s.schedule = schedule;
    s.chunks = 2;
    s.micro_batches = 4;
    s.scatter_gather = true;
    check(small_gpt2(), s);
    check(small_llama(), s);
  }
}

TEST_CASE("schedules from files compute the step of one device, in the time of the built-in ones",
          "[parallel-values][schedule-file]") {
  const test::TemporaryFolder folder;
  for (const char* schedule : {"1f1b", "zb-h1", "zb-v", "dualpipe-v"}) {
    SplitStep s = split(1, 2, 1);
    s.schedule = schedule;
    s.chunks = std::string(schedule).ends_with("-v") ? 2 : 1;
    s.micro_batches = 4;
    const double seconds = simulated_step(small_gpt2(), s).seconds;
    const PipelineShape shape{2, 4, s.chunks};
    s.schedule = folder.write(std::string(schedule) + ".yaml",
                              pipeline_schedule_text(find_pipeline_schedule(schedule, shape, {}), shape));
    check(small_gpt2(), s);
    CHECK(simulated_step(small_gpt2(), s).seconds == seconds);
  }
  // The stages take micro-batches in different orders, and split some of the backward passes.
  SplitStep s = split(1, 2, 1);
  s.micro_batches = 4;
  s.schedule = folder.write("own.yaml",
                            "stages:\n"
                            "  - [F1, F0, F3, F2, I0, B1, W0, B3, I2, W2]\n"
                            "  - [F0, I0, F1, B1, W0, F2, F3, B3, I2, W2]\n");
  for (const bool overlap : {false, true}) {
    s.overlap_pipeline = overlap;
    check(small_gpt2(), s);
    check(small_mlp(), s);
  }
}

TEST_CASE("simulated pipelines that share out parameters compute the step of one device", "[parallel-values]") {
  for (const char* schedule : {"gpipe", "1f1b", "interleaved-1f1b", "zb-h1", "dualpipe-v"})
    for (const bool reshard : {false, true}) {
      SplitStep s = split(2, 2, 1);
      s.schedule = schedule;
      s.chunks = std::string(schedule) == "interleaved-1f1b" || std::string(schedule) == "dualpipe-v" ? 2 : 1;
      s.micro_batches = 4;
      s.zero = ZeroStage::parameters;
      s.reshard = reshard;
      s.prefetch = reshard ? 1 : 3;
      s.sync_last = !reshard;
      check(small_llama(), s);
      check(small_mlp(), s);
    }
}

namespace {

/// Number of bytes that a rank sends on a lane.
double sent_on(Lane lane, const TrainingTask& task, const SplitStep& s, int rank) {
  double bytes = 0;
  for (const Op& op : operations_of(task, s, rank))
    if (op.kind == Kind::send && (op.message.tag >> 27 & 31U) == static_cast<Tag>(lane))
      bytes += op.message.bytes.value;
  return bytes;
}

}  // namespace

TEST_CASE("a pipeline that shares out parameters gathers them once a step, or for every pass", "[parallel-values]") {
  SplitStep s = split(2, 2, 1);
  s.schedule = "gpipe";
  s.micro_batches = 4;
  s.zero = ZeroStage::parameters;
  for (const int rank : {0, 3}) {  // a rank of the first stage and one of the last
    s.reshard = false;
    const double once = sent_on(Lane::parameters, small_llama(), s, rank);
    CHECK(once > 0);
    // A reduce-scatter after each micro-batch sends as much as an all-gather.
    CHECK(sent_on(Lane::gradients, small_llama(), s, rank) == Approx(s.micro_batches * once).epsilon(1e-9));
    SplitStep last = s;
    last.sync_last = true;
    CHECK(sent_on(Lane::gradients, small_llama(), last, rank) == Approx(once).epsilon(1e-9));
    s.reshard = true;
    // Parameters are gathered for the forward and backward pass of each micro-batch.
    CHECK(sent_on(Lane::parameters, small_llama(), s, rank) == Approx(2 * s.micro_batches * once).epsilon(1e-9));
  }
}

namespace {

/// A random device for offload that the stage of ZeRO allows.
void offload(std::mt19937& random, SplitStep& s) {
  s.optimizer = OffloadDevice::cpu;
  if (s.zero == ZeroStage::gradients) s.overlap_gradients = true;
  if (s.zero != ZeroStage::parameters) return;
  s.optimizer = random() % 2 == 0 ? OffloadDevice::cpu : OffloadDevice::nvme;
  s.parameters = static_cast<OffloadDevice>(random() % 3);
}

/// A random valid product of strategies, on at most 16 ranks.
SplitStep random_split(std::mt19937& random, int kind) {
  const auto one_of = [&random](std::vector<int> values) { return values[random() % values.size()]; };
  const auto coin = [&random] { return random() % 2 == 0; };
  for (;;) {
    SplitStep s = split(one_of({1, 2, 4}), one_of({1, 1, 2, 4}), one_of({1, 2}), kind == 0 ? 1 : one_of({1, 1, 2}));
    if (s.mesh.ranks() > 16 || s.mesh.ranks() < 2) continue;
    const int replicas = s.mesh.data * s.mesh.context;
    if (kind == 2) s.mesh.expert = s.sharding.expert = std::min(replicas, one_of({1, 2, 4}));
    s.sharding.sequence = kind != 0 && s.mesh.tensor > 1 && coin();
    if (kind == 2 && (s.mesh.tensor == 1 || s.sharding.sequence) && coin())
      s = with_expert_tensor(s, one_of({1, 2, s.mesh.tensor * replicas / s.mesh.expert >= 4 ? 4 : 1}));
    if (s.mesh.tensor * replicas % (s.mesh.expert * std::max(1, s.mesh.expert_tensor)) != 0) continue;
    s.sharding.overlap = coin();
    s.sharding.context_exchange = coin() || kind == 2 ? ContextExchange::all_to_all : ContextExchange::ring;
    if (kind != 0) s.sharding.recompute = static_cast<Recompute>(one_of({0, 0, 1, 2}));
    if (kind == 0) s.sharding.linear_split = static_cast<LinearSplit>(one_of({0, 1, 2}));
    s.chunks = s.mesh.pipeline == 2 && coin() ? 2 : 1;
    s.schedule = s.chunks > 1 ? std::vector<std::string>{"interleaved-1f1b", "dualpipe-v", "zb-v", "v-half",
                                                         "v-min"}[random() % 5]
                              : std::vector<std::string>{"naive", "gpipe", "1f1b", "zb-h1", "zb-2p"}[random() % 5];
    s.micro_batches = s.mesh.pipeline > 1 ? 4 : one_of({1, 2, 3});
    s.steps = one_of({1, 1, 2});
    s.zero =
        static_cast<ZeroStage>(one_of(s.mesh.pipeline > 1 ? std::vector<int>{0, 1, 3} : std::vector<int>{0, 1, 2, 3}));
    if (s.zero != ZeroStage::none && replicas == 4 && coin()) s.zero_group = 2;
    s.prefetch = one_of({0, 1, 3});
    s.reshard = coin();
    s.overlap_gradients = coin();
    s.overlap_parameters = coin();
    s.overlap_pipeline = coin();
    s.scatter_gather = !s.sharding.sequence && coin();
    s.whole_tensors = coin();
    s.bucket = one_of({100, 1000, 100000});
    const bool partial = s.sharding.sequence || (kind == 2 && s.mesh.tensor > 1);  // see sum_partial
    if (!partial && (s.zero != ZeroStage::none || replicas == 1) && coin()) offload(random, s);
    const std::vector<std::string> reductions{"ring", "halving-doubling", "direct", "binary-tree"};
    s.all_reduce = reductions[random() % reductions.size()];
    s.pairs_passes = s.zero != ZeroStage::parameters && coin();
    const bool splits_backward =
        s.schedule.starts_with("zb-") || s.schedule.starts_with("v-") || s.schedule == "dualpipe-v";
    if (!splits_backward && coin()) s.activations_ahead = one_of({0, 1, 3});
    std::vector<Axis>& order = s.mesh.order;
    std::shuffle(order.begin(), order.end(), random);
    s.sync_last = s.zero == ZeroStage::parameters && s.optimizer == OffloadDevice::none && s.bucket > 100;
    return s;
  }
}

TrainingTask task_of(int kind, bool coin) {
  if (kind == 0) return small_mlp();
  if (kind == 2) return small_mixtral();
  return coin ? small_gpt2() : small_llama();
}

void check_random_products(unsigned seed, int count) {
  std::mt19937 random(seed);
  for (int i = 0; i < count; ++i) {
    const int kind = static_cast<int>(random() % 3);
    SplitStep s = random_split(random, kind);
    s.recomputes_some = i % 3 == 1;
    CAPTURE(i, kind);
    const bool all_to_all = s.mesh.context > 1 && s.sharding.context_exchange == ContextExchange::all_to_all;
    // Two heads of keys and values are too few for four ranks.
    const bool many_heads = all_to_all && s.mesh.context * s.mesh.tensor > 2;
    TrainingTask task = task_of(kind, many_heads || random() % 2 == 0);
    if (i % 2 == 1) {
      task.rule.kind = UpdateRule::Kind::adam;
      task.rule.learning_rate = 1e-3;
    }
    if (s.zero == ZeroStage::parameters && tied_over_stages(task, s)) {
      s.zero = ZeroStage::optimizer;
      s.parameters = OffloadDevice::none;
      if (s.optimizer != OffloadDevice::none) s.optimizer = OffloadDevice::cpu;
    }
    check(task, s);
  }
}

}  // namespace

TEST_CASE("random products of strategies, simulated, compute the step of one device", "[parallel-values]") {
  check_random_products(17, test::cases(600));
}

TEST_CASE("many random products of strategies compute the step of one device", "[.deep]") {
  check_random_products(6, 1000);
}

namespace {

struct Strategy {
  std::string name;
  TrainingTask task;
  SplitStep split;
};

/// One step of each strategy, on few ranks.
std::vector<Strategy> strategies() {
  std::vector<Strategy> all;
  const auto add = [&all](std::string name, TrainingTask task, SplitStep s, auto change) {
    change(s);
    task.seed = 9;  // with this seed every token rank looks up words of both halves of the vocabulary
    all.push_back({std::move(name), std::move(task), std::move(s)});
  };
  const auto nothing = [](SplitStep&) {};
  add("data", small_llama(), split(2, 1, 1), nothing);
  for (const ZeroStage stage : {ZeroStage::optimizer, ZeroStage::gradients, ZeroStage::parameters})
    add("ZeRO", small_llama(), split(2, 1, 1), [&](SplitStep& s) { s.zero = stage; });
  add("hybrid sharding", small_llama(), split(4, 1, 1), [](SplitStep& s) {
    s.zero = ZeroStage::parameters;
    s.zero_group = 2;
  });
  add("ZeRO in a pipeline", small_llama(), split(2, 2, 1), [](SplitStep& s) {
    s.zero = ZeroStage::parameters;
    s.micro_batches = 3;
  });
  add("tensor", small_llama(), split(1, 1, 2), nothing);
  add("sequence", small_llama(), split(1, 1, 2), [](SplitStep& s) { s.sharding.sequence = s.sharding.overlap = true; });
  add("recomputed tensor", small_llama(), split(1, 1, 2), [](SplitStep& s) { s.sharding.recompute = Recompute::full; });
  add("ring attention", small_llama(), split(1, 1, 1, 2), nothing);
  add("all-to-all attention", small_llama(), split(1, 1, 1, 2),
      [](SplitStep& s) { s.sharding.context_exchange = ContextExchange::all_to_all; });
  add("experts", small_mixtral(), split(2, 1, 1, 1, 2), nothing);
  add("columns", small_mlp(), split(1, 1, 2), [](SplitStep& s) { s.sharding.linear_split = LinearSplit::columns; });
  add("rows", small_mlp(), split(1, 1, 2), [](SplitStep& s) { s.sharding.linear_split = LinearSplit::rows; });
  for (const OffloadDevice parameters : {OffloadDevice::none, OffloadDevice::cpu, OffloadDevice::nvme})
    add("offload", small_llama(), split(2, 1, 1), [&](SplitStep& s) {
      s.zero = parameters == OffloadDevice::none ? ZeroStage::gradients : ZeroStage::parameters;
      s.optimizer = parameters == OffloadDevice::nvme ? OffloadDevice::nvme : OffloadDevice::cpu;
      s.parameters = parameters;
    });
  add("activations on the host", small_llama(), split(2, 1, 1), [](SplitStep& s) { s.activations_ahead = 1; });
  for (const char* schedule : {"naive", "gpipe", "1f1b", "zb-h1", "zb-2p", "interleaved-1f1b", "dualpipe", "dualpipe-v",
                               "zb-v", "v-half", "v-min"})
    add(schedule, small_gpt2(), split(1, 2, 1), [&](SplitStep& s) {
      s.schedule = schedule;
      s.micro_batches = 4;
      s.chunks = pipeline_schedules().find(schedule, {}).least_chunks;
    });
  return all;
}

/// Indices of the first, middle and last operation of a rank that is `wanted`.
std::vector<int> some_positions(const std::vector<Op>& ops, const std::function<bool(const Op&)>& wanted) {
  std::vector<int> found;
  for (std::size_t i = 0; i < ops.size(); ++i)
    if (wanted(ops[i])) found.push_back(static_cast<int>(i));
  if (found.size() <= 3) return found;
  return {found.front(), found[found.size() / 2], found.back()};
}

bool is_pass(const Op& op) {
  return op.effect.action == Action::call &&
         op.effect.call <= static_cast<std::uint16_t>(TrainingCall::backward_weights) &&
         op.effect.read.count == kEndOfPass;
}

bool is_noticed(const StepOutcome& out) { return !out.error.empty() || out.hazards > 0 || out.difference > 1e-8; }

void check_noticed(const Strategy& s, const char* what, const std::vector<int>& numbers,
                   const std::function<void(Op&)>& change) {
  for (const int number : numbers) {
    CAPTURE(s.name, what, number);
    CHECK(is_noticed(simulated_step(s.task, s.split, [&](Op& op, int rank, int at, const std::string&) {
      if (rank == 1 && at == number) change(op);
    })));
  }
}

}  // namespace

TEST_CASE("a broken message, order or shard of any strategy is noticed", "[parallel-values]") {
  for (const Strategy& s : strategies()) {
    const std::vector<Op> ops = operations_of(s.task, s.split, 1);
    const std::vector<int> messages =
        some_positions(ops, [](const Op& op) { return op.kind == Kind::recv && op.effect.action != Action::none; });
    CAPTURE(s.name);
    CHECK(!messages.empty());
    check_noticed(s, "message lost", messages, [](Op& op) { op.effect = {}; });
    const auto offloaded = [](const Op& op) { return op.kind == Kind::join && op.effect.action != Action::none; };
    if (s.split.optimizer != OffloadDevice::none || s.split.activations_ahead >= 0)
      for (const HostWay way :
           {HostWay::to_host, HostWay::in_host, HostWay::from_host, HostWay::drive_read, HostWay::drive_write})
        check_noticed(
            s, name_of(way),
            some_positions(
                ops, [&](const Op& op) { return offloaded(op) && op.message.slot == kLanes + static_cast<int>(way); }),
            [](Op& op) { op.effect = {}; });
    const std::vector<int> passes = some_positions(ops, is_pass);
    CHECK(passes.size() == 3);
    check_noticed(s, "another layer's turn", passes,
                  [](Op& op) { op.effect.read.buffer = static_cast<std::uint16_t>(op.effect.read.buffer ^ 1U); });
    const std::vector<int> parts =
        some_positions(ops, [](const Op& op) { return op.kind == Kind::send && op.effect.read.chunks > 1; });
    check_noticed(s, "another part", parts, [](Op& op) {
      op.effect.read.chunk = static_cast<std::uint16_t>((op.effect.read.chunk + 1) % op.effect.read.chunks);
    });
    if (parts.empty())
      check_noticed(s, "another micro-batch", {passes.front(), passes.back()},
                    [](Op& op) { op.effect.read.chunk = static_cast<std::uint16_t>(op.effect.read.chunk ^ 1U); });
  }
}

TEST_CASE("an exchange that is left out is noticed", "[parallel-values]") {
  // No rank uses the values that its messages bring.
  const auto check_without = [](const TrainingTask& task, const SplitStep& s, const std::string& exchange) {
    CAPTURE(exchange);
    bool any = false;
    for (int rank = 0; rank < s.mesh.ranks(); ++rank) any |= !receives_of(task, s, rank, exchange).empty();
    CHECK(any);
    CHECK(is_noticed(simulated_step(task, s, [&](Op& op, int, int, const std::string& name) {
      if (op.kind == Kind::recv && name.ends_with(exchange)) op.effect = {};
    })));
  };
  SplitStep s = split(2, 2, 2);
  s.micro_batches = 2;
  s.sharding.sequence = true;
  for (const char* name : {" embedding.scatter",
                           " embedding.gather",
                           " attention.gather",
                           " attention.regather",
                           " attention.scatter",
                           " attention.scatter.backward",
                           " attention.gather.backward",
                           " mlp.gather",
                           " mlp.regather",
                           " mlp.scatter",
                           " mlp.scatter.backward",
                           " mlp.gather.backward",
                           " head.gather",
                           " head.regather",
                           " head.maximum",
                           " head.sums",
                           " head.gather.backward",
                           "all-reduce gradients of norms over tensor ranks",
                           "all-reduce gradient of the tied weight",
                           "all-reduce bucket 0"})
    check_without(small_gpt2(), s, name);
  check_without(small_mixtral(), s, "all-reduce gradients of norms over tensor ranks");
  s.sharding.sequence = false;
  for (const char* name : {" embedding.reduce", " attention.reduce", " attention.reduce.backward", " mlp.reduce",
                           " mlp.reduce.backward", " head.reduce.backward"})
    check_without(small_gpt2(), s, name);
  for (const char* name : {" attention.keys.0", " attention.keys.1", " attention.keys.0.backward",
                           " attention.key_gradients.0", " attention.key_gradients.3"})
    check_without(small_llama(), split(1, 1, 1, 4), name);
  s = split(1, 1, 1, 2);
  s.sharding.context_exchange = ContextExchange::all_to_all;
  for (const char* name :
       {" attention.heads", " attention.tokens", " attention.heads.backward", " attention.tokens.backward"})
    check_without(small_llama(), s, name);
  for (const char* name :
       {" experts.dispatch", " experts.return", " experts.dispatch.backward", " experts.return.backward"})
    check_without(small_mixtral(), split(2, 1, 1, 1, 2), name);
  for (const char* name :
       {" experts.gather", " experts.scatter", " experts.gather.backward", " experts.scatter.backward"})
    check_without(small_mixtral(), with_expert_tensor(split(2, 1, 1, 1, 1), 2), name);
}

TEST_CASE("a shard of another rank is noticed", "[parallel-values]") {
  for (const int layer : {0, 1, 3}) {
    CAPTURE(layer);
    CHECK(is_noticed(simulated_step(small_gpt2(), split(1, 1, 2), {}, [layer](TrainingValues& step) {
      const Eigen::VectorXd other = step.parameters(0).layer(layer).parameters;
      step.parameters(1).layer(layer).parameters = layer == 3 ? Eigen::VectorXd(other * 1.01) : other;
    })));
  }
}

}  // namespace strategies_test_parallel_values
