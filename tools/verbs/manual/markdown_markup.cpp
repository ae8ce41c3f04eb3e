#include "tools/verbs/manual/markdown_markup.hpp"

#include <md4c-html.h>

#include <cctype>
#include <map>

#include "models/reading/pattern.hpp"
#include "sim/error.hpp"

namespace trainyard {
namespace {

/// The anchor of a heading: its text in lower case, spaces as hyphens, without punctuation.
std::string anchor_of(const std::string& heading) {
  static const Pattern tag_or_entity("<[^>]*>|&[a-z]+;");
  std::string anchor;
  for (const char c : tag_or_entity.replace(heading, [](const auto&) { return ""; })) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_')
      anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (c == ' ') anchor += '-';
  }
  return anchor;
}

std::string with_anchors(const std::string& html) {
  static const Pattern heading("<h([1-6])>(.*)</h[1-6]>");
  std::map<std::string, int> uses;  // a heading of the same text gets a number
  return heading.replace(html, [&uses](const Pattern::Groups& match) {
    std::string anchor = anchor_of(match[2]);
    if (const int earlier = uses[anchor]++; earlier > 0) anchor += "-" + std::to_string(earlier);
    return "<h" + match[1] + " id=\"" + anchor + "\">" + match[2] + "</h" + match[1] + ">";
  });
}

}  // namespace

std::string markdown_markup(const std::string& markdown, const PageAddress& address) {
  std::string html;
  const auto add = [](const MD_CHAR* text, MD_SIZE size, void* all) {
    static_cast<std::string*>(all)->append(text, size);
  };
  if (::md_html(markdown.data(), static_cast<MD_SIZE>(markdown.size()), add, &html,
                MD_FLAG_TABLES | MD_FLAG_STRIKETHROUGH, 0) != 0)
    throw InternalError("md4c could not read Markdown");
  // In md4c's text, '<' is always the beginning of a tag: it escapes all others.
  static const Pattern link("<a href=\"([^\"]*)\"[^>]*>([\\s\\S]*?)</a>"), table("<(/?)table>"),
      picture("<img src=\"([^\"]*)\" alt=\"([^\"]*)\"[^>]*>");
  html = link.replace(html, [&address](const Pattern::Groups& match) {
    const std::string target = address(match[1]);
    return target.empty() ? match[2] : "<a href=\"" + target + "\">" + match[2] + "</a>";
  });
  html = picture.replace(html, [&address](const Pattern::Groups& match) {
    const std::string target = address(match[1]);
    return target.empty() || target.starts_with("http") ? match[2]
                                                        : "<img src=\"" + target + "\" alt=\"" + match[2] + "\">";
  });
  html = table.replace(html, [](const Pattern::Groups& match) {
    return !match[1].empty() ? "</table></div>" : "<div class=\"scroll\" tabindex=\"0\"><table>";
  });
  // md4c leaves the backslash before a bar in the code of a cell.
  static const Pattern cell("<td[^>]*>.*</td>"), bar("\\\\\\|");
  html = cell.replace(
      html, [](const Pattern::Groups& match) { return bar.replace(match[0], [](const auto&) { return "|"; }); });
  return with_anchors(html);
}

}  // namespace trainyard
