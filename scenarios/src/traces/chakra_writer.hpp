#pragma once
#include "scenarios/src/traces/chakra.hpp"

namespace trainyard {

/// How a file begins: its metadata.
std::string chakra_header();
/// Adds a node as the next message.
void append_chakra(std::string& file, const ChakraNode&);

}  // namespace trainyard
