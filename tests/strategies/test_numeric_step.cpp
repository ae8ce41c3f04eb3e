// The calls of a training, made one by one.
#include <catch2/catch.hpp>

#include "numeric_tasks.hpp"
#include "sim/error.hpp"
#include "strategies/plan/training_plan.hpp"
#include "strategies/values/reference_training.hpp"

namespace strategies_test_numeric_step {

using namespace trainyard;

TEST_CASE("calls in the wrong order are detected", "[numeric]") {
  const TrainingTask task = small_llama();
  const auto end_of = [](int layer) { return CallArguments{layer, 0, kEndOfPass}; };
  ReferenceTraining first_training(task, 2);
  TrainingValues& step = first_training.values();
  CHECK_THROWS_AS(step.call(TrainingCall::forward, 0, end_of(1)), InternalError);   // no input
  CHECK_THROWS_AS(step.call(TrainingCall::backward, 0, end_of(3)), InternalError);  // no forward pass
  CHECK_THROWS_AS(step.call(TrainingCall::update, 0, {}), InternalError);           // no gradients
  ReferenceTraining second_training(task, 2);
  second_training.forward();
  CHECK_THROWS_AS(second_training.forward(), InternalError);
  CHECK_THROWS_AS(second_training.values().call(TrainingCall::backward, 0, end_of(2)), InternalError);
  second_training.backward();
  CHECK_THROWS_AS(second_training.backward(), InternalError);
}

TEST_CASE("an operation's call computes when it ends", "[numeric]") {
  const TrainingTask task = small_mlp();
  ReferenceTraining network(task, task.micro_batch_size);
  TrainingPlan plan;
  plan.network = network.values().plan().network;
  plan.stages.resize(1);
  plan.stages[0].chunks = {{0, 1, 2, 3}};
  Values values;
  TrainingValues step(task, plan, values);
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
  CHECK(difference(step, network.values()).largest() < 1e-14);
}

}  // namespace strategies_test_numeric_step
