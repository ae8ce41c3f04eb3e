// Training steps of every strategy and of their products, simulated message by message, equal those of one device.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "numeric_tasks.hpp"
#include "split_steps.hpp"
#include "strategies/plan/training_plan.hpp"
#include "tests/cases.hpp"
#include "tests/temporary_folder.hpp"

namespace strategies_test_parallel_values {

using namespace trainyard;
using namespace trainyard::test;

TEST_CASE("simulated data parallelism and ZeRO compute the step of one device", "[parallel-values]") {
  for (const ZeroStage zero : {ZeroStage::none, ZeroStage::optimizer, ZeroStage::gradients, ZeroStage::parameters})
    for (const bool overlap : {false, true}) {
      SplitStep s = split(4, 1, 1);
      s.zero = zero;
      s.micro_batches = s.steps = 2;
      s.overlap_gradients = s.overlap_parameters = s.overlap_copies = overlap;
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
        s = with_schedule(split(1, 2, 1), schedule);
        s.activations_ahead = ahead;
        s.sharding.recompute = recompute;
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

TEST_CASE("rings between groups of ranks that exchange heads compute the step of one device",
          "[parallel-values][usp]") {
  for (const auto& [ulysses, ring] : {std::pair{1, 2}, {2, 1}, {1, 4}, {2, 2}, {4, 1}, {2, 4}}) {
    SplitStep s = split(1, 1, 1, ulysses * ring);
    s.mesh.ulysses = s.sharding.ulysses = ulysses;
    CAPTURE(ulysses, ring);
    for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
      s.sharding.recompute = recompute;
      if (ulysses * ring <= 4) check(small_gpt2(), s);  // its 8 tokens are cut into twice as many blocks as ranks
      if (ulysses <= 2) check(small_llama(2, 16), s);   // with 2 heads of keys and values
    }
  }
  SplitStep s = split(1, 2, 2, 4);
  s.mesh.ulysses = s.sharding.ulysses = 2;
  s.micro_batches = 4;
  s.zero = ZeroStage::optimizer;
  for (const bool inverse : {false, true}) {
    if (inverse) std::reverse(s.mesh.order.begin(), s.mesh.order.end());
    s.sharding.sequence = false;
    check(small_gpt2(), s);
    s.sharding.sequence = true;
    check(small_gpt2(), s);
  }
}

TEST_CASE("simulated expert parallelism computes the step of one device", "[parallel-values]") {
  for (const int experts : {2, 4}) {
    SplitStep uneven = split(4, 1, 1, 1, experts);
    check(small_mixtral(), uneven);
    // Stated loads decide the bytes of messages, not the rows that they carry.
    uneven.sharding.expert_loads = {3, 1, 1, 1};
    check(small_mixtral(), uneven);
  }
  SplitStep s = split(4, 1, 2, 1, 2);
  s.sharding.sequence = true;
  s.zero = ZeroStage::optimizer;
  check(small_mixtral(), s);
}

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
    SplitStep s = with_schedule(split(2, 2, 2, 1, 2), schedule);
    s.pairs_passes = true;
    check(small_mixtral(), s);
  }
  SplitStep short_step = with_schedule(split(1, 4, 2), "1f1b", 4);  // with four stages the first backward pass is alone
  short_step.pairs_passes = true;
  check(small_mlp(), short_step);
  SplitStep one_stage = split(4, 1, 1, 1, 4);
  one_stage.micro_batches = 3;
  one_stage.pairs_passes = true;
  check(small_mixtral(), one_stage);
}

TEST_CASE("simulated pipelines compute the step of one device", "[parallel-values]") {
  for (const char* schedule : {"naive", "gpipe", "1f1b", "zb-auto", "zb-h1", "zb-2p"})
    for (const bool overlap : {false, true}) {
      SplitStep s = with_schedule(split(2, 2, 1), schedule);
      s.overlap_pipeline = overlap;
      check(small_gpt2(), s);
      check(small_mlp(), s);
    }
  for (const char* schedule : {"interleaved-1f1b", "dualpipe-v", "zb-v", "v-half", "v-min"}) {
    SplitStep s = with_schedule(split(1, 2, 2), schedule);
    s.scatter_gather = true;
    check(small_gpt2(), s);
    check(small_llama(), s);
  }
}

TEST_CASE("schedules from files compute the step of one device, in the time of the built-in ones",
          "[parallel-values][schedule-file]") {
  const TemporaryFolder folder;
  for (const char* schedule : {"1f1b", "zb-h1", "zb-v", "dualpipe-v"}) {
    SplitStep s = with_schedule(split(1, 2, 1), schedule);
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
      SplitStep s = with_schedule(split(2, 2, 1), schedule);
      s.zero = ZeroStage::parameters;
      s.reshard = reshard;
      s.prefetch = reshard ? 1 : 3;
      s.sync_last = !reshard;
      check(small_llama(), s);
      check(small_mlp(), s);
    }
}

namespace {

/// Returns the number of bytes that a rank sends on a lane.
double sent_on(Lane lane, const TrainingTask& task, const SplitStep& s, int rank) {
  double bytes = 0;
  for (const Op& op : operations_of(task, s, rank))
    if (op.kind == Kind::send && (op.message.tag >> 27 & 31U) == static_cast<Tag>(lane))
      bytes += op.message.bytes.value;
  return bytes;
}

}  // namespace

TEST_CASE("a pipeline that shares out parameters gathers them once a step, or for every pass", "[parallel-values]") {
  SplitStep s = with_schedule(split(2, 2, 1), "gpipe");
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

/// Chooses a random device for offload that the ZeRO stage allows.
void offload(std::mt19937& random, SplitStep& s) {
  s.optimizer = OffloadDevice::cpu;
  if (s.zero == ZeroStage::gradients) s.overlap_gradients = true;
  if (s.zero != ZeroStage::parameters) return;
  s.optimizer = random() % 2 == 0 ? OffloadDevice::cpu : OffloadDevice::nvme;
  s.parameters = static_cast<OffloadDevice>(random() % 3);
}

/// Returns a random valid product of strategies, on at most 16 ranks.
SplitStep random_split(std::mt19937& random, int kind) {
  const auto pick = [&random](std::vector<int> values) { return values[random() % values.size()]; };
  const auto coin = [&random] { return random() % 2 == 0; };
  for (;;) {
    SplitStep s = split(pick({1, 2, 4}), pick({1, 1, 2, 4}), pick({1, 2}), kind == 0 ? 1 : pick({1, 1, 2}));
    if (s.mesh.ranks() > 16 || s.mesh.ranks() < 2) continue;
    const int replicas = s.mesh.data * s.mesh.context;
    if (kind == 2) s.mesh.expert = s.sharding.expert = std::min(replicas, pick({1, 2, 4}));
    s.sharding.sequence = kind != 0 && s.mesh.tensor > 1 && coin();
    if (kind == 2 && (s.mesh.tensor == 1 || s.sharding.sequence) && coin())
      s = with_expert_tensor(s, pick({1, 2, s.mesh.tensor * replicas / s.mesh.expert >= 4 ? 4 : 1}));
    if (s.mesh.tensor * replicas % (s.mesh.expert * std::max(1, s.mesh.expert_tensor)) != 0) continue;
    s.sharding.overlap = coin();
    s.sharding.context_exchange = coin() || kind == 2 ? ContextExchange::all_to_all : ContextExchange::ring;
    if (kind != 0) s.sharding.recompute = static_cast<Recompute>(pick({0, 0, 1, 2}));
    if (kind == 0) s.sharding.linear_split = static_cast<LinearSplit>(pick({0, 1, 2}));
    s.chunks = s.mesh.pipeline == 2 && coin() ? 2 : 1;
    s.schedule = s.chunks > 1 ? std::vector<std::string>{"interleaved-1f1b", "dualpipe-v", "zb-v", "v-half",
                                                         "v-min"}[random() % 5]
                              : std::vector<std::string>{"naive", "gpipe", "1f1b", "zb-h1", "zb-2p"}[random() % 5];
    s.micro_batches = s.mesh.pipeline > 1 ? 4 : pick({1, 2, 3});
    s.steps = pick({1, 1, 2});
    s.zero =
        static_cast<ZeroStage>(pick(s.mesh.pipeline > 1 ? std::vector<int>{0, 1, 3} : std::vector<int>{0, 1, 2, 3}));
    if (s.zero != ZeroStage::none && replicas == 4 && coin()) s.zero_group = 2;
    s.prefetch = pick({0, 1, 3});
    s.reshard = coin();
    s.overlap_gradients = coin();
    s.overlap_parameters = coin();
    s.overlap_copies = s.zero_group == 0 || coin();
    s.overlap_pipeline = coin();
    s.scatter_gather = !s.sharding.sequence && coin();
    s.whole_tensors = coin();
    s.bucket = pick({100, 1000, 100000});
    const bool partial = s.sharding.sequence || (kind == 2 && s.mesh.tensor > 1);  // see sum_partial
    if (!partial && (s.zero != ZeroStage::none || replicas == 1) && coin()) offload(random, s);
    const std::vector<std::string> reductions{"ring", "halving-doubling", "direct", "binary-tree"};
    s.all_reduce = reductions[random() % reductions.size()];
    s.pairs_passes = s.zero != ZeroStage::parameters && coin();
    const bool splits_backward =
        s.schedule.starts_with("zb-") || s.schedule.starts_with("v-") || s.schedule == "dualpipe-v";
    if (!splits_backward && coin()) s.activations_ahead = pick({0, 1, 3});
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
  check_random_products(17, cases(600));
}

TEST_CASE("many random products of strategies compute the step of one device", "[.deep]") {
  check_random_products(6, 1000);
}

}  // namespace strategies_test_parallel_values
