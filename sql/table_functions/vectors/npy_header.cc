#include "sql/table_functions/vectors/npy_header.h"

#include <charconv>

namespace warplite::sql {
namespace {

// Takes tokens from the front of a text; every member says whether it did.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  bool token(std::string_view token) {
    skip_space();
    if (!text_.starts_with(token)) return false;
    text_.remove_prefix(token.size());
    return true;
  }
  bool string(std::string& out) {
    skip_space();
    if (text_.empty() || (text_[0] != '\'' && text_[0] != '"')) return false;
    const std::size_t end = text_.find(text_[0], 1);
    if (end == text_.npos) return false;
    out = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    return true;
  }
  bool number(std::uint64_t& out) {
    skip_space();
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), out);
    if (error != std::errc()) return false;
    text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
    return true;
  }
  bool at_end() {
    skip_space();
    return text_.empty();
  }

 private:
  void skip_space() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\n')) text_.remove_prefix(1);
  }

  std::string_view text_;
};

bool scan_shape(Scanner& scanner, std::vector<std::uint64_t>& shape) {
  if (!scanner.token("(")) return false;
  while (!scanner.token(")")) {
    std::uint64_t size = 0;
    if (!scanner.number(size)) return false;
    shape.push_back(size);
    if (!scanner.token(",")) return scanner.token(")");
  }
  return true;
}

}  // namespace

std::optional<NpyHeader> parse_npy_header(std::string_view text) {
  Scanner scanner(text);
  NpyHeader header;
  bool descr = false, order = false, shape = false;
  if (!scanner.token("{")) return std::nullopt;
  while (!scanner.token("}")) {
    std::string key;
    if (!scanner.string(key) || !scanner.token(":")) return std::nullopt;
    bool& seen = key == "descr" ? descr : key == "fortran_order" ? order : shape;
    if (seen) return std::nullopt;
    if (key == "descr") {
      seen = scanner.string(header.descr);
    } else if (key == "fortran_order") {
      header.fortran_order = scanner.token("True");
      seen = header.fortran_order || scanner.token("False");
    } else if (key == "shape") {
      seen = scan_shape(scanner, header.shape);
    }
    if (!seen) return std::nullopt;
    if (scanner.token(",")) continue;
    if (!scanner.token("}")) return std::nullopt;
    break;
  }
  if (!descr || !order || !shape || !scanner.at_end()) return std::nullopt;
  return header;
}

}  // namespace warplite::sql
