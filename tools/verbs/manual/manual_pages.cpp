#include "tools/verbs/manual/manual_pages.hpp"

#include <fmt/format.h>
#include <md4c-html.h>
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "models/reading/pattern.hpp"
#include "models/reading/shipped_files.hpp"
#include "models/reading/xml_text.hpp"
#include "sim/error.hpp"
#include "tools/reports/html_page.hpp"
#include "tools/verbs/lessons/course_pages.hpp"
#include "tools/verbs/verbs.hpp"

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

namespace fs = std::filesystem;

constexpr const char* kManualFolder = "tools/manual";
constexpr const char* kWordsPage = "words.html";

std::string content_of(const std::string& shipped) {
  const fs::path file = shipped_file(shipped);
  std::ifstream in(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in || text.empty())
    throw UserError(fmt::format("{}: the manual cannot be read: {}", file.string(), std::strerror(errno)));
  return text;
}

/// A file in Markdown that becomes a page.
struct Chapter {
  std::string file;  ///< its path in the repository
  std::string page;
  std::string markdown;
  std::string title() const { return markdown.substr(2, markdown.find('\n') - 2); }
};

/// The manual's first page, its chapters in the order of that page, and the README.
std::vector<Chapter> read_chapters() {
  std::vector<Chapter> chapters;
  const std::string first = content_of(fmt::format("{}/README.md", kManualFolder));
  for (const auto& entry : fs::directory_iterator(shipped_file(kManualFolder))) {
    const std::string name = entry.path().stem().string(), file = fmt::format("{}/{}.md", kManualFolder, name);
    if (entry.path().extension() == ".md" && name != "README")
      chapters.push_back({file, name + ".html", content_of(file)});
  }
  const auto position = [&first](const Chapter& chapter) {
    return first.find("(" + fs::path(chapter.file).filename().string() + ")");
  };
  std::ranges::sort(chapters, [&](const Chapter& a, const Chapter& b) { return position(a) < position(b); });
  chapters.insert(chapters.begin(), {fmt::format("{}/README.md", kManualFolder), "index.html", first});
  chapters.push_back({"README.md", "readme.html", content_of("README.md")});
  return chapters;
}

std::string page_of_verb(const std::string& verb) { return fmt::format("verb-{}.html", verb); }
std::string page_of(const HelpTopic& topic) { return fmt::format("help-{}.html", topic.name); }

std::string item(const std::string& page, const std::string& term, const std::string& meaning) {
  return fmt::format("<dt><a href=\"{}\">{}</a></dt><dd>{}</dd>\n", page, xml_escaped(term), xml_escaped(meaning));
}

/// Writes the pages and collects the pictures that they show.
class ManualWriter {
 public:
  explicit ManualWriter(const std::vector<HelpTopic>& topics) : chapters_(read_chapters()), topics_(topics) {}

  std::vector<ManualFile> files() {
    for (const Chapter& chapter : chapters_) add_chapter(chapter);
    for (const std::string& verb : verbs().names()) add_verb(verb);
    for (const HelpTopic& topic : topics_)
      add(page_of(topic), topic.title,
          fmt::format("<h1>{}</h1>\n", xml_escaped(topic.title)) +
              markdown_markup(topic.markdown, [](const std::string&) { return std::string(); }));
    add(kWordsPage, "The words of the field", words_markup({{}, read_glossary(), {}}));
    files_.insert(files_.end(), pictures_.begin(), pictures_.end());
    return std::move(files_);
  }

 private:
  std::vector<Chapter> chapters_;
  const std::vector<HelpTopic>& topics_;
  std::vector<ManualFile> files_, pictures_;

  void add(const std::string& page, const std::string& title, const std::string& body) {
    std::vector<std::pair<std::string, std::string>> sequence;
    for (const Chapter& chapter : chapters_) sequence.emplace_back(chapter.page, chapter.title());
    const std::string around = page == "index.html" ? "" : page_navigation(sequence, page, "Manual");
    files_.push_back(
        {page,
         html_text({title, "<main class=\"manual\">\n" + around + body + around + "</main>\n", "data", nullptr, {}})});
  }

  void add_chapter(const Chapter& chapter) {
    const fs::path folder = fs::path(chapter.file).parent_path();
    std::string body =
        markdown_markup(chapter.markdown, [&](const std::string& target) { return address(folder, target); });
    if (chapter.page == "index.html") body += references();
    add(chapter.page, chapter.title(), body);
  }

  void add_verb(const std::string& verb) {
    CaughtOutput caught;
    verbs().find(verb, {}).run({"--help"});
    add(page_of_verb(verb), "trainyard " + verb,
        fmt::format("<h1>trainyard {}</h1>\n<pre>{}</pre>\n", verb, escaped_lines(caught.text)));
  }

  /// The page or picture of a link in a file of `folder`; "" if the pages do not have it.
  std::string address(const fs::path& folder, const std::string& target) {
    if (target.starts_with("#") || target.starts_with("https://") || target.starts_with("http://")) return target;
    const std::size_t mark = std::min(target.find('#'), target.size());
    const std::string file = (folder / target.substr(0, mark)).lexically_normal().string();
    for (const Chapter& chapter : chapters_)
      if (chapter.file == file) return chapter.page + target.substr(mark);
    if (!file.starts_with("tools/pictures/")) return "";
    const std::string name = fs::path(file).filename().string();
    if (std::ranges::none_of(pictures_, [&name](const ManualFile& f) { return f.name == name; }))
      pictures_.push_back({name, content_of(file)});
    return name;
  }

  /// The part of the first page that links to the help of each verb and to the references.
  std::string references() const {
    std::string html = "<section><h2 id=\"verbs\">Verbs</h2>\n<dl>\n";
    for (const std::string& verb : verbs().names())
      html += item(page_of_verb(verb), verb, verbs().find(verb, {}).summary);
    html += "</dl></section>\n<section><h2 id=\"references\">References</h2>\n<dl>\n";
    for (const HelpTopic& topic : topics_) html += item(page_of(topic), topic.title, "trainyard help " + topic.name);
    return html + item(kWordsPage, "The words of the field", "trainyard glossary") + "</dl></section>\n";
  }
};

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

std::vector<ManualFile> manual_pages(const std::vector<HelpTopic>& topics) { return ManualWriter(topics).files(); }

}  // namespace trainyard
