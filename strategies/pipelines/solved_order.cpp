#include <algorithm>

#include "strategies/pipelines/orders.hpp"

namespace trainyard {
namespace {

using Pass = PipelineTask::Pass;

/// Share of a time, or of the activations of a micro-batch, by which sums of them may differ.
constexpr double kRounding = 1e-9;

/// Choices of the heuristic. All combinations are tried.
struct SolverChoices {
  bool fills_warm_up;   ///< one more forward pass in the warm-up, though the first gradient then waits for it
  bool skips_forwards;  ///< a stage two or more forward passes ahead of the next one lets a gradient go first
  bool fills_gaps;      ///< weight gradients in all gaps, also if the next pass then waits for them
};

/// Puts passes on stages, each at the first moment at which the stage is free and its input has arrived.
class SolvedStages {
 public:
  explicit SolvedStages(const PipelineShape& shape)
      : shape_(shape),
        figures_(shape.figures),
        limit_(shape.figures.activation_limit * shape.stages),
        stages_(static_cast<std::size_t>(shape.stages)) {
    for (Stage& stage : stages_) stage.order.reserve(3 * static_cast<std::size_t>(shape.micro_batches));
  }

  /// Chooses the passes by the heuristic of Qi et al. 2023, section 3.1. Forward passes fill the time until the first
  /// gradient, as far as the memory permits. Then each stage alternates between a forward and an input-gradient pass.
  /// Weight gradients fill gaps in which they find room, smaller ones only where the stage would become the one that
  /// waits longest, and make room for activations at the limit.
  void solve(const SolverChoices& choices) {
    warm_up(choices.fills_warm_up);
    for (int round = 0; round < shape_.micro_batches; ++round) {
      for (std::size_t s = 0; round > 0 && s < stages_.size(); ++s)
        if (takes_forward(s, choices.skips_forwards)) put_between(s, Pass::forward, choices.fills_gaps);
      for (std::size_t s = stages_.size(); s-- > 0;) put_between(s, Pass::backward_input, choices.fills_gaps);
    }
    for (std::size_t s = 0; s < stages_.size(); ++s)
      while (stages_[s].pending() > 0) put(s, Pass::backward_weights);
  }

  /// Puts the passes of an order that cannot deadlock.
  void follow(const StageOrders& orders) {
    for (bool advances = true; advances;) {
      advances = false;
      for (std::size_t s = 0; s < stages_.size(); ++s)
        while (stages_[s].order.size() < orders[s].size() && has_input(s, orders[s][stages_[s].order.size()].pass)) {
          put(s, orders[s][stages_[s].order.size()].pass);
          advances = true;
        }
    }
  }

  /// Returns the time of a step by itself and that of one of many steps in a row, together: a stage begins the next step
  /// when its own work is done, so that steps follow each other after the longest time of a stage.
  double time() const {
    double end = 0, longest = 0;
    for (const Stage& s : stages_) {
      end = std::max(end, s.free);
      longest = std::max(longest, s.free - s.first);
    }
    return end + longest;
  }
  bool is_permitted() const { return most_kept_ <= limit_ + kRounding; }
  StageOrders take_orders() {
    StageOrders orders;
    for (Stage& s : stages_) orders.push_back(std::move(s.order));
    return orders;
  }

 private:
  struct Stage {
    std::vector<double> outputs, gradients;  // ends of the forward and of the input-gradient passes so far
    int weights = 0;                         // number of weight-gradient passes so far
    double first = 0, free = 0, waited = 0;  // beginning of the first pass, end of the last one, waiting between them
    std::vector<PipelineTask> order;
    int forwards() const { return static_cast<int>(outputs.size()); }
    int inputs() const { return static_cast<int>(gradients.size()); }
    int pending() const { return inputs() - weights; }
  };

  bool has_input(std::size_t s, Pass pass) const {
    const Stage& stage = stages_[s];
    if (pass == Pass::forward) return s == 0 || stages_[s - 1].outputs.size() > stage.outputs.size();
    if (pass == Pass::backward_weights) return stage.pending() > 0;
    return s + 1 == stages_.size() ? stage.forwards() > stage.inputs()
                                   : stages_[s + 1].gradients.size() > stage.gradients.size();
  }

  /// Returns the time at which the input of the next pass of that kind arrives.
  double arrival(std::size_t s, Pass pass) const {
    const Stage& stage = stages_[s];
    if (pass == Pass::backward_weights) return stage.free;
    if (pass == Pass::forward) return s == 0 ? 0 : stages_[s - 1].outputs[stage.outputs.size()] + figures_.transfer;
    return s + 1 == stages_.size() ? stage.outputs[stage.gradients.size()]
                                   : stages_[s + 1].gradients[stage.gradients.size()] + figures_.transfer;
  }

  /// Returns the activations that a stage keeps, in micro-batches.
  double activations(const Stage& stage) const {
    return stage.forwards() - stage.inputs() + figures_.kept_share * stage.pending();
  }

  void put(std::size_t s, Pass pass) {
    Stage& stage = stages_[s];
    const PipelineTimes& times = figures_.times;
    const double begin = std::max(stage.free, arrival(s, pass));
    if (stage.order.empty())
      stage.first = begin;
    else
      stage.waited += begin - stage.free;
    longest_wait_ = std::max(longest_wait_, stage.waited);
    stage.free = begin + (pass == Pass::forward          ? times.forward
                          : pass == Pass::backward_input ? times.backward_input
                                                         : times.backward_weights);
    const int number = pass == Pass::forward          ? stage.forwards()
                       : pass == Pass::backward_input ? stage.inputs()
                                                      : stage.weights++;
    if (pass == Pass::forward) stage.outputs.push_back(stage.free);
    if (pass == Pass::backward_input) stage.gradients.push_back(stage.free);
    most_kept_ = std::max(most_kept_, activations(stage));
    stage.order.push_back({pass, number, 0});
  }

  /// Puts a forward or an input-gradient pass, and weight gradients before it that make room or fill the gap.
  void put_between(std::size_t s, Pass pass, bool fills_gaps) {
    Stage& stage = stages_[s];
    const double added = pass == Pass::forward ? 1 : figures_.kept_share - 1;
    while (stage.pending() > 0 && activations(stage) + added > limit_ + kRounding) put(s, Pass::backward_weights);
    const double input = arrival(s, pass);
    while (stage.pending() > 0 && stage.free + figures_.times.backward_weights <= input) put(s, Pass::backward_weights);
    const double gap = input - stage.free;
    if (stage.pending() > 0 && gap > 0 && (fills_gaps || stage.waited + gap > longest_wait_))
      put(s, Pass::backward_weights);
    put(s, pass);
  }

  bool takes_forward(std::size_t s, bool skips) const {
    const Stage& stage = stages_[s];
    if (stage.forwards() == shape_.micro_batches || !has_input(s, Pass::forward)) return false;
    if (!skips || s + 1 == stages_.size()) return true;
    const Stage& next = stages_[s + 1];
    if (stage.forwards() < std::min(shape_.micro_batches, next.forwards() + 2)) return true;
    const double gradient = next.free + figures_.times.forward + figures_.times.backward_input + figures_.transfer;
    const double room = activations(stage) + 1 > limit_ ? figures_.times.backward_weights : 0;
    return stage.free + room + figures_.times.forward <= gradient;
  }

  /// Puts the forward passes before the first gradient. Each stage has more of them than the next one.
  void warm_up(bool fills) {
    for (std::size_t s = 0; s < stages_.size(); ++s) put(s, Pass::forward);
    std::vector<int> more(stages_.size(), 0);
    double gradient = stages_.back().free + figures_.times.backward_input;
    for (std::size_t s = stages_.size() - 1; s-- > 0;) {
      const double input = gradient + figures_.transfer;
      double free = stages_[s].free;
      while (1 + more[s] < shape_.micro_batches && 2 + more[s] <= limit_ + kRounding &&
             (fills ? free < input : free + figures_.times.forward <= input)) {
        ++more[s];
        free += figures_.times.forward;
      }
      gradient = std::max(input, free) + figures_.times.backward_input;
    }
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      if (s > 0) more[s] = std::min(more[s], std::max(0, more[s - 1] - 1));
      for (int i = 0; i < more[s]; ++i) put(s, Pass::forward);
    }
  }

  PipelineShape shape_;
  StageFigures figures_;
  double limit_;  // activations, in micro-batches
  std::vector<Stage> stages_;
  double longest_wait_ = 0, most_kept_ = 0;
};

/// Returns the shortest of the orders that the heuristic finds and of those of zb-h1 and zb-2p, if the memory permits
/// them.
StageOrders shortest_order(const PipelineShape& shape) {
  StageOrders best;
  double shortest = 0;
  const auto try_order = [&](const auto& fill) {
    SolvedStages stages(shape);
    fill(stages);
    if (!stages.is_permitted() || (!best.empty() && stages.time() >= shortest * (1 - kRounding))) return;
    shortest = stages.time();
    best = stages.take_orders();
  };
  for (const int times : {1, 2}) {  // zb-2p has twice zb-h1's delay
    StageOrders order;
    for (int stage = 0; stage < shape.stages; ++stage)
      order.push_back(
          delayed_weights_order(shape.micro_batches, times * (shape.stages - stage - 1) + 1, times * stage));
    try_order([&order](SolvedStages& stages) { stages.follow(order); });
  }
  for (const bool fills_warm_up : {false, true})
    for (const bool skips_forwards : {false, true})
      for (const bool fills_gaps : {false, true})
        try_order([&](SolvedStages& stages) { stages.solve({fills_warm_up, skips_forwards, fills_gaps}); });
  return best;
}

const RegisterPipelineSchedule registered_zb_auto{
    {.name = "zb-auto",
     .description = "solved for the times of the passes and for activation_limit (ZB-1p, ZB-2p; Qi et al. 2023)",
     .bubble = "(p - 1) * (F + B - W) if W <= F and m >= p",
     .activations = "p",
     .refuses = refuse_chunks,
     .solve = shortest_order}};

}  // namespace
}  // namespace trainyard
