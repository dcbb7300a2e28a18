# What is installed: warplite.so and, if it was built, the GPU plug-in beside it, where programs look for
# libraries, so that ".load warplite" finds it; libwarplite.a and its header; how CMake and pkg-config
# find them; and a Debian package of all that (cpack).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# What is shipped is stripped, as by `cmake --install --strip`.
install(CODE "if(CMAKE_INSTALL_CONFIG_NAME STREQUAL Release)\n  set(CMAKE_INSTALL_DO_STRIP 1)\nendif()")
install(TARGETS warplite EXPORT warplite LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET warplite_cuda)
  install(TARGETS warplite_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(TARGETS warplite_static EXPORT warplite ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES include/warplite.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(config ${CMAKE_INSTALL_LIBDIR}/cmake/warplite)
configure_package_config_file(cmake/warplite-config.cmake.in ${PROJECT_BINARY_DIR}/warplite-config.cmake
  INSTALL_DESTINATION ${config})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/warplite-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/warplite-config.cmake
  ${PROJECT_BINARY_DIR}/warplite-config-version.cmake DESTINATION ${config})
install(EXPORT warplite NAMESPACE warplite:: FILE warplite-targets.cmake DESTINATION ${config})

set(CXX_LIBRARY "-lstdc++")
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND APPLE)
  set(CXX_LIBRARY "-lc++")
endif()
string(REGEX REPLACE "[^/]+" ".." from_lib ${CMAKE_INSTALL_LIBDIR})  # "../.." for lib/x86_64-linux-gnu
configure_file(cmake/warplite.pc.in ${PROJECT_BINARY_DIR}/warplite.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/warplite.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(CPACK_PACKAGE_NAME libsqlite3-mod-warplite)
set(CPACK_PACKAGE_VENDOR Warplite)
set(CPACK_PACKAGE_CONTACT "Warplite")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Similarity search in plain SQL: a SQLite extension")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR DEB)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "sqlite3 (>= 3.31)")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
include(CPack)
