#pragma once
#include <functional>
#include <string>

namespace trainyard {

/// Returns the target of a link or picture in the pages. "": the pages do not have it.
using PageAddress = std::function<std::string(const std::string& target)>;

/// Markdown as HTML. Headings have the anchors that GitHub gives them, and wide tables scroll. The text of a link
/// without a page stays. A picture without a file, or on the network, is replaced by its description.
std::string markdown_markup(const std::string& markdown, const PageAddress&);

}  // namespace trainyard
