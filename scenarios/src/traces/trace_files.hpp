#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "scenarios/src/traces/chakra.hpp"
#include "sim/op.hpp"

namespace trainyard {

/// A node as it is replayed: what comes before it, on which streams.
struct ReplayStep {
  const ChakraNode* node = nullptr;
  std::vector<std::uint32_t> deps;   ///< positions among the rank's steps
  Stream stream = 0, more = 0;       ///< `more`: further ones of a collective that sends messages, from there on
  std::uint16_t call = 0, slot = 0;  ///< of a collective; of a message, or of the way to the host's memory
  std::uint32_t instance = 0;        ///< of its communicator's collectives
};

/// PREFIX.RANK.et.
std::string trace_file(const std::filesystem::path& prefix, std::size_t rank);
/// For errors.
std::string place_in_trace(const std::string& file, const ChakraNode&);
/// The files of all ranks. Throws UserError for missing ones, and where there are more than `gpus`.
std::vector<std::vector<ChakraNode>> read_trace(const std::filesystem::path& prefix, int gpus);
/// Each node after all that it depends on; of those that may come next, the first in the file. Throws UserError for unknown
/// ids, ids of two nodes, and circles.
std::vector<ReplayStep> in_order(const std::vector<ChakraNode>&, const std::string& file);

}  // namespace trainyard
