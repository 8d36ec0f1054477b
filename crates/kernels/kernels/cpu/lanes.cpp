// Fibres for the threads of a group, and the launch of a kernel on them. See lanes.h.
#include "../airamp_kernels.cu"

#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <numeric>
#include <vector>

namespace {

constexpr std::size_t STACK = 256 << 10;

struct Copy {
    u8* to;
    const u8* from;
};

// Lanes that wait for each other. A lane can be one meeting ahead of the others, but not two, so two slots
// per lane are enough.
struct Meeting {
    u32 arrived = 0;
    u64 number = 0;
};

struct Fibre {
    ucontext_t context;
    std::vector<char> stack = std::vector<char>(STACK);
    bool done = false;
    // It waits until this meeting has another number.
    const Meeting* awaited = nullptr;
    u64 number = 0;
    // Begun and not done: those that belong together, and the latest, which may become more.
    std::deque<std::vector<Copy>> copies;
    std::vector<Copy> latest_copies;

    bool can_go() const { return !done && (awaited == nullptr || awaited->number != number); }
};

struct Group {
    u32 number = 0, groups = 0, threads = 0, running = 0;
    std::vector<Fibre> fibres;
    std::vector<Meeting> warps;
    Meeting all;
    std::vector<u32> slots[2];
    ucontext_t launcher;
    const std::function<void()>* kernel = nullptr;
    // When one waits, the first of these that can goes on: one warp may be far ahead of another.
    std::vector<u32> order;
};

thread_local Group group;
thread_local Turns turns = FORWARD;

void draw_order() {
    std::vector<u32>& order = group.order;
    order.resize(group.threads);
    std::iota(order.begin(), order.end(), 0);
    if (turns == BACKWARD) std::reverse(order.begin(), order.end());
    // The same numbers everywhere, which std::shuffle does not promise.
    u64 number = 1;
    for (u32 left = group.threads; turns == SHUFFLED && left > 1; --left) {
        number = number * 6364136223846793005u + 1442695040888963407u;
        std::swap(order[left - 1], order[(number >> 33) % left]);
    }
}

bool all_done() {
    return std::all_of(group.fibres.begin(), group.fibres.end(), [](const Fibre& one) { return one.done; });
}

void switch_to_next() {
    Fibre& from = group.fibres[group.running];
    auto next = std::find_if(group.order.begin(), group.order.end(),
                             [](u32 thread) { return group.fibres[thread].can_go(); });
    if (next == group.order.end()) {
        if (all_done()) setcontext(&group.launcher);
        std::fputs("all threads of a group wait for each other\n", stderr);
        std::abort();
    }
    group.running = *next;
    if (from.done) setcontext(&group.fibres[*next].context);
    swapcontext(&from.context, &group.fibres[*next].context);
}

void meet(Meeting& meeting, u32 members) {
    u64 number = meeting.number;
    if (++meeting.arrived == members) {
        meeting.arrived = 0;
        ++meeting.number;
        return;
    }
    Fibre& own = group.fibres[group.running];
    own.awaited = &meeting;
    own.number = number;
    switch_to_next();
    own.awaited = nullptr;
}

void run_fibre() {
    (*group.kernel)();
    group.fibres[group.running].done = true;
    switch_to_next();
}

void run_group(u32 number) {
    group.number = number;
    group.running = group.order[0];
    for (Fibre& fibre : group.fibres) {
        fibre.done = false;
        fibre.awaited = nullptr;
        fibre.copies.clear();
        fibre.latest_copies.clear();
        getcontext(&fibre.context);
        fibre.context.uc_stack.ss_sp = fibre.stack.data();
        fibre.context.uc_stack.ss_size = fibre.stack.size();
        fibre.context.uc_link = nullptr;
        makecontext(&fibre.context, run_fibre, 0);
    }
    swapcontext(&group.launcher, &group.fibres[group.running].context);
}

void launch(u32 groups, u32 threads, const std::function<void()>& kernel) {
    group.groups = groups;
    group.threads = threads;
    group.kernel = &kernel;
    group.fibres.resize(threads);
    group.warps.assign(threads / WARP, Meeting());
    group.all = Meeting();
    for (auto& slots : group.slots) slots.assign(threads, 0);
    draw_order();
    for (u32 number = 0; number < groups; ++number) run_group(number);
}

}  // namespace

u32 thread_in_group() { return group.running; }
u32 threads_in_group() { return group.threads; }
u32 group_in_grid() { return group.number; }
u32 groups_in_grid() { return group.groups; }
void wait_for_group() { meet(group.all, group.threads); }
void wait_for_warp() { meet(group.warps[thread_in_group() / WARP], WARP); }

// What the lanes of one's warp have given, when all of them have.
static const u32* values_of_warp(u32 value) {
    u32 warp = thread_in_group() / WARP;
    auto& slots = group.slots[group.warps[warp].number % 2];
    slots[thread_in_group()] = value;
    wait_for_warp();
    return &slots[warp * WARP];
}

u32 value_of_lane(u32 value, u32 lane) { return values_of_warp(value)[lane]; }

bool any_in_warp(bool value) {
    const u32* values = values_of_warp(value);
    return std::any_of(values, values + WARP, [](u32 given) { return given != 0; });
}

u32 votes_in_warp(bool value) {
    const u32* values = values_of_warp(value);
    u32 votes = 0;
    for (u32 lane = 0; lane < WARP; ++lane) votes |= (values[lane] != 0) << lane;
    return votes;
}

static void copy(const Copy& copy) { std::memcpy(copy.to, copy.from, sizeof(Words4)); }

void begin_copy(u8* shared, const u8* from, bool wanted) {
    if (!wanted) return;
    if ((thread_in_group() + thread_in_group() / WARP) % 2 == 0) copy({shared, from});
    else group.fibres[group.running].latest_copies.push_back({shared, from});
}

void end_of_copies() {
    Fibre& own = group.fibres[group.running];
    own.copies.push_back(std::move(own.latest_copies));
    own.latest_copies.clear();
}

void wait_for_all_copies_but(u32 latest) {
    auto& copies = group.fibres[group.running].copies;
    for (; copies.size() > latest; copies.pop_front())
        std::for_each(copies.front().begin(), copies.front().end(), copy);
}

// For the launches to come of the thread that asks.
extern "C" void airamp_take_turns(Turns order) { turns = order; }

// One launcher per kernel, with its arguments behind those of the grid.
#define LAUNCH_QUANTISE(Format, Element, format, T)                                                          \
    extern "C" void launch_airamp_quantise_##T##_##format(                                                   \
        u32 groups, u32 threads, const void* input, u64 count, void* packets, u64 packet_stride,             \
        u64 blocks_per_packet, u64 call, u64 part, AirampStats* stats) {                                     \
        launch(groups, threads, [&] { airamp_quantise_##T##_##format(input, count, packets, packet_stride,   \
                                                                     blocks_per_packet, call, part, stats); });\
    }
EACH_FORMAT_AND_TYPE(LAUNCH_QUANTISE)
#define LAUNCH_DEQUANTISE(Format, Element, format, T)                                                        \
    extern "C" void launch_airamp_dequantise_##T##_##format(                                                 \
        u32 groups, u32 threads, const void* packets, u64 packet_stride, u64 blocks_per_packet, u64 count,   \
        u64 call, u64 part, void* output, AirampStats* stats) {                                              \
        launch(groups, threads, [&] { airamp_dequantise_##T##_##format(packets, packet_stride,               \
                                                                       blocks_per_packet, count, call,       \
                                                                       part, output, stats); });             \
    }
EACH_FORMAT_AND_TYPE(LAUNCH_DEQUANTISE)
#define LAUNCH_DEQUANTISE_SUM(Format, Element, format, T)                                                    \
    extern "C" void launch_airamp_dequantise_sum_##T##_##format(                                             \
        u32 groups, u32 threads, const void* packets, u64 packet_stride, u32 ranks, u64 count, u32 average,  \
        u64 call, u64 part, void* output, AirampStats* stats) {                                              \
        launch(groups, threads, [&] { airamp_dequantise_sum_##T##_##format(packets, packet_stride, ranks,    \
                                                                           count, average, call, part,       \
                                                                           output, stats); });               \
    }
EACH_FORMAT_AND_TYPE(LAUNCH_DEQUANTISE_SUM)
#define LAUNCH_REDUCE(Format, Element, format, T)                                                            \
    extern "C" void launch_airamp_reduce_##T##_##format(                                                     \
        u32 groups, u32 threads, const void* packets, u64 packet_stride, u32 ranks, u64 count, u32 average,  \
        u64 call, u64 part, u64 out_call, u64 out_part, void* out_packet, AirampStats* stats) {              \
        launch(groups, threads, [&] { airamp_reduce_##T##_##format(packets, packet_stride, ranks, count,     \
                                                                   average, call, part, out_call, out_part,  \
                                                                   out_packet, stats); });                   \
    }
EACH_FORMAT_AND_TYPE(LAUNCH_REDUCE)
