#include <fmt/format.h>

#include <charconv>

#include "models/reading/document.hpp"
#include "scenarios/src/reading/plan_choice.hpp"
#include "strategies/mechanisms/mechanism.hpp"

namespace trainyard {
namespace {

void read_devices(OffloadChoice& offload, Fields& data_parallel) {
  const std::vector<std::string> devices{"none", "cpu", "nvme"};
  const Node* node = data_parallel.child({"offload",
                                          "Device that keeps optimizer states outside the GPU, for example cpu, or "
                                          "{optimizer: nvme, parameters: cpu}. Default: none."});
  if (!node) return;
  offload.place = node->place;
  if (node->kind == Node::Kind::scalar) {
    offload.optimizer = data_parallel.one_of<OffloadDevice>("offload", devices);
    return;
  }
  const Node map = long_form(node, "optimizer", node->place);
  Fields fields(map, "plan.data_parallel.offload");
  offload.optimizer = fields.one_of(
      {"optimizer",
       "Where optimizer states are kept: none (on the device), cpu (host memory) or nvme (drives of the node)."},
      devices, OffloadDevice::none);
  offload.parameters = fields.one_of(
      {"parameters",
       "Where parameters are kept between their uses, at zero_stage 3: none (on the device), cpu or nvme."},
      devices, OffloadDevice::none);
  fields.finish();
}

}  // namespace

void read_activation_offload(PlanChoice& choice, Fields& plan) {
  OffloadChoice& offload = choice.offload;
  const Node map = long_form(plan.child({"activation_offload",
                                         "Blocks whose activations lie in host memory until their backward pass, for "
                                         "example all, or {blocks: 12, ahead: 1}. Default: none."}),
                             "blocks", choice.place);
  Fields fields(map, "plan.activation_offload");
  offload.activations_place = fields.place_of("blocks");
  const std::string blocks =
      fields.text({"blocks",
                   "Number of blocks at the beginning of each virtual stage whose activations lie in host memory "
                   "between their forward and backward pass: none, all, or a number, for example 12."},
                  "none");
  const auto [end, error] = std::from_chars(blocks.data(), blocks.data() + blocks.size(), offload.activation_blocks);
  const bool is_number = error == std::errc{} && end == blocks.data() + blocks.size() && offload.activation_blocks >= 0;
  if (blocks == "all" || blocks == "none")
    offload.activation_blocks = blocks == "all" ? OffloadChoice::kAllBlocks : 0;
  else if (!is_number)
    fail(offload.activations_place,
         fmt::format("plan.activation_offload.blocks: none, all or a number of blocks expected, got \"{}\"", blocks));
  offload.activations_ahead = fields.integer<int>({"ahead",
                                                   "Number of blocks whose activations are copied back ahead, during "
                                                   "the backward pass of later blocks, for example 2."},
                                                  0, 1);
  if (fields.has("ahead") && !fields.has("blocks"))
    fields.refuse("ahead", "plan.activation_offload.blocks is missing; all, or a number of blocks, expected");
  fields.finish();
}

void read_offload(PlanChoice& choice, Fields& data_parallel, const ClusterSpec& cluster, const SoftwareStack& stack) {
  OffloadChoice& offload = choice.offload;
  read_devices(offload, data_parallel);
  const auto refuse = [&offload](const char* rule) {
    fail(offload.place, fmt::format("plan.data_parallel.offload: {}", rule));
  };
  if (offload.parameters != OffloadDevice::none && !offload.is_used())
    refuse(
        "parameters without the optimizer: parameters are updated where they lie; expected optimizer: cpu or nvme too");
  if (!offload.is_used()) return;
  const int replicas = choice.mesh.data * choice.mesh.context * choice.mesh.copies;
  if (choice.zero == ZeroStage::none && replicas > 1)
    refuse("with several replicas each one's host updates a share: zero_stage 1, 2 or 3 expected");
  if (offload.optimizer == OffloadDevice::nvme && choice.zero != ZeroStage::parameters)
    refuse("optimizer: nvme is at zero_stage 3 only (cpu: at 1, 2 and 3)");
  if (offload.parameters != OffloadDevice::none && choice.zero != ZeroStage::parameters)
    refuse("parameters: at zero_stage 3 only, which gathers each layer's parameters before use");
  if (!choice.mechanism->ranks_alike()) refuse("with mechanism all-reduce only");
  if (stack.host_buckets || stack.cycle_time.value > 0)
    refuse("not with a stack whose coordinator exchanges gradients");
  if (choice.sync_last)
    data_parallel.refuse("gradient_sync",
                         "last with offload, which moves gradients off the GPU after each micro-batch; each expected");
  if (choice.zero == ZeroStage::gradients && !data_parallel.boolean("overlap", true))
    data_parallel.refuse("overlap",
                         "false with offload at zero_stage 2, where gradients leave the GPU bucket by bucket while the "
                         "backward pass goes on; true expected, or zero_stage 1");
  for (int rank = 0; rank < choice.mesh.ranks() && offload.drives(); ++rank)
    if (const NodeType& type = cluster.type_of_gpu(rank); type.nvme.count == 0)
      fail(offload.place, fmt::format("plan.data_parallel.offload: nvme, but node {} has no drive; give the cluster's "
                                      "node some, as in nvme: {{count: 8, type: samsung-pm1733}}",
                                      type.name));
}

}  // namespace trainyard
