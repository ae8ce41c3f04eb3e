#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "numeric_lockstep.hpp"
#include "numeric_tasks.hpp"
#include "sim/error.hpp"

using namespace trainyard;

namespace {

std::string in_words(const Split& s) {
  std::string words = s.mesh.in_words() + ", micro-batches " + std::to_string(s.micro_batches);
  if (s.sharding.sequence) words += ", sequence";
  if (s.sharding.context > 1) words += s.sharding.context_exchange == ContextExchange::ring ? ", ring" : ", all-to-all";
  words += ", chunks " + std::to_string(s.chunks) + ", zero " + std::to_string(static_cast<int>(s.zero));
  if (s.zero_group > 0) words += " in groups of " + std::to_string(s.zero_group);
  words += ", recompute " + std::to_string(static_cast<int>(s.sharding.recompute));
  if (s.sharding.overlap) words += ", overlap";
  if (s.split_backward) words += ", split backward";
  return words;
}

Split split_of(int data, int pipeline, int tensor, int context = 1, int expert = 1) {
  Split s;
  s.mesh.data = data;
  s.mesh.pipeline = pipeline;
  s.mesh.tensor = s.sharding.tensor = tensor;
  s.mesh.context = s.sharding.context = context;
  s.mesh.expert = s.sharding.expert = expert;
  return s;
}

NumericDifference apart(const NumericStepTask& task, const Split& s) {
  Lockstep lockstep(task, s);
  ReferenceStep one(task, s.mesh.data * s.micro_batches * task.micro_batch_size, s.steps);
  one.run();
  return lockstep.run().difference(one.numbers());
}

void check(const NumericStepTask& task, const Split& s) {
  INFO(in_words(s));
  NumericDifference d;
  try {
    d = apart(task, s);
  } catch (const std::exception& e) {
    FAIL(e.what());
  }
  INFO(d.worst);
  CHECK(d.loss < 1e-10);
  CHECK(d.gradients < 1e-10);
  CHECK(d.parameters < 1e-10);
}

void check_random_products(unsigned seed, int count) {
  std::mt19937 random(seed);
  const auto one_of = [&random](const std::vector<int>& values) { return values[random() % values.size()]; };
  for (int i = 0; i < count; ++i) {
    const int kind = one_of({0, 1, 2});
    Split s;
    do {
      s = split_of(one_of({1, 2, 4}), one_of({1, 1, 2, 4}), one_of({1, 2}), one_of({1, 1, 2}));
    } while (s.mesh.ranks() > 16);
    std::shuffle(s.mesh.order.begin(), s.mesh.order.end(), random);
    if (kind == 2) s.mesh.expert = s.sharding.expert = one_of({1, std::min(4, s.mesh.data * s.mesh.context)});
    if (kind == 2 || random() % 2 == 0) s.sharding.context_exchange = ContextExchange::all_to_all;
    s.sharding.sequence = s.mesh.tensor > 1 && random() % 2 == 0;
    s.sharding.overlap = random() % 2 == 0;
    const bool ring = s.mesh.context > 1 && s.sharding.context_exchange == ContextExchange::ring;
    s.sharding.recompute = static_cast<Recompute>(one_of({0, 0, ring ? 2 : 1, 2}));
    if (kind == 1 && s.mesh.tensor * s.mesh.context > 2) s.sharding.context_exchange = ContextExchange::ring;
    if (s.sharding.context_exchange == ContextExchange::ring && s.sharding.recompute == Recompute::selective)
      s.sharding.recompute = Recompute::none;
    s.micro_batches = one_of({1, 2, 3});
    s.chunks = s.mesh.pipeline == 2 ? one_of({1, 2}) : 1;
    s.zero = static_cast<ZeroStage>(one_of({0, 1, 2, 3}));
    s.split_backward = random() % 2 == 0;
    NumericStepTask task = kind == 0 ? small_gpt2(i % 2 == 0, 1) : kind == 1 ? small_llama(1) : small_mixtral(1);
    if (random() % 2 == 0) {
      task.update = NumericStepTask::Update::adam;
      task.learning_rate = 1e-3;
    }
    check(task, s);
  }
}

}  // namespace

TEST_CASE("data parallel and ZeRO give the step of one device", "[numeric]") {
  for (const ZeroStage zero : {ZeroStage::none, ZeroStage::optimizer, ZeroStage::gradients, ZeroStage::parameters}) {
    Split s = split_of(4, 1, 1);
    s.zero = zero;
    s.micro_batches = 2;
    s.steps = 2;
    check(small_gpt2(), s);
    check(small_mlp(), s);
    s.zero_group = 2;
    check(small_llama(), s);
  }
}

TEST_CASE("tensor and sequence parallel give the step of one device", "[numeric]") {
  for (const int ranks : {2, 4})
    for (const bool sequence : {false, true})
      for (const bool overlap : {false, true}) {
        Split s = split_of(1, 1, ranks);
        s.sharding.sequence = sequence;
        s.sharding.overlap = overlap;
        check(small_gpt2(true), s);
        check(small_gpt2(false), s);
        check(small_mixtral(), s);
        if (ranks == 2) check(small_llama(), s);
      }
}

TEST_CASE("an MLP split by pairs, columns and rows gives the step of one device", "[numeric]") {
  for (const LinearSplit split : {LinearSplit::pairs, LinearSplit::columns, LinearSplit::rows})
    for (const MlpLoss loss : {MlpLoss::mean_squared_error, MlpLoss::softmax_cross_entropy})
      for (const int stages : {1, 2, 4}) {
        Split s = split_of(2, stages, 2);
        s.sharding.linear_split = split;
        s.micro_batches = 2;
        check(small_mlp(loss), s);
      }
}

TEST_CASE("context parallel gives the step of one device", "[numeric]") {
  for (const ContextExchange exchange : {ContextExchange::ring, ContextExchange::all_to_all})
    for (const int ranks : {2, 4}) {
      Split s = split_of(1, 1, 1, ranks);
      s.sharding.context_exchange = exchange;
      check(small_gpt2(), s);
      if (exchange == ContextExchange::all_to_all) check(small_mixtral(), s);
      if (exchange == ContextExchange::ring || ranks == 2) check(small_llama(), s);
    }
}

TEST_CASE("expert parallel gives the step of one device", "[numeric]") {
  for (const int experts : {2, 4}) {
    check(small_mixtral(), split_of(4, 1, 1, 1, experts));
    Split s = split_of(4, 1, 2, 1, experts);
    s.sharding.sequence = true;
    s.zero = ZeroStage::optimizer;
    check(small_mixtral(), s);
  }
}

TEST_CASE("pipelines give the step of one device", "[numeric]") {
  for (const bool split_backward : {false, true})
    for (const bool tied : {false, true}) {
      Split s = split_of(2, 2, 1);
      s.micro_batches = 3;
      s.split_backward = split_backward;
      check(small_gpt2(tied), s);
      s.chunks = 2;
      check(small_gpt2(tied), s);
      check(small_llama(), split_of(1, 4, 1));
    }
}

TEST_CASE("a head's copy of a tied weight that no bucket has stays equal, if it has no replicas", "[numeric]") {
  Split s = split_of(1, 2, 2);
  s.copy_listed = false;
  s.steps = 2;
  check(small_gpt2(), s);
  s.mesh.data = 2;
  CHECK_THROWS_AS(Lockstep(small_gpt2(), s), InternalError);
}

TEST_CASE("recomputation changes no number", "[numeric]") {
  for (const Recompute recompute : {Recompute::selective, Recompute::full})
    for (const bool sequence : {false, true}) {
      Split s = split_of(1, 2, 2);
      s.sharding.recompute = recompute;
      s.sharding.sequence = sequence;
      check(small_gpt2(), s);
      check(small_mixtral(), s);
      if (recompute != Recompute::full) continue;
      s = split_of(1, 1, 2, 2);
      s.sharding.recompute = recompute;
      s.sharding.sequence = sequence;
      check(small_llama(), s);
    }
}

TEST_CASE("random products of strategies give the step of one device", "[numeric]") { check_random_products(5, 60); }

TEST_CASE("many random products of strategies give the step of one device", "[.deep]") {
  check_random_products(6, 1000);
}

TEST_CASE("an exchange that is left out is noticed", "[numeric]") {
  const auto noticed = [](const NumericStepTask& task, Split s, const std::string& name) {
    INFO(name);
    s.without = name;
    bool seen = false;
    try {
      seen = apart(task, s).largest() > 1e-6;
    } catch (const InternalError&) {
      seen = true;
    }
    CHECK(seen);
  };
  Split s = split_of(2, 2, 2);
  s.sharding.sequence = true;
  for (const char* name : {"embedding.scatter",
                           "embedding.gather",
                           "attention.gather",
                           "attention.regather",
                           "attention.scatter",
                           "attention.scatter.backward",
                           "attention.gather.backward",
                           "mlp.gather",
                           "mlp.regather",
                           "mlp.scatter",
                           "mlp.scatter.backward",
                           "mlp.gather.backward",
                           "head.gather",
                           "head.regather",
                           "head.maximum",
                           "head.sums",
                           "head.gather.backward",
                           "partial",
                           "tied",
                           "gradients"})
    noticed(small_gpt2(), s, name);
  s.sharding.sequence = false;
  for (const char* name : {"embedding.reduce", "attention.reduce", "attention.reduce.backward", "mlp.reduce",
                           "mlp.reduce.backward", "head.reduce.backward"})
    noticed(small_gpt2(), s, name);
  noticed(small_mixtral(), s, "partial");
  for (const char* name : {"attention.keys.0", "attention.keys.1", "attention.keys.0.backward",
                           "attention.key_gradients.0", "attention.key_gradients.3"})
    noticed(small_llama(), split_of(1, 1, 1, 4), name);
  s = split_of(1, 1, 1, 2);
  s.sharding.context_exchange = ContextExchange::all_to_all;
  for (const char* name :
       {"attention.heads", "attention.tokens", "attention.heads.backward", "attention.tokens.backward"})
    noticed(small_llama(), s, name);
  for (const char* name :
       {"experts.dispatch", "experts.return", "experts.dispatch.backward", "experts.return.backward"})
    noticed(small_mixtral(), split_of(2, 1, 1, 1, 2), name);
}

TEST_CASE("what comes in the wrong order is noticed", "[numeric]") {
  const NumericStepTask task = small_llama();
  const auto end_of = [](int layer) { return CallArguments{layer, 0, kEndOfPass}; };
  ReferenceStep one(task, 2);
  NumericStep& step = one.numbers();
  CHECK_THROWS_AS(step.call(TrainingCall::forward, 0, end_of(1)), InternalError);   // no input
  CHECK_THROWS_AS(step.call(TrainingCall::backward, 0, end_of(3)), InternalError);  // no forward pass
  CHECK_THROWS_AS(step.call(TrainingCall::update, 0, {}), InternalError);           // no gradients
  ReferenceStep again(task, 2);
  again.forward();
  CHECK_THROWS_AS(again.forward(), InternalError);
  CHECK_THROWS_AS(again.numbers().call(TrainingCall::backward, 0, end_of(2)), InternalError);
  again.backward();
  CHECK_THROWS_AS(again.backward(), InternalError);
}

TEST_CASE("an operation's call computes when it ends", "[numeric]") {
  const NumericStepTask task = small_mlp();
  ReferenceStep network(task, task.micro_batch_size);
  TrainingPlan plan;
  plan.network = &network.network();
  plan.stages.resize(1);
  plan.stages[0].chunks = {{0, 1, 2, 3}};
  NumericStep step(task, plan);
  Values values;
  step.attach(values);
  const auto end_of = [&values](TrainingCall call, int layer) {
    Op op;
    op.effect = effect_of(call, {layer, 0, kEndOfPass});
    OpRun run;
    run.op = &op;
    values.finished(run);
  };
  for (int layer = 0; layer < 4; ++layer) end_of(TrainingCall::forward, layer);
  for (int layer = 3; layer >= 0; --layer) end_of(TrainingCall::backward, layer);
  end_of(TrainingCall::update, 0);
  network.run();
  CHECK(step.difference(network.numbers()).largest() < 1e-14);
}

TEST_CASE("a shard of another rank is noticed", "[numeric]") {
  const NumericStepTask task = small_gpt2();
  for (const int layer : {0, 1, 3}) {
    Lockstep lockstep(task, split_of(1, 1, 2));
    NumericStep& step = lockstep.numbers();
    const Eigen::VectorXd other = step.parameters(0).layer(layer).parameters;
    step.parameters(1).layer(layer).parameters = layer == 3 ? Eigen::VectorXd(other * 1.01) : other;
    ReferenceStep one(task, 2);
    one.run();
    CHECK(lockstep.run().difference(one.numbers()).largest() > 1e-6);
  }
}
