/* Two blocks: the first copies each tile to both, the second releases its copy at the first one's barrier; both add up what they see. */
#include "cuda/dev/ptx/barrier.h"
#include "cuda/dev/ptx/bulk.h"
#include "cuda/dev/ptx/mem.h"
#include "tests/emu/plant.h"

#define IS(p) (a->plant == PLANT_##p)
#define FULL (sb + PLANT_OFF_BARS)
#define EMPTY (sb + PLANT_OFF_BARS + 8)

GA_DEV int sum_tile(uint32_t sb, int t)
{
    const ga_i4 x = lds_i4(sb + 16 * t);
    return x.x + x.y + x.z + x.w;
}

GA_KERNEL(128, 1) GA_KERNEL_ID(GA_GRID_CONST plant_args args)
{
    const plant_args *a = &args;
    const uint32_t sb = smem_base(), rank = cluster_rank();
    const int t = thread_index();
    int sum = 0;
    if (t == 0) {
        mbar_init(FULL, 1);
        mbar_init(EMPTY, 2);
        mbar_init_fence();
    }
    if (IS(NO_CLUSTER_SYNC)) block_sync();
    else cluster_sync();
    for (int k = 0; k < a->steps; k++) {
        if (t == 0) mbar_arrive_expect(FULL, PLANT_B_BYTES);
        if (rank == 0 && t == 0) {
            if (!IS(NO_REMOTE_WAIT)) mbar_wait(EMPTY, (k & 1) ^ 1);
            bulk_load_4d_multicast(sb, &a->b, FULL, k * 64, 0, 0, 0, IS(NO_SUCH_BLOCK) ? 7 : 3, L2_EVICT_LAST);
        }
        if (IS(LEAVES_EARLY) && rank == 1) return;
        mbar_wait(FULL, k & 1);
        sum += sum_tile(sb, t);
        block_sync();
        if (t == 0) mbar_arrive_cluster(EMPTY, 0);
    }
    stg_f32(a->out + rank * 128 + t, (float)(sum & 1));
    cluster_sync(); /* the first block's barrier must outlive the other's arrivals */
}
