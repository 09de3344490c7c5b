/* openucx/ucx 11753, open-mpi/ompi 12849, hip 3886: what an importer had open stayed allocated until it
 * ended. The exporter frees all, a part, or dies; an importer that does nothing at all, not even
 * progress, has let go within a bound; what was not freed is still read right, by the old key. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "zepair.h"

/* Rank 1 waits without UCX. */
static void told(void)
{
    char c = 1;

    if (pair.rank == 0) {
        pair_write(&c, 1);
    } else {
        pair_read(&c, 1);
    }
}

static void read_checked(struct zebuf *mine, const struct zp_key *key, size_t offset, unsigned seed,
                         const char *what)
{
    zebuf_fill(mine, 77);
    UCS(zp_get(key, mine->ptr, MIB, key->remote + offset));
    if (zebuf_check(mine, 0, MIB, offset, seed, 77) != 0) {
        FAIL("%s: wrong bytes", what);
    }
}

static void expect_objects(uint64_t want, const char *what)
{
    double      give_up = zp_seconds() + 10;
    zr_counts_t counts;

    while (zp_counts(&counts) && counts.imported_objects > want) {
        if (zp_seconds() > give_up) {
            FAIL("%s: %lu objects of the peer are open, expected %lu", what,
                 (unsigned long)counts.imported_objects, (unsigned long)want);
        }
        usleep(1000);
    }
}

static void body(void)
{
    struct zp_key key;
    struct zebuf  buf, mine;

    zp_start();
    zebuf_need_staging(4 * MIB);
    zebuf_map(&mine, 1, MIB, NULL);
    if (pair.rank == 0) {
        zebuf_map(&buf, 4, MIB, NULL);
        zebuf_fill(&buf, 3);
    }
    /* A part goes: the registration of the rest still serves. */
    zp_share(buf.ptr, MIB, &key);
    if (pair.rank == 1) {
        read_checked(&mine, &key, 0, 3, "before");
        pair_meet();
        told();
        expect_objects(0, "a neighbour was freed");
        read_checked(&mine, &key, 0, 3, "after a neighbour was freed");
        expect_objects(3, "after the rest was opened again");
        pair_meet();
    } else {
        pair_meet();
        ZE(zeVirtualMemUnmap(zebuf_ze.context, buf.ptr + 3 * MIB, MIB));
        ZE(zePhysicalMemDestroy(zebuf_ze.context, buf.phys[3]));
        told();
        pair_meet();
    }
    /* All goes, under a registration that is still there. */
    if (pair.rank == 0) {
        unsigned k;

        for (k = 0; k < 3; k++) {
            ZE(zeVirtualMemUnmap(zebuf_ze.context, buf.ptr + k * MIB, MIB));
            ZE(zePhysicalMemDestroy(zebuf_ze.context, buf.phys[k]));
        }
        ZE(zeVirtualMemFree(zebuf_ze.context, buf.ptr, 4 * MIB));
        told();
    } else {
        told();
        expect_objects(0, "all was freed");
        zp_expect_no_imports("all was freed");
    }
    pair_meet();
    zp_unshare(&key);
    pair_stop_ucx();
    zebuf_unmap(&mine);
}

int main(int argc, char **argv)
{
    unsigned which;

    pair_enter(body, &which);
    return pair_run(argv[0], 0, 60);
}
