#include "scenarios/src/traces/chakra.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>
#include <string_view>

#include "scenarios/src/traces/kineto.hpp"
#include "sim/error.hpp"
#include "sim/process/output.hpp"

namespace trainyard {
namespace {

// Numbers of fields and names of attributes: mlcommons/chakra, schema/protobuf/et_def.proto (package ChakraProtoMsg),
// src/converter/ and src/generator/.

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

using protozero::pbf_reader;
using protozero::pbf_wire_type;

std::string_view view_of(pbf_reader& reader) {
  const protozero::data_view view = reader.get_view();
  return {view.data(), view.size()};
}

constexpr std::uint32_t wire_field(std::uint32_t field, pbf_wire_type type) {
  return protozero::tag_and_type(field, type);
}

/// Reads a field of AttributeProto that is a number.
struct NumberReader {
  AttributeField field;
  pbf_wire_type type;
  double (*read)(pbf_reader&);
};
template <auto get>
double number_of(pbf_reader& reader) {
  return static_cast<double>((reader.*get)());
}
constexpr NumberReader kNumberReaders[] = {
    {kAttributeDouble, pbf_wire_type::fixed64, number_of<&pbf_reader::get_double>},
    {kAttributeFloat, pbf_wire_type::fixed32, number_of<&pbf_reader::get_float>},
    {kAttributeInt32, pbf_wire_type::varint, number_of<&pbf_reader::get_int64>},
    {kAttributeInt64, pbf_wire_type::varint, number_of<&pbf_reader::get_int64>},
    {kAttributeUint32, pbf_wire_type::varint, number_of<&pbf_reader::get_uint64>},
    {kAttributeUint64, pbf_wire_type::varint, number_of<&pbf_reader::get_uint64>},
    {kAttributeSint32, pbf_wire_type::varint, number_of<&pbf_reader::get_sint64>},
    {kAttributeSint64, pbf_wire_type::varint, number_of<&pbf_reader::get_sint64>},
    {kAttributeFixed32, pbf_wire_type::fixed32, number_of<&pbf_reader::get_fixed32>},
    {kAttributeFixed64, pbf_wire_type::fixed64, number_of<&pbf_reader::get_fixed64>},
    {kAttributeSfixed32, pbf_wire_type::fixed32, number_of<&pbf_reader::get_sfixed32>},
    {kAttributeSfixed64, pbf_wire_type::fixed64, number_of<&pbf_reader::get_sfixed64>},
    {kAttributeBool, pbf_wire_type::varint, number_of<&pbf_reader::get_bool>},
};
const NumberReader* number_reader(std::uint32_t tag_and_type) {
  const auto* found = std::ranges::find(kNumberReaders, tag_and_type,
                                        [](const NumberReader& n) { return wire_field(n.field, n.type); });
  return found == std::end(kNumberReaders) ? nullptr : found;
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
      case wire_field(kAttributeBoolList, pbf_wire_type::length_delimited):
        value.list = bool_list(reader.get_message());
        break;
      case wire_field(kAttributeString, pbf_wire_type::length_delimited):
        value.text = view_of(reader);
        break;
      default:
        if (const NumberReader* number = number_reader(reader.tag_and_type()))
          value.number = number->read(reader);
        else
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
    if (const double most = kLongestEvent * 1e-6; node.duration.value_or(0) > most)
      throw UserError(fmt::format("{}: node {}: duration is {:g} s; at most {:g} s (12 days) expected", file_, node.id,
                                  *node.duration, most));
    least("num_ops", node.flops);
    least("tensor_size", node.tensor);
    least("comm_size", node.bytes);
    for (const double factor : {node.slowdown, node.share, node.steps})
      if (!(factor > 0 && factor < 1e9)) least("factor of an exchange", -1);
    for (const double amount : {node.launch, node.latency, node.rate_cap, node.mode, node.path})
      least("trainyard_ attribute", amount);
  }
};

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

/// Operations by number of CollectiveCommType (mlcommons/chakra, schema/protobuf/et_def.proto).
constexpr std::array<Operation, 10> kChakraOperations{
    Operation::all_reduce,     Operation::reduce,    Operation::all_gather, Operation::gather,
    Operation::scatter,        Operation::broadcast, Operation::all_to_all, Operation::reduce_scatter,
    Operation::reduce_scatter, Operation::barrier};

/// Appends the length of a message, and the message.
void append_message(std::string& file, const std::string& message) {
  protozero::write_varint(std::back_inserter(file), message.size());
  file += message;
}

}  // namespace

std::vector<ChakraNode> read_chakra(const std::filesystem::path& path) {
  check_input(path);
  const std::string bytes = read_file(path);
  return ChakraFile(bytes, path.string()).nodes();
}

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

Operation operation_of(const ChakraNode& node, const std::string& where) {
  if (node.collective >= 0 && node.collective < static_cast<double>(kChakraOperations.size()))
    return kChakraOperations[static_cast<std::size_t>(node.collective)];
  throw UserError(node.collective < 0 ? fmt::format("{}: a collective without comm_type", where)
                                      : fmt::format("{}: comm_type {}; 0 (all-reduce) to {} (barrier) expected", where,
                                                    node.collective, kChakraOperations.size() - 1));
}

int chakra_number(Operation operation) {
  const auto found = std::ranges::find(kChakraOperations, operation);
  return found == kChakraOperations.end() ? -1 : static_cast<int>(found - kChakraOperations.begin());
}

}  // namespace trainyard
