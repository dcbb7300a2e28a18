# Run with cmake -P: every folder includes only what it may, and every header compiles alone.
#   cmake -DSOURCE=<root> -DCOMPILER=<c++> -DFLAGS="<-I…>" -P include_rules.cmake
cmake_minimum_required(VERSION 3.22)

# folder: the folders it may include, besides itself.
set(edges_core "")
set(edges_compute core)
set(edges_cpu compute core)
set(edges_gpu compute core)
set(edges_index compute core)
set(edges_storage core)
set(edges_engine storage index compute core)
set(edges_sql engine storage compute core)
set(edges_extension sql engine storage index cpu compute core)
# Single headers beyond those edges: a declaration names index kinds.
set(headers_sql index/index.h index/text_index.h)

set(folders core compute cpu gpu index storage engine sql extension)
set(hosts storage sql extension)   # may include SQLite
set(problems "")

function(complain text)
  set(problems ${problems} ${text} PARENT_SCOPE)
endfunction()

foreach(folder ${folders})
  file(GLOB_RECURSE files RELATIVE ${SOURCE} ${SOURCE}/${folder}/*.h ${SOURCE}/${folder}/*.cc
       ${SOURCE}/${folder}/*.cu ${SOURCE}/${folder}/*.cuh)
  foreach(file ${files})
    file(STRINGS ${SOURCE}/${file} lines REGEX "^[ \t]*#[ \t]*include")
    foreach(line ${lines})
      string(REGEX REPLACE "^[^<\"]*[<\"]([^>\"]*)[>\"].*$" "\\1" header "${line}")
      string(REGEX MATCH "^[^/]*" target "${header}")
      if(target IN_LIST folders AND NOT target STREQUAL folder
         AND NOT target IN_LIST edges_${folder} AND NOT header IN_LIST headers_${folder})
        complain("${file} includes ${header}: ${folder}/ may not include ${target}/")
      endif()
      if(header MATCHES "^sqlite3" AND NOT folder IN_LIST hosts)
        complain("${file} includes ${header}: ${folder}/ may not include SQLite")
      endif()
      if(header MATCHES "^(cuda|cublas|cub/)" AND NOT folder STREQUAL "gpu")
        complain("${file} includes ${header}: only gpu/ may include CUDA")
      endif()
      if(header MATCHES "^hwy/" AND NOT folder STREQUAL "cpu")
        complain("${file} includes ${header}: only cpu/ may include Highway")
      endif()
      if(header MATCHES "^nlohmann/" AND NOT folder STREQUAL "sql")
        complain("${file} includes ${header}: only sql/ may include nlohmann")
      endif()
    endforeach()
    if(file MATCHES "\\.h$" AND NOT folder STREQUAL "gpu")
      list(APPEND headers ${file})
    endif()
  endforeach()
endforeach()

separate_arguments(flags UNIX_COMMAND "${FLAGS}")
foreach(header ${headers})
  execute_process(COMMAND ${COMPILER} -std=c++20 -fsyntax-only -I${SOURCE} ${flags} -x c++ ${SOURCE}/${header}
                  RESULT_VARIABLE result ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    complain("${header} does not compile alone:\n${output}")
  endif()
endforeach()

list(LENGTH headers header_count)
list(LENGTH problems problem_count)
foreach(problem ${problems})
  message("${problem}")
endforeach()
if(problem_count)
  message(FATAL_ERROR "${problem_count} rules broken")
endif()
message("include rules hold; ${header_count} headers compile alone")
