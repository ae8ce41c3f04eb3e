#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "models/networks/network_entry.hpp"

namespace trainyard {

/// The layers of a network for one sample in fp32: what each gives, parameters, forward FLOPs, bytes kept for the backward
/// pass. A transformer's sample has as many tokens as there are positions.
std::string layers_text(const NetworkEntry&);
/// The same: an array of {layer, output, parameters, forward_FLOPs, kept_bytes}.
nlohmann::ordered_json layers_json(const NetworkEntry&);

/// "8.18 GFLOP".
std::string show_flops(Flops);

}  // namespace trainyard
