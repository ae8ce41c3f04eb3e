#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "scenarios/src/traces/chakra.hpp"
#include "sim/op.hpp"

namespace trainyard {

/// A node to be replayed, with its dependencies and streams.
struct ReplayStep {
  const ChakraNode* node = nullptr;
  std::vector<std::uint32_t> deps;  ///< positions among the rank's steps
  Stream stream = 0, more = 0;      ///< `more`: first of the further streams of a collective that sends messages
  std::uint16_t call = 0;           ///< for a collective: index of the rank's call
  std::uint16_t slot = 0;           ///< slot of a message's peer, or of the route to the host's memory
  std::uint32_t instance = 0;       ///< number among its communicator's collectives
};

/// Returns PREFIX.RANK.et.
std::string trace_file(const std::filesystem::path& prefix, std::size_t rank);
/// Describes the place of a node in a trace, for error messages.
std::string place_in_trace(const std::string& file, const ChakraNode&);
/// Reads the files of all ranks. Throws UserError if a file is missing, or if there are more than `gpus` files.
std::vector<std::vector<ChakraNode>> read_trace(const std::filesystem::path& prefix, int gpus);
/// Orders nodes so that each one follows its dependencies. If several may come next, the first in the file does. Throws
/// UserError for unknown ids, duplicate ids, and cycles.
std::vector<ReplayStep> in_order(const std::vector<ChakraNode>&, const std::string& file);

}  // namespace trainyard
