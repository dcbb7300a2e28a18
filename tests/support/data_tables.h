// Data sets that are no part of the repository, as tables of a session.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/data_files.h"
#include "tests/support/sql_session.h"

namespace warplite::testing {

// Stands for the number of the line.
inline constexpr std::size_t kLine = ~std::size_t{0};

// Inserts lines' fields as rows of a table; the first line of a file with a header is left out.
inline void insert_lines(const SqlSession& session, const std::string& table,
                  const std::vector<std::string>& lines, std::size_t first,
                  const std::vector<std::size_t>& columns) {
  constexpr std::size_t kAtOnce = 400;
  for (std::size_t begin = first; begin < lines.size(); begin += kAtOnce) {
    std::string sql = "INSERT INTO " + table + " VALUES ";
    for (std::size_t i = begin; i < std::min(begin + kAtOnce, lines.size()); ++i) {
      const std::vector<std::string> given = fields(lines[i]);
      sql += i == begin ? "(" : ",(";
      for (std::size_t c = 0; c < columns.size(); ++c) {
        std::string value = columns[c] == kLine ? std::to_string(i - first) : given[columns[c]];
        for (std::size_t at = 0; (at = value.find('\'', at)) != value.npos; at += 2) {
          value.insert(at, 1, '\'');
        }
        sql += (c == 0 ? "'" : ",'") + value + "'";
      }
      sql += ')';
    }
    session.must_run(sql);
  }
}

}  // namespace warplite::testing
