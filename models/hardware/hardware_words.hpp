#pragma once
#include <map>
#include <string>

namespace trainyard {

/// Short descriptions of the keys in a file of a node or a GPU, by the path of the key ("node.pcie.latency"). A test
/// checks that these are the keys that the readers read.
const std::map<std::string, std::string>& hardware_words();

}  // namespace trainyard
