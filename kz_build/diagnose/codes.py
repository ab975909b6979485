"""Numbers in logs, and their names. Each table says where its names are from."""

from __future__ import annotations

from kz_build.formats.soc import ARCH

EXECUTORCH = {
    0x00: "Ok",
    0x01: "Internal",
    0x02: "InvalidState",
    0x03: "EndOfMethod",
    0x04: "AlreadyLoaded",
    0x10: "NotSupported",
    0x11: "NotImplemented",
    0x12: "InvalidArgument",
    0x13: "InvalidType",
    0x14: "OperatorMissing",
    0x15: "RegistrationExceedingMaxKernels",
    0x16: "RegistrationAlreadyRegistered",
    0x20: "NotFound",
    0x21: "MemoryAllocationFailed",
    0x22: "AccessFailed",
    0x23: "InvalidProgram",
    0x24: "InvalidExternalData",
    0x25: "OutOfResources",
    0x30: "DelegateInvalidCompatibility",
    0x31: "DelegateMemoryAllocationFailed",
    0x32: "DelegateInvalidHandle",
}
"""ExecuTorch's runtime/core/error.h: the same in v1.2.0 and v1.4.1, which a test compares."""

TOKENIZERS = {
    1: "Internal",
    2: "Uninitialized",
    3: "OutOfRange",
    4: "LoadFailure",
    5: "EncodeFailure",
    6: "Base64DecodeFailure",
    7: "ParseFailure",
    8: "DecodeFailure",
    9: "RegexFailure",
}
"""include/pytorch/tokenizers/error.h of https://github.com/meta-pytorch/tokenizers."""

QNN = {
    1000: "QNN_COMMON_ERROR_NOT_SUPPORTED",
    1002: "QNN_COMMON_ERROR_MEM_ALLOC",
    1003: "QNN_COMMON_ERROR_SYSTEM",
    1004: "QNN_COMMON_ERROR_INVALID_ARGUMENT",
    1005: "QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED",
    1006: "QNN_COMMON_ERROR_PLATFORM_NOT_SUPPORTED",
    1007: "QNN_COMMON_ERROR_SYSTEM_COMMUNICATION",
    1008: "QNN_COMMON_ERROR_INCOMPATIBLE_BINARIES",
    1009: "QNN_COMMON_ERROR_LOADING_BINARIES",
    1010: "QNN_COMMON_ERROR_RESOURCE_UNAVAILABLE",
    1011: "QNN_COMMON_ERROR_SYSTEM_COMMUNICATION_FATAL",
    1100: "QNN_COMMON_ERROR_GENERAL",
    2000: "QNN_PROPERTY_ERROR_UNKNOWN_KEY",
    3000: "QNN_OP_PACKAGE_ERROR_LIBRARY_ALREADY_INITIALIZED",
    3001: "QNN_OP_PACKAGE_ERROR_LIBRARY_NOT_INITIALIZED",
    3002: "QNN_OP_PACKAGE_ERROR_INVALID_HANDLE",
    3100: "QNN_OP_PACKAGE_ERROR_INVALID_INFRASTRUCTURE",
    3101: "QNN_OP_PACKAGE_ERROR_INVALID_INFO",
    3110: "QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE",
    3200: "QNN_OP_PACKAGE_ERROR_INVALID_ARGUMENT",
    4000: "QNN_BACKEND_ERROR_CANNOT_INITIALIZE",
    4002: "QNN_BACKEND_ERROR_TERMINATE_FAILED",
    4003: "QNN_BACKEND_ERROR_NOT_SUPPORTED",
    4004: "QNN_BACKEND_ERROR_INVALID_ARGUMENT",
    4005: "QNN_BACKEND_ERROR_OP_PACKAGE_NOT_FOUND",
    4006: "QNN_BACKEND_ERROR_OP_PACKAGE_IF_PROVIDER_NOT_FOUND",
    4007: "QNN_BACKEND_ERROR_OP_PACKAGE_REGISTRATION_FAILED",
    4008: "QNN_BACKEND_ERROR_OP_PACKAGE_UNSUPPORTED_VERSION",
    4009: "QNN_BACKEND_ERROR_OP_PACKAGE_DUPLICATE",
    4010: "QNN_BACKEND_ERROR_INCONSISTENT_CONFIG",
    4011: "QNN_BACKEND_ERROR_INVALID_HANDLE",
    4012: "QNN_BACKEND_ERROR_INVALID_CONFIG",
    5000: "QNN_CONTEXT_ERROR_INVALID_ARGUMENT",
    5001: "QNN_CONTEXT_ERROR_CTX_DOES_NOT_EXIST",
    5002: "QNN_CONTEXT_ERROR_INVALID_HANDLE",
    5003: "QNN_CONTEXT_ERROR_NOT_FINALIZED",
    5004: "QNN_CONTEXT_ERROR_BINARY_VERSION",
    5005: "QNN_CONTEXT_ERROR_CREATE_FROM_BINARY",
    5006: "QNN_CONTEXT_ERROR_GET_BINARY_SIZE_FAILED",
    5007: "QNN_CONTEXT_ERROR_GET_BINARY_FAILED",
    5008: "QNN_CONTEXT_ERROR_BINARY_CONFIGURATION",
    5009: "QNN_CONTEXT_ERROR_SET_PROFILE",
    5010: "QNN_CONTEXT_ERROR_INVALID_CONFIG",
    5011: "QNN_CONTEXT_ERROR_BINARY_SUBOPTIMAL",
    5012: "QNN_CONTEXT_ERROR_ABORTED",
    5013: "QNN_CONTEXT_ERROR_TIMED_OUT",
    5014: "QNN_CONTEXT_ERROR_INCREMENT_INVALID_BUFFER",
    6000: "QNN_GRAPH_ERROR_INVALID_ARGUMENT",
    6001: "QNN_GRAPH_ERROR_INVALID_HANDLE",
    6002: "QNN_GRAPH_ERROR_GRAPH_DOES_NOT_EXIST",
    6003: "QNN_GRAPH_ERROR_INVALID_NAME",
    6004: "QNN_GRAPH_ERROR_INVALID_TENSOR",
    6005: "QNN_GRAPH_ERROR_INVALID_OP_CONFIG",
    6006: "QNN_GRAPH_ERROR_SET_PROFILE",
    6007: "QNN_GRAPH_ERROR_UNCONNECTED_NODE",
    6020: "QNN_GRAPH_ERROR_CREATE_FAILED",
    6021: "QNN_GRAPH_ERROR_OPTIMIZATION_FAILED",
    6022: "QNN_GRAPH_ERROR_FINALIZE_FAILED",
    6023: "QNN_GRAPH_ERROR_GRAPH_NOT_FINALIZED",
    6024: "QNN_GRAPH_ERROR_GRAPH_FINALIZED",
    6025: "QNN_GRAPH_ERROR_EXECUTION_ASYNC_FIFO_FULL",
    6030: "QNN_GRAPH_ERROR_SIGNAL_IN_USE",
    6031: "QNN_GRAPH_ERROR_ABORTED",
    6032: "QNN_GRAPH_ERROR_PROFILE_IN_USE",
    6033: "QNN_GRAPH_ERROR_TIMED_OUT",
    6034: "QNN_GRAPH_ERROR_SUBGRAPH",
    6035: "QNN_GRAPH_ERROR_DISABLED",
    6036: "QNN_GRAPH_ERROR_DYNAMIC_TENSOR_SHAPE",
    6037: "QNN_GRAPH_ERROR_TENSOR_SPARSITY",
    6038: "QNN_GRAPH_ERROR_EARLY_TERMINATION",
    6039: "QNN_GRAPH_ERROR_INVALID_CONTEXT",
    7001: "QNN_TENSOR_ERROR_INVALID_HANDLE",
    7002: "QNN_TENSOR_ERROR_DOES_NOT_EXIST",
    7003: "QNN_TENSOR_ERROR_ALREADY_EXISTS",
    7004: "QNN_TENSOR_ERROR_INVALID_TENSOR_PARAM",
    7005: "QNN_TENSOR_ERROR_UNSUPPORTED_TENSOR_PARAM",
    7006: "QNN_TENSOR_ERROR_NAME_HASH_COLLISION",
    7007: "QNN_TENSOR_ERROR_INCOMPATIBLE_TENSOR_UPDATE",
    8000: "QNN_MEM_ERROR_INVALID_ARGUMENT",
    8001: "QNN_MEM_ERROR_INVALID_HANDLE",
    8002: "QNN_MEM_ERROR_ALREADY_REGISTERED",
    8003: "QNN_MEM_ERROR_MAPPING",
    8004: "QNN_MEM_ERROR_INVALID_SHAPE",
    8005: "QNN_MEM_ERROR_UNSUPPORTED_MEMTYPE",
    9000: "QNN_SIGNAL_ERROR_SIGNAL_IN_USE",
    9001: "QNN_SIGNAL_ERROR_SIGNAL_IDLE",
    9002: "QNN_SIGNAL_ERROR_INVALID_ARGUMENT",
    9003: "QNN_SIGNAL_ERROR_INVALID_HANDLE",
    9004: "QNN_SIGNAL_ERROR_TIMEOUT",
    9005: "QNN_SIGNAL_ERROR_INCOMPATIBLE_SIGNAL_TYPE",
    10000: "QNN_ERROR_INVALID_ARGUMENT",
    10001: "QNN_ERROR_INVALID_ERROR_HANDLE",
    11002: "QNN_LOG_ERROR_INITIALIZATION",
    11003: "QNN_LOG_ERROR_INVALID_ARGUMENT",
    11004: "QNN_LOG_ERROR_INVALID_HANDLE",
    12000: "QNN_PROFILE_ERROR_INVALID_HANDLE",
    12001: "QNN_PROFILE_ERROR_HANDLE_IN_USE",
    12002: "QNN_PROFILE_ERROR_INCOMPATIBLE_EVENT",
    14000: "QNN_DEVICE_ERROR_INVALID_HANDLE",
    14001: "QNN_DEVICE_ERROR_INVALID_CONFIG",
    14002: "QNN_DEVICE_ERROR_HARDWARE_UNAVAILABLE",
    14003: "QNN_DEVICE_ERROR_ASSOCIATED_TO_CONTEXT",
    15000: "QNN_GLOBAL_CONFIG_ERROR_INVALID_CONFIG",
    30000: "QNN_SYSTEM_CONTEXT_ERROR_INVALID_HANDLE",
    30001: "QNN_SYSTEM_CONTEXT_ERROR_INVALID_ARGUMENT",
    30002: "QNN_SYSTEM_CONTEXT_ERROR_OPERATION_FAILED",
    30010: "QNN_SYSTEM_CONTEXT_ERROR_MALFORMED_BINARY",
}
"""Names that QNN's public headers give, of 2.43: https://github.com/chuzcjoe/qnnx/tree/4d4c8dc5ed142883ddc75e567d9d33a5cd4e61d7/include/QNN."""

QNN_PARTS = {
    range(1000, 2000): "common",
    range(2000, 3000): "property",
    range(3000, 4000): "op package",
    range(4000, 5000): "backend",
    range(5000, 6000): "context",
    range(6000, 7000): "graph",
    range(7000, 8000): "tensor",
    range(8000, 9000): "mem",
    range(9000, 10000): "signal",
    range(10000, 11000): "error",
    range(11000, 12000): "log",
    range(12000, 13000): "profile",
    range(13000, 14000): "performance infrastructure",
    range(14000, 15000): "device",
    range(15000, 16000): "global config",
    range(30000, 50000): "system",
    range(60000, 61000): "interface",
}
"""The part of QNN that a code without a known name is from: QNN_MIN_ERROR_… and QNN_MAX_ERROR_… of the same QnnCommon.h."""

SIGNALS = {
    4: "SIGILL, an instruction that this processor does not have",
    5: "SIGTRAP, it stopped itself at a check that must not fail",
    6: "SIGABRT, it stopped itself at a failed check",
    7: "SIGBUS, memory behind a file that became shorter, or an address that is not aligned",
    8: "SIGFPE, an impossible calculation",
    9: "SIGKILL, killed from outside, nearly always for its memory",
    11: "SIGSEGV, an access to memory that it does not have",
    13: "SIGPIPE, the reader of its output is gone",
    15: "SIGTERM, somebody asked it to end",
    31: "SIGSYS, a system call that is not allowed",
}
"""Linux on arm64 and x86_64: signal(7). A shell's exit code is 128 more, Python's subprocess has it negative."""

FASTRPC = {
    0x01: "EFAILED, a general failure",
    0x02: "ENOMEMORY, no memory on the DSP",
    0x04: "EVERSIONNOTSUPPORT, a version that is not supported",
    0x06: "EUNABLETOLOAD, a library that the DSP cannot load",
    0x0D: "EBADSTATE, a process that is not in the expected state",
    0x0E: "EBADPARM, an invalid parameter",
    0x10: "EBADITEM, a value out of range",
    0x14: "EUNSUPPORTED, a function that is not there",
    0x15: "EPRIVLEVEL, too few rights",
    0x16: "ERESOURCENOTFOUND",
    0x1D: "EMEMPTR, a bad pointer",
    0x26: "EBUFFERTOOSMALL",
    0x2B: "ENOTALLOWED",
    0x2C: "EINVHANDLE, an invalid handle",
    0x2D: "EOUTOFHANDLES",
    0x30: "ECPUEXCEPTION, an exception on the DSP",
    0x39: "EINVALIDDOMAIN, no such DSP",
    0x3A: "EINVALIDFD",
    0x3B: "EINVALIDDEVICE, the DSP's device does not open",
    0x3C: "EINVALIDMODE",
    0x3E: "ENOSUCHMOD, no such module",
    0x41: "ENOSUCHPROCESS",
    0x42: "ENOSUCHSYMBOL, a function that the library does not have",
    0x43: "ENOSUCHDEVICE",
    0x45: "ENOSUCHFILE",
    0x46: "ENOSUCHHANDLE",
    0x48: "ENOSUCHMAP, memory that is not mapped",
    0x4B: "EBADDOMAIN, a DSP that is not started",
    0x4E: "EBADPERMS, permissions of a file or of memory",
    0x52: "EBADELF, a library of another kind",
    0x56: "EIOCTL",
    0x57: "EFOPEN, a file or the DSP's device does not open",
    0x65: "EMMAP, memory that cannot be mapped",
    0x67: "EIONALLOC, no memory for the buffer",
    0x68: "ENORPCMEMORY, no shared memory",
    0x69: "ENOROOTOFTRUST",
    0x6B: "ENOTINITIALIZED",
    0x6C: "EUNSUPPORTEDAPI, a function that is not there",
    0x72: "ECONNREFUSED, the DSP refuses",
    0x81: "EUNSIGNEDMOD, a library without signature",
    0x82: "EINVALIDHASH, a library with a wrong signature",
    0x8A: "ENOSESSION, no session is free",
    0x14B: "EQURTTHREADCREATE, no thread on the DSP",
    0x14F: "EQURTBADASID",
    0x194: "ESTUBSKELVERMISMATCH, stub and skel of two versions",
    0x200: "ERPC, a fault of FastRPC",
    0x201: "EFILE, a file",
}
"""AEE_… of FastRPC's AEEStdErr.h, https://github.com/qualcomm/fastrpc; on the DSP and on Android 0x80000400 is added."""
FASTRPC_OFFSET = 0x80000400
FASTRPC_HOST = {
    0x27: "ENOSUCH",
    0x2E: "EINTERRUPTED, the DSP's process ended",
    0x68: "ECONNRESET, the connection was reset",
}
"""Codes of the same header that never have the offset."""

OPENCL = {
    -1: "CL_DEVICE_NOT_FOUND",
    -2: "CL_DEVICE_NOT_AVAILABLE",
    -3: "CL_COMPILER_NOT_AVAILABLE",
    -4: "CL_MEM_OBJECT_ALLOCATION_FAILURE",
    -5: "CL_OUT_OF_RESOURCES",
    -6: "CL_OUT_OF_HOST_MEMORY",
    -9: "CL_IMAGE_FORMAT_MISMATCH",
    -10: "CL_IMAGE_FORMAT_NOT_SUPPORTED",
    -11: "CL_BUILD_PROGRAM_FAILURE",
    -12: "CL_MAP_FAILURE",
    -13: "CL_MISALIGNED_SUB_BUFFER_OFFSET",
    -14: "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST",
    -15: "CL_COMPILE_PROGRAM_FAILURE",
    -17: "CL_LINK_PROGRAM_FAILURE",
    -30: "CL_INVALID_VALUE",
    -32: "CL_INVALID_PLATFORM",
    -33: "CL_INVALID_DEVICE",
    -34: "CL_INVALID_CONTEXT",
    -36: "CL_INVALID_COMMAND_QUEUE",
    -38: "CL_INVALID_MEM_OBJECT",
    -39: "CL_INVALID_IMAGE_FORMAT_DESCRIPTOR",
    -40: "CL_INVALID_IMAGE_SIZE",
    -42: "CL_INVALID_BINARY",
    -43: "CL_INVALID_BUILD_OPTIONS",
    -44: "CL_INVALID_PROGRAM",
    -45: "CL_INVALID_PROGRAM_EXECUTABLE",
    -46: "CL_INVALID_KERNEL_NAME",
    -48: "CL_INVALID_KERNEL",
    -49: "CL_INVALID_ARG_INDEX",
    -50: "CL_INVALID_ARG_VALUE",
    -51: "CL_INVALID_ARG_SIZE",
    -52: "CL_INVALID_KERNEL_ARGS",
    -54: "CL_INVALID_WORK_GROUP_SIZE",
    -55: "CL_INVALID_WORK_ITEM_SIZE",
    -58: "CL_INVALID_EVENT",
    -59: "CL_INVALID_OPERATION",
    -61: "CL_INVALID_BUFFER_SIZE",
    -1001: "CL_PLATFORM_NOT_FOUND_KHR",
}
"""Khronos' cl.h and cl_ext.h: https://github.com/KhronosGroup/OpenCL-Headers."""

TABLES = ("executorch", "tokenizers", "qnn", "signal", "fastrpc", "opencl", "htp")


def decode(table: str, text: str) -> str:
    """Return a number of a log with its other form and its name; the text itself if it is no number.

    ExecuTorch's error.h is in hexadecimal, while apps print decimal numbers: where both readings of a decimal are codes, the
    wrong one is named too.
    """
    text = text.replace("0x:", "0x")  # as ExecuTorch's Python binding prints it
    hexadecimal = text[:2].lower() == "0x"
    try:
        number = int(text, 16 if hexadecimal else 10)
    except ValueError:
        return text
    both = f"{text} = {number}" if hexadecimal else f"{text} = {number:#x}"
    if table == "executorch":
        other = "" if hexadecimal else EXECUTORCH.get(int(text, 16), "")
        wrong = f" (not 0x{text} {other})" if other else ""
        return f"{both} {EXECUTORCH.get(number, 'unknown to ExecuTorch')}{wrong}"
    if table == "tokenizers":
        return f"{text} {TOKENIZERS.get(number, 'unknown')}"
    if table == "qnn":
        part = next((part for codes, part in QNN_PARTS.items() if number in codes), "")
        return f"{both} {QNN.get(number) or (f'from QNN {part}' if part else 'unknown to QNN')}"
    if table == "opencl":
        return f"{text} {OPENCL.get(number, 'unknown to OpenCL')}"
    if table == "fastrpc":
        plain = number - FASTRPC_OFFSET if number >= FASTRPC_OFFSET else number
        name = FASTRPC.get(plain) if plain != number else FASTRPC_HOST.get(number) or FASTRPC.get(number)
        return f"{text} = AEE_{name}" if name else text
    if table == "signal":
        return f"{text} {SIGNALS.get(number - 128 if number > 128 else abs(number), 'unknown')}"
    socs = [soc for soc, arch in ARCH.items() if arch == f"v{number}"]
    return f"v{number} ({', '.join(socs) or 'no SoC that kz knows'})"
