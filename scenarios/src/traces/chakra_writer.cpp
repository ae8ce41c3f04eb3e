#include "scenarios/src/traces/chakra.hpp"

#include <cmath>
#include <iterator>
#include <protozero/pbf_writer.hpp>
#include <string_view>

#include "scenarios/src/traces/chakra_fields.hpp"

namespace trainyard {
namespace {

void write_number(protozero::pbf_writer& attribute, AttributeField field, double number) {
  switch (field) {
    case kAttributeDouble:
      return attribute.add_double(field, number);
    case kAttributeBool:
      return attribute.add_bool(field, number != 0);
    case kAttributeUint64:
      return attribute.add_uint64(field, static_cast<std::uint64_t>(std::llround(number)));
    default:
      return attribute.add_int64(field, std::llround(number));
  }
}

/// Appends a message after its length.
void append_message(std::string& file, const std::string& message) {
  protozero::write_varint(std::back_inserter(file), message.size());
  file += message;
}

}  // namespace

std::string chakra_header() {
  std::string message, file;
  protozero::pbf_writer(message).add_string(1, "0.0.4");
  append_message(file, message);
  return file;
}

void append_chakra(std::string& file, const ChakraNode& node) {
  std::string message;
  protozero::pbf_writer out(message);
  out.add_uint64(kNodeId, node.id);
  out.add_string(kNodeName, node.name);
  out.add_enum(kNodeType, static_cast<std::int32_t>(node.type));
  if (!node.deps.empty()) out.add_packed_uint64(kNodeDataDeps, node.deps.begin(), node.deps.end());
  if (node.duration) out.add_uint64(kNodeDuration, static_cast<std::uint64_t>(std::llround(*node.duration * 1e6)));
  if (!node.values.empty()) protozero::pbf_writer(out, kNodeInputs).add_string(1, node.values);
  const auto add = [&out](const char* name, auto value) {
    protozero::pbf_writer attribute(out, kNodeAttribute);
    attribute.add_string(kAttributeName, name);
    value(attribute);
  };
  static const ChakraNode plain;
  const bool works =
      node.type == ChakraType::compute || node.type == ChakraType::load || node.type == ChakraType::store;
  for (const NumberAttribute& number : kNumbers) {
    const double value = node.*number.member;
    const bool is_exact_size = std::string_view(number.name) == "trainyard_bytes";
    const bool is_written = is_exact_size
                                ? value != std::round(value)
                                : value != plain.*number.member || (works && number.member == &ChakraNode::on_host);
    if (is_written) add(number.name, [&](auto& attribute) { write_number(attribute, number.written_as, value); });
  }
  if (!node.group.empty()) add("pg_name", [&](auto& attribute) { attribute.add_string(kAttributeString, node.group); });
  if (!node.dims.empty())
    add("involved_dim", [&](auto& attribute) {
      protozero::pbf_writer list(attribute, kAttributeBoolList);
      list.add_packed_bool(1, node.dims.begin(), node.dims.end());
    });
  if (node.duration)
    add(kExactDuration, [&](auto& attribute) { attribute.add_double(kAttributeDouble, *node.duration); });
  append_message(file, message);
}

}  // namespace trainyard
