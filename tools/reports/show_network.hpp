#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "models/networks/network_entry.hpp"

namespace trainyard {

/// A table of a network's layers for one sample in fp32: shape of the output, parameters, forward FLOPs, bytes kept for
/// the backward pass. A transformer's sample has as many tokens as the network has positions.
std::string layers_text(const NetworkEntry&);
/// Returns the table of layers as an array of {layer, output, parameters, forward_FLOPs, kept_bytes}.
nlohmann::ordered_json layers_json(const NetworkEntry&);

/// FLOPs with a prefix: "8.18 GFLOP".
std::string show_flops(Flops);

}  // namespace trainyard
