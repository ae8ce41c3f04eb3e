#pragma once
#include <array>
#include <cstdint>

#include "scenarios/src/traces/chakra.hpp"

// Numbers of fields and names of attributes: mlcommons/chakra, schema/protobuf/et_def.proto (package ChakraProtoMsg),
// src/converter/ and src/generator/.
namespace trainyard {

/// Field numbers of AttributeProto's values.
enum AttributeField : std::uint32_t {
  kAttributeName = 1,
  kAttributeDouble = 3,
  kAttributeFloat = 5,
  kAttributeInt32 = 7,
  kAttributeInt64 = 9,
  kAttributeUint32 = 11,
  kAttributeUint64 = 13,
  kAttributeSint32 = 15,
  kAttributeSint64 = 17,
  kAttributeFixed32 = 19,
  kAttributeFixed64 = 21,
  kAttributeSfixed32 = 23,
  kAttributeSfixed64 = 25,
  kAttributeBool = 27,
  kAttributeBoolList = 28,
  kAttributeString = 29,
};
enum NodeField : std::uint32_t {
  kNodeId = 1,
  kNodeName = 2,
  kNodeType = 3,
  kNodeControlDeps = 4,
  kNodeDataDeps = 5,
  kNodeDuration = 7,
  kNodeInputs = 8,
  kNodeAttribute = 10,
};

struct NumberAttribute {
  const char* name;
  AttributeField written_as;
  double ChakraNode::*member;
};
constexpr std::array<NumberAttribute, 20> kNumbers{{
    {"is_cpu_op", kAttributeBool, &ChakraNode::on_host},
    {"num_ops", kAttributeInt64, &ChakraNode::flops},
    {"tensor_size", kAttributeUint64, &ChakraNode::tensor},
    {"comm_type", kAttributeInt64, &ChakraNode::collective},
    {"comm_size", kAttributeInt64, &ChakraNode::bytes},
    {"comm_src", kAttributeInt32, &ChakraNode::source},
    {"comm_dst", kAttributeInt32, &ChakraNode::destination},
    {"comm_tag", kAttributeInt32, &ChakraNode::tag},
    {"stream", kAttributeInt64, &ChakraNode::stream},
    {"tid", kAttributeInt64, &ChakraNode::thread},
    {"root_rank", kAttributeInt64, &ChakraNode::root},
    {"trainyard_share", kAttributeDouble, &ChakraNode::share},
    {"trainyard_slowdown", kAttributeDouble, &ChakraNode::slowdown},
    {"trainyard_launch_s", kAttributeDouble, &ChakraNode::launch},
    {"trainyard_latency_s", kAttributeDouble, &ChakraNode::latency},
    {"trainyard_rate_cap", kAttributeDouble, &ChakraNode::rate_cap},
    {"trainyard_steps", kAttributeInt64, &ChakraNode::steps},
    {"trainyard_mode", kAttributeInt64, &ChakraNode::mode},
    {"trainyard_path", kAttributeInt64, &ChakraNode::path},
    // Exact size, if it is no whole number of bytes. It follows comm_size and replaces it.
    {"trainyard_bytes", kAttributeDouble, &ChakraNode::bytes},
}};
constexpr const char* kExactDuration = "trainyard_duration_s";

}  // namespace trainyard
