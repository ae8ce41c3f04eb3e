#pragma once
#include <string>
#include <vector>

namespace trainyard {

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
