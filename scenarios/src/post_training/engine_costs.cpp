#include "scenarios/src/post_training/engine_costs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "models/generation/speculation.hpp"
#include "models/reading/nearest.hpp"
#include "scenarios/src/post_training/weight_transfer.hpp"
#include "strategies/collectives/library_model.hpp"

namespace trainyard {
namespace {

/// Returns the times of a collective of the library among the GPUs of an engine.
DecodeCosts::ExchangeTime library_exchange(const ClusterSpec& cluster, Operation operation, int gpus) {
  const NodeSpread spread{gpus, std::max(1, gpus / cluster.node.gpus), std::min(gpus, cluster.node.gpus)};
  return [spread, operation, model_of_library = library_model(cluster).model](Bytes bytes) {
    const ModelledCost cost = model_of_library->cost(operation, bytes, spread);
    return cost.latency + (cost.rate.value > 0 ? cost.wire / cost.rate : Seconds{});
  };
}

/// Refuses engines that spread experts which the model does not have, or which their GPUs do not divide.
void require_experts(const PostTrainingChoice& choice, const NetworkEntry& model) {
  const TransformerConfig* config = model.transformer();
  const std::int64_t experts = config ? config->experts.count : 0;
  if (experts == 0)
    fail(choice.expert_place,
         fmt::format("{}.expert_parallel: {} has no experts; expected 1", choice.engine_key, model.name));
  if (experts % choice.layout.expert != 0)
    fail(choice.expert_place,
         fmt::format("{}.expert_parallel: {} GPUs do not divide the {} experts of {}; nearest: {}", choice.engine_key,
                     choice.layout.expert, experts, model.name, nearest_divisors(experts, choice.layout.expert)));
}

/// Returns the bytes of a draft's weights on one GPU. A further layer shares embedding and head with the model.
Bytes draft_weights(const PostTrainingChoice& choice, const NetworkEntry& model,
                    const std::function<DecodeCosts(const NetworkEntry&)>& costs_of) {
  if (choice.speculation.draft) return costs_of(*choice.speculation.draft).weights();
  const TransformerConfig* config = model.transformer();
  if (config && !config->pattern.empty())
    fail(choice.speculation.place, fmt::format("{}.speculation.draft: mtp is not modelled for {}, whose layers are of "
                                               "several kinds; expected a network, such as llama-3.2-1b",
                                               choice.engine_key, model.name));
  NetworkEntry two = one_layer_draft(model);
  if (TransformerConfig* layers = std::get_if<TransformerConfig>(&two.shape)) layers->num_hidden_layers = 2;
  return costs_of(two).weights() - costs_of(one_layer_draft(model)).weights();
}

EngineCosts priced_engine(const PostTrainingChoice& choice, const NetworkEntry& model) {
  const ClusterSpec& cluster = choice.generators;
  const Gpu& gpu = cluster.node.gpu;
  const TransformerConfig* config = model.transformer();
  if (choice.layout.weights == EngineFormat::mxfp4 && config && config->experts.count == 0)
    fail(choice.precision_place,
         fmt::format("{}.precision: mxfp4 narrows experts alone, and {} has none; nearest: {}", choice.engine_key,
                     model.name, gpu.peak[static_cast<std::size_t>(Precision::fp8)].value > 0 ? "fp8" : "bf16"));
  const int tensor = choice.layout.tensor;
  if (choice.layout.expert > 1) require_experts(choice, model);
  DecodeCosts::ExchangeTime all_reduce = [](Bytes) { return Seconds{}; }, all_to_all;
  if (choice.layout.data > 1) all_to_all = library_exchange(cluster, Operation::all_to_all, choice.layout.gpus());
  if (tensor > 1 && tensor <= cluster.node.gpus && gpu.nvlink.value > 0) {
    const EngineKernels kernels = choice.engine.kernels_on(gpu);
    const DecodeCosts::ExchangeTime large = library_exchange(cluster, Operation::all_reduce, tensor);
    all_reduce = [=](Bytes bytes) {
      if (bytes > kernels.all_reduce_most) return large(bytes);
      return kernels.all_reduce_start + kernels.all_reduce_per_gpu * tensor +
             2.0 * (tensor - 1) / tensor * bytes / (kernels.all_reduce_link_share * gpu.nvlink);
    };
  } else if (tensor > 1) {
    all_reduce = library_exchange(cluster, Operation::all_reduce, tensor);
  }
  const auto costs_of = [&](const NetworkEntry& network) {
    return DecodeCosts(network, choice.engine, gpu, choice.layout, all_reduce, all_to_all);
  };
  const DecodeCosts plain = costs_of(model);
  EngineCosts costs{std::make_shared<DecodeCosts>(plain), plain.weights(), plain.policy(),
                    sends_narrow_weights(choice) ? plain.narrow_policy() : plain.policy()};
  if (choice.speculation.tokens > 0) {
    const Speculation speculation{choice.speculation.tokens, choice.speculation.acceptance,
                                  draft_weights(choice, model, costs_of)};
    const NetworkEntry draft = choice.speculation.draft ? *choice.speculation.draft : one_layer_draft(model);
    costs.prices = std::make_shared<SpeculativeCosts>(plain, costs_of(draft), speculation);
    costs.weights += speculation.draft_weights;
  }
  return costs;
}

/// Returns the bytes of the longest answer on a GPU of an engine. An answer lies on one copy of an engine, and the prices
/// state the mean over all of them.
Bytes longest_answer(const PostTrainingChoice& choice, const EngineCosts& costs) {
  const double tokens =
      choice.most_tokens_read() + static_cast<double>(choice.lengths.most + choice.engine.reserved_tokens);
  return (costs.prices->cache(tokens) + costs.prices->states()) * choice.layout.data;
}

bool has_room(const PostTrainingChoice& choice, const NetworkEntry& model) {
  try {
    const EngineCosts costs = priced_engine(choice, model);
    return costs.prices->room() >= longest_answer(choice, costs);
  } catch (const UserError&) {  // the layout does not divide the model
    return false;
  }
}

/// Returns the nearest larger engine and the nearest larger share of memory that have room, as advice.
std::string nearest_engine(const PostTrainingChoice& choice, const NetworkEntry& model) {
  const bool has_copies = choice.layout.data > 1;
  const char* const degree = has_copies ? "expert_parallel" : "tensor_parallel";
  std::vector<std::string> words;
  const int gpus = choice.generators.gpus();
  for (int larger = choice.layout.gpus() + 1; larger <= gpus && words.empty(); ++larger) {
    PostTrainingChoice other = choice;
    if (has_copies && larger % choice.layout.tensor != 0) continue;
    if (has_copies) {
      other.layout.expert = larger;
      other.layout.data = larger / choice.layout.tensor;
    } else {
      other.layout.tensor = larger;
      if (larger % other.layout.expert != 0) continue;
    }
    if (choice.holds_engines(larger) && choice.concurrency % (gpus / larger) == 0 && has_room(other, model))
      words.push_back(fmt::format("{}: {}", degree, larger));
  }
  const auto share_has_room = [&](int hundredths) {
    PostTrainingChoice other = choice;
    other.layout.memory_share = hundredths / 100.0;
    return has_room(other, model);
  };
  // More memory has more room: bisection finds the smallest share.
  int least = static_cast<int>(choice.layout.memory_share * 100) + 1;
  if (least <= 100 && share_has_room(100)) {
    for (int most = 100; least < most;) {
      const int middle = (least + most) / 2;
      share_has_room(middle) ? most = middle : least = middle + 1;
    }
    words.push_back(fmt::format("memory_share: {:g}", least / 100.0));
  }
  if (words.empty())
    return fmt::format(
        "no {} on {} GPUs and no memory_share has the room; expected shorter answers, a smaller model or more nodes",
        degree, gpus);
  return fmt::format("nearest: {}", fmt::join(words, " or "));
}

}  // namespace

Bytes stored_parameter(const PostTrainingChoice& choice, const NetworkEntry& model) {
  const auto no_time = [](Bytes) { return Seconds{}; };
  const DecodeCosts costs(model, choice.engine, choice.generators.node.gpu, choice.layout, no_time, no_time);
  return element_size(Precision::bf16) * (costs.narrow_policy() / costs.policy());
}

EngineCosts generation_costs(const PostTrainingChoice& choice, const NetworkEntry& model) {
  EngineCosts costs = priced_engine(choice, model);
  const Bytes room = costs.prices->room(), longest = longest_answer(choice, costs);
  if (room >= longest) return costs;
  fail(choice.layout.data > 1 ? choice.expert_place : choice.tensor_place,
       fmt::format("{}: weights of {} and other memory of {} leave {} of an engine's {} a GPU for the cache, but the "
                   "longest answer needs {}; {}",
                   choice.engine_key, show(costs.weights), show(choice.engine.reserved_memory),
                   show(Bytes{std::max(0.0, room.value)}), show(costs.weights + choice.engine.reserved_memory + room),
                   show(longest), nearest_engine(choice, model)));
}

}  // namespace trainyard
