#include "models/imports/xml_element.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <sstream>
#include <utility>

#include "sim/error.hpp"
#include "sim/units.hpp"

namespace trainyard {
namespace {

using XmlTree = boost::property_tree::ptree;

constexpr std::size_t kDeepestXml = 64;  // the parser is recursive

/// The lines of all start tags in order. Refuses what Boost's parser would take silently (end tags that do not match) or
/// dies of (deep nesting).
std::vector<int> lines_of_tags(std::string_view text, const std::string& file) {
  std::vector<int> lines;
  std::vector<std::pair<std::string, int>> open;
  int line = 1;
  std::size_t at = 0;
  const auto skip_to = [&](std::string_view end, const char* what) {
    const std::size_t stop = text.find(end, at);
    if (stop == std::string_view::npos) XmlPlace{file, line}.refuse(fmt::format("{} without an end", what));
    line += static_cast<int>(std::count(text.begin() + static_cast<std::ptrdiff_t>(at),
                                        text.begin() + static_cast<std::ptrdiff_t>(stop), '\n'));
    at = stop + end.size();
  };
  if (text.find('\0') != std::string_view::npos) XmlPlace{file, 0}.refuse("not XML: a zero byte");
  while (true) {
    const std::size_t next = text.find('<', at);
    if (next == std::string_view::npos) break;
    line += static_cast<int>(std::count(text.begin() + static_cast<std::ptrdiff_t>(at),
                                        text.begin() + static_cast<std::ptrdiff_t>(next), '\n'));
    at = next;
    const std::string_view rest = text.substr(at);
    if (rest.starts_with("<!--")) {
      skip_to("-->", "comment");
    } else if (rest.starts_with("<?") || rest.starts_with("<!")) {
      skip_to(">", "declaration");
    } else {
      const int begin = line;
      const bool end_tag = rest.starts_with("</");
      const std::size_t name_at = at + (end_tag ? 2 : 1);
      const std::size_t name_end = std::min(text.find_first_of(" \t\r\n/>", name_at), text.size());
      const std::string name(text.substr(name_at, name_end - name_at));
      char quote = 0;
      std::size_t stop = name_end;
      for (; stop < text.size() && (quote || text[stop] != '>'); ++stop) {
        if (text[stop] == '\n') ++line;
        if (quote ? text[stop] == quote : text[stop] == '"' || text[stop] == '\'') quote = quote ? '\0' : text[stop];
      }
      if (stop >= text.size()) XmlPlace{file, begin}.refuse(fmt::format("<{}{}> has no end", end_tag ? "/" : "", name));
      at = stop + 1;
      if (end_tag) {
        if (open.empty() || open.back().first != name)
          XmlPlace{file, begin}.refuse(open.empty() ? fmt::format("</{}> ends nothing", name)
                                                    : fmt::format("</{}> where <{}> of line {} is open", name,
                                                                  open.back().first, open.back().second));
        open.pop_back();
        continue;
      }
      lines.push_back(begin);
      if (text[stop - 1] != '/') open.emplace_back(name, begin);
      if (open.size() > kDeepestXml) XmlPlace{file, begin}.refuse(fmt::format("nested deeper than {}", kDeepestXml));
    }
  }
  if (!open.empty()) XmlPlace{file, open.back().second}.refuse(fmt::format("<{}> has no end", open.back().first));
  return lines;
}

XmlElement xml_element(const std::string& name, const XmlTree& tree, const std::string& file,
                       const std::vector<int>& lines, std::size_t& next) {
  XmlElement element{name, {file, next < lines.size() ? lines[next] : 0}, {}, {}};
  ++next;
  for (const auto& [key, child] : tree) {
    if (key == "<xmlattr>") {
      for (const auto& [attribute, value] : child)
        if (!element.attributes.emplace(attribute, value.data()).second)
          element.place.refuse(fmt::format("<{}>: attribute \"{}\" is given twice", name, attribute));
    } else {
      element.children.push_back(xml_element(key, child, file, lines, next));
    }
  }
  return element;
}

}  // namespace

void XmlPlace::refuse(const std::string& what) const {
  throw UserError(line > 0 ? fmt::format("{}:{}: {}", file, line, what) : fmt::format("{}: {}", file, what));
}

bool XmlElement::has(const std::string& key) const {
  const auto found = attributes.find(key);
  return found != attributes.end() && !found->second.empty();
}

const std::string& XmlElement::text(const std::string& key) const {
  const auto found = attributes.find(key);
  if (found == attributes.end()) place.refuse(fmt::format("<{}>: missing attribute \"{}\"", name, key));
  return found->second;
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
  const std::vector<int> lines = lines_of_tags(text, file);
  XmlTree tree;
  try {
    std::istringstream in{std::string(text)};
    namespace xml = boost::property_tree::xml_parser;
    xml::read_xml(in, tree, xml::no_comments | xml::trim_whitespace);
  } catch (const boost::property_tree::xml_parser_error& e) {
    XmlPlace{file, static_cast<int>(e.line())}.refuse("not XML: " + e.message());
  }
  if (tree.size() != 1) XmlPlace{file, 0}.refuse("not XML: expected one element around all others");
  std::size_t next = 0;
  return xml_element(tree.front().first, tree.front().second, file, lines, next);
}

std::string xml_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  return out;
}

}  // namespace trainyard
