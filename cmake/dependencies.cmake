# Libraries, all from Debian packages (docs/architecture.md says why each).
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(jansson REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(yajl REQUIRED IMPORTED_TARGET yajl)
pkg_check_modules(pcre2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(xxhash REQUIRED libxxhash)
pkg_check_modules(liburing IMPORTED_TARGET liburing) # without it only the threads backend is built
if(SLUICE_TESTS)
  pkg_check_modules(cmocka REQUIRED IMPORTED_TARGET cmocka)
endif()
