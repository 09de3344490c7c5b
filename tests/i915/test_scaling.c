/* A copy over N engines takes 1/N of the time, and the engines of a set end together: judged by
 * what the device records of them, so that a busy machine changes nothing. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "host.h"

#include <sys/wait.h>

#define MBPS 200

/* Recorded of the newest batch of each copy engine. */
struct record {
    uint64_t completed, began, due;
};

static void read_records(struct record *record, unsigned count)
{
    unsigned i;

    pthread_mutex_lock(&host.soft->lock);
    for (i = 0; i < count; i++) {
        const struct zr_soft_engine *e =
            zr_soft_engine_find(host.soft, I915_ENGINE_CLASS_COPY, i);

        record[i] = (struct record){e->completed, e->began_ns, e->due_ns};
    }
    pthread_mutex_unlock(&host.soft->lock);
}

/* Time that the model gave the set of @a width engines that ran last: until the last one ended.
 * @param overlap_p did all of them run at one moment? */
static uint64_t set_time(const struct record *before, const struct record *now, unsigned engines,
                         unsigned width, bool *overlap_p, double *balance_p)
{
    uint64_t longest = 0, sum = 0, began = 0, due = UINT64_MAX, time;
    unsigned i, ran = 0;

    for (i = 0; i < engines; i++) {
        if (now[i].completed == before[i].completed) {
            continue;
        }
        ran++;
        time    = now[i].due - now[i].began;
        longest = ZR_MAX(longest, time);
        sum += time;
        began = ZR_MAX(began, now[i].began);
        due   = ZR_MIN(due, now[i].due);
    }
    CHECK(ran == width, "%u engines ran", ran);
    *overlap_p = began < due;
    *balance_p = (double)longest * ran / (double)sum;
    return longest;
}

/* 64 MiB over 1, 2, 4 and 8 engines. */
static void test_scaling(void)
{
    enum { SIZE = 64 << 20, ENGINES = 8 };
    struct zr_i915  *dev = host_start(HOST_BACKPORTS_PVC "submission = guc\ncopy_engines = 8\n",
                                      MBPS);
    struct host_bo   a = host_bo(dev, SIZE, ZR_PLACE_DEVICE), b = host_bo(dev, SIZE, ZR_PLACE_DEVICE);
    struct zr_copyq *q = NULL;
    struct record    before[ENGINES], now[ENGINES];
    uint64_t         one = 0, time;
    unsigned         width;
    double           balance;
    bool             overlap;

    for (width = 1; width <= ENGINES; width *= 2) {
        OK(zr_copyq_create(dev, width, &q));
        CHECK(zr_copyq_width(q) == width, "width %u", zr_copyq_width(q));
        read_records(before, ENGINES);
        OK(zr_copyq_wait(q, host_copy(q, &b, 0, &a, 0, SIZE), FOREVER));
        read_records(now, ENGINES);
        time = set_time(before, now, ENGINES, width, &overlap, &balance);
        one  = width == 1 ? time : one;
        CHECK(overlap, "width %u: an engine began when another had ended", width);
        CHECK((double)one >= 0.9 * width * (double)time, "width %u: %.2f times as fast", width,
              (double)one / (double)time);
        printf("%u engines: %.2f times as fast as one, longest/mean %.4f\n", width,
               (double)one / (double)time, balance);
        zr_copyq_destroy(q);
    }
    host_bo_free(&a);
    host_bo_free(&b);
    host_stop(dev);
}

/* Objects of unequal lengths on both sides, cut where they end. */
static unsigned unequal(struct zr_i915 *dev, struct host_bo *bo, struct zr_seg *seg,
                        unsigned most, uint64_t length, uint64_t low, uint64_t high)
{
    unsigned count = 0;
    uint64_t done = 0, part;

    while (done < length) {
        part = low + (uint64_t)rand() % (high - low + 1);
        part = count + 1 == most || part > length - done ? length - done : part;
        bo[count]  = host_bo(dev, part + 5000, ZR_PLACE_DEVICE);
        seg[count] = (struct zr_seg){bo[count].bo, (uint64_t)rand() % 5000, part};
        done += part;
        count++;
    }
    return count;
}

static const struct {
    const char *what;
    uint64_t    length, low[2], high[2]; /* lengths of objects: destination, source */
} mixes[] = {
    {"4 MiB, one object each", 4 << 20, {4 << 20, 4 << 20}, {4 << 20, 4 << 20}},
    {"4 MiB, large and middling", 4 << 20, {200 << 10, 1 << 20}, {2 << 20, 4 << 20}},
    {"4 MiB + 13, odd ones", (4 << 20) + 13, {100001, 300003}, {700007, 2 << 20}},
    {"6 MiB, many", 6 << 20, {64 << 10, 128 << 10}, {256 << 10, 512 << 10}},
    {"16 MiB, a few", 16 << 20, {1 << 20, 2 << 20}, {8 << 20, 9 << 20}},
};

/* longest over mean of the engines' times */
static void test_balance(const char *what, const char *text)
{
    enum { ENGINES = 9, MOST = 128 };
    struct zr_i915       *dev = host_start(text, MBPS);
    static struct host_bo bo[2][MOST];
    static struct zr_seg  seg[2][MOST];
    struct record         before[ENGINES], now[ENGINES];
    struct zr_copyq      *q = NULL;
    unsigned              m, side, i, count[2];
    uint64_t              seqno = 0;
    double                balance, worst = 0;
    bool                  overlap;

    OK(zr_copyq_create(dev, 0, &q));
    for (m = 0; m < ZR_ARRAY_SIZE(mixes); m++) {
        for (side = 0; side < 2; side++) {
            count[side] = unequal(dev, bo[side], seg[side], MOST, mixes[m].length,
                                  mixes[m].low[side], mixes[m].high[side]);
        }
        read_records(before, ENGINES);
        zr_copyq_begin(q);
        OK(zr_copyq_copy(q, seg[0], count[0], seg[1], count[1], mixes[m].length));
        OK(zr_copyq_submit(q, &seqno));
        OK(zr_copyq_wait(q, seqno, FOREVER));
        read_records(now, ENGINES);
        (void)set_time(before, now, ENGINES, zr_copyq_width(q), &overlap, &balance);
        CHECK(balance <= 1.05, "%s, %s: longest/mean %.4f", what, mixes[m].what,
              balance);
        worst = ZR_MAX(worst, balance);
        for (side = 0; side < 2; side++) {
            for (i = 0; i < count[side]; i++) {
                host_bo_free(&bo[side][i]);
            }
        }
    }
    printf("%s: longest/mean at most %.4f\n", what, worst);
    zr_copyq_destroy(q);
    host_stop(dev);
}

/* The environment is read once in a process: each case has one of its own. */
static unsigned in_child(const char *rates)
{
    int   status = 1;
    pid_t pid;

    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        bad = 0;
        if (rates != NULL) {
            setenv("ZERANGE_ENGINE_RATES", rates, 1);
            test_balance("unequal engines",
                         HOST_BACKPORTS_PVC "submission = guc\ncopy_engines = 9\n"
                                            "copy_rates = 400 100 200 200 300 100 100 200 400\n");
        } else {
            test_scaling();
            test_balance("equal engines",
                         HOST_BACKPORTS_PVC "submission = guc\ncopy_engines = 9\n");
        }
        fflush(stdout);
        _exit(bad != 0);
    }
    waitpid(pid, &status, 0);
    return status != 0;
}

int main(void)
{
    unsigned failed;

    srand(11);
    failed = in_child(NULL) + in_child("4,1,2,2,3,1,1,2,4");
    printf("%u wrong\n", failed);
    return failed != 0;
}
