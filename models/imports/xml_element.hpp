#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

/// The place in which an element begins.
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

  bool has(const std::string& key) const;                          ///< is the attribute present and not empty?
  const std::string& text(const std::string& key) const;           ///< throws UserError if the attribute is missing
  int integer(const std::string& key, int least, int most) const;  ///< throws also if not such a whole number
};

/// Returns the outermost element of a document. Throws UserError "file:line:column: …" if the document is not
/// well-formed, if an attribute is given twice, and if elements are nested deeper than 64 levels.
XmlElement read_xml(std::string_view text, const std::string& file);

}  // namespace trainyard
