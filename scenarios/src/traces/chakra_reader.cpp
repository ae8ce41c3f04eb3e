#include "scenarios/src/traces/chakra.hpp"

#include <fmt/format.h>

#include <cmath>
#include <protozero/pbf_reader.hpp>
#include <string_view>

#include "scenarios/src/traces/chakra_fields.hpp"
#include "sim/error.hpp"
#include "sim/process/output.hpp"

namespace trainyard {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;

std::string_view view_of(pbf_reader& reader) {
  const protozero::data_view view = reader.get_view();
  return {view.data(), view.size()};
}

constexpr std::uint32_t wire_field(std::uint32_t field, pbf_wire_type type) {
  return protozero::tag_and_type(field, type);
}

struct AttributeValue {
  std::string_view name;
  double number = 0;
  std::string_view text;
  std::vector<bool> list;
};

std::vector<bool> bool_list(pbf_reader reader) {
  std::vector<bool> list;
  while (reader.next()) switch (reader.tag_and_type()) {
      case wire_field(1, pbf_wire_type::varint):
        list.push_back(reader.get_bool());
        break;
      case wire_field(1, pbf_wire_type::length_delimited):
        for (const bool dim : reader.get_packed_bool()) list.push_back(dim);
        break;
      default:
        reader.skip();
    }
  return list;
}

AttributeValue attribute_value(pbf_reader reader) {
  AttributeValue value;
  while (reader.next()) switch (reader.tag_and_type()) {
      case wire_field(kAttributeName, pbf_wire_type::length_delimited):
        value.name = view_of(reader);
        break;
      case wire_field(kAttributeDouble, pbf_wire_type::fixed64):
        value.number = reader.get_double();
        break;
      case wire_field(kAttributeFloat, pbf_wire_type::fixed32):
        value.number = static_cast<double>(reader.get_float());
        break;
      case wire_field(kAttributeInt32, pbf_wire_type::varint):
      case wire_field(kAttributeInt64, pbf_wire_type::varint):
        value.number = static_cast<double>(reader.get_int64());
        break;
      case wire_field(kAttributeUint32, pbf_wire_type::varint):
      case wire_field(kAttributeUint64, pbf_wire_type::varint):
        value.number = static_cast<double>(reader.get_uint64());
        break;
      case wire_field(kAttributeSint32, pbf_wire_type::varint):
      case wire_field(kAttributeSint64, pbf_wire_type::varint):
        value.number = static_cast<double>(reader.get_sint64());
        break;
      case wire_field(kAttributeFixed32, pbf_wire_type::fixed32):
        value.number = static_cast<double>(reader.get_fixed32());
        break;
      case wire_field(kAttributeFixed64, pbf_wire_type::fixed64):
        value.number = static_cast<double>(reader.get_fixed64());
        break;
      case wire_field(kAttributeSfixed32, pbf_wire_type::fixed32):
        value.number = static_cast<double>(reader.get_sfixed32());
        break;
      case wire_field(kAttributeSfixed64, pbf_wire_type::fixed64):
        value.number = static_cast<double>(reader.get_sfixed64());
        break;
      case wire_field(kAttributeBool, pbf_wire_type::varint):
        value.number = reader.get_bool() ? 1 : 0;
        break;
      case wire_field(kAttributeBoolList, pbf_wire_type::length_delimited):
        value.list = bool_list(reader.get_message());
        break;
      case wire_field(kAttributeString, pbf_wire_type::length_delimited):
        value.text = view_of(reader);
        break;
      default:
        reader.skip();
    }
  return value;
}

void take_attribute(ChakraNode& node, const AttributeValue& value) {
  if (value.name == "pg_name") node.group = value.text;
  if (value.name == "involved_dim") node.dims = value.list;
  if (value.name == kExactDuration) node.duration = value.number;
  for (const NumberAttribute& number : kNumbers)
    if (value.name == number.name) node.*number.member = value.number;
}

void take_deps(ChakraNode& node, pbf_reader& reader) {
  if (reader.wire_type() == pbf_wire_type::varint) return node.deps.push_back(reader.get_uint64());
  for (const std::uint64_t id : reader.get_packed_uint64()) node.deps.push_back(id);
}

/// Reads the first field of IOInfo.
std::string_view io_values(pbf_reader reader) {
  std::string_view values;
  while (reader.next())
    if (reader.tag_and_type() == wire_field(1, pbf_wire_type::length_delimited))
      values = view_of(reader);
    else
      reader.skip();
  return values;
}

class ChakraFile {
 public:
  ChakraFile(std::string_view bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  std::vector<ChakraNode> nodes() {
    pbf_reader metadata = next_message();
    check_metadata(metadata);
    std::vector<ChakraNode> nodes;
    while (at_ < bytes_.size()) {
      const std::size_t begin = at_;
      try {
        nodes.push_back(node(next_message()));
      } catch (const protozero::exception&) {
        refuse(begin, "what follows is no node of a Chakra trace: a field is cut short or malformed");
      }
      nodes.back().offset = begin;
    }
    return nodes;
  }

 private:
  std::string_view bytes_;
  const std::string& file_;
  std::size_t at_ = 0;

  [[noreturn]] void refuse(std::size_t byte, const std::string& what) const {
    throw UserError(fmt::format("{}: byte {}: {}", file_, byte, what));
  }

  pbf_reader next_message() {
    const std::size_t begin = at_;
    const char* data = bytes_.data() + at_;
    const char* const end = bytes_.data() + bytes_.size();
    std::uint64_t length = 0;
    try {
      length = protozero::decode_varint(&data, end);
    } catch (const protozero::exception&) {
      refuse(begin, "the file ends within the length of a message, or it is no Chakra trace");
    }
    const auto left = static_cast<std::uint64_t>(end - data);
    if (length > left)
      refuse(begin,
             fmt::format("a message of {} bytes is cut short: {} follow, or this is no Chakra trace", length, left));
    at_ = static_cast<std::size_t>(data - bytes_.data()) + static_cast<std::size_t>(length);
    return pbf_reader{data, static_cast<std::size_t>(length)};
  }

  void check_metadata(pbf_reader metadata) const {
    bool good = true;
    try {
      while (metadata.next()) {
        good &= metadata.tag() <= 2 && metadata.wire_type() == pbf_wire_type::length_delimited;
        metadata.skip();
      }
    } catch (const protozero::exception&) {
      good = false;
    }
    if (!good) refuse(0, "a Chakra trace begins with its GlobalMetadata (version and attributes)");
  }

  ChakraNode node(pbf_reader reader) const {
    ChakraNode node;
    std::int64_t type = 0;
    while (reader.next()) switch (reader.tag_and_type()) {
        case wire_field(kNodeId, pbf_wire_type::varint):
          node.id = reader.get_uint64();
          break;
        case wire_field(kNodeName, pbf_wire_type::length_delimited):
          node.name = view_of(reader);
          break;
        case wire_field(kNodeType, pbf_wire_type::varint):
          type = reader.get_int64();
          break;
        case wire_field(kNodeControlDeps, pbf_wire_type::varint):
        case wire_field(kNodeControlDeps, pbf_wire_type::length_delimited):
        case wire_field(kNodeDataDeps, pbf_wire_type::varint):
        case wire_field(kNodeDataDeps, pbf_wire_type::length_delimited):
          take_deps(node, reader);
          break;
        case wire_field(kNodeDuration, pbf_wire_type::varint): {
          const std::uint64_t micros = reader.get_uint64();
          if (micros > 0 && !node.duration) node.duration = static_cast<double>(micros) * 1e-6;
          break;
        }
        case wire_field(kNodeInputs, pbf_wire_type::length_delimited):
          node.values = io_values(reader.get_message());
          break;
        case wire_field(kNodeAttribute, pbf_wire_type::length_delimited):
          take_attribute(node, attribute_value(reader.get_message()));
          break;
        default:
          reader.skip();
      }
    if (type < 0 || type >= kChakraTypes)
      throw UserError(fmt::format("{}: node {} is of type {}; those of computing, memory and communication are 1 to {}",
                                  file_, node.id, type, kChakraTypes - 1));
    node.type = static_cast<ChakraType>(type);
    if (node.type != ChakraType::metadata) node.values.clear();
    check(node);
    return node;
  }

  void check(const ChakraNode& node) const {
    const auto least = [&](const char* what, double number) {
      if (!(number >= 0 && std::isfinite(number)))
        throw UserError(
            fmt::format("{}: node {}: {} is {}; a number from 0 on expected", file_, node.id, what, number));
    };
    least("duration", node.duration.value_or(0));
    least("num_ops", node.flops);
    least("tensor_size", node.tensor);
    least("comm_size", node.bytes);
    for (const double factor : {node.slowdown, node.share, node.steps})
      if (!(factor > 0 && factor < 1e9)) least("factor of an exchange", -1);
    for (const double amount : {node.launch, node.latency, node.rate_cap, node.mode, node.path})
      least("trainyard_ attribute", amount);
  }
};

}  // namespace

std::vector<ChakraNode> read_chakra(const std::filesystem::path& path) {
  check_input(path);
  const std::string bytes = read_file(path);
  return ChakraFile(bytes, path.string()).nodes();
}

}  // namespace trainyard
