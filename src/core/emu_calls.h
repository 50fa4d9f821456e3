/* The calls from emulated kernels (src/cuda/dev/ptx/emu) to the emulator (src/emu): one for each GPU instruction, made
 * by the thread that executes it. The header is valid C11 and C++17. `file` and `line` name the instruction's place in
 * the kernel, for reports. An address in shared memory is a number of bytes from the start of the block's shared
 * memory. The first KiB belongs to the system, as on sm_90. */
#ifndef GA_CORE_EMU_CALLS_H
#define GA_CORE_EMU_CALLS_H
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EMU_SITE const char *file, int line

/* ---- position of the thread ---- */
int emu_thread_index(void);
int emu_block_index(void);
int emu_block_count(void);
int emu_cluster_rank(void);
uint32_t emu_smem_base(void);
int64_t emu_clock_cycles(void); /* Returns a number that grows with every call. It has no unit. */

/* ---- warp: all 32 lanes ---- */
/* Returns x of lane `from` of the warp. With wrap, `from` is taken modulo 32; without wrap, the caller gets its own x
 * if `from` is outside the warp. */
uint32_t emu_shfl(uint32_t x, int from, int wrap, EMU_SITE);
uint32_t emu_shfl_xor(uint32_t x, int mask, EMU_SITE);
uint32_t emu_warp_ballot(int x, EMU_SITE);
enum { EMU_REDUX_ADD, EMU_REDUX_MIN, EMU_REDUX_MAX, EMU_REDUX_AND, EMU_REDUX_OR, EMU_REDUX_XOR };
uint32_t emu_redux(int op, int is_signed, uint32_t x, EMU_SITE);
int emu_elect(EMU_SITE);
void emu_warp_sync(EMU_SITE);
/* Load and store n (1, 2 or 4) matrices of 8 x 8 elements of 16 bits. trans: transposed. */
void emu_ldmatrix(uint32_t *r, uint32_t a, int n, int trans, EMU_SITE);
void emu_stmatrix(uint32_t a, const uint32_t *r, int n, int trans, EMU_SITE);
/* Computes d (16x8) += a (16xk) b (kx8). type is EMU_WGMMA_*. a has 4 or 2 registers, b half as many. d is int32 for
 * s8, otherwise floats. */
void emu_mma(int type, int k, void *d, const uint32_t *a, const uint32_t *b, EMU_SITE);

/* ---- barriers ---- */
void emu_mbar_init(uint32_t bar, uint32_t count, EMU_SITE);
void emu_mbar_init_fence(EMU_SITE);
/* Arrives at an mbarrier and returns 1 for the phase's last arrival. tx is the number of bytes of bulk copies that are
 * announced with the arrival. rank is the block of the cluster; -1: this block. */
int emu_mbar_arrive(uint32_t bar, uint32_t tx, int rank, EMU_SITE);
void emu_mbar_wait(uint32_t bar, uint32_t parity, EMU_SITE);
uint32_t emu_mbar_try_wait(uint32_t bar, uint32_t parity, EMU_SITE);
/* Arrives at named barrier id of n threads, and waits if wait is not 0. n 0: all threads of the block. */
void emu_bar(int id, int n, int wait, EMU_SITE);
void emu_mbar_expect(uint32_t bar, uint32_t tx, EMU_SITE);
void emu_cluster_arrive(EMU_SITE);
void emu_cluster_wait(EMU_SITE);
uint32_t emu_cluster_address(uint32_t a, uint32_t rank);
void emu_setmaxnreg(int n, int inc, EMU_SITE);
void emu_grid_wait(EMU_SITE);

/* ---- the copy engine ---- */
void emu_tmap_check(const void *map, EMU_SITE);
void emu_tmap_set_address(void *map, const void *base, EMU_SITE);
void emu_tmap_release(EMU_SITE);
void emu_tmap_acquire(const void *map, EMU_SITE);
/* Copies a box of a tensor of `rank` dimensions to shared memory. c has the coordinates of the box's first element.
 * mask has a bit for each block of the cluster that gets the box; 0: this block only. */
void emu_bulk_load_tensor(uint32_t dst, const void *map, uint32_t bar, int rank, const int32_t *c, uint32_t mask,
                          EMU_SITE);
void emu_bulk_store_tensor(int add, const void *map, uint32_t src, int rank, const int32_t *c, EMU_SITE);
void emu_bulk_load(uint32_t dst, const void *src, uint32_t bytes, uint32_t bar, EMU_SITE);
/* Ways in which a store changes global memory. The value replaces the old one or is added to it, or the larger or
 * smaller of both is kept. */
enum {
  EMU_STORE,
  EMU_ADD_F32,
  EMU_ADD_F16,
  EMU_ADD_BF16,
  EMU_ADD_I32,
  EMU_MAX_F16,
  EMU_MAX_BF16,
  EMU_MIN_F16,
  EMU_MIN_BF16
};
void emu_bulk_store(int op, void *dst, uint32_t src, uint32_t bytes, EMU_SITE);
/* Copies shared memory to another block of the cluster. dst and bar come from emu_cluster_address. */
void emu_bulk_send(uint32_t dst, uint32_t src, uint32_t bytes, uint32_t bar, EMU_SITE);
void emu_bulk_commit(EMU_SITE);
void emu_bulk_wait(int reads_only, EMU_SITE);
void emu_fence_async(EMU_SITE);
void emu_fence_async_global(EMU_SITE);

/* ---- cp.async: writes `size` bytes (4, 8 or 16), of which `bytes` are read and the rest are zero ---- */
void emu_cp_async(uint32_t dst, const void *src, int size, int bytes, EMU_SITE);
void emu_cp_commit(EMU_SITE);
void emu_cp_wait(int n, EMU_SITE); /* n -1: waits for all copies, committed or not */
void emu_cp_arrive(uint32_t bar, int inc, EMU_SITE);

/* ---- warpgroup products ---- */
enum { EMU_WGMMA_BF16, EMU_WGMMA_F16, EMU_WGMMA_E4M3, EMU_WGMMA_E5M2, EMU_WGMMA_S8, EMU_WGMMA_TF32 };
/* Issues the warpgroup product d = a b, or d += a b with acc; each thread has n / 2 registers of d. a_regs NULL:
 * operand a is read by its descriptor. trans_a, trans_b: the operand's dimension m, or n, is contiguous, not k. */
void emu_wgmma(int type, int n, void *d, const uint32_t *a_regs, uint64_t a, uint64_t b, int trans_a, int trans_b,
               int acc, EMU_SITE);
void emu_wgmma_fence(EMU_SITE);
void emu_wgmma_commit(EMU_SITE);
void emu_wgmma_wait(int n, EMU_SITE);

/* ---- memory ---- */
void emu_lds(void *r, uint32_t a, int bytes, EMU_SITE);
void emu_sts(uint32_t a, const void *x, int bytes, EMU_SITE);
void emu_loads_done(EMU_SITE); /* Notes that the thread's loads from shared memory have returned. */
void emu_ldg(void *r, const void *p, int bytes, EMU_SITE);
void emu_stg(void *p, const void *x, int bytes, EMU_SITE);
void emu_lds_cluster(void *r, uint32_t a, int bytes, EMU_SITE);
void emu_sts_cluster(uint32_t a, const void *x, int bytes, EMU_SITE);
void emu_sts_async(uint32_t a, const void *x, int bytes, uint32_t bar, EMU_SITE);
/* Load from and store to memory that other devices read and write at the same time. A thread that polls such memory
 * calls emu_peer_pause between two loads. */
void emu_ldg_peer(void *r, const void *p, int bytes, EMU_SITE);
void emu_stg_peer(void *p, const void *x, int bytes, EMU_SITE);
void emu_peer_pause(EMU_SITE);
int emu_atomic_add_i32(int32_t *p, int x, EMU_SITE);
/* Adds atomically to global memory. op is EMU_ADD_*. old gets the previous value; it may be NULL. */
void emu_atomic_add(int op, void *p, const void *x, int bytes, void *old, EMU_SITE);
void emu_fence_device(EMU_SITE);

/* ---- arithmetic that C has no operator for ---- */
float emu_ex2(float x);
float emu_lg2(float x);
float emu_rcp(float x);
float emu_tanh(float x);
/* Converts x to an 8-bit float, e5m2 or else e4m3, rounded to nearest even. Values beyond the largest become the
 * largest. */
uint32_t emu_f8(int e5m2, float x);
float emu_f32_of_f8(int e5m2, uint32_t v);

#ifdef __cplusplus
}
#endif
#endif
