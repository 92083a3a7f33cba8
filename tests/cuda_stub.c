/* The few functions of libcudart and libcublas that the reference workload calls, on host memory, for machines without a
 * GPU: built twice, with STUB_RUNTIME and with STUB_BLAS. They do the work, check what they are given, and write each
 * call to the file that CUDA_STUB_LOG names. CUDA_STUB_FAIL, `cudaMalloc=2` or `cudaMalloc=2@5`, makes a function
 * answer a code, from its fifth call on. With STUB_HEADERS the declarations are those of NVIDIA's headers, and a
 * definition that differs from them does not compile. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef STUB_HEADERS
#include <cuda_runtime_api.h>
#include <cublas_api.h>
#else
typedef int cudaError_t;
typedef void *cudaStream_t;
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3 };
enum cudaDeviceAttr { cudaDevAttrL2CacheSize = 38 };
enum { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorMemoryAllocation = 2, cudaErrorIllegalAddress = 700 };
enum { cudaStreamNonBlocking = 1 };
typedef int cublasStatus_t, cublasOperation_t, cudaDataType, cublasComputeType_t, cublasGemmAlgo_t;
typedef void *cublasHandle_t;
enum { CUBLAS_STATUS_SUCCESS = 0, CUBLAS_STATUS_INVALID_VALUE = 7, CUBLAS_STATUS_EXECUTION_FAILED = 13 };
enum { CUBLAS_OP_N = 0, CUBLAS_COMPUTE_32F = 68, CUBLAS_GEMM_DEFAULT = -1, CUDA_R_16F = 2 };
#endif

_Static_assert(cudaMemcpyHostToDevice == 1 && cudaMemcpyDeviceToHost == 2 && cudaMemcpyDeviceToDevice == 3, "kinds");
_Static_assert(cudaDevAttrL2CacheSize == 38 && cudaStreamNonBlocking == 1, "the runtime's numbers");
_Static_assert(CUBLAS_OP_N == 0 && CUBLAS_COMPUTE_32F == 68 && CUBLAS_GEMM_DEFAULT == -1, "cuBLAS's numbers");
_Static_assert(CUDA_R_16F == 2, "the number of float16");

static long setting(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}

/* Writes a call and returns the code that it must answer, 0 where it may do its work. */
static int called(const char *function, int *count, const char *format, ...) {
    const char *path = getenv("CUDA_STUB_LOG"), *fail = getenv("CUDA_STUB_FAIL");
    size_t length = strlen(function);
    ++*count;
    if (path) {
        FILE *log = fopen(path, "a");
        va_list arguments;
        va_start(arguments, format);
        fprintf(log, "%s", function);
        vfprintf(log, format, arguments);
        fputc('\n', log);
        va_end(arguments);
        fclose(log);
    }
    if (!fail || strncmp(fail, function, length) || fail[length] != '=') return 0;
    const char *from = strchr(fail, '@');
    return *count >= (from ? atoi(from + 1) : 1) ? atoi(fail + length + 1) : 0;
}

#define CALLED(function, ...) static int count_; int code_ = called(function, &count_, __VA_ARGS__)

#ifdef STUB_RUNTIME
#define MOST 64
static struct { char *begin; size_t size; } memory[MOST];
static int last_error, stream_place;

static cudaError_t answered(int code) {
    if (code) last_error = code;
    return (cudaError_t)code;
}

static int is_on_device(const void *address, size_t size) {
    const char *at = address;
    for (int i = 0; i < MOST; ++i)
        if (memory[i].begin && at >= memory[i].begin && at + size <= memory[i].begin + memory[i].size) return 1;
    return 0;
}

const char *cudaGetErrorName(cudaError_t error) {
    switch ((int)error) {
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    case 100: return "cudaErrorNoDevice";
    default: return "cudaErrorInvalidValue";
    }
}

cudaError_t cudaGetLastError(void) {
    CALLED("cudaGetLastError", " %d", last_error);
    (void)code_;
    int code = last_error;
    last_error = 0;
    return (cudaError_t)code;
}

cudaError_t cudaSetDevice(int device) {
    CALLED("cudaSetDevice", " %d", device);
    return answered(code_);
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device) {
    CALLED("cudaDeviceGetAttribute", " %d %d", attr, device);
    if (!code_) *value = (int)setting("CUDA_STUB_L2_KIB", 1024) * 1024;
    return answered(code_);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total) {
    CALLED("cudaMemGetInfo", "");
    *total = (size_t)8 << 30;
    *free_bytes = (size_t)setting("CUDA_STUB_FREE_MIB", 4096) << 20;
    for (int i = 0; i < MOST; ++i) *free_bytes -= memory[i].size;
    return answered(code_);
}

cudaError_t cudaMalloc(void **devPtr, size_t size) {
    CALLED("cudaMalloc", " %zu", size);
    if (code_) return answered(code_);
    for (int i = 0; i < MOST; ++i)
        if (!memory[i].begin) {
            memory[i].begin = malloc(size);
            memory[i].size = size;
            *devPtr = memset(memory[i].begin, 0x7e, size); /* NaN in float16: what is not written is seen */
            return cudaSuccess;
        }
    return answered(cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void *devPtr) {
    CALLED("cudaFree", "");
    if (code_) return answered(code_);
    for (int i = 0; i < MOST; ++i)
        if (memory[i].begin == devPtr) {
            free(memory[i].begin);
            memory[i].begin = NULL;
            memory[i].size = 0;
            return cudaSuccess;
        }
    return answered(cudaErrorInvalidValue);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *pStream, unsigned int flags) {
    CALLED("cudaStreamCreateWithFlags", " %u", flags);
    if (!code_) *pStream = (cudaStream_t)&stream_place;
    return answered(code_);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    CALLED("cudaStreamDestroy", "");
    return answered(code_ ? code_ : stream == (cudaStream_t)&stream_place ? 0 : cudaErrorInvalidValue);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    CALLED("cudaStreamSynchronize", "");
    return answered(code_ ? code_ : stream == (cudaStream_t)&stream_place ? 0 : cudaErrorInvalidValue);
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind, cudaStream_t stream) {
    CALLED("cudaMemcpyAsync", " %zu %d", count, kind);
    if (code_) return answered(code_);
    if (stream != (cudaStream_t)&stream_place) return answered(cudaErrorInvalidValue);
    if (is_on_device(dst, count) != (kind != cudaMemcpyDeviceToHost)) return answered(cudaErrorInvalidValue);
    if (is_on_device(src, count) != (kind != cudaMemcpyHostToDevice)) return answered(cudaErrorInvalidValue);
    memcpy(dst, src, count);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *devPtr, int value, size_t count, cudaStream_t stream) {
    CALLED("cudaMemsetAsync", " %d %zu", value, count);
    if (code_) return answered(code_);
    if (stream != (cudaStream_t)&stream_place || !is_on_device(devPtr, count)) return answered(cudaErrorInvalidValue);
    memset(devPtr, value, count);
    return cudaSuccess;
}
#endif

#ifdef STUB_BLAS
static int handle_place;
static cudaStream_t stream_of_handle;

/* Whole numbers alone, which is what there is to multiply. */
static float from_half(uint16_t bits) {
    int exponent = bits >> 10 & 31;
    float value = exponent ? (float)(1024 + (bits & 1023)) / 1024 : 0;
    for (; exponent > 15; --exponent) value *= 2;
    for (; exponent && exponent < 15; ++exponent) value /= 2;
    return bits >> 15 ? -value : value;
}

static uint16_t to_half(float value) {
    uint16_t sign = value < 0 ? 1 << 15 : 0;
    int exponent = 15;
    if (sign) value = -value;
    if (value == 0) return 0;
    for (; value >= 2; ++exponent) value /= 2;
    return (uint16_t)(sign | exponent << 10 | (int)((value - 1) * 1024));
}

const char *cublasGetStatusName(cublasStatus_t status) {
    return status == CUBLAS_STATUS_EXECUTION_FAILED ? "CUBLAS_STATUS_EXECUTION_FAILED" : "CUBLAS_STATUS_INVALID_VALUE";
}

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle) {
    CALLED("cublasCreate_v2", "");
    if (!code_) *handle = (cublasHandle_t)&handle_place;
    return (cublasStatus_t)code_;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
    CALLED("cublasDestroy_v2", "");
    return handle == (cublasHandle_t)&handle_place ? (cublasStatus_t)code_ : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t streamId) {
    CALLED("cublasSetStream_v2", "");
    stream_of_handle = streamId;
    return handle == (cublasHandle_t)&handle_place ? (cublasStatus_t)code_ : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasGetVersion_v2(cublasHandle_t handle, int *version) {
    CALLED("cublasGetVersion_v2", "");
    *version = (int)setting("CUDA_STUB_CUBLAS", 120903);
    return handle == (cublasHandle_t)&handle_place ? (cublasStatus_t)code_ : CUBLAS_STATUS_INVALID_VALUE;
}

static float *columns(const uint16_t *matrix, int rows, int count, int leading) {
    float *result = malloc(sizeof(float) * (size_t)rows * (size_t)count);
    for (int j = 0; j < count; ++j)
        for (int i = 0; i < rows; ++i) result[i + (size_t)j * rows] = from_half(matrix[i + (size_t)j * leading]);
    return result;
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n,
                            int k, const void *alpha, const void *A, cudaDataType Atype, int lda, const void *B,
                            cudaDataType Btype, int ldb, const void *beta, void *C, cudaDataType Ctype, int ldc,
                            cublasComputeType_t computeType, cublasGemmAlgo_t algo) {
    CALLED("cublasGemmEx", " %d %d %d", m, n, k);
    if (code_) return (cublasStatus_t)code_;
    if (handle != (cublasHandle_t)&handle_place || !stream_of_handle || transa != CUBLAS_OP_N ||
        transb != CUBLAS_OP_N || Atype != CUDA_R_16F || Btype != CUDA_R_16F || Ctype != CUDA_R_16F || lda < m ||
        ldb < k || ldc < m || computeType != CUBLAS_COMPUTE_32F || algo != CUBLAS_GEMM_DEFAULT ||
        *(const float *)alpha != 1.0f || *(const float *)beta != 0.0f)
        return CUBLAS_STATUS_INVALID_VALUE;
    float *a = columns(A, m, k, lda), *b = columns(B, k, n, ldb), *sum = malloc(sizeof(float) * (size_t)m);
    for (int j = 0; j < n; ++j) {
        memset(sum, 0, sizeof(float) * (size_t)m);
        for (int l = 0; l < k; ++l)
            for (int i = 0; i < m; ++i) sum[i] += a[i + (size_t)l * m] * b[l + (size_t)j * k];
        for (int i = 0; i < m; ++i) ((uint16_t *)C)[i + (size_t)j * ldc] = to_half(sum[i]);
    }
    free(a);
    free(b);
    free(sum);
    return CUBLAS_STATUS_SUCCESS;
}
#endif
