#include "strategies/pipelines/orders.hpp"

namespace trainyard {
namespace {

/// As many micro-batches under way as 1f1b has on its first stage: stage k owes the weights of k of them while it goes on,
/// and works these off where 1f1b idles at the end. It idles (stages − 1)(F + B − W), B by the input.
std::vector<PipelineTask> zb_h1_tasks(int stage, const PipelineShape& shape) {
  return delayed_weights_order(shape.micro_batches, shape.stages - stage, stage);
}

/// Twice as many, less one: enough forwards to fill the time until the first gradient comes back, and the stages end as
/// they have begun, one after the other. From its first task to its last no stage idles where F = B = W and there are at
/// least 2 stages − 1 micro-batches.
std::vector<PipelineTask> zb_2p_tasks(int stage, const PipelineShape& shape) {
  return delayed_weights_order(shape.micro_batches, 2 * (shape.stages - stage) - 1, 2 * stage);
}

const RegisterPipelineSchedule registered_zb_h1{
    {"zb-h1", "1f1b with gradients by the weights put off, in 1f1b's memory (Qi et al. 2023, Zero Bubble)", zb_h1_tasks,
     nullptr, refuse_chunks}};
const RegisterPipelineSchedule registered_zb_2p{
    {"zb-2p", "zb-h1 with 2 stages - 1 micro-batches under way: no bubble inside (Qi et al. 2023, ZB-H2)", zb_2p_tasks,
     nullptr, refuse_chunks}};

}  // namespace
}  // namespace trainyard
