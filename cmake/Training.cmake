# What the trainer needs: oneDNN, OpenMP and zlib. What may be missing is in Plugins.cmake.
add_library(pdl_training INTERFACE)

# oneDNN's own package file asks for OpenCL, which the library brings along but we do not use.
find_path(PDL_DNNL_INCLUDE oneapi/dnnl/dnnl.h)
find_library(PDL_DNNL_LIBRARY dnnl)
if(NOT PDL_DNNL_INCLUDE OR NOT PDL_DNNL_LIBRARY)
    message(FATAL_ERROR "oneDNN is missing: install libdnnl-dev (or run tools/setup.sh)")
endif()
file(STRINGS ${PDL_DNNL_INCLUDE}/oneapi/dnnl/dnnl_version.h dnnl_version REGEX "define DNNL_VERSION_(MAJOR|MINOR|PATCH) ")
string(REGEX REPLACE "[^0-9;]+" "" dnnl_version "${dnnl_version}")
list(JOIN dnnl_version "." dnnl_version)
set(PDL_DNNL_FOUND "${dnnl_version} (${PDL_DNNL_LIBRARY})")
target_include_directories(pdl_training SYSTEM INTERFACE ${PDL_DNNL_INCLUDE})
target_link_libraries(pdl_training INTERFACE ${PDL_DNNL_LIBRARY})

# oneDNN brings gcc's OpenMP library. clang would add its own, a second pool of threads that fights the first: with
# clang our own kernels are vectorised but run on one thread.
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    find_package(OpenMP REQUIRED COMPONENTS C)
    target_link_libraries(pdl_training INTERFACE OpenMP::OpenMP_C)
    set(PDL_OPENMP_FOUND "${OpenMP_C_VERSION}")
else()
    target_compile_options(pdl_training INTERFACE -fopenmp-simd)
    set(PDL_OPENMP_FOUND "vectors only: own kernels run on one thread with ${CMAKE_C_COMPILER_ID}")
endif()

find_package(ZLIB REQUIRED)
target_link_libraries(pdl_training INTERFACE ZLIB::ZLIB)

# Kernels may keep products in full precision (FMA) and need neither errno nor floating-point traps; without this,
# loops with square roots would not be vectorised.
file(GLOB_RECURSE kernel_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/tensor/cpu/*.c)
set_source_files_properties(${kernel_sources} PROPERTIES COMPILE_OPTIONS
                            "-fno-math-errno;-fno-trapping-math;-ffp-contract=fast;-Wno-psabi")
