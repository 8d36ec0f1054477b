// Fibres for the threads of a group, and the launch of a kernel on them. See lanes.h.
#include "../airamp_kernels.cu"

#include <ucontext.h>

#include <algorithm>
#include <functional>
#include <vector>

namespace {

constexpr std::size_t STACK = 256 << 10;

struct Fibre {
    ucontext_t context;
    std::vector<char> stack = std::vector<char>(STACK);
    bool done = false;
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

// One launcher per kernel, with its arguments behind those of the grid.
#define LAUNCHER(kernel, PARAMETERS, ARGUMENTS)                                                              \
    extern "C" void launch_##kernel PARAMETERS {                                                             \
        launch(groups, threads, [&] { kernel ARGUMENTS; });                                                  \
    }
#define LAUNCHERS(T)                                                                                         \
    LAUNCHER(airamp_quantise_##T,                                                                            \
             (u32 groups, u32 threads, const void* input, u64 count, void* packets, u64 stride, u64 blocks,  \
              u32 format, AirampStats* stats),                                                               \
             (input, count, packets, stride, blocks, format, stats))                                         \
    LAUNCHER(airamp_dequantise_##T,                                                                          \
             (u32 groups, u32 threads, const void* packets, u64 stride, u64 blocks, u64 count, u32 format,   \
              void* output),                                                                                 \
             (packets, stride, blocks, count, format, output))                                               \
    LAUNCHER(airamp_dequantise_sum_##T,                                                                      \
             (u32 groups, u32 threads, const void* packets, u64 stride, u32 ranks, u64 count, u32 format,    \
              u32 average, void* output),                                                                    \
             (packets, stride, ranks, count, format, average, output))                                       \
    LAUNCHER(airamp_reduce_##T,                                                                              \
             (u32 groups, u32 threads, const void* packets, u64 stride, u32 ranks, u64 count, u32 format,    \
              u32 average, void* out_packet, AirampStats* stats),                                            \
             (packets, stride, ranks, count, format, average, out_packet, stats))
LAUNCHERS(f16)
LAUNCHERS(bf16)
LAUNCHERS(f32)
