# A toolchain for any platform, by the cross compiler that PyPI carries as `ziglang`:
#   cmake --toolchain packaging/zig.cmake -DZIG=/path/to/zig -DZIG_TARGET=aarch64-linux-gnu.2.17
# The standard library is linked in, so the product needs nothing but the platform's C library.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ZIG ZIG_TARGET)

string(REGEX MATCH "^([^-]+)-([^.-]+)" ignored "${ZIG_TARGET}")
set(CMAKE_SYSTEM_PROCESSOR ${CMAKE_MATCH_1})
if(CMAKE_MATCH_2 STREQUAL "macos")
  set(CMAKE_SYSTEM_NAME Darwin)
elseif(CMAKE_MATCH_2 STREQUAL "windows")
  set(CMAKE_SYSTEM_NAME Windows)
else()
  set(CMAKE_SYSTEM_NAME Linux)
endif()

set(CMAKE_C_COMPILER ${ZIG} cc)
set(CMAKE_CXX_COMPILER ${ZIG} c++)
set(CMAKE_C_COMPILER_TARGET ${ZIG_TARGET})
set(CMAKE_CXX_COMPILER_TARGET ${ZIG_TARGET})
foreach(language C CXX)
  set(CMAKE_${language}_ARCHIVE_CREATE "\"${ZIG}\" ar qc <TARGET> <OBJECTS>")
  set(CMAKE_${language}_ARCHIVE_APPEND "\"${ZIG}\" ar q <TARGET> <OBJECTS>")
  set(CMAKE_${language}_ARCHIVE_FINISH "\"${ZIG}\" ranlib <TARGET>")
endforeach()

set(CMAKE_CXX_FLAGS_INIT -g0)
set(CMAKE_MODULE_LINKER_FLAGS_INIT -s)

# Headers of the building machine's C library must not be seen.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
