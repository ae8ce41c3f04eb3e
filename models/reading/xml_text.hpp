#pragma once
#include <string>
#include <string_view>

namespace trainyard {

/// Returns `text` escaped for an XML document, including its attributes. Control characters, which XML does not allow,
/// become spaces.
std::string xml_escaped(std::string_view text);
/// Escapes text for XML, and leaves line ends as they are.
std::string escaped_lines(const std::string& text);

}  // namespace trainyard
