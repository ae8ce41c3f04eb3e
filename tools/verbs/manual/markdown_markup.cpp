#include "tools/verbs/manual/markdown_markup.hpp"

#include <md4c-html.h>

#include <cctype>
#include <map>
#include <regex>

#include "sim/error.hpp"

namespace trainyard {
namespace {

/// Replaces each match by what `write` returns for it.
std::string replace_matches(const std::string& html, const std::regex& pattern,
                            const std::function<std::string(const std::smatch&)>& write) {
  std::string text;
  auto from = html.begin();
  for (std::sregex_iterator match(html.begin(), html.end(), pattern), end; match != end; ++match) {
    text.append(from, (*match)[0].first);
    text += write(*match);
    from = (*match)[0].second;
  }
  return text.append(from, html.end());
}

/// The anchor of a heading: its text in lower case, spaces as hyphens, without punctuation.
std::string anchor_of(const std::string& heading) {
  static const std::regex tag_or_entity("<[^>]*>|&[a-z]+;");
  std::string anchor;
  for (const char c : std::regex_replace(heading, tag_or_entity, "")) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_')
      anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (c == ' ') anchor += '-';
  }
  return anchor;
}

std::string with_anchors(const std::string& html) {
  static const std::regex heading("<h([1-6])>(.*)</h[1-6]>");
  std::map<std::string, int> uses;  // a heading of the same text gets a number
  return replace_matches(html, heading, [&uses](const std::smatch& match) {
    std::string anchor = anchor_of(match[2]);
    if (const int earlier = uses[anchor]++; earlier > 0) anchor += "-" + std::to_string(earlier);
    return "<h" + match[1].str() + " id=\"" + anchor + "\">" + match[2].str() + "</h" + match[1].str() + ">";
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
  static const std::regex link("<a href=\"([^\"]*)\"[^>]*>([\\s\\S]*?)</a>"), table("<(/?)table>"),
      picture("<img src=\"([^\"]*)\" alt=\"([^\"]*)\"[^>]*>");
  html = replace_matches(html, link, [&address](const std::smatch& match) {
    const std::string target = address(match[1]);
    return target.empty() ? match[2].str() : "<a href=\"" + target + "\">" + match[2].str() + "</a>";
  });
  html = replace_matches(html, picture, [&address](const std::smatch& match) {
    const std::string target = address(match[1]);
    return target.empty() || target.starts_with("http") ? match[2].str()
                                                        : "<img src=\"" + target + "\" alt=\"" + match[2].str() + "\">";
  });
  html = replace_matches(html, table, [](const std::smatch& match) {
    return match[1].length() > 0 ? "</table></div>" : "<div class=\"scroll\" tabindex=\"0\"><table>";
  });
  // md4c leaves the backslash before a bar in the code of a cell.
  static const std::regex cell("<td[^>]*>.*</td>"), bar("\\\\\\|");
  html =
      replace_matches(html, cell, [](const std::smatch& match) { return std::regex_replace(match.str(), bar, "|"); });
  return with_anchors(html);
}

}  // namespace trainyard
