#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sim/op.hpp"
#include "strategies/collectives/collective.hpp"

namespace trainyard {

/// Type of a node of a Chakra execution trace, numbered as MLCommons publishes it (mlcommons/chakra,
/// schema/protobuf/et_def.proto, NodeType).
enum class ChakraType : std::uint8_t { invalid, metadata, load, store, compute, send, recv, collective };
constexpr int kChakraTypes = 8;

/// A node of one rank's trace. Attributes that it lacks keep the defaults below.
struct ChakraNode {
  std::uint64_t id = 0;
  std::string name;
  ChakraType type = ChakraType::invalid;
  std::vector<std::uint64_t> deps;  ///< ids of its control and data dependencies
  std::optional<double> duration;   ///< s; no value: the trace says 0 us
  // Attributes of Chakra and of its converters:
  double on_host = 0;                    ///< is_cpu_op: 1 for work of the CPU
  double flops = 0;                      ///< num_ops
  double tensor = 0;                     ///< tensor_size, bytes
  double collective = -1;                ///< comm_type, numbered as CollectiveCommType
  double bytes = 0;                      ///< comm_size; of a collective: each rank's input
  double source = -1, destination = -1;  ///< comm_src, comm_dst: ranks
  double tag = 0;                        ///< comm_tag
  double stream = -1, thread = -1;       ///< stream, tid
  std::string group;                     ///< pg_name
  std::vector<bool> dims;                ///< involved_dim
  double root = -1;                      ///< root_rank: a rank
  std::string values;                    ///< inputs.values of metadata, where PyTorch's converter stores process groups
  // Trainyard's own attributes, of collectives that software slows and of messages (see Message):
  double share = 1;     ///< share of the whole collective, if the node is a part of one
  double slowdown = 1;  ///< factor on the time of the library's model
  double launch = 0;    ///< time before the first byte, s
  double latency = 0;   ///< latency in addition to the route's, s
  double rate_cap = 0;  ///< bytes/s; 0: none
  double steps = 1, path = 0;
  /// Mode. The default is ASTRA-sim's: a message moves when it is sent, whether or not the receive has begun.
  double mode = static_cast<double>(Mode::put);

  std::size_t offset = 0;  ///< offset of the node's message in the file, bytes
};

/// Reads the nodes of a file in its order. The file has a message of metadata and one message per node, each after its
/// length. Throws UserError with the file and the byte if it is no Chakra trace.
std::vector<ChakraNode> read_chakra(const std::filesystem::path&);
/// Returns the beginning of a file: its metadata.
std::string chakra_header();
/// Appends a node as the next message.
void append_chakra(std::string& file, const ChakraNode&);

/// Returns the operation of a collective node. Throws UserError if it is unknown.
Operation operation_of(const ChakraNode&, const std::string& where);
/// Returns Chakra's number of an operation; -1: it has none.
int chakra_number(Operation);

}  // namespace trainyard
