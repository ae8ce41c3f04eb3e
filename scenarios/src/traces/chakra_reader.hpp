#pragma once
#include <filesystem>
#include <vector>

#include "scenarios/src/traces/chakra.hpp"

namespace trainyard {

/// The nodes of a file, in its order: a message of metadata, then one a node, each behind its length. Throws UserError naming the file and the byte for what is no Chakra trace.
std::vector<ChakraNode> read_chakra(const std::filesystem::path&);

}  // namespace trainyard
