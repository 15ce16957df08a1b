# What the trainer needs: OpenMP and zlib. What may be missing is in Plugins.cmake.
add_library(pdl_training INTERFACE)

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

# But what an update does to an element has the same bits on GPUs (Cuda.cmake), which update what the host has, or the host what they send.
foreach(source update vector)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/src/tensor/cpu/pointwise/${source}.c PROPERTIES COMPILE_OPTIONS
                                "-fno-math-errno;-fno-trapping-math;-ffp-contract=off;-Wno-psabi")
endforeach()
