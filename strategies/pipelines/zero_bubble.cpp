#include "strategies/pipelines/orders.hpp"

namespace trainyard {
namespace {

/// As many micro-batches are under way as on the first stage of 1f1b. Stage k delays the weight gradients of k
/// micro-batches, and computes them at the end, when 1f1b idles. It idles for (stages − 1)(F + B − W); B is the
/// input-gradient pass.
std::vector<PipelineTask> zb_h1_tasks(int stage, const PipelineShape& shape) {
  return delayed_weights_order(shape.micro_batches, shape.stages - stage, stage);
}

/// Twice as many micro-batches are under way, less one: enough forward passes to fill the time until the first
/// gradient arrives, and the stages end one after the other, as they began. No stage idles between its first and its
/// last task if F = B = W and there are at least 2 stages − 1 micro-batches.
std::vector<PipelineTask> zb_2p_tasks(int stage, const PipelineShape& shape) {
  return delayed_weights_order(shape.micro_batches, 2 * (shape.stages - stage) - 1, 2 * stage);
}

const RegisterPipelineSchedule registered_zb_h1{
    {"zb-h1", "1f1b with delayed weight gradients, in 1f1b's memory (Qi et al. 2023, Zero Bubble)",
     "(p - 1) * (F + B - W) if W <= F and m >= p", "p", zb_h1_tasks, nullptr, refuse_chunks}};
const RegisterPipelineSchedule registered_zb_2p{
    {"zb-2p", "zb-h1 with 2p - 1 micro-batches under way, and with so many no bubble inside (ZB-H2, Qi et al. 2023)",
     "(p - 1) * (F + B - 2 * W) if F = B = W, in steps in a row", "2 * p - 1", zb_2p_tasks, nullptr, refuse_chunks}};

}  // namespace
}  // namespace trainyard
