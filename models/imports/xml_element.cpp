#include "models/imports/xml_element.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <pugixml.hpp>

#include "sim/error.hpp"
#include "sim/units.hpp"

namespace trainyard {
namespace {

/// Converts pugixml's nodes to `XmlElement`s, with lines and columns instead of offsets.
class XmlReader {
 public:
  XmlReader(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  XmlPlace place(std::ptrdiff_t offset) const {
    const std::string_view preceding = text_.substr(0, static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, offset)));
    const std::size_t line_end = preceding.rfind('\n');
    return {file_, 1 + static_cast<int>(std::ranges::count(preceding, '\n')),
            static_cast<int>(preceding.size() - (line_end == std::string_view::npos ? 0 : line_end + 1)) + 1};
  }

  XmlElement element(const pugi::xml_node& node, int depth) const {
    XmlElement element{node.name(), place(node.offset_debug() - 1), {}, {}};  // the place of "<"
    constexpr int most = 64;  // this function and the readers of elements are recursive
    if (depth > most) element.place.refuse(fmt::format("nested deeper than {}", most));
    for (const pugi::xml_attribute& attribute : node.attributes())
      if (!element.attributes.emplace(attribute.name(), attribute.value()).second)
        element.place.refuse(fmt::format("<{}>: attribute \"{}\" is given twice", node.name(), attribute.name()));
    for (const pugi::xml_node& child : node.children())
      if (child.type() == pugi::node_element) element.children.push_back(this->element(child, depth + 1));
    return element;
  }

 private:
  std::string_view text_;
  const std::string& file_;
};

}  // namespace

void XmlPlace::refuse(const std::string& what) const {
  throw UserError(line > 0 ? fmt::format("{}:{}:{}: {}", file, line, column, what) : fmt::format("{}: {}", file, what));
}

bool XmlElement::has(const std::string& key) const {
  const auto attribute = attributes.find(key);
  return attribute != attributes.end() && !attribute->second.empty();
}

const std::string& XmlElement::text(const std::string& key) const {
  const auto attribute = attributes.find(key);
  if (attribute == attributes.end()) place.refuse(fmt::format("<{}>: missing attribute \"{}\"", name, key));
  return attribute->second;
}

int XmlElement::integer(const std::string& key, int least, int most) const {
  const std::string& value = text(key);
  std::int64_t v = 0;
  try {
    v = parse_integer(value);
  } catch (const UserError&) {
    place.refuse(fmt::format("<{}>: {}=\"{}\" is no whole number", name, key, value));
  }
  if (v < least || v > most)
    place.refuse(fmt::format("<{}>: {}=\"{}\", expected {} to {}", name, key, value, least, most));
  return static_cast<int>(v);
}

XmlElement read_xml(std::string_view text, const std::string& file) {
  const XmlReader reader(text, file);
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos)
    reader.place(static_cast<std::ptrdiff_t>(zero)).refuse("not XML: a zero byte");
  pugi::xml_document document;
  const pugi::xml_parse_result result =
      document.load_buffer(text.data(), text.size(), pugi::parse_default, pugi::encoding_utf8);
  if (!result) reader.place(result.offset).refuse(fmt::format("not XML: {}", result.description()));
  const pugi::xml_node root = document.document_element();
  if (const pugi::xml_node last = document.last_child(); root != last)
    reader.place(last.offset_debug() - 1).refuse("not XML: expected one element around all others");
  return reader.element(root, 1);
}

}  // namespace trainyard
