#pragma once
#include <map>
#include <string>

namespace trainyard {

/// What the keys of a file of a node or a GPU mean, in a few words, by their path ("node.pcie.latency"); a test holds them to
/// those that the readers ask for.
const std::map<std::string, std::string>& hardware_words();

}  // namespace trainyard
