#include "models/reading/xml_text.hpp"

namespace trainyard {

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

std::string escaped_lines(const std::string& text) {
  std::string html;
  for (const char c : text) html += c == '\n' ? "\n" : xml_escaped(std::string(1, c));
  return html;
}

}  // namespace trainyard
