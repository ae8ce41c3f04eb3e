#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sim/op.hpp"

namespace trainyard {

/// What a node of a Chakra execution trace is, numbered as MLCommons publishes it (mlcommons/chakra,
/// schema/protobuf/et_def.proto, NodeType).
enum class ChakraType : std::uint8_t { invalid, metadata, load, store, compute, send, recv, collective };
constexpr int kChakraTypes = 8;

/// A node of one rank's trace. Numbers of attributes that it lacks keep the values below.
struct ChakraNode {
  std::uint64_t id = 0;
  std::string name;
  ChakraType type = ChakraType::invalid;
  std::vector<std::uint64_t> deps;  ///< ids: control and data
  std::optional<double> duration;   ///< s; of a trace that says 0 us: none
  // Attributes of Chakra and of its converters:
  double on_host = 0;                    ///< is_cpu_op: 1, work of the CPU
  double flops = 0;                      ///< num_ops
  double tensor = 0;                     ///< tensor_size, bytes
  double collective = -1;                ///< comm_type, numbered as CollectiveCommType
  double bytes = 0;                      ///< comm_size: of a collective what each rank puts in
  double source = -1, destination = -1;  ///< comm_src, comm_dst: ranks
  double tag = 0;                        ///< comm_tag
  double stream = -1, thread = -1;       ///< stream, tid
  std::string group;                     ///< pg_name
  std::vector<bool> dims;                ///< involved_dim
  double root = -1;                      ///< root_rank: a rank
  std::string values;                    ///< of metadata: inputs.values, where PyTorch's converter keeps process groups
  // Attributes of our own, of collectives that software slows and of messages (see Message):
  double share = 1;     ///< of the whole collective, where the node is a part of it
  double slowdown = 1;  ///< times that of the library's model
  double launch = 0;    ///< s, before the first byte
  double latency = 0;   ///< s, besides the route's
  double rate_cap = 0;  ///< bytes/s; 0: none
  double steps = 1, path = 0;
  /// Mode: as ASTRA-sim has them, messages move when they are sent, whether or not the receive has begun.
  double mode = static_cast<double>(Mode::put);

  std::size_t offset = 0;  ///< of its message in the file
};

/// The nodes of a file, in its order: a message of metadata, then one a node, each behind its length. Throws UserError
/// naming the file and the byte for what is no Chakra trace.
std::vector<ChakraNode> read_chakra(const std::filesystem::path&);
/// How a file begins: its metadata.
std::string chakra_header();
/// Adds a node as the next message.
void append_chakra(std::string& file, const ChakraNode&);

}  // namespace trainyard
