# The checks of tools/checks as tests, and the targets `format` and `tidy`.
set(checks ${PROJECT_SOURCE_DIR}/tools/checks)

foreach(check IN ITEMS layers headers format text)
  slc_test(checks.${check} quick 60 ${checks}/${check} ${PROJECT_SOURCE_DIR})
endforeach()
slc_test(checks.detect quick 60 ${checks}/detect)

# Instrumented objects define symbols of the sanitizer's.
if(NOT SLUICE_SANITIZE AND NOT SLUICE_FUZZ)
  set(shared -)
  if(TARGET libsluice)
    set(shared $<TARGET_FILE:libsluice>)
  endif()
  set(archives)
  get_property(rooms GLOBAL PROPERTY slc_rooms)
  foreach(room IN LISTS rooms)
    list(APPEND archives $<TARGET_FILE:slc_${room}>)
  endforeach()
  slc_test(checks.symbols quick 60 ${checks}/symbols ${PROJECT_SOURCE_DIR}/include ${shared}
           ${archives})
  slc_test(checks.tidy full 1200 ${checks}/tidy ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
  set_tests_properties(checks.tidy PROPERTIES SKIP_RETURN_CODE 77)
endif()
set_tests_properties(checks.format PROPERTIES SKIP_RETURN_CODE 77)

add_custom_target(format COMMAND ${checks}/format ${PROJECT_SOURCE_DIR} -i VERBATIM)
add_custom_target(tidy COMMAND ${checks}/tidy ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}
                  USES_TERMINAL VERBATIM)
