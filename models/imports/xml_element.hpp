#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

/// Where an element begins.
struct XmlPlace {
  std::string file;
  int line = 0, column = 0;  ///< line 0: the file as a whole
  /// Throws UserError "file:line:column: what".
  [[noreturn]] void refuse(const std::string& what) const;
};

/// An element of an XML document with its attributes and children, in order. Text between elements is dropped.
struct XmlElement {
  std::string name;
  XmlPlace place;
  std::map<std::string, std::string> attributes;
  std::vector<XmlElement> children;

  bool has(const std::string& key) const;                          ///< given, and not empty
  const std::string& text(const std::string& key) const;           ///< refuses a missing one
  int integer(const std::string& key, int least, int most) const;  ///< refuses what is no whole number, or beyond
};

/// The outermost element of a document. Throws UserError "file:line:column: …" for what is not well-formed, attributes given
/// twice, and nesting deeper than 64.
XmlElement read_xml(std::string_view text, const std::string& file);

}  // namespace trainyard
