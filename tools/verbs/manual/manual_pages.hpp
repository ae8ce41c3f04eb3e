#pragma once
#include <functional>
#include <string>
#include <vector>

namespace trainyard {

/// Returns the target of a link or picture in the pages. "": the pages do not have it.
using PageAddress = std::function<std::string(const std::string& target)>;

/// Markdown as HTML. Headings have the anchors that GitHub gives them, and wide tables scroll. The text of a link
/// without a page stays. A picture without a file, or on the network, is replaced by its description.
std::string markdown_markup(const std::string& markdown, const PageAddress&);

/// A file of the manual's pages: its name and content.
struct ManualFile {
  std::string name;
  std::string content;
};

/// Text in Markdown that `trainyard help` prints, as a page of the manual.
struct HelpTopic {
  std::string name;
  std::string title;
  std::string markdown;
};

/// The manual as pages that open without a network, and their pictures: index.html, a page for each chapter, verb and
/// topic, the README, and the words of the field. The first file is index.html. Throws UserError if a file of the
/// manual cannot be read.
std::vector<ManualFile> manual_pages(const std::vector<HelpTopic>&);

}  // namespace trainyard
