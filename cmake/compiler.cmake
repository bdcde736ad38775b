# Flags of every target: warnings, sanitizers, and arithmetic that is the same everywhere.
add_library(slc_flags INTERFACE)
target_compile_definitions(slc_flags INTERFACE _GNU_SOURCE)
target_include_directories(slc_flags INTERFACE ${PROJECT_SOURCE_DIR}/include
                                               ${PROJECT_SOURCE_DIR}/src)
# -ffp-contract=off: a fused multiply-add happens only where the source says fmaf.
target_compile_options(slc_flags INTERFACE
  -ffp-contract=off -fno-math-errno
  -Wall -Wextra -Wpedantic -Wshadow -Wundef -Wwrite-strings -Wpointer-arith -Wcast-qual
  -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wformat=2 -Wno-unused-parameter -Wno-missing-field-initializers
  $<$<C_COMPILER_ID:Clang>:-Wno-gnu-zero-variadic-macro-arguments>)
if(SLUICE_WERROR)
  target_compile_options(slc_flags INTERFACE -Werror)
endif()
if(SLUICE_FUZZ)
  target_compile_options(slc_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(SLUICE_SANITIZE)
  target_compile_options(slc_flags INTERFACE -fsanitize=${SLUICE_SANITIZE} -fno-omit-frame-pointer
                                             -fno-sanitize-recover=all)
  target_link_options(slc_flags INTERFACE -fsanitize=${SLUICE_SANITIZE})
endif()
