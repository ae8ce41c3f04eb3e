#include "scenarios/src/search/pass_floors.hpp"

#include <algorithm>
#include <limits>

#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {
namespace {

constexpr std::array<Pass, kPasses> kAllPasses{Pass::forward, Pass::backward, Pass::backward_input,
                                               Pass::backward_weights};

/// Computes the lower bounds of a plan's passes.
class PassWalk {
 public:
  PassWalk(const Scenario& s, const TrainingPlan& plan, const PassTables& tables)
      : types_(s.cluster.types()), stack_(s.software), plan_(plan), tables_(tables) {}

  double seconds(Pass pass, int layer, bool first) {
    const PassTable& table = tables_.pass(pass, layer, first, false);
    double kernels = 0;
    std::array<double, kLanes> lanes{};
    std::vector<double> ends(table.places, 0);
    for (const PassItem& item : table.items) {
      for (const std::int16_t place : item.waits_for)
        if (place >= 0) kernels = std::max(kernels, ends[static_cast<std::size_t>(place)]);
      if (item.kind == PassItem::Kind::kernels) {
        kernels += price(item.op.work);
        continue;
      }
      double& lane = lanes[static_cast<std::size_t>(item.lane)];
      lane = std::max(lane, kernels) + exchange(item);
      ends[static_cast<std::size_t>(item.place)] = lane;
    }
    for (const std::int16_t place : table.left) kernels = std::max(kernels, ends[static_cast<std::size_t>(place)]);
    return kernels;
  }

 private:
  std::vector<const NodeType*> types_;
  const SoftwareStack& stack_;
  const TrainingPlan& plan_;
  const PassTables& tables_;
  std::vector<double> prices_;  // price of each run of kernels; negative: not priced yet

  double price(const Work& work) {
    if (!is_fused(work.kernel)) return fastest(work);
    const std::size_t run = work.kernel - kFirstFused;
    if (prices_.size() <= run) prices_.resize(run + 1, -1);
    double& time = prices_[run];
    if (time >= 0) return time;
    time = 0;
    for (const Work& kernel_work : tables_.fused().runs().at(run)) time += fastest(kernel_work);
    return time;
  }
  double fastest(const Work& work) const {
    double least = std::numeric_limits<double>::infinity();
    for (const NodeType* type : types_) least = std::min(least, rank_time(*type, stack_, work).value);
    return least;
  }
  double exchange(const PassItem& item) const {
    if (plan_.pipeline.pairs_passes) return 0;
    const LaneGroups& lane = plan_.lane(item.lane);
    if (!lane.has_one_kind || lane.groups.front().settings.fidelity != Fidelity::modelled) return 0;
    const Message& m = item.op.message;
    return m.extra_latency.seconds().value + (m.rate_cap.value > 0 ? (m.bytes / m.rate_cap).value : 0);
  }
};

bool same_work(const Work& a, const Work& b) {
  return a.flops == b.flops && a.bytes == b.bytes && a.kernel == b.kernel && a.precision == b.precision &&
         a.launches == b.launches;
}
bool same_exchanges(const std::vector<Exchange>& a, const std::vector<Exchange>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Exchange& x, const Exchange& y) {
    return x.axis == y.axis && x.kind == y.kind && x.bytes == y.bytes && x.kernels_before == y.kernels_before &&
           x.needed_by == y.needed_by && x.for_weights == y.for_weights && x.hidden_share == y.hidden_share;
  });
}

/// Returns true if the passes of both layers take equally long.
bool have_equal_passes(const Layer& a, const Layer& b) {
  const auto same_kernel = [](const KernelCall& x, const KernelCall& y) { return same_work(x.work, y.work); };
  const auto same_backward = [](const BackwardKernel& x, const BackwardKernel& y) {
    return same_work(x.work, y.work) && x.gradients_ready == y.gradients_ready && x.for_weights == y.for_weights;
  };
  const auto same_gradient = [](const ParameterTensor& x, const ParameterTensor& y) {
    return x.elements == y.elements && x.accumulated == y.accumulated;
  };
  return std::equal(a.forward.begin(), a.forward.end(), b.forward.begin(), b.forward.end(), same_kernel) &&
         std::equal(a.backward.begin(), a.backward.end(), b.backward.begin(), b.backward.end(), same_backward) &&
         std::equal(a.parameters.begin(), a.parameters.end(), b.parameters.begin(), b.parameters.end(),
                    same_gradient) &&
         same_exchanges(a.forward_exchanges, b.forward_exchanges) &&
         same_exchanges(a.backward_exchanges, b.backward_exchanges);
}

}  // namespace

PassFloors::PassFloors(const Scenario& s, const TrainingPlan& plan)
    : times_(plan.network->layers.size()), hosts_(plan.network->layers.size()) {
  TrainingPlan fused = plan;
  fused.first_fused = kFirstFused;  // the price is the same, with fewer names
  fused.kernel_after_routing = 0;   // a wait makes no pass shorter
  Names names;
  const PassTables tables(fused, names);
  PassWalk walk(s, fused, tables);
  const std::vector<Layer>& layers = plan.network->layers;
  double launch_time = 0;  // the fastest host issues a kernel in this time
  if (s.software.host.runs_ahead && !s.software.host.cuda_graphs) {
    launch_time = std::numeric_limits<double>::infinity();
    for (const NodeType* type : s.cluster.types())
      launch_time = std::min(launch_time, dispatch_time(*type, s.software).value);
  }
  for (std::size_t layer = 0; layer < times_.size(); ++layer) {
    const auto weight_kernels = std::count_if(layers[layer].backward.begin(), layers[layer].backward.end(),
                                              [](const BackwardKernel& kernel) { return kernel.for_weights; });
    const auto forward = static_cast<double>(layers[layer].forward.size()),
               backward = static_cast<double>(layers[layer].backward.size()),
               weights = static_cast<double>(weight_kernels);
    hosts_[layer] = {forward * launch_time, backward * launch_time, (backward - weights) * launch_time,
                     weights * launch_time};
  }
  for (std::size_t layer = 0; layer < times_.size(); ++layer) {
    if (layer > 0 && have_equal_passes(layers[layer], layers[layer - 1])) {
      times_[layer] = times_[layer - 1];
      continue;
    }
    for (const Pass pass : kAllPasses)
      for (const bool first : {true, false}) {
        const std::size_t index = 2 * static_cast<std::size_t>(pass);
        const bool adds_gradients = pass == Pass::backward || pass == Pass::backward_weights;
        times_[layer][index + (first ? 0 : 1)] =
            first || adds_gradients ? walk.seconds(pass, static_cast<int>(layer), first) : times_[layer][index];
      }
  }
}

double PassFloors::micro_batch() const {
  double sum = 0;
  for (std::size_t layer = 0; layer < times_.size(); ++layer)
    sum +=
        seconds(Pass::forward, static_cast<int>(layer), true) + seconds(Pass::backward, static_cast<int>(layer), true);
  return sum;
}

}  // namespace trainyard
