// The words of the source: comments that are sentences, and names that are nouns, verb phrases or predicates. The style
// itself is in .github/CONTRIBUTING.md, "Plain words".
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <string>
#include <utility>
#include <vector>

namespace test_words {

namespace fs = std::filesystem;

namespace {

struct SourceLine {
  std::string file;
  int number = 0;
  std::string code, comment;  ///< the text before `//`, and from `//` on
};

/// Calls `visit` for every line of the product's C++. `//` inside a string literal begins no comment.
void for_each_line(const std::function<void(const SourceLine&)>& visit) {
  const fs::path root = TRAINYARD_SOURCE_DIR;
  for (const char* folder : {"sim", "models", "topologies", "strategies", "scenarios", "tools"})
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.path().extension() != ".cpp" && entry.path().extension() != ".hpp") continue;
      SourceLine line;
      line.file = fs::relative(entry.path(), root).string();
      std::ifstream in(entry.path());
      for (std::string text; std::getline(in, text);) {
        ++line.number;
        std::size_t comment = std::string::npos;
        bool quoted = false;
        for (std::size_t i = 0; i + 1 < text.size() && comment == std::string::npos; ++i) {
          if (text[i] == '\\')
            ++i;
          else if (text[i] == '"')
            quoted = !quoted;
          else if (!quoted && text[i] == '/' && text[i + 1] == '/')
            comment = i;
        }
        line.code = text.substr(0, comment);
        line.comment = comment == std::string::npos ? "" : text.substr(comment);
        visit(line);
      }
    }
}

struct Rule {
  std::string name;
  std::regex pattern;
};

std::string found_by(const Rule& rule, const SourceLine& line) {
  return line.file + ":" + std::to_string(line.number) + ": " + rule.name;
}

/// A failure shows at most so many findings.
constexpr std::size_t kMostShown = 20;

void check(const std::vector<std::string>& found) {
  std::string text;
  for (std::size_t i = 0; i < std::min(found.size(), kMostShown); ++i) text += found[i] + "\n";
  INFO(text);
  CHECK(found.empty());
}

}  // namespace

TEST_CASE("comments are sentences that stand alone", "[words]") {
  const std::vector<Rule> rules{
      {"a comment does not begin with a preposition; say whose it is", std::regex(R"(^//[/!]?<? *[oO]f )")},
      {"a comment does not begin with a question word; begin with the noun",
       std::regex(R"(^//[/!]?<? *(What|Which|By how much|By how many) )")},
      {"a comment does not begin with a participle", std::regex(R"(^//[/!]?<? *([Tt]old|[Ss]aid|[Kk]ept|[Hh]eld) )")},
      {"write \"if\" for a condition: \"where\" is a place",
       std::regex(R"((^|[ (;:])(where there (is|are) n|where none|where nothing|where it is not|where they are not))")},
      {"write who says it", std::regex(R"(\b(is told|are told|as is said)\b)")},
  };
  // The first line of a comment names its subject; later lines may say "it".
  const std::vector<Rule> first_line_rules{
      {"a comment names its subject, so that it is understood without the line above",
       std::regex(R"(^//[/!]?<? *([Tt]he same|It|They|Its|These|Called)\b)")},
      {"write \"indexed by\" or \"sorted by\"", std::regex(R"(^//[/!]?<? *by )")},
  };
  std::vector<std::string> found;
  std::string before;  // the comment line above: a sentence may go on with any word
  int before_number = 0;
  std::string before_file;
  for_each_line([&](const SourceLine& line) {
    if (line.comment.empty()) return;
    const bool follows = line.file == before_file && line.number == before_number + 1 &&
                         line.code.find_first_not_of(' ') == std::string::npos;
    const bool goes_on = follows && !before.ends_with('.') && !before.ends_with(':');
    for (const Rule& rule : first_line_rules)
      if (!follows && std::regex_search(line.comment, rule.pattern)) found.push_back(found_by(rule, line));
    for (std::size_t i = 0; i < rules.size(); ++i)
      if ((i >= 3 || !goes_on) && std::regex_search(line.comment, rules[i].pattern))
        found.push_back(found_by(rules[i], line));
    before = line.comment;
    before_number = line.number;
    before_file = line.file;
  });
  check(found);
}

TEST_CASE("descriptions in headers are whole sentences, or nouns of types and values", "[words]") {
  // Only what a simple rule can tell: the description (///) of a function has a word that may be a verb, none begins with
  // a question word, and each ends with a mark.
  const Rule function{"the description of a function says what it does: it has a verb",
                      std::regex(R"(^ *(?!struct|class|enum|template|using|extern)[\w:<>,&* \[\]~]+\()")};
  const std::regex verb(R"(\b([Rr]eturn|is|are|was|has|have|had|do|can|may|must|need|will|came|[A-Za-z]{3,}s)\b)");
  const Rule question{"a description does not begin with a question word; begin with a verb or the noun",
                      std::regex(R"(^(Whether|How|Where|When|Why|Who|Whose) )")};
  const Rule mark{"a description ends with a mark", std::regex(R"([^.:!?);}\]"`…]$)")};
  std::vector<std::string> found;
  SourceLine first;
  std::string text;
  for_each_line([&](const SourceLine& line) {
    if (!line.file.ends_with(".hpp")) return;
    const bool goes_on = line.comment.starts_with("///") && !line.comment.starts_with("///<") &&
                         line.code.find_first_not_of(' ') == std::string::npos;
    if (goes_on) {
      if (text.empty() || line.file != first.file) {
        first = line;
        text.clear();
      }
      text += (text.empty() ? "" : " ") + line.comment.substr(std::min<std::size_t>(4, line.comment.size()));
      return;
    }
    if (text.empty() || line.file != first.file) return;
    const std::string before_brackets = line.code.substr(0, line.code.find('('));
    if (before_brackets.find("= ") == std::string::npos && std::regex_search(line.code, function.pattern) &&
        !std::regex_search(text, verb))
      found.push_back(found_by(function, first));
    for (const Rule* rule : {&question, &mark})
      if (std::regex_search(text, rule->pattern)) found.push_back(found_by(*rule, first));
    text.clear();
  });
  check(found);
}

TEST_CASE("types are nouns", "[words]") {
  const Rule rule{
      "a type is a noun",
      std::regex(R"(^ *(struct|class|enum class) (Told|Way|Known|Held|Tried|Of|One|Each|On|Asked|Said|Own|Whole|)"
                 R"(Exchanged|Registered|Pictured|Placed|Measured|Interrupted|NotModelled|Moved|Kept|Unlike|)"
                 R"(Alone|Due|Fixed|Unshared|Nested|Ended|What)\b[^;]*$)")};
  std::vector<std::string> found;
  for_each_line([&](const SourceLine& line) {
    if (std::regex_search(line.code, rule.pattern)) found.push_back(found_by(rule, line));
  });
  check(found);
}

TEST_CASE("no header declares a name that is one of these prepositions, pronouns or participles", "[words]") {
  // The type comes first, so calls, parameters and `return` are no declarations.
  const Rule rule{
      "the name of a value is a noun, that of a function a verb phrase or a predicate",
      std::regex(
          R"(^ *(?!return|co_|if|for|while|else|throw|case)([\w:]+(<[^;()]*>)?[ *&]+)+()"
          R"(of|by|on|until|unlike|within|without|near|into|against|along|upon|with|than|for|off|)"
          R"(how|which|again|also|apart|alone|alike|aside|any|both|every|each|one|only|together|where|why|no|)"
          R"(there|here|turn|way|likeness|told|said|known|held|tried|gone|met|made|used|drawn|shown|bought|begun|)"
          R"(merged|typed|stated|sealed|unsealed|escaped|applied|coordinated|mixed|hashed|flushed|passed|reduced|)"
          R"(paired|promised|solved|diverged|numbered|rotated|repeated|coloured|scratch_of|of_text|in_step)"
          R"()(\(| *=[^=]| *;|\{|,))")};
  std::vector<std::string> found;
  for_each_line([&](const SourceLine& line) {
    if (line.file.ends_with(".hpp") && std::regex_search(line.code, rule.pattern))
      found.push_back(found_by(rule, line));
  });
  check(found);
}

TEST_CASE("the number of names that are prepositions, articles or participles does not grow", "[words]") {
  // Lines that declare, call or assign such a name. A figure here may be lowered, never raised.
  const std::map<std::string, int> most{{"at", 1},     {"of", 3},    {"told", 0},  {"said", 0},  {"known", 5},
                                        {"whole", 23}, {"own", 22},  {"held", 12}, {"asked", 9}, {"given", 6},
                                        {"kept", 12},  {"tried", 9}, {"left", 56}, {"way", 12},  {"each", 5},
                                        {"one", 13},   {"there", 1}, {"here", 6}};
  std::map<std::string, std::pair<int, std::regex>> names;
  // A call of the standard library's `at` is none.
  for (const auto& [name, lines] : most)
    names[name] = {0, std::regex((name == "at" ? "(^|[^.>:A-Za-z_0-9])" : "\\b") + name + " *[(=;]")};
  for_each_line([&](const SourceLine& line) {
    for (auto& [name, count] : names)
      if (line.code.find(name) != std::string::npos && std::regex_search(line.code, count.second)) ++count.first;
  });
  for (const auto& [name, count] : names) {
    CAPTURE(name, count.first);
    CHECK(count.first <= most.at(name));
  }
}

}  // namespace test_words
