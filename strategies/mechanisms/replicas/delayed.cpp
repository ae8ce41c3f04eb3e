// Delayed updates: the gradients of a step are applied some steps later, so that their exchange overlaps with these
// steps (as in Pipe-SGD: Li et al. 2018).
#include <fmt/format.h>

#include <algorithm>

#include "strategies/mechanisms/replicas/replicas.hpp"
#include "strategies/step/rank_updates.hpp"

namespace trainyard {
namespace {

constexpr int kMostDelay = 16;

class RankDelayed : public RankUpdates {
 public:
  RankDelayed(const StepParts& parts, int delay)
      : RankUpdates(parts), delay_(delay), in_flight_(static_cast<std::size_t>(delay + 1)) {}

  int gradient_set(int step) const override { return step % (delay_ + 1); }

  /// Applies the gradients of the step `delay` + 1 steps ago.
  Ops before_step(int step) override {
    if (step > delay_) co_yield update(step - delay_ - 1);
    use_streams_of(gradient_set(step));
  }
  /// Starts the exchange of all remaining gradients of this step, and waits for none of them yet.
  Ops after_backward(int step) override {
    co_yield parts_.gradients.exchange_rest();
    in_flight_[gradient_set(step)] = parts_.gradients.exchanged();
  }
  Ops after_training() override {
    const int steps = parts_.step.plan.steps;
    for (int step = std::max(0, steps - delay_ - 1); step < steps; ++step) co_yield update(step);
  }

 private:
  int delay_;
  std::vector<std::vector<GradientExchange::ExchangedBucket>> in_flight_;  // indexed by gradient set

  void use_streams_of(int set) {
    const TrainingStreams& streams = parts_.step.streams;
    const int first = streams.updates() + (set - 1) * 2 * streams.channels();
    if (set == 0)
      parts_.collectives.use_for_gradients(TrainingStreams::gradients, TrainingStreams::more_channels);
    else
      parts_.collectives.use_for_gradients(static_cast<Stream>(first), static_cast<Stream>(first + 2));
  }

  /// Waits for the gradients of `step` and applies them.
  Ops update(int step) {
    const int set = gradient_set(step);
    const std::vector<GradientExchange::ExchangedBucket>& exchanged = in_flight_[set];
    if (parts_.step.plan.bucket_copy)
      co_yield parts_.gradients.give_back(exchanged);
    else if (!exchanged.empty())
      parts_.step.waits.add(exchanged.back().end);  // operations of a stream end in order
    co_yield parts_.parameters.run_optimizer(set);
  }
};

class DelayedPolicy : public UpdatePolicy {
 public:
  explicit DelayedPolicy(int delay) : delay_(delay) {}

  int gradient_sets() const override { return delay_ + 1; }
  std::vector<std::string> streams(int channels, int) const override {
    std::vector<std::string> names;
    for (int set = 1; set <= delay_; ++set)
      for (int channel = 0; channel < channels; ++channel)
        for (const char* half : {"send", "receive"})
          names.push_back(fmt::format("{} {} steps later, channel {}", half, set, channel));
    return names;
  }
  std::unique_ptr<RankUpdates> of_rank(const StepParts& parts) const override {
    return std::make_unique<RankDelayed>(parts, delay_);
  }

 private:
  int delay_;
};

class DelayedUpdates : public WholeReplicas {
 public:
  explicit DelayedUpdates(int delay) : WholeReplicas("delay"), delay_(delay) {}

  void lay_out(TrainingPlan& plan, const TrainingStates&) const override {
    plan.updates = delayed_updates(delay_);
    StaticMemory& memory = plan.stages.front().memory;
    const Bytes delayed = delay_ * memory.gradients;
    memory.parts.push_back({"gradients on their way", MemoryClass::gradients, delayed});
    memory.gradients += delayed;
  }
  std::string refuses_compression() const override {
    return "gradients of several steps are on their way at once, and compressors cannot distinguish these steps";
  }
  StepRhythm rhythm() const override {
    const int turns = delay_ + 1;
    return {turns, "delayed updates repeat every delay + 1 steps", 4 * turns, 4.0 * turns};
  }
  void add_figures(MechanismFigures& figures, const TrainingPlan& plan, int steps) const override {
    figures.replicas["delay"] = std::int64_t{delay_};
    figures.staleness[static_cast<std::uint32_t>(delay_)] =
        static_cast<std::uint64_t>(plan.ranks()) * static_cast<std::uint64_t>(steps);
  }
  Report report(const MechanismFigures&, const std::function<std::string(double)>&, const std::string&) const override {
    return {"updates", {fmt::format("updates {} late", counted_noun(delay_, "step"))}};
  }

 private:
  int delay_;
};

const RegisterMechanism register_delayed_updates{
    {"delayed-updates",
     "gradients of a step are applied some steps later",
     {"delay"},
     [](Fields& fields) { return fields.integer_within("delay", 0, kMostDelay, 0) > 0; },
     [](Fields& fields, const ClusterSpec&) -> std::unique_ptr<Mechanism> {
       return std::make_unique<DelayedUpdates>(fields.integer_within<int>(
           {"delay", "Number of steps by which the update with a step's gradients is delayed, for example 1.",
            "with mechanism delayed-updates"},
           1, kMostDelay));
     },
     {{"delay", "number of steps by which updates are delayed", std::int64_t{}}},
     "with delayed gradients"}};

}  // namespace

std::shared_ptr<const UpdatePolicy> delayed_updates(int delay) { return std::make_shared<DelayedPolicy>(delay); }

}  // namespace trainyard
