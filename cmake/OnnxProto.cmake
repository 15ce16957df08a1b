# Generates onnx.pb-c.{h,c} from the onnx.proto of the system's packages.
find_file(PDL_ONNX_PROTO onnx/onnx.proto PATH_SUFFIXES include
          DOC "onnx.proto, from the package libonnx-dev" NO_CACHE)
find_program(PDL_PROTOC_C protoc-c DOC "the compiler of protobuf-c")
if(NOT PDL_ONNX_PROTO)
    message(FATAL_ERROR "onnx/onnx.proto is not found: install libonnx-dev")
endif()
if(NOT PDL_PROTOC_C)
    message(FATAL_ERROR "protoc-c is not found: install protobuf-c-compiler")
endif()

# protoc-c names its output after the path it is given, hence the copy.
set(onnx_dir ${PROJECT_BINARY_DIR}/onnx)
file(MAKE_DIRECTORY ${onnx_dir})
add_custom_command(
    OUTPUT ${onnx_dir}/onnx.pb-c.c ${onnx_dir}/onnx.pb-c.h
    COMMAND ${CMAKE_COMMAND} -E copy ${PDL_ONNX_PROTO} ${onnx_dir}/onnx.proto
    COMMAND ${PDL_PROTOC_C} --proto_path=${onnx_dir} --c_out=${onnx_dir} ${onnx_dir}/onnx.proto
    DEPENDS ${PDL_ONNX_PROTO}
    COMMENT "Generating onnx.pb-c.c"
    VERBATIM)

# Generated code is not held to our warnings, but it is held to our sanitizers.
add_library(pdl_onnx_proto OBJECT ${onnx_dir}/onnx.pb-c.c)
target_link_libraries(pdl_onnx_proto PRIVATE PkgConfig::PROTOBUF_C pdl_options)
target_compile_options(pdl_onnx_proto PRIVATE -w)
add_dependencies(pdl_objects pdl_onnx_proto)
target_include_directories(pdl_objects SYSTEM PUBLIC ${onnx_dir})
