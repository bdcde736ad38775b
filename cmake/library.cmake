# libsluice: the engine as a library for other programs, and what `cmake --install` puts where.
#
# The shared library consists of the same objects as the program: those of the rooms that hold
# public functions, and whatever these pull from the others. Visibility is hidden throughout, so
# that SLC_API alone decides what is exported. Before version 1.0 a minor version
# may change the interface, hence the two numbers in the soname.
include(GNUInstallDirs)

option(SLUICE_STATIC_LIB "Build libsluice.a beside the shared library" OFF)

file(STRINGS ${PROJECT_SOURCE_DIR}/include/sluice/sluice.h header_version
     REGEX "^#define SLC_VERSION ")
if(NOT header_version STREQUAL "#define SLC_VERSION \"${PROJECT_VERSION}\"")
  message(FATAL_ERROR "include/sluice/sluice.h says '${header_version}', "
                      "CMakeLists.txt says version ${PROJECT_VERSION}")
endif()

if(NOT TARGET slc_engine)
  return()
endif()

add_library(libsluice SHARED $<TARGET_OBJECTS:slc_base> $<TARGET_OBJECTS:slc_engine>
                             $<TARGET_OBJECTS:slc_convert>)
target_link_libraries(libsluice PRIVATE slc_engine slc_convert)
set_target_properties(libsluice PROPERTIES
  OUTPUT_NAME sluice
  LINKER_LANGUAGE C
  VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
install(TARGETS libsluice LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})

if(SLUICE_STATIC_LIB)
  set(objects)
  get_property(rooms GLOBAL PROPERTY slc_rooms)
  list(REMOVE_ITEM rooms cli)
  foreach(room IN LISTS rooms)
    list(APPEND objects $<TARGET_OBJECTS:slc_${room}>)
  endforeach()
  add_library(libsluice_static STATIC ${objects})
  set_target_properties(libsluice_static PROPERTIES
    OUTPUT_NAME sluice
    LINKER_LANGUAGE C
    ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  install(TARGETS libsluice_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()

# For static linking, `pkg-config --static` must name what the objects use.
set(pc_requires "jansson yajl libpcre2-8 libutf8proc")
if(liburing_FOUND)
  string(APPEND pc_requires " liburing")
endif()
file(RELATIVE_PATH pc_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${PROJECT_SOURCE_DIR}/cmake/sluice.pc.in ${PROJECT_BINARY_DIR}/sluice.pc @ONLY)

install(FILES ${PROJECT_BINARY_DIR}/sluice.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/sluice DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
if(TARGET sluice)
  install(TARGETS sluice RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
