#include "strategies/step/pass_series.hpp"

#include <algorithm>

namespace trainyard {
namespace {

/// True if something waits for each exchange of a layer.
bool are_waited_for(const std::vector<Exchange>& exchanges) {
  return std::ranges::none_of(exchanges, [](const Exchange& e) { return e.hidden_share > 0; });
}

/// True if nothing but layers exchanges data on the lanes of layers.
bool layers_alone_use_lanes(const TrainingPlan& plan) {
  if (!plan.scatter_gather || !plan.lane(Lane::tensor).is_used()) return true;
  return std::ranges::all_of(plan.network->layers, &Layer::output_in_parts);
}

/// True if the host reads the result of a layer's kernel before it launches the next one.
bool host_waits_for_kernels(const TrainingPlan& plan) {
  const auto is_read = [](const KernelCall& call) { return call.host_reads; };
  return plan.kernel_after_routing != 0 && std::ranges::any_of(plan.network->layers, [&](const Layer& layer) {
           return std::ranges::any_of(layer.forward, is_read) || std::ranges::any_of(layer.backward, is_read);
         });
}

/// True if nothing but the passes of layers decides when their operations begin.
bool can_be_series(const TrainingPlan& plan) {
  return plan.series && plan.first_fused != 0 && !plan.values && plan.steps == 1 && plan.load_networks.empty() &&
         plan.zero != ZeroStage::parameters && !plan.offload.copies() && !plan.input.is_used() &&
         !host_waits_for_kernels(plan) && layers_alone_use_lanes(plan) &&
         std::ranges::all_of(plan.network->layers, [](const Layer& layer) {
           return are_waited_for(layer.forward_exchanges) && are_waited_for(layer.backward_exchanges);
         });
}

/// Builds the parts in the order in which the layers would yield them.
class SeriesMaker {
 public:
  SeriesMaker(const TrainingNames& words, const TrainingStreams& streams, std::size_t layers)
      : streams_(streams), layers_(layers) {
    mark_.name = words.wait_for_messages;
  }

  void add(const PassTable& table) {
    if (parts.empty()) parts.reserve(layers_ * (table.items.size() + 1));
    std::vector<std::size_t> places(table.places, 0);  // for each exchange: index of its part
    for (const PassItem& item : table.items) {
      for (const std::int16_t place : item.waits_for)
        if (place >= 0) pending_.push_back(places[place]);
      const bool is_exchange = item.kind == PassItem::Kind::exchange;
      take_waits(is_exchange ? 0 : kWaitsOfOne);
      if (is_exchange) {
        is_valid_ = is_valid_ && open_ == kNone;
        open_ = places[item.place] = parts.size();
      }
      push(item.op);
      if (!is_exchange) continue;
      parts.back().op.message.steps = 1;
      parts.back().op.stream = static_cast<Stream>(streams_.send(item.lane) + 1);
      parts.back().beside = true;
    }
    for (const std::int16_t place : table.left) pending_.push_back(places[place]);
  }
  /// Adds marks until at most `most` waits are left.
  void take_waits(std::size_t most) {
    while (pending_.size() > most) push(mark_);
  }
  std::size_t waits() const { return pending_.size(); }
  bool is_valid() const { return is_valid_; }

  std::vector<Series::Part> parts;

 private:
  static constexpr std::size_t kWaitsOfOne = 2, kNone = ~std::size_t{0};
  const TrainingStreams& streams_;
  const std::size_t layers_;
  Op mark_;
  std::vector<std::size_t> pending_;  // exchanges that the next parts wait for, two for each part
  std::size_t open_ = kNone;          // the exchange that nothing has waited for yet
  bool is_valid_ = true;

  void push(const Op& op) {
    Series::Part part{op};
    for (std::size_t taken = 0; taken < kWaitsOfOne && !pending_.empty(); ++taken) {
      if (pending_.back() == open_) {
        part.waits = true;
        open_ = kNone;
      }
      pending_.pop_back();
    }
    parts.push_back(part);
  }
};

}  // namespace

PassSeries::PassSeries(const TrainingPlan& plan, const PassTables& tables, const TrainingStreams& streams)
    : plan_(plan), tables_(tables), streams_(streams), any_(can_be_series(plan)) {}

const PassSeries::ChunkSeries& PassSeries::make(Pass pass, int stage, int chunk, bool first, bool sends) const {
  std::vector<int> layers = plan_.stages[stage].chunks[chunk];
  if (pass != Pass::forward) std::ranges::reverse(layers);
  SeriesMaker maker(tables_.words(), streams_, layers.size());
  for (const int layer : layers) maker.add(tables_.pass(pass, layer, first, false));
  if (sends) maker.take_waits(0);
  ChunkSeries& chunk_series = chunks_.emplace_back();
  chunk_series.number = chunks_.size() - 1;
  chunk_series.is_valid = maker.is_valid();
  chunk_series.pending_exchanges = static_cast<int>(maker.waits());
  chunk_series.series.parts = std::move(maker.parts);
  chunk_series.begins_with_exchange =
      !chunk_series.series.parts.empty() && chunk_series.series.parts.front().op.kind == Kind::join;
  return chunk_series;
}

}  // namespace trainyard
