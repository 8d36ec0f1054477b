// Fibres for the threads of a group, and the launch of a kernel on them. See lanes.h.
#include "../airamp_kernels.cu"

#include <ucontext.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <vector>

namespace {

constexpr std::size_t STACK = 256 << 10;

struct Copy {
    u8* to;
    const u8* from;
};

struct Fibre {
    ucontext_t context;
    std::vector<char> stack = std::vector<char>(STACK);
    bool done = false;
    // Begun and not done: those that belong together, and the latest, which may become more.
    std::deque<std::vector<Copy>> copies;
    std::vector<Copy> latest_copies;
};

// Lanes that wait for each other. A lane can be one meeting ahead of the others, but not two, so two slots
// per lane are enough.
struct Meeting {
    u32 arrived = 0;
    u64 number = 0;
};

struct Group {
    u32 number = 0, groups = 0, threads = 0, running = 0;
    std::vector<Fibre> fibres;
    std::vector<Meeting> warps;
    Meeting all;
    std::vector<u32> slots[2];
    ucontext_t launcher;
    const std::function<void()>* kernel = nullptr;
};

thread_local Group group;

void switch_to_next() {
    u32 from = group.running, next = from;
    do {
        next = (next + 1) % group.threads;
    } while (group.fibres[next].done && next != from);
    if (next == from) {
        if (group.fibres[from].done) setcontext(&group.launcher);
        return;
    }
    group.running = next;
    if (group.fibres[from].done) setcontext(&group.fibres[next].context);
    swapcontext(&group.fibres[from].context, &group.fibres[next].context);
}

void meet(Meeting& meeting, u32 members) {
    u64 number = meeting.number;
    if (++meeting.arrived == members) {
        meeting.arrived = 0;
        ++meeting.number;
        return;
    }
    while (meeting.number == number) switch_to_next();
}

void run_fibre() {
    (*group.kernel)();
    group.fibres[group.running].done = true;
    switch_to_next();
}

void run_group(u32 number) {
    group.number = number;
    group.running = 0;
    for (Fibre& fibre : group.fibres) {
        fibre.done = false;
        fibre.copies.clear();
        fibre.latest_copies.clear();
        getcontext(&fibre.context);
        fibre.context.uc_stack.ss_sp = fibre.stack.data();
        fibre.context.uc_stack.ss_size = fibre.stack.size();
        fibre.context.uc_link = nullptr;
        makecontext(&fibre.context, run_fibre, 0);
    }
    swapcontext(&group.launcher, &group.fibres[0].context);
}

void launch(u32 groups, u32 threads, const std::function<void()>& kernel) {
    group.groups = groups;
    group.threads = threads;
    group.kernel = &kernel;
    group.fibres.resize(threads);
    group.warps.assign(threads / WARP, Meeting());
    group.all = Meeting();
    for (auto& slots : group.slots) slots.assign(threads, 0);
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
