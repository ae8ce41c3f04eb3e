#pragma once
#include <string>

#include "models/networks/network_entry.hpp"
#include "models/reading/catalog.hpp"
#include "models/reading/figure.hpp"
#include "sim/units.hpp"

namespace trainyard {

/// The tensors of a network as its published weights have them: each matrix of an expert is one, and queries, keys and
/// values are three.
struct PublishedTensors {
  double count = 0;
  double layers = 0, experts = 0;  ///< layers of the network, and experts of a layer
};

/// Experts whose products have biases (gpt-oss) are published as one tensor of a layer.
PublishedTensors published_tensors(const NetworkEntry&);

/// The transfer of new weights from the training to the engines: an entry of models/catalog/weight-transfers. Its rate
/// is a figure of the software: measured stacks differ by a factor of 20 on the same network. A slow network bounds it.
struct WeightTransfer {
  std::string name;
  Seconds start;
  /// Rate of the whole policy: every GPU receives each tensor before it keeps its share. 0: tensors and links decide.
  BytesPerSecond rate;
  /// Time of the host for each published tensor, and what it takes longer for each layer of the network and for each
  /// expert of a layer: an engine that loads one tensor a call searches all parameters in each. Links move the bytes of
  /// earlier tensors meanwhile.
  Seconds tensor, tensor_layer, tensor_expert;
  Seconds per_doubling;  ///< added for each doubling of the receiving GPUs above `doubled_from`
  int doubled_from = 1;
  /// The library sends weights in the number format of the engines. Else it sends all in bf16, and engines narrow them.
  bool quantized = false;
  /// The library hands weights over among the workers of each GPU, so that engines on other GPUs get none.
  bool within_gpus = false;
  Sources sources;

  /// `network`: time that the network takes at least for these bytes. The slower one of library and network counts.
  Seconds time(Bytes policy, const PublishedTensors&, int gpus, Seconds network = {}) const;
};

/// Reads and checks an entry. Throws UserError with the place.
WeightTransfer read_weight_transfer(const Node& entry);

/// A process of the software through which the padded samples of a step go to the ranks that train, and results come
/// back.
struct LoopController {
  BytesPerSecond rate;  ///< 0: samples go another way, and take no time of their own
  Bytes pass_token,
      update_token;    ///< sent for each token of padded samples: before a forward pass, before the training
  Bytes result_token;  ///< received for each of them after a forward pass, from every rank that has them

  Bytes answer_token;  ///< received for each of them from engines that do not wait for the training

  /// Returns the time that so many tokens take. `ranks`: ranks that have the same samples.
  Seconds pass_time(double tokens, int ranks) const;
  Seconds update_time(double tokens) const;
  Seconds answer_time(double tokens) const;
};

/// The software of a post-training loop: an entry of models/catalog/rl-stacks.
struct RlStack {
  std::string name;
  Seconds loop_sample;   ///< time of a step for each sample besides its parts: rewards, preparation of data, workers
  Seconds reload;        ///< time of a colocated step besides the copies of weights and optimizer states
  double pack_fill = 1;  ///< share of a pack of samples that is filled
  /// Micro-batches are not packs of plan.seq_length tokens. Each rank keeps its samples for a whole step and computes as
  /// many at once as have plan.micro_batch_size · plan.seq_length tokens; an optimizer step lasts as long as its fullest
  /// rank.
  bool dynamic_batches = false;
  LoopController controller;
  std::string colocated_transfer, apart_transfer;  ///< weight transfers, by placement
  Sources sources;
};

/// Reads and checks an entry. Throws UserError with the place.
RlStack read_rl_stack(const Node& entry);

}  // namespace trainyard
