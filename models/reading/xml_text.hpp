#pragma once
#include <string>
#include <string_view>

namespace trainyard {

/// Text as it is written in an XML document, in attributes too. Control characters, which XML has not, become spaces.
std::string xml_escaped(std::string_view text);

}  // namespace trainyard
