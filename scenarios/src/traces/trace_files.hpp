#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
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

struct ChakraNode;

/// A group of ranks that exchange data. Nodes of a trace name it.
struct Communicator {
  std::vector<int> members;
};

/// The communicators of a trace.
class CommGroups {
 public:
  /// `dims`: sizes of the dimensions in which a trace numbers its ranks, the first one fastest, as ASTRA-sim's networks
  /// list them (npus_count); empty: unknown. Throws UserError if their product is not `ranks`.
  CommGroups(int ranks, std::vector<int> dims);

  /// Reads ASTRA-sim's file of communicators: {"1": [0, 1, 2, 3], "2": [4, 5, 6, 7]}. Throws UserError with the place.
  void read(const std::filesystem::path&);
  /// Adds a group. Throws UserError at `where` if a rank does not exist, if a rank is in the group twice, or if the
  /// name already has other ranks.
  void add(const std::string& name, std::vector<int> members, const std::string& where);
  /// Reads the process groups that a metadata node of PyTorch's converter lists. Ignores other metadata.
  void read(const ChakraNode& metadata, const std::string& file);

  /// Returns the number of the communicator of a rank's collective. A node without a name (or with the name "0", if
  /// there is no such group) means all ranks. Throws UserError if the group is unknown, or if the rank is not in it.
  int communicator_of(int rank, const ChakraNode&, const std::string& file);
  const std::vector<Communicator>& communicators() const { return communicators_; }

 private:
  int ranks_;
  std::vector<int> dims_;
  std::map<std::string, std::vector<int>> named_;
  std::vector<Communicator> communicators_;
  std::map<std::pair<std::string, std::vector<int>>, int> numbers_;

  std::vector<int> along_dims(int rank, const ChakraNode&, const std::string& where) const;
  int number(const std::string& name, std::vector<int> members);
};

}  // namespace trainyard
