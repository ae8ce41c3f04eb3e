#include "models/reading/document_text.hpp"

#include <cctype>

namespace trainyard {
namespace {

/// Would the scalar be read as something else without quotes?
bool needs_quotes(const Node& node) {
  const std::string& s = node.scalar;
  if (node.quoted || s.empty() || s == "~" || s == "null" || s.front() == ' ' || s.back() == ' ') return true;
  if (std::string("!&*-?|>@`%'\"#{}[],:").find(s.front()) != std::string::npos &&
      !(s.front() == '-' && s.size() > 1 && std::isdigit(static_cast<unsigned char>(s[1])) != 0))
    return true;
  return s.find_first_of("{}[],\n\"\\") != std::string::npos || s.find(": ") != std::string::npos ||
         s.find(" #") != std::string::npos || s.back() == ':';
}

std::string scalar_text(const Node& node) {
  if (!needs_quotes(node)) return node.scalar;
  std::string text = "\"";
  for (const char c : node.scalar) {
    if (c == '"' || c == '\\') text += '\\';
    text += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return text + "\"";
}

void flatten(const Node& node, const std::string& path, std::map<std::string, std::string>& fields) {
  if (node.kind != Node::Kind::map) {
    std::string text = yaml_text(node);
    text.pop_back();  // the end of the line
    fields[path] = text;
    return;
  }
  for (const auto& [key, value] : node.fields) flatten(value, path.empty() ? key : path + "." + key, fields);
}

void unquote(Node& node) {
  node.quoted = false;
  for (Node& item : node.items) unquote(item);
  for (auto& [key, field] : node.fields) unquote(field);
}

}  // namespace

std::string flow_text(const Node& node) {
  std::string text;
  const auto join = [&text](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  switch (node.kind) {
    case Node::Kind::null:
      return "~";
    case Node::Kind::scalar:
      return scalar_text(node);
    case Node::Kind::list:
      for (const Node& item : node.items) join(flow_text(item));
      return "[" + text + "]";
    case Node::Kind::map:
      for (const auto& [key, value] : node.fields) join(scalar_text(Node::scalar_node(key)) + ": " + flow_text(value));
      return "{" + text + "}";
  }
  throw InternalError("an unknown kind of node");
}

Node parse_json_document(const std::string& json, const std::string& name) {
  Node document = parse_document(json, name);
  unquote(document);
  return parse_document(yaml_text(document), name);
}

std::string yaml_text(const Node& node) {
  if (node.kind != Node::Kind::map) return flow_text(node) + "\n";
  std::string text;
  for (const auto& [key, value] : node.fields) {
    text += scalar_text(Node::scalar_node(key)) + ":";
    if (value.kind != Node::Kind::map || value.fields.empty()) {
      text += " " + flow_text(value) + "\n";
      continue;
    }
    text += "\n";
    for (const auto& [inner, part] : value.fields)
      text += "  " + scalar_text(Node::scalar_node(inner)) + ": " + flow_text(part) + "\n";
  }
  return text;
}

std::string yaml_escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out;
}

std::map<std::string, std::string> flat_fields(const Node& document) {
  std::map<std::string, std::string> fields;
  flatten(document, "", fields);
  return fields;
}

}  // namespace trainyard
